//! The host of a directory's plugins: a process that is supervised, started again when it ends, and asked.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::{
    net::UnixStream,
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};
use windlass_protocol::opencode::provider::UsableProviders;

pub mod login;

pub use super::process::CallRequest;
use super::{
    api::Api,
    files,
    offer::{LoadedLogin, Offer},
    plan::{Plan, Planned, Source},
    process::{Process, ReadLogin, SharedOffer},
    runtime,
};
use crate::{
    base::{
        lock::lock,
        process::{self, Child, Spawn},
        rpc_peer::{CallError, Outcome},
        stderr,
    },
    config::{Config, sandbox::enclosure::Enclosure},
};

/// The version that plugins' `engines` are compared with.
pub const OPENCODE_VERSION: &str = "1.18.33";
/// Address where no server listens, as OpenCode names it.
const NO_SERVER: &str = "http://localhost:4096";

const DEFAULT_HOOK_TIMEOUT: u64 = 30_000;
const DEFAULT_LOAD_TIMEOUT: u64 = 10_000;
/// Time for plugins to end by themselves.
const GRACE: Duration = Duration::from_secs(2);
/// Time limit for immediate consequences of a process's end.
const AFTERMATH: Duration = Duration::from_secs(1);
/// Pauses before a new start.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time after which an end counts as the first one again.
const STEADY: Duration = Duration::from_secs(60);
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
    /// Directories of installed packages, by their entries.
    pub packages: BTreeMap<String, PathBuf>,
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
}

impl fmt::Display for HookError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plugin, hook, message } = self;
        match plugin {
            Some(plugin) => write!(formatter, "the plugin {plugin} failed in its hook {hook}: {message}"),
            None => write!(formatter, "the hook {hook} of a plugin failed: {message}"),
        }
    }
}

/// The answer of a tool.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ToolAnswer {
    pub title: Option<String>,
    pub output: String,
    pub metadata: Option<Map<String, Value>>,
    pub attachments: Option<Vec<Value>>,
    /// The reason why the arguments cannot be used.
    pub invalid: Option<String>,
    /// The reason why the call failed.
    pub failed: Option<String>,
}

/// A tool call on its way.
pub struct Call {
    /// Requests of the tool.
    pub requests: mpsc::UnboundedReceiver<CallRequest>,
    pub answer: BoxFuture<'static, Result<ToolAnswer, String>>,
    process: Arc<Process>,
}

