//! The store: one SQLite file, one thread that writes it, one that reads it.
//!
//! A write is answered when it has reached the operating system: output shown after it survives `kill -9`.

use std::{
    collections::HashMap,
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::sys::statvfs::{FsFlags, statvfs};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};
use serde_json::Value;
use tokio::sync::OnceCell;
use windlass_protocol::opencode::{
    id::{MessageId, PartId, SessionId},
    message::{Message, MessageWithParts},
    part::{Part, PartKind},
    session::{ArchiveFilter, Session, SessionModel, Todo},
};

pub mod answers;
mod appends;
pub mod backup;
pub mod check;
pub mod client_prompt;
pub mod counts;
pub mod disk;
pub mod found;
pub mod health;
pub mod history;
pub mod listing;
pub mod migrations;
mod open;
pub mod opencode;
mod patch;
mod presence;
pub mod projects;
pub mod repair;
pub mod session_locks;
pub mod spent;
mod upkeep;
mod waiting;
mod worker;

pub use appends::Append;
use appends::{Slot, Taken};
use presence::Presence;
use session_locks::SessionLocks;
use spent::SpentAnswer;
use worker::Worker;

/// The project id of a repository until git has reported it.
pub const UNKNOWN_PROJECT: &str = "global";

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("the store {path} cannot be opened: {reason}; {remedy}, or set WINDLASS_HOME elsewhere")]
    Open { path: String, reason: String, remedy: &'static str },
    #[error("the store is damaged; `windlass db repair` saves what can be read")]
    Damaged(#[source] rusqlite::Error),
    #[error("the disk with the store is full; free some space and repeat")]
    Full(#[source] rusqlite::Error),
    #[error("another process holds the store locked; end it and repeat")]
    Locked(#[source] rusqlite::Error),
    #[error(
        "the store cannot be written; make windlass.db and its directory writable, or set WINDLASS_HOME elsewhere"
    )]
    NotWritable(#[source] rusqlite::Error),
    #[error(
        "the disk with the store failed ({0}); check the disk and repeat, or set WINDLASS_HOME elsewhere"
    )]
    Disk(#[source] rusqlite::Error),
    #[error("the store failed: {0}")]
    Sqlite(rusqlite::Error),
    #[error("another session has a message {id} already; leave out the id")]
    Taken { id: String },
    /// Another failure, told with the store's path.
    #[error("{sentence}")]
    At {
        sentence: String,
        #[source]
        error: Box<StorageError>,
    },
    #[error(
        "the store cannot be copied into {directory} before it is changed: {reason}; free some space and repeat"
    )]
    Backup { directory: String, reason: String },
    #[error("another windlass uses the store {path}; end it and repeat")]
    InUse { path: String },
    #[error("the store {path} is being repaired; repeat when `windlass db repair` has ended")]
    InRepair { path: String },
    #[error("a newer windlass wrote the store {path} (schema {version}); repair it with that one")]
    Newer { path: String, version: usize },
    #[error("{path} has no tables of sessions that this version knows; a newer one may")]
    Unknown { path: String },
    #[error("the store holds something that cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The whole transaction of the change failed.
    #[error("{reason}")]
    Commit { reason: String },
    #[error("the store's thread has ended")]
    Gone,
}

impl From<rusqlite::Error> for StorageError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StorageError::Damaged(error),
            Some(ErrorCode::DiskFull) => StorageError::Full(error),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StorageError::Locked(error),
            Some(ErrorCode::ReadOnly) => StorageError::NotWritable(error),
            Some(ErrorCode::SystemIoFailure) => StorageError::Disk(error),
            Some(_) | None => StorageError::Sqlite(error),
        }
    }
}

impl StorageError {
    /// Names the store's file in the sentence.
    fn at(self, path: &Path) -> Self {
        let error = match self {
            // Files that were open before answer with a failure of the disk.
            Self::Disk(error) if is_on_read_only_disk(path) => Self::NotWritable(error),
            Self::Disk(error) if disk::is_on_full_disk(path) => Self::Full(error),
            other => other,
        };
        error.named(path)
    }

