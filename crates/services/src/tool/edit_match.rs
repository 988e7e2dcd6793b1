//! Finds the text that an edit means, from the strictest reading to looser ones.

use std::{
    borrow::Cow,
    cell::{Cell, OnceCell},
    collections::HashSet,
    ops::Range,
};

use memchr::memmem::Finder;

/// Minimum similarity of the inner lines of an anchored block, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.65;
/// Maximum number of different texts that one reading may offer; each costs a search through the content.
const MAX_TRIED: usize = 32;
/// Maximum number of steps of one reading beyond one look at each line. Only contrived content needs as many.
const MAX_STEPS: usize = 4_000_000;

/// Maximum size of a text after all replacements: a short text that is often there may become any length.
const MAX_RESULT: usize = 64 << 20;

/// One reading of `old`.
pub struct Replacer {
    pub name: &'static str,
    /// True if a match is the given text itself and therefore never larger than meant.
    pub is_exact: bool,
    /// Returns the texts that `old` may mean, best first; those that do not occur in the content are skipped.
    pub candidates: for<'a> fn(content: &Content<'a>, old: &'a str) -> Vec<Cow<'a, str>>,
}

/// The readings, in the order they are tried (facts: OpenCode §5.3).
pub const REPLACERS: &[Replacer] = &[
    Replacer { name: "simple", is_exact: true, candidates: simple },
    Replacer { name: "line-trimmed", is_exact: false, candidates: line_trimmed },
    Replacer { name: "block-anchor", is_exact: false, candidates: block_anchor },
    Replacer { name: "whitespace-normalized", is_exact: false, candidates: whitespace_normalized },
    Replacer { name: "indentation-flexible", is_exact: false, candidates: indentation_flexible },
    Replacer { name: "escape-normalized", is_exact: false, candidates: escape_normalized },
    Replacer { name: "trimmed-boundary", is_exact: false, candidates: trimmed_boundary },
    Replacer { name: "context-aware", is_exact: false, candidates: context_aware },
    Replacer { name: "multi-occurrence", is_exact: true, candidates: simple },
];

/// The reason for a replacement that was not made.
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
    #[error(
        "Refusing replacement because the file would be larger than 64 MiB after it. Replace fewer occurrences, or use a shorter newString."
    )]
    TooLong,
}

/// Returns the content with `old` replaced: the first reading that is unique wins, or any reading if all
/// matches are to be replaced.
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
    let lined = Content::new(content);
    let mut ambiguous: HashSet<Cow<'_, str>> = HashSet::new();
    for replacer in replacers {
        lined.n_steps.set(0);
        let mut n_tried = 0;
        for candidate in (replacer.candidates)(&lined, old) {
            if candidate.is_empty() || ambiguous.contains(&candidate) {
                continue;
            }
            n_tried += 1;
            if n_tried > MAX_TRIED {
                break;
            }
            let finder = Finder::new(&*candidate);
            let Some(start) = finder.find(content.as_bytes()) else { continue };
            if !replacer.is_exact && is_much_larger(&candidate, old) {
                return Err(MatchError::TooLarge);
            }
            if is_all {
                let n_found = finder.find_iter(content.as_bytes()).count();
                let n_kept = content.len() - n_found * candidate.len();
                let is_long = n_found.saturating_mul(new.len()).saturating_add(n_kept) > MAX_RESULT;
                return if is_long {
                    Err(MatchError::TooLong)
                } else {
                    Ok(content.replace(&*candidate, new))
                };
            }
            // Occurrences that overlap make a text ambiguous as well.
            if finder.find(&content.as_bytes()[start + 1..]).is_none() {
                let rest = &content[start + candidate.len()..];
                return Ok([&content[..start], new, rest].concat());
            }
            ambiguous.insert(candidate);
        }
    }
    Err(if ambiguous.is_empty() { MatchError::NotFound } else { MatchError::Ambiguous })
}

/// Returns true if a loose match takes in much more text than the model has quoted.
fn is_much_larger(span: &str, old: &str) -> bool {
    let n_old_lines = old.split('\n').count();
    if span.split('\n').count() >= (n_old_lines + 3).max(n_old_lines * 2) {
        return true;
    }
    let (n_span, n_old) = (span.trim().chars().count(), old.trim().chars().count());
    n_old_lines > 1 && n_span > (n_old + 500).max(n_old * 4)
}

