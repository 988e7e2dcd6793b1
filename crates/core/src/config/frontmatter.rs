//! Splits a markdown file into its YAML front matter and its text.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

use super::jsonc::push_key;

/// Collections within collections.
const MAX_DEPTH: usize = 32;

/// Values that aliases may make of one file.
const MAX_NODES: usize = 10_000;

/// A markdown file in two pieces.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FrontMatter {
    /// Empty when the file has no front matter.
    pub data: Map<String, Value>,
    /// JSON pointer → line and column in the file, 1-based, of a key or a list's element.
    pub key_lines: HashMap<String, (usize, usize)>,
    /// The text that follows, as written.
    pub body: String,
}

/// Front matter that cannot be read; the position is in the file, 1-based.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct FrontMatterError {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// Splits the text of a markdown file.
///
/// YAML that does not parse is tried once more with its plain values quoted, because people write
/// `description: Use this: it helps` and `*: deny`.
pub fn split(text: &str) -> Result<FrontMatter, FrontMatterError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(block) = Block::find(text)? else {
        return Ok(FrontMatter { body: text.to_owned(), ..FrontMatter::default() });
    };
    let (data, key_lines) = read(block.yaml).or_else(|err| read(&quoted(block.yaml)).map_err(|_| err))?;
    Ok(FrontMatter { data, key_lines, body: block.body.to_owned() })
}

/// Returns the line that a file's text begins on, `body` being the text that [`split`] returned for it.
pub fn body_line(text: &str, body: &str) -> usize {
    let before = text.len().saturating_sub(body.trim_start().len());
    text.get(..before).unwrap_or_default().matches('\n').count() + 1
}

struct Block<'a> {
    yaml: &'a str,
    body: &'a str,
}

impl<'a> Block<'a> {
    /// Returns the lines between a first line `---` and the next one.
    fn find(text: &'a str) -> Result<Option<Self>, FrontMatterError> {
        let is_fence = |line: &str| line.trim_end() == "---";
        let mut lines = text.split_inclusive('\n');
        let Some(first) = lines.next().filter(|line| is_fence(line)) else { return Ok(None) };
        let mut end = first.len();
        for line in lines {
            if is_fence(line) {
                let (yaml, body) = (&text[first.len()..end], &text[end + line.len()..]);
                return Ok(Some(Self { yaml, body }));
            }
            end += line.len();
        }
        let message = "the front matter that begins here has no closing `---`".to_owned();
        Err(FrontMatterError { line: 1, column: 1, message })
    }
}

type Read = (Map<String, Value>, HashMap<String, (usize, usize)>);

/// Reads YAML that begins on the second line of its file.
fn read(yaml: &str) -> Result<Read, FrontMatterError> {
    let mut reader = Reader::default();
    for event in Parser::new_from_str(yaml) {
        let (event, span) = event.map_err(|err| {
            let reason = err.info().trim_start_matches("while parsing ");
            error_at(err.marker(), format!("is not valid YAML: {reason}"))
        })?;
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        reader.push(event, &span.start).map_err(|message| error_at(&span.start, message))?;
    }
    match reader.root {
        None | Some(Value::Null) => Ok((Map::new(), reader.key_lines)),
        Some(Value::Object(data)) => Ok((data, reader.key_lines)),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            let message = "the front matter is not a list of `key: value` lines".to_owned();
            Err(FrontMatterError { line: 2, column: 1, message })
        }
    }
}

fn error_at(marker: &Marker, message: String) -> FrontMatterError {
    let (line, column) = place(marker);
    FrontMatterError { line, column, message }
}

/// Returns a marker's place in the file: the front matter's first line is the file's second, and columns are
/// counted from 0.
fn place(marker: &Marker) -> (usize, usize) {
    (marker.line() + 1, marker.col() + 1)
}

/// Builds a value from the parser's events without recursion.
#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    root: Option<Value>,
    anchors: HashMap<usize, Value>,
    key_lines: HashMap<String, (usize, usize)>,
    pointer: String,
    n_nodes: usize,
}

/// A collection that has not ended yet.
struct Open {
    value: Collection,
    anchor: usize,
    /// Length of the pointer to it.
    pointer_len: usize,
}

