//! The tools of MCP servers behind one tool that finds them, where their definitions would take too much of the context.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_protocol::opencode::{
    message::MessageWithParts,
    part::{PartKind, ToolState},
    settings::ToolSearchSettings,
    tool::Look,
};
use windlass_services::tool::{
    ToolError, ToolOutput,
    row::{Offered, Run, Schema, Tool},
};

/// The tool's name.
pub const NAME: &str = "tool_search";
const TEXT: &str = include_str!("tool_search/tool.txt");
/// The field of its metadata with the names that it has loaded.
const LOADED: &str = "loaded";
/// Tokens of definitions above which they are put behind the search. Below, a search would cost more than it saves: a
/// request more, and a prompt cache that begins anew.
const ABOVE: u64 = 10_000;
/// Bytes of the names that the tool's description lists; more servers and tools are told by their number.
const MAX_NAMES: usize = 8_000;
/// Bytes of JSON for one token.
const TOKEN: u64 = 4;
/// Tools that one search loads, and the most that it may be asked for.
const USUAL: usize = 5;
const MOST: usize = 20;
/// Bytes of a description in the result of a search; the whole comes with the definition.
const MAX_LINE: usize = 200;

/// A tool of a server, beside the size of its definition.
pub struct Defined {
    pub server: String,
    /// Bytes of its definition as the model is sent it.
    pub n_bytes: usize,
}

/// The tools behind the search.
#[derive(Default)]
pub struct Behind {
    tools: Arc<BTreeMap<String, Tool>>,
    /// Those that the conversation has loaded or called, in that order.
    loaded: Vec<String>,
}

impl Behind {
    /// Takes the tools of servers out of `tools`, and puts the search in their place, if they are many.
    pub fn split(
        tools: &mut BTreeMap<String, Tool>,
        defined: &HashMap<String, Defined>,
        settings: &ToolSearchSettings,
        history: &[MessageWithParts],
    ) -> Self {
        let is_direct = |server: &String| settings.direct.contains(server);
        let servers = |name: &str, tool: &Tool| {
            defined.get(name).filter(|it| tool.is_servers() && !is_direct(&it.server))
        };
        let sizes = tools.iter().filter_map(|(name, tool)| Some(servers(name, tool)?.n_bytes as u64));
        if sizes.sum::<u64>() <= settings.above.unwrap_or(ABOVE).saturating_mul(TOKEN) {
            return Self::default();
        }
        let behind: BTreeMap<String, Tool> =
            tools.extract_if(.., |name, tool| servers(name, tool).is_some()).collect();
        let behind = Arc::new(behind);
        let catalogue = Catalogue::new(behind.clone(), defined);
        let loaded = loaded(&behind, history);
        tools.insert(NAME.to_owned(), catalogue.tool());
        Self { tools: behind, loaded }
    }

    /// Returns the tools that the model has been given, in the order in which it was.
    pub fn loaded(&self) -> impl Iterator<Item = (&String, &Tool)> {
        self.loaded.iter().filter_map(|name| self.tools.get_key_value(name))
    }

    /// Returns a tool by its name; a model may know it without having searched.
    pub fn get(&self, name: &str) -> Option<(&String, &Tool)> {
        let same = || self.tools.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        self.tools.get_key_value(name).or_else(same)
    }

    /// Returns every tool, for changes of its description.
    pub fn tools_mut(&mut self) -> impl Iterator<Item = &mut Tool> {
        Arc::make_mut(&mut self.tools).values_mut()
    }
}

/// Returns the tools that were loaded or called, in that order.
fn loaded(behind: &BTreeMap<String, Tool>, history: &[MessageWithParts]) -> Vec<String> {
    let mut loaded: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        if behind.contains_key(name) && !loaded.iter().any(|known| known == name) {
            loaded.push(name.to_owned());
        }
    };
    for part in history.iter().flat_map(|message| &message.parts) {
        let PartKind::Tool(tool) = &part.kind else { continue };
        match &tool.state {
            ToolState::Completed { metadata, .. } if tool.tool == NAME => {
                let names = metadata.get(LOADED).and_then(Value::as_array).into_iter().flatten();
                names.filter_map(Value::as_str).for_each(&mut add);
            }
            _ => add(&tool.tool),
        }
    }
    loaded
}

/// The tools that are searched.
struct Catalogue {
    tools: Arc<BTreeMap<String, Tool>>,
    /// The servers and their tools, as the description lists them: it does not change while tools are loaded, so that the
    /// provider's cache holds.
    servers: String,
}

/// The arguments of a search.
#[derive(Deserialize)]
struct Arguments {
    query: String,
    #[serde(default)]
    limit: Option<usize>,
}

impl Catalogue {
    fn new(tools: Arc<BTreeMap<String, Tool>>, defined: &HashMap<String, Defined>) -> Self {
        let mut servers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in tools.keys() {
            let server = defined.get(name).map_or("", |it| it.server.as_str());
            servers.entry(server).or_default().push(name);
        }
        let servers = listing(&servers);
        Self { tools, servers }
    }

