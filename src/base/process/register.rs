//! Our children as long as they run: numbered, marked, and told to a reaper that ends them should we die first.

use std::{
    io::{self, PipeWriter, Write},
    path::PathBuf,
    process::Stdio,
    sync::Mutex,
    time::Duration,
};

use nix::{
    sys::signal::SigSet,
    unistd::{Pid, setsid},
};
use tokio::process::{Child, Command};

use super::{
    reaper::{self, Record},
    tree::{MARK, SEPARATOR},
};
use crate::base::{ids, lock::lock};

/// How long the end of the process waits for the end of its reaper, which has nothing to do by then.
const CLOSE_LIMIT: Duration = Duration::from_millis(250);
const ID_CHARS: usize = 12;

static REGISTER: Mutex<Register> =
    Mutex::new(Register { marks: None, n_children: 0, running: Vec::new(), reaper: None });

/// Has children registered from now on, for a program that can be its own reaper; `marks` are those it bears itself.
pub fn open(marks: Option<&str>) {
    let around = marks.map(|marks| format!("{marks}{SEPARATOR}")).unwrap_or_default();
    lock(&REGISTER).marks = Some(Marks { daemon: ids::random(ID_CHARS), around });
}

/// Lets the reaper go and waits for it. A child that is still registered is ended by it.
pub async fn close() {
    let reaper = lock(&REGISTER).reaper.take();
    let Some(Reaper { pipe, mut process }) = reaper else { return };
    drop(pipe);
    let _ = tokio::time::timeout(CLOSE_LIMIT, process.wait()).await;
}

/// Registers a child that is about to be started.
pub(super) fn begin() -> Option<Registration> {
    lock(&REGISTER).begin()
}

/// Keeps a child registered.
#[derive(Debug)]
pub(super) struct Registration {
    child: u64,
    /// What [`MARK`] has to be for the child.
    pub(super) marks: String,
}

impl Registration {
    pub(super) fn leads(&self, group: Pid) {
        let mut register = lock(&REGISTER);
        if let Some((_, known)) = register.running.iter_mut().find(|(child, _)| *child == self.child) {
            *known = Some(group);
        }
        register.tell(Record::Leads(group), self.child);
    }

    /// Has everything ended that the child started, wherever it is by now.
    pub(super) fn doom(&self) {
        lock(&REGISTER).tell(Record::Doomed, self.child);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut register = lock(&REGISTER);
        register.running.retain(|(child, _)| *child != self.child);
        register.tell(Record::Forgotten, self.child);
    }
}

struct Register {
    /// Nothing is registered without them, as in tests of the library, whose program is no reaper.
    marks: Option<Marks>,
    n_children: u64,
    /// And the groups that they lead.
    running: Vec<(u64, Option<Pid>)>,
    /// Started with the first child, and again with the next one after it was lost.
    reaper: Option<Reaper>,
}

struct Marks {
    /// A name that no other process has.
    daemon: String,
    /// What this process was marked with, so that whoever ends it by its mark ends its children too.
    around: String,
}

impl Register {
    fn begin(&mut self) -> Option<Registration> {
        let Marks { daemon, around } = self.marks.as_ref()?;
        let child = self.n_children;
        let marks = format!("{around}{}", reaper::mark(daemon, child));
        self.n_children += 1;
        self.tell(Record::Begun, child);
        self.running.push((child, None));
        if self.reaper.is_none() {
            self.start_reaper();
        }
        Some(Registration { child, marks })
    }

    fn start_reaper(&mut self) {
        let Some(marks) = &self.marks else { return };
        match Reaper::start(&marks.daemon) {
            Ok(reaper) => self.reaper = Some(reaper),
            Err(error) => tracing::warn!(
                %error,
                "no reaper could be started: should windlass be killed, what its commands have started lives on"
            ),
        }
        for (child, group) in self.running.clone() {
            self.tell(group.map_or(Record::Begun, Record::Leads), child);
        }
    }

    fn tell(&mut self, record: Record, child: u64) {
        let Some(reaper) = &mut self.reaper else { return };
        if let Err(error) = reaper.pipe.write(&reaper::encode(record, child)) {
            tracing::warn!(%error, "the reaper is lost; the next child gets another");
            // One that has not read for thousands of records is stuck. It must not take the closed pipe for our end.
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
        // Both ends are closed in every program that is started.
        let (input, pipe) = io::pipe()?;
        rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::NONBLOCK)?;
        let mut command = Command::new(program()?);
        command
            .arg0("windlass")
            .args([reaper::COMMAND, daemon])
            .env_remove(MARK)
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        detach(&mut command);
        Ok(Self { pipe, process: command.spawn()? })
    }
}

/// This very program, also when the file has been replaced meanwhile.
fn program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

#[expect(unsafe_code, reason = "pre_exec is unsafe; the closure makes two async-signal-safe system calls")]
fn detach(command: &mut Command) {
    // SAFETY: setsid and sigprocmask are plain system calls; they neither allocate nor take locks.
    unsafe {
        command.pre_exec(|| {
            // What ends us by our group, our terminal or a polite signal is to leave the reaper its work.
            setsid()?;
            SigSet::all().thread_block()?;
            Ok(())
        });
    }
}
