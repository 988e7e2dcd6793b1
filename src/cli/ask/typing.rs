//! A line that is typed in a dialogue: edited as in a shell, within one row of the terminal.

use windlass_base::text;

use super::{super::view::line::width, keyboard::Key, line_edit::LineEdit};

/// Characters of a typed line.
const MAX_LINE: usize = 4096;

/// The state of a line after keys.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    Open,
    /// The line at its end.
    Entered(String),
    /// The person went back.
    Left,
}

/// See the module's comment. Needs no escape sequence, so it works on the simplest of terminals.
#[derive(Debug)]
pub struct Typing {
    label: &'static str,
    /// Columns of the terminal.
    columns: usize,
    line: LineEdit,
    /// The first character that is shown, and the columns that are in use behind the label.
    shown_from: usize,
    n_used: usize,
}

impl Typing {
    /// Returns an empty line behind a label, which the caller shows.
    pub fn new(label: &'static str, columns: usize) -> Self {
        Self { label, columns, line: LineEdit::default(), shown_from: 0, n_used: 0 }
    }

    /// Takes keys, and returns the text to show, which may be the last of a line that they end.
    pub fn keys(&mut self, keys: &[Key]) -> (String, State) {
        let mut shown = String::new();
        for key in keys {
            match key {
                Key::Char(char) if self.line.len() < MAX_LINE && !text::is_hidden(*char) => {
                    self.line.insert(*char);
                    let n_columns = width(char.encode_utf8(&mut [0; 4]));
                    let is_simple =
                        self.line.cursor() == self.line.len() && self.n_used + n_columns <= self.room();
                    if is_simple {
                        self.n_used += n_columns;
                        shown.push(*char);
                    } else {
                        shown.push_str(&self.redrawn());
                    }
                }
                Key::Backspace if self.line.backspace() => shown.push_str(&self.redrawn()),
                Key::Clear => {
                    self.line.clear();
                    shown.push_str(&self.redrawn());
                }
                Key::Edit(edit) => {
                    self.line.edit(*edit);
                    shown.push_str(&self.redrawn());
                }
                Key::Enter => {
                    return (shown, State::Entered(self.line.text().trim().to_owned()));
                }
                Key::Escape | Key::End => return (shown, State::Left),
                Key::Char(_) | Key::Tab | Key::Backspace | Key::Interrupt | Key::Line(_) | Key::Other => {}
            }
        }
        (shown, State::Open)
    }

    /// Columns behind the label; the last one stays free, since a terminal may wrap there.
    fn room(&self) -> usize {
        self.columns.saturating_sub(width(self.label) + 1).max(4)
    }

    /// Returns the row anew: the part of the text around the cursor, blanks over the old row, and the cursor
    /// in its place.
    fn redrawn(&mut self) -> String {
        let room = self.room();
        let (chars, cursor) = (self.line.chars(), self.line.cursor());
        self.shown_from = self.shown_from.min(cursor);
        while columns_of(&chars[self.shown_from..cursor]) > room {
            self.shown_from += 1;
        }
        let mut shown = String::new();
        let mut n_used = 0;
        for char in &chars[self.shown_from..] {
            let n_columns = columns_of(&[*char]);
            if n_used + n_columns > room {
                break;
            }
            n_used += n_columns;
            shown.push(*char);
        }
        let blanks = " ".repeat(self.n_used.saturating_sub(n_used));
        self.n_used = n_used;
        let before: String = chars[self.shown_from..cursor].iter().collect();
        format!("\r{label}{shown}{blanks}\r{label}{before}", label = self.label)
    }
}

fn columns_of(chars: &[char]) -> usize {
    chars.iter().map(|char| width(char.encode_utf8(&mut [0; 4]))).sum()
}

#[cfg(test)]
mod tests;
