//! The accounts of a team's servers, row by row: each server keeps them all, and changes them in its turn.

use deadpool_postgres::Client;
use tokio::sync::watch;
use windlass_core::storage::outlet::SharedError;

use super::{
    Shared,
    failure::{limited, refused},
    lease,
    seal::Keys,
};
use crate::types::PeopleRow;

/// The message to other nodes that accounts have changed, in the channel of sessions that are wanted.
pub const CHANGED: &str = "people";
/// Rows that are read at once.
const PAGE: i64 = 5_000;
/// Rows of the audit that stay, as in the file of a server alone.
const MAX_AUDIT: i64 = 100_000;
/// The table of the audit.
const AUDIT: &str = "audit";
/// Changes between two looks for rows that are too old.
const PRUNE_EVERY: i64 = 256;

/// The kinds of rows, by which old ones are found.
const PLAIN: i16 = 0;
const GONE: i16 = 1;
const OF_AUDIT: i16 = 2;

/// A change that no other node makes at the same time. Without [`PeopleTurn::put`] nothing has changed.
pub struct PeopleTurn {
    shared: Shared,
    client: Option<Client>,
    rows: Vec<PeopleRow>,
}

impl Shared {
    /// Reads the rows that changed behind a number, in their order. One that no node of the fleet wrote is none.
    pub async fn people_since(&self, change: i64) -> Result<Vec<PeopleRow>, SharedError> {
        let client = limited(self.0.database.client()).await?;
        self.read_people(&client, change).await
    }

    /// Waits for the turn to change accounts, and reads the rows that changed behind a number.
    pub async fn begin_people(&self, since: i64) -> Result<PeopleTurn, SharedError> {
        let client = limited(self.0.database.client()).await?;
        let mut turn = PeopleTurn { shared: self.clone(), client: Some(client), rows: Vec::new() };
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended('windlass people ' || $1, 0))";
        let client = turn.client()?;
        limited(async {
            client.batch_execute("BEGIN").await.map_err(refused)?;
            client.execute(lock, &[&self.0.database.schema()]).await.map_err(refused)
        })
        .await?;
        turn.rows = self.read_people(client, since).await?;
        Ok(turn)
    }

    /// Returns a count of the changes that other nodes have told of.
    pub fn people_changes(&self) -> watch::Receiver<u64> {
        self.0.people.subscribe()
    }

    /// Returns the number that tells this fleet from others.
    pub async fn number(&self) -> Result<i64, SharedError> {
        Ok(self.keys().await?.number())
    }

    async fn read_people(&self, client: &Client, since: i64) -> Result<Vec<PeopleRow>, SharedError> {
        let keys = self.keys().await?;
        let read = self
            .0
            .database
            .sql("SELECT name, data, change FROM {s}.account_row WHERE change > $1 ORDER BY change LIMIT $2");
        let (mut rows, mut since) = (Vec::new(), since);
        loop {
            let page = limited(async {
                let read = client.prepare_cached(&read).await.map_err(refused)?;
                client.query(&read, &[&since, &PAGE]).await.map_err(refused)
            });
            let page = page.await?;
            for row in &page {
                since = row.get(2);
                match open(keys, row.get(0), row.get(1)) {
                    Some(opened) => rows.push(PeopleRow { change: since, ..opened }),
                    None => tracing::warn!("a row of an account was not written by a node of this fleet"),
                }
            }
            if (page.len() as i64) < PAGE {
                return Ok(rows);
            }
        }
    }
}

impl PeopleTurn {
    /// Returns the rows that changed behind the number, once.
    pub fn rows(&mut self) -> Vec<PeopleRow> {
        std::mem::take(&mut self.rows)
    }

    fn client(&self) -> Result<&Client, SharedError> {
        self.client.as_ref().ok_or_else(|| SharedError::Unreachable { reason: "the turn is over".to_owned() })
    }

    /// Writes rows and ends the turn. Returns the number of the last one; 0 without rows.
    pub async fn put(mut self, rows: &[PeopleRow]) -> Result<i64, SharedError> {
        let last = limited(self.write(rows)).await?;
        // The connection serves others.
        drop(self.client.take());
        Ok(last)
    }

    async fn write(&self, rows: &[PeopleRow]) -> Result<i64, SharedError> {
        let (client, keys, database) = (self.client()?, self.shared.keys().await?, &self.shared.0.database);
        let put = database.sql(
            "INSERT INTO {s}.account_row (name, kind, data, change) VALUES ($1, $2, $3, nextval('{s}.session_change')) \
             ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, data = excluded.data, change = excluded.change, \
             at = excluded.at RETURNING change",
        );
        let put = client.prepare_cached(&put).await.map_err(refused)?;
        let mut last = 0;
        for row in rows {
            let name = keys.name_of(&format!("{}\n{}", row.table, row.key));
            let kind = match &row.value {
                None => GONE,
                Some(_) if row.table == AUDIT => OF_AUDIT,
                Some(_) => PLAIN,
            };
            let text = serde_json::to_string(row)
                .map_err(|error| SharedError::Setting { reason: error.to_string() })?;
            let sealed = format!("{} {text}", keys.of_text(&sealed_text(&text)));
            let data = keys.close(&place(&name), sealed.into_bytes())?;
            let written = client.query_one(&put, &[&name, &kind, &data]).await.map_err(refused)?;
            last = written.get(0);
            if last % PRUNE_EVERY == 0 {
                self.prune(client).await?;
            }
        }
        if last > 0 {
            let tell = "SELECT pg_notify($1, $2)::text";
            client.query(tell, &[&lease::channel(database), &CHANGED]).await.map_err(refused)?;
        }
        client.batch_execute("COMMIT").await.map_err(refused)?;
        Ok(last)
    }

    /// Forgets rows that every server has by now, or reads anew.
    async fn prune(&self, client: &Client) -> Result<(), SharedError> {
        let database = &self.shared.0.database;
        let gone =
            "DELETE FROM {s}.account_row WHERE kind = $1 AND at < clock_timestamp() - interval '30 days'";
        client.execute(&database.sql(gone), &[&GONE]).await.map_err(refused)?;
        let audit = "DELETE FROM {s}.account_row WHERE kind = $1 AND change < (SELECT change FROM {s}.account_row \
                     WHERE kind = $1 ORDER BY change DESC OFFSET $2 LIMIT 1)";
        client.execute(&database.sql(audit), &[&OF_AUDIT, &MAX_AUDIT]).await.map_err(refused)?;
        Ok(())
    }
}

impl Drop for PeopleTurn {
    fn drop(&mut self) {
        // A transaction ends with its connection.
        if let Some(client) = self.client.take() {
            drop(Client::take(client));
        }
    }
}

/// Reads a row that a node of the fleet has written.
fn open(keys: &Keys, name: Vec<u8>, data: Vec<u8>) -> Option<PeopleRow> {
    let opened = if keys.encrypts() { keys.open(&place(&name), &data).ok()? } else { data };
    let text = String::from_utf8(opened).ok()?;
    let (seal, text) = text.split_once(' ')?;
    let row: PeopleRow =
        keys.is_of_text(&sealed_text(text), seal).then(|| serde_json::from_str(text).ok())??;
    // One row is not to stand in the place of another.
    (keys.name_of(&format!("{}\n{}", row.table, row.key)) == name).then_some(row)
}

fn place(name: &[u8]) -> String {
    format!("account {name:?}")
}

fn sealed_text(text: &str) -> String {
    format!("row of an account\n{text}")
}
