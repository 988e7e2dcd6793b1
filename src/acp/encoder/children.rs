//! Subagents as sessions of their own, for a client that shows such (facts: ACP §1.7).

use std::collections::HashMap;

use serde_json::Value;
use windlass_base::money;
use windlass_engine::task_session;
use windlass_protocol::opencode::{
    event::{EventPayload, SessionInfo},
    id::SessionId,
    message::{Message, MessageWithParts},
    part::{Part, PartKind, PartTime, ToolPart, ToolState},
    session::SessionStatus,
    tool_metadata::{Task, decode},
};
use windlass_protocol_acp::schema::{
    ContentBlock, SessionReference, SessionUpdate, SubagentUpdate, ToolCallContent,
};

use super::{
    Encoder, Progress, ShownSession, Sink,
    asks::withdraw,
    child::{Child, Work},
};

/// A subagent that works, as the client was told of it.
pub(super) struct Known {
    id: SessionId,
    parent: SessionId,
    title: String,
}

impl Encoder {
    /// Returns true if the client knows any subagent as a session of its own.
    pub fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// Returns true for a subagent that the client knows as a session of its own.
    pub fn is_child(&self, id: &SessionId) -> bool {
        self.children.contains_key(id)
    }

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
        if is_new && !self.held.contains_key(&root) && self.announce(id, parent, &info.title, out) {
            self.set_work(id, Work::Running, out);
        }
    }

    /// Tells a client that shows subagents as sessions of one more; false if it does not.
    fn announce(&mut self, id: &SessionId, parent: &SessionId, title: &str, out: &mut Sink<'_>) -> bool {
        let Some(above) = self.sessions.get(parent).filter(|_| self.client.subagents) else { return false };
        let shown = ShownSession::new(above.workspace.clone(), title.to_owned(), 0.0);
        let root = self.children.get(parent).map_or(parent, |above| &above.root).clone();
        self.sessions.insert(id.clone(), shown);
        self.children.insert(id.clone(), Child::new(parent.clone(), root));
        let update = SubagentUpdate::new(id.shared()).title(title.to_owned());
        out.lines.update(parent, SessionUpdate::SubagentUpdate(update));
        true
    }

    /// Forgets the subagents of a session that is closed or opened anew, and takes their questions off the screen.
    /// Returns those that work, the ones above before the ones below.
    pub(super) fn forget_children(&mut self, root: &SessionId, out: &mut Sink<'_>) -> Vec<Known> {
        let mut known: Vec<Known> = Vec::new();
        let of_root = self.children.extract_if(|_, child| child.root == *root);
        for (id, child) in of_root.collect::<Vec<_>>() {
            let title = self.sessions.remove(&id).map(|shown| shown.title).unwrap_or_default();
            self.outputs.forget(&id);
            if let Some(rpc_id) = self.permissions.forget(&id) {
                withdraw(rpc_id, out);
            }
            if child.work.is_working() {
                known.push(Known { id, parent: child.parent, title });
            }
        }
        let depth = |of: &Known| {
            let above = |of: &Known| known.iter().find(|it| it.id == of.parent);
            std::iter::successors(above(of), |of| above(of)).count()
        };
        let depths: HashMap<SessionId, usize> = known.iter().map(|it| (it.id.clone(), depth(it))).collect();
        known.sort_by_key(|it| depths.get(&it.id).copied());
        known
    }

    /// Shows the subagents that work for a session which the client opens again without its history.
    pub(super) fn show_known(&mut self, root: &SessionId, known: Vec<Known>, out: &mut Sink<'_>) {
        for Known { id, parent, title } in known {
            self.roots.insert(id.clone(), root.clone());
            if self.announce(&id, &parent, &title, out) {
                self.set_work(&id, Work::Running, out);
            }
        }
    }

    /// Shows the subagents' calls and questions in the sessions that they work for from now on: the client that said
    /// it shows them apart does not know them. The question that it refused is asked again there.
    pub(super) fn show_children_above(&mut self, out: &mut Sink<'_>) {
        let ids: Vec<SessionId> = self.children.keys().cloned().collect();
        ids.iter().for_each(|id| self.set_work(id, Work::Unknown, out));
        self.client.subagents = false;
        let children = std::mem::take(&mut self.children);
        for (id, child) in &children {
            self.sessions.remove(id);
            self.outputs.forget(id);
            self.roots.insert(id.clone(), child.root.clone());
            self.working.insert(id.clone());
        }
        for (id, child) in children {
            let (is_first, shown) = self.permissions.move_to(&id, &child.root);
            if let Some(rpc_id) = shown {
                withdraw(rpc_id, out);
            }
            if is_first {
                self.show_ask(&child.root, out);
            }
        }
    }

    /// Tells in the session above when a subagent begins and ends its work, and its answer.
    pub(super) fn show_childs_state(&mut self, id: &SessionId, payload: &EventPayload, out: &mut Sink<'_>) {
        match payload {
            EventPayload::SessionStatus { status: SessionStatus::Busy, .. } => {
                self.set_work(id, Work::Running, out)
            }
            EventPayload::SessionError { error: Some(error), .. } => {
                if let Some(child) = self.children.get_mut(id) {
                    child.note_error(error);
                }
            }
            EventPayload::SessionIdle { .. } => self.end_work(id, out),
            _ => {}
        }
    }

    /// Shows that a subagent waits for its user, or does so no longer.
    pub(super) fn set_child_waiting(&mut self, id: &SessionId, is_waiting: bool, out: &mut Sink<'_>) {
        match self.children.get(id).map(|child| child.work) {
            Some(Work::Running) if is_waiting => self.set_work(id, Work::RequiresAction, out),
            Some(Work::RequiresAction) if !is_waiting => self.set_work(id, Work::Running, out),
            Some(_) | None => {}
        }
    }

    fn end_work(&mut self, id: &SessionId, out: &mut Sink<'_>) {
        let Some(child) = self.children.get_mut(id) else { return };
        if let Some(answer) = child.take_answer(id) {
            out.lines.update(&child.parent, answer);
        }
        self.set_work(id, Work::Idle, out);
    }

    fn set_work(&mut self, id: &SessionId, work: Work, out: &mut Sink<'_>) {
        let Some(child) = self.children.get_mut(id) else { return };
        if let Some(update) = child.set_work(id, work) {
            out.lines.update(&child.parent, update);
        }
    }

    /// Shows a part of a message that the session above has sent to a subagent, in both.
    pub(super) fn directed(
        &mut self,
        id: &SessionId,
        part: &Part,
        content: ContentBlock,
        out: &mut Sink<'_>,
    ) {
        let Some(shown) = self.sessions.get_mut(id) else { return };
        let is_shown = shown.progress.insert(part.id.clone(), Progress::Done).is_some();
        if let Some(child) = self.children.get_mut(id).filter(|_| !is_shown) {
            let [sent, received] = child.directed(id, part, content);
            out.lines.update(&child.parent, sent);
            out.lines.update(id, received);
        }
    }

    /// Returns the link to the subagent that a call has started, where the client knows its session.
    pub(super) fn link(&self, tool: &ToolPart) -> Option<ToolCallContent> {
        let id = task_session(tool).filter(|id| self.children.contains_key(id))?;
        Some(ToolCallContent::Session(SessionReference::new(id.shared())))
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

    /// Shows a stored part, and between the beginning and the end of a `task` call its subagent.
    pub(super) fn replay_part(
        &mut self,
        id: &SessionId,
        part: &Part,
        children: &HashMap<SessionId, Vec<MessageWithParts>>,
        out: &mut Sink<'_>,
    ) {
        let PartKind::Tool(tool) = &part.kind else { return self.part(id, part, true, out) };
        let history = task_session(tool).and_then(|child_id| Some((children.get(&child_id)?, child_id)));
        match history {
            // A copy of a session names the subagents of the other.
            Some((_, child_id)) if self.children.get(&child_id).is_some_and(|child| child.parent != *id) => {
                self.part(id, part, true, out);
            }
            Some((messages, child_id)) if self.client.subagents => {
                self.tool(id, &part.id, &at_first(tool), None, true, out);
                if !self.sessions.contains_key(&child_id) {
                    self.announce(&child_id, id, &title(tool), out);
                }
                self.tool(id, &part.id, &at_work(tool), None, true, out);
                self.replay_session(&child_id, messages, children, out);
                if works(tool, messages) {
                    self.set_work(&child_id, Work::Running, out);
                } else {
                    self.end_work(&child_id, out);
                }
                if !matches!(tool.state, ToolState::Running { .. }) {
                    self.part(id, part, true, out);
                }
            }
            Some((messages, _)) => {
                self.part(id, part, true, out);
                self.replay_calls(id, messages, children, out);
            }
            None => self.part(id, part, true, out),
        }
    }

    /// Shows the history of a subagent's session; a second call of the same has nothing more to show.
    fn replay_session(
        &mut self,
        id: &SessionId,
        messages: &[MessageWithParts],
        children: &HashMap<SessionId, Vec<MessageWithParts>>,
        out: &mut Sink<'_>,
    ) {
        let Some(child) = self.children.get_mut(id).filter(|child| !child.is_replayed) else { return };
        child.is_replayed = true;
        for message in messages {
            self.message(id, &message.info, true, out);
            for part in &message.parts {
                self.add_childs_cost(id, part);
                self.replay_part(id, part, children, out);
            }
            self.compaction(id, |compactions| compactions.stored(message), out);
        }
    }
}

