//! Saves the readable rows of a damaged store into a new file.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, ErrorCode, Row, params_from_iter, types::Value};
use windlass_base::clock;
use windlass_protocol::opencode::{
    id::SessionId,
    message::Message,
    session::{Session, SessionTime},
};

use super::{
    StorageError, Write, appends, apply, backup,
    check::{TABLES, Table},
    disk, migrations, open, presence,
};

/// Highest row number of a table that is looked for behind damaged pages.
const MAX_ROWID: i64 = 1 << 40;
/// The size that a damaged header may name.
const MAX_SIZE: u64 = 1 << 40;
/// The name of every database begins its file with this (<https://sqlite.org/fileformat.html>).
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Bytes of a page, for a file that does not say it.
const PAGE: u64 = 4096;
/// Rows that are copied of a table, per row number that cannot be read; beyond it the table has no order left.
const MAX_GAPS: usize = 10_000;

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The copy of the damaged file.
    pub backup: PathBuf,
    /// For each table that had rows: its name, the rows that were saved, and those that could be read but not
    /// understood or belonged to nothing.
    pub tables: Vec<(&'static str, usize, usize)>,
    /// Places at which rows could not be read.
    pub n_gaps: usize,
    /// Sessions that lost their own rows and were made anew from their messages.
    pub n_remade: usize,
}

/// Repairs a store: copies it, saves its rows into a new file, and puts that in its place. Blocks.
///
/// No other process uses the store meanwhile: it would go on with the old file.
pub fn repair(path: &Path) -> Result<Repaired, StorageError> {
    let failed = |error| open::failed(path, &error);
    let in_use = || StorageError::InUse { path: path.display().to_string() };
    let presence = presence::alone(path).map_err(failed)?.ok_or_else(in_use)?;
    // An older windlass has nothing but its slot.
    let slots = appends::lock_all(path).map_err(failed)?.ok_or_else(in_use)?;
    if !disk::is_emptied(path)
        && let Ok((_, version)) = open::to_examine(path)
        && version > migrations::NEWEST
    {
        return Err(StorageError::Newer { path: path.display().to_string(), version });
    }
    let backup = backup::of_damaged(path)?;
    let new = path.with_extension("db-new");
    remove(&new);
    let whole = path.with_file_name("windlass-padded.db");
    let is_padded = pad(&backup, &whole).map_err(failed)?;
    let saved = save(if is_padded { &whole } else { &backup }, &new).and_then(|mut repaired| {
        repaired.backup = backup.clone();
        replace(path, &new).map_err(failed)?;
        Ok(repaired)
    });
    remove(&new);
    remove(&whole);
    drop((presence, slots));
    saved
}

/// Removes a database and the files that belong to it.
fn remove(path: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        let _ = fs::remove_file(name);
    }
}