/// A file's text, split into lines once for all readings that need them.
pub struct Content<'a> {
    text: &'a str,
    lines: OnceCell<Vec<Line<'a>>>,
    n_steps: Cell<usize>,
}

struct Line<'a> {
    start: usize,
    /// The position before the line's end, `\n` or `\r\n`.
    end: usize,
    trimmed: &'a str,
}

impl<'a> Content<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, lines: OnceCell::new(), n_steps: Cell::new(0) }
    }

    fn lines(&self) -> &[Line<'a>] {
        self.lines.get_or_init(|| {
            let mut start = 0;
            let lines = self.text.split_inclusive('\n').map(|line| {
                let bare = line.strip_suffix('\n').unwrap_or(line);
                let bare = bare.strip_suffix('\r').unwrap_or(bare);
                let found = Line { start, end: start + bare.len(), trimmed: bare.trim() };
                start += line.len();
                found
            });
            lines.collect()
        })
    }

    /// Returns the text of some lines. The end of the last line belongs to it only if `old` has one too.
    fn block(&self, lines: Range<usize>, old: &str) -> &'a str {
        let all = self.lines();
        let (Some(first), Some(last)) = (all.get(lines.start), all.get(lines.end - 1)) else { return "" };
        let end = if old.ends_with('\n') {
            all.get(lines.end).map_or(self.text.len(), |next| next.start)
        } else {
            last.end
        };
        &self.text[first.start..end]
    }

    /// Returns the start of every run of `n_lines` lines.
    fn windows(&self, n_lines: usize) -> Range<usize> {
        let n_windows = (self.lines().len() + 1).saturating_sub(n_lines);
        if n_lines == 0 { 0..0 } else { 0..n_windows }
    }

    /// Counts steps; returns false once a reading has done more than any real file needs.
    fn may_go_on(&self, n_steps: usize) -> bool {
        let n_steps = self.n_steps.get() + n_steps;
        self.n_steps.set(n_steps);
        n_steps <= MAX_STEPS
    }

    /// Returns the starts of the runs of lines that equal the wanted ones once every line is trimmed.
    fn trimmed_runs(&self, wanted: &[&str]) -> Vec<usize> {
        let lines = self.lines();
        let mut starts = Vec::new();
        for start in self.windows(wanted.len()) {
            let run = lines[start..].iter().map(|line| line.trimmed);
            let n_equal = run.zip(wanted).take_while(|(line, wanted)| line == *wanted).count();
            if n_equal == wanted.len() {
                starts.push(start);
            }
            if !self.may_go_on(n_equal) {
                break;
            }
        }
        starts
    }
}

fn simple<'a>(_content: &Content<'a>, old: &'a str) -> Vec<Cow<'a, str>> {
    vec![Cow::Borrowed(old)]
}

/// Returns the lines of `old`, trimmed; `None` if they are all blank, because blank lines identify no place.
fn wanted_lines(old: &str) -> Option<Vec<&str>> {
    let wanted: Vec<&str> = old.lines().map(str::trim).collect();
    wanted.iter().any(|line| !line.is_empty()).then_some(wanted)
}

/// Returns runs of lines that equal the given ones once every line is trimmed.
fn line_trimmed<'a>(content: &Content<'a>, old: &'a str) -> Vec<Cow<'a, str>> {
    let Some(wanted) = wanted_lines(old) else { return Vec::new() };
    let starts = content.trimmed_runs(&wanted).into_iter();
    starts.map(|start| content.block(start..start + wanted.len(), old).into()).collect()
}

