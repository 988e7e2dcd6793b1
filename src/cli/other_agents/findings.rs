//! Findings of `windlass doctor` on other agents' settings: found, used, or not used.

use std::path::Path;

use windlass_base::figures;
use windlass_core::config::Environment;
use windlass_engine::Finding;

use super::{
    Agent, Place,
    changes::{self, Changes, ChangesError, Names},
    found as files, shown,
};
use crate::cli::output::plain;

const TOPIC: &str = "other agents";
/// Names of one kind that are told.
const MAX_NAMED: usize = 4;
/// Restrictions of a place that are told.
const MAX_LOST: usize = 20;

/// Returns a finding for each kind of setting in the directory's project and in the user's home. Blocks.
pub fn findings(environment: &Environment, directory: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for agent in [Agent::Claude, Agent::Gemini, Agent::Codex] {
        for place in agent.places(environment, directory) {
            let changes = changes::find(environment, &place);
            of_place(agent, &place, changes, &mut findings);
        }
    }
    let elsewhere = (directory != environment.home).then_some(directory);
    for root in elsewhere.into_iter().chain([environment.home.as_path()]) {
        let skills = root.join(".claude").join("skills");
        let names = directories(&skills);
        if !names.is_empty() {
            let text = format!("{} of {}: used", counted(&names, "skill"), shown(&skills));
            findings.push(Finding::ok(TOPIC, text));
        }
    }
    findings
}

fn of_place(
    agent: Agent,
    place: &Place,
    changes: Result<Changes, ChangesError>,
    findings: &mut Vec<Finding>,
) {
    let whose = format!("of {} in {}", agent.name(), shown(&place.root));
    let way =
        format!("`windlass import --{}` shows them in windlass's words, and takes them over", agent.option());
    let changes = match changes {
        Ok(changes) => changes,
        Err(error) => {
            let text = format!("Settings {whose} cannot be taken over: {error}");
            findings.push(Finding::warning(TOPIC, text, "mend this file first"));
            return;
        }
    };
    let Changes { agents, commands, servers, rules, sandbox, .. } = &changes;
    for (Names { new, same }, noun) in [
        (agents, "agent"),
        (commands, "command"),
        (servers, "MCP server"),
        (rules, "rule"),
        (sandbox, "sandbox mode"),
    ] {
        if !new.is_empty() {
            let text = format!("{} {whose}: not used", counted(new, noun));
            findings.push(Finding::warning(TOPIC, text, way.clone()));
        }
        if !same.is_empty() {
            findings.push(Finding::ok(TOPIC, format!("{} {whose}: taken over", counted(same, noun))));
        }
    }
    for reason in place.taken.lost.iter().take(MAX_LOST) {
        let remedy = "windlass does not follow it; write it by hand: docs/permissions.md";
        findings.push(Finding::warning(TOPIC, reason.as_str(), remedy));
    }
    let left: Vec<&String> = place.taken.left.iter().chain(&changes.left).collect();
    for reason in left.iter().take(MAX_NAMED) {
        findings.push(Finding::ok(TOPIC, format!("not used: {reason}")));
    }
    if left.len() > MAX_NAMED {
        let more = left.len() - MAX_NAMED;
        let text =
            format!("{more} more {whose} are not used; `windlass import --{}` names them", agent.option());
        findings.push(Finding::ok(TOPIC, text));
    }
}

/// Returns the number of names, and the first of them.
fn counted(names: &[String], noun: &str) -> String {
    let first: Vec<String> = names.iter().take(MAX_NAMED).map(|name| plain(name)).collect();
    let more = if names.len() > MAX_NAMED { ", …" } else { "" };
    format!("{} ({}{more})", figures::counted(names.len(), noun), first.join(", "))
}

fn directories(directory: &Path) -> Vec<String> {
    let found = files::entries(directory).into_iter().filter(|path| path.is_dir());
    let names = found.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        write(".mcp.json", r#"{"mcpServers": {"files": {"command": "x"}}}"#);
        write(
            ".codex/config.toml",
            "approval_policy = \"untrusted\"\n[mcp_servers.docs]\ncommand = \"x\"\n[mcp_servers.docs.env]\nA = \"1\"\n",
        );
        write(".gemini/settings.json", "{ // a comment");
        let state =
            serde_json::json!({"projects": {project.display().to_string(): {"mcpServers": {"own": {}}}}});
        fs::write(home.path().join(".claude.json"), state.to_string()).expect("written");
        let environment = Environment { home: home.path().to_owned(), ..Environment::default() };
        let found = findings(&environment, &project);
        let texts: Vec<&str> = found.iter().map(|finding| finding.text.as_str()).collect();
        for part in [
            "1 skill (cook)",
            "1 agent (reviewer) of Claude Code in ",
            "1 command (git/fixit)",
            "1 rule (Bash(rm:*))",
            "that allow",
            "1 MCP server (files)",
            "1 MCP server (docs) of Codex",
            "the MCP server own",
            "1 rule (bash)",
            ".gemini/settings.json: it is no JSON object",
        ] {
            assert_eq!(texts.iter().filter(|text| text.contains(part)).count(), 1, "{part}: {texts:?}");
        }
        assert!(findings(&environment, &home.path().join("elsewhere")).is_empty());
    }
}
