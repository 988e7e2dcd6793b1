//! Turns the outbox's items into lines, by the state of the client: its sessions and the parts of them it was shown.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::PathBuf,
    sync::Arc,
};

use serde_json::json;
use tokio::time::Instant;
use windlass_base::money;
use windlass_engine::{AutoSummaries, Workspace};
use windlass_protocol::{
    opencode::{
        event::{Event, EventPayload},
        id::{MessageId, PartId, SessionId},
        message::Message,
        model_ref::ModelRef,
        part::{Part, PartKind, ToolPart, ToolState},
        service::ToastVariant,
        session::{SessionStatus, Todo},
    },
    rpc,
};
use windlass_protocol_acp::{
    decode::{ClientCapabilities, EventChoice},
    ext,
    schema::{
        ContentBlock, ContentChunk, Cost, SessionUpdate, TextContent, ToolCallContent, ToolCallUpdate,
        UsageUpdate,
    },
};

use super::{
    client_call::{ClientCall, ClientCalls},
    client_session::ClientSession,
    compactions::Compactions,
    lines::{Dialect, Lines},
    outbox::{Outgoing, Past},
    permissions::{self, Permissions, Waiting},
    terminal::Outputs,
    to_proto,
    v2::{self, State},
};
use call_above::CallAbove;
use child::Child;
use cursors::Cursors;
use foreground::Foreground;
use lists::Lists;
use plans::Plans;

pub mod alone;
mod asks;
mod call_above;
mod child;
mod children;
mod children_above;
mod cursors;
mod foreground;
mod lists;
mod notices;
mod plans;
mod timeline;
mod titles;
mod turns;

/// Sessions that are remembered as created until the client knows them.
const MAX_UNKNOWN: usize = 64;

/// See the module's comment.
#[derive(Default)]
pub struct Encoder {
    pub client: ClientCapabilities,
    /// The sessions the client has opened.
    pub client_sessions: HashMap<SessionId, ClientSession>,
    pub permissions: Permissions,
    sessions: HashMap<SessionId, ShownSession>,
    /// Sessions of subagents, and the session the client knows that they work for.
    roots: HashMap<SessionId, SessionId>,
    /// Those of them that work now; in the background they do so behind the turn that started them.
    working: HashSet<SessionId>,
    /// The calls of subagents that the client sees in the sessions above.
    calls_above: HashMap<SessionId, CallAbove>,
    /// Subagents that the client was told of as sessions of their own.
    children: HashMap<SessionId, Child>,
    /// Events, and ends of prompts, that wait behind a replay.
    held: HashMap<SessionId, Vec<Outgoing>>,
    /// `session.created` of sessions that are not attached yet.
    created: VecDeque<Arc<Event>>,
    outputs: Outputs,
    pub lists: Lists,
    /// The client has answered a question of a subagent that it knows.
    pub has_answered_child: bool,
    /// Requests of tools and servers that the client has not answered.
    pub client_calls: ClientCalls,
}

/// Destination of lines, and the requests that wait for the user.
pub struct Sink<'a> {
    pub lines: Lines<'a>,
    pub waiting: &'a Waiting<'a>,
    /// Requests of the client that have their answers among the lines.
    pub answered: Vec<rpc::Id>,
}

/// The part of a session that the client has been shown.
struct ShownSession {
    cwd: PathBuf,
    home: PathBuf,
    workspace: Arc<Workspace>,
    title: String,
    share: Option<String>,
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
    cursors: Cursors,
    plans: Plans,
    foreground: Foreground,
}

impl ShownSession {
    fn new(workspace: Arc<Workspace>, title: String, cost: f64) -> Self {
        Self {
            cwd: workspace.directory().to_owned(),
            home: workspace.loaded().config.environment.home.clone(),
            workspace,
            title,
            share: None,
            cost,
            model: None,
            user_messages: HashSet::new(),
            summaries: AutoSummaries::default(),
            texts: HashMap::new(),
            progress: HashMap::new(),
            compactions: Compactions::default(),
            cursors: Cursors::default(),
            plans: Plans::default(),
            foreground: Foreground::default(),
        }
    }

    fn bases(&self) -> to_proto::BaseDirectories<'_> {
        to_proto::BaseDirectories { cwd: &self.cwd, home: &self.home }
    }
}

