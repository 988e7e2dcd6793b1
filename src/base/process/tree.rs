//! Which processes belong together: by who started whom, and by a mark that they inherit.

use nix::unistd::Pid;

/// The variable that holds a child's mark, behind the marks that this process bears itself.
///
/// Unlike its group and its parents a process keeps it by `setsid` and when its parent ends.
pub const MARK: &str = "WINDLASS_CHILD";
/// Between the marks of one variable.
pub const SEPARATOR: char = '/';

/// Every process that `leader` started, and what those started, as far as the system tells.
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

/// What one look at all processes showed.
pub struct Look {
    /// Those that bear a mark that was looked for.
    pub marked: Vec<Pid>,
    /// Whether every process showed what it bears.
    pub is_clear: bool,
}

/// Looks for everybody who bears such a mark; finds nobody where the system does not show what processes inherited.
pub fn look(is_wanted: &dyn Fn(&str) -> bool) -> Look {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut look = Look { marked: Vec::new(), is_clear: true };
    for pid in pids.map(Pid::from_raw) {
        match environment(pid) {
            None => look.is_clear = false,
            Some(variables) if bears(&variables, is_wanted) => look.marked.push(pid),
            Some(_) => {}
        }
    }
    look
}

fn bears(variables: &[u8], is_wanted: &dyn Fn(&str) -> bool) -> bool {
    let mut variables = variables.split(|byte| *byte == 0).filter_map(|it| str::from_utf8(it).ok());
    let marks = variables.find_map(|it| it.strip_prefix(MARK)?.strip_prefix('='));
    marks.is_some_and(|marks| marks.split(SEPARATOR).any(is_wanted))
}

/// The variables a process began with; empty when it is somebody else's or has ended, none while it is between two
/// programs, when it shows nothing.
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
    // It became a program between the first two looks, or has no variables.
    Some(read("environ"))
}

/// When a process began, in ticks since the system did: with its number it is one process only.
pub fn start(pid: Pid) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the last parenthesis may hold blanks; the start is field 22.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}
