//! Framings of messages on a stream: bytes in, messages out, each of a bounded size. Pure.

use serde_json::Value;

use crate::text;

/// Bytes of a header; real ones have less than a hundred.
const MAX_HEADER: usize = 8 << 10;
/// Bytes of a message: more than any answer that a model could make use of.
const MAX_BODY: usize = 16 << 20;
/// A buffer that was larger for one message is made smaller again.
const MAX_KEPT: usize = 1 << 20;
/// Bytes that an error shows of a text that is no header.
const MAX_SHOWN: usize = 60;

/// Separation of one message from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// A header with the length before each message, as language servers have it.
    ContentLength,
    /// One message a line; empty lines mean nothing.
    Lines,
}

impl Framing {
    /// Returns a message as it is sent.
    pub fn encode(self, message: &Value) -> Vec<u8> {
        let body = message.to_string();
        match self {
            Self::ContentLength => format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes(),
            Self::Lines => (body + "\n").into_bytes(),
        }
    }
}

/// Reason why nothing more can be read: where the next message begins is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    #[error("wrote something to its standard output that is not its protocol: {0:?}")]
    NoHeader(String),
    #[error("sent a message of {0} bytes, more than the {MAX_BODY} that are taken")]
    TooLarge(usize),
    #[error("sent a message that is not JSON: {0}")]
    NotJson(String),
}

/// Takes bytes as they come.
#[derive(Debug)]
pub struct Decoder {
    framing: Framing,
    buffer: Vec<u8>,
    /// The length of the message after the header that has been read.
    body: Option<usize>,
    /// Bytes of the buffer that hold no end of a line.
    n_searched: usize,
}

