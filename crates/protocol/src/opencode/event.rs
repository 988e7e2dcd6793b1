//! All events of the engine, with OpenCode's names and payloads (facts: OpenCode §1.5).

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    file_diff::FileDiff,
    id::{EventId, MessageId, PartId, PermissionId, QuestionId, SessionId},
    inbox::InboxEvent,
    message::{Message, MessageError},
    part::Part,
    permission::{PermissionRequest, Reply},
    question::QuestionRequest,
    service::{ServiceEvent, ToastVariant},
    session::{Session, SessionStatus, Todo},
};

/// A published event: `{id, type, properties}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    pub id: EventId,
    #[serde(flatten)]
    pub payload: EventPayload,
}

/// The kind and the data of an event; `type` and `properties` on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "properties")]
pub enum EventPayload {
    #[serde(rename = "session.created")]
    SessionCreated(SessionInfo),
    #[serde(rename = "session.updated")]
    SessionUpdated(SessionInfo),
    #[serde(rename = "session.deleted")]
    SessionDeleted(SessionInfo),
    #[serde(rename = "session.status")]
    SessionStatus {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        status: SessionStatus,
    },
    #[serde(rename = "session.idle")]
    SessionIdle {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
    },
    #[serde(rename = "session.error")]
    SessionError {
        #[serde(rename = "sessionID", default, skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<MessageError>,
    },
    #[serde(rename = "session.compacted")]
    SessionCompacted {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
    },
    /// The files that the session has changed so far, or those of the prompts that were just undone.
    #[serde(rename = "session.diff")]
    SessionDiff {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        diff: Vec<FileDiff>,
    },
    #[serde(rename = "command.executed")]
    CommandExecuted {
        name: String,
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        arguments: String,
        #[serde(rename = "messageID")]
        message_id: MessageId,
    },
    #[serde(rename = "message.updated")]
    MessageUpdated {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        info: Arc<Message>,
    },
    #[serde(rename = "message.removed")]
    MessageRemoved {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "messageID")]
        message_id: MessageId,
    },
    #[serde(rename = "message.part.updated")]
    PartUpdated {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        part: Arc<Part>,
        /// Milliseconds since the epoch.
        time: i64,
    },
    #[serde(rename = "message.part.delta")]
    PartDelta {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "messageID")]
        message_id: MessageId,
        #[serde(rename = "partID")]
        part_id: PartId,
        /// The field that grows: `text` for text and reasoning.
        field: Cow<'static, str>,
        delta: String,
        /// The number of bytes in the field before, so that a replay and live text meet exactly. It is not on the
        /// wire: what a server's client reads has none, and is new text.
        #[serde(skip)]
        offset: Option<usize>,
    },
    #[serde(rename = "message.part.removed")]
    PartRemoved {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "messageID")]
        message_id: MessageId,
        #[serde(rename = "partID")]
        part_id: PartId,
    },
    #[serde(rename = "permission.asked")]
    PermissionAsked(PermissionRequest),
    #[serde(rename = "permission.replied")]
    PermissionReplied {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "requestID")]
        request_id: PermissionId,
        reply: Reply,
    },
    #[serde(rename = "question.asked")]
    QuestionAsked(QuestionRequest),
    #[serde(rename = "question.replied")]
    QuestionReplied {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "requestID")]
        request_id: QuestionId,
        /// For each question the chosen labels and any text of the user.
        answers: Vec<Vec<String>>,
    },
    #[serde(rename = "question.rejected")]
    QuestionRejected {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "requestID")]
        request_id: QuestionId,
    },
    /// Our own event: the page of a server that the user was asked to open is done with.
    #[serde(rename = "question.page.completed")]
    PageCompleted {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        id: String,
    },
    /// A tool call changed the answering agent; changes by the user are no such event.
    #[serde(rename = "session.next.agent.switched")]
    AgentSwitched {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        agent: String,
    },
    #[serde(rename = "todo.updated")]
    TodoUpdated {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        todos: Arc<[Todo]>,
    },
    #[serde(rename = "file.edited")]
    FileEdited {
        /// The absolute path.
        file: String,
    },
    /// A message to the user outside of the conversation; `sessionID` is ours.
    #[serde(rename = "tui.toast.show")]
    Toast {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        title: String,
        message: String,
        variant: ToastVariant,
    },
    #[serde(rename = "mcp.tools.changed")]
    McpToolsChanged {
        /// The name of the server.
        server: String,
    },
    /// Our own event: OpenCode reads its configuration at the start only.
    #[serde(rename = "config.updated")]
    ConfigUpdated {
        /// Absolute path of the directory whose configuration has changed.
        directory: String,
    },
    #[serde(untagged)]
    Inbox(InboxEvent),
    #[serde(untagged)]
    Service(ServiceEvent),
}

