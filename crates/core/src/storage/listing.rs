//! Sessions by their subject, and the end of a session's messages, for clients that page backwards.

use std::{borrow::Cow, fmt, sync::Arc};

use rusqlite::{Connection, Row, params, types::ValueRef};
use serde::Deserialize;
use windlass_protocol::opencode::{
    id::{MessageId, PartId, SessionId},
    message::MessageWithParts,
    session::{Session, Todo},
};

use super::{Storage, StorageError, append_unfinished_text, appends, decode_session, todos};

/// The sessions that are wanted, most recently changed first.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    pub directory: Option<String>,
    /// The project, and its worktree: sessions there may not know their project yet. Outside of repositories there is
    /// no worktree.
    pub project: Option<(String, Option<String>)>,
    /// The folder below the worktree that they work in, or one around it.
    pub path: Option<String>,
    /// The session that they were started by.
    pub parent_id: Option<SessionId>,
    /// True for sessions that none other started.
    pub is_root: bool,
    /// True for sessions that are not archived.
    pub is_active: bool,
    /// Only those that changed at this time or later, in milliseconds since the epoch.
    pub since: Option<i64>,
    /// Only those that changed before.
    pub before: Option<i64>,
    /// A piece of the title, in any case.
    pub title: Option<String>,
    pub limit: usize,
    pub admitted: Admitted,
}

/// Says of an id whether its session may be listed.
pub type IsAdmitted = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The sessions that may be listed at all: those with ids for which this holds, or every one.
#[derive(Clone, Default)]
pub struct Admitted(pub Option<IsAdmitted>);

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "some" } else { "all" })
    }
}

/// A session of a list.
pub enum Listed {
    /// Its JSON, as it is stored.
    Encoded(String),
    /// One whose JSON is not all that is known of it, or whose title is to be changed.
    Decoded(Box<Session>),
}

impl Storage {
    /// Reads the wanted sessions.
    pub async fn filter_sessions(&self, filter: SessionFilter) -> Result<Vec<Session>, StorageError> {
        self.reader.read(move |connection| filtered(connection, &filter, decode_session)).await
    }

    /// Reads the wanted sessions, and decodes those alone whose title `is_changed`, or of which more is stored than their
    /// JSON.
    pub async fn list_sessions(
        &self,
        filter: SessionFilter,
        is_changed: fn(&str) -> bool,
    ) -> Result<Vec<Listed>, StorageError> {
        self.reader.read(move |connection| filtered(connection, &filter, |row| listed(row, is_changed))).await
    }

    /// Reads the last messages of a session, before one of them or at its end, oldest first.
    pub async fn last_messages(
        &self,
        id: SessionId,
        before: Option<MessageId>,
        limit: Option<usize>,
    ) -> Result<Vec<MessageWithParts>, StorageError> {
        self.reader.read(move |connection| last(connection, &id, before.as_ref(), limit)).await
    }

    /// Returns true if one of these messages or parts is there, in any session.
    pub async fn is_taken(
        &self,
        message: Option<MessageId>,
        parts: Vec<PartId>,
    ) -> Result<bool, StorageError> {
        self.reader
            .read(move |connection| {
                let mut of_message = connection.prepare_cached("SELECT 1 FROM message WHERE id = ?1")?;
                let mut of_part = connection.prepare_cached("SELECT 1 FROM part WHERE id = ?1")?;
                if let Some(id) = &message
                    && of_message.exists([id.as_str()])?
                {
                    return Ok(true);
                }
                for id in &parts {
                    if of_part.exists([id.as_str()])? {
                        return Ok(true);
                    }
                }
                Ok(false)
            })
            .await
    }

    /// Reads a session's list of tasks.
    pub async fn todos(&self, id: SessionId) -> Result<Vec<Todo>, StorageError> {
        self.reader.read(move |connection| todos(connection, &id)).await
    }
}

/// Reads a row that [`decode_session`] takes.
fn listed(row: &Row<'_>, is_changed: fn(&str) -> bool) -> Result<Listed, StorageError> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(rename = "projectID", borrow)]
        project_id: Cow<'a, str>,
        #[serde(borrow)]
        title: Cow<'a, str>,
    }
    let text = |column| row.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    for column in 2..=5 {
        if !matches!(row.get_ref(column)?, ValueRef::Null) {
            return decode_session(row).map(|session| Listed::Decoded(session.into()));
        }
    }
    let data = text(1)?;
    let head: Head<'_> = serde_json::from_str(data)?;
    if head.project_id == text(0)? && !is_changed(&head.title) {
        return Ok(Listed::Encoded(data.to_owned()));
    }
    decode_session(row).map(|session| Listed::Decoded(session.into()))
}

