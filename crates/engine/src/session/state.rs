//! A session as its task holds it, and the journal through which every change is stored and then shown.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use windlass_base::{clock, ids, lock::lock};
use windlass_core::{
    bus::Bus,
    snapshot::ComingTree,
    storage::{Append, KnownFile, Storage, StoredSession, Write},
};
use windlass_protocol::opencode::{
    event::{EventPayload, SessionInfo},
    id::{MessageId, PartId, SessionId},
    message::{AssistantMessage, Message, MessageError, MessageWithParts},
    part::{PRINTED, Part, PartKind, PartTime, TextPart, ToolState, ToolTime},
    session::{Session, SessionStatus, Todo},
    tokens::Tokens,
};
use windlass_services::tool::{self, AgentSwitch, FileStamp, LateErrors};

use super::{
    ahead::Stored,
    encoded_history::EncodedHistoryCache,
    history::History,
    older_messages::{Gathered, OlderMessages},
    open_step::{After, ComingChanges},
    refused_media::RefusedMedia,
    request::Given,
};
use crate::EngineError;

/// Text the model and the user read where a tool was stopped.
pub const TOOL_ABORTED: &str = "Tool execution aborted";
/// The same where the daemon was killed under it (facts: OpenCode §6.6).
pub const TOOL_INTERRUPTED: &str = "[Tool execution was interrupted]";

/// The same where another node of the fleet had the session: the call may have done its work.
pub const TOOL_LOST: &str = "[Tool execution was interrupted: the machine that ran it is gone, and its result is unknown. Look \
                             at what it did before you run it again]";

/// The same where the call had not begun, since a person's yes was waited for.
const TOOL_UNANSWERED: &str = "[Not run: the machine of this session was gone before anybody had answered the question \
                               about this call. It is asked again where somebody can answer]";
/// In the metadata of such a call, until it is asked about again.
pub const UNANSWERED: &str = "unanswered";

/// A session's history and settings. Only its task changes them.
pub struct SessionState {
    pub info: Session,
    pub history: History,
    pub todos: Vec<Todo>,
    /// Shared with the calls of a step, and stored: files that the model has read once are known for good.
    pub known_files: KnownFiles,
    /// Shared with the calls of a step: the errors that language servers have still to report about the files that they
    /// changed.
    pub late_errors: LateErrors,
    /// Words for the model about files that came from another machine, or did not.
    pub brought: Option<String>,
    /// Of the running turn.
    pub turn: TurnState,
    /// A snapshot that no call waits for and that goes on, so that the next one is quick.
    pub background_snapshot: Option<ComingTree>,
    /// For the running turn's next steps.
    pub encoded: EncodedHistoryCache,
    /// Filled in while a request is put together, which borrows the rest.
    pub refused_media: Mutex<RefusedMedia>,
    pub older: OlderMessages,
}

/// A turn's notes for its later steps; each turn begins with new ones.
#[derive(Default)]
pub struct TurnState {
    /// A client's choices for the message of the prompt that is being taken in.
    pub given: Given,
    /// Agent that answers after the running step, if a tool had the user choose one.
    pub switch: Option<AgentSwitch>,
    /// The newest snapshot of the files, while nothing but the model's answer came since.
    pub newest_tree: Option<String>,
    /// The snapshot to take behind the running step.
    pub after: Option<After>,
    /// The snapshot behind the step before, which is being taken.
    pub coming_changes: Option<ComingChanges>,
    /// Tokens that subagents and automatic summaries used since the turn last looked.
    pub child_tokens: Tokens,
}

/// The files the model knows, and how they were when it learnt of them.
#[derive(Debug, Clone, Default)]
pub struct KnownFiles(Arc<Mutex<Stamps>>);

#[derive(Debug, Default)]
struct Stamps {
    stamps: HashMap<PathBuf, FileStamp>,
    unsaved: BTreeSet<PathBuf>,
}

impl KnownFiles {
    /// Restores the stored files; one in a newer version's form that this one cannot read has to be read again.
    fn from_stored(files: Vec<KnownFile>) -> Self {
        let stamp = |file: KnownFile| Some((file.path, serde_json::from_value(file.stamp).ok()?));
        let stamps = files.into_iter().filter_map(stamp).collect();
        Self(Arc::new(Mutex::new(Stamps { stamps, unsaved: BTreeSet::new() })))
    }

    pub fn get(&self, path: &Path) -> Option<FileStamp> {
        lock(&self.0).stamps.get(path).copied()
    }

