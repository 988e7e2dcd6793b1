//! Gemini's agents, commands, rules and servers.

use std::path::Path;

use serde_json::{Map, Value};
use windlass_core::config::{project_files::ProjectFiles, rules::PERMISSIONS};

use super::{
    found, shown,
    taken::{Taken, Variables},
};

/// Gemini's names of tools, and Claude Code's, which windlass's lists know.
const TOOLS: [(&str, &str); 22] = [
    ("run_shell_command", "bash"),
    ("ShellTool", "bash"),
    ("write_file", "edit"),
    ("WriteFileTool", "edit"),
    ("replace", "edit"),
    ("EditTool", "edit"),
    ("read_file", "read"),
    ("ReadFileTool", "read"),
    ("read_many_files", "read"),
    ("ReadManyFilesTool", "read"),
    ("list_directory", "list"),
    ("LSTool", "list"),
    ("search_file_content", "grep"),
    ("grep_search", "grep"),
    ("web_fetch", "webfetch"),
    ("google_web_search", "websearch"),
    ("write_todos", "todowrite"),
    ("ask_user", "question"),
    ("GlobTool", "glob"),
    ("GrepTool", "grep"),
    ("WebFetchTool", "webfetch"),
    ("WebSearchTool", "websearch"),
];

/// Permissions of windlass's tools that Gemini has no tool for, or that are no tools.
const OTHERS: [&str; 5] = ["doom_loop", "external_directory", "network", "sampling", "sandbox"];

/// Settings about permissions that are named where they are left out.
const OTHER_KEYS: [&str; 5] = ["allowedTools", "hooks", "policyPaths", "sandbox", "security"];

/// Reads the files of a directory, or of the user's home.
pub fn read(files: &ProjectFiles, root: &Path, home: &Path) -> Taken {
    let mut taken = Taken::default();
    let place = root.join(".gemini");
    for (name, path) in found::named(&place.join("agents"), "md") {
        let stem = name.rsplit('/').next().unwrap_or(&name);
        if let Some(text) = taken.read(&path, found::text(files, &path)) {
            taken.agent(&shown(&place.join("agents")), stem, &text, change);
        }
    }
    for (name, path) in found::named(&place.join("commands"), "toml") {
        let Some(command) = taken.read(&path, found::toml(files, &path)) else { continue };
        let text = |key: &str| command.get(key).and_then(Value::as_str);
        let mut front = Map::new();
        front.extend(text("description").map(|text| ("description".to_owned(), text.into())));
        let said = text("prompt").unwrap_or_default();
        let has_braces =
            said.split("!{").skip(1).any(|it| it.split('}').next().is_some_and(|it| it.contains('{')));
        if has_braces || said.contains("!`") || said.contains('`') && said.contains("!{") {
            let what = format!("the command {name} of {}", shown(&place.join("commands")));
            taken.leave(&what, "its text would be a command here; write it by hand");
            continue;
        }
        let prompt = template(said);
        taken.command_of(&shown(&place.join("commands")), &name, front, &prompt);
    }
    if root.join("GEMINI.md").is_file() || place.join("GEMINI.md").is_file() {
        taken.leave(&format!("GEMINI.md of {}", shown(root)), "name it in `instructions` of opencode.json");
    }
    let file = place.join("settings.json");
    if let Some(settings) = taken.read(&file, found::json(files, &file)) {
        taken.servers(&shown(&file), settings.get("mcpServers"), Variables::Both);
        switch_servers_off(&settings, &mut taken);
        read_rules(&shown(&file), &settings, &mut taken);
    }
    // The user's own settings switch a project's servers off, too.
    let users = home.join(".gemini").join("settings.json");
    if let Ok(Some(settings)) = found::json(files, &users) {
        switch_servers_off(&settings, &mut taken);
    }
    for (_, path) in found::named(&place.join("policies"), "toml") {
        taken.lose(&shown(&path), "rules for tools; write those that deny or ask into `permission`");
    }
    taken
}

fn change(agent: &mut Map<String, Value>) {
    for (theirs, ours) in [("max_turns", "steps"), ("timeout_mins", ""), ("kind", ""), ("display_name", "")] {
        if let Some(value) = agent.shift_remove(theirs).filter(|_| !ours.is_empty()) {
            agent.insert(ours.to_owned(), value);
        }
    }
    for tool in agent.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        *tool = own(tool);
    }
}

