//! Turns the outbox's items into lines, by the state of the client: its sessions and what it was shown of them.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::PathBuf,
    sync::Arc,
};

use serde_json::json;
use tokio::time::Instant;
use windlass_protocol::{
    acp::{
        decode::{ClientCapabilities, EventChoice},
        ext,
        schema::{
            ContentBlock, ContentChunk, Cost, Notice, NoticeSeverity, SessionInfoUpdate, SessionUpdate,
            TextContent, UsageUpdate,
        },
    },
    opencode::{
        event::{Event, EventPayload, SessionInfo, ToastVariant},
        id::{MessageId, PartId, SessionId},
        message::{Message, MessageWithParts, ModelRef},
        part::{Part, PartKind, ToolPart, ToolState},
        session::{SessionStatus, Todo},
        tool_metadata::{Todos, decode},
    },
    rpc,
};

use super::{
    client_session::ClientSession,
    compactions::Compactions,
    editor::EditorCalls,
    lines, options,
    outbox::{EditorCall, Outgoing, Past},
    permissions::{self, Permissions, Waiting},
    terminal::Outputs,
    to_proto,
};
use crate::{
    base::{clock, ids, money},
    engine::{AutoSummaries, Workspace, task_session},
};

mod asks;

/// Sessions whose creation is remembered until the client knows them.
const MAX_UNKNOWN: usize = 64;

/// See the module's comment.
#[derive(Default)]
pub struct Encoder {
    pub client: ClientCapabilities,
    /// The sessions the client has opened.
    pub client_sessions: HashMap<SessionId, ClientSession>,
    pub permissions: Permissions,
    sessions: HashMap<SessionId, Shown>,
    /// Sessions of subagents, and the session the client knows that they work for.
    roots: HashMap<SessionId, SessionId>,
    /// Events that wait behind a replay.
    held: HashMap<SessionId, Vec<Arc<Event>>>,
    /// `session.created` of sessions that are not attached yet.
    created: VecDeque<Arc<Event>>,
    outputs: Outputs,
    /// Requests to the client's editor.
    pub editor_calls: EditorCalls,
}

/// Destination of lines, and the requests that wait for the user.
pub struct Sink<'a> {
    pub lines: &'a mut Vec<u8>,
    pub waiting: &'a Waiting<'a>,
}

/// The part of a session that the client has been shown.
struct Shown {
    cwd: PathBuf,
    home: PathBuf,
    workspace: Arc<Workspace>,
    title: String,
    /// US dollars so far.
    cost: f64,
    /// Model of the newest answer.
    model: Option<ModelRef>,
    user_messages: HashSet<MessageId>,
    /// Automatic summaries, which are shown as thoughts.
    summaries: AutoSummaries,
    /// Bytes shown of each text or thought of the running turn.
    texts: HashMap<PartId, Text>,
    /// Progress of each tool call and step of the running turn, as the client was shown it.
    progress: HashMap<PartId, Progress>,
    compactions: Compactions,
    /// The plan as it was shown last.
    todos: Vec<Todo>,
}

impl Shown {
    fn place(&self) -> to_proto::Place<'_> {
        to_proto::Place { cwd: &self.cwd, home: &self.home }
    }
}

/// Progress of a part; it never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Pending,
    Running,
    Done,
}

#[derive(Clone, Copy)]
struct Text {
    is_thought: bool,
    n_bytes: usize,
}

impl Encoder {
    /// Stores the capabilities that the client announced.
    pub fn set_client(&mut self, client: ClientCapabilities) {
        self.outputs.has_terminals = client.terminal_output;
        self.client = client;
    }

    /// Returns the time at which [`Encoder::encode_due`] has something to send without a new event.
    pub fn due(&self) -> Option<Instant> {
        self.outputs.due()
    }

    /// Encodes what was held back to spare the client.
    pub fn encode_due(&mut self, lines: &mut Vec<u8>) {
        self.outputs.show_due(Instant::now(), lines);
    }

