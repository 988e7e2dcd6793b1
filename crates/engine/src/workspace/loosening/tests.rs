//! Changes of a workspace's files that loosen something.

use windlass_core::config::{Environment, paths::Paths};

use super::loosened;
use crate::workspace::loaded::Loaded;

/// Returns the configuration of a project that says this, with the configuration's `{…}` in `opencode.json`.
fn loaded(directory: &std::path::Path, text: &str) -> Loaded {
    std::fs::write(directory.join("opencode.json"), text).expect("written");
    let environment =
        Environment { trusts_projects: true, home: directory.join("home"), variables: Default::default() };
    let paths = Paths::new(&environment);
    Loaded::read(&environment, &paths, (&[], None), directory, false, None)
}

fn check(old: &str, new: &str, expected: &[&str]) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (before, after) = (loaded(directory.path(), old), loaded(directory.path(), new));
    let found: Vec<String> = loosened(&before, &after).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected, "from {old} to {new}");
}

#[test]
fn rules_are_named_with_the_agents_they_loosen() {
    check(
        r#"{"permission": {"bash": "ask"}}"#,
        r#"{"permission": {"bash": "allow"}}"#,
        &["rule `bash` for `*`: ask → allow (agent build, explore, general, plan)"],
    );
    check(r#"{"permission": {"bash": "allow"}}"#, r#"{"permission": {"bash": "ask"}}"#, &[]);
    // General rules do not lift the limits of `plan`.
    check("{}", r#"{"permission": {"edit": "allow"}}"#, &[]);
}

#[test]
fn an_agent_is_measured_by_what_it_is_without_rules_of_its_own() {
    check("{}", r#"{"agent": {"poet": {"mode": "primary", "prompt": "Rhyme."}}}"#, &[]);
    check("{}", r#"{"agent": {"poet": {"permission": {"bash": "deny"}}}}"#, &[]);
    check(
        r#"{"permission": {"bash": "ask"}}"#,
        r#"{"permission": {"bash": "ask"}, "agent": {"poet": {"permission": {"bash": "allow"}}}}"#,
        &["rule `bash` for `*`: ask → allow (agent poet)"],
    );
    let poet = r#"{"agent": {"poet": {"mode": "primary", "permission": {"bash": "deny"}}}}"#;
    check(poet, "{}", &["rule `bash` for `*`: deny → allow (agent build for poet)"]);
}

#[test]
fn programs_are_named_when_they_are_new_or_run_something_else() {
    let server =
        |command: &str| format!(r#"{{"mcp": {{"m": {{"type": "local", "command": ["{command}"]}}}}}}"#);
    check("{}", &server("one"), &["MCP server m: one"]);
    check(&server("one"), &server("two"), &["MCP server m: two"]);
    check(&server("one"), "{}", &[]);
    check(&server("one"), &server("one").replace("\"type\"", "\"timeout\": 5, \"type\""), &[]);
    check(
        r#"{"mcp": {"m": {"type": "remote", "url": "https://a.example"}}}"#,
        r#"{"mcp": {"m": {"type": "remote", "url": "https://b.example"}}}"#,
        &["MCP server m: https://b.example"],
    );
    check(
        "{}",
        r#"{"lsp": {"toy": {"command": ["toy-lsp"], "extensions": [".toy"]}, "rust": {"disabled": true}}}"#,
        &["known language servers: those whose programs are on PATH", "language server toy: toy-lsp"],
    );
    check("{}", r#"{"shell": "/opt/sh"}"#, &["shell: /opt/sh"]);
    let command = |text: &str| format!(r#"{{"command": {{"c": {{"template": "{text}"}}}}}}"#);
    check("{}", &command("Say hello."), &[]);
    check("{}", &command("Look at !`git status`."), &["shell lines of the command /c: git status"]);
    check(&command("Look at !`git status`."), &command("Say !`git status`."), &[]);
}

#[test]
fn a_sandbox_may_become_narrower_and_not_wider() {
    let sandbox = |text: &str| format!(r#"{{"windlass": {{"sandbox": {{{text}}}}}}}"#);
    check("{}", &sandbox(r#""mode": "workspace-write""#), &[]);
    let agents = &sandbox(r#""agents": {"build": {"mode": "read-only", "network": "deny"}}"#);
    check(
        agents,
        &sandbox(r#""agents": {"build": {"mode": "workspace-write", "writable": ["/srv"]}}"#),
        &[
            "sandbox of agent build: mode read-only → workspace-write",
            "sandbox of agent build: more of the network",
            "sandbox of agent build: writes /srv",
        ],
    );
    check("{}", agents, &[]);
    check(
        &sandbox(
            r#""mcp": {"mode": "read-only"}, "lsp": {"network": "deny"}, "plugins": {"mode": "read-only"}"#,
        ),
        &sandbox(r#""mcp": {"mode": "workspace-write"}"#),
        &[
            "sandbox of MCP servers: mode read-only → workspace-write",
            "sandbox of language servers: mode workspace-write → off",
            "sandbox of language servers: more of the network",
            "sandbox of plugins: mode read-only → off",
        ],
    );
    let network = |value: &str| sandbox(&format!(r#""mcp": {{"network": {value}}}"#));
    let named = network(r#"{"allow": ["*.a.example"], "deny": ["x.a.example"]}"#);
    check("{}", &named, &[]);
    check(&network(r#""loopback""#), &named, &["sandbox of MCP servers: more of the network"]);
    check(
        &named,
        &network(r#"{"allow": ["*.b.a.example", "b.example"]}"#),
        &[
            "sandbox of MCP servers: reaches b.example:80,443",
            "sandbox of MCP servers: no longer denies x.a.example",
        ],
    );
}

#[test]
fn a_key_in_use_goes_nowhere_else() {
    let provider = |name: &str, key: &str, host: &str| {
        format!(
            r#"{{"provider": {{"{name}": {{"npm": "@ai-sdk/openai-compatible", "models": {{"m": {{}}}},
            "options": {{"apiKey": "{key}", "baseURL": "https://{host}/v1"}}}}}}}}"#
        )
    };
    let old = provider("p", "secret-1", "a.example");
    check(
        &old,
        &provider("p", "secret-1", "b.example"),
        &["provider p: its key would be sent to https://b.example/v1"],
    );
    check(
        &old,
        &provider("q", "secret-1", "b.example"),
        &["provider q: its key would be sent to https://b.example/v1"],
    );
    check(&old, &provider("p", "secret-2", "a.example"), &[]);
    check(&old, &provider("q", "secret-2", "b.example"), &[]);
}

#[test]
fn a_question_shows_no_secret_and_hides_no_character() {
    check(
        "{}",
        r#"{"mcp": {"m": {"type": "local", "command": ["serve", "--token", "abcdefgh12345678", "a\nb\u202ec"]}}}"#,
        &["MCP server m: serve --token ******** a\\u{a}b\\u{202e}c"],
    );
}
