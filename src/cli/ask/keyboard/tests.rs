//! Bytes to keys.

use super::{Key, decode};

fn check(bytes: &[u8], keys: &[Key], rest: &[u8]) {
    let mut buffer = bytes.to_vec();
    assert_eq!(decode(&mut buffer), keys, "{bytes:?}");
    assert_eq!(buffer, rest, "{bytes:?}");
}

#[test]
fn keys_are_told_apart() {
    check(b"y", &[Key::Char('y')], b"");
    check("ä→".as_bytes(), &[Key::Char('ä'), Key::Char('→')], b"");
    check(b"\x1b", &[Key::Escape], b"");
    check(b"\x1b[A\x1bOPn", &[Key::Other, Key::Other, Key::Char('n')], b"");
    check(b"\x1b[1;5Cy", &[Key::Other, Key::Char('y')], b"");
    check(b"\x1by", &[Key::Other], b"");
    check(
        b"\r\x7f\x15\x03\x04\t",
        &[Key::Enter, Key::Backspace, Key::Clear, Key::Interrupt, Key::End, Key::Other],
        b"",
    );
}

#[test]
fn a_character_may_come_in_pieces() {
    check(b"a\xc3", &[Key::Char('a')], b"\xc3");
    check(b"\xff\xe2\x86", &[Key::Other], b"\xe2\x86");
    check(b"\xe2y", &[Key::Other, Key::Char('y')], b"");
}
