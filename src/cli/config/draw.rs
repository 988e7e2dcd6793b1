//! Findings in a configuration, each with the line of its file and a caret below the place.

use std::{collections::HashMap, fs, path::Path};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde_json::Value;
use windlass_base::text::visible_line;
use windlass_core::config::{Warning, jsonc, secrets};

/// A source that is larger is not shown.
const MAX_BYTES: u64 = 1 << 20;
/// Columns of a source's line that are shown around a caret.
const WIDTH: usize = 120;

/// Words in a line that may be about a secret: such a line is not shown where its file cannot be parsed.
const SECRETIVE: [&str; 8] = ["key", "token", "secret", "pass", "auth", "header", "env", "cookie"];

/// Something that was found, and whether it is only a note.
pub struct Found<'a> {
    pub warning: &'a Warning,
    pub is_note: bool,
}

/// Puts findings in the order of the sources as they were read, and of the lines in each.
pub fn sort(found: &mut [Found<'_>], read: &[String]) {
    let rank = |source: &str| read.iter().position(|it| it == source).unwrap_or(usize::MAX);
    found.sort_by(|one, other| {
        let key = |it: &Found<'_>| (rank(&it.warning.source), it.warning.line, it.warning.column);
        let of_source = || one.warning.source.cmp(&other.warning.source);
        key(one).0.cmp(&key(other).0).then_with(of_source).then_with(|| key(one).cmp(&key(other)))
    });
}

/// Returns each finding in one line, with the source's line below it where that can be read.
pub fn draw(found: &[Found<'_>], is_coloured: bool) -> String {
    let mut sources = HashMap::new();
    let mut text = String::new();
    for Found { warning, is_note } in found {
        let end = if *is_note { " (note)" } else { "" };
        text.push_str(&format!("{warning}{end}\n"));
        let source = sources.entry(warning.source.as_str()).or_insert_with(|| Source::read(&warning.source));
        let Some(source) = source else { continue };
        if let Some(snippet) = source.snippet(warning, *is_note, is_coloured) {
            text.push_str(&snippet);
            text.push('\n');
        }
    }
    text
}

/// A file of the configuration.
struct Source {
    lines: Vec<String>,
    /// Its value, where it could be parsed.
    value: Option<Value>,
}

impl Source {
    /// Reads a source; `None` where it is not a file, or not one that may be shown.
    fn read(source: &str) -> Option<Self> {
        let path = Path::new(source);
        let metadata = fs::metadata(path).ok().filter(|it| it.is_file() && it.len() <= MAX_BYTES)?;
        let text = fs::read_to_string(path).ok().filter(|_| metadata.len() > 0)?;
        let value = jsonc::plain(&text);
        Some(Self { lines: text.lines().map(str::to_owned).collect(), value })
    }

    fn snippet(&self, warning: &Warning, is_note: bool, is_coloured: bool) -> Option<String> {
        let line_number = warning.line?;
        let line = self.lines.get(line_number.checked_sub(1)?)?;
        let column = warning.column.unwrap_or(1).saturating_sub(1);
        let (start, _) = line.char_indices().nth(column).unwrap_or((line.len(), ' '));
        let (before, rest) = line.split_at(start);
        let (about, after) = rest.split_at(token_len(rest));
        let [before, about, after] = [before, about, after].map(|part| self.shown(line, part));
        let source = format!("{}{}{}", before?, about.as_ref()?, after?);
        let start = self.shown(line, &line[..start])?.len();
        let end = start + about?.len();
        let level = if is_note { Level::NOTE } else { Level::WARNING };
        let annotation = AnnotationKind::Primary.span(start..end);
        let snippet = Snippet::source(source).line_start(line_number).annotation(annotation);
        let renderer = if is_coloured { Renderer::styled() } else { Renderer::plain() };
        Some(renderer.term_width(WIDTH).render(&[Group::with_level(level).element(snippet)]))
    }

    /// Returns a part of a line without secrets; `None` where that cannot be told.
    fn shown(&self, line: &str, part: &str) -> Option<String> {
        let masked = match &self.value {
            Some(value) => secrets::mask_message(&[], value, part),
            None => {
                let lower = line.to_lowercase();
                if SECRETIVE.iter().any(|word| lower.contains(word)) {
                    return None;
                }
                secrets::text(part)
            }
        };
        Some(visible_line(&masked).replace('\t', " "))
    }
}

/// Returns the length of the text, number or word that a text begins with.
fn token_len(text: &str) -> usize {
    let Some(rest) = text.strip_prefix('"') else {
        let is_end = |letter: char| letter.is_whitespace() || matches!(letter, ',' | ':' | ']' | '}');
        let len = text.find(is_end).unwrap_or(text.len());
        let first = text.chars().next().map_or(0, char::len_utf8);
        return len.max(first);
    };
    let mut is_escaped = false;
    for (at, letter) in rest.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 2,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests;
