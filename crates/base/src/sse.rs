//! Server-sent events: bytes in, events out.

use super::text;

#[cfg(test)]
mod tests;

/// Maximum bytes of one line, and of the data of one event.
pub const MAX_EVENT_BYTES: usize = 16 << 20;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// One event of the stream; those without data are not reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub event: Option<String>,
    pub data: String,
}

/// The error of a line or an event that exceeds [`MAX_EVENT_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {} MiB", MAX_EVENT_BYTES >> 20)]
pub struct TooLarge;

/// A parser that keeps the received part of an event until its last byte arrives.
///
/// Follows <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>, but for the
/// last event, which servers send without its blank line: [`Parser::finish`] reports it.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    event: Option<String>,
    data: Option<String>,
    /// Set if the last byte was a CR that ended a line: a LF directly behind it belongs to the same line end.
    after_cr: bool,
    past_first_line: bool,
}

impl Parser {
    /// Appends the events that `bytes` complete to `out`.
    pub fn push(&mut self, mut bytes: &[u8], out: &mut Vec<Event>) -> Result<(), TooLarge> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let line_end = memchr::memchr2(b'\n', b'\r', bytes);
            let chunk = &bytes[..line_end.unwrap_or(bytes.len())];
            if self.line.len() + chunk.len() > MAX_EVENT_BYTES {
                return Err(TooLarge);
            }
            match line_end {
                Some(end) => {
                    self.after_cr = bytes[end] == b'\r';
                    bytes = &bytes[end + 1..];
                    self.end_line(chunk, out)?;
                }
                None => {
                    self.line.extend_from_slice(chunk);
                    bytes = &[];
                }
            }
        }
        Ok(())
    }

    /// Appends the event that lacks its blank line, or any line end, at the end of the stream.
    pub fn finish(&mut self, out: &mut Vec<Event>) -> Result<(), TooLarge> {
        // The first of them ends a line that has begun.
        let ends: &[u8] = if self.line.is_empty() { b"\n" } else { b"\n\n" };
        self.after_cr = false;
        self.push(ends, out)
    }

    fn end_line(&mut self, chunk: &[u8], out: &mut Vec<Event>) -> Result<(), TooLarge> {
        let mut buffer = std::mem::take(&mut self.line);
        let mut line = if buffer.is_empty() {
            chunk
        } else {
            buffer.extend_from_slice(chunk);
            &buffer
        };
        if !std::mem::replace(&mut self.past_first_line, true) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.is_empty() {
            let event = self.event.take();
            if let Some(data) = self.data.take() {
                out.push(Event { event, data });
            }
        } else {
            self.field(line)?;
        }
        // Most lines of a stream cross at most one read, so the buffer is worth keeping.
        buffer.clear();
        self.line = buffer;
        Ok(())
    }

    fn field(&mut self, line: &[u8]) -> Result<(), TooLarge> {
        let (name, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = text::decode(value.strip_prefix(b" ").unwrap_or(value));
        match name {
            b"data" => match &mut self.data {
                Some(data) => {
                    if data.len() + 1 + value.len() > MAX_EVENT_BYTES {
                        return Err(TooLarge);
                    }
                    data.push('\n');
                    data.push_str(&value);
                }
                None => self.data = Some(value.into_owned()),
            },
            b"event" => self.event = Some(value.into_owned()),
            // `id` and `retry` serve reconnection, an empty name is a comment, and other fields are to be
            // ignored.
            _ => {}
        }
        Ok(())
    }
}
