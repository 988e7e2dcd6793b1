//! One language server: its process, the handshake, its open files, and the questions about them.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_base::{
    lock::lock,
    process::{self, Child, Spawn},
    rpc_peer::{CallError, METHOD_NOT_FOUND},
    stderr,
};
use windlass_core::config::sandbox::enclosure::Enclosure;

use super::{
    Operation, Question,
    choice::Spec,
    connection::{Connection, MAX_DIAGNOSTICS, MAX_FILES, Published, Work, is_passing},
    documents::{self, Documents},
    pace::Pace,
};

/// The time between asking a process to end and killing it.
const GRACE: Duration = Duration::from_secs(1);
/// The time limit for immediate consequences: the answer to `shutdown`, a process's status, its last output.
const AFTERMATH: Duration = Duration::from_millis(500);
/// The delay before asking again after a server was too busy to answer.
const RETRY: Duration = Duration::from_millis(250);
/// The time without progress reports after which a server has finished reading the project.
const QUIET: Duration = Duration::from_millis(300);
/// Maximum number of workspace symbols in an answer, as in OpenCode.
const MAX_SYMBOLS: usize = 10;
/// Kinds of workspace symbols in an answer: class, method, enum, interface, function, variable, constant,
/// struct.
const SYMBOL_KINDS: [u64; 8] = [5, 6, 10, 11, 12, 13, 14, 23];

/// Time limits for a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For the handshake (facts: OpenCode §12.1).
    pub initialize: Duration,
    /// For an answer.
    pub request: Duration,
    /// Until it has looked at the first file, if it reports no progress.
    pub look: Duration,
    /// Until it has read the project, if it reports progress, and until it has told of a change at all.
    pub work: Duration,
    /// Since its start, as long as a change waits for one that is starting.
    pub start: Duration,
    /// Until it has published the diagnostics of a changed file, as long as the change waits.
    pub diagnose: Duration,
}

pub const LIMITS: Limits = Limits {
    initialize: Duration::from_secs(45),
    request: Duration::from_secs(30),
    look: Duration::from_secs(2),
    work: Duration::from_secs(60),
    start: Duration::from_millis(1500),
    diagnose: Duration::from_secs(3),
};

/// Time after which a server that has published diagnostics is taken to have published all.
const QUIET_PUBLISHER: Duration = Duration::from_millis(150);

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    Starting,
    Ready,
    Ended {
        /// The reason, as the end of a sentence.
        reason: String,
        how: End,
    },
}

/// The progress of a server before it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The process could not be started; the program may exist next time.
    NotStarted,
    NotReady,
    WasReady,
}

/// A server and its state.
pub struct Client {
    pub spec: Spec,
    limits: Limits,
    began: Instant,
    was_slow: AtomicBool,
    connection: Connection,
    phase: watch::Sender<Phase>,
    documents: Mutex<Documents>,
    /// Set after the wait for the first reading of the project.
    is_settled: AtomicBool,
    pace: Mutex<Pace>,
    /// Set once it has said that it is asked for diagnostics; with the name that it gives to its own.
    pulled: OnceLock<Option<String>>,
    pub stop: CancellationToken,
}

impl Client {
    pub fn new(spec: Spec, limits: Limits, stop: CancellationToken) -> Self {
        let root = documents::url(&spec.root).unwrap_or_default();
        Self {
            connection: Connection::new(root, spec.initialization.clone()),
            spec,
            limits,
            began: Instant::now(),
            was_slow: AtomicBool::new(false),
            phase: watch::Sender::new(Phase::Starting),
            documents: Mutex::default(),
            is_settled: AtomicBool::new(false),
            pace: Mutex::default(),
            pulled: OnceLock::new(),
            stop,
        }
    }