fn filtered<T>(
    connection: &Connection,
    filter: &SessionFilter,
    decode: impl Fn(&Row<'_>) -> Result<T, StorageError>,
) -> Result<Vec<T>, StorageError> {
    // A condition that may hold for all would keep the index from being used.
    let of_directory = if filter.directory.is_some() { "directory = ?1" } else { "?1 IS NULL" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT project_id, data, chosen_title, chosen_agent, chosen_model, patch, id FROM session \
         WHERE {of_directory} \
         AND (?2 IS NULL OR project_id = ?2 OR directory = ?10 OR substr(directory, 1, length(?10) + 1) = ?10 || '/') \
         AND (?3 IS NULL OR parent_id = ?3) AND (NOT ?4 OR parent_id IS NULL) \
         AND (?5 IS NULL OR updated >= ?5) AND (?6 IS NULL OR updated < ?6) \
         AND (?7 IS NULL OR instr(lower(coalesce(chosen_title, data ->> 'title')), ?7) > 0) \
         AND (?9 IS NULL OR data ->> 'path' = ?9 OR substr(data ->> 'path', 1, length(?9) + 1) = ?9 || '/') \
         AND (NOT ?11 OR iif(patch IS NULL, data ->> '$.time.archived', patch ->> 'archived') IS NULL) \
         ORDER BY updated DESC, id DESC LIMIT ?8",
    ))?;
    let SessionFilter {
        directory,
        project,
        path,
        parent_id,
        is_root,
        is_active,
        since,
        before,
        title,
        limit,
        admitted,
    } = filter;
    let (project_id, worktree) = project.clone().unzip();
    let parent_id = parent_id.as_ref().map(SessionId::as_str);
    let title = title.as_ref().map(|title| title.to_lowercase());
    // Of the rows that are read, only some may count.
    let most = if admitted.0.is_some() { i64::MAX } else { i64::try_from(*limit).unwrap_or(i64::MAX) };
    let mut rows = statement.query(params![
        directory,
        project_id,
        parent_id,
        is_root,
        since,
        before,
        title,
        most,
        path,
        worktree.flatten(),
        is_active
    ])?;
    let mut sessions = Vec::new();
    while sessions.len() < *limit
        && let Some(row) = rows.next()?
    {
        let is_admitted = match &admitted.0 {
            Some(is_admitted) => is_admitted(row.get_ref(6)?.as_str().map_err(rusqlite::Error::from)?),
            None => true,
        };
        if is_admitted {
            sessions.push(decode(row)?);
        }
    }
    Ok(sessions)
}

fn last(
    connection: &Connection,
    id: &SessionId,
    before: Option<&MessageId>,
    limit: Option<usize>,
) -> Result<Vec<MessageWithParts>, StorageError> {
    let appends = appends::of_session(connection, id);
    // All rows as they are at one moment.
    let connection = &connection.unchecked_transaction()?;
    let mut statement = connection.prepare_cached(
        "SELECT data FROM message WHERE session_id = ?1 AND (?2 IS NULL OR id < ?2) ORDER BY id DESC LIMIT ?3",
    )?;
    let limit = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![id.as_str(), before.map(MessageId::as_str), limit])?;
    let mut messages: Vec<MessageWithParts> = Vec::new();
    while let Some(row) = rows.next()? {
        let info = serde_json::from_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?;
        messages.push(MessageWithParts { info, parts: Vec::new() });
    }
    messages.reverse();
    let mut statement =
        connection.prepare_cached("SELECT data FROM part WHERE message_id = ?1 ORDER BY id")?;
    for message in &mut messages {
        let mut rows = statement.query([message.info.id().as_str()])?;
        while let Some(row) = rows.next()? {
            let part = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
            message.parts.push(serde_json::from_str(part)?);
        }
    }
    append_unfinished_text(connection, id, &appends, &mut messages)?;
    Ok(messages)
}
