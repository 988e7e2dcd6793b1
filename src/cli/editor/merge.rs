//! An entry put into the text of an editor's file, which keeps its comments, its order and everything else.

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstNode, CstObject, CstRootNode},
    errors::ParseError,
    json,
};
use serde_json::{Map, Value};

/// The name of the entry.
const NAME: &str = "windlass";

/// Place of an entry in a JSON file.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    /// The object of all agents.
    pub owner: &'static str,
    /// `type`, where the editor wants one.
    pub kind: Option<&'static str>,
}

/// Returns a file that holds nothing but the entry.
pub fn whole(keys: &Keys, program: &str) -> String {
    let mut entry = Map::new();
    if let Some(kind) = keys.kind {
        entry.insert("type".to_owned(), kind.into());
    }
    entry.insert("command".to_owned(), program.into());
    entry.insert("args".to_owned(), Value::from(vec!["acp"]));
    let owner = Value::Object(Map::from_iter([(NAME.to_owned(), Value::Object(entry))]));
    format!("{:#}\n", Value::Object(Map::from_iter([(keys.owner.to_owned(), owner)])))
}

/// Puts the entry into a JSON file with comments; of an entry that is there only the command is changed.
pub fn json(text: &str, keys: &Keys, program: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Ok(whole(keys, program));
    }
    let (text, mark) = match text.strip_prefix('\u{feff}') {
        Some(rest) => (rest, "\u{feff}"),
        None => (text, ""),
    };
    let root = parse(text)?;
    let object = match root.value() {
        None => root.object_value_or_set(),
        Some(value) => value.as_object().ok_or("it is not a JSON object")?,
    };
    once(&object, keys.owner)?;
    let agents = match object.object_value_or_create(keys.owner) {
        Some(agents) => agents,
        None => return Err(format!("`{}` is not a JSON object there", keys.owner)),
    };
    once(&agents, NAME)?;
    let entry = match agents.object_value_or_create(NAME) {
        Some(entry) => entry,
        None => return Err(format!("`{}.{NAME}` is not a JSON object there", keys.owner)),
    };
    ["type", "command", "args"].iter().try_for_each(|key| once(&entry, key))?;
    if let Some(kind) = keys.kind {
        set(&entry, "type", &Value::from(kind), json!(kind));
    }
    set(&entry, "command", &Value::from(program), json!(program));
    if !starts_acp(&entry) {
        set(&entry, "args", &Value::from(vec!["acp"]), json!(["acp"]));
    }
    Ok(format!("{mark}{root}"))
}

/// Refuses a key that is there more than once: an editor takes the last, and the others look as if they counted.
fn once(object: &CstObject, key: &str) -> Result<(), String> {
    let names = object.properties().into_iter().filter_map(|it| it.name()?.decoded_value().ok());
    match names.filter(|name| name == key).count() {
        0 | 1 => Ok(()),
        _ => Err(format!("`{key}` is there more than once, and only the last counts; keep one of them")),
    }
}

/// Returns true if an entry's arguments begin with `acp`; the rest is the user's.
fn starts_acp(entry: &CstObject) -> bool {
    let arguments = entry.get("args").and_then(|it| it.value()).and_then(|it: CstNode| it.to_serde_value());
    arguments.is_some_and(|it| it.get(0) == Some(&Value::from("acp")))
}

/// Sets a value, and leaves one that is right as it is written.
fn set(object: &CstObject, key: &str, wanted: &Value, value: CstInputValue) {
    match object.get(key) {
        Some(property) => {
            let is_right =
                property.value().and_then(|value: CstNode| value.to_serde_value()).as_ref() == Some(wanted);
            if !is_right {
                property.set_value(value);
            }
        }
        None => {
            object.append(key, value);
        }
    }
}

fn parse(text: &str) -> Result<CstRootNode, String> {
    let deepest = text.chars().fold((0_usize, 0_usize), |(depth, deepest), letter| match letter {
        '{' | '[' => (depth + 1, deepest.max(depth + 1)),
        '}' | ']' => (depth.saturating_sub(1), deepest),
        _ => (depth, deepest),
    });
    // The parser calls itself for each level.
    if deepest.1 > MAX_DEPTH {
        return Err(format!("it is nested more than {MAX_DEPTH} levels deep"));
    }
    let refused = |error: ParseError| {
        let (line, column) = (error.line_display(), error.column_display());
        format!("line {line}, column {column} is no JSON: {}", error.kind())
    };
    CstRootNode::parse(text, &ParseOptions::default()).map_err(refused)
}

/// Levels of a settings file.
const MAX_DEPTH: usize = 200;

/// Returns the programs of the entries that start windlass, under any name.
pub fn programs(text: &str, keys: &Keys) -> Result<Vec<String>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let root = parse(text)?.to_serde_value().unwrap_or_default();
    let entries = root.get(keys.owner).and_then(Value::as_object).into_iter().flatten();
    let named = entries.filter_map(|(name, entry)| {
        let program = entry.get("command")?.as_str()?;
        (name == NAME || file_name(program) == NAME).then(|| program.to_owned())
    });
    Ok(named.collect())
}

fn file_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns the programs that a file which is a program itself names in quotes.
pub fn programs_in_block(text: &str) -> Vec<String> {
    let of_line = |line: &str| {
        let is_comment = line.trim_start().starts_with("--") || line.trim_start().starts_with(';');
        let quoted = line.split('"').skip(1).step_by(2).find(|it| it.contains('/') && file_name(it) == NAME);
        quoted.filter(|_| !is_comment).map(str::to_owned)
    };
    text.lines().filter_map(of_line).collect()
}

/// Puts the entry between marks at the end of a file that is a program, or in the place of the text between them.
pub fn block(text: &str, comment: &str, entry: &str, once: Option<&str>) -> Result<String, String> {
    let (start, end) = (format!("{comment} >>> {NAME}"), format!("{comment} <<< {NAME}"));
    let block = format!("{start}\n{}\n{end}\n", entry.trim_end());
    let line_of = |mark: &str| text.lines().position(|line| line.trim_end() == mark);
    match (line_of(&start), line_of(&end)) {
        (Some(first), Some(last)) if first < last => {
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            Ok([&lines[..first].concat(), block.as_str(), &lines[last + 1..].concat()].concat())
        }
        (None, None) => {
            let setup = |line: &str| {
                let is_comment = line.trim_start().starts_with(comment);
                !is_comment && once.is_some_and(|plugin| line.contains(plugin))
            };
            if let Some(line) = text.lines().position(setup) {
                let plugin = once.unwrap_or_default();
                return Err(format!(
                    "line {} sets {plugin} up already, and a second time would undo that; put the adapter of `windlass \
                     editor neovim` there",
                    line + 1
                ));
            }
            let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with(comment);
            if text.lines().rfind(is_code).is_some_and(|line| line.trim_start().starts_with("return")) {
                return Err(
                    "it ends with `return`, and nothing may stand behind that; put the entry before it"
                        .to_owned(),
                );
            }
            let gap = if text.is_empty() {
                ""
            } else if text.ends_with('\n') {
                "\n"
            } else {
                "\n\n"
            };
            Ok(format!("{text}{gap}{block}"))
        }
        (Some(_) | None, _) => Err(format!("of the lines `{start}` and `{end}` one is missing")),
    }
}