/// Progress of a part; it never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    Pending,
    /// Its input is there, and it may still have to be allowed.
    Ready,
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
        self.outputs.terminals = client.terminals;
        self.client = client;
    }

    /// Returns the form of the client's messages.
    pub fn dialect(&self) -> Dialect {
        let ClientCapabilities { version, diff_patches, plans, .. } = self.client;
        Dialect { version, has_diff_patches: diff_patches, has_plans: plans }
    }

    /// Returns the time at which [`Encoder::encode_due`] has something to send without a new event.
    pub fn due(&self) -> Option<Instant> {
        self.outputs.due().into_iter().chain(self.lists.due()).min()
    }

    /// Encodes the output that was held back to spare the client.
    pub fn encode_due(&mut self, bytes: &mut Vec<u8>) {
        let (now, mut lines) = (Instant::now(), Lines { dialect: self.dialect(), bytes });
        self.outputs.show_due(now, &mut lines);
        self.lists.tell_due(now, &mut lines);
    }

    /// Encodes an item as lines with their line feeds.
    pub fn encode(&mut self, item: Outgoing, out: &mut Sink<'_>) {
        match item {
            Outgoing::Line(line) | Outgoing::Answer { line, .. } => {
                out.lines.bytes.extend_from_slice(&line);
                out.lines.bytes.push(b'\n');
            }
            Outgoing::Event(event) => self.event(&event, out),
            Outgoing::Attach { session_id, workspace, title, cost } => {
                self.attach(session_id, workspace, title, cost, out);
            }
            Outgoing::Hold(session_id) => _ = self.held.entry(session_id).or_default(),
            Outgoing::Release(session_id) => self.release(&session_id, out),
            Outgoing::Past(past) => self.past(*past, out),
            Outgoing::PastEnd { session_id, todos, children } => {
                self.end_past(&session_id, &todos, &children, out);
            }
            Outgoing::Detach(session_id) => {
                self.sessions.remove(&session_id);
                self.forget_children(&session_id, out);
                self.outputs.forget(&session_id);
            }
            Outgoing::ClientCall(call) => self.call_client(*call, out),
            Outgoing::ClientCallDropped(number) => {
                if let Some(id) = self.client_calls.cancel(number) {
                    let withdrawal = rpc::notification("$/cancel_request", json!({"requestId": id}));
                    out.lines.write(&withdrawal);
                }
            }
            Outgoing::Update(session_id, update) => out.lines.update(&session_id, *update),
            Outgoing::PromptBegan { session_id, responder } => self.begin_prompt(&session_id, responder),
            Outgoing::PromptEnded { session_id, end } => self.end_prompt(session_id, end, out),
            Outgoing::State { session_id, is_working } => self.show_state(&session_id, is_working, out),
            Outgoing::ShowSubagentsAbove => self.show_children_above(out),
            Outgoing::NextQuestion(id) => {
                if let Some(root) = self.permissions.session_to_ask_next(&id) {
                    self.show_ask(&root, out);
                }
            }
        }
    }

    /// Sends a request for the client; a session in it is one that the client knows.
    fn call_client(&mut self, call: ClientCall, out: &mut Sink<'_>) {
        let ClientCall { number, session_id, method, mut params, notified, reply } = call;
        // The caller was cancelled before its turn came, or learns that nobody answers.
        if reply.is_closed() || self.client_calls.is_given_up() {
            return;
        }
        if let Some(session_id) = session_id {
            let root = self.roots.get(&session_id).filter(|_| !self.sessions.contains_key(&session_id));
            params["sessionId"] = root.unwrap_or(&session_id).as_str().into();
        }
        let id = self.permissions.next_rpc_id();
        out.lines.write(&rpc::request(&id, method, params));
        self.client_calls.insert(id, number, notified, reply);
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
        let mut shown = ShownSession::new(workspace, title, cost);
        if let Some(before) = self.sessions.remove(&session_id) {
            shown.foreground = before.foreground;
        }
        // Reopening a session replays it in full.
        self.outputs.forget(&session_id);
        let known = self.forget_children(&session_id, out);
        self.children.remove(&session_id);
        self.roots.remove(&session_id);
        self.sessions.insert(session_id.clone(), shown);
        if let Some(created) = created {
            self.event(&created, out);
        } else if !self.held.contains_key(&session_id) {
            self.show_known(&session_id, known, out);
            let children = self.roots.iter().filter(|(_, root)| **root == session_id);
            let children: Vec<SessionId> = children.map(|(child, _)| child.clone()).collect();
            self.ask_again(&session_id, &children, out);
        }
    }

    fn event(&mut self, event: &Arc<Event>, out: &mut Sink<'_>) {
        let session_id = event.payload.session_id();
        let Some(id) = session_id else { return self.raw_event(event, out) };
        self.note_child(&event.payload, out);
        self.lists.note(&event.payload);
        // A subagent's session that the client has opened is shown as itself.
        let is_open = self.sessions.contains_key(id) || self.held.contains_key(id);
        if let Some(root) = self.roots.get(id).filter(|_| !is_open).cloned() {
            return self.child_event(&root, event, out);
        }
        if let Some(held) = self.held.get_mut(id) {
            held.push(Outgoing::Event(event.clone()));
        } else if self.sessions.contains_key(id) {
            if let EventPayload::PartUpdated { part, .. } = &event.payload {
                self.add_childs_cost(id, part);
            }
            self.update(id, &event.payload, out);
            self.show_childs_state(id, &event.payload, out);
            self.raw_event(event, out);
        } else if let Some(settled) = permissions::settled(&event.payload) {
            // Also for a session that is closed by now: its question must not stay open.
            self.settle(&settled, out);
        } else {
            self.remember(event);
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
            out.lines.write(&rpc::notification(ext::EVENT, params));
        }
    }

    fn past(&mut self, past: Past, out: &mut Sink<'_>) {
        let Past { session_id, messages, children } = past;
        for message in messages {
            self.message(&session_id, &message.info, true, out);
            for part in &message.parts {
                self.replay_part(&session_id, part, &children, out);
            }
            self.compaction(&session_id, |compactions| compactions.stored(&message), out);
        }
    }

    fn end_past(
        &mut self,
        session_id: &SessionId,
        todos: &[Todo],
        children: &[SessionId],
        out: &mut Sink<'_>,
    ) {
        let is_shown = self.sessions.get(session_id).is_some_and(|shown| shown.plans.todos == todos);
        if !is_shown {
            self.plan(session_id, todos, out);
        }
        self.show_title(session_id, out);
        if self.is_second_version() {
            out.lines.notify(session_id, v2::replay_complete());
        }
        self.ask_again(session_id, children, out);
        self.release(session_id, out);
    }

    /// Shows the items that were held back.
    fn release(&mut self, session_id: &SessionId, out: &mut Sink<'_>) {
        for item in self.held.remove(session_id).into_iter().flatten() {
            self.encode(item, out);
        }
    }

    fn update(&mut self, id: &SessionId, payload: &EventPayload, out: &mut Sink<'_>) {
        match payload {
            EventPayload::SessionCreated(info) => {
                if let Some(shown) = self.sessions.get_mut(id) {
                    shown.title.clone_from(&info.info.title);
                }
            }
            EventPayload::SessionUpdated(info) => self.session_info(id, info, out),
            EventPayload::SessionStatus { status, .. } => self.status(id, status, out),
            EventPayload::SessionIdle { .. } => {
                self.compaction(id, Compactions::abandon, out);
                if let Some(shown) = self.sessions.get_mut(id) {
                    shown.texts.clear();
                    shown.progress.clear();
                    shown.user_messages.clear();
                    shown.summaries.clear();
                }
                self.outputs.forget(id);
                // Later events of the subagents belong to no turn, but for those in the background.
                self.roots.retain(|child, root| root != id || self.working.contains(child));
                self.calls_above.retain(|child, _| self.roots.contains_key(child));
                self.show_idle(id, out);
            }
            EventPayload::SessionDeleted(_) => {
                self.sessions.remove(id);
                self.children.remove(id);
                self.forget_children(id, out);
                self.outputs.forget(id);
            }
            EventPayload::MessageUpdated { info, .. } => {
                self.message(id, info, false, out);
                self.compaction(id, |compactions| compactions.message(info), out);
            }
            EventPayload::PartUpdated { part, .. } => {
                self.compaction(id, |compactions| compactions.part(part), out);
                self.part(id, part, false, out);
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
            EventPayload::PageCompleted { id, .. } => self.page_completed(id, out),
            EventPayload::MessageRemoved { message_id, .. } => {
                self.cursor(id, |cursors| cursors.removed(message_id), out);
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
            | EventPayload::Inbox(_)
            | EventPayload::PartRemoved { .. }
            | EventPayload::FileEdited { .. }
            | EventPayload::McpToolsChanged { .. }
            | EventPayload::ConfigUpdated { .. }
            | EventPayload::Service(_) => {}
        }
    }

    /// Shows the meaning of an event or a stored message for a session's compaction, where the client wants to know.
    pub(super) fn compaction(
        &mut self,
        id: &SessionId,
        take: impl FnOnce(&mut Compactions) -> Option<SessionUpdate>,
        out: &mut Sink<'_>,
    ) {
        let Some(shown) = self.sessions.get_mut(id) else { return };
        if self.client.compaction
            && let Some(update) = take(&mut shown.compactions)
        {
            out.lines.update(id, update);
        }
    }

    fn status(&mut self, id: &SessionId, status: &SessionStatus, out: &mut Sink<'_>) {
        if *status == SessionStatus::Busy {
            self.set_state(id, State::Running, out);
        }
        if let SessionStatus::Retry { attempt, message, .. } = status {
            let title = format!("The provider did not answer; trying again (attempt {}).", attempt + 1);
            self.toast(id, &title, message, ToastVariant::Warning, out);
        }
    }

    pub(super) fn message(&mut self, id: &SessionId, message: &Message, is_replay: bool, out: &mut Sink<'_>) {
        self.note_message(id, message);
        if let Some(child) = self.children.get_mut(id) {
            child.note_message(message);
        }
        if let Message::User(user) = message {
            self.cursor(id, |cursors| cursors.prompt(&user.id), out);
            let shown = self.sessions.get_mut(id);
            if let Some(update) = shown.and_then(|shown| shown.plans.note_agent(&user.agent)) {
                out.lines.update(id, update);
            }
            self.insert_prompt(id, user, is_replay, out);
        }
    }

    fn note_message(&mut self, id: &SessionId, message: &Message) {
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
                // Live, a client of version 1 shows its user's words by itself.
                let is_unknown = is_replay || self.is_second_version();
                if text.synthetic == Some(true) || text.text.is_empty() {
                } else if self.is_child(id) {
                    self.directed(id, part, ContentBlock::Text(TextContent::new(text.text.as_str())), out);
                } else if is_unknown {
                    let chunk = chunk(&text.text, part.message_id.shared());
                    out.lines.update(id, SessionUpdate::UserMessageChunk(chunk));
                }
            }
            PartKind::Text(text) => {
                if let Some(child) = self.children.get_mut(id).filter(|_| !is_summary) {
                    child.note_text(part, &text.text);
                }
                self.text(id, part, &text.text, is_summary, out);
            }
            PartKind::Reasoning(reasoning) => self.text(id, part, &reasoning.text, true, out),
            // A call of an earlier turn, with output that the model does not read any more.
            PartKind::Tool(tool) if !is_replay && is_cleared(tool) => {}
            PartKind::Tool(tool) => self.tool(id, &part.id, tool, None, is_replay, out),
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
                    out.lines.update(id, SessionUpdate::UsageUpdate(update));
                }
            }
            PartKind::File(file) if is_users && self.is_child(id) => {
                self.directed(id, part, to_proto::file_block(file), out);
            }
            PartKind::File(file) if is_users && (is_replay || self.is_second_version()) => {
                let chunk = ContentChunk::new(to_proto::file_block(file))
                    .message_id(windlass_protocol_acp::schema::MessageId::new(part.message_id.shared()));
                out.lines.update(id, SessionUpdate::UserMessageChunk(chunk));
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

    /// Shows the part of a whole text that its deltas have not shown.
    fn text(&mut self, id: &SessionId, part: &Part, text: &str, is_thought: bool, out: &mut Sink<'_>) {
        let Some(shown) = self.sessions.get_mut(id) else { return };
        if !is_thought && !text.is_empty() {
            shown.cursors.note_text(&part.message_id);
        }
        let known = shown.texts.entry(part.id.clone()).or_insert(Text { is_thought, n_bytes: 0 });
        let rest = text.get(known.n_bytes..).unwrap_or_default();
        known.n_bytes = known.n_bytes.max(text.len());
        if !rest.is_empty() {
            out.lines.update(id, text_update(is_thought, &part.message_id, &part.id, rest));
        }
    }

    fn delta(
        &mut self,
        id: &SessionId,
        message_id: &MessageId,
        part_id: &PartId,
        delta: &str,
        offset: Option<usize>,
        out: &mut Sink<'_>,
    ) {
        let Some(known) = self.sessions.get_mut(id).and_then(|shown| shown.texts.get_mut(part_id)) else {
            return;
        };
        let offset = offset.unwrap_or(known.n_bytes);
        // A replay may have shown the text's beginning already.
        let rest = delta.get(known.n_bytes.saturating_sub(offset)..).unwrap_or_default();
        known.n_bytes = known.n_bytes.max(offset + delta.len());
        let is_thought = known.is_thought;
        if !rest.is_empty() {
            out.lines.update(id, text_update(is_thought, message_id, part_id, rest));
        }
    }

    fn tool(
        &mut self,
        id: &SessionId,
        part_id: &PartId,
        tool: &ToolPart,
        above: Option<&CallAbove>,
        is_replay: bool,
        out: &mut Sink<'_>,
    ) {
        self.note_call_above(tool);
        let link = self.link(tool);
        let Some(shown) = self.sessions.get_mut(id) else { return };
        let progress = match &tool.state {
            ToolState::Pending { .. } => Progress::Pending,
            ToolState::Running { metadata: None, .. } => Progress::Ready,
            ToolState::Running { metadata: Some(_), .. } => Progress::Running,
            ToolState::Completed { .. } | ToolState::Error { .. } => Progress::Done,
        };
        let before = shown.progress.get(part_id).copied();
        // A replay may have shown the state that a held event tells again.
        if before == Some(Progress::Done) || before > Some(progress) {
            return;
        }
        shown.progress.insert(part_id.clone(), progress);
        let is_new = before.is_none();
        if is_new {
            shown.cursors.note_call(&tool.call_id);
            let call = to_proto::tool_call(tool, shown.bases());
            let call = above.into_iter().fold(call, |call, above| above.mark(call));
            let call = self.outputs.open(id, call, tool, shown.bases(), &mut out.lines);
            out.lines.tool_call(id, &call);
        } else if before == Some(progress)
            && self.outputs.more(id, part_id, tool, Instant::now(), &mut out.lines)
        {
            return;
        }
        // Live, the plan came by its own event while the tool ran.
        if is_replay && let Some(todos) = plans::written_todos(tool) {
            self.plan(id, &todos, out);
        }
        let Some(shown) = self.sessions.get_mut(id) else { return };
        match progress {
            Progress::Pending => {}
            Progress::Ready | Progress::Running => {
                let opened_in = (before == Some(Progress::Pending)).then_some(shown.bases());
                let update = linked(to_proto::tool_call_update(tool, shown.bases()), link);
                let update = above.into_iter().fold(update, |update, above| above.mark_update(update));
                let update = self.outputs.begin(id, update, tool, shown.bases(), opened_in, &mut out.lines);
                out.lines.update(id, SessionUpdate::ToolCallUpdate(update));
                self.outputs.more(id, part_id, tool, Instant::now(), &mut out.lines);
            }
            Progress::Done => {
                let update = linked(to_proto::tool_call_update(tool, shown.bases()), link);
                let update = above.into_iter().fold(update, |update, above| above.mark_update(update));
                self.outputs.end(id, part_id, tool, update, &mut out.lines);
                if self.client.plans
                    && let Some(update) = shown.plans.written(tool, &shown.cwd, &shown.workspace.loaded())
                {
                    out.lines.update(id, update);
                }
            }
        }
    }
}

/// Puts the link to a subagent's session before the content of its call.
fn linked(mut update: ToolCallUpdate, link: Option<ToolCallContent>) -> ToolCallUpdate {
    if let Some(link) = link {
        update.fields.content.get_or_insert_default().insert(0, link);
    }
    update
}

/// Returns true if the output was taken out of the model's context.
fn is_cleared(tool: &ToolPart) -> bool {
    matches!(&tool.state, ToolState::Completed { time, .. } if time.compacted.is_some())
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
        .message_id(windlass_protocol_acp::schema::MessageId::new(message_id))
}

#[cfg(test)]
mod tests;
