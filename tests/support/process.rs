//! Examines processes from outside: those of a test, and the memory of one.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::agent::DEADLINE;

/// Returns the live processes with this scratch home as `HOME`: the agent and everything it started, even if
/// reparented.
pub fn living(home: &Path) -> Vec<i32> {
    let marker = format!("HOME={}", home.display());
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // A zombie has an empty environment, so it does not count.
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes()) {
            pids.push(pid);
        }
    }
    pids
}

/// Waits until no process of this home is left; returns those that stay past [`DEADLINE`].
///
/// The kernel has no channel for the death of a process that is not our child, hence the polling.
pub async fn gone(home: &Path) -> Vec<i32> {
    until_empty(|| living(home)).await
}

async fn until_empty(find: impl Fn() -> Vec<i32>) -> Vec<i32> {
    let start = Instant::now();
    loop {
        let pids = find();
        if pids.is_empty() || start.elapsed() > DEADLINE {
            return pids;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns true if a process has not ended. A zombie has ended, although it is in the list of processes.
pub fn runs(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| !state.trim_start().starts_with(['Z', 'X']))
}

/// Waits until none of these processes runs; returns those that run past [`DEADLINE`].
pub async fn ended(pids: &[i32]) -> Vec<i32> {
    until_empty(|| pids.iter().copied().filter(|pid| runs(*pid)).collect()).await
}

/// Returns the processes that have this word in their command line. A zombie has no command line any more.
pub fn with_word(word: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_word = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    pids.filter(has_word).collect()
}

/// Waits until no process has this word in its command line; returns those that stay past [`DEADLINE`].
pub async fn gone_with_word(word: &str) -> Vec<i32> {
    until_empty(|| with_word(word)).await
}

/// Waits until no thread of a process runs or is ready to: it waits for somebody else.
pub async fn rests(pid: i32) {
    // The counts tell of threads that ran in between. A thread that only waits for the processor is in the state `R`.
    let threads = || -> Vec<(String, bool)> {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let mut threads: Vec<(String, bool)> = threads
            .map(|thread| {
                let stat = read(thread.path().join("stat"));
                let is_asleep = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'));
                (format!("{:?} {}", thread.file_name(), read(thread.path().join("schedstat"))), is_asleep)
            })
            .collect();
        threads.sort();
        threads
    };
    let start = Instant::now();
    let mut before = threads();
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = threads();
        if now == before && now.iter().all(|(_, is_asleep)| *is_asleep) {
            return;
        }
        assert!(start.elapsed() < DEADLINE, "the process {pid} never rests");
        before = now;
    }
}

/// Returns true for the process that kills the children of a windlass that was killed.
pub fn is_reaper(pid: i32) -> bool {
    let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    cmdline.split(|byte| *byte == 0).nth(1) == Some(b"reap")
}

/// Returns true for git, which windlass may have look at files beside a session.
pub fn is_git(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"git\n")
}

/// Returns the processes that this one has started.
pub fn children(pid: i32) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|it| parent(*it) == Some(pid)).collect()
}

pub fn parent(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Returns the command lines of these processes, for messages.
pub fn describe(pids: &[i32]) -> String {
    let line = |pid: &i32| {
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("{pid} {}", String::from_utf8_lossy(&cmdline).replace('\0', " "))
    };
    pids.iter().map(line).collect::<Vec<_>>().join("; ")
}

pub fn send(pid: i32, signal: Signal) {
    // A process that has ended meanwhile suits most callers.
    let _ = kill(Pid::from_raw(pid), signal);
}

pub fn kill_all(home: &Path) {
    for pid in living(home) {
        send(pid, Signal::SIGKILL);
    }
}

/// Returns a field of `/proc/<pid>/status` that is counted in kB, in bytes.
pub fn memory(pid: i32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes * 1024
}