/// Returns the block between the given first and last lines with the most similar inner lines.
fn block_anchor<'a>(content: &Content<'a>, old: &'a str) -> Vec<Cow<'a, str>> {
    let wanted: Vec<&str> = old.lines().map(str::trim).collect();
    let [first, inner @ .., last] = wanted.as_slice() else { return Vec::new() };
    if inner.is_empty() {
        return Vec::new();
    }
    let lines = content.lines();
    let slack = (wanted.len() / 4).max(1);
    let sizes = (wanted.len() - slack).max(3)..=wanted.len() + slack;
    let mut best: Option<(f64, Range<usize>)> = None;
    for start in content.windows(*sizes.start()) {
        if lines[start].trimmed != *first {
            continue;
        }
        for size in sizes.clone() {
            let Some(end_line) = lines.get(start + size - 1) else { break };
            if end_line.trimmed != *last {
                continue;
            }
            let found = &lines[start + 1..start + size - 1];
            // An incomplete comparison could choose the wrong block, so running out of steps means none.
            let Some(similarity) = similarity(content, found, inner) else { return Vec::new() };
            if similarity >= MIN_SIMILARITY && best.as_ref().is_none_or(|(best, _)| similarity > *best) {
                best = Some((similarity, start..start + size));
            }
        }
    }
    best.into_iter().map(|(_, lines)| content.block(lines, old).into()).collect()
}

/// Returns the average similarity of the lines; `None` if the comparison takes too long.
fn similarity(content: &Content<'_>, found: &[Line<'_>], wanted: &[&str]) -> Option<f64> {
    let n_compared = found.len().min(wanted.len());
    let mut sum = 0.0;
    for (line, wanted) in found.iter().zip(wanted) {
        if !content.may_go_on(1) {
            return None;
        }
        if line.trimmed == *wanted {
            sum += 1.0;
            continue;
        }
        let (left, right): (Vec<char>, Vec<char>) =
            (line.trimmed.chars().collect(), wanted.chars().collect());
        if !content.may_go_on(left.len() * right.len()) {
            return None;
        }
        let n_longer = left.len().max(right.len());
        sum += 1.0 - levenshtein(&left, &right) as f64 / n_longer as f64;
    }
    Some(if n_compared == 0 { 1.0 } else { sum / n_compared as f64 })
}

