//! One source of configuration as text: substitutions, JSONC, and every value's place in the text.

use std::collections::HashMap;

use jsonc_parser::{
    ParseOptions,
    ast::{ObjectPropName, Value as Node},
    common::Ranged,
    parse_to_ast,
};
use serde_json::{Map, Value};

/// Brackets within brackets; the parser recurses.
const MAX_DEPTH: usize = 100;
/// Bytes of a source with the text that its substitutions bring.
const MAX_EXPANDED: usize = 16 << 20;
/// Keys that are there twice and are told.
const MAX_TWICE: usize = 20;

/// A parsed source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    pub value: Map<String, Value>,
    /// JSON pointer → byte offset in the original text, of an object's key or a list's element.
    pub offsets: HashMap<String, usize>,
    /// Problems, each with its byte offset in the original text.
    pub problems: Vec<(usize, String)>,
    /// Nothing of it could be used.
    pub is_broken: bool,
    /// Remarks on texts that may have been meant otherwise, with their offsets.
    pub notes: Vec<(usize, String)>,
}

/// Sources of substituted values.
pub struct Substitutes<'a> {
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Content of the file at a path as written in the source, or the reason to tell the user.
    pub file: &'a dyn Fn(&str) -> Result<String, String>,
}

/// Parses a source after replacing `{env:NAME}` and `{file:path}`.
///
/// Text that is not JSONC leaves an empty value and one problem.
pub fn parse(text: &str, substitutes: &Substitutes<'_>) -> Document {
    let expanded = expand(text, substitutes);
    read(text, expanded, None)
}

/// Returns the object that a source says as it is written, without replacing anything; `None` when it is no
/// JSONC.
pub fn plain(text: &str) -> Option<Value> {
    let verbatim = Substitutes { variable: &|_| None, file: &|_| Ok(String::new()) };
    let document = parse(text, &verbatim);
    (!document.is_broken).then(|| Value::Object(document.value))
}

/// Parses a text that is the value of `key`, of any kind; nothing in it is replaced.
pub fn parse_value(text: &str, key: &str) -> Document {
    let verbatim = Substitutes { variable: &|_| None, file: &|_| Ok(String::new()) };
    let depth = expand(text, &verbatim).depth;
    let expanded = Expanded { text: text.to_owned(), depth, ..Expanded::default() };
    read(text, expanded, Some(key))
}

