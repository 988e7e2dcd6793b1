//! Appends batches to the log: all sessions of the process in one statement, each only while its lease is this node's.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use windlass_base::lock::lock;
use windlass_core::storage::{
    Write,
    outlet::{Log, SharedError},
};
use windlass_protocol::opencode::id::SessionId;

use super::{
    Acknowledged, Shared,
    failure::{LIMIT, refused},
    form::{self, Encoded},
    table::{Batch, Queued},
};
use crate::types::Notice;

/// Time for which changes of a process are gathered where nobody waits for them.
const GATHER: Duration = Duration::from_millis(15);
/// Time between two tries while the database does not answer.
const RETRY: Duration = Duration::from_millis(200);
/// Refusals after which changes are tried one by one: a single one may be at fault.
const MAX_REFUSALS: u32 = 5;
/// Time for which a change waits to be acknowledged, or for a lease that has run out, before it counts as failed.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A row of the log, and the rows of the list that changed with it.
struct Entry {
    batch: Batch,
    encoded: Encoded,
    listed: Vec<Listed>,
}

/// A session's row in the list.
pub struct Listed {
    pub session: String,
    pub parent: Option<String>,
    pub project: String,
    pub updated: i64,
    pub is_archived: bool,
    pub data: Vec<u8>,
}

impl Shared {
    /// Returns the function that takes the store's changes.
    pub fn outlet(&self) -> Log {
        // The store is part of the state.
        let state = Arc::downgrade(&self.0);
        Box::new(move |writes| {
            let state = state.upgrade();
            Box::pin(async move {
                match state {
                    Some(state) => Shared(state).take_in(writes).await,
                    None => Ok(()),
                }
            })
        })
    }

    /// Takes changes that are stored, and ends once they may be shown.
    async fn take_in(&self, writes: Vec<Write>) -> Result<(), SharedError> {
        // A batch is of one session, or of one and those below it.
        let Some(first) = writes.first() else { return Ok(()) };
        let id = first.session_id().clone();
        let root = self.known_root(&id).await?;
        let is_awaited = self.0.acknowledged == Acknowledged::Shared;
        let (waiter, answer) = tokio::sync::oneshot::channel();
        let waiter = is_awaited.then_some(waiter);
        let queued = lock(&self.0.table).queue(&root, writes, waiter);
        match queued {
            Queued::Yes => self.0.wake.notify_one(),
            Queued::Lost { by } => return Err(SharedError::Fenced { session: root.to_string(), by }),
            // One that was never shared is this machine's alone.
            Queued::NotHeld if self.0.storage.mark(root.clone()).await?.is_none() => return Ok(()),
            Queued::NotHeld => {
                let by = "another node".to_owned();
                return Err(SharedError::Fenced { session: root.to_string(), by });
            }
        }
        let settled = async {
            if is_awaited {
                return answer.await.unwrap_or_else(|_| Err(ended()));
            }
            self.until_valid().await;
            match lock(&self.0.table).lost_to(&root) {
                Some(by) => Err(SharedError::Fenced { session: root.to_string(), by }),
                None => Ok(()),
            }
        };
        match tokio::time::timeout(PATIENCE, settled).await {
            Ok(settled) => settled,
            Err(_elapsed) => {
                let reason = "it has not acknowledged a change for 5 s".to_owned();
                Err(SharedError::Unreachable { reason })
            }
        }
    }

    /// Waits until this node's leases hold, which they do unless the database was out of reach for long.
    async fn until_valid(&self) {
        loop {
            let renewed = self.0.renewed.notified();
            if self.is_valid() {
                return;
            }
            renewed.await;
        }
    }

    /// Appends changes as they come, until the node ends.
    pub(crate) async fn append_all(&self) {
        loop {
            let wake = self.0.wake.notified();
            let batches = lock(&self.0.table).take_batches();
            if !batches.is_empty() {
                self.append(batches).await;
                continue;
            }
            tokio::select! {
                () = wake => {}
                () = self.0.stop.cancelled() => return,
            }
            if self.0.acknowledged == Acknowledged::Local && !self.0.stop.is_cancelled() {
                tokio::time::sleep(GATHER).await;
            }
        }
    }

