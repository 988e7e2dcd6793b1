//! AWS's event streams: bytes in, events out, each checked against its two checksums.

use windlass_base::{
    sse::{Event, MAX_EVENT_BYTES},
    text,
};

#[cfg(test)]
mod tests;

/// Lengths of the message and of its headers, and the checksum over both.
const PRELUDE: usize = 12;
/// The prelude and the checksum of the message.
const OVERHEAD: usize = PRELUDE + 4;
/// Maximum bytes of a message's headers (<https://smithy.io/2.0/aws/amazon-eventstream.html>).
const MAX_HEADERS: usize = 128 << 10;

/// The error of bytes that are no event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    #[error("a message of the event stream has a wrong checksum")]
    Checksum,
    #[error("a message of the event stream has an impossible length")]
    Length,
    #[error("a message of the event stream has headers that cannot be read")]
    Headers,
}

/// A parser that keeps the received part of a message until its last byte arrives.
#[derive(Debug, Default)]
pub struct Parser {
    buffer: Vec<u8>,
}

impl Parser {
    /// Appends the events that `bytes` complete to `out`.
    ///
    /// An event has the name of its type, or of its exception, and the payload as data.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<Event>) -> Result<(), Damaged> {
        if self.buffer.is_empty() {
            let n_read = read_messages(bytes, out)?;
            self.buffer.extend_from_slice(&bytes[n_read..]);
        } else {
            self.buffer.extend_from_slice(bytes);
            let n_read = read_messages(&self.buffer, out)?;
            self.buffer.drain(..n_read);
        }
        Ok(())
    }
}

/// Reads all whole messages and returns their length.
fn read_messages(bytes: &[u8], out: &mut Vec<Event>) -> Result<usize, Damaged> {
    let mut n_read = 0;
    while let Some(length) = length(&bytes[n_read..])? {
        let Some(message) = bytes[n_read..].get(..length) else { break };
        out.extend(event(message)?);
        n_read += length;
    }
    Ok(n_read)
}

/// Returns the length of the message that begins here; `None` before its prelude is complete.
fn length(bytes: &[u8]) -> Result<Option<usize>, Damaged> {
    let Some(prelude) = bytes.get(..PRELUDE) else { return Ok(None) };
    // A length is believed only with its checksum, so that a damaged one is not waited for.
    if crc32fast::hash(&prelude[..8]) != u32_at(prelude, 8) {
        return Err(Damaged::Checksum);
    }
    let (total, headers) = (u32_at(prelude, 0) as usize, u32_at(prelude, 4) as usize);
    if headers > MAX_HEADERS || total > MAX_EVENT_BYTES || total < OVERHEAD + headers {
        return Err(Damaged::Length);
    }
    Ok(Some(total))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// Reads a message; its length was checked.
fn event(message: &[u8]) -> Result<Option<Event>, Damaged> {
    let (checked, checksum) = message.split_at(message.len() - 4);
    if crc32fast::hash(checked) != u32_at(checksum, 0) {
        return Err(Damaged::Checksum);
    }
    let (headers, payload) = checked[PRELUDE..].split_at(u32_at(message, 4) as usize);
    let headers = Headers::read(headers).ok_or(Damaged::Headers)?;
    let payload = || text::decode(payload).into_owned();
    let event = match headers.message_type {
        Some("exception") => Event { event: headers.exception_type.map(str::to_owned), data: payload() },
        Some("error") => {
            let error = serde_json::json!({"code": headers.error_code, "message": headers.error_message});
            Event { event: Some("error".to_owned()), data: error.to_string() }
        }
        Some("event") | None => Event { event: headers.event_type.map(str::to_owned), data: payload() },
        // Later kinds are to be ignored.
        Some(_) => return Ok(None),
    };
    Ok(Some(event))
}

/// The headers that name the kind of a message.
#[derive(Default)]
struct Headers<'a> {
    message_type: Option<&'a str>,
    event_type: Option<&'a str>,
    exception_type: Option<&'a str>,
    error_code: Option<&'a str>,
    error_message: Option<&'a str>,
}

impl<'a> Headers<'a> {
    fn read(mut bytes: &'a [u8]) -> Option<Headers<'a>> {
        let mut headers = Headers::default();
        while let Some((&name_length, rest)) = bytes.split_first() {
            let (name, rest) = rest.split_at_checked(usize::from(name_length))?;
            let (&kind, rest) = rest.split_first()?;
            let (value, rest) = value(kind, rest)?;
            bytes = rest;
            let field = match name {
                b":message-type" => &mut headers.message_type,
                b":event-type" => &mut headers.event_type,
                b":exception-type" => &mut headers.exception_type,
                b":error-code" => &mut headers.error_code,
                b":error-message" => &mut headers.error_message,
                _ => continue,
            };
            *field = value;
        }
        Some(headers)
    }
}

/// Splits a value of a kind off: a string's text, and nothing for the other kinds.
fn value(kind: u8, bytes: &[u8]) -> Option<(Option<&str>, &[u8])> {
    let length = match kind {
        // True and false.
        0 | 1 => 0,
        // Numbers of 1, 2, 4 and 8 bytes, a time, and a UUID.
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        9 => 16,
        // Bytes and text.
        6 | 7 => {
            let (length, rest) = bytes.split_at_checked(2)?;
            let length = usize::from(u16::from_be_bytes(length.try_into().ok()?));
            let (value, rest) = rest.split_at_checked(length)?;
            return Some((std::str::from_utf8(value).ok().filter(|_| kind == 7), rest));
        }
        _ => return None,
    };
    Some((None, bytes.split_at_checked(length)?.1))
}

/// Encodes a message, as AWS does.
#[cfg(test)]
pub fn encode(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, value) in headers {
        encoded.push(name.len() as u8);
        encoded.extend_from_slice(name.as_bytes());
        encoded.push(7);
        encoded.extend_from_slice(&(value.len() as u16).to_be_bytes());
        encoded.extend_from_slice(value.as_bytes());
    }
    let mut message = Vec::new();
    message.extend_from_slice(&((OVERHEAD + encoded.len() + payload.len()) as u32).to_be_bytes());
    message.extend_from_slice(&(encoded.len() as u32).to_be_bytes());
    message.extend_from_slice(&crc32fast::hash(&message).to_be_bytes());
    message.extend_from_slice(&encoded);
    message.extend_from_slice(payload);
    message.extend_from_slice(&crc32fast::hash(&message).to_be_bytes());
    message
}
