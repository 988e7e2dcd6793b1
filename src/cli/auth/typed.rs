//! One line that a user types, shown or hidden; a pipe's line where there is no terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use nix::{
    errno::Errno,
    libc::_POSIX_VDISABLE,
    sys::termios::{self, LocalFlags, SetArg, SpecialCharacterIndices, Termios},
};

use super::super::input;

/// Says if a terminal shows typed keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Echo {
    Shown,
    Hidden,
}

/// Asks on standard error where somebody types, and takes one line without the blanks around it. An empty line is
/// asked for again there.
///
/// Dropping the future gives the terminal back as it was; the line is then lost.
pub async fn line(question: &str, echo: Echo) -> io::Result<String> {
    let is_typed = io::stdin().is_terminal();
    let mut hidden = None;
    if is_typed && echo == Echo::Hidden {
        hidden = Some(Hidden::new()?);
    }
    let wanted = question.trim_end_matches([':', ' ']);
    let waits_for = format!(
        "windlass waits for a line on standard input: \"{wanted}\"; pipe it, or run this command at a terminal."
    );
    let line = loop {
        if is_typed {
            let mut stderr = io::stderr();
            stderr.write_all(question.as_bytes())?;
            stderr.flush()?;
        }
        let read = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            io::stdin().lock().read_line(&mut line).map(|_| line)
        });
        let read = if is_typed { read.await } else { input::read(read, &waits_for).await };
        let line = read.map_err(io::Error::other)??;
        let is_ended = !line.ends_with('\n');
        if is_ended || !is_typed || !line.trim().is_empty() {
            break line;
        }
    };
    drop(hidden);
    match line.trim() {
        "" => Err(io::Error::other(format!("nothing was given for \"{wanted}\""))),
        line => Ok(line.to_owned()),
    }
}

/// Hides typed keys until it is dropped.
struct Hidden {
    before: Termios,
}

impl Hidden {
    fn new() -> Result<Self, Errno> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        // The end of the line is still seen.
        hidden.local_flags.insert(LocalFlags::ICANON | LocalFlags::ECHONL);
        // A stopped process could not give the terminal back.
        if let Some(stop) = hidden.control_chars.get_mut(SpecialCharacterIndices::VSUSP as usize) {
            *stop = _POSIX_VDISABLE;
        }
        termios::tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &hidden)?;
        Ok(Self { before })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = termios::tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &self.before);
    }
}
