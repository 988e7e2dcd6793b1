//! The right to write a session: one node at a time, each under an epoch of its own.
//!
//! A lease holds for as long as its owner's row does. An append locks the lease's key, which a change of the epoch
//! waits for: so no write of an earlier owner comes behind a later one's.

use tokio_postgres::Row;
use windlass_core::storage::outlet::SharedError;
use windlass_protocol::opencode::id::SessionId;

use super::{database::Database, failure::refused, seal::Keys};
use crate::types::Owner;

/// The lease of a session as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lease {
    /// Nobody has shared the session yet.
    Unknown,
    /// A node has deleted it.
    Deleted,
    Free,
    Owned(Owner),
}

/// Takes a session's lease if it is free, its owner's time is over, or it is this node's already. Returns the new epoch.
pub async fn take(database: &Database, session: &SessionId, node: &str) -> Result<Option<i64>, SharedError> {
    let mut client = database.client().await?;
    let transaction = client.transaction().await.map_err(refused)?;
    // An owner that asks for more time at this moment has its row locked: either it gets the time, or it is buried.
    let bury = database.sql(
        "UPDATE {s}.node SET expires_at = '-infinity' WHERE id = (SELECT owner FROM {s}.lease WHERE session_id = $1) \
         AND expires_at <= clock_timestamp()",
    );
    let bury = transaction.prepare_cached(&bury).await.map_err(refused)?;
    transaction.execute(&bury, &[&session.as_str()]).await.map_err(refused)?;
    let take = database.sql(
        "UPDATE {s}.lease l SET owner = $2, epoch = epoch + 1 WHERE session_id = $1 AND NOT deleted AND (owner IS NULL OR owner = $2 \
         OR NOT EXISTS (SELECT 1 FROM {s}.node n WHERE n.id = l.owner AND n.expires_at > '-infinity')) \
         AND EXISTS (SELECT 1 FROM {s}.node me WHERE me.id = $2 AND me.expires_at > clock_timestamp()) RETURNING epoch",
    );
    let take = transaction.prepare_cached(&take).await.map_err(refused)?;
    let row = transaction.query_opt(&take, &[&session.as_str(), &node]).await.map_err(refused)?;
    transaction.commit().await.map_err(refused)?;
    Ok(row.map(|row| row.get(0)))
}

/// Begins the lease of a session that nobody has shared. Returns false if another node was quicker.
pub async fn begin(database: &Database, session: &SessionId, node: &str) -> Result<bool, SharedError> {
    let client = database.client().await?;
    let begin = database.sql(
        "INSERT INTO {s}.lease (session_id, owner, epoch) SELECT $1, $2, 1 WHERE EXISTS \
         (SELECT 1 FROM {s}.node me WHERE me.id = $2 AND me.expires_at > clock_timestamp()) ON CONFLICT DO NOTHING",
    );
    let begin = client.prepare_cached(&begin).await.map_err(refused)?;
    Ok(client.execute(&begin, &[&session.as_str(), &node]).await.map_err(refused)? > 0)
}

/// Reads a session's lease.
pub async fn read(database: &Database, keys: &Keys, session: &SessionId) -> Result<Lease, SharedError> {
    let client = database.client().await?;
    let read = database.sql(
        "SELECT l.owner, n.name, n.machine, n.address, n.seal, coalesce(n.expires_at > clock_timestamp(), false), l.deleted \
         FROM {s}.lease l LEFT JOIN {s}.node n ON n.id = l.owner WHERE l.session_id = $1",
    );
    let read = client.prepare_cached(&read).await.map_err(refused)?;
    let row = client.query_opt(&read, &[&session.as_str()]).await.map_err(refused)?;
    Ok(match row {
        None => Lease::Unknown,
        Some(row) if row.get(6) => Lease::Deleted,
        Some(row) => owner(&row, keys).map_or(Lease::Free, Lease::Owned),
    })
}

