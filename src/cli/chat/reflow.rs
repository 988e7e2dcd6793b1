//! The typed line in a terminal that becomes narrower: it wraps the rows anew, of which the line editor knows nothing.
//!
//! The editor clears as many rows as it has drawn, so that the rows that were added by wrapping would stay above its
//! line. It draws the prompt behind that, which is where they are taken away.

use std::{
    cell::{Cell, RefCell},
    io,
};

use terminal_size::terminal_size_of;

use super::super::view::line::width;

/// Clears from the cursor's row on; see the erasing of pictures for why not at once.
const ERASE: &str = "\r\x1b[K\x1b[C\x1b[J\r";

/// The line as it was drawn last.
#[derive(Debug, Default)]
pub struct Drawn {
    columns: Cell<usize>,
    /// The text before the cursor, without the prompt.
    before: RefCell<String>,
}

impl Drawn {
    /// Notes the line that is on the terminal.
    pub fn note(&self, line: &str, cursor: usize) {
        let before = line.get(..cursor).unwrap_or_default();
        let mut noted = self.before.borrow_mut();
        if *noted != before {
            before.clone_into(&mut noted);
        }
    }

    /// Returns the text that takes away the rows above, before the prompt is drawn anew.
    pub fn cleared(&self, prompt: &str) -> String {
        let size = terminal_size_of(io::stdout()).map_or(0, |(width, _)| width.0.into());
        self.cleared_at(prompt, size)
    }

    fn cleared_at(&self, prompt: &str, columns: usize) -> String {
        let last = self.columns.replace(columns);
        if columns == 0 || columns >= last {
            return String::new();
        }
        let before = format!("{prompt}{}", self.before.borrow());
        let n_added = rows_above(&before, columns).saturating_sub(rows_above(&before, last));
        if n_added == 0 { String::new() } else { format!("\x1b[{n_added}A{ERASE}") }
    }
}

/// Rows above the cursor behind this text.
fn rows_above(text: &str, columns: usize) -> usize {
    let lines = text.split('\n').map(|line| width(line) / columns);
    lines.sum::<usize>() + text.matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::{Drawn, ERASE};

    #[test]
    fn rows_that_wrapping_added_are_taken_away() {
        let drawn = Drawn::default();
        assert_eq!(drawn.cleared_at("> ", 80), "");
        let line = "x".repeat(50);
        drawn.note(&line, 50);
        assert_eq!(drawn.cleared_at("> ", 40), format!("\x1b[1A{ERASE}"));
        assert_eq!(drawn.cleared_at("> ", 10), format!("\x1b[4A{ERASE}"));
        assert_eq!(drawn.cleared_at("> ", 80), "");
        drawn.note(&line, 3);
        assert_eq!(drawn.cleared_at("> ", 40), "", "the cursor is in the first row still");
    }
}
