//! The task of one server: connects, keeps its tools up to date, and ends its process without leftovers.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::PathBuf,
    process::ExitStatus,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_base::{
    self as base,
    lock::lock,
    process::{self, Child, Spawn},
    stderr,
};
use windlass_core::config::sandbox::enclosure::Enclosure;
use windlass_protocol::opencode::event::EventPayload;

use super::{
    Server, Shared, Slot, Status, linked,
    pipes::Pipes,
    remote,
    session::{GRACE, SessionEnd, Task, session},
};

/// Times that a local server which dies is started again before it is given up.
const MAX_REVIVALS: u32 = 20;
/// The longest time between two such starts.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// Time after which a server counts as one that stays.
const SETTLED_AFTER: Duration = Duration::from_secs(60);
/// The time limit for immediate consequences of a process's end: its status, its last output.
const AFTERMATH: Duration = Duration::from_secs(1);

/// Serves the slot until it is stopped or its server cannot be had; one that died is started again.
pub(super) async fn run(shared: Arc<Shared>, slot: Arc<Slot>, slot_id: usize) {
    let slot = &*slot;
    let task = Task { shared: &shared, slot, slot_id, stop: slot.stop.clone() };
    let is_remote = match &slot.spec.server {
        Server::Local { .. } | Server::Linked(_) => false,
        // An address that is none stays none.
        Server::Remote { url, .. } => reqwest::Url::parse(url).is_ok(),
    };
    let mut revivals = Revivals::new(is_remote);
    loop {
        let began = Instant::now();
        let status = once(&task).await;
        let has_failed = match &status {
            Status::Failed { error } if revivals.n_tried > 0 && !revivals.has_connected => {
                tracing::debug!(server = slot.spec.name, "{error}");
                true
            }
            Status::Failed { error } => {
                tracing::warn!(server = slot.spec.name, "{error}");
                true
            }
            Status::NeedsAuth => {
                tracing::warn!(server = slot.spec.name, "the MCP server wants a login");
                false
            }
            Status::NeedsClientRegistration { error } => {
                tracing::warn!(server = slot.spec.name, "{error}");
                false
            }
            Status::Disabled | Status::Connecting | Status::Connected => false,
        };
        let was_connected = {
            let state = slot.lock();
            state.connection.is_some() || state.has_lost_connection
        };
        let delay = if has_failed { revivals.delay(was_connected, began.elapsed()) } else { None };
        // One that is started again at once is never seen as failed: a prompt between would go on without it.
        let is_back_at_once = was_connected && delay == Some(Duration::ZERO);
        shared.end(slot, if is_back_at_once { Status::Connecting } else { status });
        let Some(delay) = delay else { return };
        tokio::select! {
            biased;
            () = task.stop.cancelled() => {
                shared.end(slot, Status::Disabled);
                return;
            }
            () = sleep(delay) => {}
        }
        // One that was never there is looked for in silence, and no prompt waits for it.
        if revivals.has_connected {
            tracing::info!(server = slot.spec.name, "the MCP server is started again");
            shared.begin_again(slot, delay.is_zero());
        }
    }
}

/// Decides when a server is started again: one that died at once, and then ever later until it stays. A remote one that
/// was never there is tried as one that died twice, without end: it may be down, or the network.
#[derive(Debug)]
struct Revivals {
    is_remote: bool,
    has_connected: bool,
    n_tried: u32,
}

impl Revivals {
    fn new(is_remote: bool) -> Self {
        Self { is_remote, has_connected: false, n_tried: 0 }
    }

    /// Returns the time to wait; `None` for a local server that was never there, and for one that does not stay.
    fn delay(&mut self, was_connected: bool, lived: Duration) -> Option<Duration> {
        self.has_connected |= was_connected;
        if was_connected && lived >= SETTLED_AFTER {
            self.n_tried = 0;
        }
        if !self.is_remote && (!self.has_connected || self.n_tried == MAX_REVIVALS) {
            return None;
        }
        let delay = backoff(if self.has_connected { self.n_tried } else { self.n_tried + 1 });
        self.n_tried = self.n_tried.saturating_add(1);
        Some(delay)
    }
}