    /// Encodes an item as lines with their line feeds.
    pub fn encode(&mut self, item: Outgoing, out: &mut Sink<'_>) {
        match item {
            Outgoing::Line(line) | Outgoing::Answer { line, .. } => {
                out.lines.extend_from_slice(&line);
                out.lines.push(b'\n');
            }
            Outgoing::Event(event) => self.event(&event, out),
            Outgoing::Attach { session_id, workspace, title, cost } => {
                self.attach(session_id, workspace, title, cost, out);
            }
            Outgoing::Hold(session_id) => {
                self.held.entry(session_id).or_default();
            }
            Outgoing::Release(session_id) => self.release(&session_id, out),
            Outgoing::Past(past) => self.past(*past, out),
            Outgoing::PastEnd { session_id, todos, children } => {
                self.end_past(&session_id, &todos, &children, out);
            }
            Outgoing::Detach(session_id) => {
                self.sessions.remove(&session_id);
                self.outputs.forget(&session_id);
            }
            Outgoing::EditorCall(call) => self.call_editor(*call, out),
            Outgoing::EditorCallDropped(number) => {
                if let Some(id) = self.editor_calls.take_back(number) {
                    let withdrawal = rpc::notification("$/cancel_request", json!({"requestId": id}));
                    lines::write(&withdrawal, out.lines);
                }
            }
            Outgoing::NextQuestion(id) => {
                if let Some(root) = self.permissions.session_to_ask_next(&id) {
                    self.show_ask(&root, out);
                }
            }
        }
    }

    /// Sends a request for the editor, about a session that the client knows.
    fn call_editor(&mut self, call: EditorCall, out: &mut Sink<'_>) {
        let EditorCall { number, session_id, method, mut params, reply } = call;
        let root = self.roots.get(&session_id).filter(|_| !self.sessions.contains_key(&session_id));
        params["sessionId"] = root.unwrap_or(&session_id).as_str().into();
        let id = self.permissions.next_rpc_id();
        lines::write(&rpc::request(&id, method, params), out.lines);
        self.editor_calls.insert(id, number, reply);
    }

    /// Merges two neighbouring deltas of one part and returns true, unless the client gets the events themselves.
    pub fn merge(&self, first: &mut Outgoing, second: &Outgoing) -> bool {
        if self.client.events != EventChoice::None {
            return false;
        }
        let (Outgoing::Event(first), Outgoing::Event(second)) = (first, second) else { return false };
        let EventPayload::PartDelta { part_id: next, delta: more, .. } = &second.payload else {
            return false;
        };
        match &first.payload {
            EventPayload::PartDelta { part_id, .. } if part_id == next => {}
            _ => return false,
        }
        if let EventPayload::PartDelta { delta, .. } = &mut Arc::make_mut(first).payload {
            delta.push_str(more);
        }
        true
    }

    fn attach(
        &mut self,
        session_id: SessionId,
        workspace: Arc<Workspace>,
        title: String,
        cost: f64,
        out: &mut Sink<'_>,
    ) {
        let created = self.created.iter().position(|event| event.payload.session_id() == Some(&session_id));
        let created = created.and_then(|index| self.created.remove(index));
        let shown = Shown {
            cwd: workspace.directory().to_owned(),
            home: workspace.loaded().config.environment.home.clone(),
            workspace,
            title,
            cost,
            model: None,
            user_messages: HashSet::new(),
            summaries: AutoSummaries::default(),
            texts: HashMap::new(),
            progress: HashMap::new(),
            compactions: Compactions::default(),
            todos: Vec::new(),
        };
        // Reopening a session replays it in full.
        self.outputs.forget(&session_id);
        self.roots.remove(&session_id);
        self.sessions.insert(session_id.clone(), shown);
        if let Some(created) = created {
            self.event(&created, out);
        } else if !self.held.contains_key(&session_id) {
            let children = self.roots.iter().filter(|(_, root)| **root == session_id);
            let children: Vec<SessionId> = children.map(|(child, _)| child.clone()).collect();
            self.ask_again(&session_id, &children, out);
        }
    }

    fn event(&mut self, event: &Arc<Event>, out: &mut Sink<'_>) {
        let session_id = event.payload.session_id();
        let Some(id) = session_id else { return self.raw_event(event, out) };
        self.note_child(&event.payload);
        // A subagent's session that the client has opened is shown as itself.
        let is_open = self.sessions.contains_key(id) || self.held.contains_key(id);
        if let Some(root) = self.roots.get(id).filter(|_| !is_open).cloned() {
            return self.child_event(&root, event, out);
        }
        if let Some(held) = self.held.get_mut(id) {
            held.push(event.clone());
        } else if self.sessions.contains_key(id) {
            self.update(id, &event.payload, false, out);
            self.raw_event(event, out);
        } else if let Some(settled) = permissions::settled(&event.payload) {
            // Also for a session that is closed by now: its question must not stay open.
            self.settle(&settled, out);
        } else {
            self.remember(event);
        }
    }

