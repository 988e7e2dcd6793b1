//! The answers of the user that are remembered for a project.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_base::clock::now_ms;
use windlass_protocol::opencode::permission::{Action, Rule};

use super::{Storage, StorageError};

/// The beginning of the names in `shared_state` of answers that were taken back.
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
                    // It is newer than its revocation, however wrong a clock was.
                    let revoked = revoked_at(connection, &project, &rule.permission, &rule.pattern)?;
                    let created = revoked.map_or(created, |at| created.max(at + 1));
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
                let of_answer = params![project, permission, pattern];
                // Other nodes are told with the next exchange, or they would give it back.
                let created: Option<i64> = connection
                    .query_row(
                        "SELECT created FROM approval WHERE project = ?1 AND permission = ?2 AND pattern = ?3 \
                         AND EXISTS (SELECT 1 FROM shared_state WHERE name = 'answers')",
                        of_answer,
                        |row| row.get(0),
                    )
                    .optional()?;
                if let Some(created) = created {
                    let revoked_at = now_ms().max(created + 1);
                    note_revoked(connection, &project, &permission, &pattern, revoked_at)?;
                }
                let n_removed = connection.execute(
                    "DELETE FROM approval WHERE project = ?1 AND permission = ?2 AND pattern = ?3",
                    of_answer,
                )?;
                Ok(n_removed > 0)
            })
            .await
    }

    /// Reads the answers of a project that were taken back, here or on another node, with the times of that. From the
    /// first call on such answers are noted.
    pub async fn revoked_answers(&self, project: String) -> Result<Vec<StoredAnswer>, StorageError> {
        self.writer
            .write(move |connection| {
                connection
                    .execute("INSERT OR IGNORE INTO shared_state (name, value) VALUES ('answers', 1)", [])?;
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

    /// Takes over answers of other nodes, and the news that some were taken back, with the times of that.
    pub async fn take_over_answers(
        &self,
        added: Vec<StoredAnswer>,
        revoked: Vec<StoredAnswer>,
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
                for StoredAnswer { project, rule, created } in &revoked {
                    connection.execute(
                        "DELETE FROM approval WHERE project = ?1 AND permission = ?2 AND pattern = ?3 AND created <= ?4",
                        params![project, rule.permission, rule.pattern, created],
                    )?;
                    note_revoked(connection, project, &rule.permission, &rule.pattern, *created)?;
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

/// Returns the time at which an answer was last taken back.
fn revoked_at(
    connection: &Connection,
    project: &str,
    permission: &str,
    pattern: &str,
) -> Result<Option<i64>, StorageError> {
    let name = revoked(project, permission, pattern)?;
    let mut statement = connection.prepare_cached("SELECT value FROM shared_state WHERE name = ?1")?;
    Ok(statement.query_row([name], |row| row.get(0)).optional()?)
}

fn note_revoked(
    connection: &Connection,
    project: &str,
    permission: &str,
    pattern: &str,
    at: i64,
) -> Result<(), StorageError> {
    connection.execute(
        "INSERT INTO shared_state (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET \
         value = max(value, excluded.value)",
        params![revoked(project, permission, pattern)?, at],
    )?;
    Ok(())
}

fn answers(connection: &Connection, project: Option<&str>) -> Result<Vec<StoredAnswer>, StorageError> {
    let mut statement = connection.prepare_cached(
        "SELECT project, permission, pattern, action, created FROM approval \
         WHERE ?1 IS NULL OR project = ?1 ORDER BY created, seq",
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, action: Action) -> Rule {
        Rule { permission: "bash".to_owned(), pattern: pattern.to_owned(), action }
    }

    #[tokio::test]
    async fn answers_of_other_nodes_stand_where_they_were_given_and_stay_away_once_they_are_taken_back() {
        let directory = tempfile::tempdir().unwrap();
        let storage = Storage::new(directory.path().join("windlass.db"));
        let project = || "/work".to_owned();
        let stored = |rule: Rule, created| StoredAnswer { project: project(), rule, created };
        storage.revoked_answers(project()).await.unwrap();
        storage.add_answers(project(), vec![rule("git push *", Action::Deny)], 20).await.unwrap();
        let wide = stored(rule("git *", Action::Allow), 10);
        storage.take_over_answers(vec![wide.clone()], Vec::new()).await.unwrap();
        let patterns = async || {
            let answers = storage.answers(Some(project())).await.unwrap();
            answers.into_iter().map(|it| it.rule.pattern).collect::<Vec<_>>()
        };
        // The last one that fits holds.
        assert_eq!(patterns().await, ["git *", "git push *"]);
        storage.remove_answer(project(), "bash".to_owned(), "git *".to_owned()).await.unwrap();
        let revoked = storage.revoked_answers(project()).await.unwrap();
        assert!(revoked.len() == 1 && revoked[0].created > wide.created, "{revoked:?}");
        storage
            .take_over_answers(Vec::new(), vec![stored(rule("git push *", Action::Ask), 19)])
            .await
            .unwrap();
        assert_eq!(patterns().await, ["git push *"], "a newer answer stays");
        storage.add_answers(project(), vec![rule("git *", Action::Allow)], 5).await.unwrap();
        let again = storage.answers(Some(project())).await.unwrap();
        let again = again.iter().find(|it| it.rule.pattern == "git *").unwrap();
        assert!(again.created > revoked[0].created, "given again, it is newer, whatever the clock says");
    }
}
