//! The tables of the shared store: numbered steps, carried out by one process at a time.

use deadpool_postgres::Client;
use ring::rand::{SecureRandom, SystemRandom};
use windlass_core::storage::outlet::SharedError;

use super::failure::refused;

/// The oldest server that has everything the statements need.
pub const OLDEST_SERVER: i32 = 130_000;
/// Bytes of the fleet's key.
const KEY_BYTES: usize = 32;

/// Steps of the schema; each leads from the version of its index to the next. `{s}` is the schema's name.
const STEPS: &[&str] = &[
    "
    CREATE TABLE {s}.node (
        id text PRIMARY KEY, name text NOT NULL, machine text NOT NULL, address text, seal bytea NOT NULL,
        version text NOT NULL, began timestamptz NOT NULL DEFAULT clock_timestamp(),
        expires_at timestamptz NOT NULL, lag_ms bigint NOT NULL DEFAULT 0);
    CREATE TABLE {s}.lease (
        session_id text PRIMARY KEY, owner text, epoch bigint NOT NULL, refused_at timestamptz,
        deleted boolean NOT NULL DEFAULT false,
        UNIQUE (session_id, epoch));
    CREATE INDEX lease_by_owner ON {s}.lease (owner) WHERE owner IS NOT NULL;
    CREATE SEQUENCE {s}.session_change;
    CREATE TABLE {s}.session (
        session_id text PRIMARY KEY, root_id text NOT NULL, parent_id text, project_id text NOT NULL,
        updated bigint NOT NULL, archived boolean NOT NULL, data bytea NOT NULL,
        change bigint NOT NULL DEFAULT nextval('{s}.session_change'));
    CREATE INDEX session_by_number ON {s}.session (change) WHERE parent_id IS NULL;
    CREATE INDEX session_by_change ON {s}.session (updated DESC, session_id DESC) WHERE parent_id IS NULL;
    CREATE INDEX session_by_root ON {s}.session (root_id);
    CREATE TABLE {s}.event (
        session_id text NOT NULL, seq bigint NOT NULL, epoch bigint NOT NULL, data bytea NOT NULL,
        PRIMARY KEY (session_id, seq));
    CREATE TABLE {s}.checkpoint (
        session_id text PRIMARY KEY, seq bigint NOT NULL, epoch bigint NOT NULL, data bytea NOT NULL);
    CREATE TABLE {s}.blob (
        session_id text NOT NULL, hash bytea NOT NULL, data bytea NOT NULL, PRIMARY KEY (session_id, hash));
",
    "
    CREATE TABLE {s}.answer (
        project_id text NOT NULL, name bytea NOT NULL, data bytea NOT NULL,
        change bigint NOT NULL DEFAULT nextval('{s}.session_change'), PRIMARY KEY (project_id, name));
",
    "
    CREATE TABLE {s}.account_row (
        name bytea PRIMARY KEY, kind smallint NOT NULL, data bytea NOT NULL, change bigint NOT NULL,
        at timestamptz NOT NULL DEFAULT clock_timestamp());
    CREATE INDEX account_row_by_change ON {s}.account_row (change);
",
];

/// Makes the schema or brings it up to date, and returns the fleet's key.
pub async fn prepare(client: &mut Client, schema: &str) -> Result<Vec<u8>, SharedError> {
    let server: String = client.query_one("SHOW server_version_num", &[]).await.map_err(refused)?.get(0);
    if server.parse::<i32>().unwrap_or(0) < OLDEST_SERVER {
        let reason = format!("its Postgres is older than version {}", OLDEST_SERVER / 10_000);
        return Err(SharedError::Refused { reason });
    }
    let name = quoted(schema);
    if let Some((version, key)) = installed(client, schema).await? {
        if version == STEPS.len() {
            return Ok(key);
        }
        check_version(version, schema)?;
    }
    let transaction = client.transaction().await.map_err(refused)?;
    // Several nodes may start at once.
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('windlass ' || $1, 0))";
    transaction.execute(lock, &[&schema]).await.map_err(refused)?;
    let exists = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    if transaction.query_opt(exists, &[&schema]).await.map_err(refused)?.is_none() {
        transaction.batch_execute(&format!("CREATE SCHEMA {name}")).await.map_err(refused)?;
    }
    let fleet = format!(
        "CREATE TABLE IF NOT EXISTS {name}.fleet (is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only), \
         version int NOT NULL, key bytea NOT NULL)"
    );
    transaction.batch_execute(&fleet).await.map_err(refused)?;
    let mut key = vec![0; KEY_BYTES];
    SystemRandom::new()
        .fill(&mut key)
        .map_err(|_| SharedError::Refused { reason: "no random numbers can be had".to_owned() })?;
    let begin = format!("INSERT INTO {name}.fleet (version, key) VALUES (0, $1) ON CONFLICT DO NOTHING");
    transaction.execute(&begin, &[&key]).await.map_err(refused)?;
    let read = format!("SELECT version, key FROM {name}.fleet FOR UPDATE");
    let row = transaction.query_one(&read, &[]).await.map_err(refused)?;
    let (version, key): (i32, Vec<u8>) = (row.get(0), row.get(1));
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    check_version(version, schema)?;
    for step in &STEPS[version..] {
        transaction.batch_execute(&step.replace("{s}", &name)).await.map_err(refused)?;
    }
    let newest = i32::try_from(STEPS.len()).unwrap_or(i32::MAX);
    let note = format!("UPDATE {name}.fleet SET version = $1");
    transaction.execute(&note, &[&newest]).await.map_err(refused)?;
    transaction.commit().await.map_err(refused)?;
    Ok(key)
}

/// Returns the version of the schema, and its key; `None` if it is not there or this role may not look.
async fn installed(client: &Client, schema: &str) -> Result<Option<(usize, Vec<u8>)>, SharedError> {
    let name = format!("{}.fleet", quoted(schema));
    let row = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&name]).await.map_err(refused)?;
    if !row.get::<_, bool>(0) {
        return Ok(None);
    }
    let row = client.query_opt(&format!("SELECT version, key FROM {name}"), &[]).await.map_err(refused)?;
    Ok(row.map(|row| (usize::try_from(row.get::<_, i32>(0)).unwrap_or(usize::MAX), row.get(1))))
}

/// Writes a name as an identifier of SQL.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn check_version(version: usize, schema: &str) -> Result<(), SharedError> {
    if version <= STEPS.len() {
        return Ok(());
    }
    let reason =
        format!("a newer windlass made its schema {schema} (version {version}); use that one on every node");
    Err(SharedError::Refused { reason })
}
