//! Running children of this process: each has a number and a tag, and a reaper kills them if the daemon ends
//! first.

use std::{
    io::{self, PipeWriter, Write},
    path::PathBuf,
    process::Stdio,
    sync::Mutex,
    time::Duration,
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::signal::SigSet,
    unistd::{Pid, setsid},
};
use tokio::process::{Child, Command};

use super::{
    reaper::{self, Record},
    tree::SEPARATOR,
};
use crate::{ids, lock::lock};

/// Maximum time that the end of this process waits for the end of its reaper, which has nothing left to do by
/// then.
const CLOSE_LIMIT: Duration = Duration::from_millis(250);
const ID_CHARS: usize = 12;

static CHILD_TABLE: Mutex<ChildTable> =
    Mutex::new(ChildTable { tags: None, n_children: 0, running: Vec::new(), reaper: None });

/// Turns registration on, for a program that can be its own reaper; `inherited` holds the tags of this process
/// itself.
pub fn open(inherited: Option<&str>) {
    let inherited = inherited.map(|tags| format!("{tags}{SEPARATOR}")).unwrap_or_default();
    lock(&CHILD_TABLE).tags = Some(Tags { daemon: ids::random(ID_CHARS), inherited });
}

/// Returns the tags of this process itself, which a windlass has started.
pub fn inherited() -> String {
    lock(&CHILD_TABLE).tags.as_ref().map(|tags| tags.inherited.clone()).unwrap_or_default()
}

/// Returns true if a windlass has started this process, as far as it has left its variables alone.
pub fn is_child() -> bool {
    !inherited().is_empty()
}

/// Closes the reaper's pipe and waits for the reaper, which kills the children that are still registered.
pub async fn close() {
    let reaper = lock(&CHILD_TABLE).reaper.take();
    let Some(Reaper { pipe, mut process }) = reaper else { return };
    drop(pipe);
    let _ = tokio::time::timeout(CLOSE_LIMIT, process.wait()).await;
}

/// Registers a child that is about to be started.
pub(super) fn register() -> Option<Registration> {
    lock(&CHILD_TABLE).register()
}

/// The registration of a child, dropped when the child has ended.
#[derive(Debug)]
pub(super) struct Registration {
    child: u64,
    /// The value of [`CHILD_TAG`] for the child.
    pub(super) tags: String,
}

impl Registration {
    pub(super) fn set_group(&self, group: Pid) {
        let mut child_table = lock(&CHILD_TABLE);
        if let Some((_, known)) = child_table.running.iter_mut().find(|(child, _)| *child == self.child) {
            *known = Some(group);
        }
        child_table.send(Record::Group(group), self.child);
    }

    /// Makes the reaper kill all processes that the child started, even those that left its group.
    pub(super) fn kill_later(&self) {
        lock(&CHILD_TABLE).send(Record::Kill, self.child);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut child_table = lock(&CHILD_TABLE);
        child_table.running.retain(|(child, _)| *child != self.child);
        child_table.send(Record::Exited, self.child);
    }
}

struct ChildTable {
    /// Set by [`open`]. Unset in unit tests, because their program is no reaper; nothing is registered then.
    tags: Option<Tags>,
    n_children: u64,
    /// Children and the groups that they lead.
    running: Vec<(u64, Option<Pid>)>,
    /// Started with the first child, and restarted with the next child after it was lost.
    reaper: Option<Reaper>,
}

struct Tags {
    /// A name that no other process has.
    daemon: String,
    /// The tags of this process itself, so that killing by one of them reaches our children too.
    inherited: String,
}

impl ChildTable {
    fn register(&mut self) -> Option<Registration> {
        let Tags { daemon, inherited } = self.tags.as_ref()?;
        let child = self.n_children;
        let tags = format!("{inherited}{}", reaper::tag(daemon, child));
        self.n_children += 1;
        self.send(Record::Spawned, child);
        self.running.push((child, None));
        if self.reaper.is_none() {
            self.start_reaper();
        }
        Some(Registration { child, tags })
    }

    fn start_reaper(&mut self) {
        let Some(tags) = &self.tags else { return };
        match Reaper::start(&tags.daemon) {
            Ok(reaper) => self.reaper = Some(reaper),
            Err(error) => tracing::warn!(
                %error,
                "no reaper could be started: should windlass be killed, what its commands have started lives on"
            ),
        }
        for (child, group) in self.running.clone() {
            self.send(group.map_or(Record::Spawned, Record::Group), child);
        }
    }

    fn send(&mut self, record: Record, child: u64) {
        let Some(reaper) = &mut self.reaper else { return };
        if let Err(error) = reaper.pipe.write(&reaper::encode(record, child)) {
            tracing::warn!(%error, "the reaper is lost; the next child gets another");
            // A reaper that has not read for thousands of records is stuck. It must not take the closed pipe
            // for our end.
            let _ = reaper.process.start_kill();
            self.reaper = None;
        }
    }
}

struct Reaper {
    pipe: PipeWriter,
    process: Child,
}

impl Reaper {
    fn start(daemon: &str) -> io::Result<Self> {
        // Both ends are closed on exec in every program that is started.
        let (input, pipe) = io::pipe()?;
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let mut command = Command::new(program()?);
        command
            .arg0("windlass")
            .args([reaper::COMMAND, daemon])
            // It needs no variable, and any program of the user could read them.
            .env_clear()
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        detach(&mut command);
        Ok(Self { pipe, process: command.spawn()? })
    }
}

/// Returns the path of this very program, even if its file has been replaced meanwhile.
fn program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

#[expect(unsafe_code, reason = "pre_exec is unsafe; the closure makes two async-signal-safe system calls")]
fn detach(command: &mut Command) {
    // SAFETY: setsid and sigprocmask are plain system calls; they neither allocate nor take locks.
    unsafe {
        command.pre_exec(|| {
            // A signal to our group, our terminal or our process must not end the reaper before it has done its
            // work.
            setsid()?;
            SigSet::all().thread_block()?;
            Ok(())
        });
    }
}
