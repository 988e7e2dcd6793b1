//! The reaper's work: to keep account of its daemon's children, and to end them once the daemon is gone.
//!
//! The daemon holds the only write end of a pipe, so the end of input means that the daemon has ended, however it did.

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

/// The hidden command by which this program is a reaper.
pub const COMMAND: &str = "reap";
/// As much as the standard input's own buffer holds, which is then not used.
const BUFFER_BYTES: usize = 8 * 1024;
/// Between a kill and the next look for who is left.
const PAUSE: Duration = Duration::from_millis(5);
/// Looks until what cannot be killed is left alone: 5 s.
const MAX_LOOKS: usize = 1000;
/// Looks until a process that shows nothing is taken for one that has nothing to show: 100 ms.
const MAX_UNCLEAR: usize = 20;

/// What the daemon says of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// It is about to be started.
    Begun,
    /// It runs, and leads this group.
    Leads(Pid),
    /// It is nobody's business any more, nor is what it left behind.
    Forgotten,
    /// What it left behind has to end.
    Doomed,
}

/// Fewer bytes than `PIPE_BUF`: a record is written whole or not at all.
pub const RECORD_BYTES: usize = 16;

/// A record as it goes through the pipe: kind, group, number of the child.
pub fn encode(record: Record, child: u64) -> [u8; RECORD_BYTES] {
    let (kind, group) = match record {
        Record::Begun => (0, 0),
        Record::Leads(group) => (1, group.as_raw()),
        Record::Forgotten => (2, 0),
        Record::Doomed => (3, 0),
    };
    (u128::from(child) << 64 | u128::from(group.cast_unsigned()) << 32 | kind).to_le_bytes()
}

fn decode(bytes: [u8; RECORD_BYTES]) -> Option<(Record, u64)> {
    let number = u128::from_le_bytes(bytes);
    let group = Pid::from_raw((number >> 32) as i32);
    let record = match number as u32 {
        0 => Record::Begun,
        1 => Record::Leads(group),
        2 => Record::Forgotten,
        3 => Record::Doomed,
        _ => return None,
    };
    Some((record, (number >> 64) as u64))
}

/// The mark of a daemon's child.
pub fn mark(daemon: &str, child: u64) -> String {
    format!("{daemon}.{child}")
}

/// Keeps account until the input ends, and then ends all that is left.
pub fn run(daemon: &str, input: impl Read) {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let mut running: Vec<Running> = Vec::new();
    let mut doomed = Vec::new();
    let mut bytes = [0; RECORD_BYTES];
    while input.read_exact(&mut bytes).is_ok() {
        match decode(bytes) {
            Some((Record::Begun, child)) => running.push(Running { child, group: None }),
            Some((Record::Leads(leader), child)) => {
                running.retain(|it| it.child != child);
                let group = Group { leader, start: tree::start(leader) };
                running.push(Running { child, group: Some(group) });
            }
            Some((Record::Forgotten, child)) => running.retain(|it| it.child != child),
            Some((Record::Doomed, child)) => doomed.push(child),
            None => {}
        }
        // One look is for all that are known to be doomed.
        if input.buffer().len() < RECORD_BYTES {
            end(daemon, &doomed);
            doomed.clear();
        }
    }
    for Running { child, group } in &running {
        if let Some(group) = group
            && group.is_ours(tree::start(group.leader))
        {
            // One that has ended is what we want.
            let _ = killpg(group.leader, Signal::SIGKILL);
        }
        doomed.push(*child);
    }
    end(daemon, &doomed);
}

/// A child that was not forgotten.
struct Running {
    child: u64,
    group: Option<Group>,
}

/// A child's group, which also holds those who hide their mark.
struct Group {
    leader: Pid,
    /// Not known of a leader that had ended when we heard of it.
    start: Option<u64>,
}

impl Group {
    /// Whether the number is still the child's, when this is the start of the process that has it now.
    fn is_ours(&self, start: Option<u64>) -> bool {
        // A number is not given away while it is a group's, and a group of a later leader has that leader at first.
        start.is_none() || start == self.start
    }
}

/// Kills whoever bears the mark of one of these children, and what those started, until there is nobody.
fn end(daemon: &str, children: &[u64]) {
    if children.is_empty() {
        return;
    }
    let marks: Vec<String> = children.iter().map(|child| mark(daemon, *child)).collect();
    for n_looks in 0..MAX_LOOKS {
        let Look { marked, is_clear } = tree::look(&|wanted| marks.iter().any(|it| it == wanted));
        if marked.is_empty() && (is_clear || n_looks >= MAX_UNCLEAR) {
            return;
        }
        // All are found before the first is killed: after that nobody knows whose parent it was.
        let descendants: Vec<Pid> = marked.iter().flat_map(|pid| tree::descendants(*pid)).collect();
        for pid in marked.into_iter().chain(descendants) {
            let _ = kill(pid, Signal::SIGKILL);
        }
        // Whoever was just being started is seen at the next look; nothing tells of the end of other people's children.
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests;
