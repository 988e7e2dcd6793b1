//! Finds the text that an edit means, from the strictest reading to looser ones.

use std::borrow::Cow;

/// One way to read `old`.
pub struct Replacer {
    pub name: &'static str,
    /// Whether a match is the given text itself and so can never be larger than meant.
    pub is_exact: bool,
    /// Texts that `old` may mean, best first; those that do not occur in the content are passed over.
    pub candidates: for<'a> fn(content: &'a str, old: &'a str) -> Vec<Cow<'a, str>>,
}

/// In the order they are tried.
pub const REPLACERS: &[Replacer] = &[
    Replacer { name: "simple", is_exact: true, candidates: simple },
    Replacer { name: "line-trimmed", is_exact: false, candidates: line_trimmed },
];

/// Why nothing was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    #[error(
        "Could not find oldString in the file. It must match exactly, including whitespace, indentation, and line endings."
    )]
    NotFound,
    #[error(
        "Found multiple matches for oldString. Provide more surrounding context to make the match unique."
    )]
    Ambiguous,
    #[error(
        "Refusing replacement because the matched span is much larger than oldString. Re-read the file and provide the full exact oldString for the intended replacement."
    )]
    TooLarge,
}

/// The content with `old` replaced: the first reading that is unique wins, or any when all are to be replaced.
pub fn replace(content: &str, old: &str, new: &str, is_all: bool) -> Result<String, MatchError> {
    replace_with(REPLACERS, content, old, new, is_all)
}

fn replace_with(
    replacers: &[Replacer],
    content: &str,
    old: &str,
    new: &str,
    is_all: bool,
) -> Result<String, MatchError> {
    let mut is_found = false;
    for replacer in replacers {
        for candidate in (replacer.candidates)(content, old) {
            let Some(start) = content.find(&*candidate).filter(|_| !candidate.is_empty()) else { continue };
            is_found = true;
            if !replacer.is_exact && is_much_larger(&candidate, old) {
                return Err(MatchError::TooLarge);
            }
            if is_all {
                return Ok(content.replace(&*candidate, new));
            }
            if content.rfind(&*candidate) == Some(start) {
                let rest = &content[start + candidate.len()..];
                return Ok([&content[..start], new, rest].concat());
            }
        }
    }
    Err(if is_found { MatchError::Ambiguous } else { MatchError::NotFound })
}

/// A loose match must not swallow much more than the model showed it has seen.
fn is_much_larger(span: &str, old: &str) -> bool {
    let n_old_lines = old.split('\n').count();
    if span.split('\n').count() >= (n_old_lines + 3).max(n_old_lines * 2) {
        return true;
    }
    let (n_span, n_old) = (span.trim().chars().count(), old.trim().chars().count());
    n_old_lines > 1 && n_span > (n_old + 500).max(n_old * 4)
}

fn simple<'a>(_content: &'a str, old: &'a str) -> Vec<Cow<'a, str>> {
    vec![Cow::Borrowed(old)]
}

/// Runs of lines that equal the given ones once every line is trimmed.
fn line_trimmed<'a>(content: &'a str, old: &'a str) -> Vec<Cow<'a, str>> {
    let wanted: Vec<&str> = old.lines().map(str::trim).collect();
    if wanted.iter().all(|line| line.is_empty()) {
        return Vec::new();
    }
    let mut start = 0;
    let lines: Vec<(usize, &str)> = content
        .split_inclusive('\n')
        .map(|line| {
            let line_start = start;
            start += line.len();
            (line_start, line)
        })
        .collect();
    let matching = lines
        .windows(wanted.len())
        .filter(|window| window.iter().map(|(_, line)| line.trim()).eq(wanted.iter().copied()));
    matching
        .filter_map(|window| {
            let ((first, _), (last, last_line)) = (window.first()?, window.last()?);
            // The last line's end belongs to the match only when it was asked for.
            let last_line = match old.ends_with('\n') {
                true => last_line,
                false => last_line.trim_end_matches(['\n', '\r']),
            };
            Some(Cow::Borrowed(&content[*first..last + last_line.len()]))
        })
        .collect()
}

#[cfg(test)]
mod tests;