/// Returns the time to wait after this many attempts: none, then a second, doubled up to the longest.
fn backoff(n_before: u32) -> Duration {
    let seconds = n_before.checked_sub(1).map_or(0, |doublings| 1_u64 << doublings.min(6));
    Duration::from_secs(seconds).min(LONGEST_DELAY)
}

/// Serves the slot until its connection ends or it is stopped.
async fn once(task: &Task<'_>) -> Status {
    let (shared, slot) = (task.shared, task.slot);
    match &slot.spec.server {
        Server::Local { command, cwd, environment } => {
            let directory = cwd.as_ref().map_or_else(PathBuf::new, PathBuf::from);
            let directory = shared.directory().join(directory);
            match command.split_first() {
                None => task.failed("has an empty command"),
                Some((program, args)) => {
                    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
                    let program = OsStr::new(program);
                    let spawn = Spawn {
                        program,
                        args: &args,
                        directory: &directory,
                        environment,
                        stdin: true,
                        without: &[],
                        is_parent: true,
                    };
                    local(task, &spawn).await
                }
            }
        }
        Server::Remote { url, headers, oauth } => remote::run(task, url, headers, oauth.as_ref()).await,
        Server::Linked(link) => linked::run(task, link).await,
    }
}

impl Shared {
    /// Records that a server which died is being started again.
    fn begin_again(&self, slot: &Slot, is_awaited: bool) {
        {
            let mut state = slot.lock();
            state.status = Status::Connecting;
            state.is_awaited = is_awaited;
        }
        self.changes.send_replace(());
    }

    /// Records that a connection has ended: none of its tools is offered from now on. Prompts wait until the server's
    /// next state is decided.
    pub(super) fn lose(&self, slot: &Slot) {
        {
            let mut state = slot.lock();
            if state.connection.take().is_none() {
                return;
            }
            state.has_lost_connection = true;
            state.status = Status::Connecting;
            state.is_awaited = true;
        }
        self.rebuild_table();
        self.changes.send_replace(());
    }

    /// Records that a server has ended. Prompts wait for one if its status is then [`Status::Connecting`].
    fn end(&self, slot: &Slot, status: Status) {
        let was_connected = {
            let mut state = slot.lock();
            state.is_awaited |= status == Status::Connecting;
            state.status = status;
            let has_lost = std::mem::take(&mut state.has_lost_connection);
            state.connection.take().is_some() || has_lost
        };
        self.retire(&slot.spec.name);
        self.rebuild_table();
        self.changes.send_replace(());
        if was_connected {
            self.bus.publish(EventPayload::McpToolsChanged { server: slot.spec.name.clone() });
        }
    }
}

async fn local(task: &Task<'_>, spawn: &Spawn<'_>) -> Status {
    let spawned = {
        // One after another: each start takes the runtime's thread for milliseconds.
        let _turn = task.shared.starts.acquire().await;
        let spawned = match &task.spec().sandbox {
            Some(sandbox) => sandbox.spawn(spawn).await,
            None => process::spawn(spawn),
        };
        // Messages that came meanwhile, such as the end that `session/new` waits for, are taken before the next start.
        tokio::task::yield_now().await;
        spawned
    };
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => return not_started(task, spawn, &error),
    };
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return task.failed("has no pipes");
    };
    let last_line = Arc::new(Mutex::new(String::new()));
    let mut log = AbortOnDropHandle::new(tokio::spawn({
        let (spec, last_line) = (task.spec().clone(), last_line.clone());
        async move { stderr::log_lines(&spec.name, stderr, |line| spec.masked(line), &last_line, |_| ()).await }
    }));
    let cancel = CancellationToken::new();
    let end = {
        let pipes =
            Pipes::new(stdout, stdin, task.spec().name.clone(), task.shared.directories.results.clone());
        let session = session(task, pipes, cancel.clone());
        tokio::pin!(session);
        tokio::select! {
            biased;
            () = task.stop.cancelled() => {
                // Closes the server's standard input, which makes a well-behaved server end.
                cancel.cancel();
                child.end(GRACE).await;
                return Status::Disabled;
            }
            end = &mut session => match end {
                // The process ends because we have left it.
                SessionEnd::UnknownVersion(_) | SessionEnd::Silent(_) => LocalEnd::Lost(end),
                end => match timeout(AFTERMATH, child.wait()).await {
                    Ok(Ok(status)) => LocalEnd::Exited(status),
                    Ok(Err(_)) | Err(_) => LocalEnd::Lost(end),
                },
            },
            exited = child.wait() => {
                // Closes the pipe even if another process of the group has it open, so that the session reads
                // the last answers and then ends by itself.
                child.kill_group();
                task.shared.lose(task.slot);
                let end = timeout(AFTERMATH, &mut session).await.unwrap_or(SessionEnd::Closed);
                exited.map_or(LocalEnd::Lost(end), LocalEnd::Exited)
            }
        }
    };
    let what = match end {
        LocalEnd::Exited(status) => format!("stopped ({status})"),
        LocalEnd::Lost(end) => {
            child.end(GRACE).await;
            end.describe(task.spec())
        }
    };
    finish(task, child, &mut log, &last_line, what).await
}

