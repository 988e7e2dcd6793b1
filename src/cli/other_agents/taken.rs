//! Another agent's settings in windlass's words.

use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
};

use serde_json::{Map, Value, json};
use windlass_core::config::{frontmatter, limits::Tool, market::BUILT_IN};
use windlass_protocol::opencode::settings::SandboxMode;

use crate::cli::output::plain;

/// Keys by which another agent limits a server to some of its tools.
const ONLY: [&str; 2] = ["includeTools", "enabled_tools"];
/// Keys by which it keeps tools of a server away.
const WITHOUT: [&str; 2] = ["excludeTools", "disabled_tools"];
/// Subagents of Claude Code's, and ours of that kind.
const SUBAGENTS: [(&str, &str); 3] =
    [("general-purpose", "general"), ("Explore", "explore"), ("Plan", "plan")];
/// The key by which all tools of a server ask.
const ASKS: &str = "default_tools_approval_mode";
/// The other keys of a server that are read.
const SERVER: [&str; 16] = [
    ASKS,
    "args",
    "bearer_token_env_var",
    "command",
    "cwd",
    "disabled",
    "enabled",
    "env",
    "env_http_headers",
    "headers",
    "http_headers",
    "httpUrl",
    "timeout",
    "tool_timeout_sec",
    "type",
    "url",
];

/// A limit of rules about paths, which Claude Code holds commands such as `cat` to as well.
const PATHS: &str = "rules about paths: hold for the tools that read and write; commands are held by rules of `bash`, or by `windlass.sandbox`";

/// The settings of one directory, or of the user's home.
#[derive(Debug, Default, PartialEq)]
pub struct Taken {
    /// MCP servers, as `mcp` has them.
    pub servers: Map<String, Value>,
    /// Tools that are denied, as the list `deny` of `permission` names them.
    pub denied: Vec<String>,
    /// Tools that are asked about, likewise.
    pub asked: Vec<String>,
    /// The files that commands may write.
    pub sandbox: Option<SandboxMode>,
    /// Markdown files of agents, by their names.
    pub agents: BTreeMap<String, String>,
    /// Markdown files of commands, by their names.
    pub commands: BTreeMap<String, String>,
    /// Settings that are not taken over, each with the reason.
    pub left: Vec<String>,
    /// Files and restrictions that cannot be read, each with the reason.
    pub lost: Vec<String>,
}

impl Taken {
    pub fn leave(&mut self, what: &str, reason: &str) {
        self.left.push(format!("{}: {reason}", plain(what)));
    }

    pub fn lose(&mut self, what: &str, reason: &str) {
        self.lost.push(format!("{}: {reason}", plain(what)));
    }

    /// Adds the rules of a value that restrict: a list of them, or one. A rule that cannot be read restricts its whole tool,
    /// and where even that is unknown, everything asks.
    pub fn restrict(&mut self, place: &str, rules: &Value, is_denied: bool) {
        let rules = match rules {
            Value::Array(rules) => rules.as_slice(),
            Value::Null => &[],
            one => std::slice::from_ref(one),
        };
        let of = |list: &[String]| -> HashSet<String> { list.iter().cloned().collect() };
        let (mut denied, mut asked) = (of(&self.denied), of(&self.asked));
        for rule in rules {
            let said = rule.as_str().map(str::trim).unwrap_or_default();
            // Here a notebook is a file like any other.
            let said = if said == "NotebookEdit" { "Edit(*.ipynb)" } else { said };
            let whole = said.split('(').next().unwrap_or_default().trim();
            // windlass would put a variable or a file in place of a part of it.
            let words = match by_path(said) {
                _ if is_substituted(said) => None,
                Some(words) => {
                    if !self.left.iter().any(|left| left == PATHS) {
                        self.left.push(PATHS.to_owned());
                    }
                    words
                }
                None => Tool::parse(said).map(|tool| vec![own_subagents(said, &tool)]),
            };
            let words = words.unwrap_or_else(|| {
                let what =
                    format!("{} of {place}", rule.as_str().map_or_else(|| rule.to_string(), str::to_owned));
                if Tool::parse(whole).is_some() {
                    self.lose(&what, "cannot be read, so that the whole tool is meant");
                    vec![whole.to_owned()]
                } else {
                    self.lose(&what, "cannot be read, so that everything asks; write the rule by hand");
                    Vec::new()
                }
            });
            if words.is_empty() && asked.insert("*".to_owned()) {
                self.asked.push("*".to_owned());
            }
            let (list, known) =
                if is_denied { (&mut self.denied, &mut denied) } else { (&mut self.asked, &mut asked) };
            list.extend(words.into_iter().filter(|word| known.insert(word.clone())));
        }
    }

