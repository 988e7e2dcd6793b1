//! A subagent's session that the client knows, and its work as far as its events tell.

use windlass_protocol::{
    opencode::{
        id::{MessageId, SessionId},
        message::{AssistantMessage, Message, MessageError},
        part::Part,
    },
    rpc::code,
};
use windlass_protocol_acp::schema::{
    ContentBlock, Error, ErrorStopReason, IdleStateUpdate, IdleStopReason, MessageId as AcpMessageId,
    RequiresActionStateUpdate, RunningStateUpdate, SessionCancelCapabilities, SessionId as AcpSessionId,
    SessionMessage, SessionMessageChunk, SessionUpdate, StateUpdate, SubagentSessionCapabilities,
    SubagentUpdate, TextContent, UnknownStateUpdate,
};

/// A subagent's session that the client knows.
pub struct Child {
    /// The session that started it, which may be another subagent's.
    pub parent: SessionId,
    /// The session that the client has opened.
    pub root: SessionId,
    pub work: Work,
    /// The way in which its newest work ended, as far as its messages tell.
    end: IdleStopReason,
    /// The newest text of its newest answer.
    answer: Option<(MessageId, String)>,
    /// The newest message that it was shown as sent by the session above.
    directed: Option<MessageId>,
    /// Its history was shown by a load.
    pub is_replayed: bool,
}

/// Work of a subagent as the client knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Its history is being shown.
    Past,
    /// Shown in the session above from here on.
    Unknown,
    Running,
    RequiresAction,
    Idle,
}

impl Child {
    /// Makes a subagent whose work is not known yet.
    pub fn new(parent: SessionId, root: SessionId) -> Self {
        let end = IdleStopReason::Cancelled;
        Self { parent, root, work: Work::Past, end, answer: None, directed: None, is_replayed: false }
    }

    /// Notes the outcome of its work in a message.
    pub fn note_message(&mut self, message: &Message) {
        match message {
            Message::User(_) => {
                self.end = IdleStopReason::Cancelled;
                self.answer = None;
            }
            Message::Assistant(answer) => self.end = end(answer),
        }
    }

    /// Returns the way in which its newest work ended.
    pub fn end(&self) -> &IdleStopReason {
        &self.end
    }

    /// Notes the error that its session ended with.
    pub fn note_error(&mut self, error: &MessageError) {
        self.end = failed(error);
    }

    /// Notes a text of its answer; the last one goes to the session above.
    pub fn note_text(&mut self, part: &Part, text: &str) {
        self.answer = Some((part.message_id.clone(), text.to_owned()));
    }

    /// Returns the message with the answer of work that has ended as it should, for the session above.
    pub fn take_answer(&mut self, id: &SessionId) -> Option<SessionUpdate> {
        let (message_id, text) = self.answer.take().filter(|_| self.end == IdleStopReason::EndTurn)?;
        let message_id = AcpMessageId::new(message_id.shared());
        let message = SessionMessage::new(message_id.clone())
            .sender_session_id(AcpSessionId::new(id.shared()))
            .sender_message_id(message_id)
            .content(vec![ContentBlock::Text(TextContent::new(text))]);
        Some(SessionUpdate::SessionMessage(message))
    }

    /// Takes its work to another state; returns the update that tells of it, for the session above. It may be cancelled
    /// while it works.
    pub fn set_work(&mut self, id: &SessionId, work: Work) -> Option<SessionUpdate> {
        let before = std::mem::replace(&mut self.work, work);
        let state = match work {
            _ if before == work => return None,
            Work::Past => return None,
            Work::Running => StateUpdate::Running(RunningStateUpdate::new()),
            Work::RequiresAction => StateUpdate::RequiresAction(RequiresActionStateUpdate::new()),
            Work::Unknown => StateUpdate::Unknown(UnknownStateUpdate::new()),
            Work::Idle => StateUpdate::Idle(IdleStateUpdate::new().stop_reason(self.end.clone())),
        };
        let mut update = SubagentUpdate::new(id.shared()).state(state);
        match (before.is_working(), work.is_working()) {
            (false, true) => {
                let cancel = SessionCancelCapabilities::new();
                update = update.capabilities(SubagentSessionCapabilities::new().cancel(cancel));
            }
            (true, false) => update = update.capabilities(None::<SubagentSessionCapabilities>),
            (false, false) | (true, true) => {}
        }
        Some(SessionUpdate::SubagentUpdate(update))
    }

    /// Returns the updates for a part of a message that the session above has sent it: there, and in its own session.
    pub fn directed(&mut self, id: &SessionId, part: &Part, content: ContentBlock) -> [SessionUpdate; 2] {
        let message_id = AcpMessageId::new(part.message_id.shared());
        if self.directed.as_ref() == Some(&part.message_id) {
            let chunk = SessionUpdate::SessionMessageChunk(SessionMessageChunk::new(message_id, content));
            return [chunk.clone(), chunk];
        }
        self.directed = Some(part.message_id.clone());
        let message = || SessionMessage::new(message_id.clone()).content(vec![content.clone()]);
        let sent = message()
            .recipient_session_id(AcpSessionId::new(id.shared()))
            .recipient_message_id(message_id.clone());
        let received = message()
            .sender_session_id(AcpSessionId::new(self.parent.shared()))
            .sender_message_id(message_id.clone());
        [SessionUpdate::SessionMessage(sent), SessionUpdate::SessionMessage(received)]
    }
}

impl Work {
    pub fn is_working(self) -> bool {
        matches!(self, Self::Running | Self::RequiresAction)
    }
}

/// Returns the reason for the end of work whose last message this is.
fn end(answer: &AssistantMessage) -> IdleStopReason {
    match (&answer.error, answer.finish.as_deref()) {
        (Some(error), _) => failed(error),
        (None, Some("length")) => IdleStopReason::MaxTokens,
        (None, Some("content-filter")) => IdleStopReason::Refusal,
        (None, Some(_)) => IdleStopReason::EndTurn,
        // It was never finished.
        (None, None) => IdleStopReason::Cancelled,
    }
}

fn failed(error: &MessageError) -> IdleStopReason {
    match error {
        MessageError::MessageAbortedError { .. } => IdleStopReason::Cancelled,
        MessageError::MessageOutputLengthError {} => IdleStopReason::MaxTokens,
        MessageError::ContentFilterError { .. } => IdleStopReason::Refusal,
        error => {
            let error = Error::new(code::INTERNAL_ERROR, error.message());
            IdleStopReason::Error(ErrorStopReason::new().error(error))
        }
    }
}
