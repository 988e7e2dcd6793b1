//! The keyboard of the terminal that this process works for: keys as they are typed, without waiting for Enter.

use std::{
    fs::File,
    io::{self, IsTerminal, Read, Write},
    os::fd::{AsFd, OwnedFd},
    os::unix::fs::OpenOptionsExt,
    sync::Arc,
};

use nix::{
    fcntl::OFlag,
    sys::termios::{InputFlags, LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr},
    unistd::{getpgrp, tcgetpgrp},
};
use terminal_size::terminal_size_of;
use tokio::io::{Interest, unix::AsyncFd};

/// Bytes that are read at a time; a pasted text may come in several reads.
const CHUNK: usize = 4096;
/// Bytes of the longest key.
const MAX_SEQUENCE: usize = 32;
/// Columns where a terminal does not say.
const USUAL_COLUMNS: usize = 80;

/// A key, as far as dialogues tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Tab,
    Backspace,
    /// Ctrl-U: deletes the text before the cursor.
    Clear,
    Escape,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    End,
    /// A key that edits a line, and says nothing elsewhere.
    Edit(Edit),
    /// A key of a line that is sent, and nothing elsewhere.
    Line(LineKey),
    /// A key that means nothing here, such as a function key.
    Other,
}

/// Keys for a line that is typed during a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKey {
    /// Enter with Alt.
    AltEnter,
    Up,
    /// Pasted text follows, until its end; it is no key.
    PasteBegins,
    PasteEnds,
}

/// The keys that edit a line, as in a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    Left,
    Right,
    /// Moves to the beginning of the line.
    Start,
    /// Moves to its end.
    End,
    /// Deletes the character under the cursor.
    Delete,
    /// Deletes the word before it.
    DeleteWord,
    /// Deletes everything behind it.
    DeleteRest,
}

/// See the module's comment.
pub struct Keyboard {
    terminal: Arc<File>,
    /// Made with the first dialogue: most runs have none.
    ready: Option<AsyncFd<OwnedFd>>,
    /// The beginning of a character that has no end yet.
    rest: Vec<u8>,
    /// The bytes of the keys that were read last.
    bytes: Vec<u8>,
}

/// Gives typed keys as they are, unseen, until it is dropped.
pub struct Raw {
    terminal: Arc<File>,
    before: Termios,
}

impl Keyboard {
    /// Returns the controlling terminal, if a person sees this process's output and its keys are for this
    /// process.
    pub fn open() -> Option<Self> {
        let is_seen = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
        if !is_seen {
            return None;
        }
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let mut options = File::options();
        let options = options.read(true).write(true).custom_flags(flags.bits());
        let terminal = options.open("/dev/tty").ok()?;
        // The keys of a job in the background are for the shell.
        let is_foreground = tcgetpgrp(&terminal).is_ok_and(|group| group == getpgrp());
        is_foreground.then(|| Self {
            terminal: Arc::new(terminal),
            ready: None,
            rest: Vec::new(),
            bytes: Vec::new(),
        })
    }

    /// Takes keys one by one from now on.
    pub fn raw(&mut self) -> Option<Raw> {
        if self.ready.is_none() {
            self.ready = Some(readiness(&*self.terminal)?);
        }
        let before = tcgetattr(&*self.terminal).ok()?;
        let mut raw = before.clone();
        raw.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG | LocalFlags::IEXTEN);
        raw.input_flags.remove(InputFlags::ICRNL | InputFlags::INLCR | InputFlags::IXON);
        raw.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        raw.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        tcsetattr(&*self.terminal, SetArg::TCSANOW, &raw).ok()?;
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
                    self.bytes.clone_from(&self.rest);
                    let keys = decode(&mut self.rest);
                    self.bytes.truncate(self.bytes.len() - self.rest.len());
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

    /// Returns the bytes of the keys that were read last.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Drops the keys typed up to now; returns true if there were any.
    pub fn discard(&self) -> bool {
        let mut chunk = [0; CHUNK];
        let mut is_any = false;
        // It makes no reader wait.
        while (&*self.terminal).read(&mut chunk).is_ok_and(|n_read| n_read > 0) {
            is_any = true;
        }
        is_any
    }

    /// Columns of the terminal.
    pub fn columns(&self) -> usize {
        terminal_size_of(&*self.terminal).map_or(USUAL_COLUMNS, |(width, _)| width.0.into())
    }

    /// Shows a text on the terminal itself. One that takes nothing misses it.
    pub fn show(&self, text: &str) {
        let _ = (&*self.terminal).write_all(text.as_bytes());
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(&*self.terminal, SetArg::TCSANOW, &self.before);
    }
}