fn levenshtein(left: &[char], right: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (left_idx, left_char) in left.iter().enumerate() {
        let mut diagonal = left_idx;
        let mut before = left_idx + 1;
        row[0] = before;
        for (cell, right_char) in row.iter_mut().skip(1).zip(right) {
            let changed = diagonal + usize::from(left_char != right_char);
            diagonal = *cell;
            before = changed.min(diagonal + 1).min(before + 1);
            *cell = before;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// Returns lines, parts of lines, or blocks with the same words and other whitespace between them.
fn whitespace_normalized<'a>(content: &Content<'a>, old: &'a str) -> Vec<Cow<'a, str>> {
    let words: Vec<&str> = old.split_whitespace().collect();
    let Some(first) = words.first() else { return Vec::new() };
    let mut found = Vec::new();
    let lines = content.lines();
    for line in lines {
        let text = &content.text[line.start..line.end];
        if !content.may_go_on(0) || found.len() > MAX_TRIED {
            break;
        }
        match words_in(content, line.trimmed, first, &words) {
            None => {}
            Some(part) if part == line.trimmed => found.push(Cow::Borrowed(text)),
            Some(part) => found.push(Cow::Borrowed(part)),
        }
    }
    let n_lines = old.lines().count();
    if n_lines < 2 {
        return found;
    }
    for start in content.windows(n_lines) {
        // Most blocks begin with other words.
        let block_lines = &lines[start..start + n_lines];
        let mut block_words = block_lines.iter().flat_map(|line| line.trimmed.split_whitespace());
        let n_equal = words.iter().take_while(|word| block_words.next() == Some(**word)).count();
        if n_equal == words.len() && block_words.next().is_none() {
            found.push(content.block(start..start + n_lines, old).into());
        }
        if !content.may_go_on(n_equal) {
            break;
        }
    }
    found
}

/// Returns the first part of a line that consists of these words with any whitespace between them.
fn words_in<'a>(content: &Content<'_>, line: &'a str, first: &str, words: &[&str]) -> Option<&'a str> {
    for (start, _) in line.match_indices(first) {
        let mut end = start + first.len();
        let is_same = words.iter().skip(1).all(|word| {
            let rest = &line[end..];
            let bare = rest.trim_start();
            end += rest.len() - bare.len() + word.len();
            bare.len() < rest.len() && bare.starts_with(word) && content.may_go_on(1)
        });
        if is_same {
            return line.get(start..end);
        }
    }
    None
}

/// Returns blocks that equal the given one after shifting it to the left or right as a whole.
fn indentation_flexible<'a>(content: &Content<'a>, old: &'a str) -> Vec<Cow<'a, str>> {
    let Some(wanted) = wanted_lines(old) else { return Vec::new() };
    let outdented = without_indentation(old);
    let blocks = content.trimmed_runs(&wanted).into_iter().take(MAX_TRIED);
    let blocks = blocks.map(|start| content.block(start..start + wanted.len(), old));
    blocks.filter(|block| without_indentation(block) == outdented).map(Cow::Borrowed).collect()
}

/// Returns the lines without their common indentation.
fn without_indentation(text: &str) -> Vec<&str> {
    let filled = text.lines().filter(|line| !line.trim().is_empty());
    let depth = filled.map(|line| line.len() - line.trim_start().len()).min().unwrap_or_default();
    text.lines()
        .map(|line| if line.trim().is_empty() { line } else { line.get(depth..).unwrap_or(line) })
        .collect()
}

/// Returns `old` with its backslashes read as escapes, and blocks that read the same.
fn escape_normalized<'a>(content: &Content<'a>, old: &'a str) -> Vec<Cow<'a, str>> {
    let wanted: String = unescaped(old).collect();
    if wanted.trim().is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    if wanted != old {
        found.push(Cow::Owned(wanted.clone()));
    }
    if !content.text.contains('\\') {
        return found;
    }
    let n_lines = wanted.lines().count();
    for start in content.windows(n_lines) {
        let block = content.block(start..start + n_lines, &wanted);
        let mut wanted_chars = wanted.chars();
        let mut n_equal = 0;
        let is_same = unescaped(block).all(|char| {
            n_equal += 1;
            wanted_chars.next() == Some(char)
        });
        if is_same && wanted_chars.next().is_none() {
            found.push(Cow::Borrowed(block));
        }
        if !content.may_go_on(n_equal) {
            break;
        }
    }
    found
}

/// Replaces escapes such as `\n`, `\t` and `\"` by their characters.
fn unescaped(text: &str) -> impl Iterator<Item = char> {
    let mut chars = text.chars().peekable();
    std::iter::from_fn(move || {
        let char = chars.next()?;
        if char != '\\' {
            return Some(char);
        }
        let meant = match chars.peek()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            other @ ('\'' | '"' | '`' | '\\' | '\n' | '$') => *other,
            _other => return Some('\\'),
        };
        chars.next();
        Some(meant)
    })
}

/// Returns `old` without the whitespace around it, and blocks that differ only in such whitespace.
fn trimmed_boundary<'a>(content: &Content<'a>, old: &'a str) -> Vec<Cow<'a, str>> {
    let trimmed = old.trim();
    if trimmed.len() == old.len() || trimmed.is_empty() {
        return Vec::new();
    }
    let mut found = vec![Cow::Borrowed(trimmed)];
    let n_lines = old.lines().count();
    for start in content.windows(n_lines) {
        let block = content.block(start..start + n_lines, "");
        if block.trim() == trimmed {
            found.push(Cow::Borrowed(block));
        }
    }
    found
}

/// Returns blocks of the same number of lines, with the given first and last line, and at least half of the
/// others similar.
fn context_aware<'a>(content: &Content<'a>, old: &'a str) -> Vec<Cow<'a, str>> {
    let wanted: Vec<&str> = old.lines().map(str::trim).collect();
    let [first, inner @ .., last] = wanted.as_slice() else { return Vec::new() };
    if inner.is_empty() {
        return Vec::new();
    }
    let lines = content.lines();
    let mut found = Vec::new();
    for start in content.windows(wanted.len()) {
        let block = &lines[start..start + wanted.len()];
        let [block_first, block_inner @ .., block_last] = block else { continue };
        if block_first.trimmed != *first || block_last.trimmed != *last {
            continue;
        }
        let pairs = block_inner.iter().map(|line| line.trimmed).zip(inner.iter().copied());
        let filled = pairs.filter(|(line, wanted)| !line.is_empty() || !wanted.is_empty());
        let (n_equal, n_filled) = filled.fold((0, 0), |(n_equal, n_filled), (line, wanted)| {
            (n_equal + usize::from(line == wanted), n_filled + 1)
        });
        if n_equal * 2 >= n_filled {
            found.push(Cow::Borrowed(content.block(start..start + wanted.len(), old)));
        }
        if !content.may_go_on(wanted.len()) {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests;
