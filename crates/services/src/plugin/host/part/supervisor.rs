//! Keeps the process of a host running: starts it, watches it, and starts it again when it ends.

use std::{
    collections::BTreeMap,
    path::Path,
    process::ExitStatus,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{net::UnixStream, time::Instant};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};
use windlass_base::{
    blocking::blocking,
    lock::lock,
    process::{self, Child, Spawn},
    rpc_peer::CallError,
    stderr,
};

use super::{AFTERMATH, MAX_FAULTS, Shared, State, failure};
use crate::plugin::{
    files,
    offer::{self, Offer},
    process::Process,
    runtime,
};

/// Time for plugins to end by themselves.
const GRACE: Duration = Duration::from_secs(2);
/// Pauses before a new start.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time after which an end counts as the first one again.
const STEADY: Duration = Duration::from_secs(60);
/// Exit code of a program that cannot run the host and says why in its last line.
const REFUSED: i32 = 78;

/// Says why a process did not load its plugins, behind its name.
fn load_failure(error: &CallError) -> String {
    match error {
        CallError::Refused { message, .. } => format!("could not load them: {message}"),
        CallError::Silent { .. } | CallError::Ended(_) => failure(error),
    }
}

/// Keeps a process running until `stop` is cancelled.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken, _end: DropGuard) {
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        let end = match run_once(&shared, &stop).await {
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
        let reason = format!("the host of plugins {end}");
        shared.state.send_replace(State::Restarting(reason.into(), Instant::now()));
        (shared.setup.tell)(
            shared.with_hint(format!("The host of plugins {end}. It is started again in {pause:?}.")),
        );
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        // Code that the user has not accepted, or refused, must not come in by a new start.
        let plan = shared.clone();
        let changed = blocking(move || plan.setup.plan.changed()).await;
        if let Some(file) = changed {
            let file = file.display();
            let reason =
                format!("the host of plugins has ended, and {file} has changed since it was accepted");
            (shared.setup.tell)(format!(
                "Plugins and custom tools are off: {reason}. Accept the change, take it back, or start windlass anew."
            ));
            shared.state.send_replace(State::Down(reason.into()));
            wait_until_unchanged(&shared, &stop).await;
            if stop.is_cancelled() {
                return;
            }
        }
        shared.state.send_replace(State::Starting);
    }
}

/// Waits until the files of the plan are as they were accepted.
async fn wait_until_unchanged(shared: &Arc<Shared>, stop: &CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LONGEST_PAUSE) => {}
        }
        let plan = shared.clone();
        if blocking(move || plan.setup.plan.changed()).await.is_none() {
            return;
        }
    }
}

/// End of a process.
enum End {
    Stopped,
    Failed(String),
    /// Another start would fail as well.
    Hopeless(String),
}

async fn run_once(shared: &Arc<Shared>, stop: &CancellationToken) -> End {
    let (config, is_held) = (shared.setup.config.clone(), shared.setup.sandbox.is_some());
    let found = tokio::task::spawn_blocking(move || {
        let runtime = runtime::find(&config, is_held)?;
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
    // Variables that are set for it stay in a sandbox, which leaves keys out.
    let mut environment = match shared.setup.sandbox {
        Some(_) => BTreeMap::new(),
        None => config.environment.variables.clone(),
    };
    environment.insert("BUN_BE_BUN".to_owned(), "1".to_owned());
    let spawn = Spawn {
        program: runtime.program.as_os_str(),
        args: &runtime.arguments(main),
        // Bun obeys a `bunfig.toml` and an `.env` of the directory that it starts in; the host enters the project itself.
        directory: main.parent().unwrap_or(&config.directory),
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
    let mut log = log_output(shared, &mut child, &last_line);
    let process =
        Arc::new(Process::new(shared.setup.api.clone(), shared.setup.login.clone(), shared.offer.clone()));
    let mut is_refused = false;
    let mut describe = |status: ExitStatus| {
        is_refused = status.code() == Some(REFUSED);
        format!("stopped ({status})")
    };
    let ended = {
        let serving = process.serve(channel);
        let using = serve_until(shared, &process, stop);
        tokio::pin!(serving);
        tokio::select! {
            biased;
            result = using => result.err(),
            () = process.lost.cancelled() => Some("is stuck".to_owned()),
            status = child.wait() => {
                // The messages that it sent before it ended.
                let _ = tokio::time::timeout(AFTERMATH, &mut serving).await;
                Some(status.map_or_else(|error| error.to_string(), &mut describe))
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
    if is_refused && !is_blamed {
        process.end(&last_line);
        return End::Hopeless(last_line);
    }
    let reason = match seen {
        Some(seen) => seen,
        None if last_line.is_empty() => reason,
        None => format!("{reason}: {last_line}"),
    };
    process.end(&reason);
    if let Some(plugin) = process.last_plugin().filter(|_| is_blamed) {
        blame(shared, &process, &plugin);
    }
    End::Failed(reason)
}

/// Logs the lines that a host prints, and keeps the last one.
fn log_output(
    shared: &Arc<Shared>,
    child: &mut Child,
    last_line: &Arc<Mutex<String>>,
) -> AbortOnDropHandle<()> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (last_line, shared) = (last_line.clone(), shared.clone());
    AbortOnDropHandle::new(tokio::spawn(async move {
        // The host puts the plugin's name in front of the console's output.
        let flooded = |line: &str| {
            let name = line.strip_prefix('[').and_then(|line| line.split_once("] "));
            let plugin = name.map_or_else(|| "A plugin".to_owned(), |(name, _)| format!("The plugin {name}"));
            (shared.setup.tell)(format!("{plugin} prints more lines than are logged."));
        };
        let out = async {
            if let Some(stdout) = stdout {
                stderr::log_lines("plugins", stdout, str::to_owned, &last_line, flooded).await;
            }
        };
        let err = async {
            if let Some(stderr) = stderr {
                stderr::log_lines("plugins", stderr, str::to_owned, &last_line, flooded).await;
            }
        };
        tokio::join!(out, err);
    }))
}

/// Counts a fault of the plugin that ended the host, which is left out of the next one when it has too many.
fn blame(shared: &Shared, process: &Process, plugin: &str) {
    // Another start would meet the same again.
    let is_hopeless = process.lost.is_cancelled() && matches!(*shared.state.borrow(), State::Starting);
    let mut faults = lock(&shared.faults);
    let n_faults = faults.entry(plugin.to_owned()).or_default();
    *n_faults = if is_hopeless { MAX_FAULTS } else { *n_faults + 1 };
    if is_hopeless {
        (shared.setup.tell)(format!("The plugin {plugin} is left out: it is busy for ever when loaded."));
    } else if *n_faults == MAX_FAULTS {
        (shared.setup.tell)(format!(
            "The plugin {plugin} is left out: it ended the host {MAX_FAULTS} times."
        ));
    }
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
    let loaded = process.load(shared.parameters(), limit, shared.load_timeout()).await;
    let answer = loaded.map_err(|error| load_failure(&error))?;
    let mut offer: Offer =
        serde_json::from_value(answer).map_err(|error| format!("its plugins cannot be read: {error}"))?;
    let (tools, unusable) = offer::usable(offer.tools);
    offer.tools = tools;
    offer.plugins.extend(unusable);
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