    fn tool(self) -> Tool {
        let text = format!("{}\n\n{}", TEXT.trim_end(), self.servers);
        let properties = json!({
            "query": {
                "type": "string",
                "description": "Words for what the tool should do, or names of tools.",
            },
            "limit": {
                "type": "integer", "minimum": 1, "maximum": MOST,
                "description": format!("How many tools to load at most; {USUAL} if left out."),
            },
        });
        let schema = json!({
            "type": "object", "properties": properties, "required": ["query"], "additionalProperties": false,
        });
        Tool {
            name: NAME.into(),
            text: text.into(),
            schema: Schema::Shared(Arc::new(schema)),
            permission: None,
            look: Look::OTHER,
            offered: Offered::Always,
            run: Run::Shared(Arc::new(move |_, input| {
                let result = serde_json::from_value(input)
                    .map_err(|error| ToolError::Model(format!("The arguments do not fit: {error}")))
                    .map(|arguments| self.run(&arguments));
                Box::pin(std::future::ready(result))
            })),
        }
    }

    fn run(&self, arguments: &Arguments) -> ToolOutput {
        let limit = arguments.limit.unwrap_or(USUAL).clamp(1, MOST);
        let found = self.search(&arguments.query, limit);
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        let output = if found.is_empty() {
            format!("No tool fits \"{}\". Try other words.\n{}", arguments.query, self.servers)
        } else {
            let line = |(name, text): &(&str, &str)| {
                let first = text.lines().next().unwrap_or_default();
                format!("- {name}: {}", windlass_base::text::head(first, MAX_LINE))
            };
            let lines: Vec<String> = found.iter().map(line).collect();
            format!("These tools are loaded and can be called in your next step:\n{}", lines.join("\n"))
        };
        let metadata = Map::from_iter([(LOADED.to_owned(), json!(names))]);
        ToolOutput {
            title: format!("tools for \"{}\"", arguments.query),
            output,
            metadata,
            attachments: Vec::new(),
        }
    }

    /// Returns the names and descriptions that fit a query best. One that is named fits before all others.
    fn search(&self, query: &str, limit: usize) -> Vec<(&str, &str)> {
        let wanted = words(query);
        let named: Vec<&str> = query.split(|char: char| char.is_whitespace() || char == ',').collect();
        let score = |name: &str, text: &str| -> usize {
            let (in_name, in_text) = (words(name), words(text));
            let of_word = |word: &String| {
                let begins = |it: &String| {
                    it.len() > 3 && (it.starts_with(word.as_str()) || word.starts_with(it.as_str()))
                };
                match (in_name.contains(word), in_text.contains(word)) {
                    (true, is_described) => 8 + usize::from(is_described),
                    (false, true) => 4,
                    (false, false) if in_name.iter().any(begins) => 3,
                    (false, false) if in_text.iter().any(begins) => 1,
                    (false, false) => 0,
                }
            };
            let is_named = named.iter().any(|it| it.eq_ignore_ascii_case(name));
            wanted.iter().map(of_word).sum::<usize>() + if is_named { 1000 } else { 0 }
        };
        let scored =
            self.tools.iter().map(|(name, tool)| (score(name, &tool.text), name.as_str(), &*tool.text));
        let mut scored: Vec<(usize, &str, &str)> = scored.filter(|(score, ..)| *score > 0).collect();
        // Stable, so that those of one score stay in the order of their names.
        scored.sort_by_key(|(score, ..)| std::cmp::Reverse(*score));
        scored.into_iter().take(limit).map(|(_, name, text)| (name, text)).collect()
    }
}

/// Returns the words of a name or a text in small letters; those of a name may be joined by capital letters.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut was_small = false;
    for char in text.chars() {
        let is_joint = !char.is_alphanumeric() || was_small && char.is_uppercase();
        if is_joint && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if char.is_alphanumeric() {
            word.extend(char.to_lowercase());
        }
        was_small = char.is_lowercase();
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words.sort_unstable();
    words.dedup();
    words
}

/// Returns a line for each server, with the names of its tools as far as there is room for all of a server's.
fn listing(servers: &BTreeMap<&str, Vec<&str>>) -> String {
    let mut n_free = MAX_NAMES;
    let mut by_number: Vec<(&&str, &Vec<&str>)> = servers.iter().collect();
    by_number.sort_by_key(|(_, tools)| tools.len());
    let mut lines: BTreeMap<&str, String> = BTreeMap::new();
    for (server, tools) in by_number {
        let names = tools.join(", ");
        let line = match n_free.checked_sub(names.len()) {
            Some(rest) => {
                n_free = rest;
                Cow::Owned(names)
            }
            None => Cow::Borrowed("search for them"),
        };
        lines.insert(server, format!("- {server} ({} tools): {line}", tools.len()));
    }
    let lines: Vec<String> = lines.into_values().collect();
    format!("Servers:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests;