    /// Adds the servers of an object, with variables as `variables` writes them.
    pub fn servers(&mut self, place: &str, servers: Option<&Value>, variables: Variables) {
        for (name, said) in servers.and_then(Value::as_object).into_iter().flatten() {
            let what = format!("the MCP server {name} of {place}");
            let Some(said) = said.as_object() else {
                self.leave(&what, "is no object");
                continue;
            };
            if ONLY.iter().any(|key| said.contains_key(*key)) {
                self.leave(&what, "some of its tools only are allowed; add it and its rules by hand");
                continue;
            }
            if is_substituted(name) || is_substituted(&Value::Object(said.clone()).to_string()) {
                self.leave(
                    &what,
                    "has a text in it that windlass would put a variable or a file in place of",
                );
                continue;
            }
            let denied = WITHOUT.iter().filter_map(|key| said.get(*key)).map(|list| {
                let tools = list.as_array()?.iter().map(|tool| Some(tool_name(name, tool.as_str()?)));
                tools.collect::<Option<Vec<String>>>()
            });
            let Some(denied) = denied.collect::<Option<Vec<_>>>() else {
                self.leave(
                    &what,
                    "the tools that it keeps away are no list of names; add it and its rules by hand",
                );
                continue;
            };
            match server(said, variables) {
                Ok((server, is_cut)) => {
                    if is_cut {
                        self.leave(&what, "is taken without the defaults of its variables");
                    }
                    let is_read = |key: &str| SERVER.contains(&key) || WITHOUT.contains(&key);
                    for key in said.keys().filter(|key| !is_read(key.as_str())) {
                        self.leave(&what, &format!("`{}` is left out", plain(key)));
                    }
                    self.servers.insert(name.clone(), server);
                    self.restrict(place, &denied.into_iter().flatten().map(Value::from).collect(), true);
                    if said.get(ASKS).is_some_and(|mode| mode != "auto") {
                        self.restrict(place, &tool_name(name, "*").into(), false);
                    }
                }
                Err(reason) => self.leave(&what, &reason),
            }
        }
    }

    /// Switches servers off that are taken over.
    pub fn switch_off<'a>(&mut self, names: impl IntoIterator<Item = &'a Value>) {
        for name in names.into_iter().filter_map(Value::as_str) {
            if let Some(server) = self.servers.get_mut(name) {
                server["enabled"] = false.into();
            }
        }
    }

    /// Returns the content of a file; one that cannot be read is left.
    pub fn read<T>(&mut self, path: &Path, read: Result<Option<T>, String>) -> Option<T> {
        read.unwrap_or_else(|reason| {
            self.lose(&path.display().to_string(), &reason);
            None
        })
    }

    /// Adds a Markdown file of an agent, with its front matter as `changed` leaves it.
    pub fn agent(&mut self, place: &str, stem: &str, text: &str, changed: impl Fn(&mut Map<String, Value>)) {
        match frontmatter::split(text) {
            Ok(mut file) => {
                changed(&mut file.data);
                self.agent_of(place, stem, file.data, &file.body);
            }
            Err(error) => self.leave(&format!("the agent {stem} of {place}"), &error.message),
        }
    }

    /// Adds an agent by its front matter and its prompt. Its `name` goes before that of its file.
    pub fn agent_of(&mut self, place: &str, stem: &str, mut front: Map<String, Value>, prompt: &str) {
        let what = format!("the agent {stem} of {place}");
        let named = front.shift_remove("name");
        let name = named.as_ref().and_then(Value::as_str).unwrap_or(stem).trim();
        if !is_name(name) {
            self.leave(&what, &format!("`{}` cannot be the name of a file", plain(name)));
            return;
        }
        if BUILT_IN.contains(&name) {
            self.leave(&what, "windlass has one of this name");
            return;
        }
        self.without_short_model(&what, &mut front);
        // Keys that mean nothing there may loosen here, and one that restricts must not be lost.
        let mut odd: Vec<String> = Vec::new();
        for (key, value) in &front {
            match key.as_str() {
                "description" | "steps" | "model" | "color" | "worktree" => {}
                "tools" | "disallowedTools" if value.is_string() || value.is_array() => {}
                "permissionMode" if *value == "plan" => {}
                "permissionMode" => odd.push(key.clone()),
                key if is_restricting(key) => {
                    self.lose(&what, &format!("`{}` may restrict it; write it by hand", plain(key)));
                    return;
                }
                _ => odd.push(key.clone()),
            }
        }
        for key in odd {
            front.shift_remove(&key);
            self.leave(&what, &format!("`{}` is left out", plain(&key)));
        }
        front.shift_remove("color");
        front.insert("mode".to_owned(), "subagent".into());
        if self.agents.insert(name.to_owned(), markdown(&front, prompt)).is_some() {
            self.leave(&what, "another one has this name; the later is taken");
        }
    }

    /// Adds a Markdown file of a command.
    pub fn command(&mut self, place: &str, name: &str, text: &str) {
        match frontmatter::split(&without_hint(text)) {
            Ok(file) => self.command_of(place, name, file.data, &file.body),
            Err(error) => self.leave(&format!("the command {name} of {place}"), &error.message),
        }
    }

    /// Adds a command by its front matter and its template.
    pub fn command_of(&mut self, place: &str, name: &str, mut front: Map<String, Value>, template: &str) {
        let what = format!("the command {name} of {place}");
        if !name.split('/').all(is_name) {
            self.leave(&what, "this cannot be the name of a file");
            return;
        }
        self.without_short_model(&what, &mut front);
        let is_read = |key: &str| ["description", "agent", "model", "subtask"].contains(&key);
        for key in front.keys().filter(|key| !is_read(key)) {
            self.leave(&what, &format!("`{}` is left out", plain(key)));
        }
        front.retain(|key, _| is_read(key));
        self.commands.insert(name.to_owned(), markdown(&front, template));
    }

    /// Takes out a model that is no name of a provider's model.
    fn without_short_model(&mut self, what: &str, data: &mut Map<String, Value>) {
        let Some(model) = data.get("model").map(|it| it.as_str().unwrap_or_default().to_owned()) else {
            return;
        };
        if !model.contains('/') {
            data.shift_remove("model");
            if !matches!(model.as_str(), "" | "inherit") {
                let reason = format!("its model `{}` is left out; name one as PROVIDER/MODEL", plain(&model));
                self.leave(what, &reason);
            }
        }
    }
}

