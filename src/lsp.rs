//! Language servers: one for each root and kind of file, started when they are asked, ended with their workspace.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{base::lock::lock, config::Config};

mod choice;
mod client;
mod connection;
mod documents;
mod language;
mod reply;
mod table;

use choice::{Choice, Place, Spec};
pub use choice::{Program, definitions, incomplete, programs};
use client::{Client, End, LIMITS, Phase};

/// A server that was ready and ended is started so many times, and then left alone until the configuration changes.
const MAX_STARTS: u32 = 3;
/// What is said of a server that is not started again.
const LEFT_ALONE: &str = "\nIt is not started again until the configuration changes.";
/// Servers of one directory; the one that was asked longest ago makes room for another.
const MAX_SERVERS: usize = 16;

/// What can be asked of a language server.
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
    /// What models call it.
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
    /// With every link followed.
    pub path: &'a Path,
    /// From 0.
    pub line: u64,
    /// From 0, in UTF-16 code units.
    pub character: u64,
    /// For [`Operation::WorkspaceSymbol`].
    pub query: &'a str,
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// There is no server for the file; with the way out.
    #[error("No LSP server available for this file type.\n{0}")]
    NoServer(String),
    /// What each server that was asked did instead.
    #[error("{0}")]
    Failed(String),
}

/// The language servers of a directory.
///
/// Dropping it ends them in the background; [`Servers::close`] waits for that.
pub struct Servers {
    clients: Mutex<Clients>,
    tasks: TaskTracker,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

/// By root and id.
type Clients = BTreeMap<(PathBuf, String), Leased>;

/// A server that ends when nobody has it any more. Its own task has the client only.
#[derive(Clone)]
struct Leased {
    client: Arc<Client>,
    n_starts: u32,
    /// When it was asked last, by a count.
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

    /// It would end as it did.
    fn is_left_alone(&self) -> bool {
        match self.client.phase() {
            Phase::Starting | Phase::Ready | Phase::Ended { how: End::NotStarted, .. } => false,
            Phase::Ended { how: End::NotReady, .. } => true,
            Phase::Ended { how: End::WasReady, .. } => self.n_starts >= MAX_STARTS,
        }
    }
}

impl Default for Servers {
    fn default() -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.close();
        Self { clients: Mutex::default(), tasks, _stop_on_drop: stop.clone().drop_guard(), stop }
    }
}

impl Servers {
    /// Asks the servers that the file is for, and starts those that are not running.
    ///
    /// Must be called within the runtime; may be dropped, which tells the servers.
    pub async fn ask(&self, config: &Config, question: &Question<'_>) -> Result<Vec<Value>, AskError> {
        let definitions = definitions(config);
        if definitions.is_empty() {
            let hint =
                "Language servers are switched off: `\"lsp\": true` in opencode.json switches them on.";
            return Err(AskError::NoServer(hint.to_owned()));
        }
        let (place, path) = (Place::of(config), question.path.to_owned());
        let choosing = tokio::task::spawn_blocking(move || choice::choose(&place, definitions, &path));
        let Choice { specs, missing } = choosing.await.unwrap_or_default();
        if specs.is_empty() {
            return Err(AskError::NoServer(hint(&missing)));
        }
        let leased: Vec<Leased> = specs.into_iter().map(|spec| self.lease(spec)).collect();
        let asked = leased.iter().map(|leased| async {
            let failed = |error: String| {
                let left = if leased.is_left_alone() { LEFT_ALONE } else { "" };
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
            // As OpenCode does it: of every server that runs, whatever its files are.
            let others = self.others(&leased);
            let others = others.iter().map(|other| other.client.ask(question));
            results.extend(join_all(others).await.into_iter().flatten().flatten());
        }
        match results.is_empty() && !failures.is_empty() {
            true => Err(AskError::Failed(failures.join("\n"))),
            false => Ok(results),
        }
    }

    /// Ends the servers that are configured otherwise now; what has failed may be tried again.
    pub fn replace(&self, config: &Config) {
        let definitions = definitions(config);
        lock(&self.clients)
            .retain(|_, leased| leased.is_running() && definitions.contains(&leased.client.spec.definition));
    }

    /// Tells the servers that a file on the disk is another, by its name with every link followed.
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

    /// The server for a specification: the one that runs, or a new one.
    fn lease(&self, spec: Spec) -> Leased {
        let key = (spec.root.clone(), spec.definition.id.clone());
        let mut clients = lock(&self.clients);
        let n_uses = clients.values().map(|it| it.used).max().unwrap_or_default() + 1;
        let known = clients.get_mut(&key).filter(|it| it.client.spec == spec);
        let n_starts = match known {
            Some(leased) if leased.is_running() || leased.is_left_alone() => {
                leased.used = n_uses;
                return leased.clone();
            }
            // What was not there to be started has not ended.
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
            // It goes on until what is asked now is answered.
            clients.remove(&oldest);
        }
        let stop = self.stop.child_token();
        let client = Arc::new(Client::new(spec, LIMITS, stop.clone()));
        self.tasks.spawn({
            let client = client.clone();
            async move { client.run().await }
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

/// The URLs that an answer names, wherever it does.
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

async fn ask(client: &Arc<Client>, question: &Question<'_>) -> Result<Vec<Value>, String> {
    client.ready().await.map_err(|error| error.to_string())?;
    let (opening, path) = (client.clone(), question.path.to_owned());
    let opened = tokio::task::spawn_blocking(move || opening.open(&path)).await;
    match opened {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            return Err(format!("was not asked: {} cannot be read: {error}", question.path.display()));
        }
        Err(error) => return Err(format!("was not asked: {error}")),
    }
    client.settled().await;
    client.ask(question).await.map_err(|error| error.to_string())
}

/// How a file gets a server: by a program, or by the configuration.
fn hint(missing: &[(&str, &str)]) -> String {
    let programs: Vec<String> =
        missing.iter().map(|(program, id)| format!("{program} (server `{id}`)")).collect();
    match programs.is_empty() {
        true => "None of the servers takes such files; `lsp` in opencode.json can name one: its `command` and its \
                 `extensions`."
            .to_owned(),
        false => format!(
            "None of the programs that could serve it is on PATH, and windlass downloads none. Install one of them: {}. \
             Or name another `command` in `lsp` of opencode.json.",
            programs.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests;
