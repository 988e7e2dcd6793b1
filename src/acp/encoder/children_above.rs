//! Subagents before a client that does not show them as sessions: their calls and questions in the session that they work
//! for, under their names.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;
use windlass_base::money;
use windlass_engine::task_session;
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::SessionId,
    message::MessageWithParts,
    part::{Part, PartKind, ToolPart},
    session::SessionStatus,
};

use super::{Encoder, Sink, call_above::CallAbove};
use crate::acp::{outbox::Outgoing, permissions, to_proto};

impl Encoder {
    /// Learns of the subagent that a call gives work.
    pub(super) fn note_call_above(&mut self, tool: &ToolPart) {
        let Some(id) = task_session(tool) else { return };
        // A later call gives it more to do.
        if !self.calls_above.get(&id).is_some_and(|known| known.is(&tool.call_id)) {
            let agent = tool.state.input().get("subagent_type").and_then(Value::as_str).unwrap_or("subagent");
            self.calls_above.insert(id, CallAbove::new(agent, &tool.call_id));
        }
    }

    /// Shows a subagent's calls, questions and cost in the session that it works for.
    pub(super) fn child_event(&mut self, root: &SessionId, event: &Arc<Event>, out: &mut Sink<'_>) {
        if let Some(held) = self.held.get_mut(root) {
            return held.push(Outgoing::Event(event.clone()));
        }
        self.note_work(&event.payload);
        if let EventPayload::PartUpdated { part, .. } = &event.payload {
            self.child_part(root, part, out);
        } else if let EventPayload::PermissionAsked(request) = &event.payload {
            self.ask(root, request, out);
        } else if let EventPayload::QuestionAsked(request) = &event.payload {
            self.ask_question(root, request, out);
        } else if let EventPayload::PageCompleted { id, .. } = &event.payload {
            self.page_completed(id, out);
        } else if let Some(settled) = permissions::settled(&event.payload) {
            self.settle(&settled, out);
        } else if let EventPayload::SessionDeleted(info) = &event.payload {
            self.roots.remove(&info.session_id);
        }
        self.raw_event(event, out);
    }

    fn note_work(&mut self, payload: &EventPayload) {
        match payload {
            EventPayload::SessionStatus { session_id, status: SessionStatus::Busy } => {
                self.working.insert(session_id.clone());
            }
            EventPayload::SessionIdle { session_id } => _ = self.working.remove(session_id),
            EventPayload::SessionDeleted(info) => _ = self.working.remove(&info.session_id),
            _ => {}
        }
    }

    fn child_part(&mut self, root: &SessionId, part: &Part, out: &mut Sink<'_>) {
        if let PartKind::Tool(tool) = &part.kind {
            let call_id = to_proto::child_call_id(&part.session_id, &tool.call_id);
            let above = self.calls_above.get(&part.session_id).cloned();
            let tool = ToolPart { call_id, ..(**tool).clone() };
            self.tool(root, &part.id, &tool, above.as_ref(), false, out);
        } else if let PartKind::StepFinish { cost, .. } = &part.kind
            && let Some(shown) = self.sessions.get_mut(root)
        {
            // The window it fills is the subagent's own; its cost is the user's.
            shown.cost = money::sum(shown.cost, *cost);
        }
    }

    /// Shows the calls of a subagent's history.
    pub(super) fn replay_calls(
        &mut self,
        root: &SessionId,
        messages: &[MessageWithParts],
        children: &HashMap<SessionId, Vec<MessageWithParts>>,
        out: &mut Sink<'_>,
    ) {
        for part in messages.iter().flat_map(|message| &message.parts) {
            self.child_part(root, part, out);
            let PartKind::Tool(tool) = &part.kind else { continue };
            if let Some(messages) = task_session(tool).and_then(|id| children.get(&id)) {
                self.replay_calls(root, messages, children, out);
            }
        }
    }
}
