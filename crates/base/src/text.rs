//! Cuts text at character boundaries, makes hidden characters visible, and measures the distance of two texts.

use std::borrow::Cow;

/// Decodes UTF-8 with replacement characters for damaged bytes.
///
/// `from_utf8_lossy` looks at each byte of sound text, `from_utf8` at words.
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Returns the longest prefix of at most `max_bytes` bytes that ends on a character boundary.
pub fn head(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// Returns the longest suffix of at most `max_bytes` bytes that begins on a character boundary.
pub fn tail(text: &str, max_bytes: usize) -> &str {
    let start = text.len().saturating_sub(max_bytes);
    &text[text.ceil_char_boundary(start)..]
}

/// Returns the text that a terminal would show after a program's output: without control sequences, and with
/// only the last version of a line that was overwritten.
pub fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains(['\u{1b}', '\r', '\u{8}', '\u{9b}']) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut line_start = 0;
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => skip_sequence(&mut rest),
            '\u{9b}' => skip_parameters(&mut rest),
            '\r' if !matches!(rest.peek(), None | Some('\n' | '\r')) => shown.truncate(line_start),
            '\r' => {}
            '\u{8}' if shown.len() > line_start => drop(shown.pop()),
            '\u{8}' => {}
            '\n' => {
                shown.push('\n');
                line_start = shown.len();
            }
            other => shown.push(other),
        }
    }
    Cow::Owned(shown)
}

/// Skips the rest of a control sequence, behind its escape character.
fn skip_sequence(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.next() {
        Some('[') => skip_parameters(rest),
        // Strings, such as titles and links, end with a bell or `ESC \\`.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(character) = rest.next() {
                match character {
                    '\u{7}' => break,
                    '\u{1b}' => {
                        rest.next_if_eq(&'\\');
                        break;
                    }
                    _ => {}
                }
            }
        }
        Some('(' | ')' | '#' | '%') => drop(rest.next()),
        Some(_) | None => {}
    }
}

/// Skips parameters up to the letter that ends them.
fn skip_parameters(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    while rest.next_if(|character| matches!(character, '\u{20}'..='\u{3f}')).is_some() {}
    rest.next_if(|character| matches!(character, '\u{40}'..='\u{7e}'));
}

/// Escapes characters that are invisible or change how the rest looks, as in `\u{202e}`. Line ends and tabs
/// stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_shown = |character: char| matches!(character, '\n' | '\t') || !is_hidden(character);
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_shown(character) {
            shown.push(character);
        } else {
            shown.extend(character.escape_unicode());
        }
    }
    Cow::Owned(shown)
}

/// Like [`visible`], but keeps characters that scripts and emoji need and that change nothing else: joiners,
/// direction marks and soft hyphens.
pub fn readable(text: &str) -> Cow<'_, str> {
    let is_shown = |character: char| {
        let is_needed =
            matches!(character, '\n' | '\t' | '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2060}');
        is_needed || !is_hidden(character)
    };
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            // Part of a line end on Windows.
            '\r' => {}
            _ if is_shown(character) => shown.push(character),
            _hidden => shown.extend(character.escape_unicode()),
        }
    }
    Cow::Owned(shown)
}

/// Like [`visible`], for a text shown as one line: line ends are escaped too.
pub fn visible_line(text: &str) -> Cow<'_, str> {
    match visible(text) {
        shown if shown.contains('\n') => Cow::Owned(shown.replace('\n', "\\u{a}")),
        shown => shown,
    }
}

/// Removes the number from a system error's text, as in `Permission denied (os error 13)`.
pub fn without_number(text: &str) -> Cow<'_, str> {
    const START: &str = " (os error ";
    let mut shown = Cow::Borrowed(text);
    while let Some((start, len)) = shown.find(START).and_then(|start| {
        let rest = &shown[start + START.len()..];
        let n_digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
        (n_digits > 0 && rest[n_digits..].starts_with(')')).then_some((start, START.len() + n_digits + 1))
    }) {
        shown.to_mut().replace_range(start..start + len, "");
    }
    shown
}