/// Returns the elements of lists under an older and a newer key, of which either may be one element alone.
fn listed(lists: [Option<&Value>; 2]) -> Option<Vec<Value>> {
    let lists: Vec<&Value> = lists.into_iter().flatten().filter(|list| !list.is_null()).collect();
    let elements = lists.iter().flat_map(|list| match list {
        Value::Array(list) => list.clone(),
        one => vec![(*one).clone()],
    });
    (!lists.is_empty()).then(|| elements.collect())
}

fn switch_servers_off(settings: &Map<String, Value>, taken: &mut Taken) {
    let servers =
        |old: &str, new: &str| listed([settings.get(old), settings.get("mcp").and_then(|mcp| mcp.get(new))]);
    taken.switch_off(&servers("excludeMCPServers", "excluded").unwrap_or_default());
    if let Some(allowed) = servers("allowMCPServers", "allowed") {
        let names: Vec<Value> = taken.servers.keys().map(|name| name.as_str().into()).collect();
        taken.switch_off(names.iter().filter(|name| !allowed.contains(name)));
    }
}

fn read_rules(place: &str, settings: &Map<String, Value>, taken: &mut Taken) {
    let tools = |old: &str, new: &str| -> Option<Vec<Value>> {
        let words = listed([settings.get(old), settings.get("tools").and_then(|tools| tools.get(new))])?;
        Some(words.iter().map(own).collect())
    };
    taken.restrict(place, &tools("excludeTools", "exclude").unwrap_or_default().into(), true);
    let of_tools = settings.get("tools").and_then(Value::as_object).into_iter().flatten();
    let of_tools = of_tools.filter(|(key, _)| ["allowed", "sandbox"].contains(&key.as_str()));
    let others = settings.iter().filter(|(key, _)| OTHER_KEYS.contains(&key.as_str()));
    for (key, _) in others.chain(of_tools) {
        taken.leave(&format!("`{key}` of {place}"), "is left out");
    }
    taken.restrict(
        place,
        &tools("confirmationRequired", "confirmationRequired").unwrap_or_default().into(),
        false,
    );
    if settings.get("general").is_some_and(|it| it.get("defaultApprovalMode").is_some()) {
        taken.leave(&format!("`general.defaultApprovalMode` of {place}"), "is left out");
    }
    // The only tools that there are: all others are denied.
    if let Some(only) = tools("coreTools", "core") {
        if only.is_empty() {
            taken.restrict(place, &Value::from("*"), true);
        }
        let is_whole = |name: &str| only.iter().any(|tool| tool == name);
        let others = PERMISSIONS.iter().filter(|name| !OTHERS.contains(name) && !is_whole(name));
        taken.restrict(place, &others.map(|name| Value::from(*name)).collect(), true);
        for cut in only.iter().filter_map(Value::as_str).filter(|tool| tool.contains('(')) {
            taken.leave(&format!("{cut} of {place}"), "the whole tool is denied; allow a part of it by hand");
        }
    }
}

/// Returns a tool as windlass's lists name it; a command in parentheses is meant by its beginning.
fn own(tool: &Value) -> Value {
    let word = tool.as_str().unwrap_or_default().trim();
    let (name, inner) = word.split_once('(').map_or((word, None), |(name, inner)| (name, Some(inner)));
    let Some((_, own)) = TOOLS.iter().find(|(theirs, _)| *theirs == name) else { return tool.clone() };
    match inner.and_then(|inner| inner.strip_suffix(')')) {
        Some(command) if *own == "bash" => format!("bash({}:*)", command.trim_end_matches(":*")).into(),
        Some(inner) => format!("{own}({inner})").into(),
        None => (*own).into(),
    }
}

/// Returns the text of a command with arguments, commands and files as windlass writes them.
fn template(prompt: &str) -> String {
    let mut written = prompt.replace("{{args}}", "$ARGUMENTS");
    for (opening, before, behind) in [("!{", "!`", "`"), ("@{", "@", "")] {
        let mut changed = String::new();
        let mut rest = written.as_str();
        while let Some((head, tail)) = rest.split_once(opening) {
            let Some((inner, tail)) = tail.split_once('}') else { break };
            changed.push_str(&format!("{head}{before}{inner}{behind}"));
            rest = tail;
        }
        changed.push_str(rest);
        written = changed;
    }
    written
}
