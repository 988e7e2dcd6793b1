//! Bytes to keys.

use super::{Key, LineKey, decode, text};

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
    check(b"\x1b[B\x1bOPn", &[Key::Other, Key::Other, Key::Char('n')], b"");
    let paste = [LineKey::PasteBegins, LineKey::PasteEnds, LineKey::AltEnter, LineKey::Up].map(Key::Line);
    check(b"\x1b[200~\x1b[201~\x1b\r\x1b[A", &paste, b"");
    check(b"\x1b[1;5Cy", &[Key::Other, Key::Char('y')], b"");
    check(b"\x1by", &[Key::Other], b"");
    check(
        b"\r\x7f\x15\x03\x04\t",
        &[Key::Enter, Key::Backspace, Key::Clear, Key::Interrupt, Key::End, Key::Tab],
        b"",
    );
}

#[test]
fn a_character_may_come_in_pieces() {
    check(b"a\xc3", &[Key::Char('a')], b"\xc3");
    check(b"\xff\xe2\x86", &[Key::Other], b"\xe2\x86");
    let pasted = format!("\x1b[200~{}", "x".repeat(100));
    assert_eq!(decode(&mut pasted.into_bytes())[..2], [Key::Line(LineKey::PasteBegins), Key::Char('x')]);
    check(b"a\x1b[20", &[Key::Char('a')], b"\x1b[20");
    check(b"\xe2y", &[Key::Other, Key::Char('y')], b"");
}

#[test]
fn typed_text_is_corrected_as_it_would_be_at_a_terminal() {
    let check = |bytes: &str, typed: &str| {
        assert_eq!(text(String::new(), &mut bytes.as_bytes().to_vec()), typed, "{bytes:?}")
    };
    check("one\rtwo\n\tthree", "one\ntwo\n\tthree");
    check("onf\x7fe\x1b[A\x04", "one");
    check("first\rsecnd\x15second", "first\nsecond");
    check("one\rtwo three  \x17four", "one\ntwo four");
    check("one\r\x17two", "one\ntwo");
}
