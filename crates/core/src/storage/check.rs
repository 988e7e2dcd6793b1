//! Checks the store's file through and through: pages, references, and whether every row can be read.

use std::{fmt, fs, path::Path};

use rusqlite::{Connection, types::ValueRef};
use serde::de::{DeserializeOwned, IgnoredAny};
use windlass_protocol::opencode::{
    message::Message,
    part::Part,
    permission::Action,
    session::{Session, Todo},
};

use super::{StorageError, appends, disk, migrations, open};

/// Damaged pages that are named.
const MAX_PAGES: usize = 5;
/// Rows that are named of one table.
const MAX_ROWS: usize = 5;

/// A table with rows that hold JSON.
pub struct Table {
    pub name: &'static str,
    /// The expression that names a row.
    pub key: &'static str,
    /// The column with the JSON.
    pub json: Option<&'static str>,
    pub is_readable: fn(&str) -> Result<(), serde_json::Error>,
}

/// All tables, parents before children.
pub const TABLES: [Table; 12] = [
    Table { name: "project", key: "worktree", json: None, is_readable: reads::<IgnoredAny> },
    Table { name: "session", key: "id", json: Some("data"), is_readable: reads::<Session> },
    Table { name: "message", key: "id", json: Some("data"), is_readable: reads::<Message> },
    Table { name: "part", key: "id", json: Some("data"), is_readable: reads::<Part> },
    Table { name: "part_text", key: "part_id", json: None, is_readable: reads::<IgnoredAny> },
    Table { name: "todo", key: "session_id", json: Some("data"), is_readable: reads::<Vec<Todo>> },
    Table { name: "approval", key: "pattern", json: Some("action"), is_readable: reads::<Action> },
    Table { name: "noted_file", key: "path", json: Some("data"), is_readable: reads::<IgnoredAny> },
    Table { name: "spent_message", key: "id", json: Some("data"), is_readable: reads::<IgnoredAny> },
    Table { name: "waiting_prompt", key: "id", json: Some("data"), is_readable: reads::<IgnoredAny> },
    Table { name: "shared_session", key: "session_id", json: None, is_readable: reads::<IgnoredAny> },
    Table { name: "shared_state", key: "name", json: None, is_readable: reads::<IgnoredAny> },
];

fn reads<T: DeserializeOwned>(json: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<T>(json).map(drop)
}

/// A finding about the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFinding {
    pub verdict: Verdict,
    pub text: String,
}

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Ok,
    /// Worth knowing; nothing is lost.
    Note,
    Damaged,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Damaged => "damaged",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Checks the whole store; `None` if there is none yet. Changes nothing, and blocks.
pub fn check(path: &Path) -> Result<Option<Vec<StoreFinding>>, StorageError> {
    match fs::metadata(path) {
        Err(_) => return Ok(None),
        Ok(_) if disk::is_emptied(path) => {
            return Ok(Some(vec![damaged(format!("the file is no database: {}", disk::EMPTIED))]));
        }
        Ok(file) if file.len() == 0 => {
            return Ok(Some(vec![note(
                "the file is empty; the next use makes a new store of it".to_owned(),
            )]));
        }
        Ok(_) => {}
    }
    let (connection, version) = match open::to_examine(path) {
        Ok(opened) => opened,
        Err(StorageError::Damaged(error)) => {
            return Ok(Some(vec![damaged(format!("the file is no database: {error}"))]));
        }
        Err(error) => return Err(error),
    };
    let mut findings = vec![of_version(version)];
    findings.extend(of_pages(&connection));
    findings.extend(of_references(&connection));
    findings.extend(TABLES.iter().flat_map(|table| of_rows(&connection, version, table)));
    findings.extend(of_slots(&connection));
    Ok(Some(findings))
}

fn ok(text: String) -> StoreFinding {
    StoreFinding { verdict: Verdict::Ok, text }
}

fn note(text: String) -> StoreFinding {
    StoreFinding { verdict: Verdict::Note, text }
}

fn damaged(text: String) -> StoreFinding {
    StoreFinding { verdict: Verdict::Damaged, text }
}

