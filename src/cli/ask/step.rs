//! The effects of keys on a dialogue, and the answers it ends with.

use windlass_protocol::opencode::permission::Reply;

use super::keyboard::Key;

/// Columns that stay free for the answer behind the keys: a terminal would break it in mid-word.
pub const ANSWER_COLUMNS: usize = " › dismissed".len();

/// Effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to type; the text is shown.
    More(String),
    /// The dialogue is over; the text ends its line.
    Done(String, Answer),
}

/// The answer of a person.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Permission {
        reply: Reply,
        feedback: Option<String>,
    },
    /// One list for each question; `None` when the person does not want to answer.
    Question(Option<Vec<Vec<String>>>),
}

/// Returns true if keys that came together are part of a text, and no answer: several at once, one behind others while
/// a text `is_typed`, or a letter that answers nothing. A key with the Enter behind it is one that a program types.
pub fn is_text(keys: &[Key], is_typed: bool, is_answer: impl Fn(char) -> bool) -> bool {
    match keys {
        [Key::Char(key)] | [Key::Char(key), Key::Enter] => is_typed || !is_answer(*key),
        [Key::Enter | Key::Tab | Key::Backspace | Key::Clear | Key::Edit(_)] => is_typed,
        keys => keys.iter().any(|key| matches!(key, Key::Char(_))),
    }
}

#[cfg(test)]
mod tests {
    //! Keys that are answers, and keys that are part of a text.

    use super::{Key, is_text};

    #[test]
    fn a_key_that_stands_alone_is_an_answer_and_others_are_text() {
        let read = |keys: &[Key], is_typed: bool| is_text(keys, is_typed, |key| key == 'y');
        let [yes, other] = ['y', 'w'].map(Key::Char);
        for keys in [&[yes][..], &[yes, Key::Enter]] {
            assert!(!read(keys, false), "{keys:?}");
            assert!(read(keys, true), "{keys:?}");
        }
        for keys in [&[other][..], &[other, Key::Enter], &[yes, yes], &[other, yes], &[other, Key::Interrupt]]
        {
            assert!(read(keys, false), "{keys:?}");
        }
        for key in [Key::Escape, Key::End, Key::Interrupt, Key::Other] {
            assert!(!read(&[key], false) && !read(&[key], true), "{key:?}");
        }
        assert!(read(&[Key::Backspace], true) && !read(&[Key::Backspace], false));
    }
}
