//! Text that is typed while nothing asks for it: kept whole for the next line, and never left to the shell.
//!
//! A terminal that gives lines cuts each of them at 4095 characters, and hands the lines that nobody has read to the
//! shell when the process stops. So it gives single characters instead, and they are taken as they come.

use std::{
    fs::File,
    io::{self, Read},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use nix::{
    fcntl::OFlag,
    sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr},
    unistd::{getpgrp, tcgetpgrp},
};
use tokio::io::unix::AsyncFd;
use windlass_base::lock::lock;

use super::keyboard;

/// Bytes of typed text that are kept; the terminal holds the rest back.
const MAX_BYTES: usize = 1 << 20;
/// Bytes that are read at a time.
const CHUNK: usize = 4096;
/// A key that comes so soon behind others is one of a text. A slow typist takes about 0.3 s for a key.
pub const IN_ONE_GO: Duration = Duration::from_millis(500);

/// See the module's comment.
pub struct Ahead {
    terminal: File,
    ready: AsyncFd<OwnedFd>,
    state: Mutex<State>,
}

struct State {
    /// The modes that the terminal was found in.
    found: Termios,
    bytes: Vec<u8>,
    /// When the last of them came.
    last_at: Option<Instant>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The terminal gives characters.
    Kept,
    /// The terminal has the modes that it was found in, until [`Ahead::keep`].
    Left,
    /// The same, for good.
    Ended,
}

impl Ahead {
    /// Keeps the keys typed from now on; `None` where this process has no terminal. Must be called within the runtime.
    pub fn begin() -> Option<Arc<Self>> {
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let terminal =
            File::options().read(true).write(true).custom_flags(flags.bits()).open("/dev/tty").ok()?;
        let ready = keyboard::readiness(&terminal)?;
        let found = tcgetattr(&terminal).ok()?;
        let state = Mutex::new(State { found, bytes: Vec::new(), last_at: None, phase: Phase::Left });
        let ahead = Self { terminal, ready, state };
        ahead.keep();
        Some(Arc::new(ahead))
    }

    /// Returns the modes that the terminal was found in.
    pub fn found(&self) -> Termios {
        lock(&self.state).found.clone()
    }

    /// Makes the terminal give characters, unless it does or another job has it.
    pub fn keep(&self) {
        let mut state = lock(&self.state);
        if state.phase != Phase::Left || self.is_background() {
            return;
        }
        let mut modes = state.found.clone();
        modes.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        // Ctrl-C ends a turn, and leaves the keys typed during it.
        modes.local_flags.insert(LocalFlags::NOFLSH);
        modes.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        modes.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        if tcsetattr(&self.terminal, SetArg::TCSANOW, &modes).is_ok() {
            state.phase = Phase::Kept;
        }
    }

    /// Takes the keys typed for as long as this is polled; never ends. A signal that is typed behind more than the
    /// terminal holds would not be seen otherwise.
    pub async fn follow(&self) {
        while let Ok(mut ready) = self.ready.readable().await {
            if !self.take_in() {
                break;
            }
            ready.clear_ready();
        }
        std::future::pending().await
    }

    /// Takes the keys that the terminal holds; returns false if the terminal has gone.
    pub fn take_in(&self) -> bool {
        let mut state = lock(&self.state);
        let mut chunk = [0; CHUNK];
        // A job in the background would be stopped for reading the shell's input.
        while state.bytes.len() < MAX_BYTES && !self.is_background() {
            match (&self.terminal).read(&mut chunk) {
                Ok(0) => return false,
                Ok(n_read) => {
                    state.bytes.extend_from_slice(&chunk[..n_read]);
                    state.last_at = Some(Instant::now());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// Keeps keys that were typed elsewhere and are no answer there.
    pub fn add(&self, typed: &[u8]) {
        let mut state = lock(&self.state);
        let n_kept = typed.len().min(MAX_BYTES.saturating_sub(state.bytes.len()));
        state.bytes.extend_from_slice(&typed[..n_kept]);
        state.last_at = Some(Instant::now());
    }

    /// Returns true while somebody is typing a text.
    pub fn is_typed_now(&self) -> bool {
        lock(&self.state).last_at.is_some_and(|at| at.elapsed() < IN_ONE_GO)
    }

    /// Returns all that was typed, as text; once.
    pub fn take(&self) -> String {
        self.keep();
        self.take_in();
        let mut state = lock(&self.state);
        state.last_at = None;
        keyboard::text(&mut state.bytes)
    }

    /// Takes the typed keys and leaves the terminal to others, such as the shell before the process stops; returns
    /// the modes that [`Ahead::come_back`] puts back.
    pub fn leave(&self) -> Option<Termios> {
        if lock(&self.state).phase != Phase::Kept || self.is_background() {
            return None;
        }
        let modes = tcgetattr(&self.terminal).ok()?;
        self.take_in();
        let mut state = lock(&self.state);
        state.phase = Phase::Left;
        let _ = tcsetattr(&self.terminal, SetArg::TCSANOW, &state.found);
        Some(modes)
    }

    /// Takes the terminal back when the process goes on, unless it does so in the background.
    pub fn come_back(&self, modes: &Termios) {
        let mut state = lock(&self.state);
        if state.phase == Phase::Left
            && !self.is_background()
            && tcsetattr(&self.terminal, SetArg::TCSANOW, modes).is_ok()
        {
            state.phase = Phase::Kept;
        }
    }

    /// Puts the modes back that the terminal was found in, for good.
    pub fn end(&self) {
        let mut state = lock(&self.state);
        if state.phase == Phase::Kept && !self.is_background() {
            // A terminal that is gone needs no modes.
            let _ = tcsetattr(&self.terminal, SetArg::TCSANOW, &state.found);
        }
        state.phase = Phase::Ended;
    }

    fn is_background(&self) -> bool {
        tcgetpgrp(&self.terminal).is_ok_and(|group| group != getpgrp())
    }
}
