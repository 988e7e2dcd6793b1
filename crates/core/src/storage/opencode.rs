//! Reads OpenCode's own history: its SQLite file, and the JSON files of its older versions. Nothing is written there.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, Row, types::ValueRef};
use serde_json::{Map, Value, json};
use windlass_protocol::opencode::id::{MessageId, SessionId};

use super::{StorageError, open};

/// Bytes of a JSON file that are read.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// OpenCode's stored sessions.
pub enum OpencodeStore {
    Database(Box<Connection>),
    /// The directory `storage` of versions without a database.
    Files(PathBuf),
}

/// A stored session by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpencodeSession {
    pub id: String,
    pub parent_id: Option<String>,
    pub directory: String,
}

impl OpencodeStore {
    /// Opens a database or a directory; `None` if there is neither in OpenCode's data directory `path`, and none at
    /// `path` itself.
    pub fn open(path: &Path) -> Result<Option<Self>, StorageError> {
        let database = if path.is_file() { path.to_owned() } else { path.join("opencode.db") };
        if database.is_file() {
            let (connection, _) = open::to_examine(&database).map_err(|error| error.at(&database))?;
            return Ok(Some(Self::Database(Box::new(connection))));
        }
        let files = [path.join("storage"), path.to_owned()];
        let files = files.into_iter().find(|path| path.join("session").is_dir());
        Ok(files.map(Self::Files))
    }

    /// Lists all sessions, parents before their subagents where both are known.
    pub fn sessions(&self) -> Result<Vec<OpencodeSession>, StorageError> {
        let mut found = match self {
            Self::Database(connection) => {
                let mut statement = connection
                    .prepare("SELECT id, parent_id, directory FROM session ORDER BY time_created")?;
                let rows = statement.query_map([], |row| {
                    Ok(OpencodeSession { id: row.get(0)?, parent_id: row.get(1)?, directory: row.get(2)? })
                })?;
                rows.collect::<Result<Vec<_>, _>>()?
            }
            Self::Files(root) => {
                let of_projects = json_files(&root.join("session"), 2);
                let infos = of_projects.iter().filter_map(|path| read_json(path));
                infos
                    .filter_map(|info| {
                        let text = |key: &str| info[key].as_str().map(str::to_owned);
                        let directory = text("directory").unwrap_or_default();
                        Some(OpencodeSession { id: text("id")?, parent_id: text("parentID"), directory })
                    })
                    .collect()
            }
        };
        found.sort_by_key(|session| session.parent_id.is_some());
        Ok(found)
    }

    /// Reads a session as `opencode export` writes it; `None` if there is no such session.
    pub fn session(&self, id: &SessionId) -> Result<Option<Value>, StorageError> {
        match self {
            Self::Database(connection) => from_database(connection, id),
            Self::Files(root) => Ok(from_files(root, id)),
        }
    }
}

