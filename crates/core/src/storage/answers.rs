//! The answers of the user that are remembered for a project.

use rusqlite::{Connection, params};
use windlass_protocol::opencode::permission::{Action, Rule};

use super::{Storage, StorageError};

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
                Ok(n_removed > 0)
            })
            .await
    }
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
