//! Language servers: one for each root and kind of file, started on demand, ended with their workspace.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::{AbortOnDropHandle, TaskTracker},
};
use windlass_base::{blocking::blocking, lock::lock};
use windlass_core::config::Config;

mod choice;
mod client;
mod connection;
mod documents;
mod language;
mod pace;
mod reply;
mod table;

use choice::{Choice, Lookup, Spec};
pub use choice::{Program, definitions, every_program, incomplete, is_off, programs};
use client::{Client, End, LIMITS, Limits, Phase};

/// Number of starts of a server that ends after it was ready; after that it stays ended until the configuration
/// changes.
const MAX_STARTS: u32 = 3;
/// The note about a server that will not be started again.
const GAVE_UP: &str = "\nIt is not started again until the configuration changes.";
/// Maximum number of servers of one directory; another one replaces the least recently used.
const MAX_SERVERS: usize = 16;

/// A request to a language server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    GoToDefinition,
    FindReferences,
    Hover,
    DocumentSymbol,
    WorkspaceSymbol,
    GoToImplementation,
    PrepareCallHierarchy,
    IncomingCalls,
    OutgoingCalls,
}

impl Operation {
    /// Returns the name that models use.
    pub fn name(self) -> &'static str {
        match self {
            Self::GoToDefinition => "goToDefinition",
            Self::FindReferences => "findReferences",
            Self::Hover => "hover",
            Self::DocumentSymbol => "documentSymbol",
            Self::WorkspaceSymbol => "workspaceSymbol",
            Self::GoToImplementation => "goToImplementation",
            Self::PrepareCallHierarchy => "prepareCallHierarchy",
            Self::IncomingCalls => "incomingCalls",
            Self::OutgoingCalls => "outgoingCalls",
        }
    }
}

/// A question about a place in a file.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    pub operation: Operation,
    /// The path with every link followed.
    pub path: &'a Path,
    /// The line, from 0.
    pub line: u64,
    /// The character, from 0, in UTF-16 code units.
    pub character: u64,
    /// The search text of [`Operation::WorkspaceSymbol`].
    pub query: &'a str,
}

/// The reason for a question without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// No server takes the file; with advice.
    #[error("No LSP server available for this file type.\n{0}")]
    NoServer(String),
    /// The failures of all servers that were asked.
    #[error("{0}")]
    Failed(String),
}

/// The language servers of a directory.
///
/// Dropping it ends them in the background; [`Servers::close`] waits for that.
pub struct Servers {
    clients: Mutex<Clients>,
    tasks: TaskTracker,
    /// Called whenever a server is ready or has ended.
    on_change: Arc<dyn Fn() + Send + Sync>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

/// A server's word on a changed file that has not come in time; dropping it gives it up.
pub struct Later {
    /// The file that was changed.
    pub path: PathBuf,
    task: AbortOnDropHandle<BTreeMap<String, Vec<Value>>>,
}

impl Later {
    /// Returns true once the server has told of the change, or will not any more.
    pub fn has_come(&self) -> bool {
        self.task.is_finished()
    }

    /// Returns the diagnostics of the file; none before they have come.
    pub fn take(self) -> Vec<Value> {
        let found = self.task.now_or_never().and_then(Result::ok);
        let of_file = documents::url(&self.path).and_then(|uri| found?.remove(&uri));
        of_file.unwrap_or_default()
    }
}

/// The servers by root and id.
type Clients = BTreeMap<(PathBuf, String), Leased>;

/// A running server; it stops when the last handle is dropped. Its task holds the client, not a handle.
#[derive(Clone)]
struct Leased {
    client: Arc<Client>,
    n_starts: u32,
    /// The time of the last question, as a count.
    used: u64,
    _stop: Arc<DropGuard>,
}

impl Leased {
    fn is_running(&self) -> bool {
        match self.client.phase() {
            Phase::Starting | Phase::Ready => true,
            Phase::Ended { .. } => false,
        }
    }

    /// Returns true if the server must not be started again, because it would end as before.
    fn gave_up(&self) -> bool {
        match self.client.phase() {
            Phase::Starting | Phase::Ready | Phase::Ended { how: End::NotStarted, .. } => false,
            Phase::Ended { how: End::NotReady, .. } => true,
            Phase::Ended { how: End::WasReady, .. } => self.n_starts >= MAX_STARTS,
        }
    }
}

impl Default for Servers {
    fn default() -> Self {
        Self::new(|| {})
    }
}

impl Servers {
    /// Calls `on_change` whenever a server is ready or has ended.
    pub fn new(on_change: impl Fn() + Send + Sync + 'static) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.close();
        let _stop_on_drop = stop.clone().drop_guard();
        Self { clients: Mutex::default(), tasks, on_change: Arc::new(on_change), stop, _stop_on_drop }
    }