    fn named(self, path: &Path) -> Self {
        let is_about_file = matches!(
            self,
            Self::Damaged(_) | Self::Full(_) | Self::Locked(_) | Self::NotWritable(_) | Self::Disk(_)
        );
        if !is_about_file {
            return self;
        }
        let named = format!("the store {}", path.display());
        Self::At { sentence: self.to_string().replacen("the store", &named, 1), error: Box::new(self) }
    }
}

fn is_on_read_only_disk(path: &Path) -> bool {
    statvfs(path).is_ok_and(|disk| disk.flags().contains(FsFlags::ST_RDONLY))
}

/// One change. A batch of them is one transaction.
#[derive(Debug, Clone)]
pub enum Write {
    /// Inserts or replaces a session's row.
    Session(Arc<Session>),
    /// Inserts or replaces a message's row.
    Message(Arc<Message>),
    /// Removes a message and its parts.
    RemoveMessage(MessageId),
    RemovePart(PartId),
    /// Inserts or replaces a part's row, including the text that was appended to it before.
    Part(Arc<Part>),
    /// Appends text to a text or reasoning part or to the output of a running command, without rewriting the row.
    Append(Append),
    Todos {
        session_id: SessionId,
        todos: Arc<[Todo]>,
    },
    /// Removes a prompt that waited: its message is stored.
    TakePrompt {
        session_id: SessionId,
        id: MessageId,
    },
    /// Inserts the costs of a removed answer, unless they are known.
    Spent {
        session_id: SessionId,
        answer: SpentAnswer,
    },
    /// Inserts or replaces a session's knowledge of a file.
    KnownFile {
        session_id: SessionId,
        file: KnownFile,
    },
    /// Forgets the files that a session learnt of from that moment on.
    ForgetKnownFiles {
        session_id: SessionId,
        since: i64,
    },
    /// Gives a copy of a session the instructions of its client.
    CopyClientPrompt {
        from: SessionId,
        to: SessionId,
    },
    /// Copies the files that one session knew before that moment to another session.
    CopyKnownFiles {
        from: SessionId,
        to: SessionId,
        before: i64,
    },
}

/// A file that a session's model knows.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownFile {
    pub path: PathBuf,
    /// The time when it learnt of the file, in milliseconds since the epoch.
    pub seen_ms: i64,
    /// A value that changes with the file, written by the code that compares it.
    pub stamp: Value,
}

/// Everything stored of a session.
#[derive(Debug, Clone)]
pub struct StoredSession {
    pub info: Session,
    pub messages: Vec<MessageWithParts>,
    pub todos: Vec<Todo>,
    pub known_files: Vec<KnownFile>,
}

/// The page of sessions to list: root sessions, most recently changed first.
#[derive(Debug, Clone, Default)]
pub struct SessionQuery {
    /// Restricts the list to sessions of this directory.
    pub directory: Option<String>,
    pub archived: ArchiveFilter,
    /// Continues behind this session: time of its last change, and its id.
    pub after: Option<(i64, String)>,
    pub limit: usize,
}

/// The store. Cloning it shares it; threads and file are opened by the first use.
#[derive(Clone)]
pub struct Storage {
    writer: Worker,
    reader: Worker,
    presence: Arc<Presence>,
    pub session_locks: SessionLocks,
    /// Taken by the first append; none if no slot can be had.
    slot: Arc<OnceCell<Option<Slot>>>,
}

impl Storage {
    /// Makes the store of this file.
    pub fn new(path: PathBuf) -> Self {
        let presence = Arc::new(Presence::new(path.clone()));
        let session_locks = SessionLocks::new(&path);
        Self {
            writer: Worker::new("store-writer", path.clone(), &presence, open::to_write),
            reader: Worker::new("store-reader", path, &presence, open::to_read),
            presence,
            session_locks,
            slot: Arc::default(),
        }
    }

