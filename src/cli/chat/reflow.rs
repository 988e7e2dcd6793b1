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
    prompt: RefCell<String>,
    /// The whole line, without the prompt.
    line: RefCell<String>,
    /// Offset of the cursor in the line.
    cursor: Cell<usize>,
    /// Columns of the last of its lines where that filled its rows, which the editor ended by a line feed then. Text
    /// typed behind it is added without drawing anew, so that the line feed stays.
    full: Cell<usize>,
}

impl Drawn {
    /// Notes the line that is about to be drawn.
    pub fn note(&self, line: &str, cursor: usize) {
        self.note_at(line, cursor, columns());
    }

    /// Returns the text that takes away the rows above, before the prompt is drawn anew.
    pub fn cleared(&self, prompt: &str) -> String {
        self.cleared_at(prompt, columns())
    }

    fn note_at(&self, line: &str, cursor: usize, columns: usize) {
        let prompt = self.prompt.borrow();
        let mut noted = self.line.borrow_mut();
        // The editor does not draw a line anew that fits into the new width, so that its width is noted here.
        if !noted.contains('\n') && width(&prompt) + width(&noted) < columns {
            self.columns.set(columns);
        }
        if *noted != line {
            line.clone_into(&mut noted);
        }
        self.cursor.set(cursor);
    }

    fn cleared_at(&self, prompt: &str, columns: usize) -> String {
        let last = self.columns.replace(columns);
        prompt.clone_into(&mut self.prompt.borrow_mut());
        let line = format!("{prompt}{}", self.line.borrow());
        let end = width(line.rsplit('\n').next().unwrap_or_default());
        let full = self.full.replace(if columns > 0 && end.is_multiple_of(columns) { end } else { 0 });
        if columns == 0 || columns >= last {
            return String::new();
        }
        let before = line.get(..prompt.len() + self.cursor.get()).unwrap_or_default();
        let is_at_end = before.len() == line.len();
        let n_added = reflowed(before, columns, full, is_at_end).saturating_sub(laid_out(before, last));
        if n_added == 0 { String::new() } else { format!("\x1b[{n_added}A{ERASE}") }
    }
}

/// Returns the rows that a text takes on this terminal, as the editor lays it out.
pub fn n_rows(text: &str) -> usize {
    match columns() {
        0 => 1,
        columns => laid_out(text, columns) + 1,
    }
}

fn columns() -> usize {
    terminal_size_of(io::stdout()).map_or(0, |(width, _)| width.0.into())
}

/// Returns the number of rows above the cursor behind this text as the editor lays it out.
fn laid_out(text: &str, columns: usize) -> usize {
    let n_rows: usize = text.split('\n').map(|line| width(line) / columns).sum();
    n_rows + text.matches('\n').count()
}

/// Returns the same for text that the terminal wrapped anew, with a line feed behind `full` columns of its last line.
fn reflowed(text: &str, columns: usize, full: usize, is_at_end: bool) -> usize {
    let (above, last) = text.rsplit_once('\n').map_or((None, text), |(above, last)| (Some(above), last));
    let n_above = above.map_or(0, |above| laid_out(above, columns) + 1);
    let width = width(last);
    let (n_full, rest) = if width < full { (0, width) } else { (full.div_ceil(columns), width - full) };
    // Behind a row that is just full, a cursor with nothing behind it stays in that row.
    let n_last = if is_at_end { rest.saturating_sub(1) / columns } else { rest / columns };
    n_above + n_full + n_last
}

#[cfg(test)]
mod tests {
    use super::{Drawn, ERASE};

    #[test]
    fn rows_that_wrapping_added_are_taken_away() {
        let drawn = Drawn::default();
        assert_eq!(drawn.cleared_at("> ", 80), "");
        let line = "x".repeat(50);
        drawn.note_at(&line, 50, 80);
        assert_eq!(drawn.cleared_at("> ", 40), format!("\x1b[1A{ERASE}"));
        assert_eq!(drawn.cleared_at("> ", 10), format!("\x1b[4A{ERASE}"));
        assert_eq!(drawn.cleared_at("> ", 80), "");
        drawn.note_at(&line, 3, 80);
        assert_eq!(drawn.cleared_at("> ", 40), "", "the cursor is in the first row still");
    }

    #[test]
    fn a_full_last_row_has_a_line_feed_behind_it() {
        let drawn = Drawn::default();
        drawn.cleared_at("> ", 80);
        drawn.note_at(&"x".repeat(58), 58, 80);
        assert_eq!(drawn.cleared_at("> ", 60), "");
        drawn.note_at(&"x".repeat(59), 59, 60);
        assert_eq!(drawn.cleared_at("> ", 40), format!("\x1b[1A{ERASE}"));
        assert_eq!(drawn.cleared_at("> ", 30), format!("\x1b[1A{ERASE}"), "drawn anew, it has none");
    }

    #[test]
    fn a_width_in_which_nothing_was_drawn_anew_counts() {
        let drawn = Drawn::default();
        drawn.cleared_at("> ", 40);
        // Wider with an empty line, then typed, then narrower again.
        let line = "x".repeat(60);
        drawn.note_at("x", 1, 80);
        drawn.note_at(&line, 60, 80);
        assert_eq!(drawn.cleared_at("> ", 50), format!("\x1b[1A{ERASE}"));
        // Narrower with a short line, which grows into the second row: no row was added.
        let drawn = Drawn::default();
        drawn.cleared_at("> ", 80);
        drawn.note_at("x", 1, 80);
        drawn.note_at("xx", 2, 20);
        drawn.note_at(&"x".repeat(18), 18, 20);
        assert_eq!(drawn.cleared_at("> ", 20), "");
    }
}