enum Collection {
    List(Vec<Value>),
    Object(Object),
}

#[derive(Default)]
struct Object {
    value: Map<String, Value>,
    /// The key of the value that comes next.
    key: Option<Key>,
    /// Keys that came by `<<`, which the object's own displace.
    merged: HashSet<String>,
}

enum Key {
    Own(String),
    /// `<<`, and its position: the objects behind it are laid below this one, as js-yaml does.
    Merge((usize, usize)),
}

impl Reader {
    fn push(&mut self, event: Event<'_>, start: &Marker) -> Result<(), String> {
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned();
                let value = value.ok_or("names an anchor that is not there yet".to_owned())?;
                self.value(value, false, start)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.is_some_and(|tag| tag.suffix == "str");
                let value = match style {
                    ScalarStyle::Plain if !is_text => plain(&text),
                    _ => Value::String(text.into_owned()),
                };
                // A key is the text that was written, also when it looks like a number.
                self.keep(anchor, &value);
                self.value(value, style == ScalarStyle::Plain && !is_text, start)
            }
            Event::SequenceStart(anchor, _) => self.begin(Collection::List(Vec::new()), anchor, start),
            Event::MappingStart(anchor, _) => {
                self.begin(Collection::Object(Object::default()), anchor, start)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                self.pointer.truncate(open.pointer_len);
                let value = match open.value {
                    Collection::List(list) => Value::Array(list),
                    Collection::Object(object) => Value::Object(object.value),
                };
                self.keep(open.anchor, &value);
                self.put(value)
            }
        }
    }

    fn begin(&mut self, value: Collection, anchor: usize, start: &Marker) -> Result<(), String> {
        if self.open.len() == MAX_DEPTH {
            return Err(format!("is nested deeper than {MAX_DEPTH} levels"));
        }
        if let Some(Open { value: Collection::Object(Object { key: None, .. }), .. }) = self.open.last() {
            return Err("a list or an object cannot be a key".to_owned());
        }
        self.enter(start);
        self.open.push(Open { value, anchor, pointer_len: self.pointer.len() });
        Ok(())
    }

    /// Adds a scalar or an alias: a key where one is due, else a value.
    fn value(&mut self, value: Value, is_plain: bool, start: &Marker) -> Result<(), String> {
        self.n_nodes += n_nodes(&value);
        if self.n_nodes > MAX_NODES {
            return Err(format!("has more than {MAX_NODES} values"));
        }
        let Some(Open { value: Collection::Object(object @ Object { key: None, .. }), pointer_len, .. }) =
            self.open.last_mut()
        else {
            self.enter(start);
            return self.put(value);
        };
        let name = match value {
            Value::String(text) => text,
            Value::Null => "null".to_owned(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Array(_) | Value::Object(_) => {
                return Err("a list or an object cannot be a key".to_owned());
            }
        };
        self.pointer.truncate(*pointer_len);
        if is_plain && name == "<<" {
            object.key = Some(Key::Merge(place(start)));
            return Ok(());
        }
        if object.value.contains_key(&name) && !object.merged.remove(&name) {
            return Err(format!("`{name}` is given twice"));
        }
        push_key(&mut self.pointer, &name);
        self.key_lines.insert(self.pointer.clone(), place(start));
        object.key = Some(Key::Own(name));
        Ok(())
    }

    /// Notes where an element of a list begins.
    fn enter(&mut self, start: &Marker) {
        if let Some(Open { value: Collection::List(list), pointer_len, .. }) = self.open.last() {
            self.pointer.truncate(*pointer_len);
            push_key(&mut self.pointer, &list.len().to_string());
            self.key_lines.insert(self.pointer.clone(), place(start));
        }
    }

    fn put(&mut self, value: Value) -> Result<(), String> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(value);
            return Ok(());
        };
        let object = match &mut open.value {
            Collection::List(list) => {
                list.push(value);
                return Ok(());
            }
            Collection::Object(object) => object,
        };
        let position = match object.key.take() {
            None => return Ok(()),
            Some(Key::Own(key)) => {
                object.value.insert(key, value);
                return Ok(());
            }
            Some(Key::Merge(position)) => position,
        };
        let below = match value {
            Value::Array(list) => list,
            one => vec![one],
        };
        for one in below {
            let Value::Object(one) = one else {
                return Err("`<<` takes an object, or a list of them".to_owned());
            };
            // An existing key is the object's own, or of an earlier merged object.
            for (key, value) in one {
                if object.value.contains_key(&key) {
                    continue;
                }
                let mut pointer = self.pointer.get(..open.pointer_len).unwrap_or_default().to_owned();
                push_key(&mut pointer, &key);
                self.key_lines.insert(pointer, position);
                object.merged.insert(key.clone());
                object.value.insert(key, value);
            }
        }
        Ok(())
    }

    fn keep(&mut self, anchor: usize, value: &Value) {
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
    }
}

