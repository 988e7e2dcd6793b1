//! The words of titles: those a session begins with, and those that are taken from what is said in it.

use windlass_base::{clock, text};
use windlass_protocol::opencode::{message::Message, part::PartKind};

use super::{history::History, revert};

const DEFAULT_PREFIX: &str = "New session - ";
const CHILD_PREFIX: &str = "Child session - ";
/// Characters; longer ones are cut and end in three dots.
const MAX_TITLE: usize = 100;
/// Bytes of the conversation that a title is made of.
const MAX_SAID: usize = 8_000;

/// Returns the title of a session that has none yet.
pub fn default(created_ms: i64, is_child: bool) -> String {
    let prefix = if is_child { CHILD_PREFIX } else { DEFAULT_PREFIX };
    format!("{prefix}{}", clock::iso(created_ms))
}

/// Returns true if a title is still the one a session begins with.
pub fn is_default(title: &str) -> bool {
    title.starts_with(DEFAULT_PREFIX) || title.starts_with(CHILD_PREFIX)
}

/// Returns the title of a session that has none by now, when something was said in it: the first words of that.
pub fn fallback(title: &str, history: &History) -> Option<String> {
    if is_default(title) { clean(&first_words(history)) } else { None }
}

/// Makes a title of the first text of the user.
pub fn of_first(first: &PartKind) -> Option<String> {
    if let PartKind::Text(text) = first {
        clean(text::head(&text.text, MAX_SAID))
    } else if let PartKind::File(file) = first {
        file.filename.as_deref().and_then(clean)
    } else {
        None
    }
}

/// Returns the text of the first prompt that a model reads, or in a command before any.
pub fn first_words(history: &History) -> String {
    let mut prompts = history.iter().filter(|it| matches!(it.info, Message::User(_)));
    let first = prompts.clone().find(|it| revert::has_model_content(&it.parts)).or_else(|| prompts.next());
    let parts = first.into_iter().flat_map(|message| &message.parts);
    let texts = parts.filter_map(|part| match &part.kind {
        PartKind::Text(text) if text.synthetic != Some(true) => Some(text.text.as_str()),
        PartKind::File(file) => file.filename.as_deref(),
        _ => None,
    });
    text::head(&texts.collect::<Vec<_>>().join("\n"), MAX_SAID).to_owned()
}

/// Returns the first line that says something, without thoughts, cut to size.
pub fn clean(answer: &str) -> Option<String> {
    let without_thought = match (answer.find("<think>"), answer.find("</think>")) {
        (Some(start), Some(end)) if start < end => format!("{}{}", &answer[..start], &answer[end + 8..]),
        (Some(_) | None, Some(_) | None) => answer.to_owned(),
    };
    let line = without_thought.lines().map(str::trim).find(|line| !line.is_empty())?.to_owned();
    match line.char_indices().nth(MAX_TITLE) {
        None => Some(line),
        Some(_) => Some(line.chars().take(MAX_TITLE - 3).chain("...".chars()).collect()),
    }
}

#[cfg(test)]
mod tests;