/// Returns a guard that tells when a terminal has something to read.
pub fn readiness(terminal: impl AsFd) -> Option<AsyncFd<OwnedFd>> {
    let descriptor = terminal.as_fd().try_clone_to_owned().ok()?;
    #[expect(unsafe_code, reason = "registering a descriptor is unsafe; this one lives as long as its guard")]
    // SAFETY: the guard owns the descriptor, and `OwnedFd` names the same one until it is dropped.
    let ready = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    ready.ok()
}

/// Adds the text of bytes that were typed where nothing edited them; an unfinished character stays.
pub fn text(mut text: String, bytes: &mut Vec<u8>) -> String {
    for key in decode(bytes) {
        match key {
            Key::Char(char) => text.push(char),
            Key::Enter | Key::Line(LineKey::AltEnter) => text.push('\n'),
            Key::Tab => text.push('\t'),
            Key::Backspace => _ = text.pop(),
            Key::Clear => text.truncate(line_start(&text)),
            Key::Edit(Edit::DeleteWord) => {
                let line = &text[line_start(&text)..];
                let word = line.trim_end().rsplit(char::is_whitespace).next().unwrap_or_default();
                let n_blanks = line.len() - line.trim_end().len();
                text.truncate(text.len() - n_blanks - word.len());
            }
            Key::Escape | Key::Interrupt | Key::End | Key::Edit(_) | Key::Line(_) | Key::Other => {}
        }
    }
    text
}

fn line_start(text: &str) -> usize {
    text.rfind('\n').map_or(0, |end| end + 1)
}

/// Takes the keys out of the bytes; an unfinished character stays.
pub fn decode(bytes: &mut Vec<u8>) -> Vec<Key> {
    let taken = std::mem::take(bytes);
    let mut rest = &taken[..];
    let mut keys = Vec::new();
    while let Some((&first, behind)) = rest.split_first() {
        let (key, n_bytes) = match first {
            b'\r' | b'\n' => (Key::Enter, 1),
            b'\t' => (Key::Tab, 1),
            0x7f | 0x08 => (Key::Backspace, 1),
            0x15 => (Key::Clear, 1),
            0x03 => (Key::Interrupt, 1),
            0x04 => (Key::End, 1),
            0x1b => match behind {
                [] | [0x1b, ..] => (Key::Escape, 1),
                [b'\r' | b'\n', ..] => (Key::Line(LineKey::AltEnter), 2),
                behind => {
                    let Some(n_bytes) = sequence(behind) else {
                        *bytes = rest.to_vec();
                        break;
                    };
                    let named = behind.get(..n_bytes).and_then(key_of);
                    (named.unwrap_or(Key::Other), 1 + n_bytes)
                }
            },
            0x01 => (Key::Edit(Edit::Start), 1),
            0x02 => (Key::Edit(Edit::Left), 1),
            0x05 => (Key::Edit(Edit::End), 1),
            0x06 => (Key::Edit(Edit::Right), 1),
            0x0b => (Key::Edit(Edit::DeleteRest), 1),
            0x17 => (Key::Edit(Edit::DeleteWord), 1),
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

/// Bytes that follow an escape: `[` or `O`, parameters, and the letter that ends them; or one key with Alt. `None` while
/// the end has not come.
fn sequence(behind: &[u8]) -> Option<usize> {
    match behind {
        [b'[' | b'O', rest @ ..] => {
            let end = rest.iter().take(MAX_SEQUENCE).position(|byte| (0x40..=0x7e).contains(byte));
            let is_none = rest.len() >= MAX_SEQUENCE;
            end.map(|end| end + 2).or(is_none.then_some(1))
        }
        _ => Some(1),
    }
}

/// Returns the key that a sequence stands for, in the spellings of today's terminals.
fn key_of(sequence: &[u8]) -> Option<Key> {
    Some(match sequence {
        b"[D" | b"OD" => Key::Edit(Edit::Left),
        b"[C" | b"OC" => Key::Edit(Edit::Right),
        b"[H" | b"OH" | b"[1~" | b"[7~" => Key::Edit(Edit::Start),
        b"[F" | b"OF" | b"[4~" | b"[8~" => Key::Edit(Edit::End),
        b"[3~" => Key::Edit(Edit::Delete),
        b"[A" | b"OA" => Key::Line(LineKey::Up),
        b"[200~" => Key::Line(LineKey::PasteBegins),
        b"[201~" => Key::Line(LineKey::PasteEnds),
        _other => return None,
    })
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