fn from_database(connection: &Connection, id: &SessionId) -> Result<Option<Value>, StorageError> {
    let mut statement = connection.prepare("SELECT * FROM session WHERE id = ?1")?;
    let mut rows = statement.query([id.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let info = info_of(&columns(row)?);
    let mut parts = connection.prepare("SELECT id, data FROM part WHERE message_id = ?1 ORDER BY id")?;
    let mut statement = connection.prepare(
        "SELECT id, data, time_created FROM message WHERE session_id = ?1 ORDER BY time_created, id",
    )?;
    let mut rows = statement.query([id.as_str()])?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        let message_id: String = row.get(0)?;
        let mut info = object(row.get_ref(1)?);
        info.insert("id".to_owned(), message_id.as_str().into());
        let mut of_message = Vec::new();
        let mut rows = parts.query([&message_id])?;
        while let Some(row) = rows.next()? {
            let mut part = object(row.get_ref(1)?);
            part.insert("id".to_owned(), row.get::<_, String>(0)?.into());
            of_message.push(Value::Object(part));
        }
        messages.push(json!({"info": info, "parts": of_message}));
    }
    Ok(Some(json!({"info": info, "messages": messages, "todos": todos(connection, id)})))
}

/// Reads the list of tasks; versions without such a table have none.
fn todos(connection: &Connection, id: &SessionId) -> Vec<Value> {
    let read = || {
        let mut statement = connection
            .prepare("SELECT content, status, priority FROM todo WHERE session_id = ?1 ORDER BY position")?;
        let rows = statement.query_map([id.as_str()], |row| {
            let text = |column: usize| row.get::<_, String>(column);
            Ok(json!({"content": text(0)?, "status": text(1)?, "priority": text(2)?}))
        })?;
        rows.collect::<Result<Vec<_>, _>>()
    };
    read().unwrap_or_default()
}

/// Returns the columns that are not null; which ones there are depends on OpenCode's version.
fn columns(row: &Row<'_>) -> Result<Map<String, Value>, StorageError> {
    let names: Vec<String> = row.as_ref().column_names().map(str::to_owned).collect();
    let mut columns = Map::new();
    for (index, name) in names.into_iter().enumerate() {
        let value = match row.get_ref(index)? {
            ValueRef::Null | ValueRef::Blob(_) => continue,
            ValueRef::Integer(number) => number.into(),
            ValueRef::Real(number) => number.into(),
            ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        };
        columns.insert(name, value);
    }
    Ok(columns)
}

/// Makes the session's object from its columns.
fn info_of(columns: &Map<String, Value>) -> Value {
    let get = |name: &str| columns.get(name).cloned().unwrap_or_default();
    let parsed = |name: &str| {
        let text = columns.get(name).and_then(Value::as_str).unwrap_or("null");
        serde_json::from_str::<Value>(text).unwrap_or_default()
    };
    let count = |name: &str| columns.get(name).and_then(Value::as_u64).unwrap_or_default();
    let mut info = json!({
        "id": get("id"), "slug": get("slug"), "projectID": get("project_id"), "directory": get("directory"),
        "path": get("path"), "parentID": get("parent_id"), "title": get("title"), "version": get("version"),
        "agent": get("agent"), "model": parsed("model"), "revert": parsed("revert"),
        "permission": parsed("permission"),
        "cost": columns.get("cost").and_then(Value::as_f64).unwrap_or_default(),
        "tokens": {
            "input": count("tokens_input"), "output": count("tokens_output"), "reasoning": count("tokens_reasoning"),
            "cache": {"read": count("tokens_cache_read"), "write": count("tokens_cache_write")},
        },
        "time": {
            "created": get("time_created"), "updated": get("time_updated"), "compacting": get("time_compacting"),
            "archived": get("time_archived"),
        },
    });
    if columns.contains_key("summary_files") {
        info["summary"] = json!({
            "additions": count("summary_additions"), "deletions": count("summary_deletions"),
            "files": count("summary_files"),
        });
    }
    info
}

fn object(data: ValueRef<'_>) -> Map<String, Value> {
    let parsed = data.as_str().ok().and_then(|text| serde_json::from_str(text).ok());
    parsed.unwrap_or_default()
}

fn from_files(root: &Path, id: &SessionId) -> Option<Value> {
    let name = format!("{id}.json");
    let is_own = |path: &&PathBuf| path.file_name().is_some_and(|it| *it == *name);
    let infos = json_files(&root.join("session"), 2);
    let info = read_json(infos.iter().find(is_own)?)?;
    let mut messages = Vec::new();
    for path in json_files(&root.join("message").join(id.as_str()), 1) {
        let Some(info) = read_json(&path) else { continue };
        // The id becomes a part of a path.
        let Some(message) = info["id"].as_str().and_then(|id| MessageId::parse(id).ok()) else { continue };
        let parts = json_files(&root.join("part").join(message.as_str()), 1);
        let parts: Vec<Value> = parts.iter().filter_map(|path| read_json(path)).collect();
        messages.push(json!({"info": info, "parts": parts}));
    }
    let todos = read_json(&root.join("todo").join(name)).filter(Value::is_array).unwrap_or(json!([]));
    Some(json!({"info": info, "messages": messages, "todos": todos}))
}

/// Returns the JSON files of a directory, or of those in it, sorted: their names are ids.
fn json_files(directory: &Path, depth: usize) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if depth > 1 && path.is_dir() {
            files.extend(json_files(&path, depth - 1));
        } else if path.extension().is_some_and(|end| end == "json") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn read_json(path: &Path) -> Option<Value> {
    let size = fs::metadata(path).ok()?.len();
    if size > MAX_FILE {
        tracing::warn!(path = %path.display(), size, "a file of OpenCode's is too large to be read");
        return None;
    }
    match fs::read(path)
        .map_err(|error| error.to_string())
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))
    {
        Ok(value) => Some(value),
        Err(reason) => {
            tracing::warn!(path = %path.display(), reason, "a file of OpenCode's is left out");
            None
        }
    }
}
