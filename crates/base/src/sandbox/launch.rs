//! The launcher: draws a boundary around a command, or draws it and waits for the command.
//!
//! In the full level it stays outside and starts the first process of new namespaces, which starts the command, buries
//! the processes that lose their parents, and takes everything with it when the command ends. It reports that to the
//! daemon before the kernel clears the namespaces away. The first process dies with the launcher, the launcher with the
//! daemon.
#![expect(
    clippy::disallowed_methods,
    reason = "the command is the launcher's own child, within its boundary"
)]

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode, ExitStatus},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sched::CloneFlags,
    sys::{
        prctl,
        signal::{SigSet, Signal, kill},
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, chdir, dup2_stdin, getegid, geteuid, setsid},
};

use super::{
    arguments::{self, Order},
    boundary::{Boundary, Level, Network},
    launcher::{COMPLAINT, FAILED, FOUND_LANDLOCK, FOUND_NONE, PROBE, REPORTING, WAITING, WITH_CHANNEL},
    mounts, network,
    restriction::Restriction,
    sys,
};

/// Draws a boundary around nothing, the strongest first, and returns the exit status that tells its level. Standard
/// error says why a level could not be had.
///
/// This process can do nothing else afterwards.
pub(super) fn probe() -> u8 {
    let empty = |level| Boundary {
        level,
        network: Network::Allowed,
        writable: Vec::new(),
        protected: Vec::new(),
        hidden: Vec::new(),
        shown: Vec::new(),
        sockets: Vec::new(),
    };
    let full = Order { boundary: empty(Level::Full), directory: "/".into(), command: Vec::new() };
    match outside(full, None, Handed::default()) {
        Ok(ExitCode::SUCCESS) => return 0,
        // The first process has said why.
        Ok(_) => {}
        Err(error) => complain(&error),
    }
    match Restriction::new(&empty(Level::Landlock)).and_then(|it| it.apply()) {
        Ok(()) => FOUND_LANDLOCK,
        Err(error) => {
            complain(&error);
            FOUND_NONE
        }
    }
}

pub(super) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.peekable();
    if arguments.next_if(|it| it == PROBE).is_some() {
        return ExitCode::from(probe());
    }
    let is_waiting = arguments.next_if(|it| it == WAITING).is_some();
    let is_reporting = arguments.next_if(|it| it == REPORTING).is_some();
    let has_channel = arguments.next_if(|it| it == WITH_CHANNEL).is_some();
    let result = match arguments::decode(arguments) {
        Some(order) => launch(order, is_reporting, is_waiting, has_channel),
        None => Err(io::Error::other("it was started by somebody else than windlass")),
    };
    result.unwrap_or_else(|error| fail(&error))
}

fn fail(error: &io::Error) -> ExitCode {
    complain(error);
    ExitCode::from(FAILED)
}

fn complain(error: &io::Error) {
    let text = format!("{COMPLAINT}{error}\n");
    let _ = io::stderr().write_all(text.as_bytes());
}

fn launch(order: Order, is_reporting: bool, is_waiting: bool, has_channel: bool) -> io::Result<ExitCode> {
    sys::close_others_on_exec()?;
    let channel = if has_channel { Some(sys::channel()?) } else { None };
    prctl::set_name(c"windlass-box")?;
    if order.boundary.level == Level::Full {
        let input = if is_waiting { Some(Input::open()?) } else { None };
        let door = (order.boundary.network == Network::Named).then(sys::door);
        return outside(order, input, Handed { report: is_reporting.then(sys::report), channel, door });
    }
    Restriction::new(&order.boundary)?.apply()?;
    chdir(order.directory.as_path())?;
    Err(command(&order).exec())
}

/// The input of a launcher that waits: it tells the command, and is then replaced by the command's own, an empty one.
struct Input {
    empty: File,
}

impl Input {
    fn open() -> io::Result<Self> {
        Ok(Self { empty: File::open("/dev/null")? })
    }

