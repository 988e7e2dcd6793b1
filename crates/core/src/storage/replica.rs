//! A session as a whole, with those of its subagents: read as changes that make it anew, and replaced by such changes.
//!
//! A *mark* says which epoch of the shared log the rows here come from.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    session::Session,
};

use super::{
    Storage, StorageError, Write, appends, apply, client_prompt, history, known_files, messages, spent, todos,
};

/// The epoch of a session that is known by its row in the list alone.
pub const LISTED: i64 = -1;

/// The place of a session's rows in the shared log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub epoch: i64,
    /// Everything that is stored here was in the log when the session was given back.
    pub is_complete: bool,
}

impl Storage {
    /// Reads a session and those below it as the changes that make them; `None` if there is no such session.
    pub async fn as_writes(&self, id: SessionId) -> Result<Option<Vec<Write>>, StorageError> {
        self.reader
            .read(move |connection| {
                let mut ids = vec![id.clone()];
                ids.extend(history::descendants(connection, &id)?);
                let mut writes = Vec::new();
                for id in &ids {
                    writes.extend(session_as_writes(connection, id)?);
                }
                Ok(Some(writes).filter(|writes| !writes.is_empty()))
            })
            .await
    }

    /// Puts a session that others may have changed in the place of the one here, with those below it, and notes its epoch.
    pub async fn replace(&self, id: SessionId, writes: Vec<Write>, epoch: i64) -> Result<(), StorageError> {
        self.writer
            .write(move |connection| {
                delete(connection, &id)?;
                for write in writes {
                    match write {
                        Write::Append(append) => appends::catch_up(connection, append)?,
                        Write::Session(info) => {
                            let (id, project) = (info.id.clone(), info.project_id.clone());
                            apply(connection, &Write::Session(info))?;
                            let sql = "UPDATE session SET project_id = ?2 WHERE id = ?1";
                            connection.prepare_cached(sql)?.execute([id.as_str(), &project])?;
                        }
                        write => apply(connection, &write)?,
                    }
                }
                set_mark(connection, &id, Mark { epoch, is_complete: false })
            })
            .await
    }

    /// Takes in rows of the list that all machines share, each with the epoch of its lease. A session that is as new here
    /// stays as it is.
    pub async fn take_listed(&self, rows: Vec<(Session, i64)>) -> Result<(), StorageError> {
        self.writer
            .write(move |connection| {
                for (info, epoch) in rows {
                    let id = info.id.clone();
                    let is_here = super::session(connection, &id)?.is_some();
                    let mark = mark(connection, &id)?;
                    let is_older = mark.is_some_and(|mark| mark.epoch < epoch);
                    if !is_here {
                        apply(connection, &Write::Session(info.into()))?;
                        set_mark(connection, &id, Mark { epoch: LISTED, is_complete: false })?;
                    } else if is_older {
                        apply(connection, &Write::Session(info.into()))?;
                        // Choices of another node are in the row.
                        let sql = "UPDATE session SET chosen_title = NULL, chosen_agent = NULL, chosen_model = NULL, \
                                   patch = NULL WHERE id = ?1";
                        connection.prepare_cached(sql)?.execute([id.as_str()])?;
                    }
                }
                Ok(())
            })
            .await
    }

    /// Forgets everything about another shared store than this one: its marks say nothing here, and its rows of the list
    /// are no sessions. Returns after the first use of a store at once.
    pub async fn belong_to(&self, fleet: i64) -> Result<(), StorageError> {
        if self.shared_state("fleet").await? == fleet {
            return Ok(());
        }
        self.writer
            .write(move |connection| {
                connection.execute(
                    "DELETE FROM session WHERE id IN (SELECT session_id FROM shared_session WHERE epoch = ?1)",
                    [LISTED],
                )?;
                connection.execute("DELETE FROM shared_session", [])?;
                connection.execute("DELETE FROM shared_state", [])?;
                connection.execute("INSERT INTO shared_state (name, value) VALUES ('fleet', ?1)", [fleet])?;
                Ok(())
            })
            .await
    }

    /// Reads a number that is kept about the shared store; 0 if there is none.
    pub async fn shared_state(&self, name: &'static str) -> Result<i64, StorageError> {
        self.reader
            .read(move |connection| {
                let mut statement =
                    connection.prepare_cached("SELECT value FROM shared_state WHERE name = ?1")?;
                Ok(statement.query_row([name], |row| row.get(0)).optional()?.unwrap_or(0))
            })
            .await
    }

    /// Keeps a number about the shared store.
    pub async fn set_shared_state(&self, name: &'static str, value: i64) -> Result<(), StorageError> {
        self.writer
            .write(move |connection| {
                let sql = "INSERT OR REPLACE INTO shared_state (name, value) VALUES (?1, ?2)";
                connection.prepare_cached(sql)?.execute(params![name, value])?;
                Ok(())
            })
            .await
    }

    /// Reads the mark of a session; `None` if it was never shared.
    pub async fn mark(&self, id: SessionId) -> Result<Option<Mark>, StorageError> {
        self.reader.read(move |connection| mark(connection, &id)).await
    }