impl Decoder {
    pub fn new(framing: Framing) -> Self {
        Self { framing, buffer: Vec::new(), body: None, n_searched: 0 }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole message. After an error there is nothing more to be had.
    pub fn next_message(&mut self) -> Result<Option<Value>, FramingError> {
        match self.framing {
            Framing::ContentLength => self.next_body(),
            Framing::Lines => self.next_line(),
        }
    }

    fn next_body(&mut self) -> Result<Option<Value>, FramingError> {
        let n_bytes = match self.body {
            Some(n_bytes) => n_bytes,
            None => match header(&self.buffer)? {
                None => return Ok(None),
                Some((_, n_bytes)) if n_bytes > MAX_BODY => return Err(FramingError::TooLarge(n_bytes)),
                Some((end, n_bytes)) => {
                    self.buffer.drain(..end);
                    *self.body.insert(n_bytes)
                }
            },
        };
        let Some(body) = self.buffer.get(..n_bytes) else { return Ok(None) };
        let message = parse(body)?;
        self.take(n_bytes);
        self.body = None;
        Ok(Some(message))
    }

    fn next_line(&mut self) -> Result<Option<Value>, FramingError> {
        loop {
            let end = self.buffer[self.n_searched..].iter().position(|byte| *byte == b'\n');
            let n_bytes = end.map_or(self.buffer.len(), |end| self.n_searched + end);
            if n_bytes > MAX_BODY {
                return Err(FramingError::TooLarge(n_bytes));
            }
            if end.is_none() {
                self.n_searched = n_bytes;
                return Ok(None);
            }
            let line = self.buffer[..n_bytes].trim_ascii();
            let message = (!line.is_empty()).then(|| parse(line)).transpose()?;
            self.take(n_bytes + 1);
            self.n_searched = 0;
            if message.is_some() {
                return Ok(message);
            }
        }
    }

    fn take(&mut self, n_bytes: usize) {
        self.buffer.drain(..n_bytes);
        if n_bytes > MAX_KEPT {
            self.buffer.shrink_to(MAX_KEPT);
        }
    }
}

fn parse(body: &[u8]) -> Result<Value, FramingError> {
    serde_json::from_slice(body).map_err(|error| FramingError::NotJson(error.to_string()))
}

/// Returns the end of the header and the length of the message behind it, once all of the header is there.
fn header(buffer: &[u8]) -> Result<Option<(usize, usize)>, FramingError> {
    let no_header = || {
        let shown = String::from_utf8_lossy(&buffer[..buffer.len().min(2 * MAX_SHOWN)]).into_owned();
        FramingError::NoHeader(text::head(&shown, MAX_SHOWN).to_owned())
    };
    let mut n_bytes = None;
    let mut start = 0;
    while let Some(length) = buffer[start..].iter().position(|byte| *byte == b'\n') {
        let line = buffer[start..start + length].trim_ascii();
        start += length + 1;
        if line.is_empty() {
            return n_bytes.map(|n_bytes| Some((start, n_bytes))).ok_or_else(no_header);
        }
        let field = std::str::from_utf8(line).ok().and_then(|line| line.split_once(':'));
        let (name, value) = field.ok_or_else(no_header)?;
        if name.eq_ignore_ascii_case("Content-Length") {
            n_bytes = Some(value.trim().parse::<usize>().map_err(|_| no_header())?);
        } else if !name.eq_ignore_ascii_case("Content-Type") {
            return Err(no_header());
        }
    }
    if buffer.len() > MAX_HEADER { Err(no_header()) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn all(framing: Framing, chunks: &[&[u8]]) -> Result<Vec<Value>, FramingError> {
        let mut decoder = Decoder::new(framing);
        let mut messages = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            while let Some(message) = decoder.next_message()? {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    #[test]
    fn messages_are_the_same_wherever_the_bytes_are_split() {
        let messages = vec![json!({"id": 1, "result": "é\r\n\r\n{}"}), json!([]), json!({"a": {"b": null}})];
        let expected = [messages.clone(), vec![json!({})]].concat();
        let header =
            b"content-length:2\nContent-Type: application/vscode-jsonrpc; charset=utf-8\n\n{}".as_slice();
        for (framing, last) in [(Framing::ContentLength, header), (Framing::Lines, b"\n \r\n{}\r\n")] {
            let mut bytes: Vec<u8> = messages.iter().flat_map(|it| framing.encode(it)).collect();
            bytes.extend(last);
            for at in 0..=bytes.len() {
                assert_eq!(
                    all(framing, &[&bytes[..at], &bytes[at..]]).as_ref(),
                    Ok(&expected),
                    "split at {at}"
                );
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(all(framing, &single).as_ref(), Ok(&expected));
        }
    }

    #[test]
    fn a_line_has_a_bound() {
        let long = vec![b' '; MAX_BODY + 1];
        assert_eq!(all(Framing::Lines, &[&long]), Err(FramingError::TooLarge(MAX_BODY + 1)));
        assert_eq!(all(Framing::Lines, &[&long[1..], b"\n1\n"]), Ok(vec![json!(1)]));
        assert!(matches!(all(Framing::Lines, &[b"Listening\n"]), Err(FramingError::NotJson(_))));
    }

    #[test]
    fn what_is_no_message_is_named_as_soon_as_it_is_seen() {
        let no_header = |shown: &str| Err(FramingError::NoHeader(shown.to_owned()));
        for (bytes, expected) in [
            (b"Listening on stdio\n".as_slice(), no_header("Listening on stdio\n")),
            (b"Server: up\n", no_header("Server: up\n")),
            (b"\r\n\r\n", no_header("\r\n\r\n")),
            (b"Content-Length: -1\r\n\r\n", no_header("Content-Length: -1\r\n\r\n")),
            (b"Content-Type: x\r\n\r\n{}", no_header("Content-Type: x\r\n\r\n{}")),
            (b"\xff\xfe\n", no_header("\u{fffd}\u{fffd}\n")),
            (b"Content-Length: 99999999999\r\n\r\n", Err(FramingError::TooLarge(99_999_999_999))),
        ] {
            assert_eq!(all(Framing::ContentLength, &[bytes]), expected);
        }
        assert_eq!(all(Framing::ContentLength, &[&[b'x'; MAX_HEADER]]), Ok(vec![]));
        assert_eq!(
            all(Framing::ContentLength, &[&[b'x'; MAX_HEADER], b"x"]),
            no_header(&"x".repeat(MAX_SHOWN))
        );
        assert!(matches!(
            all(Framing::ContentLength, &[b"Content-Length: 3\r\n\r\n{]}"]),
            Err(FramingError::NotJson(_))
        ));
    }
}
