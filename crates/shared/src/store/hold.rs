//! Takes sessions for this node, from the log where another one had them, and gives them back.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use windlass_base::{blocking::blocking, lock::lock, path::real};
use windlass_core::{
    config::paths::WORKTREES,
    storage::{StorageError, Write, outlet::SharedError, replica::Mark},
};
use windlass_protocol::opencode::{id::SessionId, session::Session};

use super::{
    Acknowledged, Shared,
    append::{self, checkpoint_place, event_place, listed_place, unreadable},
    failure::{limited, refused},
    form::{self, Hash},
    lease::{self, Lease},
    node,
    table::Held,
};
use crate::types::{Claimed, Owner, Place};

/// Time for which a session is waited for whose owner neither answers nor has ended.
const MAX_ASKING: Duration = Duration::from_secs(20);
/// Time after which an owner that has not answered is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Time between two tries to take a session that its owner may give.
const AGAIN: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// The text of a deleted session in the list.
pub const DELETED: &[u8] = b"deleted";

impl Shared {
    /// Takes a session for this node, with those below it. `directory` is the one to work in, where somebody names it.
    ///
    /// A session that nobody has shared yet is shared from now on; one that is nowhere is left to the store to miss.
    pub async fn claim(&self, id: &SessionId, directory: Option<&Path>) -> Result<Claimed, SharedError> {
        if self.holds(id) {
            return Ok(Claimed::AsItWas);
        }
        let root = self.root_anywhere(id).await?;
        let turn = self.turn_of(&root);
        let _turn = turn.lock().await;
        if lock(&self.0.table).holds(&root) {
            return Ok(Claimed::AsItWas);
        }
        // The engine has still to end everything that went on in it.
        if let Some(by) = lock(&self.0.table).lost_to(&root) {
            return Err(SharedError::Fenced { session: root.to_string(), by });
        }
        self.join().await?;
        let Some((node, epoch)) = self.take(&root).await? else { return Ok(Claimed::AsItWas) };
        let mark = self.0.storage.mark(root.clone()).await?;
        let claimed = limited_long(self.bring_up(&root, epoch, mark, directory)).await;
        if claimed.is_err() {
            lock(&self.0.table).forget(&root);
            // Rows that are ahead of the log stay so; others are made anew by the next claim.
            if mark.is_some_and(|mark| mark.epoch == epoch - 1) {
                self.0.storage.set_mark(root.clone(), Mark { epoch, is_complete: false }).await?;
            }
            if let Err(error) = lease::give_back(&self.0.database, &root, &node, epoch).await {
                tracing::warn!(session = %root, %error, "the lease was not given back");
            }
        }
        claimed
    }