    /// Applies the changes in order, all or none.
    pub async fn apply(&self, writes: Vec<Write>) -> Result<(), StorageError> {
        if writes.is_empty() {
            return Ok(());
        }
        let appends = writes.iter().map(|write| match write {
            Write::Append(append) => Some(append),
            _other => None,
        });
        if let Some(appends) = appends.collect::<Option<Vec<_>>>()
            && self.append(&appends).await?
        {
            return Ok(());
        }
        let slot = self.slot.get().and_then(Option::as_ref);
        let parts = |is_whole: bool| {
            let ids = writes.iter().filter_map(move |write| match write {
                Write::Part(part) if is_whole => Some(part.id.clone()),
                Write::Append(append) => Some(append.part_id.clone()),
                _other => None,
            });
            ids.collect::<Vec<PartId>>()
        };
        // Text comes behind the text that the slot holds of its part.
        let before = slot.map(|slot| slot.of_parts(&parts(false))).unwrap_or_default();
        let stored = slot.map(|_| parts(true)).unwrap_or_default();
        self.writer
            .write(move |connection| {
                appends::move_all(connection, before)?;
                writes.iter().try_for_each(|write| apply(connection, write))
            })
            .await?;
        if let Some(slot) = slot {
            slot.finish(&stored);
        }
        Ok(())
    }

    /// Appends text without a transaction. Returns false if it has to be appended in one.
    async fn append(&self, appends: &[&Append]) -> Result<bool, StorageError> {
        let take = async || {
            let taken = self.writer.write(|connection| Ok(Taken::new(connection))).await?;
            Ok::<_, StorageError>(taken.and_then(Taken::begin))
        };
        let Some(slot) = self.slot.get_or_try_init(take).await? else { return Ok(false) };
        if slot.add(appends) {
            return Ok(true);
        }
        // A transaction appends behind the text that the slot holds.
        if let Some(appends) = slot.begin_move() {
            let moved = self.writer.write(move |connection| appends::move_all(connection, appends)).await;
            slot.end_move(moved.is_ok());
            moved?;
        }
        Ok(false)
    }

    /// Stores a new session; returns false if its id is taken.
    pub async fn create_session(&self, session: Session) -> Result<bool, StorageError> {
        self.writer
            .write(move |connection| {
                let taken: Option<i64> = connection
                    .prepare_cached("SELECT 1 FROM session WHERE id = ?1")?
                    .query_row([session.id.as_str()], |row| row.get(0))
                    .optional()?;
                if taken.is_some() {
                    return Ok(false);
                }
                apply(connection, &Write::Session(Arc::new(session)))?;
                Ok(true)
            })
            .await
    }

    /// Deletes a session, its subagents' sessions and all their contents. Returns false if there was none.
    pub async fn delete_session(&self, id: SessionId) -> Result<bool, StorageError> {
        self.writer
            .write(move |connection| {
                let n_deleted = connection
                    .prepare_cached(
                        "WITH RECURSIVE tree(id) AS (SELECT ?1 UNION SELECT session.id FROM session JOIN tree \
                         ON session.parent_id = tree.id) DELETE FROM session WHERE id IN (SELECT id FROM tree)",
                    )?
                    .execute([id.as_str()])?;
                Ok(n_deleted > 0)
            })
            .await
    }

    /// Gives a session a title, which overrides titles of any process that has it open. Returns false if there
    /// is no such session.
    pub async fn rename(&self, id: SessionId, title: String) -> Result<bool, StorageError> {
        self.writer
            .write(move |connection| {
                let mut statement =
                    connection.prepare_cached("UPDATE session SET chosen_title = ?2 WHERE id = ?1")?;
                Ok(statement.execute([id.as_str(), &title])? > 0)
            })
            .await
    }

    /// Stores the agent or model that the user chose for a session. It holds from now on against other writes of the
    /// session's task, until that writes the same.
    pub async fn choose(
        &self,
        id: SessionId,
        agent: Option<String>,
        model: Option<SessionModel>,
    ) -> Result<(), StorageError> {
        self.writer
            .write(move |connection| {
                let model = model.map(|model| serde_json::to_string(&model)).transpose()?;
                let mut statement = connection.prepare_cached(
                    "UPDATE session SET chosen_agent = coalesce(?2, chosen_agent), \
                     chosen_model = coalesce(?3, chosen_model) WHERE id = ?1",
                )?;
                statement.execute(params![id.as_str(), agent, model])?;
                Ok(())
            })
            .await
    }

