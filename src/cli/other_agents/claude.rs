//! Claude Code's agents, commands, rules and servers.

use std::path::Path;

use serde_json::{Map, Value};
use windlass_core::config::project_files::ProjectFiles;

use super::{
    UserFolders, found, shown,
    taken::{Taken, Variables},
};

/// The reason why rules that allow are not taken.
const ALLOWED: &str =
    "windlass allows what no rule denies or asks about; `\"permission\": {\"*\": \"ask\"}` has it ask";

/// Reads the files of a directory, or of the user's home.
pub fn read(files: &ProjectFiles, root: &Path, folders: &UserFolders) -> Taken {
    let mut taken = Taken::default();
    let json = |path: &Path, taken: &mut Taken| taken.read(path, found::json(files, path));
    let is_home = root == folders.home;
    let place = if is_home { folders.claude.clone() } else { root.join(".claude") };
    for (name, path) in found::named(&place.join("agents"), "md") {
        let folder = shown(&place.join("agents"));
        let stem = name.rsplit('/').next().unwrap_or(&name);
        if let Some(text) = taken.read(&path, found::text(files, &path)) {
            taken.agent(&folder, stem, &text, change);
        }
    }
    for (name, path) in found::named(&place.join("commands"), "md") {
        if let Some(text) = taken.read(&path, found::text(files, &path)) {
            taken.command(&shown(&place.join("commands")), &name, &text);
        }
    }
    let servers_file = if is_home { folders.claude_state.clone() } else { root.join(".mcp.json") };
    let servers = json(&servers_file, &mut taken).unwrap_or_default();
    taken.servers(&shown(&servers_file), servers.get("mcpServers"), Variables::Braces);
    // A project's servers that its user has switched off.
    let state = (!is_home).then(|| json(&folders.claude_state, &mut taken)).flatten();
    let project =
        state.as_ref().and_then(|state| state.get("projects")?.get(root.to_string_lossy().as_ref()));
    let list = |key: &str| project.and_then(|it| it.get(key)?.as_array()).into_iter().flatten();
    taken.switch_off(list("disabledMcpjsonServers").chain(list("disabledMcpServers")));
    let private = project.and_then(|it| it.get("mcpServers")?.as_object()).into_iter().flatten();
    for (name, _) in private {
        let what = format!("the MCP server {name} of {} for this directory", shown(&folders.claude_state));
        taken.leave(&what, "is yours alone; `windlass mcp add` names it in the project's file");
    }
    if let Some(settings) = json(&folders.claude.join("settings.json"), &mut Taken::default()) {
        let off = settings.get("disabledMcpjsonServers").and_then(Value::as_array);
        taken.switch_off(off.into_iter().flatten());
    }
    for name in ["settings.json", "settings.local.json"] {
        let file = place.join(name);
        if let Some(settings) = json(&file, &mut taken) {
            read_rules(&shown(&file), &settings, &mut taken);
        }
    }
    taken
}

fn change(agent: &mut Map<String, Value>) {
    if let Some(steps) = agent.shift_remove("maxTurns") {
        agent.insert("steps".to_owned(), steps);
    }
    if agent.get("isolation").and_then(Value::as_str) == Some("worktree") {
        agent.shift_remove("isolation");
        agent.insert("worktree".to_owned(), true.into());
    }
    if agent.get("tools").and_then(Value::as_str) == Some("*") {
        agent.shift_remove("tools");
    }
}

fn read_rules(place: &str, settings: &Map<String, Value>, taken: &mut Taken) {
    let permissions = settings.get("permissions");
    if let Some(odd) = permissions.filter(|it| !it.is_object() && !it.is_null()) {
        taken.restrict(&format!("`permissions` of {place}"), &Value::Array(vec![odd.clone()]), true);
    }
    for (key, is_denied) in [("deny", true), ("ask", false)] {
        taken.restrict(place, permissions.and_then(|it| it.get(key)).unwrap_or(&Value::Null), is_denied);
    }
    let others = permissions.and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key);
    for key in others.filter(|key| !["deny", "ask", "allow"].contains(&key.as_str())) {
        taken.leave(&format!("`permissions.{key}` of {place}"), "is left out");
    }
    let allowed = permissions.and_then(|it| it.get("allow")?.as_array());
    if allowed.is_some_and(|rules| !rules.is_empty()) {
        taken.leave(&format!("rules of {place} that allow"), ALLOWED);
    }
    let off = settings.get("disabledMcpjsonServers").and_then(Value::as_array);
    taken.switch_off(off.into_iter().flatten());
    for (key, reason) in [
        ("hooks", "a plugin can do their work: docs/plugins.md"),
        ("env", "set them where windlass is started"),
        ("sandbox", "write it as `windlass.sandbox`: docs/sandbox.md"),
    ] {
        if settings.get(key).and_then(Value::as_object).is_some_and(|it| !it.is_empty()) {
            taken.leave(&format!("`{key}` of {place}"), reason);
        }
    }
}
