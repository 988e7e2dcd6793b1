//! Child processes in sessions and process groups of their own that end as a tree and never outlive the daemon.
#![expect(clippy::disallowed_methods, reason = "this module is the one place that makes a Command")]

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::{net::UnixStream, process::ExitStatusExt},
    },
    path::Path,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc,
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe,
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
};
use tokio_util::task::AbortOnDropHandle;

use crate::lock::lock;

use self::{child_table::Registration, tree::descendants};

pub mod child_table;
pub mod desktop;
pub mod pager;
pub mod reaper;
pub mod search;
pub mod tree;

/// The number of the descriptor that [`spawn_with_channel`] hands down.
pub const CHANNEL: RawFd = 3;

/// The number of the descriptor to which a child of [`spawn_reporting`] writes the exit status of its command.
pub const REPORT: RawFd = 4;

/// The number of the descriptor by which a sandbox's launcher hands over the listener of its command's network.
pub const DOOR: RawFd = 5;

/// The variable with the password of `windlass serve`. No program gets it: with it, a model's command could answer the
/// questions that are asked about its commands.
pub const SERVER_PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";

/// The usual variables with the address and the key of a database that machines share: with them a model's command could
/// be a machine of the fleet.
pub const SHARED: [&str; 2] = ["WINDLASS_SHARED_URL", "WINDLASS_SHARED_KEY"];

/// Names of further variables that no program gets.
static WITHHELD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps variables from all programs that are started from now on.
pub fn withhold(names: Vec<String>) {
    *lock(&WITHHELD) = names;
}

/// Returns the names of further variables that no program gets.
pub fn withheld() -> Vec<String> {
    lock(&WITHHELD).clone()
}

/// The description of a process to start.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// The program; looked up on PATH if it has no slash.
    pub program: &'a OsStr,
    /// The program's arguments.
    pub args: &'a [OsString],
    /// The working directory.
    pub directory: &'a Path,
    /// Variables set on top of the daemon's own environment.
    pub environment: &'a BTreeMap<String, String>,
    /// Names of variables that the child does not get.
    pub without: &'a [String],
    /// True if the child gets a pipe as its standard input; otherwise the input is empty.
    pub stdin: bool,
    /// True if the child may start processes. A child that does not can be ended by the kernel together with
    /// the daemon, where the kernel supports that, and then needs no reaper.
    pub is_parent: bool,
}

/// A step that a child takes between its fork and its program.
///
/// # Safety
///
/// `apply` runs in the copy of a process with several threads: it makes system calls only, and neither allocates nor
/// takes a lock.
#[expect(unsafe_code, reason = "what runs there has to keep to system calls, which only its author can know")]
pub unsafe trait BeforeProgram: Send + Sync {
    /// An error keeps the program from being started.
    fn apply(&self) -> io::Result<()>;
}

/// A running child and everything it started.
///
/// Dropping it kills the whole group at once.
#[derive(Debug)]
pub struct Child {
    inner: tokio::process::Child,
    group: Pid,
    /// Set after the group was killed: its number may belong to another group by then.
    is_group_killed: bool,
    /// Set after the leader was waited for: its number may belong to another process by then.
    is_reaped: bool,
    registration: Option<Registration>,
    /// Tells the exit status before the child has cleared away its program's namespaces.
    report: Option<pipe::Receiver>,
    /// The end at which a sandbox's launcher hands over the listener of its command's network.
    pub door: Option<UnixStream>,
    /// The proxy for the child's network, which ends with the child.
    pub proxy: Option<AbortOnDropHandle<()>>,
    /// The write end of the child's input; set if [`Spawn::stdin`] asked for it.
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
}

/// Starts a child as the leader of a new session, and so of a process group, with its output on pipes and no terminal.
///
/// Must be called on the runtime's own thread: on Linux the child asks to be killed when the thread that
/// started it ends. That is how it ends even if the daemon is killed without a chance to clean up. The reaper
/// ends the processes that the child has started by then.
pub fn spawn(spawn: &Spawn<'_>) -> io::Result<Child> {
    start(with_pipes(spawn), spawn, &[])
}

/// Starts a child as [`spawn`] does, or with a channel, which takes a step before its program runs.
pub fn spawn_with_step(
    spawn: &Spawn<'_>,
    step: Arc<dyn BeforeProgram>,
    channel: Option<OwnedFd>,
) -> io::Result<Child> {
    let mut command = with_pipes(spawn);
    let handed: Vec<(OwnedFd, RawFd)> = channel.into_iter().map(|channel| (channel, CHANNEL)).collect();
    prepare(&mut command, spawn, &handed);
    take_step(&mut command, step);
    run(command, spawn)
}