    /// Waits for the command. Fails when the daemon has no use for this launcher.
    fn read(self, order: &mut Order) -> io::Result<()> {
        let mut bytes = Vec::new();
        sys::input()?.read_to_end(&mut bytes)?;
        let told = arguments::decode_command(&bytes).ok_or(io::ErrorKind::UnexpectedEof)?;
        (order.directory, order.command) = told;
        Ok(dup2_stdin(&self.empty)?)
    }
}

/// Returns the program to run inside the boundary.
fn command(order: &Order) -> Command {
    let (program, arguments) =
        order.command.split_first().map_or((Default::default(), &[][..]), |it| (it.0.clone(), it.1));
    let mut command = Command::new(program);
    command.args(arguments);
    let has_temporary = order.boundary.writable.iter().any(|it| Path::new("/tmp").starts_with(it));
    if order.boundary.level == Level::Full && !has_temporary {
        command.env("TMPDIR", mounts::SHARED_MEMORY);
    }
    command
}

/// The descriptors that the daemon handed down.
#[derive(Default)]
struct Handed {
    /// A pipe from the launcher and the first process to the daemon.
    report: Option<File>,
    /// The command's own, which nobody else holds open for long.
    channel: Option<OwnedFd>,
    /// Takes the listener of the command's network.
    door: Option<OwnedFd>,
}

/// Two pipes between the launcher and the first process, and the descriptors that the daemon handed down.
struct Pipes {
    go: (PipeReader, PipeWriter),
    status: (PipeReader, PipeWriter),
    handed: Handed,
}

/// Runs the launcher: starts the first process, and ends as the command did.
fn outside(mut order: Order, mut input: Option<Input>, handed: Handed) -> io::Result<ExitCode> {
    // The daemon sends its signals to the command as well; the launcher ends with it, or is killed.
    SigSet::all().thread_block()?;
    let sockets = mounts::bound_sockets();
    let mut pipes = Some(Pipes { go: io::pipe()?, status: io::pipe()?, handed });
    let mut flags = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    flags |= CloneFlags::CLONE_NEWIPC;
    if order.boundary.network.is_own() {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    let first = sys::clone(
        flags,
        Box::new(|| {
            // The child takes its copy of the pipes; the launcher's own stays.
            let result = pipes.take().map(|pipes| inside(&mut order, input.take(), pipes, &sockets));
            match result.unwrap_or_else(|| Err(io::Error::other("it was started twice"))) {
                Ok(()) => 0,
                Err(error) => {
                    fail(&error);
                    FAILED.into()
                }
            }
        }),
    )?;
    let Some(Pipes { go: (_, mut go), status: (mut status, status_writer), handed }) = pipes else {
        return Err(io::Error::other("the pipes are gone"));
    };
    let Handed { report, channel, door } = handed;
    drop((status_writer, channel, door));
    let is_reported = report.is_some();
    // Closed when the first process is gone.
    drop(report);
    if let Err(error) = map_users(first) {
        let _ = kill(first, Signal::SIGKILL);
        return Err(error);
    }
    // Only now: a process that hides its memory may not name the users of its namespaces. The command's variables, which
    // are ours too, are nobody else's business.
    prctl::set_dumpable(false)?;
    go.write_all(&[0])?;
    if is_reported {
        // The daemon does not wait until the namespaces are cleared away.
        sys::close_output();
    }
    let mut bytes = [0; 4];
    let said = status.read_exact(&mut bytes).map(|()| ExitStatus::from_raw(i32::from_le_bytes(bytes)));
    // Everything in the namespace is gone by the time its first process is.
    let _ = waitpid(first, None);
    Ok(match said {
        Ok(status) => end_as(status),
        Err(_) => ExitCode::from(FAILED),
    })
}

fn end_as(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal().and_then(|number| Signal::try_from(number).ok()) {
        // The command has left its core, if any.
        let _ = prctl::set_dumpable(false);
        sys::reset_signal(signal);
        let _ = kill(Pid::this(), signal);
        let _ = SigSet::from_iter([signal]).thread_unblock();
        return ExitCode::from(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX));
    }
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}

