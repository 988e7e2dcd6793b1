//! The reaper: keeps account of its daemon's children and kills them when the daemon ends.
//!
//! The daemon holds the only write end of a pipe, so the end of input means that the daemon has ended, for any
//! reason.

use std::{
    io::{BufReader, Read},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};

use super::tree::{self, Look};

/// The hidden subcommand that makes this program a reaper.
pub const COMMAND: &str = "reap";
/// The size of the standard input's own buffer, so that reads bypass that one.
const BUFFER_BYTES: usize = 8 * 1024;
/// The pause between a kill and the next look for survivors.
const PAUSE: Duration = Duration::from_millis(5);
/// Number of looks after which the reaper gives up on processes that cannot be killed: 5 s.
const MAX_LOOKS: usize = 1000;
/// Number of looks after which a process with an unreadable environment is taken for one without our tag: 100
/// ms.
const MAX_UNCLEAR: usize = 20;

/// A report of the daemon about one of its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// The child is about to be started.
    Spawned,
    /// The child runs and leads this group.
    Group(Pid),
    /// The child is no longer registered; the processes it left behind may run on.
    Exited,
    /// The processes that the child left behind must be killed.
    Kill,
}

/// The size of a record. It is below `PIPE_BUF`, so a record is written whole or not at all.
pub const RECORD_BYTES: usize = 16;

/// Encodes a record for the pipe: kind, group, number of the child.
pub fn encode(record: Record, child: u64) -> [u8; RECORD_BYTES] {
    let (kind, group) = match record {
        Record::Spawned => (0, 0),
        Record::Group(group) => (1, group.as_raw()),
        Record::Exited => (2, 0),
        Record::Kill => (3, 0),
    };
    (u128::from(child) << 64 | u128::from(group.cast_unsigned()) << 32 | kind).to_le_bytes()
}

fn decode(bytes: [u8; RECORD_BYTES]) -> Option<(Record, u64)> {
    let number = u128::from_le_bytes(bytes);
    let group = Pid::from_raw((number >> 32) as i32);
    let record = match number as u32 {
        0 => Record::Spawned,
        1 => Record::Group(group),
        2 => Record::Exited,
        3 => Record::Kill,
        _ => return None,
    };
    Some((record, (number >> 64) as u64))
}

/// Returns the tag of a daemon's child.
pub fn tag(daemon: &str, child: u64) -> String {
    format!("{daemon}.{child}")
}

/// Keeps account until the input ends, and then kills every child that is left.
pub fn run(daemon: &str, input: impl Read) {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let mut running: Vec<Running> = Vec::new();
    let mut due = Vec::new();
    let mut bytes = [0; RECORD_BYTES];
    while input.read_exact(&mut bytes).is_ok() {
        match decode(bytes) {
            Some((Record::Spawned, child)) => running.push(Running { child, group: None }),
            Some((Record::Group(leader), child)) => {
                running.retain(|it| it.child != child);
                let group = Group { leader, start: tree::start(leader) };
                running.push(Running { child, group: Some(group) });
            }
            Some((Record::Exited, child)) => running.retain(|it| it.child != child),
            Some((Record::Kill, child)) => due.push(child),
            None => {}
        }
        // One look serves all children known to be due by now.
        if input.buffer().len() < RECORD_BYTES {
            end(daemon, &due);
            due.clear();
        }
    }
    for Running { child, group } in &running {
        if let Some(group) = group
            && group.is_ours(tree::start(group.leader))
        {
            // A group that has already ended needs no kill.
            let _ = killpg(group.leader, Signal::SIGKILL);
        }
        due.push(*child);
    }
    end(daemon, &due);
}

/// A registered child.
struct Running {
    child: u64,
    group: Option<Group>,
}

/// A child's group, which also holds the processes that hide their tag.
struct Group {
    leader: Pid,
    /// The start time of the leader; `None` if it had already ended when its record was read.
    start: Option<u64>,
}

impl Group {
    /// Returns true if the group number still belongs to the child, given the start time of the process that
    /// has the number now.
    fn is_ours(&self, start: Option<u64>) -> bool {
        // A number is not reused while a group has it, and a later group begins with a leader of that number.
        start.is_none() || start == self.start
    }
}

/// Kills the processes that bear the tag of one of these children, and their descendants, until none is left.
fn end(daemon: &str, children: &[u64]) {
    if children.is_empty() {
        return;
    }
    let tags: Vec<String> = children.iter().map(|child| tag(daemon, *child)).collect();
    for n_looks in 0..MAX_LOOKS {
        let Look { tagged, is_clear } = tree::look(&|wanted| tags.iter().any(|it| it == wanted));
        if tagged.is_empty() && (is_clear || n_looks >= MAX_UNCLEAR) {
            return;
        }
        // All are found before the first is killed: after that their parents can no longer be determined.
        let descendants: Vec<Pid> = tagged.iter().flat_map(|pid| tree::descendants(*pid)).collect();
        for pid in tagged.into_iter().chain(descendants) {
            let _ = kill(pid, Signal::SIGKILL);
        }
        // A process that was just being started is found at the next look. The end of a process that is not our
        // child cannot be waited for.
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests;
