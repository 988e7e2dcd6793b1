//! One source of configuration: its value, and the position of every part of it.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ops::Range,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use windlass_base::home;

use super::{
    environment::Environment,
    jsonc::{self, Document, Substitutes},
    limits::Limit,
    project_files::ProjectFiles,
    text_file::{self, Unreadable},
    warning::{Findings, Warning},
};

/// Kind of source of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Values that apply when no source sets them.
    Default,
    /// An organisation's, fetched and kept.
    Remote,
    /// An agent of a server's list, fetched and kept.
    Market,
    File,
    /// An agent or a command as a file.
    Markdown,
    Variable,
    Plugin,
    /// The administrator's, which nothing overrides.
    Managed,
}

/// One source of configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    pub kind: Kind,
    /// File, URL or variable.
    pub source: String,
    /// Directory that relative paths in it start from.
    pub base: PathBuf,
    pub value: Map<String, Value>,
    /// The value with text from elsewhere left as it is written, such as `{env:NAME}`; set where that differs and
    /// trust depends on it.
    pub written: Option<Map<String, Value>>,
    /// JSON pointer → line and column, 1-based, of a key or a list's element.
    pub places: HashMap<String, (usize, usize)>,
    /// Limits that are no rules; they are read out of the value.
    pub limits: Vec<Limit>,
    /// Its text could not be used at all.
    pub is_broken: bool,
    /// The only key that it can set; a file may set any.
    pub only_key: Option<String>,
    /// It is a project's, not the user's own.
    pub is_projects: bool,
    /// Short texts that were put in for variables and files.
    pub substituted: Vec<String>,
}

impl Layer {
    /// Returns a layer without positions for its parts.
    pub fn new(kind: Kind, source: &str, base: &Path, value: Map<String, Value>) -> Self {
        let (source, base) = (source.to_owned(), base.to_owned());
        let (places, limits) = (HashMap::new(), Vec::new());
        let (is_broken, only_key, is_projects, substituted) = (false, None, false, Vec::new());
        let written = None;
        Self {
            kind,
            source,
            base,
            value,
            written,
            places,
            limits,
            is_broken,
            only_key,
            is_projects,
            substituted,
        }
    }

    /// Returns true if a key may be set in a text that cannot be used.
    pub fn may_have_said(&self, key: &str) -> bool {
        self.is_broken && self.only_key.as_ref().is_none_or(|only| only == key)
    }

    /// Returns the line and the column of a key, 1-based, when this source has it.
    pub fn position(&self, path: &[&str]) -> Option<(usize, usize)> {
        self.places.get(&pointer(path)).copied()
    }

    /// Returns a warning about the value under `path`.
    pub fn warning(&self, path: &[&str], message: String) -> Warning {
        let position = self.position(path);
        let (line, column) = (position.map(|(line, _)| line), position.map(|(_, column)| column));
        // A name of dots alone could not be told from the dots between names.
        let is_dots = |name: &str| name.chars().all(|letter| letter == '.');
        let quoted = |name: &&str| if is_dots(name) { format!("`{name}`") } else { (*name).to_owned() };
        let place = path.iter().map(quoted).collect::<Vec<_>>().join(".");
        let message = if path.is_empty() { message } else { format!("{place}: {message}") };
        Warning { source: self.source.clone(), line, column, message }
    }

    /// Lets the elements of a list behind one that was taken out stand where they stand.
    pub fn remove_element_place(&mut self, list: &[String], idx: usize) {
        let keys: Vec<&str> = list.iter().map(String::as_str).collect();
        let prefix = format!("{}/", pointer(&keys));
        let moved = |(place, position): (String, (usize, usize))| {
            let Some(rest) = place.strip_prefix(&prefix) else { return Some((place, position)) };
            let (own, below) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            match own.parse::<usize>() {
                Ok(own) if own == idx => None,
                Ok(own) if own > idx => Some((format!("{prefix}{}{below}", own - 1), position)),
                Ok(_) | Err(_) => Some((place, position)),
            }
        };
        self.places = std::mem::take(&mut self.places).into_iter().filter_map(moved).collect();
    }

