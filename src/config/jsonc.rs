//! One source of configuration as text: substitutions, JSONC, and where in the text every value stands.

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

/// A parsed source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    pub value: Map<String, Value>,
    /// JSON pointer → byte offset in the original text, of an object's key or a list's element.
    pub offsets: HashMap<String, usize>,
    /// What was wrong, with the byte offset in the original text.
    pub problems: Vec<(usize, String)>,
    /// Nothing of it could be used.
    pub is_broken: bool,
    /// What may have been meant otherwise.
    pub notes: Vec<(usize, String)>,
}

/// Where substituted values come from.
pub struct Substitutes<'a> {
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Content of the file at a path as written in the source, or what to tell the user.
    pub file: &'a dyn Fn(&str) -> Result<String, String>,
}

/// Parses a source after replacing `{env:NAME}` and `{file:path}`.
///
/// Text that is not JSONC leaves an empty value and one problem.
pub fn parse(text: &str, substitutes: &Substitutes<'_>) -> Document {
    let Expanded { text: expanded, pieces, mut problems, notes, depth } = expand(text, substitutes);
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
        Ok(Some(node @ Node::Object(_))) => {
            let mut pointer = String::new();
            let value = to_value(&node, &mut pointer, &origin, &mut document.offsets);
            if let Value::Object(object) = value {
                document.value = object;
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

struct Expanded {
    text: String,
    pieces: Vec<Piece>,
    problems: Vec<(usize, String)>,
    notes: Vec<(usize, String)>,
    depth: usize,
}

/// A replaced range: where its replacement stands, and where what it replaced stood.
struct Piece {
    start: usize,
    end: usize,
    original_start: usize,
    original_end: usize,
}

/// Replaces textually, as OpenCode does, but not in comments and escaped inside strings: a key that holds a
/// quote stays one value.
fn expand(text: &str, substitutes: &Substitutes<'_>) -> Expanded {
    let mut expanded = Expanded {
        text: String::with_capacity(text.len()),
        pieces: Vec::new(),
        problems: Vec::new(),
        notes: Vec::new(),
        depth: 0,
    };
    let mut is_string = false;
    let mut depth: usize = 0;
    let mut idx = 0;
    while let Some(rest) = text.get(idx..).filter(|rest| !rest.is_empty()) {
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

/// Length and value of the substitution that `rest` begins with.
fn substitute(rest: &str, substitutes: &Substitutes<'_>) -> Option<(usize, Result<Option<String>, String>)> {
    let is_file = rest.starts_with("{file:");
    if !is_file && !rest.starts_with("{env:") {
        return None;
    }
    let line = rest.lines().next()?;
    // A quote ends the string that an unclosed brace stands in.
    let len = line.find(['}', '"']).filter(|&end| line[end..].starts_with('}'))? + 1;
    let name = line[..len - 1].split_once(':')?.1;
    let value = if is_file { (substitutes.file)(name).map(Some) } else { Ok((substitutes.variable)(name)) };
    Some((len, value))
}

fn original_offset(pieces: &[Piece], offset: usize) -> usize {
    let Some(piece) = pieces.iter().rev().find(|piece| piece.start <= offset) else { return offset };
    if offset < piece.end { piece.original_start } else { offset - piece.end + piece.original_end }
}

fn to_value(
    node: &Node<'_>,
    pointer: &mut String,
    origin: &dyn Fn(usize) -> usize,
    offsets: &mut HashMap<String, usize>,
) -> Value {
    let len = pointer.len();
    match node {
        Node::StringLit(string) => Value::String(string.value.clone().into_owned()),
        Node::NumberLit(number) => serde_json::from_str(number.value).unwrap_or(Value::Null),
        Node::BooleanLit(boolean) => Value::Bool(boolean.value),
        Node::NullKeyword(_) => Value::Null,
        Node::Array(array) => {
            let mut values = Vec::with_capacity(array.elements.len());
            for (idx, element) in array.elements.iter().enumerate() {
                push_key(pointer, &idx.to_string());
                offsets.insert(pointer.clone(), origin(element.range().start));
                values.push(to_value(element, pointer, origin, offsets));
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
                offsets.insert(pointer.clone(), origin(start));
                map.insert(key.to_owned(), to_value(&property.value, pointer, origin, offsets));
                pointer.truncate(len);
            }
            Value::Object(map)
        }
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