fn of_version(version: usize) -> StoreFinding {
    let newest = migrations::NEWEST;
    if version > newest {
        return note(format!(
            "schema: version {version} of a newer windlass; this one knows {newest} and may not see everything"
        ));
    }
    if version < newest {
        return note(format!(
            "schema: version {version}; the next use brings it to {newest}, after a copy into backup/"
        ));
    }
    ok(format!("schema: version {version}"))
}

fn of_pages(connection: &Connection) -> Vec<StoreFinding> {
    let mut findings = Vec::new();
    let read = (|| {
        let mut statement = connection.prepare(&format!("PRAGMA integrity_check({MAX_PAGES})"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let word: String = row.get(0)?;
            if word != "ok" {
                findings.push(damaged(format!("pages: {}", word.replace('\n', " "))));
            }
        }
        Ok::<_, rusqlite::Error>(())
    })();
    if let Err(error) = read {
        findings.push(damaged(format!("pages: they cannot be read through: {error}")));
    }
    if findings.is_empty() {
        findings.push(ok("pages: they fit together".to_owned()));
    }
    findings
}

fn of_references(connection: &Connection) -> Vec<StoreFinding> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    let read = (|| {
        let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let table: String = row.get(0)?;
            match counts.iter_mut().find(|(known, _)| *known == table) {
                Some((_, count)) => *count += 1,
                None => counts.push((table, 1)),
            }
        }
        Ok::<_, rusqlite::Error>(())
    })();
    if let Err(error) = read {
        return vec![damaged(format!("references: they cannot be read through: {error}"))];
    }
    if counts.is_empty() {
        return vec![ok("references: every row has its parent".to_owned())];
    }
    let lost = counts.into_iter();
    lost.map(|(table, count)| damaged(format!("references: {count} rows of `{table}` belong to nothing")))
        .collect()
}

/// Reads all rows of a table.
fn of_rows(connection: &Connection, version: usize, table: &Table) -> Vec<StoreFinding> {
    let Table { name, key, json, .. } = table;
    if let Ok(false) = migrations::has_table(connection, name) {
        let is_lost = migrations::makes_table(version, name);
        return is_lost
            .then(|| damaged(format!("rows: the table `{name}` is missing")))
            .into_iter()
            .collect();
    }
    let sql = format!("SELECT CAST({key} AS TEXT), {}, * FROM {name}", json.unwrap_or("NULL"));
    let (mut n_rows, mut n_bad, mut findings) = (0usize, 0usize, Vec::new());
    let read = (|| {
        let mut statement = connection.prepare(&sql)?;
        let n_columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            n_rows += 1;
            let key = row.get_ref(0)?.as_str().unwrap_or("?").to_owned();
            let mut read = match row.get_ref(1)?.as_str_or_null() {
                Ok(None) => Ok(()),
                Ok(Some(data)) => (table.is_readable)(data).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            for column in 2..n_columns {
                if let ValueRef::Text(bytes) = row.get_ref(column)?
                    && let Err(error) = std::str::from_utf8(bytes)
                {
                    read = Err(error.to_string());
                }
            }
            if let Err(reason) = read {
                n_bad += 1;
                if n_bad <= MAX_ROWS {
                    findings.push(damaged(format!("rows: {name} {key} cannot be understood: {reason}")));
                }
            }
        }
        Ok::<_, rusqlite::Error>(())
    })();
    if n_bad > MAX_ROWS {
        findings.push(damaged(format!("rows: {} more of `{name}` cannot be understood", n_bad - MAX_ROWS)));
    }
    match read {
        Err(error) => {
            findings
                .push(damaged(format!("rows: `{name}` can be read up to its row {n_rows} only: {error}")));
        }
        Ok(()) if findings.is_empty() && n_rows > 0 => {
            findings.push(ok(format!("rows: {n_rows} of `{name}`")))
        }
        Ok(()) => {}
    }
    findings
}

/// Looks for text of ended processes that has not been taken over.
fn of_slots(connection: &Connection) -> Option<StoreFinding> {
    let (n_records, n_bytes) = appends::left_behind(connection);
    (n_records > 0).then(|| {
        note(format!(
            "text: {n_bytes} bytes of unfinished answers are in windlass.db-appends; loads show them, and the next \
             turn takes them over"
        ))
    })
}
