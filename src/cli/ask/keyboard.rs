//! The keyboard of the terminal that this process works for: keys as they are typed, without waiting for Enter.

use std::{
    fs::File,
    io::{self, IsTerminal, Read, Write},
    os::fd::OwnedFd,
    os::unix::fs::OpenOptionsExt,
    sync::Arc,
};

use rustix::{
    fs::OFlags,
    termios::{self, InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios},
};
use tokio::io::{Interest, unix::AsyncFd};

/// Bytes that are read at a time; what is pasted may come in several reads.
const CHUNK: usize = 4096;

/// A key, as far as dialogues tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Backspace,
    /// Deletes what was typed.
    Clear,
    Escape,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    End,
    /// A key that means nothing here, such as an arrow.
    Other,
}

/// See the module's comment.
pub struct Keyboard {
    terminal: Arc<File>,
    /// Made with the first dialogue: most runs have none.
    ready: Option<AsyncFd<OwnedFd>>,
    /// The beginning of a character whose end has not come.
    rest: Vec<u8>,
}

/// Gives typed keys as they are, unseen, until it is dropped.
pub struct Raw {
    terminal: Arc<File>,
    before: Termios,
}

impl Keyboard {
    /// The controlling terminal, if a person sees what this process says and its keys are for this process.
    pub fn open() -> Option<Self> {
        let is_seen = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
        if !is_seen {
            return None;
        }
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let flags = i32::try_from(flags.bits()).ok()?;
        let terminal = File::options().read(true).write(true).custom_flags(flags).open("/dev/tty").ok()?;
        // The keys of a job in the background are for the shell.
        let is_foreground =
            termios::tcgetpgrp(&terminal).is_ok_and(|group| group == rustix::process::getpgrp());
        is_foreground.then(|| Self { terminal: Arc::new(terminal), ready: None, rest: Vec::new() })
    }

    /// Takes keys one by one from now on; those that were typed before the person could see the dialogue are dropped.
    pub fn raw(&mut self) -> Option<Raw> {
        if self.ready.is_none() {
            let descriptor = OwnedFd::from(self.terminal.try_clone().ok()?);
            #[expect(
                unsafe_code,
                reason = "registering a descriptor is unsafe; this one lives as long as its guard"
            )]
            // SAFETY: the guard owns the descriptor, and `OwnedFd` names the same one until it is dropped.
            let ready = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
            self.ready = Some(ready.ok()?);
        }
        let before = termios::tcgetattr(&*self.terminal).ok()?;
        let mut raw = before.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        raw.input_modes.remove(InputModes::ICRNL | InputModes::INLCR | InputModes::IXON);
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        termios::tcsetattr(&*self.terminal, OptionalActions::Now, &raw).ok()?;
        let _ = termios::tcflush(&*self.terminal, QueueSelector::IFlush);
        self.rest.clear();
        Some(Raw { terminal: self.terminal.clone(), before })
    }

    /// Ends with the keys that were typed; `None` when the terminal has gone. Dropping this loses no key.
    pub async fn read(&mut self) -> Option<Vec<Key>> {
        let ready = self.ready.as_ref()?;
        let mut chunk = [0; CHUNK];
        loop {
            let mut guard = ready.readable().await.ok()?;
            match (&*self.terminal).read(&mut chunk) {
                Ok(0) => return None,
                Ok(n_read) => {
                    self.rest.extend_from_slice(&chunk[..n_read]);
                    let keys = decode(&mut self.rest);
                    if !keys.is_empty() {
                        return Some(keys);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// Shows a text on the terminal itself. One that takes nothing misses it.
    pub fn show(&self, text: &str) {
        let _ = (&*self.terminal).write_all(text.as_bytes());
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(&*self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Takes the keys out of the bytes; an unfinished character stays.
fn decode(bytes: &mut Vec<u8>) -> Vec<Key> {
    let taken = std::mem::take(bytes);
    let mut rest = &taken[..];
    let mut keys = Vec::new();
    while let Some((&first, behind)) = rest.split_first() {
        let (key, n_bytes) = match first {
            b'\r' | b'\n' => (Key::Enter, 1),
            0x7f | 0x08 => (Key::Backspace, 1),
            0x15 => (Key::Clear, 1),
            0x03 => (Key::Interrupt, 1),
            0x04 => (Key::End, 1),
            0x1b => match behind {
                [] | [0x1b, ..] => (Key::Escape, 1),
                behind => (Key::Other, 1 + sequence(behind)),
            },
            0..=0x1f => (Key::Other, 1),
            _ => match character(rest) {
                Ok((char, n_bytes)) => (Key::Char(char), n_bytes),
                Err(Unfinished::Wait) => {
                    *bytes = rest.to_vec();
                    break;
                }
                Err(Unfinished::Invalid) => (Key::Other, 1),
            },
        };
        keys.push(key);
        rest = rest.get(n_bytes..).unwrap_or_default();
    }
    keys
}

/// Bytes of what follows an escape: `[` or `O`, parameters, and the letter that ends them; or one key with Alt.
fn sequence(behind: &[u8]) -> usize {
    match behind {
        [b'[' | b'O', rest @ ..] => {
            let end = rest.iter().position(|byte| (0x40..=0x7e).contains(byte));
            1 + end.map_or(rest.len(), |end| end + 1)
        }
        _ => 1,
    }
}

enum Unfinished {
    Wait,
    Invalid,
}

fn character(bytes: &[u8]) -> Result<(char, usize), Unfinished> {
    let head = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) if error.error_len().is_none() => return Err(Unfinished::Wait),
        Err(_) => return Err(Unfinished::Invalid),
    };
    let first = valid.chars().next().ok_or(Unfinished::Invalid)?;
    Ok((first, first.len_utf8()))
}

#[cfg(test)]
mod tests;
