//! Reads the tables of OpenCode's second version as they are.

use std::collections::HashSet;

use rusqlite::Connection;
use serde_json::{Map, Value};
use windlass_protocol::opencode::id::SessionId;

use super::{StorageError, columns, info_of, object_if};

/// A session with its rows in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The session's object, as the first version has it.
    pub info: Value,
    /// Its columns that are not null.
    pub columns: Map<String, Value>,
    pub rows: Vec<Row>,
}

/// A row of `session_message`.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub id: String,
    pub kind: String,
    /// None where it is no JSON object.
    pub data: Option<Map<String, Value>>,
}

pub fn read(connection: &Connection, table: &str, id: &SessionId) -> Result<Option<Session>, StorageError> {
    let Some(columns) = columns_of(connection, table, id)? else { return Ok(None) };
    let has_order = connection.prepare("SELECT seq FROM session_message LIMIT 0").is_ok();
    let order = if has_order { "seq" } else { "time_created, id" };
    let select = format!("SELECT id, type, data FROM session_message WHERE session_id = ?1 ORDER BY {order}");
    let mut statement = connection.prepare(&select)?;
    let mut found = statement.query([id.as_str()])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        rows.push(Row { id: row.get(0)?, kind: row.get(1)?, data: object_if(row.get_ref(2)?) });
    }
    Ok(Some(Session { info: info_of(&columns), columns, rows }))
}

/// Gives a session of the first version the title and the archive of the second, which people have used since.
pub fn overlay(
    connection: &Connection,
    table: &str,
    id: &SessionId,
    file: &mut Value,
) -> Result<(), StorageError> {
    let Some(columns) = columns_of(connection, table, id)? else { return Ok(()) };
    let updated = |time: Option<&Value>| time.and_then(Value::as_i64).unwrap_or_default();
    if updated(columns.get("time_updated")) < updated(file["info"]["time"].get("updated")) {
        return Ok(());
    }
    if let Some(title) = columns.get("title") {
        file["info"]["title"] = title.clone();
    }
    if let Some(archived) = columns.get("time_archived") {
        file["info"]["time"]["archived"] = archived.clone();
    }
    Ok(())
}

/// Returns the sessions with rows of kinds that the migration of the first version's does not make.
pub fn with_more(connection: &Connection) -> Result<HashSet<String>, StorageError> {
    let select = "SELECT DISTINCT session_id FROM session_message \
                  WHERE type NOT IN ('user', 'assistant', 'synthetic', 'compaction', 'system')";
    let mut statement = connection.prepare(select)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn columns_of(
    connection: &Connection,
    table: &str,
    id: &SessionId,
) -> Result<Option<Map<String, Value>>, StorageError> {
    let mut statement = connection.prepare(&format!("SELECT * FROM {table} WHERE id = ?1"))?;
    let mut rows = statement.query([id.as_str()])?;
    rows.next()?.map(columns).transpose()
}
