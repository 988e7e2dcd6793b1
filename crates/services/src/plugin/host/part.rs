//! A process that runs plugins: it is supervised, started again when it ends, and asked.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

mod supervisor;

use super::{HookError, RequestModel, call::Call};
use crate::plugin::{
    api::Api,
    offer::{LoadedLogin, Offer},
    packages::Installed,
    plan::{Plan, Planned, Source},
    process::{Process, ReadLogin, SharedOffer},
};
use windlass_base::{
    lock::lock,
    rpc_peer::{CallError, Outcome},
};
use windlass_core::config::{Config, sandbox::enclosure::Enclosure};

/// The version that plugins' `engines` are compared with.
pub const OPENCODE_VERSION: &str = "1.18.33";
/// Address where no server listens, as OpenCode names it.
const NO_SERVER: &str = "http://localhost:4096";

const DEFAULT_HOOK_TIMEOUT: u64 = 30_000;
const DEFAULT_LOAD_TIMEOUT: u64 = 10_000;
/// Time limit for immediate consequences of a process's end.
const AFTERMATH: Duration = Duration::from_secs(1);
/// Hooks that may refuse a call.
const GUARDS: [&str; 2] = ["permission.ask", "tool.execute.before"];
/// Ends that a plugin may cause before it is left out.
const MAX_FAULTS: u32 = 3;
/// Time limit for a tool's call: its user cancels it.
const CALL_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The plugins and tool files of a directory that a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    All,
    /// The user's own.
    Own,
    Projects,
}

impl Share {
    fn has(self, is_projects: bool) -> bool {
        match self {
            Self::All => true,
            Self::Own => !is_projects,
            Self::Projects => is_projects,
        }
    }
}

/// Facts of a directory that a process needs.
pub struct Setup {
    /// The plan of the whole directory.
    pub plan: Plan,
    pub share: Share,
    pub config: Arc<Config>,
    /// The project as clients see it.
    pub project: Value,
    /// Answers plugins' requests.
    pub api: Option<Api>,
    /// Address of the server, if one listens.
    pub server_url: Option<String>,
    pub installed: Installed,
    /// Reads the stored login of a provider; `null` where there is none.
    pub login: ReadLogin,
    /// The sandbox of the process.
    pub sandbox: Option<Enclosure>,
    /// Tells the user a sentence.
    pub tell: Box<dyn Fn(String) + Send + Sync>,
}

/// A process and its supervisor. Dropped, it ends.
pub struct Part {
    pub(super) shared: Arc<Shared>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    end: CancellationToken,
}

pub(super) struct Shared {
    pub setup: Setup,
    pub state: watch::Sender<State>,
    pub offer: SharedOffer,
    /// The configuration that the plugins have seen, for a process that is started again.
    pub seen_config: Mutex<Option<Value>>,
    /// Logins that plugins have seen, by provider, for the same, and the options that they set.
    pub seen_logins: Mutex<BTreeMap<String, (Value, LoadedLogin)>>,
    /// Ends of the process, by the plugin that caused them.
    pub faults: Mutex<HashMap<String, u32>>,
    /// The time from the start of the newest process until its plugins were loaded.
    pub started_in: Mutex<Option<Duration>>,
    /// The user knows that variables are kept from commands outside of the sandbox.
    has_told_of_variables: AtomicBool,
}

