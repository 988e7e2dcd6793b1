//! Output of commands: one text and an exit code, or a stream on both outputs in order.

use std::{
    borrow::Cow,
    collections::VecDeque,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use bytes::BytesMut;
use tokio::io::{AsyncWriteExt, Stderr, Stdout};
use windlass_base::text;
use windlass_core::config::Environment;

/// Columns where a terminal does not say.
const USUAL_COLUMNS: usize = 80;

/// Says a whole answer on standard output.
pub fn print_answer(text: &str) -> ExitCode {
    match print(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

/// Says a part of an answer on standard output; an error is the exit code with which to end.
pub fn print(text: &str) -> Result<(), ExitCode> {
    let mut stdout = io::stdout();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        // The reader, such as `head`, has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ExitCode::SUCCESS),
        Err(error) => Err(fail(&format!("The output was not written: {error}."))),
    }
}

/// Says on standard error that a command failed, and why.
pub fn fail(text: &str) -> ExitCode {
    note(text);
    ExitCode::FAILURE
}

/// Says on standard error how the call is wrong.
pub fn misuse(text: &str) -> ExitCode {
    note(text);
    ExitCode::from(2)
}

/// Says something on standard error.
pub fn note(text: &str) {
    // In one piece: other programs write to the same terminal.
    let line = format!("{}\n", text::without_number(text));
    // If standard error has no reader, the exit code says it.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Returns the directory that a command is about, which is the working directory unless one is given; an error
/// is the exit code with which to end.
pub fn directory(given: Option<&Path>) -> Result<PathBuf, ExitCode> {
    match given.map_or_else(std::env::current_dir, std::path::absolute) {
        Ok(directory) if directory.is_dir() => Ok(directory),
        Ok(directory) => Err(fail(&format!("There is no directory {}.", directory.display()))),
        Err(error) => Err(fail(&format!("The directory cannot be used: {error}."))),
    }
}

/// Columns of the terminal on standard output.
pub fn columns() -> usize {
    terminal_size::terminal_size_of(io::stdout()).map_or(USUAL_COLUMNS, |(width, _)| width.0.into())
}

/// Returns true if standard output is a terminal that shows colours and its user wants them.
pub fn is_coloured(environment: &Environment) -> bool {
    io::stdout().is_terminal()
        && environment.get("NO_COLOR").is_none()
        && environment.get("TERM") != Some("dumb")
}

/// Returns one line of a text that models and users wrote, without characters that steer a terminal. Joiners stay,
/// which emoji and scripts are made with.
pub fn plain(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    let shown = first.chars().map(|char| if char.is_control() { ' ' } else { char }).collect::<String>();
    let more = lines.next().map(|_| " …").unwrap_or_default();
    text::readable(&shown).into_owned() + more
}

/// Destination of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// Text on both outputs, in the order it was said: on a terminal they are one.
pub struct Output {
    stdout: Stdout,
    stderr: Stderr,
    pending: VecDeque<(Stream, BytesMut)>,
}

impl Output {
    pub fn new() -> Self {
        Self { stdout: tokio::io::stdout(), stderr: tokio::io::stderr(), pending: VecDeque::new() }
    }

    /// Notes a text; never waits.
    pub fn push(&mut self, stream: Stream, text: &str) {
        // Standard error is mostly a terminal, also where standard output is none; programs get answers as they are.
        let text = if stream == Stream::Err { text::readable(text) } else { Cow::Borrowed(text) };
        match self.pending.back_mut() {
            Some((last, bytes)) if *last == stream => bytes.extend_from_slice(text.as_bytes()),
            Some(_) | None => self.pending.push_back((stream, BytesMut::from(text.as_bytes()))),
        }
    }

    /// Writes the noted text. Dropping this at a wait loses nothing: the next call goes on there.
    pub async fn flush(&mut self) -> io::Result<()> {
        while let Some((stream, bytes)) = self.pending.front_mut() {
            match stream {
                Stream::Out => {
                    while !bytes.is_empty() {
                        self.stdout.write_buf(bytes).await?;
                    }
                    self.stdout.flush().await?;
                }
                Stream::Err => {
                    // Losing remarks is no reason to stop the work.
                    while !bytes.is_empty() && self.stderr.write_buf(bytes).await.is_ok() {}
                    let _ = self.stderr.flush().await;
                }
            }
            self.pending.pop_front();
        }
        Ok(())
    }

    /// Returns the text that waits to be written.
    #[cfg(test)]
    pub fn pending(&self) -> Vec<(Stream, String)> {
        let text = |bytes: &BytesMut| String::from_utf8_lossy(bytes).into_owned();
        self.pending.iter().map(|(stream, bytes)| (*stream, text(bytes))).collect()
    }
}

#[cfg(test)]
mod tests {
    //! Text of others on standard error.

    use super::{Output, Stream};

    #[test]
    fn standard_error_gets_no_escape_sequence_and_standard_output_what_there_is() {
        let mut output = Output::new();
        output.push(Stream::Err, "a\u{1b}]0;t\u{7}\u{9b}2J\u{202e}\tb\n");
        output.push(Stream::Out, "\u{1b}[1m\n");
        let pending: Vec<String> =
            output.pending.iter().map(|(_, text)| String::from_utf8_lossy(text).into_owned()).collect();
        assert_eq!(pending, ["a\\u{1b}]0;t\\u{7}\\u{9b}2J\\u{202e}\tb\n", "\u{1b}[1m\n"]);
    }
}
