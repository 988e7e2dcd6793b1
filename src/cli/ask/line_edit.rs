//! A line that is being typed: its text, its cursor, and the effects of an editor's keys. Pure.

use super::keyboard::Edit;

/// See the module's comment.
#[derive(Debug, Default)]
pub struct LineEdit {
    chars: Vec<char>,
    /// Characters before the cursor.
    cursor: usize,
}

impl LineEdit {
    pub fn is_empty(&self) -> bool {
        self.chars.is_empty()
    }

    pub fn len(&self) -> usize {
        self.chars.len()
    }

    pub fn chars(&self) -> &[char] {
        &self.chars
    }

    /// Characters before the cursor.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    pub fn text(&self) -> String {
        self.chars.iter().collect()
    }

    /// Takes the whole text; an empty line stays.
    pub fn take(&mut self) -> String {
        let text = self.text();
        *self = Self::default();
        text
    }

    /// Puts a text in the place of the line, with the cursor behind it.
    pub fn set(&mut self, text: &str) {
        self.chars = text.chars().collect();
        self.cursor = self.chars.len();
    }

    /// Puts a character before the cursor.
    pub fn insert(&mut self, char: char) {
        self.chars.insert(self.cursor, char);
        self.cursor += 1;
    }

    /// Takes the character before the cursor away; false where there is none.
    pub fn backspace(&mut self) -> bool {
        if self.cursor == 0 {
            return false;
        }
        self.cursor -= 1;
        self.chars.remove(self.cursor);
        true
    }

    /// Takes the text before the cursor away.
    pub fn clear(&mut self) {
        self.chars.drain(..self.cursor);
        self.cursor = 0;
    }

    pub fn edit(&mut self, edit: Edit) {
        match edit {
            Edit::Left => self.cursor = self.cursor.saturating_sub(1),
            Edit::Right => self.cursor = (self.cursor + 1).min(self.chars.len()),
            Edit::Start => self.cursor = 0,
            Edit::End => self.cursor = self.chars.len(),
            Edit::Delete if self.cursor < self.chars.len() => _ = self.chars.remove(self.cursor),
            Edit::Delete => {}
            Edit::DeleteWord => {
                let before = &self.chars[..self.cursor];
                let is_blank = |char: &char| char.is_whitespace();
                let word_end = before.iter().rposition(|char| !is_blank(char)).map_or(0, |at| at + 1);
                let start = before[..word_end].iter().rposition(is_blank).map_or(0, |at| at + 1);
                self.chars.drain(start..self.cursor);
                self.cursor = start;
            }
            Edit::DeleteRest => self.chars.truncate(self.cursor),
        }
    }
}