    pub fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    /// Starts the process and serves it until it has ended. Leaves no process behind.
    pub async fn run(&self) {
        let id = self.spec.definition.id.as_str();
        let mut child = match self.spawn().await {
            Ok(child) => child,
            Err(reason) => return self.end(reason, End::NotStarted),
        };
        let (Some(stdin), Some(stdout), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return self.end("has no pipes".to_owned(), End::NotStarted);
        };
        let last_line = Arc::new(Mutex::new(String::new()));
        let mut log = AbortOnDropHandle::new(tokio::spawn({
            let (id, last_line) = (id.to_owned(), last_line.clone());
            async move { stderr::log_lines(&id, errors, str::to_owned, &last_line, |_| ()).await }
        }));
        let reason = self.session(&mut child, stdout, stdin).await;
        child.end(GRACE).await;
        // With the group gone the pipe is at its end, unless a process outside the group has it open.
        let _ = timeout(AFTERMATH, &mut log).await;
        let last_line = lock(&last_line).clone();
        let is_told = last_line.is_empty() || self.stop.is_cancelled();
        let how = if *self.phase.borrow() == Phase::Ready { End::WasReady } else { End::NotReady };
        self.end(if is_told { reason } else { format!("{reason}: {last_line}") }, how);
    }

    async fn spawn(&self) -> Result<Child, String> {
        let Spec { definition, program, directory, sandbox, .. } = &self.spec;
        let Some((name, args)) = definition.command.split_first() else {
            return Err("has an empty command".to_owned());
        };
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let spawn = Spawn {
            program: program.as_os_str(),
            args: &args,
            directory,
            environment: &definition.environment,
            stdin: true,
            without: &[],
            is_parent: true,
        };
        let spawned = match sandbox {
            Some(sandbox) => sandbox.spawn(&spawn).await,
            None => process::spawn(&spawn),
        };
        spawned.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                format!("could not be started: install {name} or correct the command")
            }
            _ => format!("could not be started with {name}: {error}"),
        })
    }

    /// Serves the connection until one side ends it; returns the reason.
    async fn session(
        &self,
        child: &mut Child,
        stdout: impl AsyncRead + Unpin,
        stdin: impl AsyncWrite + Unpin,
    ) -> String {
        let serve = self.connection.serve(stdout, stdin);
        tokio::pin!(serve);
        let handshake = async {
            match self.initialize().await {
                Ok(()) => std::future::pending::<CallError>().await,
                Err(error) => error,
            }
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {
                let goodbye = async {
                    // Neither an answer nor its absence changes anything.
                    let _ = self.connection.request("shutdown", Value::Null, AFTERMATH).await;
                    self.connection.notify("exit", Value::Null);
                    let _ = child.wait().await;
                };
                let _ = timeout(AFTERMATH, async {
                    tokio::select! { _ = &mut serve => {}, () = goodbye => {} }
                })
                .await;
                "was ended".to_owned()
            }
            end = &mut serve => match (end, timeout(AFTERMATH, child.wait()).await) {
                (Err(error), _) => error.to_string(),
                (Ok(()), Ok(Ok(status))) => format!("stopped ({status})"),
                (Ok(()), Ok(Err(_)) | Err(_)) => "closed the connection".to_owned(),
            },
            status = child.wait() => status.map_or_else(|_| "stopped".to_owned(), |it| format!("stopped ({it})")),
            error = handshake => error.to_string(),
        }
    }

    async fn initialize(&self) -> Result<(), CallError> {
        let root = documents::url(&self.spec.root);
        // A server ends when the process is gone, and cannot see it from a namespace of its own.
        let process = self.spec.sandbox.is_none().then(std::process::id);
        let params = json!({
            "processId": process,
            "clientInfo": { "name": "windlass", "version": env!("CARGO_PKG_VERSION") },
            "rootUri": root,
            "rootPath": self.spec.root,
            "workspaceFolders": [{ "name": "workspace", "uri": root }],
            "initializationOptions": self.spec.initialization,
            "capabilities": {
                "general": { "positionEncodings": ["utf-16"] },
                "window": { "workDoneProgress": true },
                "workspace": {
                    "configuration": true,
                    "workspaceFolders": true,
                    "symbol": {},
                },
                "textDocument": {
                    "synchronization": { "didSave": false },
                    "definition": { "linkSupport": false },
                    "implementation": { "linkSupport": false },
                    "references": {},
                    "hover": { "contentFormat": ["markdown", "plaintext"] },
                    "documentSymbol": { "hierarchicalDocumentSymbolSupport": true },
                    "callHierarchy": {},
                    "publishDiagnostics": {},
                    "diagnostic": { "dynamicRegistration": false, "relatedDocumentSupport": true },
                },
            },
        });
        let answer = self.connection.request("initialize", params, self.limits.initialize).await?;
        if let Some(provider) = answer.pointer("/capabilities/diagnosticProvider").filter(|it| it.is_object())
        {
            let name = provider.get("identifier").and_then(Value::as_str).map(str::to_owned);
            // It shakes hands once.
            let _ = self.pulled.set(name);
        }
        self.connection.notify("initialized", json!({}));
        if self.spec.initialization.as_object().is_some_and(|it| !it.is_empty()) {
            let settings = json!({ "settings": self.spec.initialization });
            self.connection.notify("workspace/didChangeConfiguration", settings);
        }
        self.was_slow.store(self.began.elapsed() > self.limits.start, Ordering::Relaxed);
        self.phase.send_replace(Phase::Ready);
        Ok(())
    }

    fn end(&self, reason: String, how: End) {
        let hint = self.spec.sandbox.as_ref().filter(|_| how == End::NotReady).and_then(Enclosure::hint);
        let reason = hint.map_or_else(|| reason.clone(), |hint| format!("{reason} ({hint})"));
        let id = &self.spec.definition.id;
        if !self.stop.is_cancelled() {
            tracing::warn!(server = id, root = %self.spec.root.display(), "the language server {reason}");
        }
        self.connection.end(&reason);
        self.phase.send_replace(Phase::Ended { reason, how });
    }

    /// Waits until the server takes questions.
    pub async fn ready(&self) -> Result<(), CallError> {
        let mut phase = self.phase.subscribe();
        match phase.wait_for(|phase| *phase != Phase::Starting).await.map(|phase| phase.clone()) {
            Ok(Phase::Ended { reason, .. }) => Err(CallError::Ended(reason)),
            // `self` owns the sender, so it cannot be closed.
            Ok(Phase::Ready | Phase::Starting) | Err(_) => Ok(()),
        }
    }

    /// Gives the server the current text of a file, and the changes of its other open files. Returns the version of the
    /// text, and true if it is new to the server.
    pub fn open(&self, path: &Path) -> io::Result<(u64, bool)> {
        // Locked during the read, so that no other task can send an older text later.
        let mut documents = lock(&self.documents);
        let before = documents.version(path);
        for (method, params) in documents.refresh(path)? {
            self.connection.notify(method, params);
        }
        let now = documents.version(path);
        Ok((now.map_or(0, u64::from), now != before))
    }

    /// Waits as long as a change may be held up: for a server that is starting until a moment after its start, then for
    /// as long as its word on a change usually takes.
    pub async fn patience(&self) {
        let _ = timeout_at(self.began + self.limits.start, self.ready()).await;
        if self.phase() == Phase::Ready {
            let limit = lock(&self.pace).limit(self.limits.diagnose);
            sleep(limit).await;
            lock(&self.pace).silent();
        }
    }

    /// Returns true if it took longer to get ready than a change may be held up.
    pub fn was_slow(&self) -> bool {
        self.was_slow.load(Ordering::Relaxed)
    }

    /// Gives the server the text of a file that was changed, as soon as it takes it, and waits until it has published
    /// or answered its diagnostics. Returns those of all files that it has told of, by their URLs; none where
    /// it says nothing of this text, because those of an older one may be mended.
    pub async fn diagnose(self: Arc<Self>, path: PathBuf) -> BTreeMap<String, Vec<Value>> {
        let Some(uri) = documents::url(&path) else { return BTreeMap::new() };
        if self.ready().await.is_err() {
            return BTreeMap::new();
        }
        let mut published = self.connection.published();
        let n_times =
            |published: &BTreeMap<String, Published>| published.get(&uri).map_or(0, |it| it.n_times);
        let before = n_times(&published.borrow());
        let publishes = !published.borrow().is_empty();
        let opening = self.clone();
        let opened = tokio::task::spawn_blocking(move || opening.open(&path)).await;
        let Ok(Ok((version, is_new))) = opened else { return BTreeMap::new() };
        let is_of_text = |published: &BTreeMap<String, Published>| {
            let of_file = published.get(&uri).filter(|it| it.version.is_none_or(|it| it >= version));
            of_file.is_some_and(|it| it.n_times > before)
        };
        let began = Instant::now();
        let end = began + self.limits.work;
        // Its earlier diagnostics are about the same text.
        let mut until = if is_new { end } else { began };
        let mut told_at = None;
        let mut answer = None;
        let asking = self.pull(&uri, self.limits.work);
        tokio::pin!(asking);
        let mut is_asked = self.pulled.get().is_some();
        loop {
            tokio::select! {
                found = &mut asking, if is_asked => {
                    is_asked = false;
                    // Some publish besides, such as the findings of a compiler.
                    let more = if publishes { QUIET_PUBLISHER } else { Duration::ZERO };
                    until = if found.is_some() { end.min(Instant::now() + more) } else { until };
                    told_at = told_at.or(found.is_some().then(Instant::now));
                    answer = found;
                }
                // The sender lives as long as `self`.
                _ = published.changed() => {
                    // Many servers publish the errors of syntax first, and the others a moment later.
                    if is_of_text(&published.borrow_and_update()) {
                        told_at = told_at.or_else(|| Some(Instant::now()));
                        until = end.min(Instant::now() + QUIET_PUBLISHER);
                    }
                }
                () = sleep_until(if is_asked { end } else { until }) => break,
                () = self.ended() => break,
            }
        }
        match told_at {
            Some(at) => lock(&self.pace).told(at - began),
            None if is_new => return BTreeMap::new(),
            None => {}
        }
        let published = published.borrow().clone();
        let published = published.into_iter().map(|(uri, it)| (uri, it.diagnostics));
        let mut found: BTreeMap<String, Vec<Value>> = published.collect();
        for (uri, diagnostics) in answer.into_iter().flatten() {
            let known = found.entry(uri).or_default();
            let new: Vec<Value> = diagnostics.into_iter().filter(|it| !known.contains(it)).collect();
            known.extend(new);
        }
        found
    }

    /// Waits until the server has published the diagnostics of a file once more, and returns them by its URL: many
    /// publish an empty list first.
    pub async fn diagnose_again(self: Arc<Self>, path: PathBuf) -> BTreeMap<String, Vec<Value>> {
        let Some(uri) = documents::url(&path) else { return BTreeMap::new() };
        let mut published = self.connection.published();
        let n_times =
            |published: &BTreeMap<String, Published>| published.get(&uri).map_or(0, |it| it.n_times);
        let before = n_times(&published.borrow());
        let again = async {
            // The sender lives as long as `self`.
            let _ = published.wait_for(|published| n_times(published) > before).await;
        };
        tokio::select! {
            _ = timeout(self.limits.work, again) => {}
            () = self.ended() => {}
        }
        sleep(QUIET_PUBLISHER).await;
        let published = self.connection.published();
        let of_file =
            published.borrow().get(&uri).filter(|it| it.n_times > before).map(|it| it.diagnostics.clone());
        of_file.map(|diagnostics| BTreeMap::from([(uri, diagnostics)])).unwrap_or_default()
    }

    /// Asks a server that offers it for the diagnostics of a file and of those that depend on it. `None` without an
    /// answer.
    async fn pull(&self, uri: &str, limit: Duration) -> Option<BTreeMap<String, Vec<Value>>> {
        let mut params = json!({ "textDocument": { "uri": uri } });
        if let Some(name) = self.pulled.get()? {
            params["identifier"] = name.as_str().into();
        }
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.connection.request("textDocument/diagnostic", params.clone(), left).await {
                Ok(report) => return Some(pulled(uri, report)),
                Err(error) if is_passing(&error) && left > RETRY => sleep(RETRY).await,
                Err(_) => return None,
            }
        }
    }

    /// Tells the server that a file on the disk has changed.
    pub fn changed(&self, path: &Path) {
        if *self.phase.borrow() == Phase::Ready
            && let Some(uri) = documents::url(path)
        {
            let (method, params) = documents::changed_on_disk(&uri, documents::CHANGED);
            self.connection.notify(method, params);
        }
    }

    /// Waits until a server that was just started has read the project.
    pub async fn settled(&self) {
        if self.is_settled.load(Ordering::Relaxed) {
            return;
        }
        let mut work = self.connection.work();
        let start = Instant::now();
        let (look, end) = (start + self.limits.look, start + self.limits.work);
        loop {
            let Work { has_looked, tokens } = work.borrow_and_update().clone();
            let now = Instant::now();
            let until = match (tokens.is_empty(), has_looked) {
                (false, _) => end,
                (true, false) => look,
                (true, true) => now + QUIET,
            };
            tokio::select! {
                // The sender lives as long as `self`.
                _ = work.changed() => {}
                () = sleep_until(until.min(end)) => break,
                () = self.ended() => break,
            }
        }
        self.is_settled.store(true, Ordering::Relaxed);
    }

    async fn ended(&self) {
        // `self` owns the sender, so it cannot be closed.
        let _ = self.phase.subscribe().wait_for(|phase| matches!(phase, Phase::Ended { .. })).await;
    }

    /// Asks a question about a file that was opened.
    pub async fn ask(&self, question: &Question<'_>) -> Result<Vec<Value>, CallError> {
        let Question { operation, path, line, character, query } = question;
        let document = json!({ "uri": documents::url(path) });
        let position = json!({ "line": line, "character": character });
        let place = json!({ "textDocument": document, "position": position });
        let answer = match operation {
            Operation::GoToDefinition => self.answer("textDocument/definition", place).await?,
            Operation::FindReferences => {
                let mut place = place;
                place["context"] = json!({ "includeDeclaration": true });
                self.answer("textDocument/references", place).await?
            }
            Operation::Hover => self.answer("textDocument/hover", place).await?,
            Operation::DocumentSymbol => {
                self.answer("textDocument/documentSymbol", json!({ "textDocument": document })).await?
            }
            Operation::WorkspaceSymbol => {
                let mut symbols = self.answer("workspace/symbol", json!({ "query": query })).await?;
                symbols.retain(|it| it["kind"].as_u64().is_some_and(|it| SYMBOL_KINDS.contains(&it)));
                symbols.truncate(MAX_SYMBOLS);
                symbols
            }
            Operation::GoToImplementation => self.answer("textDocument/implementation", place).await?,
            Operation::PrepareCallHierarchy => {
                self.answer("textDocument/prepareCallHierarchy", place).await?
            }
            Operation::IncomingCalls => self.calls("callHierarchy/incomingCalls", place).await?,
            Operation::OutgoingCalls => self.calls("callHierarchy/outgoingCalls", place).await?,
        };
        Ok(answer)
    }

    async fn calls(&self, method: &'static str, place: Value) -> Result<Vec<Value>, CallError> {
        let items = self.answer("textDocument/prepareCallHierarchy", place).await?;
        match items.into_iter().next() {
            Some(item) => self.answer(method, json!({ "item": item })).await,
            None => Ok(Vec::new()),
        }
    }

    /// Returns the answer as a list, empty if the server has none or does not know the method.
    async fn answer(&self, method: &'static str, params: Value) -> Result<Vec<Value>, CallError> {
        let deadline = Instant::now() + self.limits.request;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.connection.request(method, params.clone(), left).await {
                Ok(Value::Null) => return Ok(Vec::new()),
                Ok(Value::Array(items)) => return Ok(items.into_iter().filter(|it| !it.is_null()).collect()),
                Ok(item) => return Ok(vec![item]),
                Err(CallError::Refused { code: METHOD_NOT_FOUND, .. }) => return Ok(Vec::new()),
                Err(error) if is_passing(&error) && left > RETRY => sleep(RETRY).await,
                Err(CallError::Silent { method, .. }) => {
                    return Err(CallError::Silent { method, limit: self.limits.request });
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the diagnostics of a report, by the files' URLs, bounded as those that are published.
fn pulled(uri: &str, mut report: Value) -> BTreeMap<String, Vec<Value>> {
    let items = |report: &mut Value| match report.get_mut("items").map(Value::take) {
        Some(Value::Array(mut items)) => {
            items.truncate(MAX_DIAGNOSTICS);
            items
        }
        Some(_) | None => Vec::new(),
    };
    let mut found = BTreeMap::from([(uri.to_owned(), items(&mut report))]);
    if let Some(Value::Object(related)) = report.get_mut("relatedDocuments").map(Value::take) {
        let related = related.into_iter().take(MAX_FILES);
        found.extend(related.map(|(uri, mut report)| (uri, items(&mut report))));
    }
    found
}

#[cfg(test)]
mod tests;
