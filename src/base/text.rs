//! Cutting text without splitting a character, and how far two texts are apart.

/// The longest prefix of at most `max_bytes` bytes that ends on a character boundary.
pub fn head(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// The longest suffix of at most `max_bytes` bytes that begins on a character boundary.
pub fn tail(text: &str, max_bytes: usize) -> &str {
    let start = text.len().saturating_sub(max_bytes);
    &text[text.ceil_char_boundary(start)..]
}

/// How many letters have to be added, left out or replaced to make one text of the other (Levenshtein).
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
