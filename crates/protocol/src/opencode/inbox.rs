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

/// A change of the prompts that wait. All but the last are OpenCode's second version's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "properties")]
pub enum InboxEvent {
    /// A prompt waits for its turn.
    #[serde(rename = "session.inbox.enqueued")]
    Enqueued {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "inboxID")]
        inbox_id: MessageId,
        item: InboxItem,
    },
    /// A prompt that waited begins.
    #[serde(rename = "session.inbox.delivered")]
    Delivered {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "inboxID")]
        inbox_id: MessageId,
    },
    /// A prompt that waited will not begin.
    #[serde(rename = "session.inbox.cancelled")]
    Cancelled {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "inboxID")]
        inbox_id: MessageId,
    },
    #[serde(rename = "session.inbox.delivery.changed")]
    DeliveryChanged {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "inboxID")]
        inbox_id: MessageId,
        delivery: InboxDelivery,
    },
    /// Ours: words, order or parking of prompts that wait have changed; they are these now.
    #[serde(rename = "session.inbox.updated")]
    Updated {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        inbox: Vec<InboxItem>,
    },
}

impl InboxEvent {
    pub fn session_id(&self) -> &SessionId {
        match self {
            Self::Enqueued { session_id, .. }
            | Self::Delivered { session_id, .. }
            | Self::Cancelled { session_id, .. }
            | Self::DeliveryChanged { session_id, .. }
            | Self::Updated { session_id, .. } => session_id,
        }
    }
}
