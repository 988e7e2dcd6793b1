//! Codex's agents, prompts, rules and servers.

use std::path::Path;

use serde_json::{Map, Value, json};
use windlass_core::config::project_files::ProjectFiles;
use windlass_protocol::opencode::settings::SandboxMode;

use super::{
    UserFolders, found, shown,
    taken::{Taken, Variables, is_restricting},
};
use crate::cli::output::plain;

/// Settings about permissions that are named where they are left out.
const OTHERS: [&str; 4] = ["hooks", "profile", "profiles", "shell_environment_policy"];

/// Reads the files of a directory, or of the user's home.
pub fn read(files: &ProjectFiles, root: &Path, folders: &UserFolders) -> Taken {
    let mut taken = Taken::default();
    let place = if root == folders.home { folders.codex.clone() } else { root.join(".codex") };
    for (name, path) in found::named(&place.join("prompts"), "md") {
        match taken.read(&path, found::text(files, &path)) {
            Some(text) if text.contains("!`") => {
                taken.leave(&shown(&path), "a text in it would be a command here; write it by hand");
            }
            Some(text) => taken.command(&shown(&place.join("prompts")), &name, &text),
            None => {}
        }
    }
    for (name, path) in found::named(&place.join("agents"), "toml") {
        if let Some(agent) = taken.read(&path, found::toml(files, &path)) {
            subagent(&shown(&path), &name, &agent, &mut taken);
        }
    }
    for (_, path) in found::named(&place.join("rules"), "rules") {
        taken.lose(&shown(&path), "rules for commands; write those that forbid or ask into `permission`");
    }
    if place.join("AGENTS.md").is_file() {
        taken.leave(&shown(&place.join("AGENTS.md")), "name it in `instructions` of opencode.json");
    }
    let file = place.join("config.toml");
    if let Some(settings) = taken.read(&file, found::toml(files, &file)) {
        taken.servers(&shown(&file), settings.get("mcp_servers"), Variables::None);
        read_rules(&shown(&file), &settings, &mut taken);
    }
    taken
}

fn read_rules(place: &str, settings: &Map<String, Value>, taken: &mut Taken) {
    let said = |key: &str| settings.get(key).and_then(Value::as_str);
    taken.sandbox = match said("sandbox_mode") {
        Some("read-only") => Some(SandboxMode::ReadOnly),
        Some("workspace-write") => Some(SandboxMode::WorkspaceWrite),
        _ => None,
    };
    if taken.sandbox == Some(SandboxMode::ReadOnly) {
        taken.restrict(place, &json!("edit"), false);
    }
    if said("approval_policy") == Some("untrusted") {
        taken.restrict(place, &json!("bash"), false);
    }
    let tools = |key: &str| settings.get("tools").and_then(|tools| tools.get(key));
    if said("web_search") == Some("disabled") || tools("web_search") == Some(&json!(false)) {
        taken.restrict(place, &json!("websearch"), true);
    }
    for key in ["approval_policy", "default_permissions", "features", "permissions"] {
        let is_odd = |value: &Value| value.is_object() || key == "default_permissions";
        if settings.get(key).is_some_and(is_odd) {
            taken.lose(&format!("`{key}` of {place}"), "may restrict something; write it by hand");
        }
    }
    let is_taken = |key: &str| match key {
        "sandbox_mode" => taken.sandbox.is_some(),
        "approval_policy" => said(key).is_none_or(|policy| policy == "untrusted"),
        "web_search" => said(key) == Some("disabled"),
        // They are told already.
        "default_permissions" | "permissions" => true,
        "tools" => tools("web_search").is_some(),
        key => !OTHERS.contains(&key) && !is_restricting(key),
    };
    let left: Vec<&String> = settings.keys().filter(|key| !is_taken(key)).collect();
    for key in left {
        taken.leave(&format!("`{}` of {place}", plain(key)), "is left out");
    }
}

fn subagent(place: &str, stem: &str, agent: &Map<String, Value>, taken: &mut Taken) {
    let text = |key: &str| agent.get(key).and_then(Value::as_str);
    let mut front = agent.clone();
    front.shift_remove("developer_instructions");
    if text("sandbox_mode") == Some("read-only") {
        front.shift_remove("sandbox_mode");
        front.insert("disallowedTools".to_owned(), "edit, bash".into());
    }
    let prompt = text("developer_instructions").unwrap_or_default();
    taken.agent_of(place, stem, front, prompt);
}