    /// Moves the places under one path to another path.
    pub fn move_places(&mut self, from: &[&str], to: &[&str]) {
        let (from, to) = (pointer(from), pointer(to));
        let is_below = |place: &&String| {
            place.strip_prefix(from.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let moved: Vec<String> = self.places.keys().filter(is_below).cloned().collect();
        for place in moved {
            if let Some(position) = self.places.remove(&place) {
                self.places.entry(format!("{to}{}", &place[from.len()..])).or_insert(position);
            }
        }
    }
}

/// Returns the JSON pointer of a path.
pub fn pointer(path: &[&str]) -> String {
    let mut pointer = String::new();
    for key in path {
        jsonc::push_key(&mut pointer, key);
    }
    pointer
}

/// Returns the path of `{file:name}` in a source of the directory `base`.
fn named_file(environment: &Environment, base: &Path, name: &str) -> PathBuf {
    home::join(&environment.home, base, name)
}

/// Returns the files that a source names by `{file:…}`.
pub fn substituted_files(environment: &Environment, base: &Path, text: &str) -> Vec<PathBuf> {
    let variable = |name: &str| environment.get(name).map(str::to_owned);
    let starts = text.match_indices("{file:");
    let names = starts.filter_map(|(start, _)| jsonc::file_name(&text[start..], &variable)?.1.ok());
    names.map(|name| named_file(environment, base, &name)).collect()
}

/// Everything of a source in JSONC but its text.
pub struct SourceContext<'a> {
    pub environment: &'a Environment,
    pub kind: Kind,
    /// File, URL or variable.
    pub source: String,
    /// Directory that relative paths in it start from.
    pub base: PathBuf,
    /// The project that it belongs to.
    pub project_files: Option<&'a ProjectFiles>,
}

/// Parses a source that is JSONC; its faults go to `findings`.
pub fn parse(context: SourceContext<'_>, text: &str, findings: &mut Findings) -> Layer {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    parse_part(context, Part { whole: text, range: 0..text.len() }, findings)
}

/// Returns the value of a text where variables, and files that do not lie beneath `root` once links are followed, stay
/// as they are written; none if there are no such.
pub fn written(context: &SourceContext<'_>, text: &str, root: &Path) -> Option<Map<String, Value>> {
    let SourceContext { environment, base, project_files, .. } = context;
    let has_foreign = Cell::new(false);
    let as_written = |placeholder: String| {
        has_foreign.set(true);
        placeholder
    };
    let variable = |name: &str| Some(as_written(format!("{{env:{name}}}")));
    let read_file = |name: &str| {
        let file = named_file(environment, base, name);
        let is_refused = project_files.is_some_and(|it| it.refusal(&file).is_some());
        // One that is not there yet may come.
        let is_beneath =
            file.canonicalize().map_or_else(|_| file.starts_with(root), |real| real.starts_with(root));
        if !is_refused && !is_beneath {
            return Ok(as_written(format!("{{file:{name}}}")));
        }
        read_named(*project_files, &file, name)
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = jsonc::parse(text, &Substitutes { variable: &variable, file: &read_file });
    has_foreign.get().then_some(document.value)
}

fn read_named(project_files: Option<&ProjectFiles>, file: &Path, name: &str) -> Result<String, String> {
    let read = match project_files {
        Some(project_files) => project_files.read(file),
        None => text_file::read(file),
    };
    read.map(|content| content.trim().to_owned()).map_err(|err| match err {
        Unreadable::Refused(refusal) => format!("{{file:{name}}} {refusal}; it counts as empty"),
        err => format!("{{file:{name}}} cannot be read: {err}; it counts as empty"),
    })
}

/// A part of a text that is a source of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part<'a> {
    pub whole: &'a str,
    pub range: Range<usize>,
}

/// Does the same as [`parse`] for a part of a text; positions are those in the whole.
pub fn parse_part(context: SourceContext<'_>, part: Part<'_>, findings: &mut Findings) -> Layer {
    let SourceContext { environment, kind, source, base, project_files } = context;
    let substituted = RefCell::new(Vec::new());
    let note = |text: String| {
        if text.len() <= MAX_SUBSTITUTED {
            substituted.borrow_mut().push(text.clone());
        }
        text
    };
    let read_file = |name: &str| {
        if kind == Kind::Remote {
            return Err(format!(
                "{{file:{name}}} is not read for a remote configuration; it counts as empty"
            ));
        }
        read_named(project_files, &named_file(environment, &base, name), name).map(note)
    };
    let variable = |name: &str| environment.get(name).map(str::to_owned).map(note);
    let text = part.whole.get(part.range.clone()).unwrap_or_default();
    let document = jsonc::parse(text, &Substitutes { variable: &variable, file: &read_file });
    let layer = placed(document, Layer::new(kind, &source, &base, Map::new()), part, findings);
    Layer { substituted: substituted.take(), ..layer }
}

/// Parses a variable that is the value of `key`.
pub fn parse_value(source: &str, base: &Path, key: &str, text: &str, findings: &mut Findings) -> Layer {
    let document = jsonc::parse_value(text, key);
    let only_key = Some(key.to_owned());
    let layer = Layer { only_key, ..Layer::new(Kind::Variable, source, base, Map::new()) };
    placed(document, layer, Part { whole: text, range: 0..text.len() }, findings)
}

/// Returns the value of a document as a layer, with lines and columns.
fn placed(document: Document, layer: Layer, part: Part<'_>, findings: &mut Findings) -> Layer {
    let lines = Lines::new(part.whole);
    let position = |offset: usize| lines.position(part.range.start + offset);
    let found = |(offset, message): (usize, String)| {
        let (line, column) = position(offset);
        Warning { source: layer.source.clone(), line: Some(line), column: Some(column), message }
    };
    findings.warnings.extend(document.problems.into_iter().map(found));
    findings.notes.extend(document.notes.into_iter().map(found));
    let places = document.offsets.into_iter().map(|(pointer, offset)| (pointer, position(offset))).collect();
    Layer { value: document.value, places, is_broken: document.is_broken, ..layer }
}

/// Bytes of a text that is noted: a longer one is no part of an address.
const MAX_SUBSTITUTED: usize = 4096;

/// Bytes after which characters are counted: a file may be one line with a position for every part.
const COUNTED: usize = 1024;

/// Offsets at which the lines of a text begin.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
    /// The number of characters that begin before each piece of [`COUNTED`] bytes.
    n_before: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let starts = text.match_indices('\n').map(|(idx, _)| idx + 1);
        let mut n_chars = 0;
        let pieces = text.as_bytes().chunks(COUNTED);
        let count = |piece| {
            let n_now = n_chars;
            n_chars += n_begun(piece);
            n_now
        };
        let n_before = pieces.map(count).collect();
        Self { text, starts: std::iter::once(0).chain(starts).collect(), n_before }
    }

    /// Counts the characters before an offset, of which at most a piece is looked at.
    fn n_chars(&self, offset: usize) -> usize {
        let idx = offset / COUNTED;
        let counted = self.n_before.get(idx).copied();
        // An offset at the very end begins no piece.
        let (start, n_before) = match counted {
            Some(n_before) => (idx * COUNTED, n_before),
            None => (idx.saturating_sub(1) * COUNTED, self.n_before.last().copied().unwrap_or_default()),
        };
        n_before + n_begun(self.text.as_bytes().get(start..offset).unwrap_or_default())
    }

    /// Returns line and column, 1-based, columns in characters.
    fn position(&self, offset: usize) -> (usize, usize) {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.starts.partition_point(|&start| start <= offset);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or_default();
        (line, self.n_chars(offset) - self.n_chars(start) + 1)
    }
}

/// Counts the characters that begin in a part of a text.
fn n_begun(part: &[u8]) -> usize {
    part.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    //! Positions in texts of any form.

    use super::*;

    #[test]
    fn a_position_is_a_line_and_a_column_in_characters() {
        for text in [
            "",
            "a",
            "a\nb\n",
            "ä\u{1f600}\n\n\u{1f600}b",
            &"é".repeat(COUNTED),
            &"a\u{1f600}\n".repeat(2000),
        ] {
            let lines = Lines::new(text);
            for (offset, _) in text.char_indices().chain([(text.len(), ' ')]) {
                let before = &text[..offset];
                let line = before.matches('\n').count() + 1;
                let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
                assert_eq!(lines.position(offset), (line, column), "{offset} of {} bytes", text.len());
            }
        }
    }

    #[test]
    fn many_parts_in_one_line_have_their_positions() {
        // 40 billion characters, were each counted from the line's beginning.
        let text = "{\"a\": 1}, ".repeat(200_000);
        let lines = Lines::new(&text);
        for offset in (0..text.len()).step_by(10) {
            assert_eq!(lines.position(offset), (1, offset + 1));
        }
    }
}