    /// Learns of a subagent's session by the parent it names.
    fn note_child(&mut self, payload: &EventPayload) {
        let (EventPayload::SessionCreated(info) | EventPayload::SessionUpdated(info)) = payload else {
            return;
        };
        let Some(parent) = &info.info.parent_id else { return };
        // A client that has opened the subagent's session is shown it there.
        if self.sessions.contains_key(&info.session_id) {
            return;
        }
        let root = self.roots.get(parent).unwrap_or(parent).clone();
        if self.sessions.contains_key(&root) || self.held.contains_key(&root) {
            self.roots.insert(info.session_id.clone(), root);
        }
    }

    /// Shows a subagent's calls, questions and cost in the session that it works for.
    fn child_event(&mut self, root: &SessionId, event: &Arc<Event>, out: &mut Sink<'_>) {
        if let Some(held) = self.held.get_mut(root) {
            return held.push(event.clone());
        }
        if let EventPayload::PartUpdated { part, .. } = &event.payload {
            self.child_part(root, part, out);
        } else if let EventPayload::PermissionAsked(request) = &event.payload {
            self.ask(root, request, out);
        } else if let EventPayload::QuestionAsked(request) = &event.payload {
            self.ask_question(root, request, out);
        } else if let Some(settled) = permissions::settled(&event.payload) {
            self.settle(&settled, out);
        } else if let EventPayload::SessionDeleted(info) = &event.payload {
            self.roots.remove(&info.session_id);
        }
        self.raw_event(event, out);
    }

    fn child_part(&mut self, root: &SessionId, part: &Part, out: &mut Sink<'_>) {
        if let PartKind::Tool(tool) = &part.kind {
            let call_id = to_proto::child_call_id(&part.session_id, &tool.call_id);
            self.tool(root, &part.id, &ToolPart { call_id, ..(**tool).clone() }, false, out);
        } else if let PartKind::StepFinish { cost, .. } = &part.kind
            && let Some(shown) = self.sessions.get_mut(root)
        {
            // The window it fills is the subagent's own; what it costs is the user's.
            shown.cost = money::sum(shown.cost, *cost);
        }
    }

    fn remember(&mut self, event: &Arc<Event>) {
        if matches!(event.payload, EventPayload::SessionCreated(_)) {
            if self.created.len() == MAX_UNKNOWN {
                self.created.pop_front();
            }
            self.created.push_back(event.clone());
        }
    }

    /// OpenCode's own event, for clients that asked for it.
    fn raw_event(&self, event: &Event, out: &mut Sink<'_>) {
        if self.client.events.wants(event.payload.kind()) {
            let params = ext::EventNotification { session_id: event.payload.session_id(), event };
            lines::write(&rpc::notification(ext::EVENT, params), out.lines);
        }
    }

    fn past(&mut self, past: Past, out: &mut Sink<'_>) {
        let Past { session_id, messages, children } = past;
        for message in messages {
            let info = EventPayload::MessageUpdated { session_id: session_id.clone(), info: message.info };
            self.update(&session_id, &info, true, out);
            for part in message.parts {
                self.part(&session_id, &part, true, out);
                self.replay_child(&session_id, &part, &children, out);
            }
        }
    }

    fn end_past(
        &mut self,
        session_id: &SessionId,
        todos: &[Todo],
        children: &[SessionId],
        out: &mut Sink<'_>,
    ) {
        let is_shown = self.sessions.get(session_id).is_some_and(|shown| shown.todos == todos);
        if !is_shown {
            self.plan(session_id, todos, out);
        }
        self.ask_again(session_id, children, out);
        self.release(session_id, out);
    }

    /// Shows the calls of the subagent that a `task` call started.
    fn replay_child(
        &mut self,
        root: &SessionId,
        part: &Part,
        children: &HashMap<SessionId, Vec<MessageWithParts>>,
        out: &mut Sink<'_>,
    ) {
        let child = task_session(part).and_then(|id| children.get(&id));
        for part in child.into_iter().flatten().flat_map(|message| &message.parts) {
            self.child_part(root, part, out);
            self.replay_child(root, part, children, out);
        }
    }

    /// Shows what was held back.
    fn release(&mut self, session_id: &SessionId, out: &mut Sink<'_>) {
        for event in self.held.remove(session_id).into_iter().flatten() {
            self.event(&event, out);
        }
    }

