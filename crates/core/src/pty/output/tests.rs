//! Characters cut in pieces, positions by JavaScript's count, and the limit.

use super::{MAX_KEPT, Output, Position, SLACK};

fn output(pieces: &[&[u8]]) -> Output {
    let mut output = Output::default();
    for piece in pieces {
        output.push(piece);
    }
    output
}

#[test]
fn a_character_that_is_cut_waits_for_its_end() {
    let text = "aé漢😀b".as_bytes();
    for at in 0..=text.len() {
        let (first, second) = text.split_at(at);
        assert_eq!(output(&[first, second]).text, "aé漢😀b", "cut at {at}");
    }
    assert_eq!(output(&[b"a\xffb\xc3", b"c"]).text, "a\u{fffd}b\u{fffd}c");
}

#[test]
fn characters_are_counted_as_javascript_does() {
    let output = output(&["aé😀b".as_bytes()]);
    assert_eq!(output.cursor(), 5);
    let after = |n_units| output.after(output.position(n_units)).0;
    assert_eq!(after(0), "aé😀b");
    assert_eq!(after(2), "😀b");
    // Half of a character is none.
    assert_eq!(after(3), "b");
    assert_eq!(after(4), "b");
    assert_eq!(after(5), "");
    assert_eq!(after(99), "");
}

#[test]
fn the_oldest_output_is_dropped_and_positions_hold() {
    let line = "é".repeat(1000);
    let n_lines = (MAX_KEPT + SLACK) / line.len() + 100;
    let mut output = Output::default();
    for _ in 0..n_lines {
        output.push(line.as_bytes());
    }
    assert!(output.text.len() <= MAX_KEPT + SLACK);
    assert_eq!(output.cursor(), 1000 * n_lines as u64);
    let start = output.position(0);
    assert!(start > Position::default());
    assert_eq!(output.after(Position::default()), output.after(start));
    assert_eq!(output.after(output.position(output.cursor() - 1)).0, "é");
    let mut position = start;
    let mut n_read = 0;
    loop {
        let (piece, next) = output.after(position);
        if piece.is_empty() {
            break;
        }
        n_read += piece.len();
        position = next;
    }
    assert_eq!(n_read, output.text.len());
    assert_eq!(position, output.end());
}
