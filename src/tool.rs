//! The tools: one table of rows, each a name, a text for the model, a schema and a function.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    part::FilePart,
    permission::Rule,
    question::Question,
    session::Todo,
};

use crate::{
    base::{clock, hash},
    config::{
        Config, Warning,
        policy::{LEAVE_SANDBOX, Policy},
    },
    library::skills::Skill,
    lsp::Servers,
    mcp::{Held, ResourceList},
    permission::Ask,
};

pub mod apply_patch;
pub mod arguments;
pub mod bash;
pub mod batch;
pub mod codesearch;
pub mod edit;
pub mod edit_match;
#[cfg(test)]
pub(crate) mod fake;
mod file;
pub mod glob;
pub mod grep;
pub mod invalid;
pub mod list;
pub mod list_mcp_resources;
pub mod lsp;
pub mod mcp;
pub mod multiedit;
pub mod patch_text;
pub(crate) mod path;
pub mod plan_enter;
pub mod plan_exit;
pub mod question;
pub mod read;
pub mod read_mcp_resource;
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

/// Every tool of our own, in the order OpenCode registers them.
pub static BUILTIN: &[Tool] = &[
    Tool {
        name: "invalid",
        text: include_str!("tool/invalid.txt"),
        schema: schema_of::<invalid::Args>,
        run: |cx, input| Box::pin(invalid::run(cx, input)),
    },
    Tool {
        name: "question",
        text: include_str!("tool/question.txt"),
        schema: schema_of::<question::Args>,
        run: |cx, input| Box::pin(question::run(cx, input)),
    },
    Tool {
        name: "bash",
        text: include_str!("tool/bash.txt"),
        schema: schema_of::<bash::Args>,
        run: |cx, input| Box::pin(bash::run(cx, input)),
    },
    Tool {
        name: "read",
        text: include_str!("tool/read.txt"),
        schema: schema_of::<read::Args>,
        run: |cx, input| Box::pin(read::run(cx, input)),
    },
    Tool {
        name: "glob",
        text: include_str!("tool/glob.txt"),
        schema: schema_of::<glob::Args>,
        run: |cx, input| Box::pin(glob::run(cx, input)),
    },
    Tool {
        name: "grep",
        text: include_str!("tool/grep.txt"),
        schema: schema_of::<grep::Args>,
        run: |cx, input| Box::pin(grep::run(cx, input)),
    },
    Tool {
        name: "list",
        text: include_str!("tool/list.txt"),
        schema: schema_of::<list::Args>,
        run: |cx, input| Box::pin(list::run(cx, input)),
    },
    Tool {
        name: "edit",
        text: include_str!("tool/edit.txt"),
        schema: schema_of::<edit::Args>,
        run: |cx, input| Box::pin(edit::run(cx, input)),
    },
    Tool {
        name: "write",
        text: include_str!("tool/write.txt"),
        schema: schema_of::<write::Args>,
        run: |cx, input| Box::pin(write::run(cx, input)),
    },
    Tool {
        name: "task",
        text: include_str!("tool/task.txt"),
        schema: schema_of::<task::Args>,
        run: |cx, input| Box::pin(task::run(cx, input)),
    },
    Tool {
        name: "webfetch",
        text: include_str!("tool/webfetch.txt"),
        schema: schema_of::<webfetch::Args>,
        run: |cx, input| Box::pin(webfetch::run(cx, input)),
    },
    Tool {
        name: "multiedit",
        text: include_str!("tool/multiedit.txt"),
        schema: schema_of::<multiedit::Args>,
        run: |cx, input| Box::pin(multiedit::run(cx, input)),
    },
    Tool {
        name: "todowrite",
        text: include_str!("tool/todowrite.txt"),
        schema: schema_of::<todowrite::Args>,
        run: |cx, input| Box::pin(todowrite::run(cx, input)),
    },
    Tool {
        name: "websearch",
        text: include_str!("tool/websearch.txt"),
        schema: schema_of::<websearch::Args>,
        run: |cx, input| Box::pin(websearch::run(cx, input)),
    },
    Tool {
        name: "codesearch",
        text: include_str!("tool/codesearch.txt"),
        schema: schema_of::<codesearch::Args>,
        run: |cx, input| Box::pin(codesearch::run(cx, input)),
    },
    Tool {
        name: "todoread",
        text: include_str!("tool/todoread.txt"),
        schema: schema_of::<todoread::Args>,
        run: |cx, input| Box::pin(todoread::run(cx, input)),
    },
    Tool {
        name: "skill",
        text: include_str!("tool/skill.txt"),
        schema: schema_of::<skill::Args>,
        run: |cx, input| Box::pin(skill::run(cx, input)),
    },
    Tool {
        name: "apply_patch",
        text: include_str!("tool/apply_patch.txt"),
        schema: schema_of::<apply_patch::Args>,
        run: |cx, input| Box::pin(apply_patch::run(cx, input)),
    },
    Tool {
        name: "patch",
        text: include_str!("tool/patch.txt"),
        schema: schema_of::<apply_patch::Args>,
        run: |cx, input| Box::pin(apply_patch::run(cx, input)),
    },
    Tool {
        name: "batch",
        text: include_str!("tool/batch.txt"),
        schema: schema_of::<batch::Args>,
        run: |cx, input| Box::pin(batch::run(cx, input)),
    },
    Tool {
        name: "lsp",
        text: include_str!("tool/lsp.txt"),
        schema: schema_of::<lsp::Args>,
        run: |cx, input| Box::pin(lsp::run(cx, input)),
    },
    Tool {
        name: "plan_enter",
        text: include_str!("tool/plan_enter.txt"),
        schema: schema_of::<plan_enter::Args>,
        run: |cx, input| Box::pin(plan_enter::run(cx, input)),
    },
    Tool {
        name: "plan_exit",
        text: include_str!("tool/plan_exit.txt"),
        schema: schema_of::<plan_exit::Args>,
        run: |cx, input| Box::pin(plan_exit::run(cx, input)),
    },
    Tool {
        name: "list_mcp_resources",
        text: include_str!("tool/list_mcp_resources.txt"),
        schema: schema_of::<list_mcp_resources::Args>,
        run: |cx, input| Box::pin(list_mcp_resources::run(cx, input, ResourceList::Resources)),
    },
    Tool {
        name: "list_mcp_resource_templates",
        text: include_str!("tool/list_mcp_resource_templates.txt"),
        schema: schema_of::<list_mcp_resources::Args>,
        run: |cx, input| Box::pin(list_mcp_resources::run(cx, input, ResourceList::Templates)),
    },
    Tool {
        name: "read_mcp_resource",
        text: include_str!("tool/read_mcp_resource.txt"),
        schema: schema_of::<read_mcp_resource::Args>,
        run: |cx, input| Box::pin(read_mcp_resource::run(cx, input)),
    },
];

