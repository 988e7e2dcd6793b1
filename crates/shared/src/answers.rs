//! The answers of users that are remembered for a project, where the nodes share them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use windlass_core::storage::outlet::SharedError;
use windlass_protocol::opencode::permission::Rule;

use crate::{
    Shared,
    failure::{limited, refused},
};

/// Answers of one project that are read; of more, the oldest hold on their own node alone.
const MAX_ANSWERS: i64 = 10_000;

/// An answer as the nodes share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedAnswer {
    pub rule: Rule,
    /// Milliseconds since the epoch; the later one of two about the same pattern holds.
    pub created: i64,
    /// It was taken back.
    pub is_revoked: bool,
}

impl Shared {
    /// Reads the answers of a project, by its root commit. One that no node of the fleet wrote is no answer.
    pub async fn answers(&self, project: &str) -> Result<Vec<SharedAnswer>, SharedError> {
        let keys = self.keys().await?;
        let read = self
            .0
            .database
            .sql("SELECT name, data FROM {s}.answer WHERE project_id = $1 ORDER BY change DESC LIMIT $2");
        let rows = limited(async {
            let client = self.0.database.client().await?;
            let read = client.prepare_cached(&read).await.map_err(refused)?;
            client.query(&read, &[&project, &MAX_ANSWERS]).await.map_err(refused)
        });
        let mut answers = Vec::new();
        for row in rows.await? {
            let (name, data): (Vec<u8>, Vec<u8>) = (row.get(0), row.get(1));
            let opened =
                if keys.encrypts() { keys.open(&place(project, &name), &data).ok() } else { Some(data) };
            let text = opened.and_then(|data| String::from_utf8(data).ok());
            let sealed = text.as_deref().and_then(|text| text.split_once(' '));
            let is_own = |(seal, text): &(&str, &str)| keys.is_of_text(&sealed_text(project, text), seal);
            match sealed.filter(is_own).and_then(|(_, text)| serde_json::from_str(text).ok()) {
                Some(answer) => answers.push(answer),
                None => tracing::warn!(project, "a shared answer was not written by a node of this fleet"),
            }
        }
        Ok(answers)
    }

    /// Writes answers of a project; each takes the place of the one about the same pattern.
    pub async fn put_answers(&self, project: &str, answers: &[SharedAnswer]) -> Result<(), SharedError> {
        let keys = self.keys().await?;
        let mut rows = HashMap::new();
        for answer in answers {
            let text = serde_json::to_string(answer)
                .map_err(|error| SharedError::Setting { reason: error.to_string() })?;
            let name = keys.name_of(&format!("{}\n{}", answer.rule.permission, answer.rule.pattern));
            let sealed = format!("{} {text}", keys.of_text(&sealed_text(project, &text)));
            let data = keys.close(&place(project, &name), sealed.into_bytes())?;
            rows.insert(name, data);
        }
        let (names, data): (Vec<&[u8]>, Vec<&[u8]>) =
            rows.iter().map(|(name, data)| (name.as_slice(), data.as_slice())).unzip();
        let put = self.0.database.sql(
            "INSERT INTO {s}.answer (project_id, name, data) SELECT $1, r.name, r.data FROM \
             unnest($2::bytea[], $3::bytea[]) AS r(name, data) ON CONFLICT (project_id, name) DO UPDATE SET \
             data = excluded.data, change = excluded.change",
        );
        limited(async {
            let client = self.0.database.client().await?;
            client.execute(&put, &[&project, &names, &data]).await.map_err(refused).map(drop)
        })
        .await
    }
}

fn place(project: &str, name: &[u8]) -> String {
    format!("answer {project} {name:?}")
}

fn sealed_text(project: &str, text: &str) -> String {
    format!("answer of {project}\n{text}")
}