    /// Appends batches, however long it takes; those of a session that is lost are dropped.
    async fn append(&self, batches: Vec<Batch>) {
        let mut entries = Vec::with_capacity(batches.len());
        for mut batch in batches {
            loop {
                match self.entry(batch).await {
                    Ok(entry) => entries.push(entry),
                    // The store of this machine may be locked for a moment, or the keys not be read yet.
                    Err((again, SharedError::Local(_) | SharedError::Unreachable { .. }))
                        if !self.0.stop.is_cancelled() =>
                    {
                        batch = again;
                        tokio::time::sleep(RETRY).await;
                        continue;
                    }
                    Err((batch, error)) => self.give_up(batch, &error),
                }
                break;
            }
        }
        let (mut failures, mut refusals) = (0_u32, 0_u32);
        while !entries.is_empty() {
            match self.insert_in_time(&entries).await {
                Ok((held, epochs)) => {
                    entries = self.settle(entries, &held, &epochs).await;
                    continue;
                }
                Err(error) => {
                    failures += 1;
                    refusals += u32::from(matches!(error, SharedError::Refused { .. }));
                    if failures == 1 {
                        tracing::warn!(%error, "the shared log does not take changes; they wait");
                    }
                    *lock(&self.0.trouble) = Some(error.to_string());
                    if self.0.stop.is_cancelled() && failures > 3 {
                        let ended = Err(error);
                        return entries.into_iter().for_each(|entry| answer(entry.batch, &ended));
                    }
                }
            }
            if refusals > MAX_REFUSALS
                && let Some((entry, error)) = self.refused_entry(&mut entries).await
            {
                self.give_up(entry.batch, &error);
            }
            tokio::time::sleep(RETRY).await;
            // A session that was lost meanwhile waits for nothing.
            let is_held = |entry: &Entry| lock(&self.0.table).epoch_of(&entry.batch).is_some();
            let (kept, lost) = entries.into_iter().partition(is_held);
            entries = kept;
            self.drop_lost(lost);
        }
        if failures > 0 {
            *lock(&self.0.trouble) = None;
        }
    }

    /// Leaves a session whose changes the database does not take: they are stored here, and the next claim shares them.
    fn give_up(&self, batch: Batch, error: &SharedError) {
        tracing::error!(session = %batch.session, %error, "changes cannot be shared");
        self.lose(&batch.session, "no node: the shared store does not take its changes");
        answer(batch, &Err(error.clone()));
    }

    /// Appends entries within a time that grows with their size.
    async fn insert_in_time(&self, entries: &[Entry]) -> Result<(HashSet<String>, Vec<i64>), SharedError> {
        let size = |entry: &Entry| {
            entry.encoded.data.len() + entry.encoded.blobs.values().map(Vec::len).sum::<usize>()
        };
        let n_megabytes = entries.iter().map(size).sum::<usize>() >> 20;
        let limit = LIMIT + Duration::from_secs(n_megabytes as u64);
        tokio::time::timeout(limit, self.insert(entries)).await.unwrap_or_else(|_elapsed| {
            Err(SharedError::Unreachable {
                reason: format!("it does not answer within {} s", limit.as_secs()),
            })
        })
    }

    /// Appends entries one by one until one is refused, which is taken out; the others before it are in the log.
    async fn refused_entry(&self, entries: &mut Vec<Entry>) -> Option<(Entry, SharedError)> {
        while let Some(entry) = entries.pop() {
            match self.insert_in_time(std::slice::from_ref(&entry)).await {
                Ok((held, epochs)) => {
                    let again = self.settle(vec![entry], &held, &epochs).await;
                    let is_done = again.is_empty();
                    entries.extend(again);
                    if !is_done {
                        return None;
                    }
                }
                Err(error @ SharedError::Refused { .. }) => return Some((entry, error)),
                Err(_unreachable) => {
                    entries.push(entry);
                    return None;
                }
            }
        }
        None
    }

    fn drop_lost(&self, lost: Vec<Entry>) {
        for entry in lost {
            let session = entry.batch.session.to_string();
            let by = lock(&self.0.table).lost_to(&entry.batch.session).unwrap_or_default();
            answer(entry.batch, &Err(SharedError::Fenced { session, by }));
        }
    }

    /// Notes the entries that were appended. Returns those to be tried again, under a newer epoch.
    async fn settle(&self, entries: Vec<Entry>, held: &HashSet<String>, epochs: &[i64]) -> Vec<Entry> {
        let mut again = Vec::new();
        for (entry, used) in entries.into_iter().zip(epochs) {
            let session = entry.batch.session.clone();
            if held.contains(session.as_str()) {
                let n_bytes = entry.encoded.data.len();
                self.0.figures.events.fetch_add(1, Ordering::Relaxed);
                self.0.figures.bytes.fetch_add(n_bytes as u64, Ordering::Relaxed);
                let is_due = lock(&self.0.table).acknowledge(&entry.batch, n_bytes);
                if is_due {
                    // A full queue means that many are due; the session's next one is not far.
                    let _ = self.0.due.0.try_send(session);
                }
                answer(entry.batch, &Ok(()));
                continue;
            }
            // A node that begins anew may have the answer with the later epoch on its way.
            drop(self.0.registering.lock().await);
            let epoch = lock(&self.0.table).epoch_of(&entry.batch);
            match epoch {
                Some(epoch) if epoch != *used => again.push(entry),
                Some(_) => {
                    let by = self.owner_name(&session).await;
                    self.lose(&session, &by);
                    answer(entry.batch, &Err(SharedError::Fenced { session: session.to_string(), by }));
                }
                None => self.drop_lost(vec![entry]),
            }
        }
        again
    }

