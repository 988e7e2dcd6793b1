//! Terminals that clients open: a program on a pseudo-terminal, read by several at a time, kept a while after its end.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::{fd::AsFd, unix::process::ExitStatusExt},
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use bytes::Bytes;
use pty_process::{OwnedReadPty, OwnedWritePty, Size};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{mpsc, watch},
};
use tokio_util::sync::CancellationToken;
use windlass_base::{
    ids,
    lock::lock,
    process::{self, Child, Spawn},
};
use windlass_protocol::opencode::{
    event::EventPayload,
    pty::{Pty, PtySize, PtyStatus, PtyUpdate},
    service::{ServiceEvent, ServiceNews},
};

use crate::bus::Bus;

pub mod output;

use output::{Output, Position};

/// Maximum number of terminals with programs that run.
pub const MAX_RUNNING: usize = 64;
/// Maximum number of terminals that are kept after their programs have ended.
const MAX_ENDED: usize = 16;
/// Time for which a terminal is kept after its program has ended.
const KEEP: Duration = Duration::from_secs(600);
/// Time for a program to end by itself when its terminal is removed.
const GRACE: Duration = Duration::from_millis(500);
/// Time for the output of processes that keep the terminal after the program has ended.
const DRAIN: Duration = Duration::from_millis(100);
/// Pieces of input that may wait for the program.
const MAX_WAITING: usize = 64;
const CHUNK_BYTES: usize = 16 << 10;
/// Exit code where the system does not say how a program ended.
const UNKNOWN_END: u32 = 255;

/// A terminal to be opened.
#[derive(Debug)]
pub struct Opening {
    /// The directory that the terminal belongs to.
    pub directory: PathBuf,
    pub program: String,
    pub args: Vec<String>,
    /// The directory that the program starts in.
    pub cwd: PathBuf,
    /// Title for people; one is made if there is none.
    pub title: Option<String>,
    pub environment: BTreeMap<String, String>,
    /// Names of variables that the program does not get.
    pub without: Vec<String>,
}

/// The reason for which a terminal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{MAX_RUNNING} terminals are open already; close one of them")]
    TooMany,
    #[error("{program} cannot be started in {}: {error}", cwd.display())]
    Start { program: String, cwd: PathBuf, error: io::Error },
}

/// All terminals. Cloning it shares it.
#[derive(Clone)]
pub struct Terminals(Arc<Inner>);

struct Inner {
    bus: Bus,
    /// In the order in which they were opened: ids sort by time.
    terminals: Mutex<BTreeMap<String, Arc<Terminal>>>,
}

/// A terminal.
pub struct Terminal {
    directory: PathBuf,
    info: Mutex<Pty>,
    output: Mutex<Output>,
    /// Changes with every piece of output, and says if the program has ended and all was read.
    state: watch::Sender<State>,
    input: mpsc::Sender<Input>,
    /// Ends the program.
    stop: CancellationToken,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    is_ended: bool,
}

/// A thing that a client does to a terminal.
enum Input {
    Bytes(Bytes),
    Size(PtySize),
}

impl Terminals {
    pub fn new(bus: Bus) -> Self {
        Self(Arc::new(Inner { bus, terminals: Mutex::default() }))
    }

    /// Starts a program on a new terminal. Must be called on the runtime's own thread.
    pub fn open(&self, opening: Opening) -> Result<Pty, OpenError> {
        let terminals = self.list_all();
        let n_running = terminals.iter().filter(|it| !it.is_ended()).count();
        if n_running >= MAX_RUNNING {
            return Err(OpenError::TooMany);
        }
        let (pty, child) = start(&opening).map_err(|error| OpenError::Start {
            program: opening.program.clone(),
            cwd: opening.cwd.clone(),
            error,
        })?;
        let id = ids::pty();
        let title = opening.title.unwrap_or_else(|| format!("Terminal {}", &id[id.len() - 4..]));
        let info = Pty {
            id: id.clone(),
            title,
            command: opening.program,
            args: opening.args,
            cwd: opening.cwd.display().to_string(),
            status: PtyStatus::Running,
            pid: u32::try_from(child.group().as_raw()).unwrap_or_default(),
            exit_code: None,
        };
        let (input, receiver) = mpsc::channel(MAX_WAITING);
        let terminal = Arc::new(Terminal {
            directory: opening.directory,
            info: Mutex::new(info.clone()),
            output: Mutex::default(),
            state: watch::Sender::default(),
            input,
            stop: CancellationToken::new(),
        });
        lock(&self.0.terminals).insert(id, terminal.clone());
        self.publish(&terminal, ServiceNews::PtyCreated { info: info.clone() });
        tokio::spawn(run(Arc::downgrade(&self.0), terminal, pty, child, receiver));
        Ok(info)
    }