/// The built-in tool of that name.
pub fn find(name: &str) -> Option<&'static Tool> {
    BUILTIN.iter().find(|tool| tool.name == name)
}

/// The schema of a built-in tool's arguments, made once: every step and every call needs it.
pub fn schema(name: &str) -> &'static Value {
    static SCHEMAS: LazyLock<BTreeMap<&'static str, Value>> =
        LazyLock::new(|| BUILTIN.iter().map(|tool| (tool.name, (tool.schema)())).collect());
    SCHEMAS.get(name).unwrap_or(&Value::Null)
}

/// Whether a model is given a tool: some have learnt to write patches, the others to replace text (facts: OpenCode §5.5).
pub fn is_offered(tool: &str, model_id: &str) -> bool {
    let writes_patches =
        model_id.contains("gpt-") && !model_id.contains("oss") && !model_id.contains("gpt-4");
    match tool {
        "apply_patch" | "patch" => writes_patches,
        "edit" | "write" | "multiedit" => !writes_patches,
        _other => true,
    }
}

/// Whether a tool is there only while some MCP server offers resources.
pub fn is_about_resources(tool: &str) -> bool {
    matches!(tool, "list_mcp_resources" | "list_mcp_resource_templates" | "read_mcp_resource")
}

/// Permissions that are no built-in tool's name.
pub const OTHER_PERMISSIONS: [&str; 5] =
    ["doom_loop", "external_directory", "plan_enter", "plan_exit", LEAVE_SANDBOX];