enum LocalEnd {
    Exited(ExitStatus),
    Lost(SessionEnd),
}

fn not_started(task: &Task<'_>, spawn: &Spawn<'_>, error: &io::Error) -> Status {
    let program = spawn.program.display();
    let directory = spawn.directory.display();
    match error.kind() {
        io::ErrorKind::NotFound if !spawn.directory.is_dir() => {
            task.failed(&format!("could not be started: its directory {directory} does not exist"))
        }
        io::ErrorKind::NotFound => {
            task.failed(&format!("could not be started: install {program} or correct the command"))
        }
        _ => task.failed(&format!("could not be started with {program}: {}", base::cause::innermost(error))),
    }
}

async fn finish(
    task: &Task<'_>,
    mut child: Child,
    log: &mut AbortOnDropHandle<()>,
    last_line: &Mutex<String>,
    what: String,
) -> Status {
    child.kill_group();
    // With the group gone the pipe is at its end, unless a process outside the group has it open.
    let _ = timeout(AFTERMATH, log).await;
    let last_line = lock(last_line);
    let hint = task.spec().sandbox.as_ref().and_then(Enclosure::hint);
    let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    let words = if last_line.is_empty() { String::new() } else { format!(": {last_line}") };
    task.failed(&format!("{what}{words}{hint}"))
}

#[cfg(test)]
mod tests {
    //! The times at which servers are started again.

    use super::{Duration, Revivals, SETTLED_AFTER, backoff};

    #[test]
    fn the_time_between_two_attempts_doubles_up_to_a_minute() {
        let seconds: Vec<u64> = (0..9).map(|n_before| backoff(n_before).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff(u32::MAX), Duration::from_secs(60));
    }

    #[test]
    fn a_local_server_is_given_up_and_a_remote_one_is_not() {
        let delays = |is_remote: bool, was_connected: bool| {
            let mut revivals = Revivals::new(is_remote);
            (0..100).map_while(|_| revivals.delay(was_connected, Duration::ZERO)).collect::<Vec<_>>()
        };
        assert!(delays(false, false).is_empty());
        assert_eq!(delays(false, true).len(), 20);
        assert_eq!((delays(true, true).len(), delays(true, false).len()), (100, 100));
        let first = |delays: Vec<Duration>| delays[..3].iter().map(Duration::as_secs).collect::<Vec<_>>();
        assert_eq!((first(delays(true, true)), first(delays(true, false))), (vec![0, 1, 2], vec![1, 2, 4]));
    }

    #[test]
    fn one_that_has_stayed_is_started_again_at_once() {
        let mut revivals = Revivals::new(false);
        for _ in 0..20 {
            assert!(revivals.delay(true, Duration::ZERO).is_some());
        }
        assert_eq!(revivals.delay(true, SETTLED_AFTER), Some(Duration::ZERO));
        assert_eq!(revivals.delay(false, Duration::ZERO), Some(Duration::from_secs(1)));
    }
}