/// Starts a child as [`spawn`] does, which writes the exit status of its program to [`REPORT`], as the four bytes of
/// `wait(2)`, once that and all that it started have ended. A channel is its descriptor [`CHANNEL`].
pub fn spawn_reporting(
    spawn: &Spawn<'_>,
    channel: Option<OwnedFd>,
    door: Option<OwnedFd>,
) -> io::Result<Child> {
    let (reader, writer) = io::pipe()?;
    let numbered = [(Some(writer.into()), REPORT), (channel, CHANNEL), (door, DOOR)];
    let numbered = numbered.into_iter().filter_map(|(descriptor, number)| Some((descriptor?, number)));
    // None may have the number that another's copy takes.
    let above = |(descriptor, number): (OwnedFd, RawFd)| -> io::Result<(OwnedFd, RawFd)> {
        Ok((moved_above(descriptor, DOOR)?, number))
    };
    let handed: Vec<(OwnedFd, RawFd)> = numbered.map(above).collect::<io::Result<_>>()?;
    let mut child = start(with_pipes(spawn), spawn, &handed)?;
    child.report = Some(pipe::Receiver::from_owned_fd(reader.into())?);
    Ok(child)
}

/// Returns the descriptor, or a copy of it if its number is not above another.
#[expect(unsafe_code, reason = "a descriptor that was made is a number until it is owned")]
fn moved_above(descriptor: OwnedFd, number: RawFd) -> io::Result<OwnedFd> {
    if descriptor.as_raw_fd() > number {
        return Ok(descriptor);
    }
    let copy = fcntl(&descriptor, FcntlArg::F_DUPFD_CLOEXEC(number + 1))?;
    // SAFETY: the kernel has just given us this descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Starts a child as [`spawn`] does, with one end of a channel as its descriptor [`CHANNEL`].
pub fn spawn_with_channel(spawn: &Spawn<'_>, channel: OwnedFd) -> io::Result<Child> {
    start(with_pipes(spawn), spawn, &[(channel, CHANNEL)])
}

fn with_pipes(spawn: &Spawn<'_>) -> Command {
    let mut command = Command::new(spawn.program);
    command
        .stdin(if spawn.stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Without a terminal of its own, a program that would ask there fails at once instead of waiting, or drawing over
    // the screen.
    lead_session(&mut command, false);
    command
}

/// Starts a child as the leader of a new session on a terminal, which is its input and output.
///
/// Must be called on the runtime's own thread, as [`spawn`].
pub fn spawn_on_terminal(spawn: &Spawn<'_>, terminal: OwnedFd) -> io::Result<Child> {
    let mut command = Command::new(spawn.program);
    command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
    lead_session(&mut command, true);
    start(command, spawn, &[])
}

/// Starts a command with descriptors under numbers of their own.
fn start(mut command: Command, spawn: &Spawn<'_>, handed: &[(OwnedFd, RawFd)]) -> io::Result<Child> {
    prepare(&mut command, spawn, handed);
    run(command, spawn)
}

fn prepare(command: &mut Command, spawn: &Spawn<'_>, handed: &[(OwnedFd, RawFd)]) {
    command.args(spawn.args).current_dir(spawn.directory).envs(search::variable()).envs(spawn.environment);
    command.env_remove(SERVER_PASSWORD);
    for name in SHARED {
        command.env_remove(name);
    }
    for name in lock(&WITHHELD).iter() {
        command.env_remove(name);
    }
    for name in spawn.without {
        command.env_remove(name);
    }
    #[cfg(target_os = "linux")]
    die_with_parent(command);
    // Behind the closure that lets all other descriptors close.
    for (descriptor, number) in handed {
        hand_down(command, descriptor, *number);
    }
}

fn run(mut command: Command, spawn: &Spawn<'_>) -> io::Result<Child> {
    // Registered before the start, so that no process it starts is missed. A failed start drops the
    // registration.
    let registration = if spawn.is_parent { child_table::register() } else { None };
    if let Some(registration) = &registration {
        command.env(tree::CHILD_TAG, &registration.tags);
    }
    let mut inner = command.spawn()?;
    let id = inner.id().and_then(|id| i32::try_from(id).ok());
    let group = Pid::from_raw(id.ok_or_else(|| io::Error::other("the child ended before it was seen"))?);
    if let Some(registration) = &registration {
        registration.set_group(group);
    }
    Ok(Child {
        stdin: inner.stdin.take(),
        stdout: inner.stdout.take(),
        stderr: inner.stderr.take(),
        inner,
        group,
        is_group_killed: false,
        is_reaped: false,
        registration,
        report: None,
        door: None,
        proxy: None,
    })
}

/// Gives the child a descriptor under a number.
#[expect(unsafe_code, reason = "pre_exec is unsafe; the closure makes two async-signal-safe system calls")]
fn hand_down(command: &mut Command, descriptor: &OwnedFd, number: RawFd) {
    let descriptor = descriptor.as_raw_fd();
    // SAFETY: dup2 and fcntl are plain system calls; they neither allocate nor take locks. The caller keeps the
    // descriptor open until the child is started.
    unsafe {
        command.pre_exec(move || {
            if descriptor == number {
                // dup2 would leave it to be closed on exec.
                Errno::result(libc::fcntl(descriptor, libc::F_SETFD, 0))?;
            } else {
                Errno::result(libc::dup2(descriptor, number))?;
            }
            Ok(())
        });
    }
}

#[expect(unsafe_code, reason = "pre_exec is unsafe; the step's author vouches for it")]
fn take_step(command: &mut Command, step: Arc<dyn BeforeProgram>) {
    // SAFETY: the step makes system calls only, as the trait demands.
    unsafe {
        command.pre_exec(move || step.apply());
    }
}

/// Makes the child leader of a session, and thereby of a group. Its terminal is its standard input, or it has none.
#[expect(unsafe_code, reason = "pre_exec is unsafe; the closure makes two async-signal-safe system calls")]
fn lead_session(command: &mut Command, has_terminal: bool) {
    // SAFETY: setsid and ioctl are plain system calls; they neither allocate nor take locks.
    unsafe {
        command.pre_exec(move || {
            nix::unistd::setsid()?;
            if has_terminal {
                Errno::result(libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY as _, 0))?;
            }
            Ok(())
        });
    }
}

/// Runs a child to its end and returns its output, cut to `max_bytes`.
pub async fn output(spawn: &Spawn<'_>, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut child = self::spawn(spawn)?;
    let mut printed = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(max_bytes).read_to_end(&mut printed).await?;
    }
    child.wait().await?;
    Ok(printed)
}

