//! A host that records its calls, and a project in a temporary directory, for the tools' tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tempfile::TempDir;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use windlass_base::{ids, path::absolute};
use windlass_core::{
    config::{Config, Warning, fixture, policy::Policy, rules::rule},
    library::skills::Skill,
    permission::Ask,
};
use windlass_protocol::opencode::{
    id::SessionId,
    permission::{Action, Rule},
    question::Question,
    session::Todo,
};

use super::{
    AgentSwitch, AllowedBy, Answers, FileStamp, Host, NestedCall, Subtask, ToolCx, ToolError, ToolOutput,
    find,
    path::{self, Roots, Target},
    row::Offer,
    run, truncate,
};
use crate::{lsp::Servers, mcp::ServersLease};

/// Returns the circumstances of a plain session without a user.
pub(crate) fn offer(config: &Config) -> Offer<'_> {
    Offer {
        config,
        agents: &[],
        agent: "build",
        provider_id: "demo",
        model_id: "demo",
        is_subagent: false,
        is_answerable: false,
        has_jobs: false,
        has_resources: false,
    }
}

type Answer = Box<dyn Fn(&Ask) -> Result<(), ToolError> + Send + Sync>;

/// A host that allows everything unless told otherwise.
pub(crate) struct FakeHost {
    pub answer: Answer,
    pub asks: Mutex<Vec<Ask>>,
    /// Number of the asks by [`Host::ask_opaque`].
    pub n_opaque: AtomicUsize,
    /// The rules that tools are told; the answers come from `answer`.
    pub rules: Vec<Rule>,
    pub progress: Mutex<Vec<Map<String, Value>>>,
    pub todos: Mutex<Vec<Todo>>,
    pub edited: Mutex<Vec<PathBuf>>,
    pub stamps: Mutex<BTreeMap<PathBuf, FileStamp>>,
    pub questions: Mutex<Vec<Question>>,
    /// The user's answer to every question.
    pub answers: Result<Answers, ToolError>,
    pub switched: Mutex<Option<AgentSwitch>>,
    /// Nested calls; those of a tool named `fail` fail.
    pub calls: Mutex<Vec<NestedCall>>,
    /// Instruction files that the model has seen.
    pub instructions: Mutex<BTreeSet<PathBuf>>,
    /// The warnings for the user.
    pub warned: Mutex<Vec<String>>,
    /// If set, each ask takes a permit and waits until one is available.
    pub gate: Option<Arc<Semaphore>>,
    /// Notified at every ask.
    pub arrived: Notify,
}

impl Host for FakeHost {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<(), ToolError>> {
        let answer = (self.answer)(&ask);
        self.asks.lock().expect("not poisoned").push(ask);
        self.arrived.notify_one();
        Box::pin(async {
            if let Some(gate) = &self.gate {
                gate.acquire().await.expect("never closed").forget();
            }
            answer
        })
    }

    fn ask_who(&self, ask: Ask) -> BoxFuture<'_, Result<AllowedBy, ToolError>> {
        Box::pin(async move { self.ask(ask).await.map(|()| AllowedBy::Client(None)) })
    }

    fn ask_opaque(&self, ask: Ask) -> BoxFuture<'_, Result<AllowedBy, ToolError>> {
        self.n_opaque.fetch_add(1, Ordering::Relaxed);
        self.ask_who(ask)
    }

    fn policy(&self) -> Policy {
        Policy::new(self.rules.clone())
    }

    fn answers(&self) -> BoxFuture<'_, Vec<Rule>> {
        Box::pin(async { Vec::new() })
    }

    fn progress(&self, _title: Option<String>, metadata: Map<String, Value>) {
        self.progress.lock().expect("not poisoned").push(metadata);
    }

    fn set_todos(&self, todos: Vec<Todo>) -> BoxFuture<'_, Result<(), ToolError>> {
        *self.todos.lock().expect("not poisoned") = todos;
        Box::pin(async { Ok(()) })
    }

    fn subtask(&self, subtask: Subtask) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        let output =
            ToolOutput { title: subtask.description, output: subtask.prompt, ..ToolOutput::default() };
        Box::pin(async { Ok(output) })
    }

    fn question(&self, questions: Vec<Question>) -> BoxFuture<'_, Result<Answers, ToolError>> {
        self.questions.lock().expect("not poisoned").extend(questions);
        let answers = self.answers.clone();
        Box::pin(async { answers })
    }

    fn plan_file(&self) -> PathBuf {
        PathBuf::from("/project/.opencode/plans/1-plan.md")
    }

    fn switch_agent(&self, switch: AgentSwitch) {
        *self.switched.lock().expect("not poisoned") = Some(switch);
    }

    fn call(&self, call: NestedCall) -> BoxFuture<'_, Result<(), ToolError>> {
        let result = match (&call.refusal, call.tool.as_str()) {
            (Some(reason), _) => Err(ToolError::Model(reason.clone())),
            (None, "fail") => Err(ToolError::Model("it failed".to_owned())),
            (None, _) => Ok(()),
        };
        self.calls.lock().expect("not poisoned").push(call);
        Box::pin(async { result })
    }

    fn todos(&self) -> Vec<Todo> {
        self.todos.lock().expect("not poisoned").clone()
    }

    fn known_stamp(&self, path: &Path) -> Option<FileStamp> {
        self.stamps.lock().expect("not poisoned").get(path).copied()
    }

    fn known_paths(&self) -> Vec<PathBuf> {
        self.stamps.lock().expect("not poisoned").keys().cloned().collect()
    }

    fn record_read(&self, path: &Path, stamp: FileStamp) {
        self.stamps.lock().expect("not poisoned").insert(path.to_owned(), stamp);
    }

    fn claim_instructions(&self, path: &Path) -> bool {
        self.instructions.lock().expect("not poisoned").insert(path.to_owned())
    }

    fn warn(&self, warnings: Vec<Warning>) {
        let texts = warnings.iter().map(ToString::to_string);
        self.warned.lock().expect("not poisoned").extend(texts);
    }

    fn notify(&self, _about: &str, text: String) {
        self.warned.lock().expect("not poisoned").push(text);
    }

    fn edited(&self, path: &Path, _real: &Path) {
        self.edited.lock().expect("not poisoned").push(path.to_owned());
    }
}