    /// Returns all of them.
    pub fn paths(&self) -> Vec<PathBuf> {
        lock(&self.0).stamps.keys().cloned().collect()
    }

    /// Adds a file; [`Journal::known_files`] stores it.
    pub fn insert(&self, path: &Path, stamp: FileStamp) {
        let mut noted = lock(&self.0);
        noted.stamps.insert(path.to_owned(), stamp);
        noted.unsaved.insert(path.to_owned());
    }

    /// Adds the files of another list that it has not stored.
    pub fn take_in(&self, other: &Self) {
        for (path, stamp) in other.take_unsaved() {
            self.insert(&path, stamp);
        }
    }

    fn forget(&self, since: i64) {
        let mut noted = lock(&self.0);
        noted.stamps.retain(|_, stamp| stamp.seen_ms < since);
    }

    /// Takes the files that were added and are not stored yet; from now on they count as stored.
    fn take_unsaved(&self) -> Vec<(PathBuf, FileStamp)> {
        let mut noted = lock(&self.0);
        let unsaved = std::mem::take(&mut noted.unsaved);
        let with_stamp = |path: PathBuf| {
            let stamp = *noted.stamps.get(&path)?;
            Some((path, stamp))
        };
        unsaved.into_iter().filter_map(with_stamp).collect()
    }
}

/// A change of a session, from which the store takes its row and the bus its event.
enum Change {
    Session(Arc<Session>),
    Message(Arc<Message>),
    Part(Arc<Part>),
    /// More output of a running command that had printed `offset` bytes. The row is left alone; the output is stored
    /// behind it.
    Printed {
        part: Arc<Part>,
        offset: usize,
        more: String,
    },
    /// Text that was added to a part that held `offset` bytes.
    Text {
        session_id: SessionId,
        message_id: MessageId,
        part_id: PartId,
        offset: usize,
        delta: String,
    },
    MessageRemoved {
        session_id: SessionId,
        message_id: MessageId,
    },
    PartRemoved {
        session_id: SessionId,
        message_id: MessageId,
        part_id: PartId,
    },
    Todos {
        session_id: SessionId,
        todos: Arc<[Todo]>,
    },
    /// For the store alone.
    Stored(Write),
    /// For the bus alone.
    Shown(EventPayload),
}

impl Change {
    fn write(&self) -> Option<Write> {
        Some(match self {
            Self::Session(info) => Write::Session(info.clone()),
            Self::Message(message) => Write::Message(message.clone()),
            Self::Part(part) => Write::Part(part.clone()),
            Self::Printed { part, offset, more: text } => Write::Append(Append {
                session_id: part.session_id.clone(),
                part_id: part.id.clone(),
                offset: *offset,
                text: text.clone(),
            }),
            Self::Text { session_id, part_id, offset, delta, .. } => Write::Append(Append {
                session_id: session_id.clone(),
                part_id: part_id.clone(),
                offset: *offset,
                text: delta.clone(),
            }),
            Self::MessageRemoved { session_id, message_id } => {
                Write::RemoveMessage { session_id: session_id.clone(), id: message_id.clone() }
            }
            Self::PartRemoved { session_id, part_id, .. } => {
                Write::RemovePart { session_id: session_id.clone(), id: part_id.clone() }
            }
            Self::Todos { session_id, todos } => {
                Write::Todos { session_id: session_id.clone(), todos: todos.clone() }
            }
            Self::Stored(write) => write.clone(),
            Self::Shown(_) => return None,
        })
    }

    fn event(self) -> Option<EventPayload> {
        Some(match self {
            Self::Session(info) => {
                EventPayload::SessionUpdated(SessionInfo { session_id: info.id.clone(), info })
            }
            Self::Message(info) => {
                EventPayload::MessageUpdated { session_id: info.session_id().clone(), info }
            }
            Self::Part(part) | Self::Printed { part, .. } => {
                EventPayload::PartUpdated { session_id: part.session_id.clone(), part, time: clock::now_ms() }
            }
            Self::Text { session_id, message_id, part_id, offset, delta } => EventPayload::PartDelta {
                session_id,
                message_id,
                part_id,
                field: "text".into(),
                delta,
                offset: Some(offset),
            },
            Self::MessageRemoved { session_id, message_id } => {
                EventPayload::MessageRemoved { session_id, message_id }
            }
            Self::PartRemoved { session_id, message_id, part_id } => {
                EventPayload::PartRemoved { session_id, message_id, part_id }
            }
            Self::Todos { session_id, todos } => EventPayload::TodoUpdated { session_id, todos },
            Self::Stored(_) => return None,
            Self::Shown(event) => event,
        })
    }
}

