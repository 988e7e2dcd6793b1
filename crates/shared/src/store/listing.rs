//! The view of all nodes: the sessions with their owners, and the nodes.

use std::{collections::HashMap, path::Path};

use tokio_postgres::Row;
use windlass_base::{lock::lock, path::real};
use windlass_core::{
    config::paths::WORKTREES,
    storage::{UNKNOWN_PROJECT, outlet::SharedError, projects::StoredProject},
};
use windlass_protocol::opencode::{id::SessionId, session::Session};

use super::{
    Shared,
    append::listed_place,
    failure::{limited, refused},
    form,
    hold::{DELETED, root_directory},
    lease,
    seal::Keys,
};
use crate::types::{NodeRow, Owner, ServerState, Totals};

/// Numbers below the newest one that are read again: a row can come behind one with a higher number.
const OVERLAP: i64 = 200;

impl Shared {
    /// Returns the checkouts of this machine, by project: worktrees of tasks are none.
    pub(super) async fn checkouts(&self) -> Result<Vec<(String, String)>, SharedError> {
        let tasks = real(&self.0.directory.join(WORKTREES));
        let projects = self.0.storage.projects().await?.into_iter();
        let is_checkout = |project: &StoredProject| {
            project.id != UNKNOWN_PROJECT && !Path::new(&project.worktree).starts_with(&tasks)
        };
        Ok(projects.filter(is_checkout).map(|project| (project.id, project.worktree)).collect())
    }

    /// Brings the rows of this machine's store up to date with the list, so that each listing here has the sessions of all
    /// nodes. Sessions of a project that was worked in here lie in its directory here.
    pub async fn refresh(&self) -> Result<(), SharedError> {
        let storage = &self.0.storage;
        let projects: HashMap<String, String> = self.checkouts().await?.into_iter().collect();
        let n_projects = i64::try_from(projects.len()).unwrap_or(i64::MAX);
        let is_known = storage.shared_state("projects").await? == n_projects;
        let seen = if is_known { storage.shared_state("change").await? } else { 0 };
        let keys = self.keys().await?;
        let read = async {
            let client = self.0.database.client().await?;
            let statement = self.0.database.sql(
                "SELECT s.change, l.epoch, s.session_id, s.data FROM {s}.session s JOIN {s}.lease l \
                 ON l.session_id = s.root_id WHERE s.parent_id IS NULL AND s.change > $1 ORDER BY s.change",
            );
            let statement = client.prepare_cached(&statement).await.map_err(refused)?;
            client.query(&statement, &[&(seen - OVERLAP)]).await.map_err(refused)
        };
        let rows = limited(read).await?;
        let newest = rows.last().map_or(seen, |row| row.get(0));
        if newest == seen && is_known {
            return Ok(());
        }
        let (mut listed, mut deleted, mut unread) = (Vec::new(), Vec::new(), i64::MAX);
        for row in &rows {
            let (id, data): (String, Vec<u8>) = (row.get(2), row.get(3));
            if form::unpack(&data, keys, &listed_place(&id)).is_ok_and(|text| text == DELETED) {
                deleted.extend(SessionId::parse(&id).ok());
                continue;
            }
            let Some(mut info) = decoded(&id, &data, keys) else {
                // Another key or version may be able to, later.
                unread = unread.min(row.get::<_, i64>(0) - 1);
                continue;
            };
            if lock(&self.0.table).holds(&info.id) {
                continue;
            }
            if let Some(worktree) = projects.get(&info.project_id)
                && let Ok(below) = Path::new(&info.directory).strip_prefix(root_directory(&info))
            {
                info.directory = Path::new(worktree).join(below).display().to_string();
                info.directory.truncate(info.directory.trim_end_matches('/').len());
            }
            listed.push((info, row.get(1)));
        }
        storage.take_listed(listed).await?;
        for id in deleted {
            storage.delete_session(id).await?;
        }
        storage.set_shared_state("change", newest.min(unread)).await?;
        storage.set_shared_state("projects", n_projects).await?;
        Ok(())
    }

