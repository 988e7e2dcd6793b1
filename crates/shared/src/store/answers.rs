//! The answers of users that are remembered for a project, where the nodes share them.

use windlass_core::storage::outlet::SharedError;

use super::{
    Shared,
    failure::{limited, refused},
    seal::Keys,
};
use crate::types::SharedAnswer;

/// Answers of one project that are read; of more, the oldest hold on their own node alone.
const MAX_ANSWERS: i64 = 10_000;

impl Shared {
    /// Reads the answers of a project, by its root commit, in the order in which they came. One that no node of the fleet
    /// wrote is no answer.
    pub async fn answers(&self, project: &str) -> Result<Vec<SharedAnswer>, SharedError> {
        let keys = self.keys().await?;
        let read = self.0.database.sql(
            "SELECT name, data FROM (SELECT name, data, change FROM {s}.answer WHERE project_id = $1 \
             ORDER BY change DESC LIMIT $2) newest ORDER BY change",
        );
        let rows = limited(async {
            let client = self.0.database.client().await?;
            let read = client.prepare_cached(&read).await.map_err(refused)?;
            client.query(&read, &[&project, &MAX_ANSWERS]).await.map_err(refused)
        });
        let mut answers = Vec::new();
        for row in rows.await? {
            match open(keys, project, row.get(0), row.get(1)) {
                Some(answer) => answers.push(answer),
                None => tracing::warn!(project, "a shared answer was not written by a node of this fleet"),
            }
        }
        Ok(answers)
    }

    /// Writes answers of a project, in their order; each takes the place of an older one about the same pattern.
    pub async fn put_answers(&self, project: &str, answers: &[SharedAnswer]) -> Result<(), SharedError> {
        let keys = self.keys().await?;
        let database = &self.0.database;
        let read = database.sql("SELECT data FROM {s}.answer WHERE project_id = $1 AND name = $2");
        let put = database.sql(
            "INSERT INTO {s}.answer (project_id, name, data) VALUES ($1, $2, $3) ON CONFLICT (project_id, name) \
             DO UPDATE SET data = excluded.data, change = excluded.change",
        );
        limited(async {
            let mut client = database.client().await?;
            let transaction = client.transaction().await.map_err(refused)?;
            // Another node may be taking back the same answer.
            let lock = "SELECT pg_advisory_xact_lock(hashtextextended('windlass answers ' || $1, 0))";
            transaction.execute(lock, &[&project]).await.map_err(refused)?;
            for answer in answers {
                let name = keys.name_of(&format!("{}\n{}", answer.rule.permission, answer.rule.pattern));
                let row = transaction.query_opt(&read, &[&project, &name]).await.map_err(refused)?;
                let before = row.and_then(|row| open(keys, project, name.clone(), row.get(0)));
                if before.is_some_and(|before| before.created >= answer.created) {
                    continue;
                }
                let text = serde_json::to_string(answer)
                    .map_err(|error| SharedError::Setting { reason: error.to_string() })?;
                let sealed = format!("{} {text}", keys.of_text(&sealed_text(project, &text)));
                let data = keys.close(&place(project, &name), sealed.into_bytes())?;
                transaction.execute(&put, &[&project, &name, &data]).await.map_err(refused)?;
            }
            transaction.commit().await.map_err(refused)
        })
        .await
    }
}

/// Reads a row that a node of the fleet has written.
fn open(keys: &Keys, project: &str, name: Vec<u8>, data: Vec<u8>) -> Option<SharedAnswer> {
    let opened = if keys.encrypts() { keys.open(&place(project, &name), &data).ok()? } else { data };
    let text = String::from_utf8(opened).ok()?;
    let (seal, text) = text.split_once(' ')?;
    keys.is_of_text(&sealed_text(project, text), seal).then(|| serde_json::from_str(text).ok())?
}

fn place(project: &str, name: &[u8]) -> String {
    format!("answer {project} {name:?}")
}

fn sealed_text(project: &str, text: &str) -> String {
    format!("answer of {project}\n{text}")
}