/// Puts a file in the place of the store. The old log goes first: it must never meet another file.
fn replace(path: &Path, new: &Path) -> std::io::Result<()> {
    for end in ["db-wal", "db-shm"] {
        match fs::remove_file(path.with_extension(end)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    fs::rename(new, path)
}

/// Copies a file that was cut off, and fills the copy up with zeros: SQLite reads nothing of a database that is shorter
/// than its header says. Returns false if it is not.
fn pad(damaged: &Path, whole: &Path) -> io::Result<bool> {
    remove(whole);
    let n_bytes = fs::metadata(damaged)?.len();
    let log = damaged.with_extension("db-wal");
    let named = if n_bytes == 0 && log.exists() { Some(PAGE) } else { named_size(damaged)? };
    let Some(named) = named.filter(|named| (n_bytes + 1..MAX_SIZE).contains(named)) else { return Ok(false) };
    fs::copy(damaged, whole)?;
    fs::OpenOptions::new().write(true).open(whole)?.set_len(named)?;
    if log.exists() {
        fs::copy(log, whole.with_extension("db-wal"))?;
    }
    Ok(true)
}

/// Returns the size that the header of a database names.
fn named_size(path: &Path) -> io::Result<Option<u64>> {
    let mut header = [0; 32];
    match fs::File::open(path)?.read_exact(&mut header) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 1 << 16,
        page => u64::from(page),
    };
    let n_pages = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
    Ok(header.starts_with(MAGIC).then_some(page * u64::from(n_pages)))
}

fn save(damaged: &Path, new: &Path) -> Result<Repaired, StorageError> {
    let target = open::to_write(new)?;
    target.pragma_update(None, "foreign_keys", "OFF")?;
    let mut repaired = Repaired { backup: PathBuf::new(), tables: Vec::new(), n_gaps: 0, n_remade: 0 };
    // A file that is no database at all has nothing to save.
    let source = match open::to_examine(damaged) {
        Ok(opened) => Some(opened),
        Err(StorageError::Damaged(_)) => None,
        Err(error) => return Err(error),
    };
    target.execute_batch("BEGIN")?;
    repaired.n_gaps += usize::from(source.is_none());
    for (table, (source, version)) in TABLES.iter().zip(source.iter().cycle()) {
        let (n_saved, n_bad, n_gaps) = copy(source, *version, &target, table)?;
        repaired.n_gaps += n_gaps;
        if n_saved + n_bad > 0 {
            repaired.tables.push((table.name, n_saved, n_bad));
        }
    }
    repaired.n_remade = remake_sessions(&target)?;
    for Table { name: table, .. } in &TABLES {
        for (key, parent, parent_key) in references(&target, table)? {
            let sql = format!("DELETE FROM {table} WHERE {key} NOT IN (SELECT {parent_key} FROM {parent})");
            let n_orphans = target.execute(&sql, [])?;
            if let Some((_, n_saved, n_bad)) = repaired.tables.iter_mut().find(|(name, ..)| name == table) {
                *n_saved -= n_orphans;
                *n_bad += n_orphans;
            }
        }
    }
    // The shared log has the lost rows, so its sessions are made anew from there.
    target.execute_batch("DELETE FROM shared_session; DELETE FROM shared_state; COMMIT")?;
    // All of it has to be in the file that is put in place.
    target.pragma_update(None, "wal_checkpoint", "TRUNCATE")?;
    target.pragma_update(None, "journal_mode", "DELETE")?;
    Ok(repaired)
}

/// Copies the rows that can be read and understood. Returns how many were, how many were not, and the gaps.
fn copy(
    source: &Connection,
    version: usize,
    target: &Connection,
    table: &Table,
) -> Result<(usize, usize, usize), StorageError> {
    let (mut n_saved, mut n_bad) = (0, 0);
    let Ok(known) = columns(source, table.name) else { return Ok((0, 0, 1)) };
    let known: HashSet<String> = known.into_iter().collect();
    let columns: Vec<String> =
        columns(target, table.name)?.into_iter().filter(|column| known.contains(column)).collect();
    if columns.is_empty() {
        let is_lost = !known.is_empty() || migrations::makes_table(version, table.name);
        return Ok((0, 0, usize::from(is_lost)));
    }
    let holes = vec!["?"; columns.len()].join(", ");
    let insert = format!("INSERT OR IGNORE INTO {} ({}) VALUES ({holes})", table.name, columns.join(", "));
    let mut insert = target.prepare(&insert)?;
    let json = table.json.and_then(|json| columns.iter().position(|column| *column == json));
    let mut take = |row: &Row<'_>| {
        let values = (0..columns.len()).map(|column| row.get(column)).collect::<Result<Vec<Value>, _>>();
        // Text with bytes that are no text has no value.
        let understood = values.ok().filter(|values| {
            json.is_none_or(|at| match values.get(at) {
                Some(Value::Text(data)) => (table.is_readable)(data).is_ok(),
                _other => false,
            })
        });
        if let Some(values) = understood
            && insert.execute(params_from_iter(values))? > 0
        {
            n_saved += 1;
        } else {
            n_bad += 1;
        }
        Ok(())
    };
    let n_gaps = if has_rowid(target, table.name)? {
        rows_with_id(source, table.name, &columns, &mut take)?
    } else {
        let sql = format!("SELECT {} FROM {}", columns.join(", "), table.name);
        usize::from(!rows(source, &sql, None, &mut take)?)
    };
    Ok((n_saved, n_bad, n_gaps))
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let names = statement.query_map([table], |row| row.get(0))?;
    names.collect()
}

fn has_rowid(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT NOT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?1";
    connection.query_row(sql, [table], |row| row.get(0))
}

