//! This process's life as a node: registered, renewed, asked for sessions, and ended.

use std::{collections::HashMap, time::Duration};

use futures_util::{FutureExt, StreamExt};
use tokio_postgres::AsyncMessage;
use windlass_base::{clock, lock::lock};
use windlass_core::storage::{outlet::SharedError, replica::Mark};
use windlass_protocol::opencode::id::SessionId;

use crate::{
    Notice, Shared, append,
    failure::{limited, refused},
    lease,
    node::{self, Node},
};

/// A lease is renewed this often within its time.
const RENEWALS: u32 = 3;
/// Time between two tries to reach the database.
const RETRY: Duration = Duration::from_millis(300);
/// Time for the log to follow when the process ends.
const END_LIMIT: Duration = Duration::from_secs(3);

const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

impl Shared {
    /// Does a node's work beside its sessions, until [`Shared::end`].
    pub async fn run(self) {
        tokio::join!(self.append_all(), self.make_checkpoints(), self.renew_all(), self.listen());
    }

    /// Makes this process a node, unless it is one.
    pub async fn join(&self) -> Result<String, SharedError> {
        if let Some(id) = self.node_id() {
            return Ok(id);
        }
        let _turn = self.0.registering.lock().await;
        if let Some(id) = self.node_id() {
            return Ok(id);
        }
        let id = limited(self.register(None)).await?;
        self.0.renewed.notify_waiters();
        Ok(id)
    }

    /// Registers a node; one that takes the place of an earlier node of this process takes its leases too.
    async fn register(&self, earlier: Option<&str>) -> Result<String, SharedError> {
        let keys = self.keys().await?;
        let mut node = Node::new(&self.0.directory);
        let address = self.0.address.clone();
        let seal = keys.of_node(&node.id, address.as_deref());
        let mut client = self.0.database.client().await?;
        let asked = node::now();
        let transaction = client.transaction().await.map_err(refused)?;
        let forget = self
            .0
            .database
            .sql("DELETE FROM {s}.node WHERE expires_at < clock_timestamp() - interval '1 day'");
        transaction.execute(&forget, &[]).await.map_err(refused)?;
        let register = self.0.database.sql(&format!(
            "INSERT INTO {{s}}.node (id, name, machine, address, seal, version, expires_at) VALUES ($1, $2, $3, $4, $5, \
             $6, clock_timestamp() + $7 * interval '1 millisecond') RETURNING {NOW}"
        ));
        let lease = self.0.lease.as_secs_f64() * 1000.0;
        let machine = node::machine(&self.0.directory);
        let version = env!("CARGO_PKG_VERSION");
        let row = transaction
            .query_one(&register, &[&node.id, &self.0.name, &machine, &address, &seal, &version, &lease])
            .await
            .map_err(refused)?;
        let mut epochs = HashMap::new();
        if let Some(earlier) = earlier {
            let take = self.0.database.sql(
                "UPDATE {s}.lease SET owner = $2, epoch = epoch + 1 WHERE owner = $1 RETURNING session_id, epoch",
            );
            for row in transaction.query(&take, &[&earlier, &node.id]).await.map_err(refused)? {
                epochs.insert(row.get::<_, String>(0), row.get::<_, i64>(1));
            }
        }
        transaction.commit().await.map_err(refused)?;
        node.renew(asked, self.0.lease, row.get::<_, i64>(0) - clock::now_ms());
        // Together: an append takes both at one moment.
        let id = node.id.clone();
        *lock(&self.0.node) = Some(node);
        if earlier.is_some() {
            let lost = lock(&self.0.table).renew_epochs(&epochs);
            for session in lost {
                let by = self.owner_name(&session).await;
                self.lose(&session, &by);
            }
            for (session, epoch) in epochs {
                let mark = Mark { epoch, is_complete: false };
                self.0.storage.set_mark(SessionId::from_trusted(session), mark).await?;
            }
        }
        Ok(id)
    }