/// Changes that were made to the state and not yet stored or shown.
#[derive(Default)]
pub struct Journal {
    changes: Vec<Change>,
}

impl Journal {
    /// Stores everything, then shows it, in the order it was noted. If storing fails, none of it is shown.
    pub async fn commit(&mut self, storage: &Storage, bus: &Bus) -> Result<(), EngineError> {
        let changes = std::mem::take(&mut self.changes);
        storage.apply(changes.iter().filter_map(Change::write).collect()).await?;
        changes.into_iter().filter_map(Change::event).for_each(|event| bus.publish(event));
        Ok(())
    }

    /// Stores everything and returns it, to be shown once the log has the changes.
    pub async fn store_ahead(&mut self, storage: &Storage) -> Result<Stored, EngineError> {
        let changes = std::mem::take(&mut self.changes);
        let writes = storage.apply_ahead(changes.iter().filter_map(Change::write).collect()).await?;
        let events = changes.into_iter().filter_map(Change::event).collect();
        Ok(Stored { writes, events, on_shown: None, waiter: None })
    }

    /// Returns true if a message of the user is among the changes.
    pub fn has_prompt(&self) -> bool {
        self.changes
            .iter()
            .any(|it| matches!(it, Change::Message(message) if matches!(**message, Message::User(_))))
    }

    /// Appends the notes of another journal.
    pub fn append(&mut self, mut other: Self) {
        self.changes.append(&mut other.changes);
    }

    pub fn session(&mut self, info: &Session) {
        self.changes.push(Change::Session(info.clone().into()));
    }

    /// Notes that a tool call, and not a setting, chose the session's agent.
    pub fn switch(&mut self, info: &Session) {
        if let Some(agent) = info.agent.clone() {
            self.event(EventPayload::AgentSwitched { session_id: info.id.clone(), agent });
        }
    }

    pub fn message(&mut self, message: &Message) {
        self.changes.push(Change::Message(message.clone().into()));
    }

    pub fn part(&mut self, part: &Part) {
        self.changes.push(Change::Part(part.clone().into()));
    }

    /// Notes a change of a part that is worth no event.
    pub fn note_part(&mut self, part: &Part) {
        self.write(Write::Part(part.clone().into()));
    }

    /// Notes more output of a running command that had printed `offset` bytes.
    pub fn printed(&mut self, part: &Part, offset: usize, more: String) {
        self.changes.push(Change::Printed { part: part.clone().into(), offset, more });
    }

    /// Notes text that was added to a part that held `offset` bytes.
    pub fn text(&mut self, part: &Part, offset: usize, delta: String) {
        let Part { session_id, message_id, id, .. } = part;
        let (session_id, message_id, part_id) = (session_id.clone(), message_id.clone(), id.clone());
        self.changes.push(Change::Text { session_id, message_id, part_id, offset, delta });
    }

    pub fn remove(&mut self, info: &Session, message_id: &MessageId) {
        let (session_id, message_id) = (info.id.clone(), message_id.clone());
        self.changes.push(Change::MessageRemoved { session_id, message_id });
    }

    pub fn remove_part(&mut self, part: &Part) {
        let Part { session_id, message_id, id, .. } = part;
        let (session_id, message_id, part_id) = (session_id.clone(), message_id.clone(), id.clone());
        self.changes.push(Change::PartRemoved { session_id, message_id, part_id });
    }

    /// Shows something that is not stored.
    pub fn event(&mut self, event: EventPayload) {
        self.changes.push(Change::Shown(event));
    }

    fn write(&mut self, write: Write) {
        self.changes.push(Change::Stored(write));
    }

    pub fn todos(&mut self, info: &Session, todos: &[Todo]) {
        self.changes.push(Change::Todos { session_id: info.id.clone(), todos: todos.into() });
    }

    /// Notes that a prompt does not wait any more, if it did.
    pub fn taken(&mut self, info: &Session, waiting_id: Option<MessageId>) {
        if let Some(id) = waiting_id {
            self.write(Write::TakePrompt { session_id: info.id.clone(), id });
        }
    }

    /// Stores the files that the model has learnt of since.
    pub fn known_files(&mut self, info: &Session, known_files: &KnownFiles) {
        for (path, stamp) in known_files.take_unsaved() {
            // A stamp that cannot be written costs another reading, nothing else.
            let Ok(data) = serde_json::to_value(stamp) else { continue };
            let file = KnownFile { path, seen_ms: stamp.seen_ms, stamp: data };
            self.write(Write::KnownFile { session_id: info.id.clone(), file });
        }
    }