    /// Notes that a session is another node's, and tells the engine.
    pub(crate) fn lose(&self, session: &SessionId, by: &str) {
        if lock(&self.0.table).lose(session, by) {
            self.0.figures.fenced.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(%session, by, "the session was taken over");
            self.tell(Notice::Lost { session: session.clone(), by: by.to_owned() });
        }
    }

    async fn entry(&self, batch: Batch) -> Result<Entry, (Batch, SharedError)> {
        let encoded = async {
            let keys = self.keys().await?;
            let session = batch.session.as_str();
            let place = event_place(session, batch.seq);
            let mut writes = batch.writes.clone();
            self.name_projects(&mut writes).await?;
            let encoded = form::encode(&writes, &batch.directory, keys, session, &place)
                .map_err(|error| unreadable(session, &error))?;
            let mut listed = Vec::new();
            for id in changed(&batch.writes) {
                listed.extend(self.listed(&id).await?);
            }
            Ok((encoded, listed))
        };
        match encoded.await {
            Ok((encoded, listed)) => Ok(Entry { batch, encoded, listed }),
            Err(error) => Err((batch, error)),
        }
    }

    /// Puts the project of each session into its row: the session's task may have begun before it was known.
    async fn name_projects(&self, writes: &mut [Write]) -> Result<(), SharedError> {
        for write in writes {
            if let Write::Session(info) = write
                && let Some(stored) = self.0.storage.session(info.id.clone()).await?
                && stored.project_id != info.project_id
            {
                Arc::make_mut(info).project_id = stored.project_id;
            }
        }
        Ok(())
    }

    /// Returns the row of a session in the list.
    pub(crate) async fn listed(&self, id: &SessionId) -> Result<Option<Listed>, SharedError> {
        let Some(info) = self.0.storage.session(id.clone()).await? else { return Ok(None) };
        let session = info.id.to_string();
        let json = serde_json::to_vec(&info)
            .map_err(|error| unreadable(&session, &form::Unreadable(error.to_string())))?;
        let data = form::pack(&json, self.keys().await?, &listed_place(&session))
            .map_err(|error| unreadable(&session, &error))?;
        Ok(Some(Listed {
            session,
            parent: info.parent_id.as_ref().map(ToString::to_string),
            project: info.project_id.clone(),
            updated: info.time.updated,
            is_archived: info.time.archived.is_some(),
            data,
        }))
    }

    /// Appends entries in one statement. Returns the sessions that are this node's, and the epochs that were used.
    async fn insert(&self, entries: &[Entry]) -> Result<(HashSet<String>, Vec<i64>), SharedError> {
        let client = self.0.database.urgent().await?;
        let statement = self.0.database.sql(APPEND);
        let statement = client.prepare_cached(&statement).await.map_err(refused)?;
        // Read at one moment: a node that begins anew changes both.
        let node = self.node_id().ok_or_else(ended)?;
        let epochs: Vec<i64> = {
            let table = lock(&self.0.table);
            entries.iter().map(|entry| table.epoch_of(&entry.batch).unwrap_or(-1)).collect()
        };
        let sessions: Vec<&str> = entries.iter().map(|entry| entry.batch.session.as_str()).collect();
        let seqs: Vec<i64> = entries.iter().map(|entry| entry.batch.seq).collect();
        let data: Vec<&[u8]> = entries.iter().map(|entry| entry.encoded.data.as_slice()).collect();
        let (mut of, mut hashes, mut blobs): (Vec<&str>, Vec<&[u8]>, Vec<&[u8]>) = Default::default();
        for entry in entries {
            for (hash, blob) in &entry.encoded.blobs {
                of.push(entry.batch.session.as_str());
                hashes.push(hash);
                blobs.push(blob);
            }
        }
        let listed: Vec<(&str, &Listed)> = entries
            .iter()
            .flat_map(|entry| entry.listed.iter().map(|it| (entry.batch.session.as_str(), it)))
            .collect();
        let columns = Columns::new(&listed);
        let rows = client
            .query(
                &statement,
                &[
                    &node,
                    &sessions,
                    &epochs,
                    &seqs,
                    &data,
                    &of,
                    &hashes,
                    &blobs,
                    &columns.roots,
                    &columns.sessions,
                    &columns.parents,
                    &columns.projects,
                    &columns.updated,
                    &columns.archived,
                    &columns.data,
                ],
            )
            .await
            .map_err(refused)?;
        self.0.figures.commits.fetch_add(1, Ordering::Relaxed);
        Ok((rows.into_iter().map(|row| row.get(0)).collect(), epochs))
    }
}

