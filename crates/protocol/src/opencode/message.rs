//! User and assistant messages and the errors they carry.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{
    event::FileDiff,
    id::{MessageId, SessionId},
    part::Part,
};

/// A message without its parts: OpenCode's `Message`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
pub struct MessageWithParts {
    /// The message.
    pub info: Message,
    /// Its parts, in id order.
    pub parts: Vec<Part>,
}

/// A message of the user (or a synthetic prompt).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
pub struct UserSummary {
    pub diffs: Vec<FileDiff>,
}

/// Reads a summary; one of an older OpenCode, whose diffs have another shape, is left out.
fn known_summary<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<UserSummary>, D::Error> {
    Value::deserialize(deserializer).map(|summary| serde_json::from_value(summary).ok())
}

/// The form of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// A provider's model by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelRef {
    #[serde(rename = "providerID")]
    pub provider_id: String,
    #[serde(rename = "modelID")]
    pub model_id: String,
    /// The variant, such as a reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl ModelRef {
    /// Splits `provider/model` at the first slash (facts: OpenCode §7.2).
    pub fn parse(text: &str) -> Option<Self> {
        let (provider_id, model_id) = text.split_once('/')?;
        let is_complete = !provider_id.is_empty() && !model_id.is_empty();
        is_complete.then(|| Self {
            provider_id: provider_id.to_owned(),
            model_id: model_id.to_owned(),
            variant: None,
        })
    }
}

impl std::fmt::Display for ModelRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider_id, self.model_id)
    }
}

/// The model's answer in one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
pub struct MessagePath {
    pub cwd: String,
    pub root: String,
}

/// A time in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedTime {
    pub created: i64,
}

/// Times in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantTime {
    pub created: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<i64>,
}

/// Token counts of one answer, or running totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Input that was not read from or written to the cache.
    pub input: u64,
    /// Output without reasoning.
    pub output: u64,
    pub reasoning: u64,
    pub cache: CacheTokens,
}

/// Tokens read from and written to the provider's prompt cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheTokens {
    pub read: u64,
    pub write: u64,
}

impl Tokens {
    /// Adds another answer's counts to running totals.
    pub fn add(&mut self, other: &Tokens) {
        self.input += other.input;
        self.output += other.output;
        self.reasoning += other.reasoning;
        self.cache.read += other.cache.read;
        self.cache.write += other.cache.write;
    }

    /// Returns the number of tokens that the model read: the size of its context.
    pub fn context(&self) -> u64 {
        self.input + self.cache.read + self.cache.write
    }
}

/// A failed answer, tagged `{name, data}` as OpenCode writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// A provider's refusal or failure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiError {
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
    pub is_retryable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_body: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}
