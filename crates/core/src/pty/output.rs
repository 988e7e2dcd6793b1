//! The output of a terminal as text, of which the newest part is kept for readers that come later.

/// Bytes that are kept.
pub const MAX_KEPT: usize = 2 << 20;
/// Bytes beyond the limit that may gather before the oldest are dropped, so that this is done rarely.
const SLACK: usize = 256 << 10;
/// Maximum bytes that a reader takes at once.
const MAX_TAKEN: usize = 64 << 10;

/// A position in all the output there ever was, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position(u64);

/// The newest output of a terminal.
#[derive(Debug, Default)]
pub struct Output {
    text: String,
    /// Bytes that were dropped before `text`.
    n_dropped: u64,
    /// UTF-16 units that were dropped: clients count characters as JavaScript does.
    n_dropped_units: u64,
    n_units: u64,
    /// The beginning of a character that was not read to its end yet.
    incomplete: Vec<u8>,
}

impl Output {
    /// Appends bytes that were read. A character that is cut off waits for its end; bytes that are no text become `�`.
    pub fn push(&mut self, read: &[u8]) {
        let joined;
        let mut rest = if self.incomplete.is_empty() {
            read
        } else {
            joined = [std::mem::take(&mut self.incomplete).as_slice(), read].concat();
            joined.as_slice()
        };
        loop {
            match str::from_utf8(rest) {
                Ok(text) => {
                    self.append(text);
                    break;
                }
                Err(error) => {
                    let (valid, behind) = rest.split_at(error.valid_up_to());
                    self.append(str::from_utf8(valid).unwrap_or_default());
                    let Some(n_broken) = error.error_len() else {
                        self.incomplete = behind.to_vec();
                        break;
                    };
                    self.append("\u{fffd}");
                    rest = &behind[n_broken..];
                }
            }
        }
        self.drop_old();
    }

    fn append(&mut self, text: &str) {
        self.n_units += count_units(text);
        self.text.push_str(text);
    }

    fn drop_old(&mut self) {
        if self.text.len() <= MAX_KEPT + SLACK {
            return;
        }
        let end = self.text.ceil_char_boundary(self.text.len() - MAX_KEPT);
        self.n_dropped_units += count_units(&self.text[..end]);
        self.n_dropped += end as u64;
        self.text.drain(..end);
    }

    /// Returns the characters of all the output, as JavaScript counts them.
    pub fn cursor(&self) -> u64 {
        self.n_units
    }

    /// Returns the position behind the newest output.
    pub fn end(&self) -> Position {
        Position(self.n_dropped + self.text.len() as u64)
    }

    /// Returns the position behind this many characters, or the oldest that is kept.
    pub fn position(&self, n_units: u64) -> Position {
        let mut left = n_units.saturating_sub(self.n_dropped_units);
        let mut chars = self.text.char_indices();
        let offset = loop {
            match chars.next() {
                None => break self.text.len(),
                Some((offset, _)) if left == 0 => break offset,
                Some((_, char)) => left = left.saturating_sub(char.len_utf16() as u64),
            }
        };
        Position(self.n_dropped + offset as u64)
    }

    /// Returns a piece of the output behind a position, and the position behind it. Output that is not kept any more is
    /// left out.
    pub fn after(&self, position: Position) -> (&str, Position) {
        let start = usize::try_from(position.0.saturating_sub(self.n_dropped)).unwrap_or(usize::MAX);
        let rest = self.text.get(start..).unwrap_or_default();
        let piece = &rest[..rest.floor_char_boundary(MAX_TAKEN)];
        let start = start.min(self.text.len());
        (piece, Position(self.n_dropped + (start + piece.len()) as u64))
    }
}

fn count_units(text: &str) -> u64 {
    if text.is_ascii() { text.len() as u64 } else { text.encode_utf16().count() as u64 }
}

#[cfg(test)]
mod tests;
