//! One change of the store, and how it is carried out.

use std::{os::unix::ffi::OsStrExt, path::PathBuf, sync::Arc};

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_protocol::opencode::{
    id::{MessageId, PartId, SessionId},
    message::Message,
    part::{Part, PartKind},
    session::{Session, SessionModel, Todo},
};

use super::{
    StorageError,
    appends::Append,
    client_prompt::{self, ClientPrompt},
    patch::Settings,
    spent::{self, SpentAnswer},
    waiting,
};

/// One change. A batch of them is one transaction.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Write {
    /// Inserts or replaces a session's row.
    Session(Arc<Session>),
    /// Inserts or replaces a message's row.
    Message(Arc<Message>),
    /// Removes a message and its parts.
    RemoveMessage {
        session_id: SessionId,
        id: MessageId,
    },
    RemovePart {
        session_id: SessionId,
        id: PartId,
    },
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
    /// Gives a session a title, which overrides titles of any process that has it open.
    Rename {
        session_id: SessionId,
        title: String,
    },
    /// Chooses an agent or a model; it holds until the session's task writes the same.
    Choose {
        session_id: SessionId,
        agent: Option<String>,
        model: Option<SessionModel>,
    },
    /// Puts settings in the place of those that the session's task writes.
    Settings {
        session_id: SessionId,
        settings: Settings,
    },
    /// Keeps a prompt that waits, in the place of the one that it was before.
    KeepPrompt {
        session_id: SessionId,
        id: MessageId,
        prompt: Value,
    },
    /// Puts instructions of the client in the place of those that the session has.
    ClientPrompt {
        session_id: SessionId,
        prompt: Option<ClientPrompt>,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownFile {
    pub path: PathBuf,
    /// The time when it learnt of the file, in milliseconds since the epoch.
    pub seen_ms: i64,
    /// A value that changes with the file, written by the code that compares it.
    pub stamp: Value,
}

impl Write {
    /// Returns the session that it changes.
    pub fn session_id(&self) -> &SessionId {
        match self {
            Self::Session(session) => &session.id,
            Self::Message(message) => message.session_id(),
            Self::Part(part) => &part.session_id,
            Self::Append(append) => &append.session_id,
            Self::RemoveMessage { session_id, .. }
            | Self::RemovePart { session_id, .. }
            | Self::Todos { session_id, .. }
            | Self::TakePrompt { session_id, .. }
            | Self::Spent { session_id, .. }
            | Self::KnownFile { session_id, .. }
            | Self::ForgetKnownFiles { session_id, .. }
            | Self::Rename { session_id, .. }
            | Self::Choose { session_id, .. }
            | Self::Settings { session_id, .. }
            | Self::KeepPrompt { session_id, .. }
            | Self::ClientPrompt { session_id, .. }
            | Self::CopyClientPrompt { to: session_id, .. }
            | Self::CopyKnownFiles { to: session_id, .. } => session_id,
        }
    }
}

fn remove_message(connection: &Connection, id: &MessageId) -> rusqlite::Result<()> {
    spent::keep(connection, id)?;
    connection.prepare_cached("DELETE FROM message WHERE id = ?1")?.execute([id.as_str()])?;
    Ok(())
}

/// Carries a change out, in the transaction of the connection.
pub fn apply(connection: &Connection, write: &Write) -> Result<(), StorageError> {
    match write {
        Write::Session(session) => write_session(connection, session)?,
        Write::Message(message) => write_message(connection, message)?,
        Write::RemoveMessage { id, .. } => remove_message(connection, id)?,
        Write::RemovePart { id, .. } => {
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
        Write::Rename { session_id, title } => {
            let sql = "UPDATE session SET chosen_title = ?2 WHERE id = ?1";
            connection.prepare_cached(sql)?.execute([session_id.as_str(), title])?;
        }
        Write::Choose { session_id, agent, model } => {
            let model = model.as_ref().map(serde_json::to_string).transpose()?;
            let mut statement = connection.prepare_cached(
                "UPDATE session SET chosen_agent = coalesce(?2, chosen_agent), \
                 chosen_model = coalesce(?3, chosen_model) WHERE id = ?1",
            )?;
            statement.execute(params![session_id.as_str(), agent, model])?;
        }
        Write::Settings { session_id, settings } => {
            let sql = "UPDATE session SET patch = ?2 WHERE id = ?1";
            connection
                .prepare_cached(sql)?
                .execute([session_id.as_str(), &serde_json::to_string(settings)?])?;
        }
        Write::KeepPrompt { session_id, id, prompt } => waiting::keep(connection, session_id, id, prompt)?,
        Write::ClientPrompt { session_id, prompt } => {
            client_prompt::set(connection, session_id, prompt.as_ref())?;
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