fn n_nodes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        Value::Array(list) => 1 + list.iter().map(n_nodes).sum::<usize>(),
        Value::Object(object) => 1 + object.values().map(n_nodes).sum::<usize>(),
    }
}

/// Decodes an unquoted scalar by YAML's core schema.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let radix = |prefix: &str, radix: u32| i64::from_str_radix(text.strip_prefix(prefix)?, radix).ok();
    if let Some(number) = radix("0x", 16).or_else(|| radix("0o", 8)).or_else(|| text.parse().ok()) {
        return Value::from(number);
    }
    let is_number = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first))
        && text.contains(|letter: char| letter.is_ascii_digit());
    let number = if is_number { text.parse().ok().and_then(Number::from_f64) } else { None };
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

/// Quotes plain values and keys that YAML reads as something else; every line stays on its line.
fn quoted(yaml: &str) -> String {
    let mut lines = Vec::new();
    // Lines of a block scalar are text, however they look.
    let mut block_indent: Option<usize> = None;
    for line in yaml.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        let content = spaced(content);
        if let Some(limit) = block_indent {
            if content.is_empty() || indent > limit {
                lines.push(Cow::Borrowed(line));
                continue;
            }
            block_indent = None;
        }
        let value = content.split_once(": ").map_or("", |(_, value)| value.trim());
        if value.starts_with(['|', '>']) {
            block_indent = Some(indent);
        }
        let whole = || format!("{}{content}", &line[..indent]);
        lines.push(Cow::Owned(quoted_line(&line[..indent], &content).unwrap_or_else(whole)));
    }
    lines.join("\n")
}

/// Returns a line with spaces for the tabs behind its key, which js-yaml takes as well; the text behind them stays in
/// its column.
fn spaced(content: &str) -> Cow<'_, str> {
    let Some((key, rest)) = content.split_once(":").filter(|(_, rest)| rest.starts_with([' ', '\t'])) else {
        return Cow::Borrowed(content);
    };
    let value = rest.trim_start_matches([' ', '\t']);
    Cow::Owned(format!("{key}:{}{value}", " ".repeat(rest.len() - value.len())))
}

fn quoted_line(indent: &str, content: &str) -> Option<String> {
    let quote = |text: &str| Value::from(text).to_string();
    if content.starts_with('*') {
        let (key, value) = content.rsplit_once(':')?;
        return Some(format!("{indent}{}:{value}", quote(key.trim_end())));
    }
    let (key, value) = content.split_once(": ")?;
    let is_key = key.chars().all(|letter| letter.is_alphanumeric() || "_-".contains(letter));
    let value = value.trim();
    // `[beta] helps` is text, `[a, b` is a list that goes on or is broken.
    let is_collection = |open: char, close: char| {
        value.starts_with(open) && (value.ends_with(close) || !value.contains(close))
    };
    let is_written = value.is_empty()
        || value.starts_with(['"', '\'', '|', '>', '#', '&', '!'])
        || is_collection('[', ']')
        || is_collection('{', '}');
    let means_itself = matches!(read(&format!("x: {value}")), Ok((data, _)) if data.get("x").is_some_and(|it| !it.is_object()));
    (is_key && !is_written && !means_itself).then(|| format!("{indent}{key}: {}", quote(value)))
}

#[cfg(test)]
mod tests;
