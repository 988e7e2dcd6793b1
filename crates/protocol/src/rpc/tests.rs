//! Classification of lines as messages, and the codes of those that are none.

use super::{Id, Incoming, Malformed, code, parse};

fn malformed(line: &[u8]) -> Malformed {
    parse(line).expect("not blank").expect_err("malformed")
}

#[test]
fn ids_are_echoed_as_sent() {
    for (text, expected) in [
        ("-7", Id::Number(-7)),
        ("9223372036854775807", Id::Number(i64::MAX)),
        ("\"a-1\"", Id::String("a-1".to_owned())),
        ("null", Id::Null),
    ] {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{text},\"method\":\"m\"}}");
        let Some(Ok(Incoming::Call { id, .. })) = parse(line.as_bytes()) else { panic!("{line}") };
        assert_eq!(id, expected);
        assert_eq!(serde_json::to_string(&id).expect("encodes"), text);
    }
}

#[test]
fn a_float_id_is_no_request() {
    let error = malformed(br#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#);
    assert_eq!(error.code(), code::INVALID_REQUEST);
}

#[test]
fn blank_lines_are_skipped_and_crlf_is_accepted() {
    assert!(parse(b"").is_none());
    assert!(parse(b"  \r").is_none());
    assert!(matches!(
        parse(b"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}\r"),
        Some(Ok(Incoming::Notification { .. }))
    ));
}

#[test]
fn bad_lines_get_the_code_of_their_kind() {
    for (line, expected) in [
        (&b"{bad"[..], code::PARSE_ERROR),
        (b"\xff\xfe{}", code::PARSE_ERROR),
        (b"[]", code::INVALID_REQUEST),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}]", code::INVALID_REQUEST),
        (b"3", code::INVALID_REQUEST),
        (b"{\"id\":1,\"method\":\"m\"}", code::INVALID_REQUEST),
        (b"{\"jsonrpc\":\"2.0\"}", code::INVALID_REQUEST),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1}", code::INVALID_REQUEST),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", code::INVALID_REQUEST),
    ] {
        assert_eq!(malformed(line).code(), expected, "{}", String::from_utf8_lossy(line));
    }
}

#[test]
fn a_response_may_hold_null() {
    let Some(Ok(Incoming::Response { id, result })) = parse(br#"{"jsonrpc":"2.0","id":3,"result":null}"#)
    else {
        panic!("response")
    };
    assert_eq!(id, Id::Number(3));
    assert_eq!(result.expect("success").map(|raw| raw.get()), Some("null"));
}
