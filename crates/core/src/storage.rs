//! The store: one SQLite file, one thread that writes it, one that reads it.
//!
//! A write is answered when it has reached the operating system: output shown after it survives `kill -9`.

use std::{
    collections::HashMap,
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nix::sys::statvfs::{FsFlags, statvfs};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};
use tokio::sync::OnceCell;
use windlass_protocol::opencode::{
    id::{PartId, SessionId},
    message::MessageWithParts,
    part::Part,
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
pub mod outlet;
mod patch;
mod presence;
pub mod projects;
pub mod repair;
pub mod replica;
pub mod session_locks;
pub mod spent;
mod upkeep;
mod waiting;
mod worker;
mod write;

pub use appends::Append;
use appends::{Slot, Taken};
use outlet::{Outlet, SharedError};
use presence::Presence;
use session_locks::SessionLocks;
use worker::Worker;
use write::apply;
pub use write::{KnownFile, Write};

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
    /// The log that several machines share does not take a change.
    #[error(transparent)]
    Shared(#[from] SharedError),
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
    /// Changes of sessions that several machines share go there too.
    pub outlet: Outlet,
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
            outlet: Outlet::default(),
        }
    }

    /// Applies the changes in order, all or none.
    pub async fn apply(&self, writes: Vec<Write>) -> Result<(), StorageError> {
        let logged = if self.outlet.is_open() { writes.clone() } else { Vec::new() };
        self.apply_here(writes).await?;
        self.outlet.send(logged).await
    }

    /// Applies the changes in order, all or none, and returns them for [`Outlet::send`], without which nobody may see them.
    pub async fn apply_ahead(&self, writes: Vec<Write>) -> Result<Vec<Write>, StorageError> {
        self.apply_here(writes.clone()).await?;
        Ok(writes)
    }

    /// Applies one change in a transaction. Returns false if there was no row to change.
    async fn change(&self, write: Write) -> Result<bool, StorageError> {
        let logged = if self.outlet.is_open() { vec![write.clone()] } else { Vec::new() };
        let is_changed = self
            .writer
            .write(move |connection| {
                apply(connection, &write)?;
                Ok(connection.changes() > 0)
            })
            .await?;
        if is_changed {
            self.outlet.send(logged).await?;
        }
        Ok(is_changed)
    }

    async fn apply_here(&self, writes: Vec<Write>) -> Result<(), StorageError> {
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
        let write = Write::Session(Arc::new(session));
        let logged = if self.outlet.is_open() { vec![write.clone()] } else { Vec::new() };
        let is_new = self
            .writer
            .write(move |connection| {
                let mut statement = connection.prepare_cached("SELECT 1 FROM session WHERE id = ?1")?;
                if statement.exists([write.session_id().as_str()])? {
                    return Ok(false);
                }
                apply(connection, &write)?;
                Ok(true)
            })
            .await?;
        if is_new {
            self.outlet.send(logged).await?;
        }
        Ok(is_new)
    }

    /// Deletes a session, its subagents' sessions and all their contents. Returns false if there was none.
    pub async fn delete_session(&self, id: SessionId) -> Result<bool, StorageError> {
        self.writer.write(move |connection| Ok(replica::delete(connection, &id)? > 0)).await
    }

    /// Gives a session a title, which overrides titles of any process that has it open. Returns false if there
    /// is no such session.
    pub async fn rename(&self, id: SessionId, title: String) -> Result<bool, StorageError> {
        self.change(Write::Rename { session_id: id, title }).await
    }

    /// Stores the agent or model that the user chose for a session. It holds from now on against other writes of the
    /// session's task, until that writes the same.
    pub async fn choose(
        &self,
        id: SessionId,
        agent: Option<String>,
        model: Option<SessionModel>,
    ) -> Result<(), StorageError> {
        self.change(Write::Choose { session_id: id, agent, model }).await?;
        Ok(())
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