/// The permission that decides whether a tool is shown and may run.
pub fn permission_name(tool: &str) -> &str {
    match tool {
        "edit" | "write" | "apply_patch" | "patch" | "multiedit" => "edit",
        name if is_about_resources(name) => "read",
        other => other,
    }
}

/// Runs a tool and cuts what it hands to the model to the configured size.
pub async fn execute(tool: &Tool, cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let tool_output = (tool.run)(cx, input).await?;
    truncate::apply(cx, tool_output).await
}

/// A built-in tool.
pub struct Tool {
    pub name: &'static str,
    /// What the model reads.
    pub text: &'static str,
    /// JSON schema of the arguments.
    pub schema: fn() -> Value,
    pub run: for<'a> fn(&'a ToolCx<'a>, Value) -> BoxFuture<'a, Result<ToolOutput, ToolError>>,
}

/// What a running tool knows.
pub struct ToolCx<'a> {
    pub session_id: &'a SessionId,
    pub message_id: &'a MessageId,
    pub call_id: &'a str,
    pub agent: &'a str,
    pub config: &'a Config,
    /// What the `skill` tool can load.
    pub skills: &'a [Skill],
    /// MCP servers: the configuration's, then the client's.
    pub servers: &'a [Held],
    /// The language servers of the session's directory.
    pub lsp: &'a Servers,
    /// Cancelled with the turn.
    pub cancel: &'a CancellationToken,
    pub host: &'a dyn Host,
}

impl ToolCx<'_> {
    /// The directory relative paths start from.
    pub fn directory(&self) -> &Path {
        &self.config.directory
    }
}

/// What a tool may ask of the engine above it.
pub trait Host: Send + Sync {
    /// Ends when every pattern is allowed; fails with the error the tool must return.
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<(), ToolError>>;
    /// Like [`Host::ask`] for what may turn out to be anything: also asks when the rules allow the patterns but would
    /// ask about or deny something else.
    fn ask_any(&self, ask: Ask) -> BoxFuture<'_, Result<(), ToolError>>;
    /// The policy that decides about the call.
    fn policy(&self) -> Policy;
    /// The user's remembered answers as they are now: one that was revoked a moment ago, anywhere, is gone.
    fn answers(&self) -> BoxFuture<'_, Vec<Rule>>;
    /// Shows how far the call has come: replaces its metadata, and its title when one is given.
    fn progress(&self, title: Option<String>, metadata: Map<String, Value>);
    /// Replaces the session's todo list.
    fn set_todos(&self, todos: Vec<Todo>) -> BoxFuture<'_, Result<(), ToolError>>;
    /// Runs a subagent and ends with its answer.
    fn subtask(&self, subtask: Subtask) -> BoxFuture<'_, Result<ToolOutput, ToolError>>;
    /// Asks the user; one list of answers for each question.
    fn question(&self, questions: Vec<Question>) -> BoxFuture<'_, Result<Answers, ToolError>>;
    /// Where the session's plan is written.
    fn plan_file(&self) -> PathBuf;
    /// Lets another agent answer from the next step on.
    fn switch_agent(&self, switch: AgentSwitch);
    /// Runs another tool as a call of its own, and ends when that has ended; what it said is not handed on.
    fn call(&self, call: NestedCall) -> BoxFuture<'_, Result<(), ToolError>>;
    /// The session's todo list.
    fn todos(&self) -> Vec<Todo>;
    /// How a file was when the session last read or wrote it; `path` has its links followed.
    fn noted(&self, path: &Path) -> Option<FileStamp>;
    /// Remembers how a file is now that the model knows it.
    fn note(&self, path: &Path, stamp: FileStamp);
    /// Whether an instruction file is new to the model. Who is told so must show it: nobody else will.
    fn claim_instructions(&self, path: &Path) -> bool;
    /// Tells the user what of the instructions does not reach the model, each thing once in a session.
    fn warn(&self, warnings: Vec<Warning>);
    /// Tells everyone that a file was changed: as it was named, and where that led.
    fn edited(&self, path: &Path, real: &Path);
}