/// The way in which another agent writes variables into its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variables {
    /// `${NAME}`.
    Braces,
    /// `${NAME}` and `$NAME`.
    Both,
    /// It puts none in.
    None,
}

/// Returns a server as `mcp` has it, and true if the default of a variable is lost. An error says why it is not taken.
fn server(said: &Map<String, Value>, variables: Variables) -> Result<(Value, bool), String> {
    let mut is_cut = false;
    let mut text = |value: &Value| -> Result<String, String> {
        let text = value.as_str().ok_or("has a value that is no text")?;
        let (text, has_default) = variables.written(text);
        is_cut |= has_default;
        Ok(text)
    };
    let mut pairs = |key: &str| -> Result<Map<String, Value>, String> {
        let Some(pairs) = said.get(key).filter(|pairs| !pairs.is_null()) else { return Ok(Map::new()) };
        let pairs = pairs.as_object().ok_or_else(|| format!("its `{key}` is no object"))?;
        pairs.iter().map(|(name, value)| Ok((name.clone(), text(value)?.into()))).collect()
    };
    let environment = pairs("env")?;
    let mut headers = pairs("headers")?;
    headers.extend(pairs("http_headers")?);
    let from_variables = said.get("env_http_headers").and_then(Value::as_object).into_iter().flatten();
    for (name, variable) in from_variables {
        headers.insert(name.clone(), named(variable)?.into());
    }
    if let Some(variable) = said.get("bearer_token_env_var") {
        headers.insert("Authorization".to_owned(), format!("Bearer {}", named(variable)?).into());
    }
    let url = ["httpUrl", "url"].iter().find_map(|key| said.get(*key));
    let mut server = match (said.get("command"), url) {
        (Some(program), _) => {
            let none = Vec::new();
            let arguments = match said.get("args") {
                None | Some(Value::Null) => &none,
                Some(arguments) => arguments.as_array().ok_or("its `args` are no list")?,
            };
            let command: Vec<String> =
                std::iter::once(program).chain(arguments).map(&mut text).collect::<Result<_, _>>()?;
            let mut server = json!({"type": "local", "command": command, "environment": environment});
            if let Some(directory) = said.get("cwd") {
                server["cwd"] = text(directory)?.into();
            }
            server
        }
        (None, Some(url)) => json!({"type": "remote", "url": text(url)?, "headers": headers}),
        (None, None) => return Err("has neither a program nor an address".to_owned()),
    };
    let is_other =
        |key: &str, usual: bool| said.get(key).is_some_and(|it| !it.is_null() && *it != Value::Bool(usual));
    if is_other("disabled", false) || is_other("enabled", true) {
        server["enabled"] = false.into();
    }
    let milliseconds = said.get("timeout").and_then(Value::as_u64);
    let seconds = said.get("tool_timeout_sec").and_then(Value::as_f64).map(|it| (it * 1000.0) as u64);
    if let Some(timeout) = milliseconds.or(seconds) {
        server["timeout"] = timeout.into();
    }
    if let Some(fields) = server.as_object_mut() {
        fields.retain(|_, value| value != &json!({}));
    }
    Ok((server, is_cut))
}

