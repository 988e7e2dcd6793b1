//! The sessions that this node has, and their changes on the way to the log. No I/O.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tokio::sync::oneshot;
use windlass_core::storage::{Write, outlet::SharedError};
use windlass_protocol::opencode::id::SessionId;

use super::node;

/// Bytes of a log that are worth a checkpoint, however small the last one was.
const CHECKPOINT_FROM: usize = 512 * 1024;

/// The way of an answer to a change that waits for the log.
pub type Waiter = oneshot::Sender<Result<(), SharedError>>;

/// See the module's comment.
#[derive(Default)]
pub struct Table {
    held: HashMap<SessionId, Held>,
    /// The sessions at the top of others.
    roots: HashMap<SessionId, SessionId>,
    n_holds: u64,
}

/// A session that this node has, with those below it.
pub struct Held {
    pub epoch: i64,
    /// The number of the next batch of changes.
    next_seq: i64,
    /// The number of the last batch that is in the log.
    acked: i64,
    /// The project's directory here.
    pub directory: String,
    pending: Vec<Write>,
    waiters: Vec<Waiter>,
    /// The moment of the oldest change that is not in the log.
    since: Option<Duration>,
    in_flight: bool,
    /// Bytes of the log behind the last checkpoint, and of that.
    log_bytes: usize,
    checkpoint_bytes: usize,
    /// The name of the node that has taken it over.
    lost: Option<String>,
    /// It is being given back: nobody may count on it any more.
    is_leaving: bool,
    /// A checkpoint is due, and asked for.
    is_due: bool,
    /// Tells one time of holding a session from another.
    hold: u64,
}

/// Changes of a session that make one row of the log.
pub struct Batch {
    pub session: SessionId,
    /// The time of holding the session that it belongs to.
    pub hold: u64,
    pub seq: i64,
    pub directory: String,
    pub writes: Vec<Write>,
    pub waiters: Vec<Waiter>,
}

/// The outcome of handing changes over.
pub enum Queued {
    /// They are on their way.
    Yes,
    /// The session is not this node's.
    NotHeld,
    Lost {
        by: String,
    },
}

impl Held {
    pub fn new(epoch: i64, last_seq: i64, directory: String) -> Self {
        Self {
            epoch,
            next_seq: last_seq + 1,
            acked: last_seq,
            directory,
            pending: Vec::new(),
            waiters: Vec::new(),
            since: None,
            in_flight: false,
            log_bytes: 0,
            checkpoint_bytes: 0,
            lost: None,
            is_leaving: false,
            is_due: false,
            hold: 0,
        }
    }

    fn is_settled(&self) -> bool {
        self.pending.is_empty() && !self.in_flight
    }
}

impl Table {
    /// Returns the session at the top of one, as far as it is known here.
    pub fn root(&self, id: &SessionId) -> Option<SessionId> {
        if self.held.contains_key(id) { Some(id.clone()) } else { self.roots.get(id).cloned() }
    }

    pub fn set_root(&mut self, id: &SessionId, root: &SessionId) {
        if id != root {
            self.roots.insert(id.clone(), root.clone());
        }
    }

    pub fn hold(&mut self, root: &SessionId, held: Held) {
        self.n_holds += 1;
        self.held.insert(root.clone(), Held { hold: self.n_holds, ..held });
    }

    /// Returns the epoch of a batch, if its session is still held as it was then.
    pub fn epoch_of(&self, batch: &Batch) -> Option<i64> {
        let held = self.held.get(&batch.session)?;
        (held.hold == batch.hold && held.lost.is_none()).then_some(held.epoch)
    }

    /// Notes that a session is being given back, or is not after all.
    pub fn set_leaving(&mut self, root: &SessionId, is_leaving: bool) {
        if let Some(held) = self.held.get_mut(root) {
            held.is_leaving = is_leaving;
        }
    }

    /// Returns true if a session is this node's.
    pub fn holds(&self, root: &SessionId) -> bool {
        self.held.get(root).is_some_and(|held| held.lost.is_none() && !held.is_leaving)
    }

    /// Returns the node that has taken a session over.
    pub fn lost_to(&self, root: &SessionId) -> Option<String> {
        self.held.get(root)?.lost.clone()
    }

    pub fn epoch(&self, root: &SessionId) -> Option<i64> {
        self.held.get(root).map(|held| held.epoch)
    }

    pub fn directory(&self, root: &SessionId) -> Option<String> {
        self.held.get(root).map(|held| held.directory.clone())
    }