/// Names the users of the new namespace: all as they are when we are root, ourselves otherwise.
fn map_users(first: Pid) -> io::Result<()> {
    let write = |file: &str, text: &str| fs::write(format!("/proc/{first}/{file}"), text);
    let (user, group) = (geteuid(), getegid());
    if user.is_root() {
        let extents = |file: &str| -> io::Result<String> {
            let table = fs::read_to_string(format!("/proc/self/{file}"))?;
            let extents = table.lines().filter_map(|line| {
                let mut fields = line.split_ascii_whitespace();
                let (start, _, length) = (fields.next()?, fields.next()?, fields.next()?);
                Some(format!("{start} {start} {length}\n"))
            });
            Ok(extents.collect())
        };
        let all = extents("uid_map").and_then(|users| Ok((users, extents("gid_map")?)));
        if let Ok((users, groups)) = all
            && write("uid_map", &users).is_ok()
        {
            return write("gid_map", &groups);
        }
    }
    write("uid_map", &format!("{user} {user} 1"))?;
    write("setgroups", "deny")?;
    write("gid_map", &format!("{group} {group} 1"))
}

/// Runs the first process, which ends with the command.
fn inside(order: &mut Order, input: Option<Input>, pipes: Pipes, sockets: &[PathBuf]) -> io::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The launcher's ends are closed here, or its death would go unseen.
    let Pipes { go: (go, _), status: (_, mut status), handed: Handed { report, channel, door } } = pipes;
    wait_for_users(go, &status)?;
    // Its pipes and variables are none of the command's business.
    prctl::set_dumpable(false)?;
    setsid()?;
    mounts::apply(&order.boundary, sockets)?;
    if order.boundary.network.is_own() {
        sys::raise_loopback()?;
    }
    if let Some(door) = door {
        network::hand_over(door)?;
    }
    Restriction::new(&order.boundary)?.apply()?;
    if let Some(input) = input {
        input.read(order)?;
    }
    // By its path, which leads to the new mounts; the old directory is below them.
    chdir(order.directory.as_path()).or_else(|_| chdir(Path::new("/")))?;
    // The command inherits the blocked signals; the first process of a namespace ignores those that it has no handler
    // for.
    SigSet::all().thread_unblock()?;
    let code = match order.command.first() {
        Some(program) => run_command(order, program, channel)?,
        None => 0,
    };
    if let Some(mut report) = report {
        end_all();
        sys::close_output();
        report.write_all(&code.to_le_bytes())?;
    }
    status.write_all(&code.to_le_bytes())
}

/// Runs the command and buries every process that has lost its parent. Returns its status, as `wait(2)` has it.
fn run_command(order: &Order, program: &OsStr, channel: Option<OwnedFd>) -> io::Result<i32> {
    let started = command(order).spawn();
    // The command has its copy; its end must be seen.
    drop(channel);
    let main = match started {
        Ok(child) => Pid::from_raw(child.id().cast_signed()),
        Err(error) => {
            let program = program.to_string_lossy();
            let text = format!("windlass: {program} could not be started in the sandbox: {error}\n");
            let _ = io::stderr().write_all(text.as_bytes());
            return Ok(i32::from(FAILED) << 8);
        }
    };
    loop {
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, code)) if pid == main => return Ok(code << 8),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == main => return Ok(signal as i32),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Ends everybody else in the namespace, as the end of its first process would, and waits for it.
fn end_all() {
    let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    while !matches!(waitpid(None, None), Err(Errno::ECHILD)) {}
}

/// Waits until the launcher has named our users. It may have died before it could take us with it.
fn wait_for_users(mut go: PipeReader, status: &PipeWriter) -> io::Result<()> {
    go.read_exact(&mut [0])?;
    let mut launcher = [PollFd::new(status.as_fd(), PollFlags::empty())];
    poll(&mut launcher, PollTimeout::ZERO)?;
    let is_gone = launcher[0].revents().is_some_and(|it| it.contains(PollFlags::POLLERR));
    if is_gone { Err(io::Error::other("the launcher is gone")) } else { Ok(()) }
}