fn read(text: &str, expanded: Expanded, key: Option<&str>) -> Document {
    let Expanded { text: expanded, pieces, mut problems, notes, depth, is_too_long } = expanded;
    if is_too_long {
        let message =
            format!("is longer than {} MiB with its files; all of it is ignored", MAX_EXPANDED >> 20);
        return Document { problems: vec![(0, message)], is_broken: true, ..Document::default() };
    }
    if depth > MAX_DEPTH {
        problems.push((0, format!("is nested deeper than {MAX_DEPTH} levels; all of it is ignored")));
        return Document { problems, is_broken: true, ..Document::default() };
    }
    let options = ParseOptions {
        allow_comments: true,
        allow_loose_object_property_names: false,
        allow_trailing_commas: true,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let origin = |offset: usize| original_offset(&pieces, offset);
    let mut document = Document { problems, notes, ..Document::default() };
    match parse_to_ast(&expanded, &Default::default(), &options).map(|result| result.value) {
        Ok(Some(node)) if key.is_some() || matches!(node, Node::Object(_)) => {
            let mut pointer = String::new();
            if let Some(key) = key {
                push_key(&mut pointer, key);
                document.offsets.insert(pointer.clone(), origin(node.range().start));
            }
            let mut reading = Reading { text, origin: &origin, document: &mut document, n_twice: 0 };
            match (reading.value(&node, &mut pointer), key) {
                (value, Some(key)) => {
                    document.value.insert(key.to_owned(), value);
                }
                (Value::Object(object), None) => document.value = object,
                (_, None) => {}
            }
        }
        Ok(None) => {}
        Ok(Some(node)) => {
            let message = "is not a JSON object; all of it is ignored".to_owned();
            document.problems.push((origin(node.range().start), message));
            document.is_broken = true;
        }
        Err(err) => {
            let reason = lower_first(&err.kind().to_string());
            let message = format!("is not valid JSON: {reason}; all of it is ignored");
            document.problems.push((origin(err.range().start), message));
            document.is_broken = true;
        }
    }
    document
}

/// Appends a key to a JSON pointer.
pub fn push_key(pointer: &mut String, key: &str) {
    pointer.push('/');
    pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
}

#[derive(Default)]
struct Expanded {
    text: String,
    pieces: Vec<Piece>,
    problems: Vec<(usize, String)>,
    notes: Vec<(usize, String)>,
    depth: usize,
    /// True if the text was too long to be expanded to its end.
    is_too_long: bool,
}

/// A replaced range: the place of the replacement, and of the replaced text.
struct Piece {
    start: usize,
    end: usize,
    original_start: usize,
    original_end: usize,
}

/// Replaces textually, as OpenCode does, but not in comments and escaped inside strings: a key that holds a
/// quote stays one value.
fn expand(text: &str, substitutes: &Substitutes<'_>) -> Expanded {
    let mut expanded = Expanded { text: String::with_capacity(text.len()), ..Expanded::default() };
    let mut is_string = false;
    let mut depth: usize = 0;
    let mut idx = 0;
    while let Some(rest) = text.get(idx..).filter(|rest| !rest.is_empty()) {
        if expanded.text.len() > MAX_EXPANDED {
            expanded.is_too_long = true;
            break;
        }
        let comment_len = match () {
            () if is_string => None,
            () if rest.starts_with("//") => Some(rest.find('\n').unwrap_or(rest.len())),
            () if rest.starts_with("/*") => Some(rest.find("*/").map_or(rest.len(), |end| end + 2)),
            () => None,
        };
        if let Some(len) = comment_len {
            expanded.text.push_str(&rest[..len]);
            idx += len;
            continue;
        }
        if let Some((len, value)) = substitute(rest, substitutes) {
            let value = match value {
                Ok(Some(value)) => value,
                Ok(None) => {
                    expanded.notes.push((idx, format!("{} is not set; it counts as empty", &rest[..len])));
                    String::new()
                }
                Err(message) => {
                    expanded.problems.push((idx, message));
                    String::new()
                }
            };
            let start = expanded.text.len();
            if is_string {
                let quoted = Value::String(value).to_string();
                expanded.text.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
            } else {
                expanded.text.push_str(&value);
            }
            let end = expanded.text.len();
            expanded.pieces.push(Piece { start, end, original_start: idx, original_end: idx + len });
            idx += len;
            continue;
        }
        let mut chars = rest.chars();
        let Some(first) = chars.next() else { break };
        let mut len = first.len_utf8();
        match first {
            '"' => is_string = !is_string,
            '\\' if is_string => len += chars.next().map_or(0, char::len_utf8),
            // A string ends with its line, or one missing quote would move every later error.
            '\n' => is_string = false,
            '{' | '[' if !is_string => {
                depth += 1;
                expanded.depth = expanded.depth.max(depth);
            }
            '}' | ']' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        expanded.text.push_str(&rest[..len]);
        idx += len;
    }
    expanded
}

/// Returns the length and the value of the substitution that `rest` begins with.
fn substitute(rest: &str, substitutes: &Substitutes<'_>) -> Option<(usize, Result<Option<String>, String>)> {
    let is_file = rest.starts_with("{file:");
    if !is_file && !rest.starts_with("{env:") {
        return None;
    }
    let line = rest.lines().next()?;
    if is_file {
        let (len, name) = file_name(line, substitutes.variable)?;
        return Some((len, name.and_then(|name| (substitutes.file)(&name)).map(Some)));
    }
    let len = closing(line)? + 1;
    Some((len, Ok((substitutes.variable)(&line["{env:".len()..len - 1]))))
}

/// Returns the length of the `{file:…}` that `text` begins with, and the name in it, with its variables filled in.
pub fn file_name(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<(usize, Result<String, String>)> {
    let mut idx = "{file:".len();
    let mut name = Ok(String::new());
    loop {
        let rest = text.get(idx..)?;
        let end = rest.find("{env:").filter(|&start| closing(rest).is_some_and(|end| start < end));
        let Some(start) = end else {
            let end = closing(rest)?;
            let name = name.map(|name| name + &rest[..end]);
            return Some((idx + end + 1, name));
        };
        let inner = &rest[start..];
        let end = closing(inner)?;
        let key = &inner["{env:".len()..end];
        name = name.and_then(|name| match variable(key) {
            Some(value) => Ok(name + &rest[..start] + &value),
            None => Err(format!("names a file by {{env:{key}}}, which is not set; it counts as empty")),
        });
        idx += start + end + 1;
    }
}

/// Returns the offset of the brace that closes a substitution. A quote or a line's end ends the string that an
/// unclosed one stands in.
fn closing(text: &str) -> Option<usize> {
    text.find(['}', '"', '\n']).filter(|&end| text[end..].starts_with('}'))
}

fn original_offset(pieces: &[Piece], offset: usize) -> usize {
    let Some(piece) = pieces.iter().rev().find(|piece| piece.start <= offset) else { return offset };
    if offset < piece.end { piece.original_start } else { offset - piece.end + piece.original_end }
}

/// A source that was parsed, while it becomes values.
struct Reading<'a> {
    text: &'a str,
    /// Maps an offset in the parsed text to one in the original.
    origin: &'a dyn Fn(usize) -> usize,
    document: &'a mut Document,
    /// Keys that were there before in their object.
    n_twice: usize,
}

impl Reading<'_> {
    fn value(&mut self, node: &Node<'_>, pointer: &mut String) -> Value {
        let len = pointer.len();
        match node {
            Node::StringLit(string) => Value::String(string.value.clone().into_owned()),
            Node::NumberLit(number) => serde_json::from_str(number.value).unwrap_or_else(|_| {
                let message = format!(
                    "{}: {} cannot be used as a number; it is ignored",
                    dotted(pointer),
                    number.value
                );
                self.document.problems.push(((self.origin)(number.range.start), message));
                Value::Null
            }),
            Node::BooleanLit(boolean) => Value::Bool(boolean.value),
            Node::NullKeyword(_) => Value::Null,
            Node::Array(array) => {
                let mut values = Vec::with_capacity(array.elements.len());
                for (idx, element) in array.elements.iter().enumerate() {
                    push_key(pointer, &idx.to_string());
                    self.document.offsets.insert(pointer.clone(), (self.origin)(element.range().start));
                    values.push(self.value(element, pointer));
                    pointer.truncate(len);
                }
                Value::Array(values)
            }
            Node::Object(object) => {
                let mut map = Map::with_capacity(object.properties.len());
                for property in &object.properties {
                    let (key, start) = match &property.name {
                        ObjectPropName::String(name) => (name.value.as_ref(), name.range.start),
                        ObjectPropName::Word(name) => (name.value, name.range.start),
                    };
                    push_key(pointer, key);
                    let offset = (self.origin)(start);
                    if let Some(before) = self.document.offsets.insert(pointer.clone(), offset) {
                        self.said_twice(pointer, before, offset);
                    }
                    let value = self.value(&property.value, pointer);
                    map.insert(key.to_owned(), value);
                    pointer.truncate(len);
                }
                Value::Object(map)
            }
        }
    }

    /// Reports a key that an object has twice: the last one counts, as in `JSON.parse`, and the first would
    /// vanish unseen.
    fn said_twice(&mut self, pointer: &str, before: usize, offset: usize) {
        self.n_twice += 1;
        if self.n_twice > MAX_TWICE {
            return;
        }
        let path = dotted(pointer);
        let line =
            |offset: usize| self.text[..self.text.floor_char_boundary(offset)].matches('\n').count() + 1;
        let place = match (line(before), line(offset)) {
            (first, second) if first == second => format!("on line {first}"),
            (first, second) => format!("on line {first} and on line {second}"),
        };
        let message = format!("{path}: duplicate key, {place}; the first is ignored");
        self.document.problems.push((offset, message));
        // The values below the first have no place any more.
        let below = format!("{pointer}/");
        self.document.offsets.retain(|place, _| !place.starts_with(&below));
    }
}

/// Returns a JSON pointer's keys as messages name them.
fn dotted(pointer: &str) -> String {
    let keys = pointer.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~"));
    keys.collect::<Vec<_>>().join(".")
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
