//! Memory and processor time of a process and its descendants, by the kernel's accounts.

use std::{fs, path::Path, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    time::{clock_getcpuclockid, clock_gettime},
    unistd::Pid,
};

use crate::Result;

/// Memory in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    pub rss: u64,
    /// Proportional size: shared pages count in part.
    pub pss: u64,
    pub peak: u64,
}

/// Returns the memory of a process tree.
pub fn memory(pid: u32) -> Result<Memory> {
    memory_of(&tree(pid))
}

/// Returns the memory of the process alone.
pub fn own_memory(pid: u32) -> Result<Memory> {
    memory_of(&[pid])
}

/// Returns the number of processes below a process.
pub fn n_descendants(pid: u32) -> usize {
    tree(pid).len() - 1
}

fn memory_of(pids: &[u32]) -> Result<Memory> {
    let mut memory = Memory::default();
    for pid in pids {
        // A descendant may end meanwhile.
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        memory.rss += kilobytes(&status, "VmRSS:");
        memory.peak += kilobytes(&status, "VmHWM:");
        memory.pss += kilobytes(&rollup, "Pss:");
    }
    if memory.rss == 0 { Err("the agent has no memory left to look at".into()) } else { Ok(memory) }
}

/// Resets the peak of a process's memory to the present value.
pub fn forget_peak(pid: u32) -> Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").map_err(|error| format!("reset the peak: {error}"))?;
    Ok(())
}

/// Returns the processor time of a process tree, ended threads and reaped children included; the latter in
/// ticks of 10 ms.
pub fn cpu(pid: u32) -> Result<Duration> {
    let mut total = Duration::ZERO;
    for pid in tree(pid) {
        let Ok(clock) = clock_getcpuclockid(Pid::from_raw(pid as i32)) else { continue };
        let Ok(own) = clock_gettime(clock) else { continue };
        total += Duration::from(own);
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The name before the last parenthesis may contain blanks; `cutime` and `cstime` are fields 16 and 17.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks: u64 =
            fields.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        total += Duration::from_millis(10 * ticks);
    }
    Ok(total)
}

/// Returns the processor time of the process alone, to the nanosecond.
pub fn own_cpu(pid: u32) -> Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid as i32))?;
    Ok(Duration::from(clock_gettime(clock)?))
}

/// Returns the context switches of a process tree's living threads.
pub fn switches(pid: u32) -> Result<u64> {
    let mut total = 0;
    for pid in tree(pid) {
        for thread in numbers(&format!("/proc/{pid}/task")) {
            let path = format!("/proc/{pid}/task/{thread}/status");
            // A thread may end meanwhile.
            let Ok(status) = fs::read_to_string(path) else { continue };
            let counts = status.lines().filter(|line| line.contains("voluntary_ctxt_switches"));
            let counts = counts.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            total += counts.sum::<u64>();
        }
    }
    Ok(total)
}

/// Returns the numbers of open files and of threads of the process alone.
pub fn handles(pid: u32) -> (usize, usize) {
    (numbers(&format!("/proc/{pid}/fd")).len(), numbers(&format!("/proc/{pid}/task")).len())
}

/// Kills every process that was started with this home, wherever it is in the process tree by now.
pub fn kill_all(home: &Path) -> usize {
    let marker = format!("HOME={}", home.display());
    let mut killed = 0;
    for pid in numbers("/proc") {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes()) {
            // A process that has ended meanwhile needs no kill.
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
            killed += 1;
        }
    }
    killed
}

fn tree(pid: u32) -> Vec<u32> {
    let mut pids = vec![pid];
    let mut position = 0;
    while let Some(&pid) = pids.get(position) {
        position += 1;
        for task in numbers(&format!("/proc/{pid}/task")) {
            let children =
                fs::read_to_string(format!("/proc/{pid}/task/{task}/children")).unwrap_or_default();
            pids.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    pids
}

fn numbers(directory: &str) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn kilobytes(text: &str, field: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}