impl Variables {
    /// Returns a text with variables as windlass writes them, and true if one had a default.
    fn written(self, text: &str) -> (String, bool) {
        let mut written = String::new();
        let mut has_default = false;
        let mut rest = text;
        while let Some((before, after)) = (self != Self::None).then(|| rest.split_once('$')).flatten() {
            written.push_str(before);
            let in_braces = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let length = after.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
            let (bare, behind) = after.split_at(length.unwrap_or(after.len()));
            let found = match in_braces {
                Some((inner, behind)) => {
                    let (name, default) = inner.split_once(":-").map_or((inner, None), |(a, b)| (a, Some(b)));
                    has_default |= default.is_some();
                    Some((name, behind))
                }
                None => Some((bare, behind)).filter(|_| self == Self::Both),
            };
            match found.filter(|(name, _)| is_variable(name)) {
                Some((name, behind)) => {
                    written.push_str(&format!("{{env:{name}}}"));
                    rest = behind;
                }
                None => {
                    written.push('$');
                    rest = after;
                }
            }
        }
        written.push_str(rest);
        (written, has_default)
    }
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}

/// Returns a variable as windlass writes it.
fn named(variable: &Value) -> Result<String, String> {
    let name = variable.as_str().filter(|name| is_variable(name)).ok_or("names a variable that is none")?;
    Ok(format!("{{env:{name}}}"))
}

/// Returns true if windlass puts a variable or a file in place of a part of a text.
fn is_substituted(text: &str) -> bool {
    ["{env:", "{file:"].iter().any(|it| text.contains(it))
}

/// Returns the name by which windlass knows a server's tool.
fn tool_name(server: &str, tool: &str) -> String {
    let plain = |name: &str| -> String {
        let is_usual = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
        name.chars().map(|it| if is_usual(it) { it } else { '_' }).collect()
    };
    let tool = if tool == "*" { tool.to_owned() } else { plain(tool) };
    format!("{}_{tool}", plain(server))
}

/// Returns the words for a rule about paths, whose pattern is one of `.gitignore`: the same path in any directory, and all
/// that is below it. That may restrict more than the rule does, and never less. `None` for another rule, and no words for a
/// pattern that cannot be read.
fn by_path(rule: &str) -> Option<Option<Vec<String>>> {
    let (tool, rest) = rule.split_once('(')?;
    let permission = Tool::parse(tool)?.permission;
    let pattern = rest.strip_suffix(')').map(str::trim);
    ["read", "edit", "list", "glob", "grep"]
        .contains(&permission.as_str())
        .then(|| pattern.and_then(|pattern| words_of(tool, pattern)))
}

fn words_of(tool: &str, pattern: &str) -> Option<Vec<String>> {
    if pattern.contains(['(', ')', '[', ']', '{', '}', '!', '\\']) {
        return None;
    }
    let mut inner = pattern;
    while let Some(rest) = ["./", "../", "~/", "**/", "/"].iter().find_map(|start| inner.strip_prefix(start))
    {
        inner = rest;
    }
    let inner = inner.trim_end_matches("/**").trim_end_matches('/');
    if inner.is_empty() || inner.chars().all(|it| it == '*') {
        return Some(vec![tool.to_owned()]);
    }
    // Between two directories it stands for none, too.
    let shorter = inner.replace("/**/", "/");
    let longer = inner.replace("**", "*");
    let mut words = Vec::new();
    for path in [longer, shorter.replace("**", "*")] {
        for word in [format!("{tool}({path})"), format!("{tool}({path}/*)")] {
            if !words.contains(&word) {
                words.push(word);
            }
        }
    }
    Some(words)
}

