//! Accounts that several servers share: the file is each server's copy, and every change goes through rows that all have.

use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::{Connection, params_from_iter, types::Value as Sql};
use serde_json::Value;
use windlass_base::{clock::now_ms, lock::lock};

use super::{Accounts, read};
use crate::error::AccountsError;

/// The tables that are shared, which are all.
const TABLES: [&str; 10] = [
    "account",
    "credential",
    "owner",
    "access",
    "page",
    "audit",
    "removed",
    "renewal",
    "provider_key",
    "spent",
];
/// The number of the newest change that the file has, and the time of the last look; changes are noted for the others.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS head (is_only INTEGER PRIMARY KEY CHECK (is_only = 1), change INTEGER NOT NULL, seen INTEGER NOT NULL);
CREATE TEMP TABLE changed (name TEXT NOT NULL, key TEXT NOT NULL, value TEXT);";
/// The age at which a copy is read anew: rows that are gone are not told of for ever.
const MAX_AGE: i64 = 20 * 24 * 3_600_000;
/// Time for which nothing is asked of a database that has just failed.
const PAUSE: Duration = Duration::from_secs(1);

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its place in the order of changes; 0 for one that is to be written.
    pub change: i64,
    pub table: String,
    /// The values of its key, as a JSON array.
    pub key: String,
    /// Its values, as a JSON array; none if it is gone.
    pub value: Option<String>,
}

/// The rows that all servers have. The methods wait for them.
pub trait SharedRows: Send + Sync {
    /// Returns the rows that changed behind a number, in their order.
    fn since(&self, change: i64) -> Result<Vec<Row>, AccountsError>;

    /// Waits until no other server changes anything, and returns the turn with the rows that changed behind a number.
    fn begin(&self, since: i64) -> Result<(Box<dyn Turn + '_>, Vec<Row>), AccountsError>;

    /// Returns the time after which a server that hears nothing lets nobody in.
    fn patience(&self) -> Duration;
}

/// The turn to change rows. Without [`Turn::put`] nothing has changed.
pub trait Turn {
    /// Writes rows, and returns the number of the last change; 0 without rows.
    fn put(self: Box<Self>, rows: Vec<Row>) -> Result<i64, AccountsError>;
}

/// The shared rows of a store, and when they were last reached.
pub(super) struct Common {
    rows: Box<dyn SharedRows>,
    /// The number of the newest change that is known.
    head: AtomicI64,
    reached: Mutex<Reached>,
}

struct Reached {
    last: Instant,
    failed: Option<Instant>,
}

impl Common {
    pub fn new(rows: Box<dyn SharedRows>) -> Self {
        Self {
            rows,
            head: AtomicI64::new(0),
            reached: Mutex::new(Reached { last: Instant::now(), failed: None }),
        }
    }

    /// Refuses where others may have changed something long ago.
    pub fn check(&self) -> Result<(), AccountsError> {
        let age = lock(&self.reached).last.elapsed();
        if age <= self.rows.patience() {
            return Ok(());
        }
        let reason = format!("the shared database has been out of reach for {} s", age.as_secs());
        Err(AccountsError::OutOfReach(reason))
    }

