//! User and assistant messages and the errors they carry.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{
    api_error::ApiError,
    file_diff::FileDiff,
    id::{MessageId, SessionId},
    model_ref::ModelRef,
    part::Part,
    time::CreatedTime,
    tokens::Tokens,
};

/// A message without its parts: OpenCode's `Message`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    User(UserMessage),
    Assistant(Box<AssistantMessage>),
}

impl Message {
    /// Returns the message's id.
    pub fn id(&self) -> &MessageId {
        match self {
            Message::User(user) => &user.id,
            Message::Assistant(assistant) => &assistant.id,
        }
    }

    /// Returns the id of the message's session.
    pub fn session_id(&self) -> &SessionId {
        match self {
            Message::User(user) => &user.session_id,
            Message::Assistant(assistant) => &assistant.session_id,
        }
    }
}

/// A message and its parts in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessageWithParts {
    /// The message.
    pub info: Message,
    /// Its parts, in id order.
    pub parts: Vec<Part>,
}

/// A message of the user (or a synthetic prompt).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserMessage {
    pub id: MessageId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    pub time: CreatedTime,
    /// The agent that is to answer.
    pub agent: String,
    /// The model that is to answer.
    pub model: ModelRef,
    /// Extra system text for this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The wanted form of the answer; text when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Box<OutputFormat>>,
    /// Set behind a turn that changed files.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known_summary")]
    pub summary: Option<UserSummary>,
}

/// The outcome of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UserSummary {
    pub diffs: Vec<FileDiff>,
}

/// Reads a summary; one of an older OpenCode, whose diffs have another shape, is left out.
fn known_summary<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<UserSummary>, D::Error> {
    Value::deserialize(deserializer).map(|summary| serde_json::from_value(summary).ok())
}

/// The form of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputFormat {
    Text,
    JsonSchema {
        schema: Value,
        /// The number of times that the model may try again.
        #[serde(rename = "retryCount", default = "OutputFormat::retry_count")]
        retry_count: u32,
    },
}

impl OutputFormat {
    /// Returns the number of retries where none is given.
    pub fn retry_count() -> u32 {
        2
    }
}

/// The model's answer in one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AssistantMessage {
    pub id: MessageId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The user message that this one answers.
    #[serde(rename = "parentID")]
    pub parent_id: MessageId,
    #[serde(rename = "modelID")]
    pub model_id: String,
    #[serde(rename = "providerID")]
    pub provider_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    pub agent: String,
    /// The older name of `agent`.
    pub mode: String,
    pub path: MessagePath,
    pub time: AssistantTime,
    /// The cost in US dollars.
    pub cost: f64,
    pub tokens: Tokens,
    /// The reason that the model stopped: `stop`, `tool-calls`, `length`, `content-filter`, `error` or
    /// `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<MessageError>,
    /// True for the result of a compaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<bool>,
    /// The answer in the form that the prompt asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
}

/// The directory and worktree of the assistant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessagePath {
    pub cwd: String,
    pub root: String,
}

/// Times in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AssistantTime {
    pub created: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<i64>,
}

/// A failed answer, tagged `{name, data}` as OpenCode writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "name", content = "data")]
pub enum MessageError {
    ProviderAuthError {
        #[serde(rename = "providerID")]
        provider_id: String,
        message: String,
    },
    UnknownError {
        message: String,
    },
    MessageOutputLengthError {},
    MessageAbortedError {
        message: String,
    },
    StructuredOutputError {
        message: String,
        retries: u32,
    },
    #[serde(rename_all = "camelCase")]
    ContextOverflowError {
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_body: Option<String>,
    },
    ContentFilterError {
        message: String,
    },
    #[serde(rename = "APIError")]
    Api(ApiError),
}

impl MessageError {
    /// Returns the error's sentence.
    pub fn message(&self) -> &str {
        match self {
            Self::ProviderAuthError { message, .. }
            | Self::UnknownError { message }
            | Self::MessageAbortedError { message }
            | Self::StructuredOutputError { message, .. }
            | Self::ContextOverflowError { message, .. }
            | Self::ContentFilterError { message } => message,
            Self::Api(error) => &error.message,
            Self::MessageOutputLengthError {} => "The answer is longer than the model's output limit.",
        }
    }
}