    /// Stores a session and its subagents' sessions with all their contents, all or nothing. Returns false, and stores
    /// nothing, if one of these ids is taken.
    pub async fn insert(&self, ids: Vec<String>, writes: Vec<Write>) -> Result<bool, StorageError> {
        self.writer
            .write(move |connection| {
                for table in ["session", "message", "part"] {
                    let sql = format!("SELECT 1 FROM {table} WHERE id = ?1");
                    let mut statement = connection.prepare_cached(&sql)?;
                    for id in &ids {
                        if statement.exists([id])? {
                            return Ok(false);
                        }
                    }
                }
                writes.iter().try_for_each(|write| apply(connection, write))?;
                Ok(true)
            })
            .await
    }

    /// Reads a session's row.
    pub async fn session(&self, id: SessionId) -> Result<Option<Session>, StorageError> {
        self.reader.read(move |connection| session(connection, &id)).await
    }

    /// Reads a session with its messages, parts, todos and known files.
    pub async fn load(&self, id: SessionId) -> Result<Option<StoredSession>, StorageError> {
        self.reader
            .read(move |connection| {
                let Some(info) = session(connection, &id)? else { return Ok(None) };
                Ok(Some(StoredSession {
                    info,
                    messages: messages(connection, &id)?,
                    todos: todos(connection, &id)?,
                    known_files: known_files(connection, &id)?,
                }))
            })
            .await
    }

    /// Reads the messages of all subagents' sessions below a session.
    pub async fn descendants(
        &self,
        id: SessionId,
    ) -> Result<HashMap<SessionId, Vec<MessageWithParts>>, StorageError> {
        self.reader
            .read(move |connection| {
                let ids = history::descendants(connection, &id)?.into_iter();
                ids.map(|id| Ok((id.clone(), messages(connection, &id)?))).collect()
            })
            .await
    }

    /// Reads the ids of all sessions below a session.
    pub async fn children(&self, id: SessionId) -> Result<Vec<SessionId>, StorageError> {
        self.reader.read(move |connection| history::descendants(connection, &id)).await
    }

    /// Reads a page of root sessions.
    pub async fn list(&self, query: SessionQuery) -> Result<Vec<Session>, StorageError> {
        self.reader.read(move |connection| list(connection, &query)).await
    }
}

fn remove_message(connection: &Connection, id: &MessageId) -> rusqlite::Result<()> {
    spent::keep(connection, id)?;
    connection.prepare_cached("DELETE FROM message WHERE id = ?1")?.execute([id.as_str()])?;
    Ok(())
}

fn apply(connection: &Connection, write: &Write) -> Result<(), StorageError> {
    match write {
        Write::Session(session) => write_session(connection, session)?,
        Write::Message(message) => write_message(connection, message)?,
        Write::RemoveMessage(id) => remove_message(connection, id)?,
        Write::RemovePart(id) => {
            connection.prepare_cached("DELETE FROM part WHERE id = ?1")?.execute([id.as_str()])?;
        }
        Write::Part(part) => write_part(connection, part)?,
        Write::Append(Append { session_id, part_id, text, .. }) => {
            let insert = "INSERT INTO part_text (part_id, session_id, text) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(insert)?.execute([part_id.as_str(), session_id.as_str(), text])?;
        }
        Write::TakePrompt { session_id, id } => waiting::remove(connection, session_id, id)?,
        Write::Spent { session_id, answer } => spent::insert(connection, session_id, answer)?,
        Write::Todos { session_id, todos } => {
            connection
                .prepare_cached(
                    "INSERT INTO todo (session_id, data) VALUES (?1, ?2) \
                     ON CONFLICT (session_id) DO UPDATE SET data = excluded.data",
                )?
                .execute([session_id.as_str(), &serde_json::to_string(todos)?])?;
        }
        Write::KnownFile { session_id, file } => {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO noted_file (session_id, path, noted, data) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![
                    session_id.as_str(),
                    file.path.as_os_str().as_bytes(),
                    file.seen_ms,
                    file.stamp.to_string()
                ])?;
        }
        Write::ForgetKnownFiles { session_id, since } => {
            connection
                .prepare_cached("DELETE FROM noted_file WHERE session_id = ?1 AND noted >= ?2")?
                .execute(params![session_id.as_str(), since])?;
        }
        Write::CopyClientPrompt { from, to } => client_prompt::copy(connection, from, to)?,
        Write::CopyKnownFiles { from, to, before } => {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO noted_file (session_id, path, noted, data) \
                     SELECT ?2, path, noted, data FROM noted_file WHERE session_id = ?1 AND noted < ?3",
                )?
                .execute(params![from.as_str(), to.as_str(), before])?;
        }
    }
    Ok(())
}

