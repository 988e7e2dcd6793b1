//! Agents of a marketplace, which `windlass.agents` names: directories of files, and the lists of servers.
//!
//! The user did not choose these agents one by one, so they are the weakest source: every setting of the user
//! for an agent overrides them. Rules that come over the network can only narrow the user's own rules,
//! and nothing is substituted in such a text: an agent that asks for `{env:KEY}` would carry the key to its
//! provider.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    cache::{self, Listing},
    formats::name_problem,
    frontmatter,
    layer::{self, Kind, Layer, pointer},
    paths::Paths,
    warning::{Findings, Warning},
};

/// The key that a whole list is put under, to name places in it.
const LIST: &str = "list";

/// Agents that one server may list.
const MAX_AGENTS: usize = 200;

/// Agents that come with windlass; a server says nothing of these.
pub const BUILT_IN: [&str; 7] = ["build", "plan", "general", "explore", "title", "summary", "compaction"];

/// Keys that a list may call otherwise.
const RENAMED: [(&str, &str); 2] = [("systemPrompt", "prompt"), ("permissions", "permission")];

/// An agent as a server lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub name: String,
    pub version: Option<String>,
    pub text: Text,
    /// Places of its entry's parts in the list.
    pub places: Places,
}

/// JSON pointer below an agent → line and column, 1-based.
pub type Places = BTreeMap<String, (usize, usize)>;

/// Source of an agent's definition.
#[derive(Debug, Clone, PartialEq)]
pub enum Text {
    /// In the list itself.
    Here(Map<String, Value>),
    /// In a markdown file, by its path from the list.
    File(String),
}

/// An agent that was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptAgent {
    pub name: String,
    /// With the same version and file it is not fetched again.
    pub version: Option<String>,
    pub file: Option<String>,
    pub definition: Map<String, Value>,
    /// Places of the definition's parts in the file, or in the list.
    #[serde(default)]
    pub places: Places,
}

/// Reads a server's list: the agents that can be used, and why others cannot.
///
/// It is `{"agents": [{"name": …, "file": "x.md", "version": …}, {"name": …, "prompt": …}]}`, the list alone, or
/// OpenCode's own `{"agent": {"<name>": {…}}}`.
pub fn read_index(text: &[u8]) -> Result<(Vec<Listed>, Vec<String>), String> {
    let index: Value = serde_json::from_slice(text).map_err(|error| format!("is not JSON ({error})"))?;
    let entries: Vec<(Option<&str>, String, &Value)> = match (&index, index.get("agents"), index.get("agent"))
    {
        (Value::Array(list), ..) => elements(list, &[LIST]),
        (_, Some(Value::Array(list)), _) => elements(list, &[LIST, "agents"]),
        (_, Some(Value::Object(agents)), _) => named(agents, "agents"),
        (_, None, Some(Value::Object(agents))) => named(agents, "agent"),
        _ => return Err("has no list `agents`".to_owned()),
    };
    let mut findings = Findings::default();
    let text = String::from_utf8_lossy(text);
    let list = layer::parse_value("", Path::new(""), LIST, &text, &mut findings);
    let n_entries = entries.len();
    let mut listed: Vec<Listed> = Vec::new();
    let mut problems: Vec<String> = findings.warnings.iter().map(in_list).collect();
    for (idx, (name, place, entry)) in entries.into_iter().enumerate() {
        if listed.len() == MAX_AGENTS {
            problems.push(format!("{n_entries} agents; those after the first {MAX_AGENTS} are left out"));
            break;
        }
        match read_entry(name, entry) {
            Ok(agent) if listed.iter().any(|other| other.name == agent.name) => {
                problems.push(format!("the agent `{}` is a duplicate; the first holds", agent.name));
            }
            Ok(agent) => listed.push(Listed { places: places_below(&list, &place), ..agent }),
            Err(reason) => problems.push(format!("agent {} is left out: {reason}", idx + 1)),
        }
    }
    Ok((listed, problems))
}

/// Returns the entries of a list with their JSON pointers.
fn elements<'a>(list: &'a [Value], path: &[&str]) -> Vec<(Option<&'a str>, String, &'a Value)> {
    let place = |idx: usize| pointer(&[path, &[idx.to_string().as_str()]].concat());
    list.iter().enumerate().map(|(idx, entry)| (None, place(idx), entry)).collect()
}

fn named<'a>(agents: &'a Map<String, Value>, key: &str) -> Vec<(Option<&'a str>, String, &'a Value)> {
    agents.iter().map(|(name, entry)| (Some(name.as_str()), pointer(&[LIST, key, name]), entry)).collect()
}

