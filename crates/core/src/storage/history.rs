//! A session's messages by the page, and the facts about a session that are known without reading them all.

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, de::IgnoredAny};
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    message::{Message, MessageWithParts, UserMessage},
    part::Part,
    session::{Session, Todo},
};

use super::{
    Storage, StorageError, append_unfinished_text, appends,
    client_prompt::{self, ClientPrompt},
    session, todos,
};

/// Bytes of stored messages and parts that make a page whole before it has as many messages as it may.
const PAGE_BYTES: usize = 1024 * 1024;

/// A session without its messages.
#[derive(Debug, Clone)]
pub struct Outline {
    pub info: Session,
    pub todos: Vec<Todo>,
    pub client_prompt: Option<ClientPrompt>,
    pub newest: Option<MessageId>,
    /// The newest message of the user.
    pub last_prompt: Option<UserMessage>,
    /// Answers that were not finished, because their daemon was killed or because they are being made: its own, and
    /// those of its subagents.
    pub unfinished: Vec<MessageWithParts>,
    /// The sessions of its subagents, and of theirs.
    pub children: Vec<SessionId>,
}

/// A range of a session's messages, and the session as it is at that moment.
#[derive(Debug, Clone)]
pub struct Page {
    pub info: Session,
    pub messages: Vec<MessageWithParts>,
}

/// A range of a session's messages, which are in the order of their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Range {
    /// The range begins behind this message.
    pub after: Option<MessageId>,
    /// The last message of the range.
    pub until: Option<MessageId>,
}

impl Storage {
    /// Reads a session's outline without its messages.
    pub async fn outline(&self, id: SessionId) -> Result<Option<Outline>, StorageError> {
        self.reader
            .read(move |connection| {
                let Some(info) = session(connection, &id)? else { return Ok(None) };
                let newest: Option<String> = connection
                    .prepare_cached("SELECT id FROM message WHERE session_id = ?1 ORDER BY id DESC LIMIT 1")?
                    .query_row([id.as_str()], |row| row.get(0))
                    .optional()?;
                let children = descendants(connection, &id)?;
                let mut unfinished = unfinished_of(connection, &id)?;
                // A subagent works only while the session that started it answers.
                if !unfinished.is_empty() {
                    for child in &children {
                        unfinished.extend(unfinished_of(connection, child)?);
                    }
                }
                Ok(Some(Outline {
                    info,
                    todos: todos(connection, &id)?,
                    client_prompt: client_prompt::read(connection, &id)?,
                    newest: newest.map(MessageId::from_trusted),
                    last_prompt: last_prompt(connection, &id)?,
                    unfinished,
                    children,
                }))
            })
            .await
    }

    /// Reads a session and the first messages of a range, at least one and at most `limit` of them.
    pub async fn page(
        &self,
        id: SessionId,
        range: Range,
        limit: usize,
    ) -> Result<Option<Page>, StorageError> {
        self.reader
            .read(move |connection| {
                let Some(info) = session(connection, &id)? else { return Ok(None) };
                Ok(Some(Page { info, messages: page(connection, &id, &range, limit)? }))
            })
            .await
    }

    /// Reads a session's newest message of the user.
    pub async fn last_prompt(&self, session_id: SessionId) -> Result<Option<UserMessage>, StorageError> {
        self.reader.read(move |connection| last_prompt(connection, &session_id)).await
    }

    /// Finds the message of a session with an id that ends with a mark.
    pub async fn marked_message(
        &self,
        session_id: SessionId,
        mark: String,
    ) -> Result<Option<MessageId>, StorageError> {
        self.reader
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT id FROM message WHERE session_id = ?1 AND substr(id, -length(?2)) = ?2 \
                     ORDER BY id LIMIT 1",
                )?;
                let found = statement.query_row([session_id.as_str(), &mark], |row| row.get(0)).optional()?;
                Ok(found.map(|id: String| MessageId::from_trusted(id)))
            })
            .await
    }

    /// Reads a message with its parts.
    pub async fn message(&self, id: MessageId) -> Result<Option<MessageWithParts>, StorageError> {
        self.reader
            .read(move |connection| {
                let mut statement = connection.prepare_cached("SELECT data FROM message WHERE id = ?1")?;
                let data: Option<String> = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
                data.map(|data| whole(connection, &data)).transpose()
            })
            .await
    }
}

