//! Finds the processes that belong together: by their parents, and by a tag that children inherit.

use nix::unistd::Pid;

/// The environment variable that holds a child's tag, behind the tags that this process bears itself.
///
/// A process keeps it after `setsid` and after its parent has ended, unlike its group and its parent.
pub const CHILD_TAG: &str = "WINDLASS_CHILD";
/// The separator between the tags in the variable.
pub const SEPARATOR: char = '/';

/// Returns the descendants of `leader`, as far as the system reports them.
pub fn descendants(leader: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut pending = vec![leader];
    while let Some(pid) = pending.pop() {
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children =
            children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw);
        for child in children {
            found.push(child);
            pending.push(child);
        }
    }
    found
}

/// The result of one look at all processes.
pub struct Look {
    /// The processes with one of the wanted tags.
    pub tagged: Vec<Pid>,
    /// True if the environment of every process could be read.
    pub is_clear: bool,
}

/// Looks for all processes with a wanted tag; finds none on systems that do not show the environment of
/// processes.
pub fn look(is_wanted: &dyn Fn(&str) -> bool) -> Look {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut look = Look { tagged: Vec::new(), is_clear: true };
    for pid in pids.map(Pid::from_raw) {
        match environment(pid) {
            None => look.is_clear = false,
            Some(variables) if bears(&variables, is_wanted) => look.tagged.push(pid),
            Some(_) => {}
        }
    }
    look
}

fn bears(variables: &[u8], is_wanted: &dyn Fn(&str) -> bool) -> bool {
    let mut variables = variables.split(|byte| *byte == 0).filter_map(|it| str::from_utf8(it).ok());
    let tags = variables.find_map(|it| it.strip_prefix(CHILD_TAG)?.strip_prefix('='));
    tags.is_some_and(|tags| tags.split(SEPARATOR).any(is_wanted))
}

/// Reads the environment that a process began with: empty if it belongs to another user or has ended, `None`
/// while it is between two programs and shows nothing.
fn environment(pid: Pid) -> Option<Vec<u8>> {
    let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let variables = read("environ");
    if !variables.is_empty() {
        return Some(variables);
    }
    if read("cmdline").is_empty() {
        let has_program = std::fs::read_link(format!("/proc/{pid}/exe")).is_ok();
        return (!has_program).then(Vec::new);
    }
    // The process became a program between the first two reads, or has no variables.
    Some(read("environ"))
}

/// Returns the start time of a process in ticks since boot. Together with its number it identifies one process.
pub fn start(pid: Pid) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last parenthesis may contain blanks; the start is field 22.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}