    fn update(&mut self, id: &SessionId, payload: &EventPayload, is_replay: bool, out: &mut Sink<'_>) {
        match payload {
            EventPayload::SessionCreated(info) => {
                if let Some(shown) = self.sessions.get_mut(id) {
                    shown.title.clone_from(&info.info.title);
                }
            }
            EventPayload::SessionUpdated(info) => self.session_info(id, info, out),
            EventPayload::SessionStatus { status, .. } => self.status(id, status, out),
            EventPayload::SessionIdle { .. } => {
                self.compaction(id, is_replay, Compactions::abandon, out);
                if let Some(shown) = self.sessions.get_mut(id) {
                    shown.texts.clear();
                    shown.progress.clear();
                    shown.user_messages.clear();
                    shown.summaries.clear();
                }
                self.outputs.forget(id);
                // Later events of the subagents belong to no turn.
                self.roots.retain(|_, root| root != id);
            }
            EventPayload::SessionDeleted(_) => {
                self.sessions.remove(id);
                self.outputs.forget(id);
            }
            EventPayload::MessageUpdated { info, .. } => {
                self.message(id, info);
                self.compaction(id, is_replay, |compactions| compactions.message(info), out);
            }
            EventPayload::PartUpdated { part, .. } => {
                self.compaction(id, is_replay, |compactions| compactions.part(part), out);
                self.part(id, part, is_replay, out);
            }
            EventPayload::PartDelta { message_id, part_id, delta, offset, .. } => {
                self.delta(id, message_id, part_id, delta, *offset, out);
            }
            EventPayload::PermissionAsked(request) => self.ask(id, request, out),
            EventPayload::QuestionAsked(request) => self.ask_question(id, request, out),
            EventPayload::PermissionReplied { .. }
            | EventPayload::QuestionReplied { .. }
            | EventPayload::QuestionRejected { .. } => {
                if let Some(settled) = permissions::settled(payload) {
                    self.settle(&settled, out);
                }
            }
            EventPayload::AgentSwitched { .. } => self.switched(id, out),
            EventPayload::TodoUpdated { todos, .. } => self.plan(id, todos, out),
            EventPayload::Toast { title, message, variant, .. } => {
                self.toast(id, title, message, *variant, out);
            }
            EventPayload::SessionError { .. }
            | EventPayload::SessionCompacted { .. }
            | EventPayload::SessionDiff { .. }
            | EventPayload::CommandExecuted { .. }
            | EventPayload::MessageRemoved { .. }
            | EventPayload::PartRemoved { .. }
            | EventPayload::FileEdited { .. }
            | EventPayload::McpToolsChanged { .. }
            | EventPayload::ConfigUpdated { .. }
            | EventPayload::Service(_) => {}
        }
    }

    /// Shows what a live event means for the session's compaction, where the client wants to know.
    fn compaction(
        &mut self,
        id: &SessionId,
        is_replay: bool,
        take: impl FnOnce(&mut Compactions) -> Option<SessionUpdate>,
        out: &mut Sink<'_>,
    ) {
        let Some(shown) = self.sessions.get_mut(id) else { return };
        if self.client.compaction
            && !is_replay
            && let Some(update) = take(&mut shown.compactions)
        {
            lines::update(id, update, out.lines);
        }
    }

    fn session_info(&mut self, id: &SessionId, info: &SessionInfo, out: &mut Sink<'_>) {
        let Some(shown) = self.sessions.get_mut(id) else { return };
        if shown.title != info.info.title {
            shown.title.clone_from(&info.info.title);
            let update = SessionInfoUpdate::new()
                .title(info.info.title.clone())
                .updated_at(clock::iso(info.info.time.updated));
            lines::update(id, SessionUpdate::SessionInfoUpdate(update), out.lines);
        }
    }

    fn status(&self, id: &SessionId, status: &SessionStatus, out: &mut Sink<'_>) {
        if let SessionStatus::Retry { attempt, message, .. } = status {
            let title = format!("The provider did not answer; trying again (attempt {}).", attempt + 1);
            self.toast(id, &title, message, ToastVariant::Warning, out);
        }
    }

