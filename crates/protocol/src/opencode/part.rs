//! The twelve kinds of message part and the states of a tool call (facts: OpenCode §1.4).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    api_error::ApiError,
    id::{MessageId, PartId, SessionId},
    model_ref::ModelRef,
    time::CreatedTime,
    tokens::Tokens,
};

/// Text for the model in front of a call that the user made in a shell, in OpenCode's words.
pub const EXECUTED_BY_USER: &str = "The following tool was executed by the user";

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    pub id: PartId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The kind of the piece and its data.
    #[serde(flatten)]
    pub kind: PartKind,
}

/// The kind and the data of a part; `type` on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum PartKind {
    Text(TextPart),
    Reasoning(ReasoningPart),
    File(FilePart),
    Tool(Box<ToolPart>),
    StepStart {
        /// The git tree before the step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<String>,
    },
    StepFinish {
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<String>,
        cost: f64,
        tokens: Tokens,
    },
    Snapshot {
        snapshot: String,
    },
    Patch {
        hash: String,
        /// Absolute paths of the files that changed in the step.
        files: Vec<String>,
        /// Absolute paths of files that changed in the step as well, and whose contents before it no snapshot holds.
        #[serde(default, rename = "leftOut", skip_serializing_if = "Vec::is_empty")]
        left_out: Vec<String>,
    },
    Agent {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<TextSpan>,
    },
    Subtask {
        prompt: String,
        description: String,
        agent: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<ModelRef>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
    },
    Retry {
        attempt: u32,
        error: ApiError,
        time: CreatedTime,
    },
    Compaction {
        auto: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        overflow: Option<bool>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tail_start_id: Option<MessageId>,
    },
}

impl PartKind {
    /// Returns the text of a text or reasoning part, the two kinds that grow.
    pub fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            PartKind::Text(TextPart { text, .. }) | PartKind::Reasoning(ReasoningPart { text, .. }) => {
                Some(text)
            }
            PartKind::File(_)
            | PartKind::Tool(_)
            | PartKind::StepStart { .. }
            | PartKind::StepFinish { .. }
            | PartKind::Snapshot { .. }
            | PartKind::Patch { .. }
            | PartKind::Agent { .. }
            | PartKind::Subtask { .. }
            | PartKind::Retry { .. }
            | PartKind::Compaction { .. } => None,
        }
    }
}

/// Text of the user or the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TextPart {
    pub text: String,
    /// Set for text that the user did not type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<bool>,
    /// Set for text that is not sent to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<PartTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// Thinking of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReasoningPart {
    pub text: String,
    pub time: PartTime,
    /// Provider data needed to send the thought back, such as a signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// A file given to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FilePart {
    pub mime: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// A `data:` or `file:` URL.
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Value>,
}

/// A range of the prompt's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TextSpan {
    pub value: String,
    pub start: u64,
    pub end: u64,
}

/// Times in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartTime {
    pub start: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<i64>,
}

/// A call of a tool by the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolPart {
    /// The provider's id of the call, unique within the session.
    #[serde(rename = "callID")]
    pub call_id: String,
    /// The id of the tool.
    pub tool: String,
    pub state: ToolState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// Key in the metadata of a running command, beside `output`: the number of bytes in all its output, of which
/// `output` has the end.
pub const PRINTED: &str = "printed";
/// Maximum number of characters of `output` in the metadata of a command (facts: OpenCode §5.1).
pub const MAX_LIVE_CHARS: usize = 30_000;

/// The state of a tool call; `status` on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum ToolState {
    /// The model is still writing the input.
    Pending {
        input: Value,
        /// The input as received so far.
        raw: String,
    },
    /// The tool runs or waits for permission.
    Running {
        input: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map<String, Value>>,
        time: PartTime,
    },
    /// The tool answered.
    Completed {
        input: Value,
        output: String,
        title: String,
        metadata: Map<String, Value>,
        time: ToolTime,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attachments: Option<Vec<Attachment>>,
    },
    /// The tool failed, was refused or was interrupted.
    Error {
        input: Value,
        error: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Map<String, Value>>,
        time: ToolTime,
    },
}

impl ToolState {
    /// Returns the arguments of the call.
    pub fn input(&self) -> &Value {
        match self {
            ToolState::Pending { input, .. }
            | ToolState::Running { input, .. }
            | ToolState::Completed { input, .. }
            | ToolState::Error { input, .. } => input,
        }
    }
}

/// Times in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolTime {
    pub start: i64,
    pub end: i64,
    /// The time when the output was removed from the model's context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<i64>,
}

/// A file that a tool returned, as a whole file part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attachment {
    pub id: PartId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    #[serde(rename = "type")]
    pub kind: FileTag,
    #[serde(flatten)]
    pub file: FilePart,
}

/// The constant `file`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FileTag {
    File,
}