/// Formats a number of bytes for people, such as `1.4 MB`.
pub fn size(bytes: u64) -> String {
    let units = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// Escapes the characters that [`visible`] escapes, in the form of JSON, so that the value stays the same.
pub fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if matches!(character, '\n' | '\t') || !is_hidden(character) {
            shown.push(character);
        } else {
            let units = character
                .encode_utf16(&mut [0; 2])
                .iter()
                .map(|unit| format!("\\u{unit:04x}"))
                .collect::<String>();
            shown.push_str(&units);
        }
    }
    shown
}

/// Returns true for control characters, direction marks and characters without width.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Returns the number of letters to add, remove or replace to turn one text into the other (Levenshtein).
pub fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (idx, c) in one.chars().enumerate() {
        let mut diagonal = idx;
        let mut left = idx + 1;
        for (cell, &other_c) in row.iter_mut().skip(1).zip(&other) {
            let value = (diagonal + usize::from(c != other_c)).min(*cell + 1).min(left + 1);
            diagonal = *cell;
            *cell = value;
            left = value;
        }
        if let Some(first) = row.first_mut() {
            *first = idx + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// Returns the name that was probably meant by `wanted`.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    let wanted = plain(wanted);
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    // Swapped letters are the commonest mistake: `modle` is `model` rather than `mode`.
    let is_swapped = |name: &str| letters(&wanted) == letters(name);
    // Others are too far away, and need no comparison.
    let is_as_long = |name: &str| wanted.chars().count().abs_diff(name.chars().count()) <= 2;
    let near = names.map(|name| (plain(name), name)).filter(|(plain, _)| is_as_long(plain));
    let near = near.map(|(plain, name)| (!is_swapped(&plain), distance(&wanted, &plain), name));
    let (is_other, away, name) = near.min_by_key(|&(is_other, away, _)| (is_other, away))?;
    (!is_other || away <= 2 && away * 3 <= name.len()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::{size, visible, visible_json, visible_line, without_escapes, without_number};

    #[test]
    fn control_sequences_are_removed() {
        for (text, shown) in [
            ("plain\n", "plain\n"),
            ("\u{1b}[1;31mred\u{1b}[0m\r\nnext", "red\nnext"),
            ("10%\r50%\r100%\ndone", "100%\ndone"),
            ("\u{1b}]8;;https://x.test\u{1b}\\link\u{1b}]8;;\u{7}!", "link!"),
            ("ab\u{8}c\u{1b}(B\u{9b}2J", "ac"),
            ("cut \u{1b}[", "cut "),
        ] {
            assert_eq!(without_escapes(text), shown);
        }
    }

    #[test]
    fn hidden_characters_are_escaped_and_the_rest_stays() {
        for plain in ["ls -la", "grüße 你好 👩\u{fe0f}", "two\n\tlines", "‘quoted’ – dash…"] {
            assert_eq!(visible(plain), plain);
        }
        for (text, shown) in [
            ("rm x\u{202e}txt.a", "rm x\\u{202e}txt.a"),
            ("a\u{200b}b\u{feff}c\u{2066}d\u{ad}", "a\\u{200b}b\\u{feff}c\\u{2066}d\\u{ad}"),
            ("a\rb\u{1b}[2Jc\u{7f}\u{9b}", "a\\u{d}b\\u{1b}[2Jc\\u{7f}\\u{9b}"),
            ("a\u{2028}b\u{e0041}", "a\\u{2028}b\\u{e0041}"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!(visible_line("a\nb\u{1b}\tc"), "a\\u{a}b\\u{1b}\tc");
        assert_eq!(visible_json("{\n\"\u{202e}\u{e0041}é\"}"), "{\n\"\\u202e\\udb40\\udc41é\"}");
    }

    #[test]
    fn numbers_of_system_errors_are_left_out() {
        for (text, expected) in [
            ("Permission denied (os error 13)", "Permission denied"),
            ("a (os error 2), b (os error 13).", "a, b."),
            ("no (os error) and (os error x)", "no (os error) and (os error x)"),
            ("cut (os error 1", "cut (os error 1"),
        ] {
            assert_eq!(without_number(text), expected);
        }
    }

    #[test]
    fn sizes_have_one_digit_behind_the_point() {
        let sizes = [0, 999, 1_000, 1_449_999, 2_000_000_000].map(size);
        assert_eq!(sizes, ["0 bytes", "999 bytes", "1.0 kB", "1.4 MB", "2.0 GB"]);
    }
}
