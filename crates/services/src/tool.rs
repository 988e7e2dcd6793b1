//! The tools: one table of rows, each with a name, a text for the model, a schema and a function.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use windlass_base::{clock, hash};
use windlass_core::{
    config::{
        Config, Warning,
        policy::{LEAVE_SANDBOX, Policy, REACH_HOST},
    },
    library::skills::Skill,
    permission::Ask,
};
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    part::FilePart,
    permission::Rule,
    question::{Question, ServerWish},
    session::Todo,
    tool::{Kind, Look, Subject},
};

use self::{
    bash::background::{Job, Kept, NewJob},
    editor::Editor,
};
use crate::{
    lsp::Servers,
    mcp::{Completion, ResourceList, Sampled, Sampling, ServersLease},
};

pub mod apply_patch;
pub mod arguments;
pub mod bash;
pub mod batch;
pub mod codesearch;
mod diagnostics;
pub mod edit;
pub mod edit_match;
pub mod editor;
#[cfg(test)]
pub(crate) mod fake;
mod file;
pub mod format;
pub mod glob;
pub mod grep;
pub mod invalid;
pub mod job;
pub mod list;
pub mod list_mcp_resources;
pub mod lsp;
pub mod mcp;
pub mod multiedit;
pub mod patch_text;
pub mod path;
pub mod plan_enter;
pub mod plan_exit;
pub mod plugin;
pub mod program;
pub mod question;
pub mod read;
pub mod read_mcp_resource;
pub mod row;
pub mod skill;
pub mod task;
pub mod todoread;
pub mod todowrite;
pub mod truncate;
mod walk;
pub mod web;
pub mod webfetch;
pub mod websearch;
pub mod write;

use arguments::schema_of;
pub use diagnostics::LateErrors;
use row::{Offered, Run, Schema, Tool};

