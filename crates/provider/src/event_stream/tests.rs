//! The same events result wherever the bytes are split, and damage is noticed.

use windlass_base::sse::{Event, MAX_EVENT_BYTES};

use super::{Damaged, Parser, encode};

fn parse(pieces: &[&[u8]]) -> Result<Vec<(Option<String>, String)>, Damaged> {
    let mut parser = Parser::default();
    let mut events = Vec::new();
    for piece in pieces {
        parser.push(piece, &mut events)?;
    }
    Ok(events.into_iter().map(|Event { event, data }| (event, data)).collect())
}

fn event(name: &str, data: &str) -> (Option<String>, String) {
    (Some(name.to_owned()), data.to_owned())
}

fn stream() -> Vec<u8> {
    let content_type = (":content-type", "application/json");
    [
        encode(&[(":event-type", "first"), content_type, (":message-type", "event")], "{\"ä\":1}".as_bytes()),
        encode(&[(":message-type", "later"), (":event-type", "unknown")], b"?"),
        encode(&[(":exception-type", "throttlingException"), (":message-type", "exception")], b"{}"),
        encode(
            &[(":message-type", "error"), (":error-code", "500"), (":error-message", "\"no\"")],
            b"ignored",
        ),
    ]
    .concat()
}

#[test]
fn messages_are_read_wherever_they_are_split() {
    let stream = stream();
    let expected = [
        event("first", "{\"ä\":1}"),
        event("throttlingException", "{}"),
        event("error", r#"{"code":"500","message":"\"no\""}"#),
    ];
    for at in 0..=stream.len() {
        let (head, tail) = stream.split_at(at);
        assert_eq!(parse(&[head, tail]).unwrap(), expected, "split at {at}");
    }
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(parse(&bytes).unwrap(), expected);
}

#[test]
fn every_damaged_byte_is_noticed() {
    let message = encode(&[(":event-type", "first"), (":message-type", "event")], b"{}");
    for at in 0..message.len() {
        let mut damaged = message.clone();
        damaged[at] ^= 0x20;
        assert_eq!(parse(&[&damaged]), Err(Damaged::Checksum), "byte {at}");
    }
}

#[test]
fn lengths_and_headers_that_cannot_be_are_refused() {
    let prelude = |total: u32, headers: u32| {
        let lengths = [total.to_be_bytes(), headers.to_be_bytes()].concat();
        [&*lengths, &crc32fast::hash(&lengths).to_be_bytes()].concat()
    };
    for (total, headers) in [(0, 0), (15, 0), (17, 2), (MAX_EVENT_BYTES as u32 + 1, 0), (1 << 20, 200_000)] {
        assert_eq!(parse(&[&prelude(total, headers)]), Err(Damaged::Length), "{total} {headers}");
    }
    let with_headers = |headers: &[u8]| {
        let mut message = prelude(16 + headers.len() as u32, headers.len() as u32);
        message.extend_from_slice(headers);
        message.extend_from_slice(&crc32fast::hash(&message).to_be_bytes());
        message
    };
    // A name that is cut, a value that is cut, a kind that does not exist.
    for headers in [&b"\x09a"[..], b"\x01a\x07\x00\x09x", b"\x01a\x63"] {
        assert_eq!(parse(&[&with_headers(headers)]), Err(Damaged::Headers), "{headers:?}");
    }
    let others = with_headers(b"\x01a\x00\x01b\x04\x00\x00\x00\x01\x01c\x08AAAAAAAA\x01d\x06\x00\x01\xff");
    assert_eq!(parse(&[&others]).unwrap(), [(None, String::new())]);
}