/// Returns a table's columns that name a row of another table, with that table and its column.
fn references(connection: &Connection, table: &str) -> rusqlite::Result<Vec<(String, String, String)>> {
    let mut statement =
        connection.prepare("SELECT \"from\", \"table\", \"to\" FROM pragma_foreign_key_list(?1)")?;
    let keys = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    keys.collect()
}

/// Reads a table by its row numbers and jumps over those that cannot be read. Returns the number of jumps.
fn rows_with_id(
    source: &Connection,
    table: &str,
    columns: &[String],
    take: &mut impl FnMut(&Row<'_>) -> Result<(), StorageError>,
) -> Result<usize, StorageError> {
    let sql = format!("SELECT {}, rowid FROM {table} WHERE rowid > ?1 ORDER BY rowid", columns.join(", "));
    let (mut last, mut n_gaps) = (0i64, 0);
    loop {
        let after = last;
        let mut taken = |row: &Row<'_>| {
            last = row.get(columns.len())?;
            take(row)
        };
        if rows(source, &sql, Some(after), &mut taken)? || n_gaps == MAX_GAPS {
            return Ok(n_gaps);
        }
        n_gaps += 1;
        let is_readable = |after: i64| {
            let found = source.query_row(&sql, [after], |row| {
                (0..=columns.len()).try_for_each(|column| row.get_ref(column).map(drop))
            });
            matches!(found, Ok(()) | Err(rusqlite::Error::QueryReturnedNoRows))
        };
        // The shortest jump that lands on a readable row: first found by doubling, then by halving.
        let mut jump = 1;
        while !is_readable(last + jump) {
            jump *= 2;
            if jump > MAX_ROWID {
                return Ok(n_gaps);
            }
        }
        let (mut bad, mut good) = (jump / 2, jump);
        while good - bad > 1 {
            let middle = bad + (good - bad) / 2;
            if is_readable(last + middle) { good = middle } else { bad = middle }
        }
        last += good;
    }
}

/// Passes rows on up to the first that cannot be read. Returns true if that was all.
fn rows(
    source: &Connection,
    sql: &str,
    after: Option<i64>,
    take: &mut impl FnMut(&Row<'_>) -> Result<(), StorageError>,
) -> Result<bool, StorageError> {
    let mut statement = match source.prepare(sql) {
        Ok(statement) => statement,
        Err(error) => return unless_damaged(error).map(|()| false),
    };
    let mut rows = statement.query(params_from_iter(after))?;
    loop {
        match rows.next() {
            Ok(None) => return Ok(true),
            Ok(Some(row)) => take(row)?,
            Err(error) => return unless_damaged(error).map(|()| false),
        }
    }
}

fn unless_damaged(error: rusqlite::Error) -> Result<(), StorageError> {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SystemIoFailure) => Ok(()),
        Some(_) | None => Err(error.into()),
    }
}

/// Makes sessions for messages that lost theirs. Returns their number.
fn remake_sessions(target: &Connection) -> Result<usize, StorageError> {
    let mut lost: BTreeMap<SessionId, Session> = BTreeMap::new();
    let mut statement = target
        .prepare("SELECT data FROM message WHERE session_id NOT IN (SELECT id FROM session) ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let message: Message =
            serde_json::from_str(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?;
        let (created, directory) = match &message {
            Message::User(user) => (user.time.created, None),
            Message::Assistant(answer) => (answer.time.created, Some(answer.path.cwd.clone())),
        };
        let session = lost.entry(message.session_id().clone()).or_insert_with(|| remade(&message, created));
        session.time.updated = session.time.updated.max(created);
        if let Some(directory) = directory {
            session.directory = directory;
        }
    }
    drop(rows);
    for session in lost.values() {
        apply(target, &Write::Session(session.clone().into()))?;
    }
    Ok(lost.len())
}

fn remade(message: &Message, created: i64) -> Session {
    Session {
        id: message.session_id().clone(),
        slug: "recovered".to_owned(),
        project_id: super::UNKNOWN_PROJECT.to_owned(),
        directory: "/".to_owned(),
        path: None,
        parent_id: None,
        title: format!("Recovered session of {}", clock::day(created)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        agent: None,
        model: None,
        cost: 0.0,
        tokens: Default::default(),
        summary: None,
        share: None,
        metadata: None,
        permission: None,
        limits: Vec::new(),
        revert: None,
        time: SessionTime { created, updated: created, compacting: None, archived: None },
    }
}

#[cfg(test)]
mod tests;