    /// Returns the number of the last batch in the log.
    pub fn acked(&self, root: &SessionId) -> Option<i64> {
        self.held.get(root).map(|held| held.acked)
    }

    /// Queues changes of one session; the waiter is answered when they are in the log.
    pub fn queue(&mut self, root: &SessionId, writes: Vec<Write>, waiter: Option<Waiter>) -> Queued {
        let Some(held) = self.held.get_mut(root) else { return Queued::NotHeld };
        if let Some(by) = &held.lost {
            return Queued::Lost { by: by.clone() };
        }
        held.since.get_or_insert_with(node::now);
        held.waiters.extend(waiter);
        for write in writes {
            // Text that streams is one piece, not one a delta.
            if let (Write::Append(more), Some(Write::Append(last))) = (&write, held.pending.last_mut())
                && last.part_id == more.part_id
                && last.offset + last.text.len() == more.offset
            {
                last.text.push_str(&more.text);
            } else {
                held.pending.push(write);
            }
        }
        Queued::Yes
    }

    /// Takes the changes that wait, one batch a session.
    pub fn take_batches(&mut self) -> Vec<Batch> {
        let waiting = self.held.iter_mut().filter(|(_, held)| !held.pending.is_empty() && !held.in_flight);
        let take = |(session, held): (&SessionId, &mut Held)| {
            let seq = held.next_seq;
            held.next_seq += 1;
            held.in_flight = true;
            Batch {
                session: session.clone(),
                hold: held.hold,
                seq,
                directory: held.directory.clone(),
                writes: std::mem::take(&mut held.pending),
                waiters: std::mem::take(&mut held.waiters),
            }
        };
        waiting.map(take).collect()
    }

    /// Notes that a batch of so many bytes is in the log. Returns true if a checkpoint is due now.
    pub fn acknowledge(&mut self, batch: &Batch, n_bytes: usize) -> bool {
        let Some(held) = self.held.get_mut(&batch.session).filter(|held| held.hold == batch.hold) else {
            return false;
        };
        (held.acked, held.in_flight) = (batch.seq, false);
        held.since = (!held.pending.is_empty()).then(node::now);
        held.log_bytes += n_bytes;
        let is_long = held.log_bytes > CHECKPOINT_FROM.max(held.checkpoint_bytes);
        is_long && !std::mem::replace(&mut held.is_due, true)
    }

    /// Notes a checkpoint of so many bytes.
    pub fn note_checkpoint(&mut self, root: &SessionId, n_bytes: usize) {
        if let Some(held) = self.held.get_mut(root) {
            (held.log_bytes, held.checkpoint_bytes, held.is_due) = (0, n_bytes, false);
        }
    }

    /// Notes that a session is another node's: its changes are dropped. Returns false if that was known.
    pub fn lose(&mut self, root: &SessionId, by: &str) -> bool {
        let Some(held) = self.held.get_mut(root).filter(|held| held.lost.is_none()) else { return false };
        held.lost = Some(by.to_owned());
        (held.pending, held.since, held.in_flight) = (Vec::new(), None, false);
        let fenced = SharedError::Fenced { session: root.to_string(), by: by.to_owned() };
        for waiter in held.waiters.drain(..) {
            // It may have given up.
            let _ = waiter.send(Err(fenced.clone()));
        }
        true
    }

    /// Forgets a session that is not this node's any more.
    pub fn forget(&mut self, root: &SessionId) {
        self.held.remove(root);
        self.roots.retain(|_, above| above != root);
    }

    /// Gives sessions the epochs that a new life of this node took them under. Returns those that it did not get.
    pub fn renew_epochs(&mut self, epochs: &HashMap<String, i64>) -> HashSet<SessionId> {
        let mut missing = HashSet::new();
        for (session, held) in self.held.iter_mut().filter(|(_, held)| held.lost.is_none()) {
            match epochs.get(session.as_str()) {
                Some(epoch) => held.epoch = *epoch,
                None => drop(missing.insert(session.clone())),
            }
        }
        missing
    }

    /// Returns true if everything of a session is in the log.
    pub fn is_settled(&self, root: &SessionId) -> bool {
        self.held.get(root).is_none_or(|held| held.lost.is_some() || held.is_settled())
    }

    pub fn held(&self) -> Vec<SessionId> {
        let held = self.held.iter().filter(|(_, held)| held.lost.is_none());
        held.map(|(session, _)| session.clone()).collect()
    }

    /// Returns how long the oldest change has waited for the log.
    pub fn lag(&self) -> Duration {
        let since = self.held.values().filter_map(|held| held.since).min();
        since.map(|since| node::now().saturating_sub(since)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
