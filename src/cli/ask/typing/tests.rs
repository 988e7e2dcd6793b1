//! The display of a line while it is edited.

use super::{
    super::keyboard::{Edit, Key},
    State, Typing,
};

/// Returns the row of a terminal after the written text: characters and carriage returns alone.
fn row(written: &str) -> (String, usize) {
    let mut cells: Vec<char> = Vec::new();
    let mut at = 0;
    for char in written.chars() {
        if char == '\r' {
            at = 0;
            continue;
        }
        cells.resize(cells.len().max(at + 1), ' ');
        cells[at] = char;
        at += 1;
    }
    (cells.into_iter().collect::<String>().trim_end().to_owned(), at)
}

fn typed(columns: usize, keys: &[Key]) -> (String, usize, String) {
    let mut typing = Typing::new("Why: ", columns);
    let (shown, state) = typing.keys(keys);
    assert_eq!(state, State::Open);
    let (shown, cursor) = row(&format!("Why: {shown}"));
    let (_, State::Entered(line)) = typing.keys(&[Key::Enter]) else { panic!("Enter ends the line") };
    (shown, cursor, line)
}

fn keys(text: &str, more: &[Edit]) -> Vec<Key> {
    text.chars().map(Key::Char).chain(more.iter().map(|edit| Key::Edit(*edit))).collect()
}

#[test]
fn a_line_is_edited_in_its_middle() {
    let mut typing = keys("use jx", &[Edit::Left]);
    typing.push(Key::Char('j'));
    typing.push(Key::Edit(Edit::Delete));
    typing.extend(keys("", &[Edit::Start]));
    typing.extend(keys("do ", &[Edit::End]));
    assert_eq!(typed(40, &typing), ("Why: do use jj".to_owned(), 14, "do use jj".to_owned()));
    let words = keys("one two  three", &[Edit::DeleteWord, Edit::DeleteWord]);
    assert_eq!(typed(40, &words), ("Why: one".to_owned(), 9, "one".to_owned()));
    let rest = keys("abc", &[Edit::Left, Edit::Left, Edit::DeleteRest]);
    assert_eq!(typed(40, &rest), ("Why: a".to_owned(), 6, "a".to_owned()));
}

#[test]
fn keys_that_come_at_once_are_shown_with_the_end_of_the_line() {
    let mut typing = Typing::new("Why: ", 40);
    typing.keys(&keys("old", &[]));
    let mut last = keys("", &[Edit::Start, Edit::DeleteRest]);
    last.extend(keys("new", &[]));
    last.push(Key::Enter);
    let (shown, state) = typing.keys(&last);
    assert_eq!(row(&format!("Why: old{shown}")).0, "Why: new");
    assert_eq!(state, State::Entered("new".to_owned()));
}

#[test]
fn a_long_line_stays_in_its_row() {
    let (shown, cursor, line) = typed(12, &keys("0123456789", &[]));
    assert_eq!((shown.as_str(), cursor, line.as_str()), ("Why: 456789", 11, "0123456789"));
    let (shown, cursor, _) = typed(12, &keys("0123456789", &[Edit::Start]));
    assert_eq!((shown.as_str(), cursor), ("Why: 012345", 5));
}
