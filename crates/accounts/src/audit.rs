//! The audit: rows that are added and never changed, and files of lines for the oldest of them.

use std::{
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, params};
use serde::Serialize;
use windlass_base::{clock::now_ms, text::visible_line};

use crate::{account::Visitor, error::AccountsError, store::Accounts};

/// Rows in the file; half of them go into a file of lines when there are more.
const MAX_ROWS: i64 = 100_000;
/// Files of lines; the oldest goes.
const MAX_FILES: usize = 20;
/// Characters of a field.
const MAX_FIELD: usize = 500;

/// Something that was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    /// Milliseconds since the epoch.
    pub time: i64,
    /// The id of the account, absent where nobody was let in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The account's name at the time.
    pub name: String,
    /// A word such as `login`, or a method and a route.
    pub action: String,
    /// The id of its session, account or token.
    pub subject: String,
    pub detail: String,
    /// The address that it came from.
    pub address: String,
}

impl AuditEntry {
    /// Makes an entry of now.
    pub fn new(visitor: Option<&Visitor>, action: &str, subject: &str) -> Self {
        Self {
            time: now_ms(),
            account: visitor.map(|it| it.account.to_string()),
            name: visitor.map(|it| it.name.clone()).unwrap_or_default(),
            address: visitor.map(|it| it.address.clone()).unwrap_or_default(),
            action: action.to_owned(),
            subject: subject.to_owned(),
            ..Self::default()
        }
    }

    /// Says more of it.
    #[must_use]
    pub fn with(self, detail: &str) -> Self {
        Self { detail: detail.to_owned(), ..self }
    }
}

impl Accounts {
    /// Adds a row. Does blocking writes.
    pub fn note(&self, entry: &AuditEntry) -> Result<(), AccountsError> {
        let short = |text: &str| -> String { visible_line(text).chars().take(MAX_FIELD).collect() };
        let (action, subject, detail) = (short(&entry.action), short(&entry.subject), short(&entry.detail));
        self.write(|connection, directory| {
            connection.execute(
                "INSERT INTO audit (time, account, name, action, subject, detail, address) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![entry.time, entry.account, entry.name, action, subject, detail, entry.address],
            )?;
            let newest = connection.last_insert_rowid();
            let oldest: i64 = connection.query_row("SELECT min(id) FROM audit", [], |row| row.get(0))?;
            if newest - oldest >= MAX_ROWS { rotate(connection, directory, oldest + MAX_ROWS / 2) } else { Ok(()) }
        })
    }

    /// Returns the newest rows, the oldest first; `account` takes an id or a name. Does blocking reads.
    pub fn entries(
        &self,
        account: Option<&str>,
        since: i64,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, AccountsError> {
        self.with_connection(|connection| {
            let mut statement = connection.prepare(
                "SELECT time, account, name, action, subject, detail, address FROM audit \
                 WHERE time >= ?1 AND (?2 IS NULL OR account = ?2 OR name = ?2) ORDER BY id DESC LIMIT ?3",
            )?;
            let rows = statement.query_map(params![since, account, limit], entry)?;
            let mut entries: Vec<AuditEntry> = rows.collect::<Result<_, _>>()?;
            entries.reverse();
            Ok(entries)
        })
    }
}

fn entry(row: &rusqlite::Row<'_>) -> Result<AuditEntry, rusqlite::Error> {
    Ok(AuditEntry {
        time: row.get(0)?,
        account: row.get(1)?,
        name: row.get(2)?,
        action: row.get(3)?,
        subject: row.get(4)?,
        detail: row.get(5)?,
        address: row.get(6)?,
    })
}

/// Moves the rows before an id into a file of lines.
fn rotate(connection: &Connection, directory: &Path, before: i64) -> Result<(), AccountsError> {
    let failed = |error: std::io::Error| AccountsError::Store(format!("{}: {error}", directory.display()));
    fs::create_dir_all(directory).map_err(failed)?;
    let file = directory.join(format!("{}.jsonl", now_ms()));
    let mut statement = connection.prepare(
        "SELECT time, account, name, action, subject, detail, address FROM audit WHERE id < ?1 ORDER BY id",
    )?;
    let mut text = Vec::new();
    for row in statement.query_map([before], entry)? {
        serde_json::to_writer(&mut text, &row?).map_err(|error| AccountsError::Store(error.to_string()))?;
        text.push(b'\n');
    }
    let mut written =
        fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(file).map_err(failed)?;
    written.write_all(&text).and_then(|()| written.sync_all()).map_err(failed)?;
    connection.execute("DELETE FROM audit WHERE id < ?1", [before])?;
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).map_err(failed)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let n_over = files.len().saturating_sub(MAX_FILES);
    files.into_iter().take(n_over).try_for_each(fs::remove_file).map_err(failed)
}
