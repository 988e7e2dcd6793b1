//! Files of other coding agents, as `windlass doctor` lists them: found, used, or not used. Nothing of them is taken.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use windlass_base::figures;
use windlass_core::config::Environment;
use windlass_engine::Finding;

use super::output::plain;

const TOPIC: &str = "other agents";
/// Bytes of a settings file that are read.
const MAX_SETTINGS: u64 = 16 << 20;
/// Files of one kind that are looked for.
const MAX_FILES: usize = 500;
/// Names of one kind that are told.
const MAX_NAMED: usize = 4;

/// Returns a finding for each kind of file in the directory and in the user's home.
pub fn findings(environment: &Environment, directory: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let home = environment.home.as_path();
    let elsewhere = (directory != home).then_some(directory);
    for root in elsewhere.into_iter().chain([home]) {
        claude(root, &mut findings);
        gemini(root, &mut findings);
        codex(root, &mut findings);
    }
    mcp_file(directory, &mut findings);
    claude_state(home, directory, &mut findings);
    findings
}

fn claude(root: &Path, findings: &mut Vec<Finding>) {
    let place = root.join(".claude");
    let shown = shown(&place);
    let skills = directories(&place.join("skills"));
    if !skills.is_empty() {
        findings.push(Finding::ok(TOPIC, format!("{} of {shown}/skills: used", counted(&skills, "skill"))));
    }
    for (folder, noun, ours) in [("agents", "agent", "agent"), ("commands", "command", "command")] {
        let files = markdown(&place.join(folder));
        if !files.is_empty() {
            let text = format!("{} of {shown}/{folder}: not used", counted(&files, noun));
            findings.push(Finding::warning(TOPIC, text, format!("copy those you want to .opencode/{ours}")));
        }
    }
    for name in ["settings.json", "settings.local.json"] {
        let Some(settings) = settings(&place.join(name), findings) else { continue };
        rules(&format!("{shown}/{name}"), &settings, findings);
        if settings.get("hooks").and_then(Value::as_object).is_some_and(|hooks| !hooks.is_empty()) {
            let text = format!("hooks of {shown}/{name}: not used");
            findings.push(Finding::warning(TOPIC, text, "a plugin can do their work: docs/plugins.md"));
        }
    }
}

/// Tells the rules of a settings file of Claude Code's.
fn rules(place: &str, settings: &Map<String, Value>, findings: &mut Vec<Finding>) {
    let listed = |kind: &str| -> Vec<String> {
        let list = settings.get("permissions").and_then(|it| it[kind].as_array()).into_iter().flatten();
        list.filter_map(|rule| rule.as_str().map(str::to_owned)).collect()
    };
    let (denied, asked, allowed) = (listed("deny"), listed("ask"), listed("allow"));
    if !denied.is_empty() || !asked.is_empty() {
        let restricting: Vec<String> = denied.iter().chain(&asked).cloned().collect();
        let text = format!("{} of {place} that deny or ask: not used", counted(&restricting, "rule"));
        findings.push(Finding::warning(TOPIC, text, "write them into `permission` of opencode.json"));
    }
    if !allowed.is_empty() {
        let text = format!("{} of {place} that allow: not used", counted(&allowed, "rule"));
        findings.push(Finding::ok(TOPIC, text));
    }
}

fn mcp_file(directory: &Path, findings: &mut Vec<Finding>) {
    let place = directory.join(".mcp.json");
    if let Some(settings) = settings(&place, findings) {
        servers(&shown(&place), settings.get("mcpServers"), findings);
    }
}

/// The servers that Claude Code's own file has for its user, and for this directory alone.
fn claude_state(home: &Path, directory: &Path, findings: &mut Vec<Finding>) {
    let place = home.join(".claude.json");
    let Some(settings) = settings(&place, findings) else { return };
    servers(&shown(&place), settings.get("mcpServers"), findings);
    let project = settings.get("projects").and_then(|it| it.get(directory.to_string_lossy().as_ref()));
    let here = project.and_then(|project| project.get("mcpServers"));
    servers(&format!("{} for this directory", shown(&place)), here, findings);
}

fn gemini(root: &Path, findings: &mut Vec<Finding>) {
    let place = root.join(".gemini");
    if let Some(settings) = settings(&place.join("settings.json"), findings) {
        servers(&format!("{}/settings.json", shown(&place)), settings.get("mcpServers"), findings);
    }
    if root.join("GEMINI.md").is_file() || place.join("GEMINI.md").is_file() {
        let text = format!("GEMINI.md of {}: not used", shown(root));
        findings.push(Finding::warning(TOPIC, text, "name it in `instructions` of opencode.json"));
    }
}

