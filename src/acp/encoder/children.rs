//! Subagents: sessions of their own for a client that shows such (facts: ACP §2), else calls in the session that they
//! work for.

use std::{collections::HashMap, sync::Arc};

use windlass_base::money;
use windlass_engine::task_session;
use windlass_protocol::opencode::{
    event::{Event, EventPayload, SessionInfo},
    id::SessionId,
    message::MessageWithParts,
    part::{Part, PartKind, ToolPart, ToolState},
    session::SessionStatus,
};
use windlass_protocol_acp::schema::{
    IdleStateUpdate, RunningStateUpdate, SessionUpdate, StateUpdate, SubagentUpdate,
};

use super::{Child, Encoder, ShownSession, Sink};
use crate::acp::{outbox::Outgoing, permissions, to_proto};

impl Encoder {
    /// Learns of a subagent's session by the parent it names.
    pub(super) fn note_child(&mut self, payload: &EventPayload, out: &mut Sink<'_>) {
        let (EventPayload::SessionCreated(info) | EventPayload::SessionUpdated(info)) = payload else {
            return;
        };
        let SessionInfo { session_id: id, info } = info;
        let Some(parent) = &info.parent_id else { return };
        // A client that has opened the subagent's session is shown it there.
        if self.sessions.contains_key(id) {
            return;
        }
        let root = self.roots.get(parent).unwrap_or(parent).clone();
        if !self.sessions.contains_key(&root) && !self.held.contains_key(&root) {
            return;
        }
        self.roots.insert(id.clone(), root.clone());
        let is_new = matches!(payload, EventPayload::SessionCreated(_));
        if is_new && !self.held.contains_key(&root) {
            self.announce(id, parent, &info.title, true, out);
        }
    }

    /// Tells a client that shows subagents as sessions of one more.
    fn announce(
        &mut self,
        id: &SessionId,
        parent: &SessionId,
        title: &str,
        is_running: bool,
        out: &mut Sink<'_>,
    ) {
        let Some(above) = self.sessions.get(parent).filter(|_| self.client.subagents) else { return };
        let shown = ShownSession::new(above.workspace.clone(), title.to_owned(), 0.0);
        let root = self.children.get(parent).map_or(parent, |above| &above.root).clone();
        self.sessions.insert(id.clone(), shown);
        self.children.insert(id.clone(), Child { parent: parent.clone(), root });
        let update = SubagentUpdate::new(id.shared()).title(title.to_owned()).state(state(is_running));
        out.lines.update(parent, SessionUpdate::SubagentUpdate(update));
    }

    /// Forgets the subagents of a session that is closed or opened anew.
    pub(super) fn forget_children(&mut self, root: &SessionId) {
        let (of_root, others): (HashMap<_, _>, HashMap<_, _>) =
            std::mem::take(&mut self.children).into_iter().partition(|(_, child)| child.root == *root);
        self.children = others;
        for id in of_root.keys() {
            self.sessions.remove(id);
            self.outputs.forget(id);
        }
    }

    /// Tells in the session above when a subagent begins and ends its work.
    pub(super) fn show_childs_state(&mut self, id: &SessionId, payload: &EventPayload, out: &mut Sink<'_>) {
        let Some(child) = self.children.get(id) else { return };
        let is_running = match payload {
            EventPayload::SessionStatus { status: SessionStatus::Busy, .. } => true,
            EventPayload::SessionIdle { .. } => false,
            _ => return,
        };
        let update = SubagentUpdate::new(id.shared()).state(state(is_running));
        out.lines.update(&child.parent, SessionUpdate::SubagentUpdate(update));
    }

    /// Adds the cost of a subagent's step to the session that the user has opened.
    pub(super) fn add_childs_cost(&mut self, id: &SessionId, part: &Part) {
        let PartKind::StepFinish { cost, .. } = &part.kind else { return };
        let Some(child) = self.children.get(id) else { return };
        let is_known = self.sessions.get(id).is_some_and(|shown| shown.progress.contains_key(&part.id));
        if let Some(root) = self.sessions.get_mut(&child.root).filter(|_| !is_known) {
            root.cost = money::sum(root.cost, *cost);
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
            self.tool(root, &part.id, &ToolPart { call_id, ..(**tool).clone() }, false, out);
        } else if let PartKind::StepFinish { cost, .. } = &part.kind
            && let Some(shown) = self.sessions.get_mut(root)
        {
            // The window it fills is the subagent's own; its cost is the user's.
            shown.cost = money::sum(shown.cost, *cost);
        }
    }

    /// Shows the subagent that a `task` call started.
    pub(super) fn replay_child(
        &mut self,
        root: &SessionId,
        part: &Part,
        children: &HashMap<SessionId, Vec<MessageWithParts>>,
        out: &mut Sink<'_>,
    ) {
        let Some(id) = task_session(part) else { return };
        let Some(messages) = children.get(&id) else { return };
        if self.client.subagents {
            if !self.sessions.contains_key(&id) {
                self.announce(&id, &part.session_id, &title(part), is_running(part), out);
            }
            for message in messages {
                self.message(&id, &message.info, true, out);
                for part in &message.parts {
                    self.add_childs_cost(&id, part);
                    self.part(&id, part, true, out);
                    self.replay_child(root, part, children, out);
                }
                self.compaction(&id, |compactions| compactions.stored(message), out);
            }
            return;
        }
        for part in messages.iter().flat_map(|message| &message.parts) {
            self.child_part(root, part, out);
            self.replay_child(root, part, children, out);
        }
    }
}

fn state(is_running: bool) -> StateUpdate {
    if is_running {
        StateUpdate::Running(RunningStateUpdate::new())
    } else {
        StateUpdate::Idle(IdleStateUpdate::new())
    }
}

/// Returns the title that the session of a `task` call was given.
fn title(part: &Part) -> String {
    let PartKind::Tool(tool) = &part.kind else { return String::new() };
    let input = tool.state.input();
    let text = |key: &str| input.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    format!("{} (@{} subagent)", text("description"), text("subagent_type"))
}

fn is_running(part: &Part) -> bool {
    matches!(&part.kind, PartKind::Tool(tool) if matches!(tool.state, ToolState::Running { .. }))
}