    fn list_all(&self) -> Vec<Arc<Terminal>> {
        lock(&self.0.terminals).values().cloned().collect()
    }

    /// Returns the terminals of a directory, the oldest first.
    pub fn list(&self, directory: &Path) -> Vec<Pty> {
        self.list_all().iter().filter(|it| it.directory == directory).map(|it| it.info()).collect()
    }

    /// Returns the directories that terminals belong to.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.list_all().iter().map(|it| it.directory.clone()).collect()
    }

    /// Returns a terminal.
    pub fn get(&self, id: &str) -> Option<Arc<Terminal>> {
        lock(&self.0.terminals).get(id).cloned()
    }

    /// Changes a terminal. `None` if there is no such terminal.
    pub async fn update(&self, id: &str, update: PtyUpdate) -> Option<Pty> {
        let terminal = self.get(id)?;
        if let Some(title) = update.title {
            lock(&terminal.info).title = title;
        }
        if let Some(size) = update.size {
            // A terminal has no size any more once its program has ended.
            let _ = terminal.input.send(Input::Size(size)).await;
        }
        let info = terminal.info();
        self.publish(&terminal, ServiceNews::PtyUpdated { info: info.clone() });
        Some(info)
    }

    /// Ends a terminal's program and forgets the terminal. False if there is no such terminal.
    pub fn remove(&self, id: &str) -> bool {
        let Some(terminal) = lock(&self.0.terminals).remove(id) else { return false };
        terminal.stop.cancel();
        self.publish(&terminal, ServiceNews::PtyDeleted { id: id.to_owned() });
        true
    }

    /// Removes the terminals of a directory, or all.
    pub fn remove_all(&self, directory: Option<&Path>) {
        for terminal in self.list_all() {
            if directory.is_none_or(|directory| directory == terminal.directory) {
                self.remove(&terminal.info().id);
            }
        }
    }

    fn publish(&self, terminal: &Terminal, news: ServiceNews) {
        self.0.publish(terminal, news);
    }
}

impl Inner {
    fn publish(&self, terminal: &Terminal, news: ServiceNews) {
        let directory = Some(terminal.directory.display().to_string());
        self.bus.publish(EventPayload::Service(ServiceEvent { directory, news }));
    }

    /// Notes the end of a program, and returns the oldest terminals that are too many now.
    fn note_end(&self, terminal: &Terminal, exit_code: u32) -> Vec<String> {
        let id = {
            let mut info = lock(&terminal.info);
            info.status = PtyStatus::Exited;
            info.exit_code = Some(exit_code);
            info.id.clone()
        };
        terminal.state.send_modify(|state| state.is_ended = true);
        let terminals = lock(&self.terminals);
        if !terminals.contains_key(&id) {
            // It was removed, which was said already.
            return Vec::new();
        }
        let ended = terminals.iter().filter(|(_, it)| it.is_ended()).map(|(id, _)| id.clone());
        let ended: Vec<String> = ended.collect();
        drop(terminals);
        self.publish(terminal, ServiceNews::PtyExited { id, exit_code });
        ended[..ended.len().saturating_sub(MAX_ENDED)].to_vec()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for terminal in lock(&self.terminals).values() {
            terminal.stop.cancel();
        }
    }
}

impl Terminal {
    /// Returns the terminal as clients see it.
    pub fn info(&self) -> Pty {
        lock(&self.info).clone()
    }

    /// Returns the directory that the terminal belongs to.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn is_ended(&self) -> bool {
        self.state.borrow().is_ended
    }

    /// Gives the program input; waits while it does not take the input before. Input behind its end is dropped.
    pub async fn write(&self, bytes: Bytes) {
        let _ = self.input.send(Input::Bytes(bytes)).await;
    }

    /// Begins to read: from this many characters on, or only the output from now on.
    pub fn read(self: &Arc<Self>, from: Option<u64>) -> Reader {
        let state = self.state.subscribe();
        let position = {
            let output = lock(&self.output);
            from.map_or(output.end(), |from| output.position(from))
        };
        Reader { terminal: self.clone(), position, state }
    }
}

/// A reader of a terminal. One that is slow misses output that is not kept any more; nothing is stored for it.
pub struct Reader {
    terminal: Arc<Terminal>,
    position: Position,
    state: watch::Receiver<State>,
}