/// Prevents other processes of the same user from reading this process's memory and environment, which hold
/// keys.
pub fn hide() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::warn!(%error, "other programs of the same user can read the memory of this process");
    }
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "pre_exec is unsafe; the closure makes three async-signal-safe system calls")]
fn die_with_parent(command: &mut Command) {
    let parent = Pid::this();
    // SAFETY: close_range, prctl and getppid are plain system calls; they neither allocate nor take locks.
    unsafe {
        command.pre_exec(move || {
            // Our own descriptors are closed on exec; descriptors that our parent left open may not be. A
            // kernel without this system call leaves them open.
            let (first, last) = (3 as libc::c_uint, libc::c_uint::MAX);
            libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC);
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // A parent that has already ended sends no signal.
            if nix::unistd::getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
        });
    }
}

impl Child {
    /// The process group that it leads.
    pub fn group(&self) -> Pid {
        self.group
    }

    /// Waits for the child itself; processes it left in its group may still run.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(report) = &mut self.report {
            // The four bytes come at once or not at all.
            let reported = report.read_i32_le().await;
            self.report = None;
            if let Ok(status) = reported {
                // The child has nobody left to end, and ends itself.
                (self.is_reaped, self.is_group_killed) = (true, true);
                return Ok(ExitStatus::from_raw(status));
            }
        }
        let status = self.inner.wait().await;
        self.is_reaped = status.is_ok();
        status
    }

    /// Ends the whole group: SIGTERM, then SIGKILL after `grace` or as soon as the leader is gone.
    pub async fn end(&mut self, grace: Duration) -> Option<ExitStatus> {
        // Descendants that left the group by `setsid` are found by their parents, as long as those live.
        let descendants = if self.is_reaped { Vec::new() } else { descendants(self.group) };
        self.signal(Signal::SIGTERM);
        for pid in &descendants {
            let _ = kill(*pid, Signal::SIGTERM);
        }
        let exited = tokio::time::timeout(grace, self.wait()).await;
        self.kill_group();
        for pid in &descendants {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        self.kill_later();
        match exited {
            Ok(status) => status.ok(),
            Err(_) => self.wait().await.ok(),
        }
    }

    /// Kills the processes that the leader left in its group.
    pub fn kill_group(&mut self) {
        if !self.is_group_killed {
            self.signal(Signal::SIGKILL);
            self.is_group_killed = true;
        }
    }

    /// Asks the reaper to kill descendants that left the group and lost their parents.
    fn kill_later(&self) {
        if let Some(registration) = &self.registration {
            registration.kill_later();
        }
    }

    fn signal(&self, signal: Signal) {
        // ESRCH means that the group has already ended.
        let _ = killpg(self.group, signal);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let is_known = !self.is_group_killed && !self.is_reaped;
        let descendants = if is_known { descendants(self.group) } else { Vec::new() };
        self.kill_group();
        for pid in descendants {
            let _ = kill(pid, Signal::SIGKILL);
        }
        if is_known {
            self.kill_later();
        }
    }
}

#[cfg(test)]
mod tests;