    /// Renews the node's time, and begins another life where that has ended.
    async fn renew_all(&self) {
        let stopped = self.0.stop.cancelled();
        tokio::pin!(stopped);
        let mut pause = self.0.lease / RENEWALS;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = &mut stopped => return,
            }
            let Some(id) = self.node_id() else { continue };
            let patience = self.0.lease / RENEWALS;
            let renewed = tokio::time::timeout(patience.max(RETRY), self.renew(&id)).await;
            pause = match renewed {
                Ok(Ok(())) => self.0.lease / RENEWALS,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the leases of shared sessions were not renewed");
                    RETRY.min(patience)
                }
                Err(_elapsed) => RETRY.min(patience),
            };
        }
    }

    async fn renew(&self, id: &str) -> Result<(), SharedError> {
        let client = self.0.database.client().await?;
        let renew = self.0.database.sql(&format!(
            "UPDATE {{s}}.node SET expires_at = clock_timestamp() + $2 * interval '1 millisecond', lag_ms = $3 \
             WHERE id = $1 AND expires_at > clock_timestamp() RETURNING {NOW}"
        ));
        let renew = client.prepare_cached(&renew).await.map_err(refused)?;
        let lease = self.0.lease.as_secs_f64() * 1000.0;
        let lag = i64::try_from(lock(&self.0.table).lag().as_millis()).unwrap_or(i64::MAX);
        let asked = node::now();
        let row = client.query_opt(&renew, &[&id, &lease, &lag]).await.map_err(refused)?;
        match row {
            Some(row) => {
                if let Some(node) = lock(&self.0.node).as_mut() {
                    node.renew(asked, self.0.lease, row.get::<_, i64>(0) - clock::now_ms());
                }
            }
            None => {
                tracing::warn!("this node was out of reach for longer than its lease, and begins anew");
                drop(client);
                self.register(Some(id)).await?;
                node::end_life(&self.0.directory, id);
            }
        }
        self.0.renewed.notify_waiters();
        Ok(())
    }

    /// Hears of sessions that other nodes want.
    async fn listen(&self) {
        while !self.0.stop.is_cancelled() {
            let waited = async {
                self.until_node().await;
                if let Err(error) = self.hear().await {
                    tracing::debug!(%error, "notices of other nodes are not heard");
                }
                tokio::time::sleep(RETRY).await;
            };
            tokio::select! {
                () = waited => {}
                () = self.0.stop.cancelled() => return,
            }
        }
    }

    async fn until_node(&self) {
        loop {
            let renewed = self.0.renewed.notified();
            if self.node_id().is_some() {
                return;
            }
            renewed.await;
        }
    }

    async fn hear(&self) -> Result<(), SharedError> {
        let (client, mut notices) = self.0.database.listening().await?;
        let listen = format!("LISTEN {}", lease::channel(&self.0.database));
        let asked = client.batch_execute(&listen).fuse();
        tokio::pin!(asked);
        loop {
            tokio::select! {
                listening = &mut asked => listening.map_err(refused)?,
                message = notices.next() => match message {
                    Some(Ok(AsyncMessage::Notification(notice))) => {
                        if let Ok(id) = SessionId::parse(notice.payload())
                            && self.holds(&id)
                        {
                            self.tell(Notice::Wanted(id));
                        }
                    }
                    Some(Ok(_other)) => {}
                    Some(Err(error)) => return Err(refused(error)),
                    None => return Ok(()),
                },
            }
        }
    }

    /// Waits until everything of a session is in the log, or the time is over. Returns true if it is.
    pub(crate) async fn settle_one(&self, root: &SessionId, limit: Duration) -> bool {
        self.0.wake.notify_one();
        let settled = async {
            while !lock(&self.0.table).is_settled(root) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(limit, settled).await.is_ok()
    }

    /// Ends the node: its last changes go to the log, and its sessions are free for others.
    pub async fn end(&self) {
        let held = lock(&self.0.table).held();
        if let Some(id) = self.node_id() {
            let ended = async {
                let mut complete = Vec::new();
                for session in held {
                    if self.settle_one(&session, append::PATIENCE).await {
                        complete.push(session);
                    }
                }
                self.leave(&id, complete).await
            };
            match tokio::time::timeout(END_LIMIT, ended).await {
                Ok(Ok(())) => node::end_life(&self.0.directory, &id),
                Ok(Err(error)) => tracing::warn!(%error, "the shared sessions were not given back"),
                Err(_elapsed) => tracing::warn!("the shared sessions were not given back in time"),
            }
        }
        self.0.stop.cancel();
        self.0.wake.notify_one();
    }

    async fn leave(&self, id: &str, complete: Vec<SessionId>) -> Result<(), SharedError> {
        for session in complete {
            let epoch = lock(&self.0.table).epoch(&session);
            if let Some(epoch) = epoch {
                self.0.storage.set_mark(session.clone(), Mark { epoch, is_complete: true }).await?;
            }
            lock(&self.0.table).forget(&session);
        }
        let client = self.0.database.client().await?;
        let free = self.0.database.sql("UPDATE {s}.lease SET owner = NULL WHERE owner = $1");
        client.execute(&free, &[&id]).await.map_err(refused)?;
        let go = self.0.database.sql("DELETE FROM {s}.node WHERE id = $1");
        client.execute(&go, &[&id]).await.map_err(refused)?;
        *lock(&self.0.node) = None;
        Ok(())
    }
}
