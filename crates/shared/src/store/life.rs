//! This process's life as a node: registered, renewed, asked for sessions, and ended.

use std::{collections::HashMap, time::Duration};

use futures_util::{FutureExt, StreamExt};
use tokio_postgres::AsyncMessage;
use windlass_base::{clock, lock::lock};
use windlass_core::storage::{outlet::SharedError, replica::Mark};
use windlass_protocol::opencode::id::SessionId;

use super::{
    Shared,
    failure::{limited, refused},
    lease,
    node::{self, Node},
    people,
};
use crate::types::Notice;

/// A lease is renewed this often within its time.
const RENEWALS: u32 = 3;
/// Time between two tries to reach the database.
const RETRY: Duration = Duration::from_millis(300);
/// Time for the log to follow when the process ends, and for the end as a whole.
const SETTLE_LIMIT: Duration = Duration::from_secs(2);
const END_LIMIT: Duration = Duration::from_secs(3);

const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

impl Shared {
    /// Does a node's work beside its sessions, until [`Shared::end`].
    pub async fn run(self) {
        tokio::join!(
            self.append_all(),
            self.make_checkpoints(),
            self.renew_all(),
            self.expire(),
            self.listen()
        );
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
        let fleet = self.keys().await?.number();
        self.0.storage.belong_to(fleet).await?;
        let id = limited(self.register()).await?;
        self.0.renewed.notify_waiters();
        Ok(id)
    }