fn write_session(connection: &Connection, session: &Session) -> Result<(), StorageError> {
    connection
        .prepare_cached(
            "INSERT INTO session (id, project_id, parent_id, directory, updated, data) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO UPDATE SET \
             directory = excluded.directory, updated = excluded.updated, data = excluded.data, \
             chosen_agent = nullif(chosen_agent, ?7), chosen_model = nullif(chosen_model, ?8)",
        )?
        .execute(params![
            session.id.as_str(),
            session.project_id,
            session.parent_id.as_ref().map(SessionId::as_str),
            session.directory,
            session.time.updated,
            serde_json::to_string(session)?,
            session.agent,
            session.model.as_ref().map(serde_json::to_string).transpose()?,
        ])?;
    Ok(())
}

fn write_message(connection: &Connection, message: &Message) -> Result<(), StorageError> {
    let n_written = connection
        .prepare_cached(
            "INSERT INTO message (id, session_id, data) VALUES (?1, ?2, ?3) \
             ON CONFLICT (id) DO UPDATE SET data = excluded.data WHERE session_id = excluded.session_id",
        )?
        .execute(params![
            message.id().as_str(),
            message.session_id().as_str(),
            serde_json::to_string(message)?
        ])?;
    if n_written == 0 {
        return Err(StorageError::Taken { id: message.id().to_string() });
    }
    Ok(())
}

fn write_part(connection: &Connection, part: &Part) -> Result<(), StorageError> {
    connection
        .prepare_cached(
            "INSERT INTO part (id, message_id, session_id, data) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (id) DO UPDATE SET data = excluded.data",
        )?
        .execute(params![
            part.id.as_str(),
            part.message_id.as_str(),
            part.session_id.as_str(),
            serde_json::to_string(part)?
        ])?;
    if matches!(part.kind, PartKind::Text(_) | PartKind::Reasoning(_) | PartKind::Tool(_)) {
        connection.prepare_cached("DELETE FROM part_text WHERE part_id = ?1")?.execute([part.id.as_str()])?;
    }
    Ok(())
}

fn session(connection: &Connection, id: &SessionId) -> Result<Option<Session>, StorageError> {
    let mut statement = connection.prepare_cached(
        "SELECT project_id, data, chosen_title, chosen_agent, chosen_model, patch FROM session WHERE id = ?1",
    )?;
    let mut rows = statement.query([id.as_str()])?;
    rows.next()?.map(decode_session).transpose()
}