    /// Forgets the files that the model learnt of from that moment on.
    pub fn forget_noted_files(&mut self, info: &Session, known_files: &KnownFiles, since: i64) {
        known_files.forget(since);
        self.write(Write::ForgetKnownFiles { session_id: info.id.clone(), since });
    }

    pub fn status(&mut self, info: &Session, status: SessionStatus) {
        let is_idle = status == SessionStatus::Idle;
        self.event(EventPayload::SessionStatus { session_id: info.id.clone(), status });
        if is_idle {
            self.event(EventPayload::SessionIdle { session_id: info.id.clone() });
        }
    }

    pub fn error(&mut self, info: &Session, error: MessageError) {
        self.event(EventPayload::SessionError { session_id: Some(info.id.clone()), error: Some(error) });
    }
}

impl SessionState {
    /// Restores the state of a session that no task runs: parts that a killed daemon left open are closed
    /// first.
    pub fn from_stored(mut stored: StoredSession) -> (Self, Journal) {
        let mut journal = Journal::default();
        repair(&mut stored.messages, TOOL_INTERRUPTED, &mut journal);
        let StoredSession { info, messages, todos, known_files } = stored;
        let known_files = KnownFiles::from_stored(known_files);
        (Self { todos, known_files, ..Self::new(info, messages) }, journal)
    }

    /// Returns a session in which nothing else has happened yet.
    pub fn new(info: Session, messages: Vec<MessageWithParts>) -> Self {
        Self {
            info,
            history: History::from(messages),
            todos: Vec::new(),
            known_files: KnownFiles::default(),
            turn: TurnState::default(),
            background_snapshot: None,
            late_errors: LateErrors::default(),
            brought: None,
            encoded: EncodedHistoryCache::default(),
            refused_media: Mutex::default(),
            older: OlderMessages::default(),
        }
    }

    /// Returns the values gathered from all messages.
    pub fn gathered(&self) -> Gathered {
        self.older.gathered(&self.history)
    }

    /// Notes that the session changed now.
    pub fn touch(&mut self) {
        self.info.time.updated = clock::now_ms().max(self.info.time.updated + 1);
    }

    /// Appends a message.
    pub fn push_message(&mut self, message: Message, journal: &mut Journal) {
        journal.message(&message);
        self.history.push(message);
    }

    /// Appends a part to the newest message and returns its index there.
    pub fn push_part(&mut self, kind: PartKind, journal: &mut Journal) -> usize {
        self.push_part_as(ids::part(), kind, journal)
    }

    /// Appends a part of the user's to the newest message, under the id that its client chose if it did.
    pub fn push_given_part(&mut self, kind: PartKind, journal: &mut Journal) {
        let id = self.turn.given.part_id(&kind).inspect(|id| ids::follow(id.as_str()));
        self.push_part_as(id.unwrap_or_else(ids::part), kind, journal);
    }

    fn push_part_as(&mut self, id: PartId, kind: PartKind, journal: &mut Journal) -> usize {
        let Some(last) = self.history.newest_mut() else { return 0 };
        let part =
            Part { id, session_id: last.info.session_id().clone(), message_id: last.info.id().clone(), kind };
        journal.part(&part);
        last.parts.push(part);
        last.parts.len() - 1
    }

    /// Returns the newest message's part at an index that [`SessionState::push_part`] returned.
    pub fn part_mut(&mut self, index: usize) -> Option<&mut Part> {
        self.history.newest_mut()?.parts.get_mut(index)
    }

    /// Returns the newest message, when it is the model's.
    pub fn answer_mut(&mut self) -> Option<&mut AssistantMessage> {
        match &mut self.history.newest_mut()?.info {
            Message::Assistant(assistant) => Some(assistant),
            Message::User(_) => None,
        }
    }

    /// Writes the newest message's row.
    pub fn touch_answer(&mut self, journal: &mut Journal) {
        if let Some(last) = self.history.last() {
            journal.message(&last.info);
        }
    }

    /// Ends every part of the newest message that is still open.
    pub fn close_parts(&mut self, journal: &mut Journal) {
        self.close_parts_with(TOOL_ABORTED, journal);
    }

    /// Ends them with a reason for the calls among them.
    pub fn close_parts_with(&mut self, reason: &str, journal: &mut Journal) {
        let Some(last) = self.history.newest_mut() else { return };
        close_parts(&mut last.parts, reason, journal);
    }
}

