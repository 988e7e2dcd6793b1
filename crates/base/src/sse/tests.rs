//! The same events result wherever the bytes are split.

use super::{Event, MAX_EVENT_BYTES, Parser, TooLarge};

#[track_caller]
fn check(stream: &[u8], expected: &[(Option<&str>, &str)]) {
    let expected: Vec<Event> = expected
        .iter()
        .map(|(event, data)| Event { event: event.map(str::to_owned), data: (*data).to_owned() })
        .collect();
    for split in 0..=stream.len() {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        parser.push(&stream[..split], &mut events).unwrap();
        parser.push(&stream[split..], &mut events).unwrap();
        assert_eq!(events, expected, "split at {split}");
    }
    let mut parser = Parser::default();
    let mut events = Vec::new();
    for byte in stream {
        parser.push(std::slice::from_ref(byte), &mut events).unwrap();
    }
    assert_eq!(events, expected, "byte by byte");
}

#[test]
fn all_line_ends_are_understood() {
    check(b"data: one\n\ndata: two\n\n", &[(None, "one"), (None, "two")]);
    check(b"data: one\r\n\r\ndata: two\r\n\r\n", &[(None, "one"), (None, "two")]);
    check(b"data: one\r\rdata: two\r\r", &[(None, "one"), (None, "two")]);
    check(b"data: one\r\n\ndata: two\n\r\n", &[(None, "one"), (None, "two")]);
}

#[test]
fn a_crlf_ends_one_line() {
    check(b"event: a\r\ndata: one\r\ndata: two\r\n\r\n", &[(Some("a"), "one\ntwo")]);
}

#[test]
fn data_lines_are_joined() {
    check(b"data: one\ndata:two\ndata:  three\ndata\n\n", &[(None, "one\ntwo\n three\n")]);
}

#[test]
fn names_comments_and_unknown_fields() {
    check(
        b": hello\nevent: ping\ndata: {}\n\n:\nid: 7\nretry: 10\nother: x\nevent: pong\nevent: last\ndata: 1\n\n",
        &[(Some("ping"), "{}"), (Some("last"), "1")],
    );
}

#[test]
fn an_event_without_data_is_dropped_with_its_name() {
    check(b"event: lost\n\ndata: x\n\n\n\n", &[(None, "x")]);
}

#[test]
fn empty_data_is_reported() {
    check(b"data:\n\n", &[(None, "")]);
}

#[test]
fn an_unfinished_event_is_reported_at_the_end_alone() {
    check(b"data: x\n\ndata: cut\n", &[(None, "x")]);
    for (stream, expected) in [
        ("event: y\ndata: cut\r\n", vec!["cut"]),
        ("data: cut\r", vec!["cut"]),
        ("data: cut", vec!["cut"]),
        ("data: x\n\n", vec![]),
        ("event: y", vec![]),
        ("", vec![]),
    ] {
        let (mut parser, mut events) = (Parser::default(), Vec::new());
        parser.push(stream.as_bytes(), &mut events).unwrap();
        events.clear();
        parser.finish(&mut events).unwrap();
        assert_eq!(events.iter().map(|event| &*event.data).collect::<Vec<_>>(), expected, "{stream:?}");
    }
}

#[test]
fn a_byte_order_mark_is_skipped_once() {
    check("\u{feff}data: x\n\n\u{feff}data: y\n\n".as_bytes(), &[(None, "x")]);
}

#[test]
fn characters_may_be_split() {
    check("data: héllo 世界 🦀\n\n".as_bytes(), &[(None, "héllo 世界 🦀")]);
}

#[test]
fn broken_text_is_replaced() {
    check(b"data: a\xff\xc3\n\n", &[(None, "a\u{fffd}\u{fffd}")]);
}

#[test]
fn a_line_without_end_is_an_error() {
    let mut parser = Parser::default();
    let block = vec![b'x'; 1 << 20];
    let pushed: Vec<_> = (0..17).map(|_| parser.push(&block, &mut Vec::new())).collect();
    assert_eq!(pushed[15], Ok(()));
    assert_eq!(pushed[16], Err(TooLarge));
}

#[test]
fn an_event_without_end_is_an_error() {
    let mut parser = Parser::default();
    let mut line = b"data: ".to_vec();
    line.resize(MAX_EVENT_BYTES / 2, b'x');
    line.push(b'\n');
    let pushed: Vec<_> = (0..3).map(|_| parser.push(&line, &mut Vec::new())).collect();
    assert_eq!(pushed, [Ok(()), Ok(()), Err(TooLarge)]);
}