    /// Asks the database for something, unless it has failed just now.
    fn ask<T>(&self, ask: impl FnOnce() -> Result<T, AccountsError>) -> Result<T, AccountsError> {
        if lock(&self.reached).failed.is_some_and(|failed| failed.elapsed() < PAUSE) {
            return Err(AccountsError::OutOfReach("the shared database did not answer just now".to_owned()));
        }
        // Of a time before the answer was made.
        let asked = Instant::now();
        let answer = ask();
        let mut reached = lock(&self.reached);
        match &answer {
            Ok(_) => *reached = Reached { last: reached.last.max(asked), failed: None },
            Err(_) => reached.failed = Some(Instant::now()),
        }
        answer
    }
}

/// Prepares a file to be a copy, and has its connection note the changes.
pub(super) fn prepare(connection: &Connection) -> Result<(), AccountsError> {
    connection.execute_batch(SCHEMA)?;
    for table in TABLES {
        let columns = columns(connection, table)?;
        let array = |of: &str, only_key: bool| {
            let values = columns.iter().filter(|it| it.is_key || !only_key);
            let values = values.map(|it| {
                if it.is_blob { format!("hex({of}.{})", it.name) } else { format!("{of}.{}", it.name) }
            });
            format!("json_array({})", values.collect::<Vec<String>>().join(", "))
        };
        let trigger = |event: &str, of: &str, value: &str| {
            let key = array(of, true);
            format!(
                "CREATE TEMP TRIGGER {table}_{event} AFTER {event} ON main.{table} BEGIN \
                 INSERT INTO changed VALUES ('{table}', {key}, {value}); END;"
            )
        };
        let whole = array("NEW", false);
        connection.execute_batch(&trigger("INSERT", "NEW", &whole))?;
        connection.execute_batch(&trigger("UPDATE", "NEW", &whole))?;
        // Each server moves the oldest rows of the audit into files of its own.
        if table != "audit" {
            connection.execute_batch(&trigger("DELETE", "OLD", "NULL"))?;
        }
    }
    Ok(())
}

struct Column {
    name: String,
    is_key: bool,
    is_blob: bool,
}

fn columns(connection: &Connection, table: &str) -> Result<Vec<Column>, AccountsError> {
    let mut statement =
        connection.prepare("SELECT name, pk > 0, type = 'BLOB' FROM pragma_table_info(?1)")?;
    let rows = statement.query_map([table], |row| {
        Ok(Column { name: row.get(0)?, is_key: row.get(1)?, is_blob: row.get(2)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the number of the newest change that a file has. A copy that is too old is emptied first.
fn head(connection: &Connection) -> Result<i64, AccountsError> {
    let read = "SELECT change, seen FROM head";
    let mut statement = connection.prepare_cached(read)?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else { return Ok(0) };
    let (change, seen): (i64, i64) = (row.get(0)?, row.get(1)?);
    if now_ms() - seen <= MAX_AGE {
        return Ok(change);
    }
    drop(rows);
    for table in TABLES {
        connection.execute(&format!("DELETE FROM {table}"), [])?;
    }
    connection.execute("DELETE FROM head", [])?;
    connection.execute("DELETE FROM temp.changed", [])?;
    Ok(0)
}

fn set_head(connection: &Connection, change: i64) -> Result<(), AccountsError> {
    let write = "INSERT OR REPLACE INTO head VALUES (1, ?1, ?2)";
    connection.execute(write, [change, now_ms()])?;
    Ok(())
}

/// Takes rows of other servers into a file, but for those that it has. Returns true if any were new.
fn take(to: &Connection, rows: &[Row], head: i64) -> Result<bool, AccountsError> {
    let mut has_new = false;
    for row in rows.iter().filter(|it| it.change > head && TABLES.contains(&it.table.as_str())) {
        has_new = true;
        let columns = columns(to, &row.table)?;
        let (statement, text, places) = match &row.value {
            Some(value) => {
                let places: Vec<&Column> = columns.iter().collect();
                let marks = vec!["?"; places.len()].join(", ");
                (format!("INSERT OR REPLACE INTO {} VALUES ({marks})", row.table), value, places)
            }
            None => {
                let places: Vec<&Column> = columns.iter().filter(|it| it.is_key).collect();
                let equal = places.iter().map(|it| format!("{} = ?", it.name)).collect::<Vec<_>>();
                (format!("DELETE FROM {} WHERE {}", row.table, equal.join(" AND ")), &row.key, places)
            }
        };
        let values = values(text, &places)
            .ok_or_else(|| AccountsError::Store(format!("a shared row of `{}` cannot be read", row.table)))?;
        to.prepare_cached(&statement)?.execute(params_from_iter(values))?;
    }
    to.execute("DELETE FROM temp.changed", [])?;
    Ok(has_new)
}

/// Reads the values of some columns. A column that a row does not have yet is NULL.
fn values(text: &str, columns: &[&Column]) -> Option<Vec<Sql>> {
    let Value::Array(values) = serde_json::from_str(text).ok()? else { return None };
    let of = |(at, column): (usize, &&Column)| {
        Some(match values.get(at).unwrap_or(&Value::Null) {
            Value::Null => Sql::Null,
            Value::Bool(is_so) => Sql::Integer((*is_so).into()),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => Sql::Integer(whole),
                None => Sql::Real(number.as_f64()?),
            },
            Value::String(text) if column.is_blob => Sql::Blob(unhex(text)?),
            Value::String(text) => Sql::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => return None,
        })
    };
    columns.iter().enumerate().map(of).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(digit).collect()
}

/// Returns the changes of a transaction, the last of each row.
fn changed(of: &Connection) -> Result<Vec<Row>, AccountsError> {
    let read = "SELECT name, key, value FROM changed WHERE rowid IN (SELECT max(rowid) FROM changed GROUP BY name, key) \
                ORDER BY rowid";
    let mut statement = of.prepare_cached(read)?;
    let rows = statement.query_map([], |row| {
        Ok(Row { change: 0, table: row.get(0)?, key: row.get(1)?, value: row.get(2)? })
    })?;
    let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
    of.execute("DELETE FROM temp.changed", [])?;
    Ok(rows)
}

/// Changes a file in the turn of its server, behind the changes of the others. Returns true with their rows, if any came.
pub(super) fn write<T>(
    common: &Common,
    connection: &mut Connection,
    write: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, AccountsError>,
) -> Result<(T, bool), AccountsError> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let head = head(&transaction)?;
    let (turn, news) = common.ask(|| common.rows.begin(head))?;
    let has_news = take(&transaction, &news, head)?;
    let written = write(&transaction)?;
    let put = turn.put(changed(&transaction)?)?;
    let newest = news.last().map_or(head, |row| row.change);
    let newest = newest.max(put);
    set_head(&transaction, newest)?;
    transaction.commit()?;
    common.head.store(newest, Ordering::Relaxed);
    Ok((written, has_news))
}

impl Accounts {
    /// Takes up the changes of other servers, where accounts are shared. Waits for the shared rows.
    pub fn catch_up(&self) -> Result<(), AccountsError> {
        let Some(common) = &self.0.common else { return Ok(()) };
        let since = head(&lock(&self.0.connection).0)?;
        let news = common.ask(|| common.rows.since(since))?;
        if news.is_empty() {
            common.head.store(since, Ordering::Relaxed);
            return Ok(());
        }
        let mut connection = lock(&self.0.connection);
        let transaction = connection.0.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let head = head(&transaction)?;
        let has_new = take(&transaction, &news, head)?;
        let newest = news.last().map_or(head, |row| row.change).max(head);
        set_head(&transaction, newest)?;
        transaction.commit()?;
        if has_new {
            let state = read::all(&connection.0)?;
            lock(&self.0.state).replace(state);
            self.0.changes.send_modify(|count| *count += 1);
        }
        common.head.store(newest, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the number of the newest shared change that is known here; 0 where accounts are not shared.
    pub fn head(&self) -> i64 {
        self.0.common.as_ref().map_or(0, |common| common.head.load(Ordering::Relaxed))
    }

    /// Takes the accounts of a server alone into those that are shared, where these have none.
    pub fn adopt(&self, file: &Path) -> Result<(), AccountsError> {
        if !file.exists() || !self.list().is_empty() {
            return Ok(());
        }
        lock(&self.0.connection).0.execute("ATTACH ?1 AS alone", [file.display().to_string()])?;
        let adopted = self.change(
            |to| {
                let n_accounts: i64 =
                    to.query_row("SELECT count(*) FROM main.account", [], |row| row.get(0))?;
                for table in TABLES.iter().filter(|_| n_accounts == 0) {
                    to.execute(
                        &format!("INSERT OR IGNORE INTO main.{table} SELECT * FROM alone.{table}"),
                        [],
                    )?;
                }
                Ok(())
            },
            |_, ()| {},
        );
        let connection = lock(&self.0.connection);
        connection.0.execute("DETACH alone", [])?;
        lock(&self.0.state).replace(read::all(&connection.0)?);
        adopted
    }
}

#[cfg(test)]
mod tests;
