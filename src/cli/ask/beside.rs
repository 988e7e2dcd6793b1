//! The line that is typed beside a turn, and the wishes of its keys. Pure.

use windlass_base::text;

use super::{
    keyboard::{Key, LineKey},
    line_edit::LineEdit,
};

/// Characters of a line; the rest of a longer one is left out.
const MAX_CHARS: usize = 1 << 20;

/// A wish of the person about the turn that runs.
#[derive(Debug, PartialEq, Eq)]
pub enum Wish {
    /// The model reads this with its next step.
    Steer(String),
    /// This is asked when the turn is over.
    Queue(String),
    /// The turn ends.
    Stop,
    /// The last prompt that waits comes back into the line.
    TakeBack,
    /// Something that is done between turns alone.
    NotNow,
}

/// See the module's comment.
#[derive(Debug, Default)]
pub struct Beside {
    pub line: LineEdit,
    is_pasting: bool,
}

impl Beside {
    /// Forgets a paste whose end went elsewhere.
    pub fn end_paste(&mut self) {
        self.is_pasting = false;
    }

    /// Takes a key, and returns its wish, which is to be fulfilled before the next key.
    pub fn key(&mut self, key: Key) -> Option<Wish> {
        match key {
            Key::Char(char) if !text::is_hidden(char) => self.insert(char),
            Key::Enter if self.is_pasting => self.insert('\n'),
            Key::Tab if self.is_pasting => self.insert('\t'),
            Key::Line(LineKey::PasteBegins) => self.is_pasting = true,
            Key::Line(LineKey::PasteEnds) => self.is_pasting = false,
            _ if self.is_pasting => {}
            // As in the line between turns.
            Key::Enter if self.is_open() => {
                self.line.backspace();
                self.line.insert('\n');
            }
            Key::Enter => return self.sent().map(Wish::Steer),
            Key::Line(LineKey::AltEnter) => return self.sent().map(Wish::Queue),
            Key::Line(LineKey::Up) if self.line.is_empty() => return Some(Wish::TakeBack),
            Key::Escape => return Some(Wish::Stop),
            Key::Backspace => _ = self.line.backspace(),
            Key::Clear => self.line.clear(),
            Key::Edit(edit) => self.line.edit(edit),
            Key::Other => return Some(Wish::NotNow),
            Key::Char(_) | Key::Tab | Key::Interrupt | Key::End | Key::Line(LineKey::Up) => {}
        }
        None
    }

    fn insert(&mut self, char: char) {
        if self.line.len() < MAX_CHARS {
            self.line.insert(char);
        }
    }

    /// Returns true if a backslash before the cursor continues the line.
    fn is_open(&self) -> bool {
        let is_at_end = self.line.cursor() == self.line.len();
        let n_backslashes = self.line.chars().iter().rev().take_while(|char| **char == '\\').count();
        is_at_end && n_backslashes % 2 == 1
    }

    fn sent(&mut self) -> Option<String> {
        let is_blank = self.line.chars().iter().all(|char| char.is_whitespace());
        let text = self.line.take();
        (!is_blank).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::keyboard::decode, *};

    fn typed(bytes: &str) -> (Vec<Wish>, String) {
        let mut beside = Beside::default();
        let keys = decode(&mut bytes.as_bytes().to_vec());
        let wishes = keys.into_iter().filter_map(|key| beside.key(key)).collect();
        (wishes, beside.line.text())
    }

    #[test]
    fn enter_says_it_now_and_with_alt_later() {
        let steer = |text: &str| Wish::Steer(text.to_owned());
        assert_eq!(typed("one\rtwo"), (vec![steer("one")], "two".to_owned()));
        let queue = Wish::Queue("two lines".to_owned());
        assert_eq!(typed("two lines\x1b\r \r\r"), (vec![queue], String::new()));
        assert_eq!(typed("one\\\ntwo\n"), (vec![steer("one\ntwo")], String::new()));
        assert_eq!(typed("half\x1b"), (vec![Wish::Stop], "half".to_owned()));
        assert_eq!(typed("\x1b[Ax\x1b[A"), (vec![Wish::TakeBack], "x".to_owned()));
        assert_eq!(typed("x\x1b[Z\x07"), (vec![Wish::NotNow, Wish::NotNow], "x".to_owned()));
    }

    #[test]
    fn what_is_pasted_sends_nothing_and_keeps_its_lines() {
        let pasted = "\x1b[200~fn a() {\r\tb\r}\r\x1b[201~";
        assert_eq!(typed(pasted), (Vec::new(), "fn a() {\n\tb\n}\n".to_owned()));
    }

    #[test]
    fn a_line_is_edited_as_in_a_shell() {
        assert_eq!(typed("use jx\x1b[Dj\x05!").1, "use jjx!");
        assert_eq!(typed("one two\x17three\x01\x1b[3~").1, "ne three");
        assert_eq!(typed("gone\x15kept\x04\x03").1, "kept");
    }
}
