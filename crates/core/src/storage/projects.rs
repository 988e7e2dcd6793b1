//! Reads and writes projects: the worktrees that were worked in, and their users' settings.

use rusqlite::{OptionalExtension, params};
use windlass_protocol::opencode::project::{ProjectTime, ProjectUpdate};

use super::{Storage, StorageError, UNKNOWN_PROJECT};

/// A worktree that was worked in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredProject {
    pub worktree: String,
    pub id: String,
    pub settings: ProjectUpdate,
    /// Times of its sessions, in milliseconds since the epoch; none if it has no sessions.
    pub time: Option<ProjectTime>,
}

impl Storage {
    /// Reads the project id stored for a worktree.
    pub async fn project_of(&self, worktree: String) -> Result<Option<String>, StorageError> {
        self.reader
            .read(move |connection| {
                let mut statement =
                    connection.prepare_cached("SELECT id FROM project WHERE worktree = ?1")?;
                Ok(statement.query_row([worktree], |row| row.get(0)).optional()?)
            })
            .await
    }

    /// Stores a worktree's project id and gives it to the sessions that were made before it was known.
    pub async fn set_project(&self, worktree: String, project_id: String) -> Result<(), StorageError> {
        self.writer
            .write(move |connection| {
                connection.execute(
                    "INSERT INTO project (worktree, id) VALUES (?1, ?2) \
                     ON CONFLICT (worktree) DO UPDATE SET id = excluded.id",
                    [&worktree, &project_id],
                )?;
                connection.execute(
                    "UPDATE session SET project_id = ?2 WHERE project_id = ?3 AND \
                     (directory = ?1 OR substr(directory, 1, length(?1) + 1) = ?1 || '/')",
                    [&worktree, &project_id, UNKNOWN_PROJECT],
                )?;
                Ok(())
            })
            .await
    }

    /// Reads every worktree that was worked in, by path.
    pub async fn projects(&self) -> Result<Vec<StoredProject>, StorageError> {
        self.reader
            .read(|connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT worktree, id, settings, \
                     (SELECT min(json_extract(data, '$.time.created')) FROM session WHERE project_id = project.id), \
                     (SELECT max(updated) FROM session WHERE project_id = project.id) \
                     FROM project ORDER BY worktree",
                )?;
                let mut rows = statement.query([])?;
                let mut projects = Vec::new();
                while let Some(row) = rows.next()? {
                    let settings: Option<String> = row.get(2)?;
                    let settings = settings.and_then(|json| serde_json::from_str(&json).ok());
                    let (created, updated): (Option<i64>, Option<i64>) = (row.get(3)?, row.get(4)?);
                    projects.push(StoredProject {
                        worktree: row.get(0)?,
                        id: row.get(1)?,
                        settings: settings.unwrap_or_default(),
                        time: created.zip(updated).map(|(created, updated)| ProjectTime {
                            created,
                            updated,
                            initialized: None,
                        }),
                    });
                }
                Ok(projects)
            })
            .await
    }

    /// Stores a user's settings of a project. False if there is no such project.
    pub async fn set_project_settings(
        &self,
        id: String,
        settings: ProjectUpdate,
    ) -> Result<bool, StorageError> {
        self.writer
            .write(move |connection| {
                let json = serde_json::to_string(&settings).unwrap_or_default();
                let n_changed = connection
                    .execute("UPDATE project SET settings = ?2 WHERE id = ?1", params![id, json])?;
                Ok(n_changed > 0)
            })
            .await
    }
}

#[cfg(test)]
mod tests;
