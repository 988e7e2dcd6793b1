//! The work of sessions as version 2 shows it: prompts are answered when their message is there, and a state says if
//! the session works (facts: ACP §3).

use windlass_base::ids;
use windlass_engine::{StopReason, TurnOutcome};
use windlass_protocol::{
    opencode::{id::SessionId, message::UserMessage},
    rpc::code,
};
use windlass_protocol_acp::{decode::Version, schema::MessageId};

use super::{Encoder, Outgoing, Sink, child::Child};
use crate::acp::{
    error::error,
    options,
    outbox::{PromptEnd, Responder},
    to_proto,
    v2::{self, State, agent},
};

impl Encoder {
    /// Returns true if the client speaks version 2.
    pub(super) fn is_second_version(&self) -> bool {
        self.client.version == Version::V2
    }

    /// Notes that the turn of a prompt begins.
    pub(super) fn begin_prompt(&mut self, id: &SessionId, responder: Responder) {
        if let Some(held) = self.held.get_mut(id) {
            return held.push(Outgoing::PromptBegan { session_id: id.clone(), responder });
        }
        // A responder that is dropped says that nothing answered.
        let Some(shown) = self.sessions.get_mut(id) else { return };
        shown.foreground.unanswered = Some(responder);
        shown.foreground.is_ours = true;
    }

    /// Answers the prompt that has this message, and echoes it.
    pub(super) fn insert_prompt(
        &mut self,
        id: &SessionId,
        message: &UserMessage,
        is_replay: bool,
        out: &mut Sink<'_>,
    ) {
        let Some(shown) = self.sessions.get_mut(id).filter(|_| !is_replay) else { return };
        if let Some(responder) = shown.foreground.unanswered.take() {
            let message_id = MessageId::new(message.id.shared());
            answer(responder.success_line(&agent::PromptResponse { message_id: &message_id }), out);
            out.lines.notify(id, v2::user_message(&message_id));
        }
    }

    /// Answers a prompt that has no message by its end, and says how the session's work ended.
    pub(super) fn end_prompt(&mut self, id: SessionId, end: Box<PromptEnd>, out: &mut Sink<'_>) {
        if let Some(held) = self.held.get_mut(&id) {
            return held.push(Outgoing::PromptEnded { session_id: id, end });
        }
        let PromptEnd { responder, outcome } = *end;
        let shown = self.sessions.get_mut(&id);
        let begun = shown.and_then(|shown| {
            shown.foreground.is_ours = false;
            shown.foreground.unanswered.take()
        });
        let has_begun = responder.is_none();
        let has_message = has_begun && begun.is_none();
        if let Some(responder) = responder.or(begun) {
            let line = match &outcome {
                Ok(outcome) if outcome.stop == StopReason::Cancelled => {
                    responder.failure_line(&error(code::REQUEST_CANCELLED, "The prompt was cancelled."))
                }
                Ok(TurnOutcome { is_repeat: true, message_id: Some(known), .. }) => {
                    let message_id = MessageId::new(known.shared());
                    answer(responder.success_line(&agent::PromptResponse { message_id: &message_id }), out);
                    return;
                }
                Ok(_) => {
                    // Words that the daemon answers by itself are no message of the conversation.
                    let message_id = MessageId::new(ids::message().shared());
                    out.lines.notify(&id, v2::user_message(&message_id));
                    responder.success_line(&agent::PromptResponse { message_id: &message_id })
                }
                Err(failure) => responder.failure_line(failure),
            };
            answer(line, out);
        }
        let Some(shown) = self.sessions.get_mut(&id).filter(|_| has_begun) else { return };
        shown.foreground.state = None;
        let idle = match &outcome {
            Ok(outcome) => {
                let usage = outcome.tokens.as_ref().map(to_proto::usage);
                v2::ended(to_proto::stop_reason(outcome.stop), usage.as_ref())
            }
            Err(failure) if has_message => v2::failed(failure),
            Err(_) => v2::idle(),
        };
        out.lines.notify(&id, idle);
    }

    /// Shows that a session that works waits for its user, or does so no longer.
    pub(super) fn set_waiting(&mut self, id: &SessionId, is_waiting: bool, out: &mut Sink<'_>) {
        self.set_child_waiting(id, is_waiting, out);
        let is_working = self.sessions.get(id).is_some_and(|shown| shown.foreground.state.is_some());
        if is_working {
            self.set_state(id, if is_waiting { State::RequiresAction } else { State::Running }, out);
        }
    }

    /// Notes the state of a session that works, and shows it where it is another one.
    pub(super) fn set_state(&mut self, id: &SessionId, state: State, out: &mut Sink<'_>) {
        if !self.is_second_version() {
            return;
        }
        let Some(shown) = self.sessions.get_mut(id) else { return };
        let before = shown.foreground.state.replace(state);
        if before != Some(state) {
            out.lines.notify(id, v2::state(state));
        }
    }

    /// Shows that a session does not work any more, unless the end of a prompt is to say so.
    pub(super) fn show_idle(&mut self, id: &SessionId, out: &mut Sink<'_>) {
        if !self.is_second_version() {
            return;
        }
        let Some(shown) = self.sessions.get_mut(id).filter(|shown| !shown.foreground.is_ours) else { return };
        if shown.foreground.state.take().is_some() {
            let end = self.children.get(id).map(Child::end);
            out.lines.notify(id, end.map_or_else(v2::idle, v2::idle_of_child));
        }
    }

    /// Shows the state of a session that the client opens.
    pub(super) fn show_state(&mut self, id: &SessionId, is_working: bool, out: &mut Sink<'_>) {
        let Some(shown) = self.sessions.get_mut(id) else { return };
        let known = shown.foreground.state;
        shown.foreground.state = is_working.then(|| known.unwrap_or(State::Running));
        match shown.foreground.state {
            Some(state) => out.lines.notify(id, v2::state(state)),
            None => out.lines.notify(id, v2::idle()),
        }
    }

    /// Sends the mode of the agent that a tool had the user choose. Prompts do already (see [`super::outbox::Done`]).
    pub(super) fn switched(&self, id: &SessionId, out: &mut Sink<'_>) {
        let Some(client_session) = self.client_sessions.get(id) else { return };
        let loaded = client_session.workspace.loaded();
        for update in options::mode_updates(&loaded, &client_session.chosen, &self.client) {
            out.lines.update(id, update);
        }
    }
}

fn answer((id, line): (windlass_protocol::rpc::Id, Vec<u8>), out: &mut Sink<'_>) {
    out.lines.bytes.extend_from_slice(&line);
    out.lines.bytes.push(b'\n');
    out.answered.push(id);
}
