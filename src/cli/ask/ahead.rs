//! Text that is typed while nothing asks for it: kept whole for the next line, and never left to the shell.
//!
//! A terminal that gives lines cuts each of them at 4095 characters, and hands the lines that nobody has read to the
//! shell when the process stops. So it gives single characters instead, and they are taken as they come.

use std::{
    fs::File,
    io::{self, Read, Write},
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

use super::keyboard::{self, Key, LineKey};

/// Bytes of typed text that are kept; the terminal holds the rest back.
const MAX_BYTES: usize = 1 << 20;
/// Bytes that are read at a time.
const CHUNK: usize = 4096;
const ESCAPE: u8 = 0x1b;
/// Time in which the rest of a key comes, on a slow connection as well.
const KEY_LIMIT: Duration = Duration::from_millis(50);
/// Has the terminal mark pasted text.
pub const PASTE_MARKS: &[u8] = b"\x1b[?2004h";
/// Ends it.
pub const NO_PASTE_MARKS: &[u8] = b"\x1b[?2004l";
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
    /// Text that was typed before them, and edited since.
    text: String,
    /// When the last of them came.
    last_at: Option<Instant>,
    phase: Phase,
    /// Pasted text is marked while [`Phase::Kept`].
    is_marked: bool,
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
        let state = Mutex::new(State {
            found,
            bytes: Vec::new(),
            text: String::new(),
            last_at: None,
            phase: Phase::Left,
            is_marked: false,
        });
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

    /// Ends when keys were typed, and taken. A signal that is typed behind more than the terminal holds would not be
    /// seen otherwise.
    pub async fn typed(&self) {
        if let Some(pause) = self.unsure() {
            // An escape may be the beginning of a key that comes in pieces.
            let _ = tokio::time::timeout(pause, self.ready.readable()).await;
            if self.take_in() {
                return;
            }
        }
        while let Ok(mut ready) = self.ready.readable().await {
            if !self.take_in() {
                break;
            }
            ready.clear_ready();
            if !lock(&self.state).bytes.is_empty() {
                return;
            }
        }
        std::future::pending().await
    }

    /// Takes the keys typed so far, as they are; an unfinished one stays, and so does an escape that is new.
    pub fn keys(&self) -> Vec<Key> {
        let is_unsure = self.unsure().is_some();
        let mut state = lock(&self.state);
        if is_unsure {
            state.bytes.pop();
        }
        let keys = keyboard::decode(&mut state.bytes);
        if matches!(keys.last(), Some(Key::Enter | Key::Line(LineKey::AltEnter))) {
            // The text is sent: a key behind it is not one of it.
            state.last_at = None;
        }
        if is_unsure {
            state.bytes.push(ESCAPE);
        }
        keys
    }

    /// Returns the time after which the escape that was typed last is a key of its own; `None` where there is none.
    fn unsure(&self) -> Option<Duration> {
        let state = lock(&self.state);
        let at = state.last_at.filter(|_| state.bytes.last() == Some(&ESCAPE))?;
        KEY_LIMIT.checked_sub(at.elapsed()).filter(|left| !left.is_zero())
    }

    /// Gives text back for the next line, before all that is typed from now on.
    pub fn put_back(&self, text: &str) {
        lock(&self.state).text.push_str(text);
    }

    /// Has pasted text marked while turns are shown: its ends of lines send nothing.
    pub fn mark_pastes(&self, is_marked: bool) {
        let mut state = lock(&self.state);
        state.is_marked = is_marked;
        if state.phase == Phase::Kept && !self.is_background() {
            self.write(if is_marked { PASTE_MARKS } else { NO_PASTE_MARKS });
        }
    }

    /// A terminal that is gone misses it.
    fn write(&self, code: &[u8]) {
        let _ = (&self.terminal).write_all(code);
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
        let edited = std::mem::take(&mut state.text);
        keyboard::text(edited, &mut state.bytes)
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
        if state.is_marked {
            self.write(NO_PASTE_MARKS);
        }
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
            if state.is_marked {
                self.write(PASTE_MARKS);
            }
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