    /// Sends a notice, or a thought where the client knows no notices.
    fn toast(&self, id: &SessionId, title: &str, message: &str, variant: ToastVariant, out: &mut Sink<'_>) {
        if self.client.notices {
            let severity = match variant {
                ToastVariant::Info | ToastVariant::Success => NoticeSeverity::Info,
                ToastVariant::Warning => NoticeSeverity::Warning,
                ToastVariant::Error => NoticeSeverity::Error,
            };
            let notice = Notice::new(severity, title.to_owned()).description(message.to_owned());
            lines::update(id, SessionUpdate::Notice(notice), out.lines);
            return;
        }
        // An id of its own, so that no client joins it to a thought of the model.
        let chunk = chunk(&format!("{title}\n{message}"), ids::message().shared());
        lines::update(id, SessionUpdate::AgentThoughtChunk(chunk), out.lines);
    }

    fn message(&mut self, id: &SessionId, message: &Message) {
        let Some(shown) = self.sessions.get_mut(id) else { return };
        shown.summaries.note_message(message);
        match message {
            Message::User(user) => {
                shown.user_messages.insert(user.id.clone());
            }
            Message::Assistant(answer) => {
                shown.model = Some(ModelRef {
                    provider_id: answer.provider_id.clone(),
                    model_id: answer.model_id.clone(),
                    variant: None,
                });
            }
        }
    }

    fn part(&mut self, id: &SessionId, part: &Part, is_replay: bool, out: &mut Sink<'_>) {
        let Some(shown) = self.sessions.get_mut(id) else { return };
        let is_users = shown.user_messages.contains(&part.message_id);
        shown.summaries.note_part(part);
        let is_summary = shown.summaries.contains(&part.message_id);
        match &part.kind {
            PartKind::Text(text) if is_users => {
                // Live, the client shows what its user said by itself.
                if is_replay && text.synthetic != Some(true) && !text.text.is_empty() {
                    let chunk = chunk(&text.text, part.message_id.shared());
                    lines::update(id, SessionUpdate::UserMessageChunk(chunk), out.lines);
                }
            }
            PartKind::Text(text) => self.text(id, part, &text.text, is_summary, out),
            PartKind::Reasoning(reasoning) => self.text(id, part, &reasoning.text, true, out),
            // A call of an earlier turn, whose output the model does not read any more.
            PartKind::Tool(tool) if !is_replay && is_cleared(tool) => {}
            PartKind::Tool(tool) => self.tool(id, &part.id, tool, is_replay, out),
            PartKind::StepFinish { cost, tokens, .. } => {
                if shown.progress.insert(part.id.clone(), Progress::Done).is_some() {
                    return;
                }
                shown.cost = money::sum(shown.cost, *cost);
                let cost = Cost::new(shown.cost, "USD");
                let loaded = shown.workspace.loaded();
                // Without the model's limit there is no window to show a share of.
                if let Some(size) = shown.model.as_ref().and_then(|model| loaded.context_size(model)) {
                    let update = UsageUpdate::new(tokens.context(), size).cost(cost);
                    lines::update(id, SessionUpdate::UsageUpdate(update), out.lines);
                }
            }
            PartKind::File(file) if is_users && is_replay => {
                let chunk = ContentChunk::new(to_proto::file_block(file))
                    .message_id(windlass_protocol::acp::schema::MessageId::new(part.message_id.shared()));
                lines::update(id, SessionUpdate::UserMessageChunk(chunk), out.lines);
            }
            PartKind::File(_)
            | PartKind::StepStart { .. }
            | PartKind::Snapshot { .. }
            | PartKind::Patch { .. }
            | PartKind::Agent { .. }
            | PartKind::Subtask { .. }
            | PartKind::Retry { .. }
            | PartKind::Compaction { .. } => {}
        }
    }

    /// Shows what a whole text has beyond what its deltas have shown.
    fn text(&mut self, id: &SessionId, part: &Part, text: &str, is_thought: bool, out: &mut Sink<'_>) {
        let Some(shown) = self.sessions.get_mut(id) else { return };
        let known = shown.texts.entry(part.id.clone()).or_insert(Text { is_thought, n_bytes: 0 });
        let rest = text.get(known.n_bytes..).unwrap_or_default();
        known.n_bytes = known.n_bytes.max(text.len());
        if !rest.is_empty() {
            lines::update(id, text_update(is_thought, &part.message_id, &part.id, rest), out.lines);
        }
    }

