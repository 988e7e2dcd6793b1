//! Case-insensitive search for words in texts.

use std::ops::Range;

use regex::{Regex, RegexBuilder};

/// Words that must all occur in a text, each as a substring.
#[derive(Debug, Clone)]
pub struct Words {
    words: Vec<Word>,
}

#[derive(Debug, Clone)]
struct Word {
    plain: Regex,
    /// Matches a word in its JSON form.
    escaped: Regex,
}

impl Words {
    /// Compiles the words that are not blank. Returns `None` if there are none, or if one is too long to search
    /// for.
    pub fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let words = words.into_iter().map(str::trim).filter(|word| !word.is_empty());
        let words: Vec<Word> = words.map(Word::new).collect::<Option<_>>()?;
        (!words.is_empty()).then_some(Self { words })
    }

    /// Returns true if every word is in the text.
    pub fn are_in(&self, text: &str) -> bool {
        self.words.iter().all(|word| word.plain.is_match(text))
    }

    /// Returns true if every word may be in a text of this JSON.
    pub fn may_be_in(&self, json: &str) -> bool {
        self.words.iter().all(|word| word.escaped.is_match(json))
    }

    /// Returns the positions of the words in a text, in order and without overlaps.
    pub fn spans(&self, text: &str) -> Vec<Range<usize>> {
        let found = self.words.iter().flat_map(|word| word.plain.find_iter(text).map(|found| found.range()));
        let mut found: Vec<Range<usize>> = found.filter(|span| !span.is_empty()).collect();
        found.sort_by_key(|span| (span.start, span.end));
        let mut spans: Vec<Range<usize>> = Vec::new();
        for span in found {
            match spans.last_mut() {
                Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
                Some(_) | None => spans.push(span),
            }
        }
        spans
    }

    /// Returns the line of a text that has the most different words, the first one on a tie.
    pub fn best_line<'a>(&self, text: &'a str) -> Option<&'a str> {
        let n_words = |line: &str| self.words.iter().filter(|word| word.plain.is_match(line)).count();
        let lines = text.lines().map(|line| (n_words(line), line)).filter(|(n_words, _)| *n_words > 0);
        // `max_by_key` returns the last of equal elements.
        let lines: Vec<(usize, &str)> = lines.collect();
        lines.into_iter().rev().max_by_key(|(n_words, _)| *n_words).map(|(_, line)| line)
    }
}

impl Word {
    fn new(word: &str) -> Option<Self> {
        let json = serde_json::to_string(word).ok()?;
        let escaped = json.strip_prefix('"')?.strip_suffix('"')?;
        Some(Self { plain: any_case(word)?, escaped: any_case(escaped)? })
    }
}

fn any_case(word: &str) -> Option<Regex> {
    RegexBuilder::new(&regex::escape(word)).case_insensitive(true).build().ok()
}

#[cfg(test)]
mod tests;
