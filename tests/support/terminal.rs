//! A terminal in which the real binary runs: a pseudo-terminal, the emulator that shows it, and the keys typed
//! into it.
//!
//! Output is handed to the emulator of Alacritty, which wraps, scrolls, reflows and links as terminals do.
//! Tests wait for the content of the screen, never for a time: [`Terminal::shows`] returns as soon as a screen
//! satisfies it.

pub mod screen;
pub mod svg;

use std::{
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard},
};

use alacritty_terminal::{
    event::{Event, EventListener},
    term::{Config, Term, test::TermSize},
    vte::ansi::Processor,
};
use nix::sys::signal::Signal;
use pty_process::{Command, OwnedReadPty, OwnedWritePty, Size};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Child,
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};

use self::screen::Screen;
use super::{
    agent::{DEADLINE, binary},
    process,
    scratch::Scratch,
};

pub struct Builder {
    scratch: Arc<Scratch>,
    program: PathBuf,
    arguments: Vec<String>,
    env: Vec<(String, String)>,
    columns: u16,
    rows: u16,
    input: Option<String>,
}

impl Builder {
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self
    }

    /// Runs another program than the binary, such as a shell that starts it.
    pub fn program(mut self, path: impl AsRef<Path>) -> Self {
        self.program = path.as_ref().to_owned();
        self
    }

    /// Sets the columns and rows; the default is 80 × 24.
    pub fn size(mut self, columns: u16, rows: u16) -> Self {
        (self.columns, self.rows) = (columns, rows);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes standard input a pipe with this text, while the terminal stays the controlling one.
    pub fn piped(mut self, input: &str) -> Self {
        self.input = Some(input.to_owned());
        self
    }

    pub fn start(self) -> Terminal {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(self.rows, self.columns)).unwrap();
        let mut command = Command::new(&self.program)
            .args(&self.arguments)
            .current_dir(&self.scratch.work)
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("WINDLASS_TRUST", "1")
            .env("HOME", &self.scratch.home)
            .env("SHELL", "/bin/bash")
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .envs(self.env)
            .kill_on_drop(true);
        if self.input.is_some() {
            command = command.stdin(Stdio::piped());
        }
        let mut child = command.spawn(pts).unwrap();
        if let Some(input) = self.input {
            let mut stdin = child.stdin.take().unwrap();
            // A program need not read all of it.
            tokio::spawn(async move { stdin.write_all(input.as_bytes()).await });
        }
        let pid = i32::try_from(child.id().unwrap()).unwrap();

        let (read_pty, write_pty) = pty.into_split();
        let (commands, inbox) = mpsc::unbounded_channel();
        let size = TermSize::new(self.columns.into(), self.rows.into());
        // Far more than any test prints, so that the whole output of a run can be examined.
        let config = Config { scrolling_history: 100_000, ..Config::default() };
        let emulator = Emulator {
            term: Term::new(config, &size, Echo { commands: commands.clone() }),
            processor: Processor::new(),
            raw: Vec::new(),
        };
        let shared = Arc::new(Shared {
            emulator: Mutex::new(emulator),
            version: watch::Sender::new(Version::default()),
        });
        let reading = watch::Sender::new(true);
        Terminal {
            scratch: self.scratch,
            pid,
            child,
            reader: tokio::spawn(read(read_pty, shared.clone(), reading.subscribe())),
            writer: tokio::spawn(write(write_pty, inbox)),
            shared,
            commands,
            reading,
            exit: None,
        }
    }
}

/// The next action of the terminal's writer.
enum Input {
    Bytes(Vec<u8>),
    Resize(Size),
    /// Says that all of those before have been taken.
    Sync(oneshot::Sender<()>),
}

/// Answers the queries of a program to the terminal, such as that for the cursor's position.
struct Echo {
    commands: mpsc::UnboundedSender<Input>,
}

impl EventListener for Echo {
    fn send_event(&self, event: Event) {
        if let Event::PtyWrite(text) = event {
            let _ = self.commands.send(Input::Bytes(text.into_bytes()));
        }
    }
}

struct Emulator {
    term: Term<Echo>,
    processor: Processor,
    raw: Vec<u8>,
}

/// Counts the bytes read, and records if more can come.
#[derive(Debug, Clone, Copy, Default)]
struct Version {
    n_reads: u64,
    is_ended: bool,
}

struct Shared {
    emulator: Mutex<Emulator>,
    version: watch::Sender<Version>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Emulator> {
        self.emulator.lock().unwrap()
    }
}

async fn read(mut pty: OwnedReadPty, shared: Arc<Shared>, mut reading: watch::Receiver<bool>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        if reading.wait_for(|is_reading| *is_reading).await.is_err() {
            break;
        }
        // Linux reports the end of the last writer as an error.
        let Ok(n_read) = pty.read(&mut buffer).await else { break };
        if n_read == 0 {
            break;
        }
        {
            let mut emulator = shared.lock();
            let Emulator { term, processor, raw } = &mut *emulator;
            processor.advance(term, &buffer[..n_read]);
            raw.extend_from_slice(&buffer[..n_read]);
        }
        shared.version.send_modify(|version| version.n_reads += 1);
    }
    shared.version.send_modify(|version| version.is_ended = true);
}