/// Reads the ids of all sessions below a session.
pub fn descendants(connection: &Connection, id: &SessionId) -> Result<Vec<SessionId>, StorageError> {
    let mut statement = connection.prepare_cached(
        "WITH RECURSIVE tree(id) AS (SELECT id FROM session WHERE parent_id = ?1 UNION \
         SELECT session.id FROM session JOIN tree ON session.parent_id = tree.id) SELECT id FROM tree",
    )?;
    let ids = statement.query_map([id.as_str()], |row| row.get::<_, String>(0))?;
    ids.map(|id| Ok(SessionId::from_trusted(id?))).collect()
}

fn page(
    connection: &Connection,
    id: &SessionId,
    range: &Range,
    limit: usize,
) -> Result<Vec<MessageWithParts>, StorageError> {
    let appends = appends::of_session(connection, id);
    let connection = &connection.unchecked_transaction()?;
    let mut statement = connection.prepare_cached(
        "SELECT message.rowid, message.data, part.data FROM message \
         LEFT JOIN part ON part.message_id = message.id \
         WHERE message.session_id = ?1 AND message.id > ?2 AND (?3 IS NULL OR message.id <= ?3) \
         ORDER BY message.id",
    )?;
    let after = range.after.as_ref().map_or("", MessageId::as_str);
    let until = range.until.as_ref().map(MessageId::as_str);
    let mut rows = statement.query(params![id.as_str(), after, until])?;
    let mut messages: Vec<MessageWithParts> = Vec::new();
    let (mut newest, mut n_bytes) = (None, 0);
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        if newest.replace(number) != Some(number) {
            if messages.len() >= limit || n_bytes >= PAGE_BYTES {
                break;
            }
            let data = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
            n_bytes += data.len();
            messages.push(MessageWithParts { info: serde_json::from_str(data)?, parts: Vec::new() });
        }
        if let Some(data) = row.get_ref(2)?.as_str_or_null().map_err(rusqlite::Error::from)?
            && let Some(message) = messages.last_mut()
        {
            n_bytes += data.len();
            message.parts.push(serde_json::from_str(data)?);
        }
    }
    // The rows of a message come as they were inserted; sorting them in SQLite would cost each message a sorter.
    for message in &mut messages {
        message.parts.sort_by(|a, b| a.id.cmp(&b.id));
    }
    append_unfinished_text(connection, id, &appends, &mut messages)?;
    Ok(messages)
}

/// Reads the parts of a message.
fn whole(connection: &Connection, data: &str) -> Result<MessageWithParts, StorageError> {
    let info: Message = serde_json::from_str(data)?;
    let mut statement =
        connection.prepare_cached("SELECT data FROM part WHERE message_id = ?1 ORDER BY id")?;
    let mut rows = statement.query([info.id().as_str()])?;
    let mut parts: Vec<Part> = Vec::new();
    while let Some(row) = rows.next()? {
        let data = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        parts.push(serde_json::from_str(data)?);
    }
    Ok(MessageWithParts { info, parts })
}

fn last_prompt(connection: &Connection, id: &SessionId) -> Result<Option<UserMessage>, StorageError> {
    let mut statement = connection.prepare_cached(
        "SELECT data FROM message WHERE session_id = ?1 AND json_extract(data, '$.role') = 'user' \
         ORDER BY id DESC LIMIT 1",
    )?;
    let data: Option<String> = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
    Ok(match data.map(|data| serde_json::from_str(&data)).transpose()? {
        Some(Message::User(user)) => Some(user),
        Some(Message::Assistant(_)) | None => None,
    })
}

/// The fields of a message that tell of an unfinished answer.
#[derive(Deserialize)]
struct Progress<'a> {
    role: &'a str,
    time: ProgressTime,
}

#[derive(Deserialize)]
struct ProgressTime {
    completed: Option<IgnoredAny>,
}

fn unfinished_of(connection: &Connection, id: &SessionId) -> Result<Vec<MessageWithParts>, StorageError> {
    let appends = appends::of_session(connection, id);
    let connection = &connection.unchecked_transaction()?;
    let mut statement =
        connection.prepare_cached("SELECT data FROM message WHERE session_id = ?1 ORDER BY id")?;
    let mut rows = statement.query([id.as_str()])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        let data = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        // SQLite's own JSON functions take several times as long.
        let progress: Progress<'_> = serde_json::from_str(data)?;
        if progress.role == "assistant" && progress.time.completed.is_none() {
            messages.push(whole(connection, data)?);
        }
    }
    append_unfinished_text(connection, id, &appends, &mut messages)?;
    Ok(messages)
}