/// Closes the messages and parts that were open when the daemon that ran the session was killed, with a reason for the
/// calls among them.
pub fn repair(messages: &mut [MessageWithParts], reason: &str, journal: &mut Journal) {
    for message in messages {
        let Message::Assistant(answer) = &mut message.info else { continue };
        if answer.time.completed.is_some() {
            continue;
        }
        close_parts(&mut message.parts, reason, journal);
        answer.time.completed = Some(clock::now_ms());
        if answer.error.is_none() {
            let message = "The daemon ended before the answer was complete.".to_owned();
            answer.error = Some(MessageError::MessageAbortedError { message });
        }
        journal.message(&message.info);
    }
}

/// Closes the calls that had not begun when the machine of a session died. Returns true if there are any.
pub fn close_unanswered(messages: &mut [MessageWithParts], id: &SessionId, journal: &mut Journal) -> bool {
    let mut has_any = false;
    let own = messages.iter_mut().filter(|message| message.info.session_id() == id);
    for part in own.flat_map(|message| &mut message.parts) {
        let PartKind::Tool(tool) = &mut part.kind else { continue };
        // A call that was allowed has metadata. Tools from elsewhere may begin without asking.
        let ToolState::Running { metadata: None, .. } = &tool.state else { continue };
        if tool::BUILTIN.iter().all(|row| row.name != tool.tool) {
            continue;
        }
        let Some(mut closed) = abort(&tool.state, TOOL_UNANSWERED, clock::now_ms()) else { continue };
        if let ToolState::Error { metadata: Some(metadata), .. } = &mut closed {
            metadata.insert(UNANSWERED.to_owned(), true.into());
        }
        tool.state = closed;
        journal.part(part);
        has_any = true;
    }
    has_any
}

/// Returns true if a message has calls that wait to be asked about again.
pub fn has_unanswered(message: &MessageWithParts) -> bool {
    message.parts.iter().any(|part| match &part.kind {
        PartKind::Tool(tool) => match &tool.state {
            ToolState::Error { metadata: Some(metadata), .. } => metadata.contains_key(UNANSWERED),
            ToolState::Error { .. }
            | ToolState::Pending { .. }
            | ToolState::Running { .. }
            | ToolState::Completed { .. } => false,
        },
        _other => false,
    })
}

/// Returns true for a call that had not begun when the machine of its session died.
pub fn is_unanswered(state: &ToolState) -> bool {
    matches!(state, ToolState::Error { error, .. } if error == TOOL_UNANSWERED)
}

fn close_parts(parts: &mut [Part], reason: &str, journal: &mut Journal) {
    let now = clock::now_ms();
    for part in parts {
        let is_open = if let PartKind::Text(text) = &mut part.kind {
            close_time(&mut text.time, now)
        } else if let PartKind::Reasoning(reasoning) = &mut part.kind {
            let is_open = reasoning.time.end.is_none();
            reasoning.time.end.get_or_insert(now);
            is_open
        } else if let PartKind::Tool(tool) = &mut part.kind
            && let Some(state) = abort(&tool.state, reason, now)
        {
            tool.state = state;
            true
        } else {
            false
        };
        if is_open {
            journal.part(part);
        }
    }
}

fn close_time(time: &mut Option<PartTime>, now: i64) -> bool {
    match time {
        Some(time) if time.end.is_none() => {
            time.end = Some(now);
            true
        }
        Some(_) | None => false,
    }
}

fn abort(state: &ToolState, reason: &str, now: i64) -> Option<ToolState> {
    let (input, start, metadata) = match state {
        ToolState::Pending { input, .. } => (input, now, None),
        ToolState::Running { input, metadata, time, .. } => (input, time.start, metadata.clone()),
        ToolState::Completed { .. } | ToolState::Error { .. } => return None,
    };
    let mut metadata = metadata.unwrap_or_default();
    metadata.remove(PRINTED);
    metadata.insert("interrupted".to_owned(), true.into());
    Some(ToolState::Error {
        input: input.clone(),
        error: reason.to_owned(),
        metadata: Some(metadata),
        time: ToolTime { start, end: now, compacted: None },
    })
}

/// Returns a part of text that is complete.
pub fn text_part(text: String, is_synthetic: bool, is_ignored: bool) -> PartKind {
    let now = clock::now_ms();
    PartKind::Text(TextPart {
        text,
        synthetic: is_synthetic.then_some(true),
        ignored: is_ignored.then_some(true),
        time: Some(PartTime { start: now, end: Some(now) }),
        metadata: None,
    })
}

#[cfg(test)]
mod tests;