#[derive(Clone)]
pub(super) enum State {
    Starting,
    Ready(Arc<Process>),
    /// Ended for this reason at this time, and started again soon.
    Restarting(Arc<str>, Instant),
    /// Not running, for this reason.
    Down(Arc<str>),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct HookAnswer {
    changed: Value,
    failed: Option<String>,
    plugin: Option<String>,
    /// The hook, of several.
    hook: Option<String>,
}

impl HookAnswer {
    /// Reads the answer of a process; none changes nothing.
    fn read(answer: Value) -> Result<Self, String> {
        if answer.is_null() {
            return Ok(Self::default());
        }
        serde_json::from_value(answer).map_err(|error| format!("its answer cannot be read: {error}"))
    }
}

impl Part {
    /// Starts the process; it is ready some time later.
    pub fn start(setup: Setup) -> Self {
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            setup,
            state: watch::Sender::new(State::Starting),
            offer: SharedOffer::default(),
            seen_config: Mutex::default(),
            seen_logins: Mutex::default(),
            faults: Mutex::default(),
            started_in: Mutex::default(),
            has_told_of_variables: AtomicBool::new(false),
        });
        let end = CancellationToken::new();
        tokio::spawn(supervisor::run(shared.clone(), stop.clone(), end.clone().drop_guard()));
        Self { shared, _stop_on_drop: stop.clone().drop_guard(), stop, end }
    }

    /// Ends the plugins and their process.
    pub async fn close(&self) {
        self.stop.cancel();
        self.end.cancelled().await;
    }

    /// Returns the configuration that it was started with.
    pub fn configuration(&self) -> &Config {
        &self.shared.setup.config
    }

    /// Ends when the host is ready or down, and returns true if it is ready.
    pub async fn ready(&self) -> bool {
        self.process().await.is_some()
    }

    pub fn plan(&self) -> &Plan {
        &self.shared.setup.plan
    }

    /// Returns the packages and dependencies that it was started with.
    pub fn installed(&self) -> &Installed {
        &self.shared.setup.installed
    }

    /// Returns the share of the plugins that it runs.
    pub fn share(&self) -> Share {
        self.shared.setup.share
    }

    /// Returns the sandbox that it was started in.
    pub fn sandbox(&self) -> Option<&Enclosure> {
        self.shared.setup.sandbox.as_ref()
    }

    /// Ends when the host is ready, or is known not to come up now; false after `limit`.
    pub async fn settled(&self, limit: Duration) -> bool {
        let mut state = self.shared.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Starting));
        tokio::time::timeout(limit, settled).await.is_ok()
    }

    /// Ends when the host is ready, or will not be; false after `limit`.
    pub async fn decided(&self, limit: Duration) -> bool {
        let mut state = self.shared.state.subscribe();
        let decided = state.wait_for(|state| matches!(state, State::Ready(_) | State::Down(_)));
        tokio::time::timeout(limit, decided).await.is_ok()
    }

    /// Tells the user a sentence about the plugins.
    pub fn tell(&self, sentence: String) {
        (self.shared.setup.tell)(sentence);
    }

    /// Returns the reason why the host does not run.
    pub fn down(&self) -> Option<String> {
        match &*self.shared.state.borrow() {
            State::Restarting(reason, _) | State::Down(reason) => Some(reason.to_string()),
            State::Starting | State::Ready(_) => None,
        }
    }

    /// Returns true for a plugin or tool file that ended the process so often that it is left out.
    pub fn leaves_out(&self, name: &str) -> bool {
        !self.shared.is_sound(name)
    }

    /// Returns the offer of the plugins, as far as they are loaded.
    pub fn offer(&self) -> Arc<Offer> {
        lock(&self.shared.offer).clone()
    }

    /// Returns true if some plugin has this hook.
    pub fn declares(&self, hook: &str) -> bool {
        lock(&self.shared.offer).hooks.contains(hook)
    }

    /// Calls a hook of every plugin that has it, in their order, and returns the changed fields of `output`.
    pub async fn hook(
        &self,
        hook: &str,
        input: Value,
        output: Value,
    ) -> Result<Map<String, Value>, HookError> {
        if !self.declares(hook) {
            return Ok(Map::new());
        }
        let mut params = json!({ "name": hook });
        params["input"] = input;
        params["output"] = output;
        match self.ask("hook", hook, params).await? {
            Value::Object(changed) => Ok(changed),
            _ => Ok(Map::new()),
        }
    }

    /// Calls those of a request's hooks that some plugin has, at once, and returns the changed fields of each. `outputs`
    /// are in the order of the calls.
    pub async fn request_hooks(
        &self,
        request_model: RequestModel<'_>,
        input: Value,
        outputs: Map<String, Value>,
    ) -> Result<Value, HookError> {
        let Some(process) = self.process().await else { return Ok(Value::Null) };
        let RequestModel { providers, provider, model } = request_model;
        process.show_provider(providers, provider);
        let n_hooks = u32::try_from(outputs.len()).unwrap_or(u32::MAX);
        let limit = self.shared.hook_timeout().saturating_mul(n_hooks);
        let hooks = outputs.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let mut params = json!({ "providerID": provider, "modelID": model });
        // Moved, not copied: the system prompt is large.
        params["input"] = input;
        params["outputs"] = Value::Object(outputs);
        changes(&process, &hooks, process.request("request", params, limit).await)
    }

    /// Returns the id of the provider's model that plugins want asked for small things.
    pub async fn small_model(&self, request_model: RequestModel<'_>) -> Result<Option<String>, HookError> {
        let Some(process) = self.process().await else { return Ok(None) };
        process.show_provider(request_model.providers, request_model.provider);
        let params = json!({ "providerID": request_model.provider });
        let answer = process.request("small_model", params, self.shared.hook_timeout()).await;
        let changed = changes(&process, "experimental.provider.small_model", answer)?;
        Ok(changed.get("model").and_then(Value::as_str).map(str::to_owned))
    }

    /// Lets plugins change the descriptions of tools; returns those that they changed.
    pub async fn definitions(&self, tools: Vec<Value>) -> Result<Vec<Value>, HookError> {
        const HOOK: &str = "tool.definition";
        if !self.declares(HOOK) {
            return Ok(Vec::new());
        }
        match self.ask("definitions", HOOK, json!({ "tools": tools })).await? {
            Value::Array(changed) => Ok(changed),
            _ => Ok(Vec::new()),
        }
    }

    /// Lets plugins change the configuration; with the failures of those that could not.
    pub async fn config(&self, config: Value) -> (Value, Vec<String>) {
        if !self.declares("config") {
            return (config, Vec::new());
        }
        let Some(process) = self.process().await else { return (config, Vec::new()) };
        *lock(&self.shared.seen_config) = Some(config.clone());
        let answer = process.request("config", json!({ "config": config }), self.shared.hook_timeout()).await;
        match answer {
            Ok(mut answer) => {
                let failures = answer.get("failures").and_then(Value::as_array).into_iter().flatten();
                let failure = |it: &Value| {
                    let text = |key: &str| it.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                    format!("the plugin {} failed in its hook config: {}", text("plugin"), text("message"))
                };
                let failures = failures.map(failure).collect();
                (answer.get_mut("config").map(Value::take).unwrap_or(config), failures)
            }
            Err(error) => {
                (config, vec![format!("the configuration was not shown to the plugins: the host {error}")])
            }
        }
    }

    /// Hands events to the plugins; ends when they have been taken.
    pub async fn events(&self, events: &[Value]) {
        if let Some(process) = self.process().await {
            // An event that a process did not get while it ended is lost with it.
            let _ = process.request("events", json!({ "events": events }), self.shared.hook_timeout()).await;
        }
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, args: Value, mut context: Value) -> Result<Call, String> {
        let Some(process) = self.process().await else {
            return Err(self.absence());
        };
        let call = windlass_base::ids::random(16);
        let (receivers, listening) = process.listen(&call);
        context["call"] = call.into();
        let params = json!({ "id": tool, "args": args, "context": context });
        let asked = process.clone();
        let answer = Box::pin(async move {
            let _listening = listening;
            let answer = asked.request("tool", params, CALL_LIMIT).await.map_err(|error| failure(&error))?;
            serde_json::from_value(answer).map_err(|error| format!("its result cannot be read: {error}"))
        });
        Ok(Call::new(receivers, answer, process))
    }

    /// Returns the time that the newest process took until it was ready.
    pub fn started_in(&self) -> Option<Duration> {
        *lock(&self.shared.started_in)
    }

    /// Returns the bytes of memory that the process has, while it is ready.
    pub async fn memory(&self) -> Option<u64> {
        let process = self.process().await?;
        process.request("memory", Value::Null, AFTERMATH).await.ok()?.as_u64()
    }

    /// Tells the user, once, that the variables of these plugins are kept from programs that run outside.
    pub fn tell_of_variables(&self) {
        if self.shared.has_told_of_variables.swap(true, Ordering::Relaxed) {
            return;
        }
        self.tell(
            "Plugins that run in a sandbox set variables (`shell.env`), which commands outside of it do not get; \
             `windlass.sandbox.plugins.mode` \"off\" in your own configuration runs plugins outside."
                .to_owned(),
        );
    }

    /// Sends a request of the process's own.
    pub(super) async fn request(
        &self,
        method: &'static str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, String> {
        let process = self.process().await.ok_or_else(|| self.absence())?;
        process.request(method, params, limit).await.map_err(|error| failure(&error))
    }

    pub(super) fn absence(&self) -> String {
        self.down().unwrap_or_else(|| "the host of plugins is not ready".to_owned())
    }

    pub(super) fn hook_timeout(&self) -> Duration {
        self.shared.hook_timeout()
    }

    async fn ask(&self, method: &'static str, hook: &str, params: Value) -> Result<Value, HookError> {
        let Some(process) = self.process().await else {
            // A call that a plugin may refuse is not made because it does not run.
            return if GUARDS.contains(&hook) {
                let message = self.absence();
                Err(HookError { plugin: None, hook: hook.to_owned(), message, is_thrown: false })
            } else {
                Ok(Value::Null)
            };
        };
        changes(&process, hook, process.request(method, params, self.shared.hook_timeout()).await)
    }

    /// Returns the process once it is ready, also behind a new start that comes soon; none while it does not run.
    pub(super) async fn process(&self) -> Option<Arc<Process>> {
        let mut limit = self.shared.load_timeout();
        if let State::Restarting(_, since) = &*self.shared.state.borrow() {
            // Many calls wait no longer in all than one.
            limit = limit.saturating_sub(since.elapsed());
        }
        if !self.decided(limit).await {
            return None;
        }
        match &*self.shared.state.borrow() {
            State::Ready(process) => Some(process.clone()),
            State::Starting | State::Restarting(..) | State::Down(_) => None,
        }
    }
}