    /// Marks a session.
    pub async fn set_mark(&self, id: SessionId, mark: Mark) -> Result<(), StorageError> {
        self.writer.write(move |connection| set_mark(connection, &id, mark)).await
    }

    /// Returns the session at the top of those that started a session; itself if none did or it is not stored.
    pub async fn root_of(&self, id: SessionId) -> Result<SessionId, StorageError> {
        self.reader
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "WITH RECURSIVE above(id, parent_id, depth) AS (SELECT id, parent_id, 0 FROM session WHERE id = ?1 \
                     UNION ALL SELECT session.id, session.parent_id, depth + 1 FROM session JOIN above \
                     ON session.id = above.parent_id WHERE depth < 100) \
                     SELECT id FROM above ORDER BY depth DESC LIMIT 1",
                )?;
                let root: Option<String> =
                    statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
                Ok(root.map_or(id, SessionId::from_trusted))
            })
            .await
    }
}

fn mark(connection: &Connection, id: &SessionId) -> Result<Option<Mark>, StorageError> {
    let sql = "SELECT epoch, is_complete FROM shared_session WHERE session_id = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mark =
        statement.query_row([id.as_str()], |row| Ok(Mark { epoch: row.get(0)?, is_complete: row.get(1)? }));
    Ok(mark.optional()?)
}

fn set_mark(connection: &Connection, id: &SessionId, mark: Mark) -> Result<(), StorageError> {
    connection
        .prepare_cached(
            "INSERT INTO shared_session (session_id, epoch, is_complete) VALUES (?1, ?2, ?3) ON CONFLICT (session_id) \
             DO UPDATE SET epoch = excluded.epoch, is_complete = excluded.is_complete",
        )?
        .execute(params![id.as_str(), mark.epoch, mark.is_complete])?;
    Ok(())
}

/// Deletes a session and those below it.
pub(super) fn delete(connection: &Connection, id: &SessionId) -> Result<usize, StorageError> {
    let n_deleted = connection
        .prepare_cached(
            "WITH RECURSIVE tree(id) AS (SELECT ?1 UNION SELECT session.id FROM session JOIN tree \
             ON session.parent_id = tree.id) DELETE FROM session WHERE id IN (SELECT id FROM tree)",
        )?
        .execute([id.as_str()])?;
    Ok(n_deleted)
}

fn session_as_writes(connection: &Connection, id: &SessionId) -> Result<Vec<Write>, StorageError> {
    let row = connection
        .prepare_cached(
            "SELECT project_id, data, chosen_title, chosen_agent, chosen_model, patch FROM session WHERE id = ?1",
        )?
        .query_row([id.as_str()], |row| {
            let column = |index: usize| row.get::<_, Option<String>>(index);
            let (project_id, data): (String, String) = (row.get(0)?, row.get(1)?);
            Ok((project_id, data, column(2)?, column(3)?, column(4)?, column(5)?))
        })
        .optional()?;
    let Some((project_id, data, title, agent, model, patch)) = row else { return Ok(Vec::new()) };
    let mut session: Session = serde_json::from_str(&data)?;
    session.project_id = project_id;
    let session_id = id.clone();
    let mut writes = vec![Write::Session(session.into())];
    writes.extend(title.map(|title| Write::Rename { session_id: session_id.clone(), title }));
    if agent.is_some() || model.is_some() {
        let model = model.map(|model| serde_json::from_str(&model)).transpose()?;
        writes.push(Write::Choose { session_id: session_id.clone(), agent, model });
    }
    if let Some(settings) = patch.map(|patch| serde_json::from_str(&patch)).transpose()? {
        writes.push(Write::Settings { session_id: session_id.clone(), settings });
    }
    if let Some(prompt) = client_prompt::read(connection, id)? {
        writes.push(Write::ClientPrompt { session_id: session_id.clone(), prompt: Some(prompt) });
    }
    for message in messages(connection, id)? {
        writes.push(Write::Message(message.info.into()));
        writes.extend(message.parts.into_iter().map(|part| Write::Part(part.into())));
    }
    let todos = todos(connection, id)?;
    if !todos.is_empty() {
        writes.push(Write::Todos { session_id: session_id.clone(), todos: todos.into() });
    }
    let known = known_files(connection, id)?.into_iter();
    writes.extend(known.map(|file| Write::KnownFile { session_id: session_id.clone(), file }));
    let spent = spent::of_session(connection, id)?.into_iter();
    writes.extend(spent.map(|answer| Write::Spent { session_id: session_id.clone(), answer }));
    let mut statement =
        connection.prepare_cached("SELECT id, data FROM waiting_prompt WHERE session_id = ?1 ORDER BY id")?;
    let mut rows = statement.query([id.as_str()])?;
    while let Some(row) = rows.next()? {
        let (prompt_id, data): (String, String) = (row.get(0)?, row.get(1)?);
        let (id, prompt) = (MessageId::from_trusted(prompt_id), serde_json::from_str(&data)?);
        writes.push(Write::KeepPrompt { session_id: session_id.clone(), id, prompt });
    }
    Ok(writes)
}

#[cfg(test)]
mod tests;
