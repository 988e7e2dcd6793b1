//! Ranks paths by how well they fit the typed text.

/// Points of a letter that follows the one before it.
const CONSECUTIVE: i32 = 8;
/// Points of a letter at the beginning of a name or word.
const BOUNDARY: i32 = 10;
/// Points of a letter in the last name of the path.
const IN_NAME: i32 = 4;
/// Points taken for a path with a hidden name, which is rarely meant.
const HIDDEN: i32 = 40;

/// Returns the points of a path, `None` if the letters are not in it in this order. Case counts only where a capital
/// was typed.
pub fn score(path: &str, typed: &str) -> Option<i32> {
    let has_capital = typed.chars().any(char::is_uppercase);
    let is_same = |a: char, b: char| a == b || (!has_capital && a.to_lowercase().eq(b.to_lowercase()));
    let letters: Vec<char> = path.chars().collect();
    let name_start = letters.iter().rposition(|it| *it == '/').filter(|at| at + 1 < letters.len());
    let name_start = name_start.map_or(0, |at| at + 1);
    let typed: Vec<char> = typed.chars().filter(|it| !it.is_whitespace()).collect();
    // From the end, so that the last name is preferred over its directories.
    let mut best = from(&letters, &typed, name_start, 0, &is_same);
    if name_start > 0 {
        best = best.max(from(&letters, &typed, name_start, name_start, &is_same));
    }
    let is_hidden = path.split('/').any(|name| name.starts_with('.'));
    let length = i32::try_from(letters.len()).unwrap_or(i32::MAX / 2);
    best.map(|points| points - length / 4 - if is_hidden { HIDDEN } else { 0 })
}

/// Matches from a position on, each letter at its next place; a place at the beginning of a word is preferred when it
/// leaves the rest possible.
fn from(
    letters: &[char],
    typed: &[char],
    name_start: usize,
    start: usize,
    is_same: &dyn Fn(char, char) -> bool,
) -> Option<i32> {
    let mut points = 0;
    let mut at = start;
    let mut last = None;
    for (typed_idx, letter) in typed.iter().enumerate() {
        let places = (at..letters.len()).filter(|place| is_same(letters[*place], *letter));
        let next = places.clone().next()?;
        let follows = last.is_some_and(|last| last + 1 == next);
        let rest = &typed[typed_idx + 1..];
        let at_word = places
            .filter(|place| is_word_start(letters, *place))
            .find(|place| is_within(letters, rest, place + 1, is_same));
        let place = if follows { next } else { at_word.unwrap_or(next) };
        points += if follows { CONSECUTIVE } else { 0 };
        points += if is_word_start(letters, place) { BOUNDARY } else { 0 };
        points += if place >= name_start { IN_NAME } else { 0 };
        last = Some(place);
        at = place + 1;
    }
    Some(points)
}

fn is_within(letters: &[char], typed: &[char], start: usize, is_same: &dyn Fn(char, char) -> bool) -> bool {
    let mut rest = letters.get(start..).unwrap_or_default().iter();
    typed.iter().all(|letter| rest.any(|other| is_same(*other, *letter)))
}

fn is_word_start(letters: &[char], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|before| letters.get(before)) else { return true };
    !before.is_alphanumeric() || (before.is_lowercase() && letters[at].is_uppercase())
}

#[cfg(test)]
mod tests;