/// The built-in tools, in the order OpenCode registers them.
pub static BUILTIN: &[Tool] = &[
    Tool {
        name: Cow::Borrowed("invalid"),
        text: Cow::Borrowed(include_str!("tool/invalid.txt")),
        schema: Schema::Of(schema_of::<invalid::Args>),
        permission: None,
        look: Look::OTHER,
        offered: Offered::Always,
        run: Run::BuiltIn(|cx, input| Box::pin(invalid::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("question"),
        text: Cow::Borrowed(include_str!("tool/question.txt")),
        schema: Schema::Of(schema_of::<question::Args>),
        permission: None,
        look: Look { kind: Kind::Other, verb: "Ask", subject: Subject::Questions },
        offered: Offered::ToUser(question::is_offered),
        run: Run::BuiltIn(|cx, input| Box::pin(question::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("bash"),
        text: Cow::Borrowed(include_str!("tool/bash.txt")),
        schema: Schema::Of(schema_of::<bash::Args>),
        permission: None,
        look: Look { kind: Kind::Execute, verb: "", subject: Subject::Command },
        offered: Offered::Always,
        run: Run::BuiltIn(|cx, input| Box::pin(bash::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("job"),
        text: Cow::Borrowed(include_str!("tool/job.txt")),
        schema: Schema::Of(schema_of::<job::Args>),
        permission: Some(Cow::Borrowed("bash")),
        look: Look { kind: Kind::Execute, verb: "Look at", subject: Subject::Text("id") },
        offered: Offered::If(|offer| offer.has_jobs),
        run: Run::BuiltIn(|cx, input| Box::pin(job::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("read"),
        text: Cow::Borrowed(include_str!("tool/read.txt")),
        schema: Schema::Of(schema_of::<read::Args>),
        permission: None,
        look: Look { kind: Kind::Read, verb: "Read", subject: Subject::File },
        offered: Offered::Always,
        run: Run::BuiltIn(|cx, input| Box::pin(read::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("glob"),
        text: Cow::Borrowed(include_str!("tool/glob.txt")),
        schema: Schema::Of(schema_of::<glob::Args>),
        permission: None,
        look: Look { kind: Kind::Search, verb: "Find", subject: Subject::Pattern },
        offered: Offered::Always,
        run: Run::BuiltIn(|cx, input| Box::pin(glob::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("grep"),
        text: Cow::Borrowed(include_str!("tool/grep.txt")),
        schema: Schema::Of(schema_of::<grep::Args>),
        permission: None,
        look: Look { kind: Kind::Search, verb: "Search", subject: Subject::Pattern },
        offered: Offered::Always,
        run: Run::BuiltIn(|cx, input| Box::pin(grep::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("list"),
        text: Cow::Borrowed(include_str!("tool/list.txt")),
        schema: Schema::Of(schema_of::<list::Args>),
        permission: None,
        look: Look { kind: Kind::Search, verb: "List", subject: Subject::Directory },
        offered: Offered::Always,
        run: Run::BuiltIn(|cx, input| Box::pin(list::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("edit"),
        text: Cow::Borrowed(include_str!("tool/edit.txt")),
        schema: Schema::Of(schema_of::<edit::Args>),
        permission: None,
        look: Look { kind: Kind::Edit, verb: "Edit", subject: Subject::Change },
        offered: Offered::If(edit::is_offered),
        run: Run::BuiltIn(|cx, input| Box::pin(edit::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("write"),
        text: Cow::Borrowed(include_str!("tool/write.txt")),
        schema: Schema::Of(schema_of::<write::Args>),
        permission: Some(Cow::Borrowed("edit")),
        look: Look { kind: Kind::Edit, verb: "Write", subject: Subject::Change },
        offered: Offered::If(edit::is_offered),
        run: Run::BuiltIn(|cx, input| Box::pin(write::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("task"),
        text: Cow::Borrowed(include_str!("tool/task.txt")),
        schema: Schema::Of(schema_of::<task::Args>),
        permission: None,
        look: Look { kind: Kind::Think, verb: "Task", subject: Subject::Task },
        offered: Offered::WithSubagents,
        run: Run::BuiltIn(|cx, input| Box::pin(task::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("webfetch"),
        text: Cow::Borrowed(include_str!("tool/webfetch.txt")),
        schema: Schema::Of(schema_of::<webfetch::Args>),
        permission: None,
        look: Look { kind: Kind::Fetch, verb: "Fetch", subject: Subject::Url },
        offered: Offered::Always,
        run: Run::BuiltIn(|cx, input| Box::pin(webfetch::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("multiedit"),
        text: Cow::Borrowed(include_str!("tool/multiedit.txt")),
        schema: Schema::Of(schema_of::<multiedit::Args>),
        permission: Some(Cow::Borrowed("edit")),
        look: Look { kind: Kind::Edit, verb: "Edit", subject: Subject::Change },
        offered: Offered::If(edit::is_offered),
        run: Run::BuiltIn(|cx, input| Box::pin(multiedit::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("todowrite"),
        text: Cow::Borrowed(include_str!("tool/todowrite.txt")),
        schema: Schema::Of(schema_of::<todowrite::Args>),
        permission: None,
        look: Look { kind: Kind::Other, verb: "Plan", subject: Subject::Todos },
        offered: Offered::Always,
        run: Run::BuiltIn(|cx, input| Box::pin(todowrite::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("websearch"),
        text: Cow::Borrowed(include_str!("tool/websearch.txt")),
        schema: Schema::Of(schema_of::<websearch::Args>),
        permission: None,
        look: Look { kind: Kind::Fetch, verb: "Search the web for", subject: Subject::Text("query") },
        offered: Offered::If(websearch::is_offered),
        run: Run::BuiltIn(|cx, input| Box::pin(websearch::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("codesearch"),
        text: Cow::Borrowed(include_str!("tool/codesearch.txt")),
        schema: Schema::Of(schema_of::<codesearch::Args>),
        permission: None,
        look: Look { kind: Kind::Search, verb: "Search the web for", subject: Subject::Text("query") },
        offered: Offered::If(codesearch::is_offered),
        run: Run::BuiltIn(|cx, input| Box::pin(codesearch::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("todoread"),
        text: Cow::Borrowed(include_str!("tool/todoread.txt")),
        schema: Schema::Of(schema_of::<todoread::Args>),
        permission: None,
        look: Look { kind: Kind::Other, verb: "Plan", subject: Subject::Todos },
        offered: Offered::Always,
        run: Run::BuiltIn(|cx, input| Box::pin(todoread::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("skill"),
        text: Cow::Borrowed(include_str!("tool/skill.txt")),
        schema: Schema::Of(schema_of::<skill::Args>),
        permission: None,
        look: Look { kind: Kind::Other, verb: "Skill", subject: Subject::Text("name") },
        offered: Offered::WithSkills,
        run: Run::BuiltIn(|cx, input| Box::pin(skill::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("apply_patch"),
        text: Cow::Borrowed(include_str!("tool/apply_patch.txt")),
        schema: Schema::Of(schema_of::<apply_patch::Args>),
        permission: Some(Cow::Borrowed("edit")),
        look: Look { kind: Kind::Edit, verb: "Patch", subject: Subject::Patch },
        offered: Offered::If(apply_patch::is_offered),
        run: Run::BuiltIn(|cx, input| Box::pin(apply_patch::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("patch"),
        text: Cow::Borrowed(include_str!("tool/patch.txt")),
        schema: Schema::Of(schema_of::<apply_patch::Args>),
        permission: Some(Cow::Borrowed("edit")),
        look: Look { kind: Kind::Edit, verb: "Patch", subject: Subject::Patch },
        offered: Offered::If(apply_patch::is_offered),
        run: Run::BuiltIn(|cx, input| Box::pin(apply_patch::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("batch"),
        text: Cow::Borrowed(include_str!("tool/batch.txt")),
        schema: Schema::Of(schema_of::<batch::Args>),
        permission: None,
        look: Look { kind: Kind::Other, verb: "", subject: Subject::Calls },
        offered: Offered::If(batch::is_offered),
        run: Run::BuiltIn(|cx, input| Box::pin(batch::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("lsp"),
        text: Cow::Borrowed(include_str!("tool/lsp.txt")),
        schema: Schema::Of(schema_of::<lsp::Args>),
        permission: None,
        look: Look { kind: Kind::Other, verb: "", subject: Subject::Code },
        offered: Offered::If(lsp::is_offered),
        run: Run::BuiltIn(|cx, input| Box::pin(lsp::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("plan_enter"),
        text: Cow::Borrowed(include_str!("tool/plan_enter.txt")),
        schema: Schema::Of(schema_of::<plan_enter::Args>),
        permission: None,
        look: Look { kind: Kind::SwitchMode, verb: "", subject: Subject::Title },
        offered: Offered::ToUser(plan_enter::is_offered),
        run: Run::BuiltIn(|cx, input| Box::pin(plan_enter::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("plan_exit"),
        text: Cow::Borrowed(include_str!("tool/plan_exit.txt")),
        schema: Schema::Of(schema_of::<plan_exit::Args>),
        permission: None,
        look: Look { kind: Kind::SwitchMode, verb: "", subject: Subject::Title },
        offered: Offered::ToUser(plan_exit::is_offered),
        run: Run::BuiltIn(|cx, input| Box::pin(plan_exit::run(cx, input))),
    },
    Tool {
        name: Cow::Borrowed("list_mcp_resources"),
        text: Cow::Borrowed(include_str!("tool/list_mcp_resources.txt")),
        schema: Schema::Of(schema_of::<list_mcp_resources::Args>),
        permission: Some(Cow::Borrowed("read")),
        look: Look { kind: Kind::Search, verb: "", subject: Subject::Arguments },
        offered: Offered::If(mcp::has_resources),
        run: Run::BuiltIn(|cx, input| Box::pin(list_mcp_resources::run(cx, input, ResourceList::Resources))),
    },
    Tool {
        name: Cow::Borrowed("list_mcp_resource_templates"),
        text: Cow::Borrowed(include_str!("tool/list_mcp_resource_templates.txt")),
        schema: Schema::Of(schema_of::<list_mcp_resources::Args>),
        permission: Some(Cow::Borrowed("read")),
        look: Look { kind: Kind::Search, verb: "", subject: Subject::Arguments },
        offered: Offered::If(mcp::has_resources),
        run: Run::BuiltIn(|cx, input| Box::pin(list_mcp_resources::run(cx, input, ResourceList::Templates))),
    },
    Tool {
        name: Cow::Borrowed("read_mcp_resource"),
        text: Cow::Borrowed(include_str!("tool/read_mcp_resource.txt")),
        schema: Schema::Of(schema_of::<read_mcp_resource::Args>),
        permission: Some(Cow::Borrowed("read")),
        look: Look { kind: Kind::Read, verb: "", subject: Subject::Resource },
        offered: Offered::If(mcp::has_resources),
        run: Run::BuiltIn(|cx, input| Box::pin(read_mcp_resource::run(cx, input))),
    },
];

/// Returns the built-in tool of that name.
pub fn find(name: &str) -> Option<&'static Tool> {
    BUILTIN.iter().find(|tool| tool.name == name)
}

/// Returns the schema of a built-in tool's arguments. It is made once, because every step and every call needs
/// it.
pub fn schema(name: &str) -> &'static Value {
    static SCHEMAS: LazyLock<BTreeMap<&'static str, Value>> =
        LazyLock::new(|| BUILTIN.iter().map(|tool| (&*tool.name, tool.schema.made())).collect());
    SCHEMAS.get(name).unwrap_or(&Value::Null)
}

/// Permissions with names that are not those of built-in tools.
pub const OTHER_PERMISSIONS: [&str; 7] =
    ["doom_loop", "external_directory", REACH_HOST, "plan_enter", "plan_exit", LEAVE_SANDBOX, mcp::SAMPLING];

/// Returns the permission that decides if a tool is shown and may run.
pub fn permission_name(tool: &str) -> &str {
    find(tool).and_then(|tool| tool.permission.as_deref()).unwrap_or(tool)
}

/// Returns the look of a tool's calls.
pub fn look(tool: &str) -> Look {
    find(tool).map_or(Look::OTHER, |tool| tool.look)
}

/// Runs a tool; [`truncate::apply`] cuts its output for the model.
pub async fn run(tool: &Tool, cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    match &tool.run {
        Run::BuiltIn(run) => run(cx, input).await,
        Run::Shared(run) => run(cx, input).await,
        Run::Plugin(tool) => plugin::run(cx, tool, input).await,
        Run::Program(manifest) => program::run(cx, manifest, input).await,
    }
}

/// The environment of a running tool.
pub struct ToolCx<'a> {
    pub session_id: &'a SessionId,
    pub message_id: &'a MessageId,
    pub call_id: &'a str,
    pub agent: &'a str,
    /// The agents of the sessions above a subagent's.
    pub agents_above: &'a [String],
    pub config: &'a Config,
    /// The skills that the `skill` tool can load.
    pub skills: &'a [Skill],
    /// The MCP servers: the configuration's, then the client's.
    pub servers: &'a [ServersLease],
    /// The language servers of the session's directory.
    pub lsp: &'a Servers,
    /// A token that is cancelled with the turn.
    pub cancel: &'a CancellationToken,
    /// The host of plugins' tools, where there is one.
    pub plugins: Option<&'a plugin::Plugins>,
    pub host: &'a dyn Host,
}

impl ToolCx<'_> {
    /// Returns the directory that relative paths start from.
    pub fn directory(&self) -> &Path {
        &self.config.directory
    }
}

/// The source of the permission for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedBy {
    /// The rules, an answer given before or a plugin: nobody was asked.
    Rules,
    /// A client: the user, unless it names something else that answers.
    Client(Option<String>),
}

impl fmt::Display for AllowedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rules => "The rules",
            Self::Client(None) => "The user",
            Self::Client(Some(name)) => name,
        })
    }
}

/// The services of the engine that a tool may use.
pub trait Host: Send + Sync {
    /// Waits until every pattern is allowed; fails with the error that the tool must return.
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<(), ToolError>>;
    /// Like [`Host::ask`], and returns the source of the permission.
    fn ask_who(&self, ask: Ask) -> BoxFuture<'_, Result<AllowedBy, ToolError>>;
    /// Like [`Host::ask_who`], for calls with effects that the patterns do not show: also asks if the rules allow the
    /// patterns but would ask about or deny anything else.
    fn ask_opaque(&self, ask: Ask) -> BoxFuture<'_, Result<AllowedBy, ToolError>>;
    /// Returns the policy that decides about the call.
    fn policy(&self) -> Policy;
    /// Returns the user's remembered answers as of now: one that was revoked a moment ago, in any process, is
    /// gone.
    fn answers(&self) -> BoxFuture<'_, Vec<Rule>>;
    /// Shows the progress of the call: replaces its metadata, and its title if one is given.
    fn progress(&self, title: Option<String>, metadata: Map<String, Value>);
    /// Replaces the session's todo list.
    fn set_todos(&self, todos: Vec<Todo>) -> BoxFuture<'_, Result<(), ToolError>>;
    /// Runs a subagent and returns its answer.
    fn subtask(&self, subtask: Subtask) -> BoxFuture<'_, Result<ToolOutput, ToolError>>;
    /// Runs a command in the background; refused, and nothing is started, where too many run.
    fn keep_running(&self, _: NewJob) -> Result<Kept, ToolError> {
        Err(ToolError::Model("Commands cannot run in the background here.".to_owned()))
    }
    /// Returns the commands of the session that run, or ran, in the background.
    fn jobs(&self) -> Vec<Arc<Job>> {
        Vec::new()
    }
    /// Asks the user; returns one list of answers for each question.
    fn question(&self, questions: Vec<Question>) -> BoxFuture<'_, Result<Answers, ToolError>>;
    /// Asks the user for the wish of an MCP server: as it is where the front end can show that, else by questions.
    fn grant_wish(
        &self,
        _: ServerWish,
        questions: Vec<Question>,
    ) -> BoxFuture<'_, Result<Answers, ToolError>> {
        self.question(questions)
    }
    /// Returns the call's id.
    fn call_id(&self) -> &str {
        ""
    }
    /// Returns the way to say that the page of a wish is done with.
    fn page_completion(&self, _id: String) -> Completion {
        Completion(Box::new(|| {}))
    }
    /// Returns the path of the session's plan.
    fn plan_file(&self) -> PathBuf;
    /// Lets another agent answer from the next step on.
    fn switch_agent(&self, switch: AgentSwitch);
    /// Runs another tool as a call of its own, and waits until it has ended. Its output is not handed on.
    fn call(&self, call: NestedCall) -> BoxFuture<'_, Result<(), ToolError>>;
    /// Returns the session's todo list.
    fn todos(&self) -> Vec<Todo>;
    /// Returns the file's stamp from the session's last read or write; `path` must have its links followed.
    fn known_stamp(&self, path: &Path) -> Option<FileStamp>;
    /// Returns the files that the session has read or written, with every link followed.
    fn known_paths(&self) -> Vec<PathBuf>;
    /// Remembers a file's stamp at the time the model learnt its content.
    fn record_read(&self, path: &Path, stamp: FileStamp);
    /// Returns true if an instruction file is new to the model. The caller must then show it, because no later
    /// call gets true.
    fn claim_instructions(&self, path: &Path) -> bool;
    /// Warns the user about instructions that do not reach the model, once per session for each.
    fn warn(&self, warnings: Vec<Warning>);
    /// Tells the user something, once in a session.
    fn notify(&self, about: &str, text: String);
    /// Reports a change of a file to all subscribers: the path as it was named, and the path it led to.
    fn edited(&self, path: &Path, real: &Path);
    /// Has the session's model answer a server.
    fn sample(&self, _: Sampling) -> BoxFuture<'_, Result<Sampled, ToolError>> {
        Box::pin(std::future::ready(Err(ToolError::Model("no model can be asked here".to_owned()))))
    }
    /// Returns the late errors of language servers on the session's changes; none where they cannot be told later.
    fn late_errors(&self) -> Option<&LateErrors> {
        None
    }
    /// Returns the editor that has the session's files open, where there is one.
    fn editor(&self) -> Option<Arc<dyn Editor>> {
        None
    }
}

/// Work for a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subtask {
    /// A few words for the user.
    pub description: String,
    pub prompt: String,
    /// The name of the agent that works on it.
    pub agent: String,
    /// The session of an earlier task to continue.
    pub task_id: Option<String>,
    /// The call does not wait for its result.
    pub is_background: bool,
}

/// The user's answers: for each question the chosen labels and any text of their own.
pub type Answers = Vec<Vec<String>>;

/// A request to continue with another agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSwitch {
    pub agent: String,
    /// The text that this agent reads as the user's.
    pub message: String,
}

/// A call that a tool makes in the model's name.
#[derive(Debug, Clone, PartialEq)]
pub struct NestedCall {
    pub tool: String,
    pub input: Value,
    /// The reason to show the call as failed instead of running it.
    pub refusal: Option<String>,
}

/// Identity, size and times of a file, which tell one of its states from another. Sessions are stored with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// The time of the last change of the content, in nanoseconds since the epoch.
    pub modified_ns: i128,
    /// The time of the last change of content or attributes, which no program can set back.
    pub changed_ns: i128,
    /// The identity of the file, independent of its name.
    pub device: u64,
    pub inode: u64,
    pub n_bytes: u64,
    /// A hash of the content, if the file was small enough to be read.
    ///
    /// Not stored, because the hash is valid in one process only. After a restart, states are compared by the
    /// other fields.
    #[serde(skip)]
    pub content: Option<u64>,
    /// The time when the session learnt it, in milliseconds since the epoch.
    #[serde(rename = "noted_ms")]
    pub seen_ms: i64,
}

impl FileStamp {
    pub fn of(metadata: &fs::Metadata) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
            device: metadata.dev(),
            inode: metadata.ino(),
            n_bytes: metadata.len(),
            content: None,
            seen_ms: clock::now_ms(),
        }
    }

    /// Adds a hash of the content, unless that is too long to be worth it.
    pub fn with_content(self, content: &[u8]) -> Self {
        let hash = (content.len() <= Self::MAX_HASHED).then(|| hash::content(content));
        Self { content: hash, ..self }
    }

    /// Maximum number of bytes for which contents are compared rather than times.
    pub const MAX_HASHED: usize = 4 << 20;

    /// Returns true if both stamps are of the same state of the file. Contents decide, or times if a content is
    /// unknown.
    pub fn is_same(&self, other: &Self) -> bool {
        if self.content.is_some() && other.content.is_some() {
            return self.content == other.content;
        }
        let identity = |stamp: &Self| (stamp.device, stamp.inode, stamp.n_bytes);
        let times = |stamp: &Self| (stamp.modified_ns, stamp.changed_ns);
        identity(self) == identity(other) && times(self) == times(other)
    }
}

/// The answer of a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// One line of text for the user.
    pub title: String,
    /// The text for the model.
    pub output: String,
    pub metadata: Map<String, Value>,
    pub attachments: Vec<FilePart>,
}

/// The reason for a tool without an answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// A failure that the model reads before it goes on.
    #[error("{0}")]
    Model(String),
    /// A denial by a rule, which the model reads before it goes on.
    #[error("{0}")]
    Forbidden(String),
    /// A refusal by the user; the turn stops unless there is feedback for the model.
    #[error("{}", refusal(feedback.as_deref()))]
    Denied { feedback: Option<String> },
    /// A question that the user did not want to answer; the turn stops.
    #[error("The user dismissed this question")]
    Dismissed,
    /// A cancelled turn, with the tool's output until then.
    #[error("{}", partial.as_deref().unwrap_or("Tool execution aborted"))]
    Cancelled { partial: Option<String> },
    /// A fault of windlass; shown to the model, logged.
    #[error("{0}")]
    Internal(String),
}

/// Returns the text of a refusal for the model (facts: OpenCode §4.2).
fn refusal(feedback: Option<&str>) -> String {
    match feedback {
        None => "The user rejected permission to use this specific tool call.".to_owned(),
        Some(feedback) => format!(
            "The user rejected permission to use this specific tool call with the following feedback: {feedback}"
        ),
    }
}

/// Runs blocking work on a thread for it.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    begin_blocking(work).await
}

/// Begins blocking work on a thread for it, which goes on whether or not its end is waited for.
pub(crate) fn begin_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> impl Future<Output = Result<T, ToolError>> + Send + 'static {
    let task = tokio::task::spawn_blocking(work);
    async move {
        match task.await {
            Ok(done) => done,
            Err(error) => Err(ToolError::Internal(format!("a blocking task ended early: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests;
