//! The rows below a turn's: the prompts that wait for it, and the line that is typed meanwhile.

use anstyle::Style;

use super::line::{CYAN, DIM, Line, PLAIN, width};

/// Prompts that are shown at most.
const MAX_WAITING: usize = 4;
/// Rows of a terminal from which on more than the line is shown.
const MIN_ROWS: usize = 8;
/// Columns from which on the keys are told.
const MIN_HINT: usize = 60;
const HINT: &str = "Enter: said at the next step · Alt-Enter: asked afterwards · Esc: stop";
/// Shown in the place of the end of a line.
const LINE_END: char = '↵';

/// See the module's comment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Below {
    /// The event that each prompt waits for, and its words.
    pub waiting: Vec<(&'static str, String)>,
    /// The text before the line.
    pub label: String,
    pub chars: Vec<char>,
    /// Characters before the cursor.
    pub cursor: usize,
}

impl Below {
    /// Returns the rows for a terminal of this size.
    pub fn rows(&self, columns: usize, rows: usize) -> Vec<Line> {
        let mut shown = Vec::new();
        if rows >= MIN_ROWS {
            let n_more = self.waiting.len().saturating_sub(MAX_WAITING);
            for (what, words) in self.waiting.iter().take(MAX_WAITING) {
                let words = words.trim().replace('\n', " ");
                shown.push(Line::new(&format!("  {what:<9}  "), DIM).with(&words, PLAIN).cut(columns));
            }
            if n_more > 0 {
                shown.push(Line::new(&format!("  … and {n_more} more"), DIM).cut(columns));
            }
        }
        shown.push(self.line(columns));
        shown
    }

    fn line(&self, columns: usize) -> Line {
        let mut row = Line::new(&self.label, CYAN).cut(columns / 2);
        let cursor = Style::new().invert();
        let room = columns.saturating_sub(row.width() + 1);
        if self.chars.is_empty() {
            row.push(" ", cursor);
            if columns >= MIN_HINT {
                row.push(&format!(" {HINT}"), DIM);
            }
            return row.cut(columns);
        }
        let columns_of = |chars: &[char]| -> usize { chars.iter().map(|char| width(&shown(*char))).sum() };
        // The cursor stays in sight, with as much before it as fits.
        let mut start = 0;
        if self.cursor > room {
            start = self.cursor - room;
        }
        while start < self.cursor && columns_of(&self.chars[start..self.cursor]) >= room {
            start += 1;
        }
        let mut n_used = 0;
        for (at, char) in self.chars.iter().enumerate().skip(start) {
            let text = shown(*char);
            n_used += width(&text);
            if n_used > room {
                return row;
            }
            row.push(&text, if at == self.cursor { cursor } else { PLAIN });
        }
        if self.cursor == self.chars.len() {
            row.push(" ", cursor);
        }
        row
    }
}

fn shown(char: char) -> String {
    match char {
        '\n' => LINE_END.to_string(),
        '\t' => " ".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str, cursor: usize) -> Below {
        Below { label: "build › ".to_owned(), chars: text.chars().collect(), cursor, ..Below::default() }
    }

    fn texts(below: &Below, columns: usize, rows: usize) -> Vec<String> {
        let shown = below.rows(columns, rows);
        assert!(shown.iter().all(|row| row.width() <= columns), "{shown:?}");
        shown.iter().map(|row| row.text().trim_end().to_owned()).collect()
    }

    #[test]
    fn the_cursor_is_in_sight_at_any_width() {
        assert_eq!(texts(&typed("one two", 7), 40, 24), ["build › one two"]);
        assert_eq!(texts(&typed("a\nb", 3), 40, 24), ["build › a↵b"]);
        let long: String = ('a'..='z').collect();
        assert_eq!(texts(&typed(&long, 26), 20, 24), ["build › qrstuvwxyz"]);
        assert_eq!(texts(&typed(&long, 2), 20, 24), ["build › abcdefghijk"]);
        assert_eq!(texts(&typed("日本語日本語日本語", 9), 20, 24), ["build › 本語日本語"]);
        for columns in 1..80 {
            texts(&typed(&long, 13), columns, 24);
            texts(&typed("", 0), columns, 24);
        }
    }

    #[test]
    fn prompts_that_wait_stand_above_the_line_where_there_is_room() {
        let waiting = (1..=6).map(|number| ("queued", format!("prompt {number}\nof two lines"))).collect();
        let below = Below { waiting, ..typed("", 0) };
        let shown = texts(&below, 40, 24);
        assert_eq!(shown.len(), 6);
        assert_eq!(shown[0], "  queued     prompt 1 of two lines");
        assert_eq!(shown[4], "  … and 2 more");
        assert_eq!(texts(&below, 40, 7), ["build ›"]);
    }
}
