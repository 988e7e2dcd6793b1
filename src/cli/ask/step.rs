//! The effects of keys on a dialogue, and the answers it ends with.

use windlass_protocol::opencode::permission::Reply;

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