    fn delta(
        &mut self,
        id: &SessionId,
        message_id: &MessageId,
        part_id: &PartId,
        delta: &str,
        offset: usize,
        out: &mut Sink<'_>,
    ) {
        let Some(known) = self.sessions.get_mut(id).and_then(|shown| shown.texts.get_mut(part_id)) else {
            return;
        };
        // A replay may have shown the text's beginning already.
        let rest = delta.get(known.n_bytes.saturating_sub(offset)..).unwrap_or_default();
        known.n_bytes = known.n_bytes.max(offset + delta.len());
        let is_thought = known.is_thought;
        if !rest.is_empty() {
            lines::update(id, text_update(is_thought, message_id, part_id, rest), out.lines);
        }
    }

    fn tool(
        &mut self,
        id: &SessionId,
        part_id: &PartId,
        tool: &ToolPart,
        is_replay: bool,
        out: &mut Sink<'_>,
    ) {
        let Some(shown) = self.sessions.get_mut(id) else { return };
        let progress = match &tool.state {
            ToolState::Pending { .. } => Progress::Pending,
            ToolState::Running { .. } => Progress::Running,
            ToolState::Completed { .. } | ToolState::Error { .. } => Progress::Done,
        };
        let before = shown.progress.get(part_id).copied();
        // A replay may have shown what a held event tells again.
        if before == Some(Progress::Done) || before > Some(progress) {
            return;
        }
        shown.progress.insert(part_id.clone(), progress);
        let is_new = before.is_none();
        if is_new {
            let call = self.outputs.open(to_proto::tool_call(tool, shown.place()), tool, shown.place());
            lines::tool_call(id, &call, out.lines);
        } else if before == Some(progress) && self.outputs.more(id, part_id, tool, Instant::now(), out.lines)
        {
            return;
        }
        // Live, the plan came by its own event while the tool ran.
        if is_replay && let Some(todos) = written_todos(tool) {
            self.plan(id, &todos, out);
        }
        let Some(shown) = self.sessions.get_mut(id) else { return };
        match progress {
            Progress::Pending => {}
            Progress::Running => {
                let opened_in = (before == Some(Progress::Pending)).then_some(shown.place());
                let update = to_proto::tool_call_update(tool, shown.place());
                let update = self.outputs.begin(update, tool, opened_in);
                lines::update(id, SessionUpdate::ToolCallUpdate(update), out.lines);
                self.outputs.more(id, part_id, tool, Instant::now(), out.lines);
            }
            Progress::Done => {
                let update = to_proto::tool_call_update(tool, shown.place());
                self.outputs.end(id, part_id, tool, update, out.lines);
            }
        }
    }

    fn plan(&mut self, id: &SessionId, todos: &[Todo], out: &mut Sink<'_>) {
        if let Some(shown) = self.sessions.get_mut(id) {
            shown.todos = todos.to_vec();
        }
        lines::update(id, SessionUpdate::Plan(to_proto::plan(todos)), out.lines);
    }

    /// Sends the mode of the agent that a tool had the user choose. Prompts do already (see [`super::outbox::Done`]).
    fn switched(&self, id: &SessionId, out: &mut Sink<'_>) {
        let Some(client_session) = self.client_sessions.get(id) else { return };
        for update in options::mode_updates(&client_session.workspace.loaded(), client_session) {
            lines::update(id, update, out.lines);
        }
    }
}

/// Returns true if the output was taken out of what the model reads.
fn is_cleared(tool: &ToolPart) -> bool {
    matches!(&tool.state, ToolState::Completed { time, .. } if time.compacted.is_some())
}

/// Returns the list that a finished call wrote.
fn written_todos(tool: &ToolPart) -> Option<Vec<Todo>> {
    let ToolState::Completed { metadata, .. } = &tool.state else { return None };
    let written: Todos<'_> = Some(metadata).filter(|_| tool.tool == "todowrite").and_then(decode)?;
    Some(written.todos.into_owned())
}

fn text_update(is_thought: bool, message_id: &MessageId, part_id: &PartId, text: &str) -> SessionUpdate {
    if is_thought {
        SessionUpdate::AgentThoughtChunk(chunk(text, part_id.shared()))
    } else {
        SessionUpdate::AgentMessageChunk(chunk(text, message_id.shared()))
    }
}

fn chunk(text: &str, message_id: Arc<str>) -> ContentChunk {
    ContentChunk::new(ContentBlock::Text(TextContent::new(text)))
        .message_id(windlass_protocol::acp::schema::MessageId::new(message_id))
}

#[cfg(test)]
mod tests;
