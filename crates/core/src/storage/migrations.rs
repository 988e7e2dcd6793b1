//! The schema, one step per version; `PRAGMA user_version` counts the completed steps.

use rusqlite::{Connection, TransactionBehavior};

use super::{StorageError, backup};

/// Steps of the schema; each leads from the version of its index to the next.
const STEPS: &[&str] = &[
    "
    CREATE TABLE project (worktree TEXT PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE session (
        id TEXT PRIMARY KEY, project_id TEXT NOT NULL, parent_id TEXT, directory TEXT NOT NULL,
        updated INTEGER NOT NULL, data TEXT NOT NULL);
    CREATE INDEX session_by_change ON session (updated DESC, id DESC);
    CREATE INDEX session_by_parent ON session (parent_id) WHERE parent_id IS NOT NULL;
    CREATE TABLE message (
        id TEXT PRIMARY KEY, session_id TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
        data TEXT NOT NULL);
    CREATE INDEX message_by_session ON message (session_id, id);
    CREATE TABLE part (
        id TEXT PRIMARY KEY, message_id TEXT NOT NULL REFERENCES message (id) ON DELETE CASCADE,
        session_id TEXT NOT NULL, data TEXT NOT NULL);
    CREATE INDEX part_by_session ON part (session_id, id);
    CREATE INDEX part_by_message ON part (message_id);
    CREATE TABLE part_text (
        seq INTEGER PRIMARY KEY, part_id TEXT NOT NULL REFERENCES part (id) ON DELETE CASCADE,
        session_id TEXT NOT NULL, text TEXT NOT NULL);
    CREATE INDEX part_text_by_part ON part_text (part_id);
    CREATE INDEX part_text_by_session ON part_text (session_id);
    CREATE TABLE todo (
        session_id TEXT PRIMARY KEY REFERENCES session (id) ON DELETE CASCADE, data TEXT NOT NULL);
",
    "
    CREATE TABLE approval (
        seq INTEGER PRIMARY KEY, project TEXT NOT NULL, permission TEXT NOT NULL, pattern TEXT NOT NULL,
        action TEXT NOT NULL, created INTEGER NOT NULL, UNIQUE (project, permission, pattern));
",
    "
    CREATE TABLE noted_file (
        session_id TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE, path BLOB NOT NULL,
        noted INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (session_id, path)) WITHOUT ROWID;
",
    "
    ALTER TABLE session ADD COLUMN chosen_title TEXT;
",
    "
    ALTER TABLE session ADD COLUMN chosen_agent TEXT;
    ALTER TABLE session ADD COLUMN chosen_model TEXT;
",
    "
    ALTER TABLE project ADD COLUMN settings TEXT;
",
    "
    ALTER TABLE session ADD COLUMN patch TEXT;
",
    "
    CREATE TABLE spent_message (
        id TEXT PRIMARY KEY, session_id TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
        data TEXT NOT NULL) WITHOUT ROWID;
    CREATE INDEX spent_message_by_session ON spent_message (session_id);
",
    "
    CREATE INDEX session_by_directory ON session (directory, updated DESC, id DESC);
",
    "
    ALTER TABLE session ADD COLUMN client_prompt TEXT;
",
    "
    CREATE TABLE waiting_prompt (
        session_id TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE, id TEXT NOT NULL,
        data TEXT NOT NULL, PRIMARY KEY (session_id, id)) WITHOUT ROWID;
",
    "
    CREATE TABLE shared_session (
        session_id TEXT PRIMARY KEY REFERENCES session (id) ON DELETE CASCADE, epoch INTEGER NOT NULL,
        is_complete INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE shared_state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
",
];

/// The version that all steps lead to.
pub const NEWEST: usize = STEPS.len();

/// Brings the schema up to date, after a copy of a store that holds something; several processes may try at once.
pub fn run(connection: &mut Connection) -> Result<(), StorageError> {
    let version_before = version(connection)?;
    if version_before >= STEPS.len() {
        return Ok(());
    }
    if version_before > 0 {
        backup::before_migration(connection, version_before)?;
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = version(&transaction)?;
    for step in STEPS.iter().skip(from) {
        transaction.execute_batch(step)?;
    }
    if from < STEPS.len() {
        transaction.pragma_update(None, "user_version", STEPS.len() as i64)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Returns the version of a store's schema.
pub fn version(connection: &Connection) -> rusqlite::Result<usize> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(0))
}

/// Returns true if a store has a table.
pub fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    connection.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1")?.exists([name])
}

/// Returns true if the steps up to a version make a table; a newer windlass may have removed it again.
pub fn makes_table(version: usize, name: &str) -> bool {
    version <= NEWEST && schema(version).and_then(|schema| has_table(&schema, name)).unwrap_or(false)
}

/// Makes an empty store of a version, in memory.
pub fn schema(version: usize) -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    STEPS.iter().take(version).try_for_each(|step| connection.execute_batch(step))?;
    Ok(connection)
}
