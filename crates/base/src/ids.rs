//! Makes sortable ids: prefix, 12 hex digits of time and counter, 14 random base62 characters (facts: OpenCode §1.1).

use std::{
    cell::RefCell,
    sync::atomic::{AtomicU64, Ordering},
};

use windlass_protocol::opencode::id::{EventId, MessageId, PartId, PermissionId, QuestionId, SessionId};

use crate::clock;

const RANDOM_CHARS: usize = 14;
/// Random bytes that one system call gets for many ids; every delta has one.
const POOL: usize = 1024;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LOW_48_BITS: u64 = (1 << 48) - 1;
/// Stamps of a day.
const DAY: u64 = 24 * 60 * 60 * 1000 * 4096;

/// Makes a session id; newer ones sort first.
pub fn session() -> SessionId {
    SessionId::from_trusted(make(SessionId::PREFIX, !next_stamp()))
}

/// Makes a message id; newer ones sort last.
pub fn message() -> MessageId {
    MessageId::from_trusted(make(MessageId::PREFIX, next_stamp()))
}

/// Makes a message id that ends with a mark; newer ones sort last.
pub fn marked_message(mark: &str) -> MessageId {
    let stamp = next_stamp() & LOW_48_BITS;
    MessageId::from_trusted(format!("{}_{stamp:012x}{mark}", MessageId::PREFIX))
}

/// Returns the mark of a digest, which stands where other ids have random characters.
pub fn mark(digest: &[u8]) -> String {
    let characters = digest.iter().take(RANDOM_CHARS).map(|byte| BASE62[usize::from(*byte) % BASE62.len()]);
    characters.map(char::from).collect()
}

/// Makes a part id; newer ones sort last.
pub fn part() -> PartId {
    PartId::from_trusted(make(PartId::PREFIX, next_stamp()))
}

/// Makes a permission request id.
pub fn permission() -> PermissionId {
    PermissionId::from_trusted(make(PermissionId::PREFIX, next_stamp()))
}

/// Makes a question id.
pub fn question() -> QuestionId {
    QuestionId::from_trusted(make(QuestionId::PREFIX, next_stamp()))
}

/// Makes an event id.
pub fn event() -> EventId {
    EventId::from_trusted(make(EventId::PREFIX, next_stamp()))
}

/// Makes a terminal's id (`pty_…`).
pub fn pty() -> String {
    make("pty", next_stamp())
}

/// Makes an id for a saved tool output (`tool_…`).
pub fn tool_output() -> String {
    make("tool", next_stamp())
}

/// Returns `length` random base62 characters.
pub fn random(length: usize) -> String {
    thread_local! {
        static UNUSED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let bytes = UNUSED.with_borrow_mut(|unused| {
        if unused.len() < length {
            unused.resize(length.max(POOL), 0);
            // Without randomness the time and counter still keep ids apart within this process.
            let _ = getrandom::fill(unused);
        }
        unused.split_off(unused.len() - length)
    });
    bytes.iter().map(|byte| char::from(BASE62[usize::from(*byte) % BASE62.len()])).collect()
}

/// Returns a random number from 0 to 1.
pub fn fraction() -> f64 {
    let mut bytes = [0u8; 4];
    // Without randomness every wait is the shortest.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

/// The newest stamp that was given or followed.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Makes later ids sort behind this ascending one, which another process or another clock has made.
pub fn follow(id: &str) {
    let now = clock_stamp();
    if let Some(ahead) = ahead(id, now).filter(|ahead| is_future(*ahead)) {
        LAST.fetch_max(now.saturating_add(ahead), Ordering::Relaxed);
    }
}

/// Returns true if an ascending id begins as those made here do, and no clock that goes wrong by less than a day has made
/// it ahead of its time: others would not sort with the ids around them.
pub fn is_in_order(id: &str) -> bool {
    ahead(id, clock_stamp()).is_some_and(|ahead| !is_future(ahead) || ahead < DAY)
}

/// Returns the steps from a stamp to the one that an id has; past ones are beyond the half.
fn ahead(id: &str, now: u64) -> Option<u64> {
    let digits = id.split_once('_')?.1.get(..12)?;
    let is_stamp = digits.bytes().all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit));
    let stamp = u64::from_str_radix(digits, 16).ok().filter(|_| is_stamp)?;
    Some(stamp.wrapping_sub(now) & LOW_48_BITS)
}

/// The digits begin anew every two years, so a stamp counts as ahead if it is less than half of that away.
fn is_future(ahead: u64) -> bool {
    ahead < 1 << 47
}

fn clock_stamp() -> u64 {
    u64::try_from(clock::now_ms()).unwrap_or(0).wrapping_mul(4096)
}

/// Returns `ms * 4096 + counter`, strictly increasing within the process even if the clock steps back.
fn next_stamp() -> u64 {
    let now = clock_stamp();
    let mut last = LAST.load(Ordering::Relaxed);
    loop {
        let next = now.max(last + 1);
        match LAST.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return next,
            Err(seen) => last = seen,
        }
    }
}

fn make(prefix: &str, stamp: u64) -> String {
    format!("{prefix}_{:012x}{}", stamp & LOW_48_BITS, random(RANDOM_CHARS))
}

#[cfg(test)]
mod tests;