/// Work for a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subtask {
    /// A few words for the user.
    pub description: String,
    pub prompt: String,
    /// Which agent works on it.
    pub agent: String,
    /// The session of an earlier task to go on with.
    pub task_id: Option<String>,
}

/// What the user answered: of each question the chosen labels and what they wrote.
pub type Answers = Vec<Vec<String>>;

/// Another agent takes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSwitch {
    pub agent: String,
    /// What that agent reads as the user's words.
    pub message: String,
}

/// A call that a tool makes in the model's name.
#[derive(Debug, Clone, PartialEq)]
pub struct NestedCall {
    pub tool: String,
    pub input: Value,
    /// It is only shown, as failed for this reason.
    pub refusal: Option<String>,
}

/// What tells one state of a file from another. Sessions are stored with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// Nanoseconds since the epoch.
    pub modified_ns: i128,
    /// The same of the last change to anything about the file, which no program can set back.
    pub changed_ns: i128,
    /// Which file it is, whatever its name.
    pub device: u64,
    pub inode: u64,
    pub n_bytes: u64,
    /// A hash of everything in it, when it was small enough to be looked at.
    ///
    /// Not stored: the hash is of one process. What a session knew before a restart is told apart by all the rest.
    #[serde(skip)]
    pub content: Option<u64>,
    /// When the session learnt it, in milliseconds since the epoch.
    pub noted_ms: i64,
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
            noted_ms: clock::now_ms(),
        }
    }

    /// The same with what the file holds, unless that is too long to be worth it.
    pub fn with_content(self, content: &[u8]) -> Self {
        let hash = (content.len() <= Self::MAX_HASHED).then(|| hash::content(content));
        Self { content: hash, ..self }
    }

    /// Bytes up to which content is compared, rather than times.
    pub const MAX_HASHED: usize = 4 << 20;

    /// Whether both are of one state of the file: what it holds counts, and its times where that is not known.
    pub fn is_same(&self, other: &Self) -> bool {
        if self.content.is_some() && other.content.is_some() {
            return self.content == other.content;
        }
        let identity = |stamp: &Self| (stamp.device, stamp.inode, stamp.n_bytes);
        let times = |stamp: &Self| (stamp.modified_ns, stamp.changed_ns);
        identity(self) == identity(other) && times(self) == times(other)
    }
}

/// What a tool answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// One line for the user.
    pub title: String,
    /// What the model reads.
    pub output: String,
    pub metadata: Map<String, Value>,
    pub attachments: Vec<FilePart>,
}

/// Why a tool did not answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// The model reads this and goes on.
    #[error("{0}")]
    Model(String),
    /// A rule denies it; the model reads this and goes on.
    #[error("{0}")]
    Forbidden(String),
    /// The user refused; the turn stops unless there is feedback for the model.
    #[error("{}", refusal(feedback.as_deref()))]
    Denied { feedback: Option<String> },
    /// The user did not want to answer a question; the turn stops.
    #[error("The user dismissed this question")]
    Dismissed,
    /// The turn was cancelled; with what the tool had to say until then.
    #[error("{}", partial.as_deref().unwrap_or("Tool execution aborted"))]
    Cancelled { partial: Option<String> },
    /// Our own fault; shown to the model, logged.
    #[error("{0}")]
    Internal(String),
}

/// What the model reads of a refusal (facts: OpenCode §4.2).
fn refusal(feedback: Option<&str>) -> String {
    match feedback {
        None => "The user rejected permission to use this specific tool call.".to_owned(),
        Some(feedback) => format!(
            "The user rejected permission to use this specific tool call with the following feedback: {feedback}"
        ),
    }
}

/// Runs blocking work on a thread where it holds up nobody.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(ToolError::Internal(format!("a blocking task ended early: {error}"))),
    }
}

/// The fields of an object literal.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _other => Map::new(),
    }
}

#[cfg(test)]
mod tests;
