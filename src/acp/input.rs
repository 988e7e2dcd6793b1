//! The client's lines, read one after another with a bound on each.

use std::{io, mem};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Bytes of one line; a longer one is refused, not kept.
pub const MAX_LINE: usize = 64 * 1024 * 1024;

/// Something that was read.
pub enum Line {
    /// A line with its line feed, or the rest of the input without one.
    Whole(Vec<u8>),
    /// A line that was longer than allowed and is dropped.
    TooLong,
    /// The input has ended.
    End,
}

/// Lines of an input. A call that is dropped halfway goes on from there.
pub struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    is_whole: bool,
    /// Bytes of the longest line that is kept.
    limit: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(input: R, limit: usize) -> Self {
        let input = BufReader::with_capacity(64 * 1024, input);
        Self { input, line: Vec::new(), is_whole: true, limit }
    }

    /// Reads up to and with the next line feed.
    pub async fn next(&mut self) -> io::Result<Line> {
        loop {
            let buffer = self.input.fill_buf().await?;
            let has_ended = buffer.is_empty();
            let end = buffer.iter().position(|byte| *byte == b'\n').map(|index| index + 1);
            let n_taken = end.unwrap_or(buffer.len());
            if self.line.len() + n_taken > self.limit {
                self.is_whole = false;
                self.line = Vec::new();
            }
            if self.is_whole {
                self.line.extend_from_slice(&buffer[..n_taken]);
            }
            self.input.consume(n_taken);
            if has_ended || end.is_some() {
                let line = mem::take(&mut self.line);
                let is_whole = mem::replace(&mut self.is_whole, true);
                return Ok(if !is_whole {
                    Line::TooLong
                } else if line.is_empty() {
                    Line::End
                } else {
                    Line::Whole(line)
                });
            }
        }
    }
}
