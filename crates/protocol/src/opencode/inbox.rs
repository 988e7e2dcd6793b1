//! Prompts that wait for turns of a session, in the form of OpenCode's second version.

use serde::{Deserialize, Serialize};

use super::{
    id::{MessageId, SessionId},
    time::CreatedTime,
};

/// The time at which a prompt is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum InboxDelivery {
    /// With the next step of the turn that runs.
    Steer,
    /// By a turn of its own.
    #[default]
    Queue,
}

/// A prompt that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InboxItem {
    /// The id that its client gave to it, or one made for it while it waits.
    pub id: MessageId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    pub time: CreatedTime,
    #[serde(rename = "type")]
    pub kind: InboxKind,
    pub payload: InboxPayload,
    pub delivery: InboxDelivery,
    /// Ours: it waits for the next prompt, since the turn before it was stopped or its process ended.
    pub parked: bool,
}

/// The kind of an item; others of OpenCode's second version do not wait here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum InboxKind {
    User,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InboxPayload {
    /// The user's words.
    pub text: String,
}