    pub(crate) fn turn_of(&self, root: &SessionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut claiming = lock(&self.0.claiming);
        claiming.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = claiming.get(root).and_then(std::sync::Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(tokio::sync::Mutex::new(()));
        claiming.insert(root.clone(), Arc::downgrade(&turn));
        turn
    }

    /// Takes the lease, from its owner if that lets go. Returns the node that has it now, and its epoch; `None` for a
    /// session that no store knows.
    async fn take(&self, root: &SessionId) -> Result<Option<(String, i64)>, SharedError> {
        let database = &self.0.database;
        let asked = node::now();
        let mut since: Option<(i64, Duration)> = None;
        let mut pause = AGAIN;
        loop {
            // It may have begun anew meanwhile.
            let node = self.join().await?;
            if let Some(epoch) = limited(lease::take(database, root, &node)).await? {
                return Ok(Some((node, epoch)));
            }
            match limited(lease::read(database, self.keys().await?, root)).await? {
                Lease::Unknown if self.0.storage.session(root.clone()).await?.is_none() => return Ok(None),
                Lease::Deleted if self.is_deleted(root).await? => {
                    self.0.storage.delete_session(root.clone()).await?;
                    return Ok(None);
                }
                Lease::Deleted => {
                    let reason = "its deletion was not written by a node of the fleet".to_owned();
                    return Err(SharedError::Unreadable { session: root.to_string(), reason });
                }
                Lease::Unknown => {
                    if limited(lease::begin(database, root, &node)).await? {
                        return Ok(Some((node, 1)));
                    }
                }
                Lease::Free => {}
                Lease::Owned(owner) if self.has_died_here(&owner) => {
                    limited(lease::bury(database, &owner.id)).await?;
                    node::end_life(&self.0.directory, &owner.id);
                }
                Lease::Owned(owner) => {
                    // One that does not answer may be dead: its lease ends, and is renewed no more.
                    let is_refused = match since {
                        Some((since, _)) => limited(lease::is_refused(database, root, since)).await?,
                        None => false,
                    };
                    if is_refused || node::now().saturating_sub(asked) > MAX_ASKING {
                        return Err(owner.refusal(root.as_str()));
                    }
                    // A notice can be missed while its listener connects.
                    let is_old = since.is_none_or(|(_, when)| node::now().saturating_sub(when) > ASK_AGAIN);
                    if is_old && owner.is_alive {
                        since = Some((limited(lease::ask_for(database, root)).await?, node::now()));
                    }
                }
            }
            if node::now().saturating_sub(asked) > MAX_ASKING + append::PATIENCE {
                let reason = "this node's own lease does not hold".to_owned();
                return Err(SharedError::Unreachable { reason });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    fn has_died_here(&self, owner: &Owner) -> bool {
        owner.machine == node::machine(&self.0.directory) && node::has_ended(&self.0.directory, &owner.id)
    }

    /// Makes the rows here those of the log, or the log that of the rows, whichever is ahead.
    async fn bring_up(
        &self,
        root: &SessionId,
        epoch: i64,
        mark: Option<Mark>,
        directory: Option<&Path>,
    ) -> Result<Claimed, SharedError> {
        let storage = &self.0.storage;
        let last_seq = limited(self.last_seq(root)).await?;
        let is_own = mark.is_some_and(|mark| mark.epoch == epoch - 1);
        let is_here = storage.session(root.clone()).await?;
        let claimed = match (last_seq, is_here) {
            // Nothing was logged yet: the rows here are all there is.
            (None, None) => {
                return Err(SharedError::Unreadable {
                    session: root.to_string(),
                    reason: "its first changes were never written".to_owned(),
                });
            }
            (None, Some(info)) => {
                self.begin_log(root, epoch, 0, &info).await?;
                Claimed::AsItWas
            }
            (Some(last), Some(info)) if mark.is_some_and(|mark| mark.is_complete) && is_own => {
                lock(&self.0.table).hold(root, Held::new(epoch, last, root_directory(&info)));
                Claimed::AsItWas
            }
            // The process died: shown text that the log did not wait for is here alone. Where the log was waited for, it
            // has everything, and the rows here may be behind after a power cut.
            (Some(last), Some(info)) if is_own && self.0.acknowledged == Acknowledged::Local => {
                self.begin_log(root, epoch, last, &info).await?;
                Claimed::AsItWas
            }
            (Some(last), _) => {
                let there = self.rebuild(root, epoch, directory).await?;
                lock(&self.0.table).hold(root, Held::new(epoch, last, there));
                self.0.figures.taken.fetch_add(1, Ordering::Relaxed);
                Claimed::Rebuilt
            }
        };
        storage.set_mark(root.clone(), Mark { epoch, is_complete: false }).await?;
        Ok(claimed)
    }

    /// Writes the rows here as the beginning of the log.
    async fn begin_log(
        &self,
        root: &SessionId,
        epoch: i64,
        last: i64,
        info: &Session,
    ) -> Result<(), SharedError> {
        lock(&self.0.table).hold(root, Held::new(epoch, last, root_directory(info)));
        self.checkpoint(root).await
    }

    /// Returns the number of the last batch in the log; `None` if it has nothing.
    async fn last_seq(&self, root: &SessionId) -> Result<Option<i64>, SharedError> {
        let client = self.0.database.client().await?;
        let last = self.0.database.sql(
            "SELECT greatest((SELECT max(seq) FROM {s}.event WHERE session_id = $1), \
             (SELECT seq FROM {s}.checkpoint WHERE session_id = $1))",
        );
        let last = client.prepare_cached(&last).await.map_err(refused)?;
        Ok(client.query_one(&last, &[&root.as_str()]).await.map_err(refused)?.get(0))
    }

    /// Makes the rows of a session anew. Returns the project's directory here.
    async fn rebuild(
        &self,
        root: &SessionId,
        epoch: i64,
        directory: Option<&Path>,
    ) -> Result<String, SharedError> {
        let database = &self.0.database;
        let client = database.client().await?;
        let session = root.as_str();
        let checkpoint = database.sql("SELECT seq, data FROM {s}.checkpoint WHERE session_id = $1");
        let checkpoint = client.query_opt(&checkpoint, &[&session]).await.map_err(refused)?;
        let behind: i64 = checkpoint.as_ref().map_or(-1, |row| row.get(0));
        let events =
            database.sql("SELECT seq, data FROM {s}.event WHERE session_id = $1 AND seq > $2 ORDER BY seq");
        let events = client.query(&events, &[&session, &behind]).await.map_err(refused)?;
        let is_whole = events.iter().zip(behind + 1..).all(|(row, seq)| row.get::<_, i64>(0) == seq);
        if checkpoint.is_none() || !is_whole {
            let reason = "rows of its log are missing".to_owned();
            return Err(SharedError::Unreadable { session: root.to_string(), reason });
        }
        let blobs = database.sql("SELECT hash, data FROM {s}.blob WHERE session_id = $1");
        let blobs = client.query(&blobs, &[&session]).await.map_err(refused)?;
        drop(client);
        let blobs: HashMap<Hash, Vec<u8>> = blobs.into_iter().map(|row| (row.get(0), row.get(1))).collect();
        let mut rows: Vec<(String, Vec<u8>)> = Vec::new();
        rows.extend(checkpoint.map(|row| (checkpoint_place(session, row.get(0)), row.get(1))));
        rows.extend(events.into_iter().map(|row| (event_place(session, row.get(0)), row.get(1))));
        let there = self.project_directory(root, directory).await?;
        let shared = self.clone();
        self.keys().await?;
        let (name, place_here) = (session.to_owned(), there.clone());
        let decoded = blocking(move || {
            let keys =
                shared.0.keys.get().ok_or_else(|| form::Unreadable("the keys are not known".to_owned()))?;
            let mut writes: Vec<Write> = Vec::new();
            for (place, data) in &rows {
                writes.extend(form::decode(data, &place_here, keys, &name, place, &blobs)?);
            }
            Ok(writes)
        });
        let writes = decoded.await.map_err(|error| unreadable(session, &error))?;
        self.0.storage.replace(root.clone(), writes, epoch).await.map_err(|error| match error {
            StorageError::Sqlite(error) => unreadable(session, &form::Unreadable(error.to_string())),
            other => other.into(),
        })?;
        Ok(there)
    }

    /// Returns the directory of a session's project on this machine: the one that is named, that of a checkout that was
    /// worked in, or where it lay elsewhere.
    async fn project_directory(&self, root: &SessionId, named: Option<&Path>) -> Result<String, SharedError> {
        let Some(info) = self.listed_info(root).await? else {
            let reason = "it is not in the list".to_owned();
            return Err(SharedError::Unreadable { session: root.to_string(), reason });
        };
        let checkouts = self.checkouts().await?.into_iter();
        let same = checkouts.filter(|(id, _)| *id == info.project_id);
        let checkouts: Vec<PathBuf> =
            same.map(|(_, checkout)| PathBuf::from(checkout)).filter(|it| it.is_dir()).collect();
        if let Some(worktree) = self.worktree_here(&info, named, &checkouts) {
            return Ok(worktree.display().to_string());
        }
        if let Some(named) = named {
            let below = Path::new(info.path.as_deref().unwrap_or_default());
            let above = named.ancestors().nth(below.components().count());
            let root = above.filter(|above| above.join(below) == named).unwrap_or(named);
            return Ok(root.display().to_string());
        }
        let elsewhere = root_directory(&info);
        Ok(checkouts.first().map_or(elsewhere, |checkout| checkout.display().to_string()))
    }

    /// Returns the worktree of windlass on this machine that is called as the one that a session was in, unless another
    /// directory is named than one of its project's checkout.
    fn worktree_here(&self, info: &Session, named: Option<&Path>, checkouts: &[PathBuf]) -> Option<PathBuf> {
        let directory = root_directory(info);
        let mut pieces = Path::new(&directory).iter().rev().map(|it| it.to_str().unwrap_or_default());
        let (name, project, folder) = (pieces.next()?, pieces.next()?, pieces.next()?);
        let is_worktree = project == info.project_id && folder == WORKTREES && info.parent_id.is_none();
        let own = real(&self.0.directory.join(WORKTREES));
        let is_meant = match named {
            Some(named) => !named.starts_with(&own) && checkouts.iter().any(|it| named.starts_with(it)),
            None => !checkouts.is_empty(),
        };
        (is_worktree && is_meant).then(|| own.join(project).join(name))
    }

    /// Reads a session from the list.
    pub(crate) async fn listed_info(&self, id: &SessionId) -> Result<Option<Session>, SharedError> {
        let client = self.0.database.client().await?;
        let read = self.0.database.sql("SELECT data FROM {s}.session WHERE session_id = $1");
        let row = client.query_opt(&read, &[&id.as_str()]).await.map_err(refused)?;
        let Some(row) = row else { return Ok(None) };
        let data: Vec<u8> = row.get(0);
        let json = form::unpack(&data, self.keys().await?, &listed_place(id.as_str()))
            .map_err(|error| unreadable(id.as_str(), &error))?;
        serde_json::from_slice(&json)
            .map(Some)
            .map_err(|error| unreadable(id.as_str(), &form::Unreadable(error.to_string())))
    }

    /// Returns the session at the top of one that this process knows.
    pub(crate) async fn known_root(&self, id: &SessionId) -> Result<SessionId, SharedError> {
        if let Some(root) = lock(&self.0.table).root(id) {
            return Ok(root);
        }
        let root = self.0.storage.root_of(id.clone()).await?;
        lock(&self.0.table).set_root(id, &root);
        Ok(root)
    }

    /// Returns the session at the top of one, which may be known to other nodes alone.
    async fn root_anywhere(&self, id: &SessionId) -> Result<SessionId, SharedError> {
        let root = self.known_root(id).await?;
        if root != *id || self.0.storage.session(id.clone()).await?.is_some() {
            return Ok(root);
        }
        let client = self.0.database.client().await?;
        let read = self.0.database.sql("SELECT root_id FROM {s}.session WHERE session_id = $1");
        let row = limited(async { client.query_opt(&read, &[&id.as_str()]).await.map_err(refused) }).await?;
        let root = row.and_then(|row| SessionId::parse(row.get::<_, &str>(0)).ok());
        let root = root.unwrap_or_else(|| id.clone());
        lock(&self.0.table).set_root(id, &root);
        Ok(root)
    }

    /// Returns the place of a session, without taking it.
    pub async fn place(&self, id: &SessionId) -> Result<Place, SharedError> {
        if self.holds(id) {
            return Ok(Place::Here);
        }
        let root = self.root_anywhere(id).await?;
        Ok(match limited(lease::read(&self.0.database, self.keys().await?, &root)).await? {
            Lease::Unknown | Lease::Deleted => Place::Here,
            // A claim is under way.
            Lease::Owned(owner) if self.node_id().as_ref() == Some(&owner.id) => Place::Here,
            Lease::Owned(owner) if owner.is_alive && !self.has_died_here(&owner) => Place::At(owner),
            Lease::Owned(_) | Lease::Free => Place::Free,
        })
    }

    /// Returns true if a process with the same machine and store as this one has a session.
    pub async fn is_beside(&self, id: &SessionId) -> bool {
        let own = node::machine(&self.0.directory);
        matches!(self.place(id).await, Ok(Place::At(owner)) if owner.machine == own)
    }

    /// Returns the name of the node that has a session, for people.
    pub(crate) async fn owner_name(&self, root: &SessionId) -> String {
        let read = async {
            let keys = self.keys().await?;
            limited(lease::read(&self.0.database, keys, root)).await
        };
        match read.await {
            Ok(Lease::Owned(owner)) => owner.name,
            Ok(Lease::Free | Lease::Unknown | Lease::Deleted) | Err(_) => "another node".to_owned(),
        }
    }

    /// Says that this node is at work in a session that another one wants.
    pub async fn refuse(&self, root: &SessionId) {
        let Some(node) = self.node_id() else { return };
        if let Err(error) = limited(lease::refuse(&self.0.database, root, &node)).await {
            tracing::debug!(%error, "another node was not told that the session is at work");
        }
    }

    /// Gives a session back, once everything of it is in the log. Nothing may write it any more.
    pub async fn release(&self, root: &SessionId) -> Result<(), SharedError> {
        let turn = self.turn_of(root);
        let _turn = turn.lock().await;
        if !lock(&self.0.table).holds(root) {
            return Ok(());
        }
        // From here on a claim waits for its turn, and takes the session anew.
        lock(&self.0.table).set_leaving(root, true);
        if !self.settle_one(root, append::PATIENCE).await {
            lock(&self.0.table).set_leaving(root, false);
            let reason = "the log has not taken its last changes".to_owned();
            return Err(SharedError::Unreachable { reason });
        }
        let epoch = lock(&self.0.table).epoch(root);
        let (Some(epoch), Some(node)) = (epoch, self.node_id()) else { return Ok(()) };
        // Marked first: rows that are marked and changed elsewhere since have an older epoch.
        self.0.storage.set_mark(root.clone(), Mark { epoch, is_complete: true }).await?;
        lock(&self.0.table).forget(root);
        limited(lease::give_back(&self.0.database, root, &node, epoch)).await?;
        Ok(())
    }

    /// Forgets a session that another node has, once nothing goes on in it here any more.
    pub fn forget_lost(&self, root: &SessionId) {
        let mut table = lock(&self.0.table);
        if table.lost_to(root).is_some() {
            table.forget(root);
        }
    }

    /// Returns true if the list says, in words of the fleet, that a session was deleted.
    async fn is_deleted(&self, root: &SessionId) -> Result<bool, SharedError> {
        let client = self.0.database.client().await?;
        let read = self.0.database.sql("SELECT data FROM {s}.session WHERE session_id = $1");
        let row = client.query_opt(&read, &[&root.as_str()]).await.map_err(refused)?;
        let Some(row) = row else { return Ok(false) };
        let text = form::unpack(row.get(0), self.keys().await?, &listed_place(root.as_str()));
        Ok(text.is_ok_and(|text| text == DELETED))
    }

    /// Deletes a session of this node from the shared store.
    pub async fn delete(&self, root: &SessionId) -> Result<(), SharedError> {
        let (Some(epoch), Some(node)) = (lock(&self.0.table).epoch(root), self.node_id()) else {
            return Ok(());
        };
        let tombstone = form::pack(DELETED, self.keys().await?, &listed_place(root.as_str()))
            .map_err(|error| unreadable(root.as_str(), &error))?;
        let deleted = async {
            let mut client = self.0.database.client().await?;
            let transaction = client.transaction().await.map_err(refused)?;
            // The lease stays, so that no node with an older copy shares it anew, and the empty row of the list tells them.
            let go = self.0.database.sql(
                "UPDATE {s}.lease SET deleted = true, owner = NULL, epoch = epoch + 1 WHERE session_id = $1 AND owner = $2 \
                 AND epoch = $3",
            );
            let n_deleted =
                transaction.execute(&go, &[&root.as_str(), &node, &epoch]).await.map_err(refused)?;
            if n_deleted == 0 {
                let by = "another node".to_owned();
                return Err(SharedError::Fenced { session: root.to_string(), by });
            }
            for statement in [
                "DELETE FROM {s}.event WHERE session_id = $1",
                "DELETE FROM {s}.checkpoint WHERE session_id = $1",
                "DELETE FROM {s}.blob WHERE session_id = $1",
                "DELETE FROM {s}.session WHERE root_id = $1 AND session_id <> $1",
            ] {
                let statement = self.0.database.sql(statement);
                transaction.execute(&statement, &[&root.as_str()]).await.map_err(refused)?;
            }
            let tell = self.0.database.sql(
                "UPDATE {s}.session SET data = $2, change = nextval('{s}.session_change') WHERE session_id = $1",
            );
            transaction.execute(&tell, &[&root.as_str(), &tombstone]).await.map_err(refused)?;
            transaction.commit().await.map_err(refused)
        };
        limited(deleted).await?;
        lock(&self.0.table).forget(root);
        Ok(())
    }
}

/// Waits longer than for a statement: a whole session is read.
async fn limited_long<T>(work: impl Future<Output = Result<T, SharedError>>) -> Result<T, SharedError> {
    match tokio::time::timeout(Duration::from_secs(60), work).await {
        Ok(done) => done,
        Err(_elapsed) => {
            let reason = "a session was not read within 60 s".to_owned();
            Err(SharedError::Unreachable { reason })
        }
    }
}

/// Returns the project's directory of a session that lies in it or below.
pub fn root_directory(info: &Session) -> String {
    let directory = PathBuf::from(&info.directory);
    let below = info.path.as_deref().unwrap_or_default();
    let n_below = Path::new(below).components().count();
    let root = directory.ancestors().nth(n_below).unwrap_or(&directory);
    let is_above = root.join(below) == directory;
    if is_above { root.display().to_string() } else { info.directory.clone() }
}