impl Call {
    /// Answers a question of the tool.
    pub fn answer_ask(&self, id: &Value, result: Result<(), String>) {
        self.process.answer(id, result);
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
        tokio::spawn(supervise(shared.clone(), stop.clone(), end.clone().drop_guard()));
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

    /// Ends when the host is ready or down, and returns true if it is ready.
    pub async fn ready(&self) -> bool {
        self.process().await.is_some()
    }

    pub fn plan(&self) -> &Plan {
        &self.shared.setup.plan
    }

    /// Returns the directories of packages that it was started with.
    pub fn packages(&self) -> &BTreeMap<String, PathBuf> {
        &self.shared.setup.packages
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

    /// Returns the reason why the host does not run.
    pub fn down(&self) -> Option<String> {
        match &*self.shared.state.borrow() {
            State::Down(reason) => Some(reason.to_string()),
            State::Starting | State::Ready(_) => None,
        }
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
        let params = json!({ "name": hook, "input": input, "output": output });
        match self.ask("hook", hook, params).await? {
            Value::Object(changed) => Ok(changed),
            _ => Ok(Map::new()),
        }
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
        let params = json!({
            "input": input, "providerID": provider, "modelID": model, "outputs": outputs,
        });
        changes(&process, &hooks, process.request("request", params, limit).await)
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
        let (requests, listening) = process.listen(&call);
        context["call"] = call.into();
        let params = json!({ "id": tool, "args": args, "context": context });
        let asked = process.clone();
        let answer = Box::pin(async move {
            let _listening = listening;
            let answer = asked.request("tool", params, CALL_LIMIT).await.map_err(|error| failure(&error))?;
            serde_json::from_value(answer).map_err(|error| format!("its result cannot be read: {error}"))
        });
        Ok(Call { requests, answer, process })
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
        let Some(process) = self.process().await else { return Ok(Value::Null) };
        changes(&process, hook, process.request(method, params, self.shared.hook_timeout()).await)
    }

    /// Returns the process once it is ready; none while it does not run.
    async fn process(&self) -> Option<Arc<Process>> {
        let mut state = self.shared.state.subscribe();
        let limit = self.shared.load_timeout();
        let settled = state.wait_for(|state| !matches!(state, State::Starting));
        match &*tokio::time::timeout(limit, settled).await.ok()?.ok()? {
            State::Ready(process) => Some(process.clone()),
            State::Starting | State::Down(_) => None,
        }
    }
}

/// Returns what a hook changed, or its failure.
fn changes(process: &Process, hook: &str, answer: Outcome) -> Result<Value, HookError> {
    let error = |plugin, hook: &str, message| HookError { plugin, hook: hook.to_owned(), message };
    let answer = answer.map_err(|it| error(process.last_plugin(), hook, failure(&it)))?;
    let answer: HookAnswer = serde_json::from_value(answer).unwrap_or_default();
    match answer.failed {
        Some(message) => Err(error(answer.plugin, answer.hook.as_deref().unwrap_or(hook), message)),
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

/// Says why a process did not load its plugins, behind its name.
fn load_failure(error: &CallError) -> String {
    match error {
        CallError::Refused { message, .. } => format!("could not load them: {message}"),
        CallError::Silent { .. } | CallError::Ended(_) => failure(error),
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

    /// Returns the plugins that have not ended the process too often.
    fn plugins(&self) -> Vec<&Planned> {
        let faults = lock(&self.faults);
        let is_sound = |it: &&Planned| faults.get(it.name()).is_none_or(|n_faults| *n_faults < MAX_FAULTS);
        self.setup.plan.plugins.iter().filter(is_sound).collect()
    }

    /// Returns the parameters of a process's first request.
    fn parameters(&self) -> Value {
        let setup = &self.setup;
        let plugin = |it: &Planned| {
            let (path, is_package) = match &it.source {
                Source::Path(path) => (path.clone(), false),
                Source::Package(_) => (setup.packages.get(&it.spec)?.clone(), true),
            };
            let name = it.name();
            Some(json!({
                "name": name, "spec": it.spec, "path": path, "isPackage": is_package, "options": it.options,
            }))
        };
        let plugins: Vec<Value> = self.plugins().into_iter().filter_map(plugin).collect();
        json!({
            "plugins": plugins,
            "tools": setup.plan.tools,
            "directory": setup.config.directory,
            "worktree": setup.config.worktree,
            "project": setup.project,
            "serverUrl": setup.server_url.as_deref().unwrap_or(NO_SERVER),
            "version": OPENCODE_VERSION,
            "loadTimeout": self.load_timeout().as_millis() as u64,
        })
    }
}

/// Keeps a process running until `stop` is cancelled.
async fn supervise(shared: Arc<Shared>, stop: CancellationToken, _end: DropGuard) {
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        let end = match run(&shared, &stop).await {
            End::Stopped => return,
            End::Failed(reason) => reason,
            End::Hopeless(reason) => {
                (shared.setup.tell)(format!("Plugins and custom tools are off: {reason}."));
                shared.state.send_replace(State::Down(reason.into()));
                return;
            }
        };
        if began.elapsed() > STEADY {
            pause = FIRST_PAUSE;
        }
        shared.state.send_replace(State::Down(format!("the host of plugins {end}").into()));
        (shared.setup.tell)(format!("The host of plugins {end}. It is started again in {pause:?}."));
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        shared.state.send_replace(State::Starting);
    }
}

/// End of a process.
enum End {
    Stopped,
    Failed(String),
    /// Another start would fail as well.
    Hopeless(String),
}

async fn run(shared: &Arc<Shared>, stop: &CancellationToken) -> End {
    let config = shared.setup.config.clone();
    let found = tokio::task::spawn_blocking(move || {
        let runtime = runtime::find(&config)?;
        let main = files::install(&config.paths.cache());
        let main = main.map_err(|error| format!("their program cannot be written to the cache: {error}"))?;
        Ok::<_, String>((runtime, main))
    });
    let (runtime, main) = match found.await {
        Ok(Ok(found)) => found,
        Ok(Err(reason)) => return End::Hopeless(reason),
        Err(error) => return End::Hopeless(error.to_string()),
    };
    let (child, channel) = match spawn(shared, &runtime, &main).await {
        Ok(started) => started,
        Err(error) => {
            let program = runtime.program.display();
            return End::Hopeless(format!("{program} cannot be started: {error}"));
        }
    };
    converse(shared, stop, child, channel).await
}

async fn spawn(
    shared: &Shared,
    runtime: &runtime::Runtime,
    main: &Path,
) -> std::io::Result<(Child, UnixStream)> {
    let config = &shared.setup.config;
    let (ours, theirs) = UnixStream::pair()?;
    // What is set for it stays in a sandbox, which leaves keys out.
    let mut environment = match shared.setup.sandbox {
        Some(_) => BTreeMap::new(),
        None => config.environment.variables.clone(),
    };
    environment.insert("BUN_BE_BUN".to_owned(), "1".to_owned());
    let spawn = Spawn {
        program: runtime.program.as_os_str(),
        args: &runtime.arguments(main),
        directory: &config.directory,
        environment: &environment,
        without: &[],
        stdin: false,
        is_parent: true,
    };
    let theirs = theirs.into_std()?.into();
    let child = match &shared.setup.sandbox {
        Some(sandbox) => sandbox.spawn_with_channel(&spawn, Some(theirs)).await?,
        None => process::spawn_with_channel(&spawn, theirs)?,
    };
    Ok((child, ours))
}

async fn converse(
    shared: &Arc<Shared>,
    stop: &CancellationToken,
    mut child: Child,
    channel: UnixStream,
) -> End {
    let last_line = Arc::new(Mutex::new(String::new()));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (of_stdout, of_stderr) = (last_line.clone(), last_line.clone());
    let mut log = AbortOnDropHandle::new(tokio::spawn(async move {
        let out = async {
            if let Some(stdout) = stdout {
                stderr::log_lines("plugins", stdout, str::to_owned, &of_stdout).await;
            }
        };
        let err = async {
            if let Some(stderr) = stderr {
                stderr::log_lines("plugins", stderr, str::to_owned, &of_stderr).await;
            }
        };
        tokio::join!(out, err);
    }));
    let process =
        Arc::new(Process::new(shared.setup.api.clone(), shared.setup.login.clone(), shared.offer.clone()));
    let ended = {
        let serving = process.serve(channel);
        let using = serve_until(shared, &process, stop);
        tokio::pin!(serving);
        tokio::select! {
            biased;
            result = using => result.err(),
            () = process.lost.cancelled() => Some("is stuck".to_owned()),
            status = child.wait() => {
                // What it said before it ended.
                let _ = tokio::time::timeout(AFTERMATH, &mut serving).await;
                Some(status.map_or_else(|error| error.to_string(), describe))
            }
            reason = &mut serving => match tokio::time::timeout(AFTERMATH, child.wait()).await {
                Ok(Ok(status)) => Some(describe(status)),
                Ok(Err(_)) | Err(_) => Some(reason),
            },
        }
    };
    let Some(reason) = ended else {
        child.end(GRACE).await;
        process.end("has ended");
        return End::Stopped;
    };
    child.end(AFTERMATH).await;
    let _ = tokio::time::timeout(AFTERMATH, &mut log).await;
    let seen = process.reason();
    let is_blamed = seen.is_some();
    let last_line = lock(&last_line).clone();
    let reason = match seen {
        Some(seen) => seen,
        None if last_line.is_empty() => reason,
        None => format!("{reason}: {last_line}"),
    };
    process.end(&reason);
    if let Some(plugin) = process.last_plugin().filter(|_| is_blamed) {
        let mut faults = lock(&shared.faults);
        let n_faults = faults.entry(plugin.clone()).or_default();
        *n_faults += 1;
        if *n_faults == MAX_FAULTS {
            (shared.setup.tell)(format!(
                "The plugin {plugin} is left out: it ended the host {MAX_FAULTS} times."
            ));
        }
    }
    End::Failed(reason)
}

fn describe(status: ExitStatus) -> String {
    format!("stopped ({status})")
}

/// Loads the plugins and lets the process be used until `stop` is cancelled.
async fn serve_until(
    shared: &Shared,
    process: &Arc<Process>,
    stop: &CancellationToken,
) -> Result<(), String> {
    let began = Instant::now();
    let loading = load(shared, process);
    tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        loaded = loading => loaded?,
    }
    *lock(&shared.started_in) = Some(began.elapsed());
    shared.state.send_replace(State::Ready(process.clone()));
    stop.cancelled().await;
    // A plugin that does not end in time is ended.
    let _ = process.request("dispose", Value::Null, GRACE).await;
    Ok(())
}

async fn load(shared: &Shared, process: &Arc<Process>) -> Result<(), String> {
    let n_plugins = u32::try_from(shared.setup.plan.plugins.len()).unwrap_or(u32::MAX);
    let limit = shared.load_timeout().saturating_mul(n_plugins.saturating_add(1));
    let answer = process.load(shared.parameters(), limit).await.map_err(|error| load_failure(&error))?;
    let offer: Offer =
        serde_json::from_value(answer).map_err(|error| format!("its plugins cannot be read: {error}"))?;
    for report in &offer.plugins {
        if let Some(error) = &report.error {
            (shared.setup.tell)(error.clone());
        }
    }
    let has_config = offer.hooks.contains("config");
    *lock(&shared.offer) = Arc::new(offer);
    let seen_config = lock(&shared.seen_config).clone().filter(|_| has_config);
    if let Some(config) = seen_config {
        // A process that was started again: its plugins prepare themselves by it.
        let _ = process.request("config", json!({ "config": config }), shared.hook_timeout()).await;
    }
    let seen_logins = lock(&shared.seen_logins).clone();
    for (params, _) in seen_logins.into_values() {
        let _ = process.request("auth/load", params, shared.hook_timeout()).await;
    }
    Ok(())
}
