//! The answers of the user that are remembered for a project.

use rusqlite::{Connection, params};
use windlass_base::clock::now_ms;
use windlass_protocol::opencode::permission::{Action, Rule};

use super::{Storage, StorageError};

/// Says in `shared_state` that answers are exchanged with other nodes.
const SHARED: &str = "answers";
/// The beginning of the names there of answers that were taken back.
const REVOKED: &str = "revoked ";

/// A remembered answer of the user in a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The directory of the worktree, or of the session if there is none.
    pub project: String,
    pub rule: Rule,
    /// The time in milliseconds since the epoch.
    pub created: i64,
}

impl Storage {
    /// Reads the remembered answers of a project or of all, oldest first.
    pub async fn answers(&self, project: Option<String>) -> Result<Vec<StoredAnswer>, StorageError> {
        self.reader.read(move |connection| answers(connection, project.as_deref())).await
    }

    /// Stores answers; a newer answer about a pattern replaces an older one.
    pub async fn add_answers(
        &self,
        project: String,
        rules: Vec<Rule>,
        created: i64,
    ) -> Result<(), StorageError> {
        self.writer
            .write(move |connection| {
                let mut statement = connection.prepare_cached(
                    "INSERT OR REPLACE INTO approval (project, permission, pattern, action, created) \
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                )?;
                for rule in &rules {
                    let action = serde_json::to_string(&rule.action)?;
                    statement.execute(params![project, rule.permission, rule.pattern, action, created])?;
                }
                Ok(())
            })
            .await
    }

    /// Removes an answer. Returns false if there was none.
    pub async fn remove_answer(
        &self,
        project: String,
        permission: String,
        pattern: String,
    ) -> Result<bool, StorageError> {
        self.writer
            .write(move |connection| {
                let n_removed = connection.execute(
                    "DELETE FROM approval WHERE project = ?1 AND permission = ?2 AND pattern = ?3",
                    [&project, &permission, &pattern],
                )?;
                // Other nodes are told with the next exchange, or they would give it back.
                connection.execute(
                    "INSERT OR REPLACE INTO shared_state (name, value) SELECT ?1, ?2 WHERE EXISTS \
                     (SELECT 1 FROM shared_state WHERE name = ?3)",
                    params![revoked(&project, &permission, &pattern)?, now_ms(), SHARED],
                )?;
                Ok(n_removed > 0)
            })
            .await
    }

    /// Reads the answers of a project that were taken back since the last exchange with other nodes, with the times of
    /// that. From the first call on such answers are noted.
    pub async fn revoked_answers(&self, project: String) -> Result<Vec<StoredAnswer>, StorageError> {
        self.writer
            .write(move |connection| {
                connection
                    .execute("INSERT OR IGNORE INTO shared_state (name, value) VALUES (?1, 1)", [SHARED])?;
                let mut statement = connection
                    .prepare_cached("SELECT name, value FROM shared_state WHERE name LIKE 'revoked %'")?;
                let mut rows = statement.query([])?;
                let mut answers = Vec::new();
                while let Some(row) = rows.next()? {
                    let name: String = row.get(0)?;
                    let named = name.strip_prefix(REVOKED).map(serde_json::from_str::<[String; 3]>);
                    let Some(Ok([of, permission, pattern])) = named else { continue };
                    if of == project {
                        let rule = Rule { permission, pattern, action: Action::Ask };
                        answers.push(StoredAnswer { project: of, rule, created: row.get(1)? });
                    }
                }
                Ok(answers)
            })
            .await
    }

    /// Takes over answers of other nodes, and the news that some were taken back; `told` are those that the others know of.
    pub async fn exchange_answers(
        &self,
        added: Vec<StoredAnswer>,
        removed: Vec<StoredAnswer>,
        told: Vec<StoredAnswer>,
    ) -> Result<(), StorageError> {
        self.writer
            .write(move |connection| {
                for StoredAnswer { project, rule, created } in &added {
                    let action = serde_json::to_string(&rule.action)?;
                    connection.execute(
                        "INSERT OR REPLACE INTO approval (project, permission, pattern, action, created) \
                         VALUES (?1, ?2, ?3, ?4, ?5)",
                        params![project, rule.permission, rule.pattern, action, created],
                    )?;
                }
                for StoredAnswer { project, rule, created } in &removed {
                    connection.execute(
                        "DELETE FROM approval WHERE project = ?1 AND permission = ?2 AND pattern = ?3 AND created <= ?4",
                        params![project, rule.permission, rule.pattern, created],
                    )?;
                }
                for StoredAnswer { project, rule, created } in &told {
                    connection.execute(
                        "DELETE FROM shared_state WHERE name = ?1 AND value <= ?2",
                        params![revoked(project, &rule.permission, &rule.pattern)?, created],
                    )?;
                }
                Ok(())
            })
            .await
    }
}

/// Names an answer that was taken back.
fn revoked(project: &str, permission: &str, pattern: &str) -> Result<String, serde_json::Error> {
    Ok(REVOKED.to_owned() + &serde_json::to_string(&[project, permission, pattern])?)
}

fn answers(connection: &Connection, project: Option<&str>) -> Result<Vec<StoredAnswer>, StorageError> {
    let mut statement = connection.prepare_cached(
        "SELECT project, permission, pattern, action, created FROM approval \
         WHERE ?1 IS NULL OR project = ?1 ORDER BY seq",
    )?;
    let mut rows = statement.query([project])?;
    let mut answers = Vec::new();
    while let Some(row) = rows.next()? {
        let action: String = row.get(3)?;
        // A row of a newer version that this one cannot read must not allow anything.
        let action = serde_json::from_str(&action).unwrap_or(Action::Ask);
        let rule = Rule { permission: row.get(1)?, pattern: row.get(2)?, action };
        answers.push(StoredAnswer { project: row.get(0)?, rule, created: row.get(4)? });
    }
    Ok(answers)
}