/// Decodes a session from a row that begins with `project_id, data` and the chosen columns.
fn decode_session(row: &Row<'_>) -> Result<Session, StorageError> {
    let mut session: Session =
        serde_json::from_str(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?;
    // The column is updated when the project is found; the JSON keeps the first value.
    session.project_id = row.get(0)?;
    // Separate from the JSON, which any process that has the session open overwrites.
    if let Some(title) = row.get(2)? {
        session.title = title;
    }
    // Choices that the task of the session has not taken yet.
    if let Some(agent) = row.get(3)? {
        session.agent = Some(agent);
    }
    if let Some(model) = row.get_ref(4)?.as_str_or_null().map_err(rusqlite::Error::from)? {
        session.model = Some(serde_json::from_str(model)?);
    }
    if let Some(patch) = row.get_ref(5)?.as_str_or_null().map_err(rusqlite::Error::from)? {
        serde_json::from_str::<patch::Settings>(patch)?.replace(&mut session);
    }
    Ok(session)
}

fn messages(connection: &Connection, id: &SessionId) -> Result<Vec<MessageWithParts>, StorageError> {
    let appends = appends::of_session(connection, id);
    // All rows as they are at one moment.
    let connection = &connection.unchecked_transaction()?;
    let mut messages: Vec<MessageWithParts> = Vec::new();
    let mut statement =
        connection.prepare_cached("SELECT data FROM message WHERE session_id = ?1 ORDER BY id")?;
    let mut rows = statement.query([id.as_str()])?;
    while let Some(row) = rows.next()? {
        messages.push(MessageWithParts {
            info: serde_json::from_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?,
            parts: Vec::new(),
        });
    }
    let mut statement =
        connection.prepare_cached("SELECT data FROM part WHERE session_id = ?1 ORDER BY id")?;
    let mut rows = statement.query([id.as_str()])?;
    while let Some(row) = rows.next()? {
        let part: Part = serde_json::from_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?;
        if let Ok(index) = messages.binary_search_by(|it| it.info.id().cmp(&part.message_id)) {
            messages[index].parts.push(part);
        }
    }
    append_unfinished_text(connection, id, &appends, &mut messages)?;
    Ok(messages)
}

/// Adds text that was shown but that belongs to a part never finished, because the daemon was killed.
fn append_unfinished_text(
    connection: &Connection,
    id: &SessionId,
    appends: &[Append],
    messages: &mut [MessageWithParts],
) -> Result<(), StorageError> {
    let mut statement = connection
        .prepare_cached("SELECT part_id, text FROM part_text WHERE session_id = ?1 ORDER BY seq")?;
    let mut rows = statement.query([id.as_str()])?;
    let mut row = rows.next()?;
    // Most sessions have none, and their parts need not be looked up.
    if row.is_none() && appends.is_empty() {
        return Ok(());
    }
    let parts = messages.iter_mut().flat_map(|message| message.parts.iter_mut());
    let mut parts: HashMap<PartId, &mut Part> = parts.map(|part| (part.id.clone(), part)).collect();
    while let Some(found) = row {
        let (part_id, text): (String, String) = (found.get(0)?, found.get(1)?);
        if let Some(part) = parts.get_mut(&PartId::from_trusted(part_id)) {
            appends::append(part, &text);
        }
        row = rows.next()?;
    }
    for append in appends {
        if let Some(part) = parts.get_mut(&append.part_id) {
            appends::extend(part, append);
        }
    }
    Ok(())
}

fn todos(connection: &Connection, id: &SessionId) -> Result<Vec<Todo>, StorageError> {
    let mut statement = connection.prepare_cached("SELECT data FROM todo WHERE session_id = ?1")?;
    let data: Option<String> = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
    Ok(data.map(|data| serde_json::from_str(&data)).transpose()?.unwrap_or_default())
}

fn known_files(connection: &Connection, id: &SessionId) -> Result<Vec<KnownFile>, StorageError> {
    let mut statement =
        connection.prepare_cached("SELECT path, noted, data FROM noted_file WHERE session_id = ?1")?;
    let mut rows = statement.query([id.as_str()])?;
    let mut files = Vec::new();
    while let Some(row) = rows.next()? {
        let data: String = row.get(2)?;
        files.push(KnownFile {
            path: OsString::from_vec(row.get(0)?).into(),
            seen_ms: row.get(1)?,
            stamp: serde_json::from_str(&data)?,
        });
    }
    Ok(files)
}

fn list(connection: &Connection, query: &SessionQuery) -> Result<Vec<Session>, StorageError> {
    let (updated, id) = query.after.clone().unwrap_or((i64::MAX, String::new()));
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    // A condition that may hold for all would keep the index from being used.
    let of_directory = if query.directory.is_some() { "directory = ?1" } else { "?1 IS NULL" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT project_id, data, chosen_title, chosen_agent, chosen_model, patch FROM session WHERE parent_id IS NULL \
         AND {of_directory} AND (updated, id) < (?2, ?3) \
         AND (?5 IS NULL OR ?5 = (iif(patch IS NULL, data ->> '$.time.archived', patch ->> 'archived') IS NOT NULL)) \
         ORDER BY updated DESC, id DESC LIMIT ?4",
    ))?;
    let is_archived = match query.archived {
        ArchiveFilter::Exclude => Some(false),
        ArchiveFilter::Include => None,
        ArchiveFilter::Only => Some(true),
    };
    let mut rows = statement.query(params![query.directory, updated, id, limit, is_archived])?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        sessions.push(decode_session(row)?);
    }
    Ok(sessions)
}

#[cfg(test)]
mod tests;