    /// Asks the servers for the file's kind, and starts those that are not running.
    ///
    /// Must be called within the runtime. May be dropped, which cancels the requests at the servers.
    pub async fn ask(&self, config: &Config, question: &Question<'_>) -> Result<Vec<Value>, AskError> {
        let definitions = definitions(config);
        if definitions.is_empty() {
            let hint =
                "Language servers are switched off: `\"lsp\": true` in opencode.json switches them on.";
            return Err(AskError::NoServer(hint.to_owned()));
        }
        let (lookup, path) = (Lookup::of(config), question.path.to_owned());
        let Choice { specs, missing } = blocking(move || choice::choose(&lookup, definitions, &path)).await;
        if specs.is_empty() {
            return Err(AskError::NoServer(hint(&missing)));
        }
        let leased: Vec<Leased> = specs.into_iter().map(|spec| self.lease(spec)).collect();
        let asked = leased.iter().map(|leased| async {
            let failed = |error: String| {
                let left = if leased.gave_up() { GAVE_UP } else { "" };
                format!("The language server {} {error}{left}", leased.client.spec.definition.id)
            };
            ask(&leased.client, question).await.map_err(failed)
        });
        let mut results = Vec::new();
        let mut failures = Vec::new();
        for outcome in join_all(asked).await {
            match outcome {
                Ok(found) => results.extend(found),
                Err(failure) => failures.push(failure),
            }
        }
        if question.operation == Operation::WorkspaceSymbol {
            // As in OpenCode, every running server is asked, for any kind of files.
            let others = self.others(&leased);
            let others = others.iter().map(|other| other.client.ask(question));
            results.extend(join_all(others).await.into_iter().flatten().flatten());
        }
        if results.is_empty() && !failures.is_empty() {
            Err(AskError::Failed(failures.join("\n")))
        } else {
            Ok(results)
        }
    }

    /// Gives the servers of changed files their new texts; returns the diagnostics of these files and of others, by path,
    /// and those that are still to come.
    ///
    /// Starts servers that do not run, and waits a moment for one that is starting; for the others some seconds at most.
    pub async fn diagnose(
        &self,
        config: &Config,
        changed: &[PathBuf],
    ) -> (BTreeMap<PathBuf, Vec<Value>>, Vec<Later>) {
        let mut waiting = Vec::new();
        for path in changed {
            let leased = self.take(config, path).await;
            waiting.extend(leased.into_iter().map(|leased| in_time(leased.client, path.clone())));
        }
        let mut found: BTreeMap<PathBuf, Vec<Value>> = BTreeMap::new();
        let mut late = Vec::new();
        for outcome in join_all(waiting).await {
            let Outcome { found: of_server, later } = outcome;
            late.extend(later);
            for (uri, diagnostics) in of_server {
                let path = reqwest::Url::parse(&uri).ok().and_then(|url| url.to_file_path().ok());
                let Some(path) = path.filter(|_| !diagnostics.is_empty()) else { continue };
                let known = found.entry(path).or_default();
                // Two files may have one server, which is asked twice.
                let new = diagnostics.into_iter().filter(|it| !known.contains(it));
                let new: Vec<Value> = new.collect();
                known.extend(new);
            }
        }
        (found, late)
    }

    /// Starts the servers for a file that do not run; does not wait for them.
    pub async fn start(&self, config: &Config, path: &Path) {
        self.take(config, path).await;
    }

    async fn take(&self, config: &Config, path: &Path) -> Vec<Leased> {
        let definitions = definitions(config);
        if !definitions.iter().any(|definition| definition.takes(path)) {
            return Vec::new();
        }
        let (lookup, path) = (Lookup::of(config), path.to_owned());
        let Choice { specs, .. } = blocking(move || choice::choose(&lookup, definitions, &path)).await;
        specs.into_iter().map(|spec| self.lease(spec)).collect()
    }

    /// Asks the running servers for symbols by a part of their names.
    pub async fn symbols(&self, directory: &Path, name: &str) -> Vec<Value> {
        let operation = Operation::WorkspaceSymbol;
        let question = Question { operation, path: directory, line: 0, character: 0, query: name };
        let running = self.others(&[]);
        let asked = running.iter().map(|leased| leased.client.ask(&question));
        join_all(asked).await.into_iter().flatten().flatten().collect()
    }

    /// Returns the id and root of each server that was started, and if it runs.
    pub fn states(&self) -> Vec<(String, PathBuf, bool)> {
        let clients = lock(&self.clients);
        clients.iter().map(|((root, id), leased)| (id.clone(), root.clone(), leased.is_running())).collect()
    }

    /// Ends the servers that are no longer configured; failed servers may be started again.
    ///
    /// One that is configured otherwise serves until the one in its place is asked for, unless its sandbox is another.
    pub fn replace(&self, config: &Config) {
        let definitions = definitions(config);
        let is_kept = |leased: &Leased| {
            let before = &leased.client.spec.definition;
            definitions.iter().any(|now| now.id == before.id && now.sandbox == before.sandbox)
        };
        lock(&self.clients).retain(|_, leased| leased.is_running() && is_kept(leased));
    }

    /// Tells the servers that a file on the disk has changed. The path must have every link followed.
    pub fn changed(&self, path: &Path) {
        for leased in lock(&self.clients).values().filter(|it| it.client.spec.definition.takes(path)) {
            leased.client.changed(path);
        }
    }

    /// Ends every server, and waits for that.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }

    /// Returns a handle to the server of a specification: the running one, or a new one.
    fn lease(&self, spec: Spec) -> Leased {
        let key = (spec.root.clone(), spec.definition.id.clone());
        let mut clients = lock(&self.clients);
        let n_uses = clients.values().map(|it| it.used).max().unwrap_or_default() + 1;
        let known = clients.get_mut(&key).filter(|it| it.client.spec == spec);
        let was_slow = known.as_ref().is_some_and(|leased| leased.client.was_slow());
        let n_starts = match known {
            Some(leased) if leased.is_running() || leased.gave_up() => {
                leased.used = n_uses;
                return leased.clone();
            }
            // A server that could not be started has not ended.
            Some(Leased { client, n_starts, .. })
                if matches!(client.phase(), Phase::Ended { how: End::NotStarted, .. }) =>
            {
                n_starts.saturating_sub(1)
            }
            Some(leased) => leased.n_starts,
            None => 0,
        };
        if clients.len() >= MAX_SERVERS
            && !clients.contains_key(&key)
            && let Some(oldest) = clients.iter().min_by_key(|(_, it)| it.used).map(|(key, _)| key.clone())
        {
            // It runs on until the pending questions are answered.
            clients.remove(&oldest);
        }
        let stop = self.stop.child_token();
        // No change waits for the start of a server that is known to be slow.
        let start = if was_slow { Duration::ZERO } else { LIMITS.start };
        let client = Arc::new(Client::new(spec, Limits { start, ..LIMITS }, stop.clone()));
        self.tasks.spawn({
            let (client, on_change) = (client.clone(), self.on_change.clone());
            async move {
                let run = client.run();
                tokio::pin!(run);
                tokio::select! {
                    biased;
                    () = &mut run => {}
                    Ok(()) = client.ready() => {
                        on_change();
                        run.await;
                    }
                }
                on_change();
            }
        });
        let _stop = Arc::new(stop.drop_guard());
        let leased = Leased { client, n_starts: n_starts + 1, used: n_uses, _stop };
        clients.insert(key, leased.clone());
        leased
    }

    fn others(&self, asked: &[Leased]) -> Vec<Leased> {
        let is_asked = |it: &Leased| asked.iter().any(|asked| Arc::ptr_eq(&asked.client, &it.client));
        let clients = lock(&self.clients);
        let others = clients.values().filter(|it| it.client.phase() == Phase::Ready && !is_asked(it));
        others.cloned().collect()
    }
}

/// Collects the URLs at any depth of an answer.
pub fn urls<'a>(answer: &'a Value, found: &mut BTreeSet<&'a str>) {
    match answer {
        Value::Object(fields) => {
            let named = ["uri", "targetUri"].into_iter().filter_map(|key| fields.get(key)?.as_str());
            found.extend(named);
            fields.values().for_each(|it| urls(it, found));
        }
        Value::Array(items) => items.iter().for_each(|it| urls(it, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A server's word on a changed file, by the files' URLs, and the rest of it.
struct Outcome {
    found: BTreeMap<String, Vec<Value>>,
    later: Option<Later>,
}

/// Waits for a server's word on a changed file for as long as the change may be held up.
async fn in_time(client: Arc<Client>, path: PathBuf) -> Outcome {
    let mut task = AbortOnDropHandle::new(tokio::spawn(client.clone().diagnose(path.clone())));
    let found = tokio::select! {
        biased;
        found = &mut task => found.unwrap_or_default(),
        () = client.patience() => {
            return Outcome { found: BTreeMap::new(), later: Some(Later { path, task }) };
        }
    };
    let uri = documents::url(&path).unwrap_or_default();
    let is_empty = found.get(&uri).is_some_and(Vec::is_empty);
    let again = || AbortOnDropHandle::new(tokio::spawn(client.diagnose_again(path.clone())));
    let task = is_empty.then(again);
    Outcome { found, later: task.map(|task| Later { path, task }) }
}

async fn ask(client: &Arc<Client>, question: &Question<'_>) -> Result<Vec<Value>, String> {
    client.ready().await.map_err(|error| error.to_string())?;
    let (opening, path) = (client.clone(), question.path.to_owned());
    let opened = tokio::task::spawn_blocking(move || opening.open(&path)).await;
    match opened {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            return Err(format!("was not asked: {} cannot be read: {error}", question.path.display()));
        }
        Err(error) => return Err(format!("was not asked: {error}")),
    }
    client.settled().await;
    client.ask(question).await.map_err(|error| error.to_string())
}

/// Explains how to get a server for a file: by installing a program, or by the configuration.
fn hint(missing: &[(&str, &str)]) -> String {
    let programs: Vec<String> =
        missing.iter().map(|(program, id)| format!("{program} (server `{id}`)")).collect();
    if programs.is_empty() {
        "None of the servers takes such files; `lsp` in opencode.json can name one: its `command` and its \
                 `extensions`."
            .to_owned()
    } else {
        format!(
            "None of the programs that could serve it is on PATH. Install one of them: {}; `windlass lsp list` says how. \
             Or name another `command` in `lsp` of opencode.json.",
            programs.join(", ")
        )
    }
}

#[cfg(test)]
mod tests;