impl Reader {
    /// Takes output that is there already; empty if the reader has everything.
    pub fn take(&mut self) -> String {
        let output = lock(&self.terminal.output);
        let (piece, position) = output.after(self.position);
        self.position = position;
        piece.to_owned()
    }

    /// Takes all the output that is there already, in pieces.
    pub fn take_kept(&mut self) -> Vec<String> {
        let output = lock(&self.terminal.output);
        let mut pieces = Vec::new();
        loop {
            let (piece, position) = output.after(self.position);
            self.position = position;
            if piece.is_empty() {
                return pieces;
            }
            pieces.push(piece.to_owned());
        }
    }

    /// Returns the characters of all the output so far, as JavaScript counts them.
    pub fn cursor(&self) -> u64 {
        lock(&self.terminal.output).cursor()
    }

    /// Waits for output. `None` once the program has ended and everything was taken, or the terminal was removed.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            let is_ended = self.state.borrow_and_update().is_ended;
            let piece = self.take();
            if !piece.is_empty() {
                return Some(piece);
            }
            if is_ended || self.state.changed().await.is_err() {
                return None;
            }
        }
    }
}

fn start(opening: &Opening) -> io::Result<(pty_process::Pty, Child)> {
    let (pty, pts) = pty_process::open().map_err(io::Error::other)?;
    pty.resize(Size::new(24, 80)).map_err(io::Error::other)?;
    let args: Vec<OsString> = opening.args.iter().map(OsString::from).collect();
    let spawn = Spawn {
        program: opening.program.as_ref(),
        args: &args,
        directory: &opening.cwd,
        environment: &opening.environment,
        without: &opening.without,
        stdin: true,
        is_parent: true,
    };
    let child = process::spawn_on_terminal(&spawn, pts.as_fd().try_clone_to_owned()?)?;
    Ok((pty, child))
}

/// Moves output and input until the program ends or is ended, and then keeps the terminal for a while.
async fn run(
    terminals: Weak<Inner>,
    terminal: Arc<Terminal>,
    pty: pty_process::Pty,
    mut child: Child,
    mut inputs: mpsc::Receiver<Input>,
) {
    let (mut from, mut to) = pty.into_split();
    let status = {
        let writing = write_inputs(&mut inputs, &mut to);
        let living = async {
            let reading = read_output(&mut from, &terminal);
            let mut reading = std::pin::pin!(reading);
            let status = tokio::select! {
                status = child.wait() => status.ok(),
                // The program has closed its terminal and goes on without it.
                () = &mut reading => return child.wait().await.ok(),
            };
            let _ = tokio::time::timeout(DRAIN, reading).await;
            status
        };
        tokio::select! {
            status = living => status,
            () = async { writing.await; std::future::pending::<()>().await } => None,
            () = terminal.stop.cancelled() => None,
        }
    };
    let status = match status {
        Some(status) => Some(status),
        None => child.end(GRACE).await,
    };
    drop((child, from, to, inputs));
    let Some(inner) = terminals.upgrade() else { return };
    let forgotten = inner.note_end(&terminal, exit_code(status));
    let all = Terminals(inner);
    for id in forgotten {
        all.remove(&id);
    }
    drop(all);
    tokio::select! {
        () = terminal.stop.cancelled() => {}
        () = tokio::time::sleep(KEEP) => {
            if let Some(inner) = terminals.upgrade() {
                Terminals(inner).remove(&terminal.info().id);
            }
        }
    }
}

async fn read_output(from: &mut OwnedReadPty, terminal: &Terminal) {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        // A terminal without programs answers with an error, which is its end.
        match from.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(n_read) => {
                lock(&terminal.output).push(&chunk[..n_read]);
                terminal.state.send_modify(|_| {});
            }
        }
    }
}

async fn write_inputs(inputs: &mut mpsc::Receiver<Input>, to: &mut OwnedWritePty) {
    while let Some(input) = inputs.recv().await {
        let written = match input {
            Input::Bytes(bytes) => to.write_all(&bytes).await,
            Input::Size(size) => {
                to.resize(Size::new(size.rows.get(), size.cols.get())).map_err(io::Error::other)
            }
        };
        if let Err(error) = written {
            tracing::debug!(%error, "a terminal takes no input");
            return;
        }
    }
}

/// Returns the exit code as a shell would: 128 and the number of the signal that ended the program. An end that is not
/// known is no success.
fn exit_code(status: Option<ExitStatus>) -> u32 {
    let code = status.and_then(|it| it.code().or_else(|| Some(128 + it.signal()?)));
    code.and_then(|code| u32::try_from(code).ok()).unwrap_or(UNKNOWN_END)
}

#[cfg(test)]
mod tests;
