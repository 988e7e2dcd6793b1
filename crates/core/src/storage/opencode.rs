//! Reads OpenCode's own history: its SQLite file, and the JSON files of its older versions. Nothing is written there.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, Row, types::ValueRef};
use serde_json::{Map, Value, json};
use windlass_protocol::opencode::id::{MessageId, SessionId};

use super::{StorageError, open};

pub mod second;

/// Bytes of a JSON file that are read.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// OpenCode's stored sessions, of both of its versions.
pub struct OpencodeStore {
    databases: Vec<Database>,
    /// The directory `storage` of versions without a database.
    files: Option<PathBuf>,
}

/// A stored session by name, and where it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpencodeSession {
    pub id: String,
    pub parent_id: Option<String>,
    pub directory: String,
    /// True for one that the second version has not taken over, though it has taken over others.
    pub is_left_behind: bool,
    generation: Generation,
    /// The place of its database; none for files.
    database: Option<usize>,
    updated: i64,
    /// True for one of the second version with rows that no migration makes.
    has_more: bool,
    /// True for one that another database has as well, with other messages.
    pub is_elsewhere: bool,
}

/// A stored session.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// As `opencode export` of the first version writes it.
    First(Value),
    /// As the second version keeps it.
    Second(second::Session),
}

impl OpencodeStore {
    /// Opens a database or a directory; `None` if there is neither in OpenCode's data directory `path`, and none at
    /// `path` itself. Channels have databases of their own beside the usual one.
    pub fn open(path: &Path) -> Result<Option<Self>, StorageError> {
        let is_database = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            path.is_file() && name.starts_with("opencode") && name.ends_with(".db")
        };
        let mut paths: Vec<PathBuf> = if path.is_file() {
            vec![path.to_owned()]
        } else {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(is_database).collect()
        };
        paths.sort();
        let is_main = |path: &Path| path.file_name().is_some_and(|name| name == "opencode.db");
        let mut databases = Vec::new();
        for database in &paths {
            match Database::open(database) {
                Err(StorageError::Unknown { path: other }) if database != path && !is_main(database) => {
                    tracing::warn!(
                        path = other,
                        "a database beside OpenCode's is left out: it has no sessions"
                    );
                }
                opened => databases.push(opened?),
            }
        }
        // The first versions without a database left theirs in files.
        if path.is_file() || paths.iter().any(|path| is_main(path)) {
            return Ok(Some(Self { databases, files: None }));
        }
        let files = [path.join("storage"), path.to_owned()];
        let files = files.into_iter().find(|path| path.join("session").is_dir());
        let is_empty = databases.is_empty() && files.is_none();
        Ok((!is_empty).then_some(Self { databases, files }))
    }

    /// Lists all sessions, parents before their subagents where both are known. One that both versions have worked on
    /// since the one became the other is there twice.
    pub fn sessions(&self) -> Result<Vec<OpencodeSession>, StorageError> {
        let mut found = Vec::new();
        for (idx, database) in self.databases.iter().enumerate() {
            found.extend(database.sessions(idx)?);
        }
        if let Some(root) = &self.files {
            found.extend(sessions_of_files(root));
        }
        let mut order: Vec<String> = Vec::new();
        let mut by_id: HashMap<String, Vec<OpencodeSession>> = HashMap::new();
        for session in found {
            let all = by_id.entry(session.id.clone()).or_default();
            if all.is_empty() {
                order.push(session.id.clone());
            }
            all.push(session);
        }
        let migrated = self.databases.iter().filter_map(Database::migrated_at).max();
        let mut chosen: Vec<OpencodeSession> = order
            .into_iter()
            .filter_map(|id| by_id.remove(&id))
            .flat_map(|all| choose(all, migrated))
            .collect();
        chosen.sort_by_key(|session| session.parent_id.is_some());
        Ok(chosen)
    }

    /// Reads a session; `None` if it is not there any more.
    pub fn session(&self, session: &OpencodeSession) -> Result<Option<Stored>, StorageError> {
        let Ok(id) = SessionId::parse(&session.id) else { return Ok(None) };
        let Some(database) = session.database.and_then(|idx| self.databases.get(idx)) else {
            return Ok(self.files.as_ref().and_then(|root| from_files(root, &id)).map(Stored::First));
        };
        match (session.generation, database.second) {
            (Generation::Second, Some(table)) => {
                Ok(second::read(&database.connection, table, &id)?.map(Stored::Second))
            }
            (Generation::First, second_table) => {
                let mut file = from_database(&database.connection, &id)?;
                if let (Some(file), Some(table)) = (&mut file, second_table) {
                    second::overlay(&database.connection, table, &id, file)?;
                }
                Ok(file.map(Stored::First))
            }
            (Generation::Second, None) => Ok(None),
        }
    }
}