/// Returns a rule about subagents with our names for those that windlass has too.
fn own_subagents(rule: &str, tool: &Tool) -> String {
    let Some(names) = tool.specifier.as_ref().filter(|_| tool.permission == "task") else {
        return rule.to_owned();
    };
    let own = |name: &str| {
        SUBAGENTS.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, own)| own).to_owned()
    };
    format!("Task({})", names.split(',').map(|name| own(name.trim())).collect::<Vec<_>>().join(", "))
}

/// Returns true for a key that may restrict an agent in a way of its own.
pub fn is_restricting(key: &str) -> bool {
    let letters: String = key.chars().filter(|it| it.is_alphanumeric()).collect::<String>().to_lowercase();
    let words =
        ["tool", "permission", "allow", "deny", "readonly", "sandbox", "approval", "restrict", "disab"];
    words.iter().any(|word| letters.contains(word))
}

/// Returns a Markdown file without the hint at a command's arguments, `[file] [line]`, which is no YAML.
fn without_hint(text: &str) -> String {
    let Some((front, body)) = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---")) else {
        return text.to_owned();
    };
    let lines: Vec<&str> = front.lines().filter(|line| !line.starts_with("argument-hint:")).collect();
    format!("---\n{}\n---{body}", lines.join("\n"))
}

/// Returns true for a text that is the name of a file and of nothing else.
fn is_name(text: &str) -> bool {
    let is_usual = |it: char| it.is_alphanumeric() || "_-. ".contains(it);
    !text.is_empty() && !text.starts_with(['.', ' ']) && text.chars().all(is_usual) && text.len() <= 100
}

/// Returns a Markdown file. JSON is YAML, and needs no quoting of its own.
fn markdown(data: &Map<String, Value>, body: &str) -> String {
    let body = body.trim();
    if data.is_empty() {
        return format!("{body}\n");
    }
    let plain = |key: &str| key.chars().all(|it| it.is_ascii_alphanumeric() || "_-".contains(it));
    let named = |key: &str| if plain(key) { key.to_owned() } else { Value::from(key).to_string() };
    let lines: String = data.iter().map(|(key, value)| format!("{}: {value}\n", named(key))).collect();
    format!("---\n{lines}---\n\n{body}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_paths_restricts_in_every_directory_and_below() {
        for (rule, words) in [
            ("Read(./secrets)", Some(vec!["Read(secrets)", "Read(secrets/*)"])),
            ("Read(~/.ssh/**)", Some(vec!["Read(.ssh)", "Read(.ssh/*)"])),
            (
                "Edit(//etc/**/x)",
                Some(vec!["Edit(etc/*/x)", "Edit(etc/*/x/*)", "Edit(etc/x)", "Edit(etc/x/*)"]),
            ),
            ("Edit(**/yarn.lock)", Some(vec!["Edit(yarn.lock)", "Edit(yarn.lock/*)"])),
            ("Read(**)", Some(vec!["Read"])),
            ("Read([ab].txt)", None),
        ] {
            let own = by_path(rule).expect("it is about paths");
            let own = own.as_ref().map(|own| own.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(own, words, "{rule}");
        }
        assert_eq!(by_path("Bash(rm:*)"), None);
    }

    #[test]
    fn a_restriction_that_cannot_be_read_restricts_more_and_is_told() {
        let restricted = |rules: Value| {
            let mut taken = Taken::default();
            taken.restrict("the file", &rules, true);
            (taken.denied, taken.asked, taken.lost.len())
        };
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(restricted(json!("Bash")), (own(&["Bash"]), vec![], 0));
        assert_eq!(restricted(json!(["Bash (rm:*)", "Read([ab])"])), (own(&["Bash", "Read"]), vec![], 2));
        assert_eq!(restricted(json!([{"Bash": true}])), (vec![], own(&["*"]), 1));
        assert_eq!(restricted(json!(["Bash({env:X})"])), (own(&["Bash"]), vec![], 1));
        let subagents = own(&["Task(general)", "Task(explore)", "Task(mine)"]);
        let said = json!(["Task(general-purpose)", "Agent(Explore)", "Task(mine)"]);
        assert_eq!(restricted(said), (subagents, vec![], 0));
    }

    #[test]
    fn an_agent_that_is_restricted_in_another_way_is_left_out() {
        for front in ["allowed-tools: Read", "permission: {edit: deny}", "tools: {bash: false}"] {
            let mut taken = Taken::default();
            taken.agent("agents", "a", &format!("---\n{front}\n---\nx"), |_| {});
            assert!(taken.agents.is_empty() && taken.lost.len() == 1, "{front}: {taken:?}");
        }
    }
}
