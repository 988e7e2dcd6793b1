//! Cutting text without splitting a character.

/// The longest prefix of at most `max_bytes` bytes that ends on a character boundary.
pub fn head(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// The longest suffix of at most `max_bytes` bytes that begins on a character boundary.
pub fn tail(text: &str, max_bytes: usize) -> &str {
    let start = text.len().saturating_sub(max_bytes);
    &text[text.ceil_char_boundary(start)..]
}