    /// Returns the nodes that have sessions now, by session.
    pub async fn owners(&self) -> Result<HashMap<String, Owner>, SharedError> {
        let keys = self.keys().await?;
        let read = async {
            let client = self.0.database.client().await?;
            let statement = self.0.database.sql(
                "SELECT l.owner, n.name, n.machine, n.address, n.seal, n.expires_at > clock_timestamp(), l.session_id \
                 FROM {s}.lease l JOIN {s}.node n ON n.id = l.owner",
            );
            client.query(&statement, &[]).await.map_err(refused)
        };
        let rows = limited(read).await?;
        Ok(rows.iter().filter_map(|row| Some((row.get(6), lease::owner(row, keys)?))).collect())
    }

    /// Lists the nodes, the oldest first.
    pub async fn nodes(&self) -> Result<Vec<NodeRow>, SharedError> {
        let keys = self.keys().await?;
        let read = async {
            let client = self.0.database.client().await?;
            let statement = self.0.database.sql(
                "SELECT n.id, n.name, n.machine, n.address, n.seal, n.expires_at > clock_timestamp(), n.version, \
                 (extract(epoch FROM n.began) * 1000)::bigint, CASE WHEN isfinite(n.expires_at) THEN \
                 (extract(epoch FROM n.expires_at - clock_timestamp()) * 1000)::bigint ELSE -1 END, n.lag_ms, \
                 (SELECT count(*) FROM {s}.lease l WHERE l.owner = n.id) FROM {s}.node n ORDER BY n.began",
            );
            client.query(&statement, &[]).await.map_err(refused)
        };
        let row = |row: &Row| {
            Some(NodeRow {
                owner: lease::owner(row, keys)?,
                version: row.get(6),
                began: row.get(7),
                left_ms: row.get(8),
                lag_ms: row.get(9),
                n_sessions: row.get(10),
            })
        };
        Ok(limited(read).await?.iter().filter_map(row).collect())
    }

    /// Counts the content of the shared store.
    pub async fn totals(&self) -> Result<Totals, SharedError> {
        let read = async {
            let client = self.0.database.client().await?;
            let statement = self.0.database.sql(
                "SELECT (SELECT count(*) FROM {s}.session s WHERE parent_id IS NULL AND NOT EXISTS \
                  (SELECT 1 FROM {s}.lease l WHERE l.session_id = s.session_id AND l.deleted)), \
                 (SELECT count(*) FROM {s}.lease l JOIN {s}.node n ON n.id = l.owner \
                  WHERE n.expires_at > clock_timestamp()), (SELECT count(*) FROM {s}.event), \
                 (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c \
                  JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = $1 AND c.relkind = 'r')",
            );
            client.query_one(&statement, &[&self.0.database.schema()]).await.map_err(refused)
        };
        let row = limited(read).await?;
        Ok(Totals { n_sessions: row.get(0), n_open: row.get(1), n_events: row.get(2), n_bytes: row.get(3) })
    }

    /// Looks at the server, its clock, and this role's rights there.
    pub async fn server(&self) -> Result<ServerState, SharedError> {
        let read = async {
            let client = self.0.database.client().await?;
            let statement = self.0.database.sql(
                "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, current_setting('server_version'), \
                 NOT EXISTS (SELECT 1 FROM unnest(ARRAY['node', 'lease', 'session', 'event', 'checkpoint', 'blob']) t(name) \
                 WHERE NOT (has_table_privilege(format('%I.%I', $1::text, t.name), 'INSERT') \
                 AND has_table_privilege(format('%I.%I', $1::text, t.name), 'UPDATE') \
                 AND has_table_privilege(format('%I.%I', $1::text, t.name), 'DELETE')))",
            );
            client.query_one(&statement, &[&self.0.database.schema()]).await.map_err(refused)
        };
        let row = limited(read).await?;
        Ok(ServerState {
            ahead_ms: row.get::<_, i64>(0) - windlass_base::clock::now_ms(),
            version: row.get(1),
            may_write: row.get(2),
        })
    }
}

/// Reads a session of the list; one that cannot be read is left out, and said in the log.
fn decoded(id: &str, data: &[u8], keys: &Keys) -> Option<Session> {
    let decoded = form::unpack(data, keys, &listed_place(id))
        .and_then(|json| serde_json::from_slice(&json).map_err(|error| form::Unreadable(error.to_string())));
    decoded
        .inspect_err(|error| tracing::warn!(session = id, %error, "a shared session cannot be listed"))
        .ok()
}
