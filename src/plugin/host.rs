//! The host of a directory's plugins: a process that is supervised, started again when it ends, and asked.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_protocol::opencode::provider::UsableProviders;

pub mod call;
pub mod login;
mod supervisor;

use self::call::Call;
use super::{
    api::Api,
    offer::{LoadedLogin, Offer},
    packages::Installed,
    plan::{Plan, Planned, Source},
    process::{Process, ReadLogin, SharedOffer},
};
use crate::{
    base::{
        lock::lock,
        rpc_peer::{CallError, Outcome},
    },
    config::{Config, sandbox::enclosure::Enclosure},
};

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

/// Facts of a directory that its host needs.
pub struct Setup {
    pub plan: Plan,
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

/// The host of a directory. Dropped, it ends.
pub struct Host {
    shared: Arc<Shared>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
    end: CancellationToken,
}

struct Shared {
    setup: Setup,
    state: watch::Sender<State>,
    offer: SharedOffer,
    /// The configuration that the plugins have seen, for a process that is started again.
    seen_config: Mutex<Option<Value>>,
    /// Logins that plugins have seen, by provider, for the same, and the options that they set.
    seen_logins: Mutex<BTreeMap<String, (Value, LoadedLogin)>>,
    /// Ends of the process, by the plugin that caused them.
    faults: Mutex<HashMap<String, u32>>,
    /// The time from the start of the newest process until its plugins were loaded.
    started_in: Mutex<Option<Duration>>,
}

#[derive(Clone)]
enum State {
    Starting,
    Ready(Arc<Process>),
    /// Ended for this reason at this time, and started again soon.
    Restarting(Arc<str>, Instant),
    /// Not running, for this reason.
    Down(Arc<str>),
}

/// A hook that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookError {
    /// The plugin, where it is known.
    pub plugin: Option<String>,
    pub hook: String,
    pub message: String,
    /// The message is the plugin's own.
    pub is_thrown: bool,
}

impl HookError {
    /// Returns the words for a model whose call failed by it: the plugin's own, where it threw them.
    pub fn for_model(self) -> String {
        if self.is_thrown { self.message } else { self.to_string() }
    }
}

impl fmt::Display for HookError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plugin, hook, message, .. } = self;
        match plugin {
            Some(plugin) => write!(formatter, "the plugin {plugin} failed in its hook {hook}: {message}"),
            None => write!(formatter, "the hook {hook} of a plugin failed: {message}"),
        }
    }
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

/// The model of a request, among the providers that plugins see.
#[derive(Clone, Copy)]
pub struct Shown<'a> {
    pub providers: &'a Arc<UsableProviders>,
    pub provider: &'a str,
    pub model: &'a str,
}

impl Host {
    /// Starts the host; it is ready some time later.
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

    pub fn directory(&self) -> &Path {
        &self.shared.setup.config.directory
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

    /// Returns what the plugins offer, as far as they are loaded.
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

    /// Returns the variables that plugins want set for a command or a terminal. Those of plugins in a sandbox are for
    /// commands in one alone: a variable may make any program run their code, such as `BASH_ENV`.
    pub async fn shell_variables(
        &self,
        input: Value,
        is_in_sandbox: bool,
    ) -> Result<BTreeMap<String, String>, HookError> {
        if self.sandbox().is_some() && !is_in_sandbox {
            return Ok(BTreeMap::new());
        }
        let changed = self.hook("shell.env", input, json!({ "env": {} })).await?;
        let variables = changed.get("env").and_then(Value::as_object).into_iter().flatten();
        Ok(variables.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect())
    }

    /// Calls those of a request's hooks that some plugin has, at once, and returns the changed fields of each. `outputs`
    /// are in the order of the calls.
    pub async fn request_hooks(
        &self,
        shown: Shown<'_>,
        input: Value,
        outputs: Map<String, Value>,
    ) -> Result<Value, HookError> {
        let Some(process) = self.process().await else { return Ok(Value::Null) };
        let Shown { providers, provider, model } = shown;
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
    pub async fn small_model(&self, shown: Shown<'_>) -> Result<Option<String>, HookError> {
        let Some(process) = self.process().await else { return Ok(None) };
        process.show_provider(shown.providers, shown.provider);
        let params = json!({ "providerID": shown.provider });
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
        let call = crate::base::ids::random(16);
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
    async fn process(&self) -> Option<Arc<Process>> {
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

/// Returns what a hook changed, or its failure.
fn changes(process: &Process, hook: &str, answer: Outcome) -> Result<Value, HookError> {
    let error = |plugin, hook: &str, message, is_thrown| {
        let hook = hook.to_owned();
        HookError { plugin, hook, message, is_thrown }
    };
    let answer = answer.map_err(|it| error(process.last_plugin(), hook, failure(&it), false))?;
    let answer: HookAnswer = serde_json::from_value(answer).unwrap_or_default();
    match answer.failed {
        Some(message) => Err(error(answer.plugin, answer.hook.as_deref().unwrap_or(hook), message, true)),
        None => Ok(answer.changed),
    }
}

fn failure(error: &CallError) -> String {
    match error {
        CallError::Refused { message, .. } => message.clone(),
        CallError::Silent { limit, .. } => format!("it did not answer within {limit:?}"),
        CallError::Ended(reason) => format!("the host of plugins {reason}"),
    }
}

impl Shared {
    fn hook_timeout(&self) -> Duration {
        let wanted = self.setup.config.settings.windlass.plugin.hook_timeout;
        Duration::from_millis(wanted.unwrap_or(DEFAULT_HOOK_TIMEOUT))
    }

    fn load_timeout(&self) -> Duration {
        let wanted = self.setup.config.settings.windlass.plugin.load_timeout;
        Duration::from_millis(wanted.unwrap_or(DEFAULT_LOAD_TIMEOUT))
    }

    /// Returns false for a plugin or tool file that has ended the process too often.
    fn is_sound(&self, name: &str) -> bool {
        lock(&self.faults).get(name).is_none_or(|n_faults| *n_faults < MAX_FAULTS)
    }

    fn plugins(&self) -> Vec<&Planned> {
        self.setup.plan.plugins.iter().filter(|it| self.is_sound(it.name())).collect()
    }

    /// Returns the parameters of a process's first request.
    fn parameters(&self) -> Value {
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
        let plugins: Vec<Value> = self.plugins().into_iter().filter_map(plugin).collect();
        let tools = setup.plan.tools.iter().filter(|it| self.is_sound(&it.to_string_lossy()));
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
