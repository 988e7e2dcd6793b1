//! Tells slash commands that a user types from paths and other words.

use std::path::Path;

use windlass_base::text;

/// The command that words begin with.
#[derive(Debug, PartialEq, Eq)]
pub enum Slash<'a> {
    Known(&'a str),
    /// A word like a command, without a command or file of that name.
    Unknown(&'a str),
}

impl<'a> Slash<'a> {
    /// Reads the first word; `None` when it is no command. A space before it makes it a word.
    pub fn read(words: &'a str, is_known: impl FnOnce(&str) -> bool) -> Option<Self> {
        let first = words.split_whitespace().next()?;
        let name = first.strip_prefix('/').filter(|_| words.starts_with('/'))?;
        if is_known(name) {
            return Some(Self::Known(name));
        }
        // A path has more slashes or a dot, a comment of C a star.
        let is_part = |char: char| char.is_alphanumeric() || matches!(char, '-' | '_' | ':');
        let looks_like_one = name.starts_with(char::is_alphabetic) && name.chars().all(is_part);
        (looks_like_one && !Path::new(first).exists()).then_some(Self::Unknown(name))
    }
}

/// Says that there is no such command, and which one may have been meant.
pub fn unknown_command<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let near = text::nearest(name, names).map(|near| format!("; did you mean `/{near}`?"));
    format!("There is no command `/{name}`{}", near.unwrap_or_default())
}

#[cfg(test)]
mod tests;