/// A session at the time of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionInfo {
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    pub info: Arc<Session>,
}

/// The `type` of an event, for subscribers that want only some kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    SessionCreated,
    SessionUpdated,
    SessionDeleted,
    SessionStatus,
    SessionIdle,
    SessionError,
    SessionCompacted,
    SessionDiff,
    CommandExecuted,
    InboxEnqueued,
    InboxDelivered,
    InboxCancelled,
    InboxDeliveryChanged,
    InboxUpdated,
    MessageUpdated,
    MessageRemoved,
    PartUpdated,
    PartDelta,
    PartRemoved,
    PermissionAsked,
    PermissionReplied,
    QuestionAsked,
    QuestionReplied,
    QuestionRejected,
    PageCompleted,
    AgentSwitched,
    TodoUpdated,
    FileEdited,
    Toast,
    McpToolsChanged,
    ConfigUpdated,
    /// Every event of a service; it has no name of its own.
    Service,
}

impl EventKind {
    /// All kinds with a name.
    pub const ALL: [EventKind; 31] = [
        EventKind::SessionCreated,
        EventKind::SessionUpdated,
        EventKind::SessionDeleted,
        EventKind::SessionStatus,
        EventKind::SessionIdle,
        EventKind::SessionError,
        EventKind::SessionCompacted,
        EventKind::SessionDiff,
        EventKind::CommandExecuted,
        EventKind::InboxEnqueued,
        EventKind::InboxDelivered,
        EventKind::InboxCancelled,
        EventKind::InboxDeliveryChanged,
        EventKind::InboxUpdated,
        EventKind::MessageUpdated,
        EventKind::MessageRemoved,
        EventKind::PartUpdated,
        EventKind::PartDelta,
        EventKind::PartRemoved,
        EventKind::PermissionAsked,
        EventKind::PermissionReplied,
        EventKind::QuestionAsked,
        EventKind::QuestionReplied,
        EventKind::QuestionRejected,
        EventKind::PageCompleted,
        EventKind::AgentSwitched,
        EventKind::TodoUpdated,
        EventKind::FileEdited,
        EventKind::Toast,
        EventKind::McpToolsChanged,
        EventKind::ConfigUpdated,
    ];

    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::SessionCreated => "session.created",
            EventKind::SessionUpdated => "session.updated",
            EventKind::SessionDeleted => "session.deleted",
            EventKind::SessionStatus => "session.status",
            EventKind::SessionIdle => "session.idle",
            EventKind::SessionError => "session.error",
            EventKind::SessionCompacted => "session.compacted",
            EventKind::SessionDiff => "session.diff",
            EventKind::CommandExecuted => "command.executed",
            EventKind::InboxEnqueued => "session.inbox.enqueued",
            EventKind::InboxDelivered => "session.inbox.delivered",
            EventKind::InboxCancelled => "session.inbox.cancelled",
            EventKind::InboxDeliveryChanged => "session.inbox.delivery.changed",
            EventKind::InboxUpdated => "session.inbox.updated",
            EventKind::MessageUpdated => "message.updated",
            EventKind::MessageRemoved => "message.removed",
            EventKind::PartUpdated => "message.part.updated",
            EventKind::PartDelta => "message.part.delta",
            EventKind::PartRemoved => "message.part.removed",
            EventKind::PermissionAsked => "permission.asked",
            EventKind::PermissionReplied => "permission.replied",
            EventKind::QuestionAsked => "question.asked",
            EventKind::QuestionReplied => "question.replied",
            EventKind::QuestionRejected => "question.rejected",
            EventKind::PageCompleted => "question.page.completed",
            EventKind::AgentSwitched => "session.next.agent.switched",
            EventKind::TodoUpdated => "todo.updated",
            EventKind::FileEdited => "file.edited",
            EventKind::Toast => "tui.toast.show",
            EventKind::McpToolsChanged => "mcp.tools.changed",
            EventKind::ConfigUpdated => "config.updated",
            EventKind::Service => "",
        }
    }

    /// Returns the kind with this name on the wire.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl EventPayload {
    /// Returns the payload's kind.
    pub fn kind(&self) -> EventKind {
        match self {
            EventPayload::SessionCreated(_) => EventKind::SessionCreated,
            EventPayload::SessionUpdated(_) => EventKind::SessionUpdated,
            EventPayload::SessionDeleted(_) => EventKind::SessionDeleted,
            EventPayload::SessionStatus { .. } => EventKind::SessionStatus,
            EventPayload::SessionIdle { .. } => EventKind::SessionIdle,
            EventPayload::SessionError { .. } => EventKind::SessionError,
            EventPayload::SessionCompacted { .. } => EventKind::SessionCompacted,
            EventPayload::SessionDiff { .. } => EventKind::SessionDiff,
            EventPayload::CommandExecuted { .. } => EventKind::CommandExecuted,
            EventPayload::Inbox(InboxEvent::Enqueued { .. }) => EventKind::InboxEnqueued,
            EventPayload::Inbox(InboxEvent::Delivered { .. }) => EventKind::InboxDelivered,
            EventPayload::Inbox(InboxEvent::Cancelled { .. }) => EventKind::InboxCancelled,
            EventPayload::Inbox(InboxEvent::DeliveryChanged { .. }) => EventKind::InboxDeliveryChanged,
            EventPayload::Inbox(InboxEvent::Updated { .. }) => EventKind::InboxUpdated,
            EventPayload::MessageUpdated { .. } => EventKind::MessageUpdated,
            EventPayload::MessageRemoved { .. } => EventKind::MessageRemoved,
            EventPayload::PartUpdated { .. } => EventKind::PartUpdated,
            EventPayload::PartDelta { .. } => EventKind::PartDelta,
            EventPayload::PartRemoved { .. } => EventKind::PartRemoved,
            EventPayload::PermissionAsked(_) => EventKind::PermissionAsked,
            EventPayload::PermissionReplied { .. } => EventKind::PermissionReplied,
            EventPayload::QuestionAsked(_) => EventKind::QuestionAsked,
            EventPayload::QuestionReplied { .. } => EventKind::QuestionReplied,
            EventPayload::QuestionRejected { .. } => EventKind::QuestionRejected,
            EventPayload::PageCompleted { .. } => EventKind::PageCompleted,
            EventPayload::AgentSwitched { .. } => EventKind::AgentSwitched,
            EventPayload::TodoUpdated { .. } => EventKind::TodoUpdated,
            EventPayload::FileEdited { .. } => EventKind::FileEdited,
            EventPayload::Toast { .. } => EventKind::Toast,
            EventPayload::McpToolsChanged { .. } => EventKind::McpToolsChanged,
            EventPayload::ConfigUpdated { .. } => EventKind::ConfigUpdated,
            EventPayload::Service(_) => EventKind::Service,
        }
    }

    /// Returns the session of the event, if it belongs to one.
    pub fn session_id(&self) -> Option<&SessionId> {
        match self {
            EventPayload::SessionCreated(info)
            | EventPayload::SessionUpdated(info)
            | EventPayload::SessionDeleted(info) => Some(&info.session_id),
            EventPayload::SessionStatus { session_id, .. }
            | EventPayload::SessionIdle { session_id }
            | EventPayload::SessionCompacted { session_id }
            | EventPayload::SessionDiff { session_id, .. }
            | EventPayload::CommandExecuted { session_id, .. }
            | EventPayload::MessageUpdated { session_id, .. }
            | EventPayload::MessageRemoved { session_id, .. }
            | EventPayload::PartUpdated { session_id, .. }
            | EventPayload::PartDelta { session_id, .. }
            | EventPayload::PartRemoved { session_id, .. }
            | EventPayload::PermissionReplied { session_id, .. }
            | EventPayload::QuestionReplied { session_id, .. }
            | EventPayload::QuestionRejected { session_id, .. }
            | EventPayload::PageCompleted { session_id, .. }
            | EventPayload::AgentSwitched { session_id, .. }
            | EventPayload::Toast { session_id, .. }
            | EventPayload::TodoUpdated { session_id, .. } => Some(session_id),
            EventPayload::PermissionAsked(request) => Some(&request.session_id),
            EventPayload::QuestionAsked(request) => Some(&request.session_id),
            EventPayload::Inbox(event) => Some(event.session_id()),
            EventPayload::SessionError { session_id, .. } => session_id.as_ref(),
            EventPayload::FileEdited { .. }
            | EventPayload::McpToolsChanged { .. }
            | EventPayload::ConfigUpdated { .. }
            | EventPayload::Service(_) => None,
        }
    }
}