/// Reads an owner from a row that begins with id, name, machine, address, seal and whether it is alive.
pub fn owner(row: &Row, keys: &Keys) -> Option<Owner> {
    let id: String = row.get::<_, Option<String>>(0)?;
    // A terminal obeys some of the characters that a name may have.
    let text = |index| {
        let text = row.get::<_, Option<String>>(index)?;
        Some(text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect::<String>())
    };
    let seal: Vec<u8> = row.get::<_, Option<Vec<u8>>>(4).unwrap_or_default();
    let address = text(3);
    // A row that somebody else wrote leads nowhere.
    let is_own = keys.is_of_node(&id, address.as_deref(), &seal);
    Some(Owner {
        name: text(1).unwrap_or_else(|| "a node that has gone".to_owned()),
        machine: text(2).unwrap_or_default(),
        address: address.filter(|_| is_own),
        is_alive: row.get(5),
        id,
    })
}

/// Ends a node of this machine whose process is known to have ended.
pub async fn bury(database: &Database, node: &str) -> Result<(), SharedError> {
    let client = database.client().await?;
    let bury = database.sql("UPDATE {s}.node SET expires_at = '-infinity' WHERE id = $1");
    client.execute(&bury, &[&node]).await.map_err(refused)?;
    Ok(())
}

/// Asks the owner of a session to give it, if it has nothing to do in it. Returns the moment, for [`is_refused`].
pub async fn ask_for(database: &Database, session: &SessionId) -> Result<i64, SharedError> {
    let client = database.client().await?;
    let ask = "SELECT pg_notify($1, $2)::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let row = client.query_one(ask, &[&channel(database), &session.as_str()]).await.map_err(refused)?;
    Ok(row.get(1))
}

/// Returns true if the owner has said since that it is at work.
pub async fn is_refused(database: &Database, session: &SessionId, asked: i64) -> Result<bool, SharedError> {
    let client = database.client().await?;
    let read = database.sql(
        "SELECT coalesce((extract(epoch FROM refused_at) * 1000000)::bigint > $2, false) FROM {s}.lease \
         WHERE session_id = $1",
    );
    let read = client.prepare_cached(&read).await.map_err(refused)?;
    let row = client.query_opt(&read, &[&session.as_str(), &asked]).await.map_err(refused)?;
    Ok(row.is_some_and(|row| row.get(0)))
}

/// Says that this node is at work in a session that another one wants.
pub async fn refuse(database: &Database, session: &SessionId, node: &str) -> Result<(), SharedError> {
    let client = database.client().await?;
    let refuse = database
        .sql("UPDATE {s}.lease SET refused_at = clock_timestamp() WHERE session_id = $1 AND owner = $2");
    client.execute(&refuse, &[&session.as_str(), &node]).await.map_err(refused)?;
    Ok(())
}

/// The channel of requests for sessions; there is one for a schema, since they are few.
pub fn channel(database: &Database) -> String {
    format!("windlass_{}", database.schema())
}

/// Gives up whatever lease a node has on a session.
pub async fn free(database: &Database, session: &SessionId, node: &str) -> Result<(), SharedError> {
    let client = database.client().await?;
    let free = database.sql("UPDATE {s}.lease SET owner = NULL WHERE session_id = $1 AND owner = $2");
    client.execute(&free, &[&session.as_str(), &node]).await.map_err(refused)?;
    Ok(())
}

/// Gives a session back.
pub async fn give_back(
    database: &Database,
    session: &SessionId,
    node: &str,
    epoch: i64,
) -> Result<bool, SharedError> {
    let client = database.client().await?;
    let give =
        database.sql("UPDATE {s}.lease SET owner = NULL WHERE session_id = $1 AND owner = $2 AND epoch = $3");
    let give = client.prepare_cached(&give).await.map_err(refused)?;
    Ok(client.execute(&give, &[&session.as_str(), &node, &epoch]).await.map_err(refused)? > 0)
}