/// A temporary directory. The session works in `project/`; everything beside it is outside.
pub(crate) struct Project {
    temporary: TempDir,
    pub config: Config,
    pub skills: Vec<Skill>,
    pub servers: Vec<ServersLease>,
    pub lsp: Servers,
    pub host: FakeHost,
    pub cancel: CancellationToken,
    session_id: SessionId,
}

impl Project {
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let root = temporary.path().canonicalize().expect("exists");
        fs::create_dir(root.join("project")).expect("created");
        let mut config = fixture::project(&root);
        config.file_time = false;
        let host = FakeHost {
            answer: Box::new(|_| Ok(())),
            asks: Mutex::default(),
            n_opaque: AtomicUsize::new(0),
            rules: vec![rule("*", "*", Action::Allow)],
            progress: Mutex::default(),
            todos: Mutex::default(),
            edited: Mutex::default(),
            stamps: Mutex::default(),
            questions: Mutex::default(),
            answers: Ok(Vec::new()),
            switched: Mutex::default(),
            calls: Mutex::default(),
            instructions: Mutex::default(),
            warned: Mutex::default(),
            gate: None,
            arrived: Notify::new(),
        };
        Self {
            temporary,
            config,
            skills: Vec::new(),
            servers: Vec::new(),
            lsp: Servers::default(),
            host,
            cancel: CancellationToken::new(),
            session_id: ids::session(),
        }
    }

    /// Makes the host refuse one permission.
    pub(crate) fn deny(&mut self, permission: &'static str) {
        self.host.answer = Box::new(move |ask| {
            if ask.permission == permission { Err(ToolError::Denied { feedback: None }) } else { Ok(()) }
        });
    }

    /// Returns a path below `project/`; `..` leads out of it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        absolute(&self.config.directory, name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        super::path::display(&self.path(name))
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("has one")).expect("created");
        fs::write(&path, content).expect("written");
        path
    }

    /// Judges the directory `door`, and then puts a link to a directory outside in its place, which has a file as well.
    pub(crate) fn swapped_door(&self) -> Target {
        self.write("door/a.txt", "needle inside\n");
        self.write("../outside/a.txt", "needle outside\n");
        self.write("../outside/b.txt", "needle outside\n");
        let target = path::judge(&Roots::new(&self.config), self.path("door"));
        fs::rename(self.path("door"), self.path("old")).expect("renamed");
        symlink(self.path("../outside"), self.path("door")).expect("linked");
        target
    }

    pub(crate) fn content(&self, name: &str) -> String {
        String::from_utf8(fs::read(self.path(name)).expect("read")).expect("utf-8")
    }

    pub(crate) async fn run(&self, tool: &str, input: Value) -> Result<ToolOutput, ToolError> {
        let message_id = ids::message();
        let cx = ToolCx {
            session_id: &self.session_id,
            message_id: &message_id,
            call_id: "call_1",
            agent: "build",
            agents_above: &[],
            config: &self.config,
            skills: &self.skills,
            servers: &self.servers,
            lsp: &self.lsp,
            cancel: &self.cancel,
            plugins: None,
            host: &self.host,
        };
        let tool_output = run(find(tool).expect("a built-in tool"), &cx, input).await?;
        truncate::apply(&cx, tool_output).await
    }

    pub(crate) async fn output(&self, tool: &str, input: Value) -> ToolOutput {
        self.run(tool, input).await.expect("the tool answers")
    }

    /// Runs a call that fails and returns the text for the model.
    pub(crate) async fn error(&self, tool: &str, input: Value) -> String {
        match self.run(tool, input).await {
            Err(ToolError::Model(text)) => text,
            other => panic!("expected an error for the model, got {other:?}"),
        }
    }

    /// Returns permission and patterns of every ask so far.
    pub(crate) fn asked(&self) -> Vec<(String, Vec<String>)> {
        let asks = self.host.asks.lock().expect("not poisoned");
        asks.iter().map(|ask| (ask.permission.clone(), ask.patterns.clone())).collect()
    }

    pub(crate) fn last_ask(&self) -> Ask {
        self.host.asks.lock().expect("not poisoned").last().expect("something was asked").clone()
    }

    /// Returns the temporary directory, which contains the project.
    pub(crate) fn root(&self) -> PathBuf {
        self.temporary.path().canonicalize().expect("exists")
    }
}

/// Makes an ask's permission with one pattern.
pub(crate) fn one(permission: &str, pattern: impl Into<String>) -> (String, Vec<String>) {
    (permission.to_owned(), vec![pattern.into()])
}

/// A generator of numbers that look random and are the same in every run.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("fits") % bound
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}