async fn write(mut pty: OwnedWritePty, mut inbox: mpsc::UnboundedReceiver<Input>) -> io::Result<()> {
    while let Some(input) = inbox.recv().await {
        match input {
            Input::Bytes(bytes) => pty.write_all(&bytes).await?,
            Input::Resize(size) => pty.resize(size).unwrap(),
            Input::Sync(taken) => _ = taken.send(()),
        }
    }
    Ok(())
}

/// A command that runs in a terminal; dropping this kills it with everything it started.
pub struct Terminal {
    scratch: Arc<Scratch>,
    pub pid: i32,
    child: Child,
    reader: JoinHandle<()>,
    writer: JoinHandle<io::Result<()>>,
    shared: Arc<Shared>,
    commands: mpsc::UnboundedSender<Input>,
    reading: watch::Sender<bool>,
    exit: Option<ExitStatus>,
}

impl Terminal {
    /// Builds a terminal on a scratch machine, with this as the inline configuration.
    pub fn builder(scratch: &Arc<Scratch>, config: &Value) -> Builder {
        Builder {
            scratch: scratch.clone(),
            program: binary(),
            arguments: Vec::new(),
            env: vec![
                ("OPENCODE_CONFIG_CONTENT".to_owned(), config.to_string()),
                ("OPENCODE_DISABLE_MODELS_FETCH".to_owned(), "1".to_owned()),
            ],
            columns: 80,
            rows: 24,
            input: None,
        }
    }

    /// Waits until the screen satisfies this; fails with the screen in the message if it never does.
    pub async fn shows(&self, what: &str, is_shown: impl Fn(&Screen) -> bool) -> Screen {
        let mut version = self.shared.version.subscribe();
        let waiting = async {
            loop {
                let is_ended = version.borrow_and_update().is_ended;
                let screen = self.screen();
                if is_shown(&screen) {
                    return Some(screen);
                }
                if is_ended || version.changed().await.is_err() {
                    return None;
                }
            }
        };
        match timeout(DEADLINE, waiting).await {
            Ok(Some(screen)) => screen,
            Ok(None) => panic!("the program ended before the screen showed {what}:\n{}", self.screen()),
            Err(_) => panic!("the screen never showed {what}:\n{}", self.screen()),
        }
    }

    /// Waits until this text is in one row of the screen or of the rows that have scrolled away.
    pub async fn shows_text(&self, text: &str) -> Screen {
        self.shows(&format!("`{text}`"), |screen| screen.contains(text)).await
    }

    /// Returns the current screen, with the rows that have scrolled away.
    pub fn screen(&self) -> Screen {
        Screen::of(&self.shared.lock().term)
    }

    /// Returns every byte that the program has written so far.
    pub fn raw(&self) -> Vec<u8> {
        self.shared.lock().raw.clone()
    }

    /// Types text or keys: `\r` is Enter, `\x03` Ctrl-C, `\x1b[A` the up arrow.
    pub fn types(&self, keys: &str) {
        let _ = self.commands.send(Input::Bytes(keys.as_bytes().to_vec()));
    }

    /// Types text or keys, and waits until the terminal holds them.
    pub async fn types_ahead(&self, keys: &str) {
        self.types(keys);
        let (taken, is_taken) = oneshot::channel();
        let _ = self.commands.send(Input::Sync(taken));
        is_taken.await.unwrap();
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        self.shared.lock().term.resize(TermSize::new(columns.into(), rows.into()));
        let _ = self.commands.send(Input::Resize(Size::new(rows, columns)));
    }

    /// Stops reading the output, as Ctrl-S does.
    pub fn stop_reading(&self) {
        self.reading.send_replace(false);
    }

    pub fn go_on_reading(&self) {
        self.reading.send_replace(true);
    }

    /// Closes the terminal's window: its programs get SIGHUP, and reads and writes fail.
    pub async fn hang_up(&mut self) {
        self.writer.abort();
        self.reader.abort();
        let _ = (&mut self.writer).await;
        let _ = (&mut self.reader).await;
        self.shared.version.send_modify(|version| version.is_ended = true);
    }

    pub fn signal(&self, signal: Signal) {
        process::send(self.pid, signal);
    }

    /// Waits for the program to end and for the last of its output; fails if it leaves a process behind.
    pub async fn ended(&mut self) -> ExitStatus {
        if let Some(exit) = self.exit {
            return exit;
        }
        let waited = timeout(DEADLINE, self.child.wait()).await;
        let exit = waited.unwrap_or_else(|_| panic!("the program does not end:\n{}", self.screen())).unwrap();
        let left = process::gone(&self.scratch.home).await;
        assert!(left.is_empty(), "processes outlive the program: {}", process::describe(&left));
        let mut version = self.shared.version.subscribe();
        let waited = timeout(DEADLINE, version.wait_for(|version| version.is_ended)).await;
        assert!(waited.is_ok(), "the terminal stays open after the exit");
        self.exit = Some(exit);
        exit
    }

    /// Waits for a program that must end with this code; returns the last screen.
    pub async fn ends_with(&mut self, code: i32) -> Screen {
        let exit = self.ended().await;
        assert_eq!(exit.code(), Some(code), "{exit}\n{}", self.screen());
        self.screen()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.reader.abort();
        self.writer.abort();
        if self.exit.is_none() {
            process::kill_all(&self.scratch.home);
        }
    }
}