/// Rows of the list by column.
#[derive(Default)]
pub struct Columns<'a> {
    pub roots: Vec<&'a str>,
    pub sessions: Vec<&'a str>,
    pub parents: Vec<Option<&'a str>>,
    pub projects: Vec<&'a str>,
    pub updated: Vec<i64>,
    pub archived: Vec<bool>,
    pub data: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    /// Each row comes with the session at the top of it; of several rows of one session the last one counts.
    pub fn new(rows: &[(&'a str, &'a Listed)]) -> Self {
        let mut columns = Self::default();
        let mut seen = HashSet::new();
        for (root, row) in rows.iter().rev() {
            if !seen.insert(row.session.as_str()) {
                continue;
            }
            columns.roots.push(root);
            columns.sessions.push(&row.session);
            columns.parents.push(row.parent.as_deref());
            columns.projects.push(&row.project);
            columns.updated.push(row.updated);
            columns.archived.push(row.is_archived);
            columns.data.push(&row.data);
        }
        columns
    }
}

/// A lease's key is locked against a change of its epoch until the rows are there. A row that is there already was
/// written by this node, whose connection broke before it heard of it.
const APPEND: &str = "
    WITH held AS (
        SELECT l.session_id FROM {s}.lease l JOIN unnest($2::text[], $3::bigint[]) AS b(session_id, epoch)
        USING (session_id, epoch) WHERE l.owner = $1 FOR KEY SHARE OF l
    ), put_event AS (
        INSERT INTO {s}.event (session_id, seq, epoch, data)
        SELECT e.session_id, e.seq, e.epoch, e.data
        FROM unnest($2::text[], $4::bigint[], $3::bigint[], $5::bytea[]) AS e(session_id, seq, epoch, data)
        WHERE e.session_id IN (SELECT session_id FROM held) ON CONFLICT DO NOTHING
    ), put_blob AS (
        INSERT INTO {s}.blob (session_id, hash, data)
        SELECT b.session_id, b.hash, b.data FROM unnest($6::text[], $7::bytea[], $8::bytea[]) AS b(session_id, hash, data)
        WHERE b.session_id IN (SELECT session_id FROM held) ON CONFLICT DO NOTHING
    ), put_session AS (
        INSERT INTO {s}.session (root_id, session_id, parent_id, project_id, updated, archived, data)
        SELECT r.* FROM unnest($9::text[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::boolean[],
            $15::bytea[]) AS r(root_id, session_id, parent_id, project_id, updated, archived, data)
        WHERE r.root_id IN (SELECT session_id FROM held) ON CONFLICT (session_id) DO UPDATE SET
            project_id = excluded.project_id, updated = excluded.updated, archived = excluded.archived,
            data = excluded.data, change = excluded.change
    )
    SELECT session_id FROM held";

/// Returns the sessions with a row in the list that changes.
fn changed(writes: &[Write]) -> Vec<SessionId> {
    let mut ids: Vec<SessionId> = Vec::new();
    for write in writes {
        let is_listed = matches!(
            write,
            Write::Session(_) | Write::Rename { .. } | Write::Choose { .. } | Write::Settings { .. }
        );
        if is_listed && !ids.contains(write.session_id()) {
            ids.push(write.session_id().clone());
        }
    }
    ids
}

fn answer(batch: Batch, result: &Result<(), SharedError>) {
    for waiter in batch.waiters {
        // It may have given up.
        let _ = waiter.send(result.clone());
    }
}

pub fn event_place(session: &str, seq: i64) -> String {
    format!("event {session} {seq}")
}

pub fn checkpoint_place(session: &str, seq: i64) -> String {
    format!("checkpoint {session} {seq}")
}

pub fn listed_place(session: &str) -> String {
    format!("session {session}")
}

pub fn unreadable(session: &str, error: &form::Unreadable) -> SharedError {
    SharedError::Unreadable { session: session.to_owned(), reason: error.to_string() }
}

pub fn ended() -> SharedError {
    SharedError::Unreachable { reason: "this node has ended".to_owned() }
}