/// Returns a call as it was when it came.
fn at_first(tool: &ToolPart) -> ToolPart {
    let state = ToolState::Pending { input: tool.state.input().clone(), raw: String::new() };
    ToolPart { state, ..tool.clone() }
}

/// Returns a call as it was when its subagent began.
fn at_work(tool: &ToolPart) -> ToolPart {
    let (time, metadata) = match &tool.state {
        ToolState::Completed { time, metadata, .. } => (time.start, Some(metadata.clone())),
        ToolState::Error { time, metadata, .. } => (time.start, metadata.clone()),
        ToolState::Running { time, metadata, .. } => (time.start, metadata.clone()),
        ToolState::Pending { .. } => (0, None),
    };
    let time = PartTime { start: time, end: None };
    let state = ToolState::Running { input: tool.state.input().clone(), title: None, metadata, time };
    ToolPart { state, ..tool.clone() }
}

/// Returns true if the subagent of a stored call still works.
fn works(tool: &ToolPart, messages: &[MessageWithParts]) -> bool {
    match &tool.state {
        ToolState::Running { .. } => true,
        ToolState::Completed { metadata, .. } => {
            let is_background = decode(metadata).is_some_and(|task: Task<'_>| task.background == Some(true));
            let is_done = |it: &Message| matches!(it, Message::Assistant(it) if it.time.completed.is_some());
            is_background && !messages.last().is_some_and(|message| is_done(&message.info))
        }
        ToolState::Pending { .. } | ToolState::Error { .. } => false,
    }
}

/// Returns the title that the session of a `task` call was given.
fn title(tool: &ToolPart) -> String {
    let input = tool.state.input();
    let text = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default();
    format!("{} (@{} subagent)", text("description"), text("subagent_type"))
}