/// Returns a warning about the list, without the key that it was put under.
fn in_list(warning: &Warning) -> String {
    let message = warning.message.strip_prefix(LIST).unwrap_or(&warning.message);
    let (line, column) = (warning.line.unwrap_or(1), warning.column.unwrap_or(1));
    format!("{line}:{column}: {}", message.trim_start_matches('.'))
}

/// Returns the places at and below a pointer, as they are called in a definition.
fn places_below(list: &Layer, place: &str) -> Places {
    let below = |(pointer, position): (&String, &(usize, usize))| {
        let rest = pointer.strip_prefix(place).filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        let renamed = RENAMED.iter().find_map(|(from, to)| {
            let rest = rest.strip_prefix('/')?.strip_prefix(from)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("/{to}{rest}"))
        });
        Some((renamed.unwrap_or_else(|| rest.to_owned()), *position))
    };
    list.places.iter().filter_map(below).collect()
}

fn read_entry(name: Option<&str>, whole: &Value) -> Result<Listed, String> {
    let Value::Object(entry) = whole else { return Err("it is not an object".to_owned()) };
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let name = name.or(text("id")).or(text("name")).ok_or("it has no `name`")?;
    if let Some(problem) = name_problem(name) {
        return Err(format!("{name:?}: {problem}"));
    }
    if BUILT_IN.contains(&name) {
        return Err(format!("`{name}` is built in, and only your own files change it"));
    }
    let text = match entry.get("file") {
        Some(Value::String(file)) if cache::is_below(file) && !file.contains(['%', '?', '#']) => {
            Text::File(file.clone())
        }
        Some(file) => return Err(format!("its file {file} is not a path below the list")),
        None => {
            let mut definition = entry.clone();
            definition.shift_remove("id");
            definition.shift_remove("version");
            if definition.get("name").and_then(Value::as_str) == Some(name) {
                definition.shift_remove("name");
            }
            for (from, to) in RENAMED {
                // Of two permissions none is the one that was meant.
                if to == "permission" && definition.contains_key(to) {
                    continue;
                }
                if let Some(value) = definition.shift_remove(from) {
                    definition.entry(to).or_insert(value);
                }
            }
            Text::Here(usable(definition))
        }
    };
    Ok(Listed { name: name.to_owned(), version: cache::version(whole), text, places: Places::new() })
}

/// Returns the definition in an agent's markdown file, with its places.
pub fn read_file(text: &str) -> Result<(Map<String, Value>, Places), String> {
    let front_matter = frontmatter::split(text).map_err(|error| error.to_string())?;
    let mut definition = front_matter.data;
    let mut places: Places = front_matter.key_lines.into_iter().collect();
    places.insert(String::new(), (1, 1));
    let prompt = front_matter.body.trim();
    if !prompt.is_empty() {
        definition.insert("prompt".to_owned(), Value::from(prompt));
        places.insert("/prompt".to_owned(), (frontmatter::body_line(text, &front_matter.body), 1));
    }
    Ok((usable(definition), places))
}

/// Leaves out the keys that a server has no say in.
fn usable(mut definition: Map<String, Value>) -> Map<String, Value> {
    for key in ["disable", "disabled", "enabled"] {
        definition.shift_remove(key);
    }
    definition
}

/// Returns the path under which the agents of a URL are kept.
pub fn cache_file(paths: &Paths, url: &str) -> PathBuf {
    paths.market().join(cache::name(url)).with_extension("json")
}

/// Returns the agents that were kept, each as a source of its own.
pub fn layers(kept: Listing<KeptAgent>, directory: &Path) -> Vec<Layer> {
    let layer = |agent: KeptAgent| {
        let source = match &agent.file {
            Some(file) => format!("{}, {file}", kept.url),
            None => kept.url.clone(),
        };
        let prefix = pointer(&["agent", &agent.name]);
        let entry = Map::from_iter([(agent.name, Value::Object(agent.definition))]);
        let value = Map::from_iter([("agent".to_owned(), Value::Object(entry))]);
        let places = agent.places.into_iter().map(|(place, position)| (format!("{prefix}{place}"), position));
        Layer { places: places.collect(), ..Layer::new(Kind::Market, &source, directory, value) }
    };
    // The file is ours, and yet one that anything may have changed.
    let is_ours =
        |agent: &KeptAgent| name_problem(&agent.name).is_none() && !BUILT_IN.contains(&agent.name.as_str());
    kept.entries.into_iter().filter(is_ours).map(layer).collect()
}

#[cfg(test)]
mod tests;