/// Returns the one that is the session, and behind it one that went on by itself.
fn choose(all: Vec<OpencodeSession>, migrated: Option<i64>) -> Vec<OpencodeSession> {
    let newest = |generation: Generation| {
        let of_generation = || all.iter().filter(|it| it.generation == generation);
        let newest = of_generation().max_by_key(|it| it.updated)?;
        let is_elsewhere = of_generation().any(|it| it.updated != newest.updated);
        Some(OpencodeSession { is_elsewhere, ..newest.clone() })
    };
    match (newest(Generation::First), newest(Generation::Second)) {
        (Some(first), Some(second)) => {
            let is_behind = |it: &OpencodeSession| migrated.is_some_and(|at| it.updated > at);
            let has_second = second.has_more || is_behind(&second) || second.updated > first.updated;
            // The first version's rows say more, where the second has not worked on them.
            match (is_behind(&first), has_second) {
                (_, false) => vec![first],
                (true, true) => vec![second, first],
                (false, true) => vec![second],
            }
        }
        (None, Some(second)) => vec![second],
        (Some(first), None) => vec![OpencodeSession { is_left_behind: migrated.is_some(), ..first }],
        (None, None) => Vec::new(),
    }
}

fn sessions_of_files(root: &Path) -> Vec<OpencodeSession> {
    let of_projects = json_files(&root.join("session"), 2);
    let infos = of_projects.iter().filter_map(|path| read_json(path));
    let session = |info: Value| {
        let text = |key: &str| info[key].as_str().map(str::to_owned);
        Some(OpencodeSession {
            id: text("id")?,
            parent_id: text("parentID"),
            directory: text("directory").unwrap_or_default(),
            is_left_behind: false,
            generation: Generation::First,
            database: None,
            updated: info["time"]["updated"].as_i64().unwrap_or_default(),
            has_more: false,
            is_elsewhere: false,
        })
    };
    infos.filter_map(session).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generation {
    First,
    Second,
}

/// One database, with the tables that it has.
struct Database {
    connection: Connection,
    has_first: bool,
    /// The table of the second version's sessions.
    second: Option<&'static str>,
}

impl Database {
    fn open(path: &Path) -> Result<Self, StorageError> {
        let (connection, _) = open::to_examine(path).map_err(|error| error.at(path))?;
        let tables = tables(&connection).map_err(|error| StorageError::from(error).at(path))?;
        let has = |name: &str| tables.contains(name);
        let has_first = has("session") && has("message") && has("part");
        let second = if !has("session_message") {
            None
        } else if has("session_v2") {
            Some("session_v2")
        } else {
            // A preview of the second version.
            (has("session") && !has("message")).then_some("session")
        };
        if !has_first && second.is_none() && !tables.is_empty() {
            return Err(StorageError::Unknown { path: path.display().to_string() });
        }
        Ok(Self { connection, has_first, second })
    }

    fn sessions(&self, idx: usize) -> Result<Vec<OpencodeSession>, StorageError> {
        let first = self.has_first.then_some(("session", Generation::First));
        let second = self.second.map(|table| (table, Generation::Second));
        let mut found = Vec::new();
        for (table, generation) in first.into_iter().chain(second) {
            let mut statement = self.connection.prepare(&format!(
                "SELECT id, parent_id, directory, time_updated FROM {table} ORDER BY time_created"
            ))?;
            let rows = statement.query_map([], |row| {
                Ok(OpencodeSession {
                    id: row.get(0)?,
                    parent_id: row.get(1)?,
                    directory: row.get(2)?,
                    is_left_behind: false,
                    generation,
                    database: Some(idx),
                    updated: row.get::<_, Option<i64>>(3)?.unwrap_or_default(),
                    has_more: false,
                    is_elsewhere: false,
                })
            })?;
            for row in rows {
                found.push(row?);
            }
        }
        if self.has_first && self.second.is_some() {
            let with_more = second::with_more(&self.connection)?;
            let of_second = found.iter_mut().filter(|it| it.generation == Generation::Second);
            of_second.for_each(|it| it.has_more = with_more.contains(&it.id));
        }
        Ok(found)
    }

    /// Returns the time at which the second version had taken over all that the first had.
    fn migrated_at(&self) -> Option<i64> {
        let select = "SELECT value, time_updated FROM kv WHERE key = 'migration.v1-v2'";
        let row = self.connection.query_row(select, [], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)));
        row.ok().filter(|(value, _)| value.contains("completed")).map(|(_, at)| at)
    }
}

fn tables(connection: &Connection) -> rusqlite::Result<HashSet<String>> {
    let mut statement = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
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
    object_if(data).unwrap_or_default()
}

/// Reads a JSON object of a column.
fn object_if(data: ValueRef<'_>) -> Option<Map<String, Value>> {
    match data {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => serde_json::from_slice(bytes).ok(),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => None,
    }
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