    /// Registers a node. It takes the leases of the earlier nodes of this process, also of one that was registered without
    /// an answer.
    async fn register(&self) -> Result<String, SharedError> {
        let keys = self.keys().await?;
        let mut node = Node::new(&self.0.directory);
        let earlier = lock(&self.0.lives).clone();
        lock(&self.0.lives).push(node.id.clone());
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
        let held: Vec<String> = lock(&self.0.table).held().iter().map(ToString::to_string).collect();
        let take = self.0.database.sql(
            "UPDATE {s}.lease SET owner = $2, epoch = epoch + 1 WHERE owner = ANY($1) AND session_id = ANY($3) \
             RETURNING session_id, epoch",
        );
        let taken = transaction.query(&take, &[&earlier, &node.id, &held]).await.map_err(refused)?;
        let epochs: HashMap<String, i64> = taken.iter().map(|row| (row.get(0), row.get(1))).collect();
        let go = self.0.database.sql("DELETE FROM {s}.node WHERE id = ANY($1)");
        transaction.execute(&go, &[&earlier]).await.map_err(refused)?;
        // A claim that did not come to its end left them.
        let free = self.0.database.sql("UPDATE {s}.lease SET owner = NULL WHERE owner = ANY($1)");
        transaction.execute(&free, &[&earlier]).await.map_err(refused)?;
        transaction.commit().await.map_err(refused)?;
        node.renew(asked, self.0.lease, row.get::<_, i64>(0) - clock::now_ms());
        let (mut lost, held) = (Vec::new(), lock(&self.0.table).held());
        for session in held {
            if !epochs.contains_key(session.as_str()) {
                let by = self.owner_name(&session).await;
                lost.push((session, by));
            }
        }
        // Together: nothing is appended or shown between them.
        let id = node.id.clone();
        for (session, by) in lost {
            self.lose(&session, &by);
        }
        lock(&self.0.table).renew_epochs(&epochs);
        lock(&self.0.lives).retain(|life| *life == id);
        *lock(&self.0.node) = Some(node);
        for (session, epoch) in epochs {
            let mark = Mark { epoch, is_complete: false };
            self.0.storage.set_mark(SessionId::from_trusted(session), mark).await?;
        }
        for life in earlier {
            node::end_life(&self.0.directory, &life);
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
                Ok(Ok(true)) => self.0.lease / RENEWALS,
                // Not under the limit: a node that was registered is not to be forgotten.
                Ok(Ok(false)) => {
                    tracing::warn!("this node was out of reach for longer than its lease, and begins anew");
                    let _turn = self.0.registering.lock().await;
                    match self.register().await {
                        Ok(_) => {
                            self.0.renewed.notify_waiters();
                            self.0.lease / RENEWALS
                        }
                        Err(error) => {
                            tracing::warn!(%error, "this node was not registered");
                            RETRY.min(patience)
                        }
                    }
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the leases of shared sessions were not renewed");
                    RETRY.min(patience)
                }
                Err(_elapsed) => RETRY.min(patience),
            };
        }
    }

    /// Tells the engine when the leases run out, by this machine's own clock: nothing may go on until they hold again.
    async fn expire(&self) {
        loop {
            let renewed = self.0.renewed.notified();
            let left = lock(&self.0.node).as_ref().map(|node| node.valid_until.saturating_sub(node::now()));
            let expired = async {
                match left {
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = renewed => continue,
                () = expired => {}
                () = self.0.stop.cancelled() => return,
            }
            if !self.is_valid() {
                tracing::warn!("the leases of shared sessions have run out; their turns end");
                self.tell(Notice::Expired);
                let renewed = self.0.renewed.notified();
                tokio::select! {
                    () = renewed => {}
                    () = self.0.stop.cancelled() => return,
                }
            }
        }
    }

    /// Asks for more time. Returns false if the node's time is over.
    async fn renew(&self, id: &str) -> Result<bool, SharedError> {
        let client = self.0.database.urgent().await?;
        let renew = self.0.database.sql(&format!(
            "UPDATE {{s}}.node SET expires_at = clock_timestamp() + $2 * interval '1 millisecond', lag_ms = $3 \
             WHERE id = $1 AND expires_at > clock_timestamp() RETURNING {NOW}"
        ));
        let renew = client.prepare_cached(&renew).await.map_err(refused)?;
        let lease = self.0.lease.as_secs_f64() * 1000.0;
        let lag = i64::try_from(lock(&self.0.table).lag().as_millis()).unwrap_or(i64::MAX);
        let asked = node::now();
        let row = client.query_opt(&renew, &[&id, &lease, &lag]).await.map_err(refused)?;
        let Some(row) = row else { return Ok(false) };
        if let Some(node) = lock(&self.0.node).as_mut() {
            node.renew(asked, self.0.lease, row.get::<_, i64>(0) - clock::now_ms());
        }
        self.0.renewed.notify_waiters();
        Ok(true)
    }

    /// Hears of sessions that other nodes want, and of changes of accounts.
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
                        if notice.payload() == people::CHANGED {
                            self.0.people.send_modify(|count| *count += 1);
                        } else if let Ok(id) = SessionId::parse(notice.payload()) {
                            self.wanted(id).await;
                        }
                    }
                    Some(Ok(_other)) => {}
                    Some(Err(error)) => return Err(refused(error)),
                    None => return Ok(()),
                },
            }
        }
    }

    /// Passes on that a session is wanted; a lease that nothing here uses is given back at once.
    async fn wanted(&self, id: SessionId) {
        if self.holds(&id) {
            return self.tell(Notice::Wanted(id));
        }
        let turn = self.turn_of(&id);
        // A claim that is under way has its turn.
        let Ok(_turn) = turn.try_lock() else { return };
        if let Some(node) = self.node_id()
            && let Err(error) = lease::free(&self.0.database, &id, &node).await
        {
            tracing::debug!(%error, "a lease without use was not given back");
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
                // Those that are not settled in time are taken over later, from the log as it is.
                let settling = held.iter().map(|session| self.settle_one(session, SETTLE_LIMIT));
                let settled = futures_util::future::join_all(settling).await;
                let complete = held.iter().zip(settled).filter(|(_, is_settled)| *is_settled);
                self.leave(&id, complete.map(|(session, _)| session.clone()).collect()).await
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