fn codex(root: &Path, findings: &mut Vec<Finding>) {
    let place = root.join(".codex");
    let prompts = markdown(&place.join("prompts"));
    if !prompts.is_empty() {
        let text = format!("{} of {}/prompts: not used", counted(&prompts, "prompt"), shown(&place));
        findings.push(Finding::warning(TOPIC, text, "copy those you want to .opencode/command"));
    }
    let Some(text) = read(&place.join("config.toml"), findings) else { return };
    let text = String::from_utf8_lossy(&text);
    // Keys behind the first table are of that table.
    let top = text.split("\n[").next().unwrap_or_default();
    let named = |line: &str| line.split('=').next().map(|key| key.trim().to_owned());
    let restricting = |key: &String| ["sandbox_mode", "approval_policy"].contains(&key.as_str());
    let rules: Vec<String> = top.lines().filter_map(named).filter(restricting).collect();
    if !rules.is_empty() {
        let text = format!("{} of {}/config.toml: not used", rules.join(" and "), shown(&place));
        let way = "write rules into `permission` of opencode.json; commands run in windlass's own sandbox";
        findings.push(Finding::warning(TOPIC, text, way));
    }
    let servers =
        text.lines().filter_map(|line| line.trim().strip_prefix("[mcp_servers.")?.strip_suffix(']'));
    // A table of a server, such as its variables, is not another one.
    let servers: Vec<String> = servers.filter(|name| !name.contains('.')).map(str::to_owned).collect();
    if !servers.is_empty() {
        let text = format!("{} of {}/config.toml: not used", counted(&servers, "MCP server"), shown(&place));
        findings.push(Finding::warning(TOPIC, text, "add those you want by `windlass mcp add`"));
    }
}

fn servers(place: &str, servers: Option<&Value>, findings: &mut Vec<Finding>) {
    let names: Vec<String> =
        servers.and_then(Value::as_object).into_iter().flatten().map(|it| it.0.clone()).collect();
    if !names.is_empty() {
        let text = format!("{} of {place}: not used", counted(&names, "MCP server"));
        findings.push(Finding::warning(TOPIC, text, "add those you want by `windlass mcp add`"));
    }
}

/// Returns the number of names, and the first of them.
fn counted(names: &[String], noun: &str) -> String {
    let first: Vec<String> = names.iter().take(MAX_NAMED).map(|name| plain(name)).collect();
    let more = if names.len() > MAX_NAMED { ", …" } else { "" };
    format!("{} ({}{more})", figures::counted(names.len(), noun), first.join(", "))
}

fn shown(path: &Path) -> String {
    plain(&path.display().to_string())
}

fn settings(path: &Path, findings: &mut Vec<Finding>) -> Option<Map<String, Value>> {
    let settings = serde_json::from_slice(&read(path, findings)?);
    if settings.is_err() {
        unreadable(path, "it is no JSON object", findings);
    }
    settings.ok()
}

/// Reads a file that may be absent.
fn read(path: &Path, findings: &mut Vec<Finding>) -> Option<Vec<u8>> {
    let length = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
    if length > MAX_SETTINGS {
        unreadable(path, "it is too large", findings);
        return None;
    }
    match fs::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            unreadable(path, &error.to_string(), findings);
            None
        }
    }
}

fn unreadable(path: &Path, reason: &str, findings: &mut Vec<Finding>) {
    let text = format!("{} cannot be read: {reason}", shown(path));
    findings.push(Finding::warning(TOPIC, text, "rules may be in it, which windlass does not follow"));
}

/// Returns the names of a directory's Markdown files, those of folders below it as `folder/name`.
fn markdown(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for path in entries(directory) {
        let name = |path: &Path| path.file_stem().map(|name| name.to_string_lossy().into_owned());
        if path.extension().is_some_and(|extension| extension == "md") {
            found.extend(name(&path));
        } else if path.is_dir() {
            let below = entries(&path).into_iter().filter(|it| it.extension().is_some_and(|it| it == "md"));
            let folder = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.extend(below.filter_map(|it| Some(format!("{folder}/{}", name(&it)?))));
        }
    }
    found.sort();
    found
}

fn directories(directory: &Path) -> Vec<String> {
    let found = entries(directory).into_iter().filter(|path| path.is_dir());
    let names = found.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).take(MAX_FILES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_with_their_use() {
        let home = tempfile::tempdir().expect("made");
        let project = home.path().join("project");
        let write = |path: &str, text: &str| {
            let path = project.join(path);
            fs::create_dir_all(path.parent().expect("there is one")).expect("made");
            fs::write(path, text).expect("written");
        };
        write(".claude/agents/reviewer.md", "");
        write(".claude/commands/git/fixit.md", "");
        write(".claude/skills/cook/SKILL.md", "");
        write(".claude/settings.json", r#"{"permissions": {"deny": ["Bash(rm:*)"], "allow": ["Read"]}}"#);
        write(".mcp.json", r#"{"mcpServers": {"files": {}}}"#);
        write(
            ".codex/config.toml",
            "approval_policy = \"untrusted\"\n[mcp_servers.docs]\ncommand = \"x\"\n[mcp_servers.docs.env]\nA = \"1\"\n",
        );
        write(".gemini/settings.json", "// a comment");
        let state =
            serde_json::json!({"projects": {project.display().to_string(): {"mcpServers": {"own": {}}}}});
        fs::write(home.path().join(".claude.json"), state.to_string()).expect("written");
        let environment = Environment { home: home.path().to_owned(), ..Environment::default() };
        let found = findings(&environment, &project);
        let texts: Vec<&str> = found.iter().map(|finding| finding.text.as_str()).collect();
        for part in [
            "1 skill (cook)",
            "1 agent (reviewer)",
            "1 command (git/fixit)",
            "1 rule (Bash(rm:*))",
            "1 rule (Read)",
            "1 MCP server (files)",
            "1 MCP server (docs)",
            "1 MCP server (own)",
            "approval_policy of ",
            ".gemini/settings.json cannot be read: it is no JSON object",
        ] {
            assert_eq!(texts.iter().filter(|text| text.contains(part)).count(), 1, "{part}: {texts:?}");
        }
        assert!(findings(&environment, &home.path().join("elsewhere")).is_empty());
    }
}
