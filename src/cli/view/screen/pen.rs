//! Puts pictures on a terminal: rows that stay, rows that are redrawn, the modes of the terminal meanwhile.
//!
//! The cursor rests hidden at the first redrawn row. When a terminal is resized it moves its cursor with the text, so
//! that clearing from there on takes away exactly the redrawn rows, however the rows were wrapped anew.

use std::{
    fs::File,
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
    sync::Arc,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use terminal_size::terminal_size_of;
use windlass_base::clock;
use windlass_protocol::opencode::{event::Event, id::SessionId};

use super::super::{
    below::Below,
    line::Line,
    look::Look,
    progress::{Closing, Progress},
};
use super::modes::Modes;

/// Columns and rows where a terminal does not say.
const USUAL: (usize, usize) = (80, 24);
/// Terminals that know these two show a picture whole.
const BEGIN_PICTURE: &str = "\x1b[?2026h";
const END_PICTURE: &str = "\x1b[?2026l";
/// Clears from the cursor's row to the end of the screen. Clearing all of that from the corner of the screen
/// would make
/// tmux keep it in its scrollback, so the first row is cleared alone, and the rest from beside the corner.
const ERASE: &str = "\r\x1b[K\x1b[C\x1b[J\r";

/// The one that draws on a terminal.
pub struct Pen {
    terminal: File,
    is_terminal: bool,
    look: Look,
    progress: Progress,
    /// The redrawn rows that are on the terminal.
    region: Vec<String>,
    size: (usize, usize),
    modes: Arc<Modes>,
}

impl Pen {
    pub fn new(terminal: File, look: Look, modes: Arc<Modes>) -> Self {
        let is_terminal = terminal.is_terminal();
        let mut pen = Self {
            terminal,
            is_terminal,
            progress: Progress::new(look.clone()),
            look,
            region: Vec::new(),
            size: USUAL,
            modes,
        };
        pen.measure();
        pen
    }

    pub fn begin(&mut self, session_id: &SessionId) {
        self.measure();
        self.progress.begin(session_id, clock::now_ms());
    }

    pub fn event(&mut self, event: &Arc<Event>) {
        self.progress.event(event, clock::now_ms());
    }

    pub fn notice(&mut self, text: &str) {
        self.progress.notice(text);
    }

    pub fn said(&mut self, text: &str) {
        self.progress.said(text);
    }

    pub fn show_thoughts(&mut self, is_shown: bool) {
        self.progress.show_thoughts(is_shown);
    }

    pub fn set_below(&mut self, below: Option<Below>) {
        self.progress.set_below(below);
    }

    pub fn end(&mut self, closing: Closing) {
        self.progress.end(closing, clock::now_ms());
    }

    /// Puts the newest picture on the terminal; returns true if it moves by itself. With `is_still` nothing does.
    pub fn draw(&mut self, is_still: bool) -> io::Result<bool> {
        let is_resized = self.measure();
        let is_live = self.look.is_live && !is_still && !self.modes.is_background();
        let staying = self.progress.take();
        let (columns, rows) = self.size;
        let moving = if is_live {
            self.progress.moving(columns.saturating_sub(1), rows, clock::now_ms())
        } else {
            Vec::new()
        };
        let moving: Vec<String> = moving.iter().map(|line| self.encoded(line)).collect();
        if moving.is_empty() {
            self.modes.restore();
        } else {
            self.modes.quiet();
        }
        if !staying.is_empty() || moving != self.region || is_resized && !moving.is_empty() {
            let bytes = self.picture(&staying, &moving);
            self.region = moving;
            self.write(bytes.as_bytes())?;
        }
        let bell = self.progress.take_bell();
        if let Some(bell) = bell.filter(|_| self.look.is_live) {
            self.write(bell.as_bytes())?;
        }
        Ok(!self.region.is_empty())
    }

    /// Returns the text that changes the terminal's picture into the new one.
    fn picture(&self, staying: &[Line], moving: &[String]) -> String {
        let mut bytes = String::new();
        let is_live = !self.region.is_empty() || !moving.is_empty();
        if is_live {
            bytes.push_str(BEGIN_PICTURE);
            // Nothing is left of rows that the terminal has wrapped since.
            bytes.push_str(if self.region.is_empty() { "\x1b[?25l" } else { ERASE });
        }
        for line in staying {
            line.encode(&self.look, &mut bytes);
            bytes.push_str(self.line_end());
        }
        if let Some((last, others)) = moving.split_last() {
            for row in others {
                bytes.push_str(row);
                bytes.push_str("\r\n");
            }
            bytes.push_str(last);
            if !others.is_empty() {
                bytes.push_str(&format!("\x1b[{}A", others.len()));
            }
            bytes.push('\r');
        } else if is_live {
            bytes.push_str("\x1b[?25h");
        }
        if is_live {
            bytes.push_str(END_PICTURE);
        }
        bytes
    }

    fn line_end(&self) -> &'static str {
        if self.is_terminal { "\r\n" } else { "\n" }
    }

    fn encoded(&self, line: &Line) -> String {
        let mut bytes = String::new();
        line.encode(&self.look, &mut bytes);
        bytes
    }

    /// Reads the terminal's size; returns true if it is another one.
    fn measure(&mut self) -> bool {
        let size = terminal_size_of(&self.terminal);
        let size = size.map_or(USUAL, |(width, height)| (width.0.into(), height.0.into()));
        let is_resized = size != self.size;
        self.size = size;
        self.progress.set_width(size.0);
        is_resized
    }

    /// Writes all of it, also where another program on the terminal made it fail rather than wait.
    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.terminal.write(bytes) {
                Ok(n_written) => bytes = bytes.get(n_written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let ready = PollFd::new(self.terminal.as_fd(), PollFlags::POLLOUT);
                    match poll(&mut [ready], PollTimeout::NONE) {
                        Ok(_) | Err(Errno::EINTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        self.modes.restore();
        if !self.region.is_empty() {
            // After a panic the last picture stays, but not without a cursor.
            let _ = self.write(format!("{ERASE}\x1b[?25h").as_bytes());
        }
    }
}