/// Returns the changes of a hook, or its failure.
fn changes(process: &Process, hook: &str, answer: Outcome) -> Result<Value, HookError> {
    let error = |plugin, hook: &str, message, is_thrown| {
        let hook = hook.to_owned();
        HookError { plugin, hook, message, is_thrown }
    };
    let answer = answer.map_err(|it| error(process.last_plugin(), hook, failure(&it), false))?;
    let answer = HookAnswer::read(answer).map_err(|it| error(process.last_plugin(), hook, it, false))?;
    match answer.failed {
        Some(message) => Err(error(answer.plugin, answer.hook.as_deref().unwrap_or(hook), message, true)),
        None => Ok(answer.changed),
    }
}

pub(super) fn failure(error: &CallError) -> String {
    match error {
        CallError::Refused { message, .. } => message.clone(),
        CallError::Silent { limit, .. } => format!("it did not answer within {limit:?}"),
        CallError::Ended(reason) => format!("the host of plugins {reason}"),
    }
}

impl Shared {
    pub fn hook_timeout(&self) -> Duration {
        let wanted = self.setup.config.settings.windlass.plugin.hook_timeout;
        Duration::from_millis(wanted.unwrap_or(DEFAULT_HOOK_TIMEOUT))
    }

    pub fn load_timeout(&self) -> Duration {
        let wanted = self.setup.config.settings.windlass.plugin.load_timeout;
        Duration::from_millis(wanted.unwrap_or(DEFAULT_LOAD_TIMEOUT))
    }

    /// Returns false for a plugin or tool file that has ended the process too often.
    fn is_sound(&self, name: &str) -> bool {
        lock(&self.faults).get(name).is_none_or(|n_faults| *n_faults < MAX_FAULTS)
    }

    fn plugins(&self) -> impl Iterator<Item = &Planned> {
        let own = self.setup.plan.plugins.iter().filter(|it| self.setup.share.has(it.is_projects));
        own.filter(|it| self.is_sound(it.name()))
    }

    /// Adds to a sentence about a failure that the process runs in a sandbox that the user has not asked for.
    pub fn with_hint(&self, reason: String) -> String {
        match self.setup.sandbox.as_ref().and_then(Enclosure::hint) {
            Some(hint) => format!("{reason} ({hint})"),
            None => reason,
        }
    }

    /// Returns the parameters of a process's first request.
    pub fn parameters(&self) -> Value {
        let setup = &self.setup;
        let plugin = |it: &Planned| {
            let (path, is_package) = match &it.source {
                Source::Path(path) => (path.clone(), false),
                Source::Package(_) => (setup.installed.packages.get(&it.spec)?.clone(), true),
            };
            let name = it.name();
            Some(json!({
                "name": name, "spec": it.spec, "path": path, "isPackage": is_package, "options": it.options,
            }))
        };
        let plugins: Vec<Value> = self.plugins().filter_map(plugin).collect();
        let own = setup.plan.tools.iter().filter(|it| setup.share.has(setup.config.is_projects(it)));
        let tools = own.filter(|it| self.is_sound(&it.to_string_lossy()));
        json!({
            "plugins": plugins,
            "tools": tools.collect::<Vec<_>>(),
            "directory": setup.config.directory,
            "worktree": setup.config.worktree,
            "project": setup.project,
            "serverUrl": setup.server_url.as_deref().unwrap_or(NO_SERVER),
            "version": OPENCODE_VERSION,
            "loadTimeout": self.load_timeout().as_millis() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::HookAnswer;

    #[test]
    fn an_answer_that_cannot_be_read_is_a_failure_and_not_one_without_changes() {
        assert_eq!(HookAnswer::read(Value::Null).map(|it| it.changed), Ok(Value::Null));
        let changed = json!({"changed": {"args": 1}});
        assert_eq!(HookAnswer::read(changed).map(|it| it.changed), Ok(json!({"args": 1})));
        let error = HookAnswer::read(json!({"failed": ["no text"]})).map(|it| it.changed).unwrap_err();
        assert!(error.starts_with("its answer cannot be read: "), "{error}");
    }
}
