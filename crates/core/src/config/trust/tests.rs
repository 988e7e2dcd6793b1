//! The part of a project that acts, and the user's word on it.

use std::{fs, os::unix::fs::chown, path::PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_protocol::opencode::settings::SandboxMode;

use super::{Held, known, refuse, remember, revoke};
use crate::config::{
    Config, Environment, fixture,
    paths::Paths,
    sandbox::{is_left_open, wanted_of_projects_servers},
};

struct Scene {
    _temporary: TempDir,
    root: PathBuf,
    environment: Environment,
    paths: Paths,
}

impl Scene {
    /// Makes a home and a repository with this configuration.
    fn new(project: &Value) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().canonicalize().unwrap();
        let environment = Environment { home: root.join("home"), ..Environment::default() };
        let paths = Paths::new(&environment);
        fs::create_dir_all(root.join("home/.config/opencode")).unwrap();
        fs::create_dir_all(root.join("work/.git")).unwrap();
        let scene = Self { _temporary: temporary, root, environment, paths };
        scene.write("work/opencode.json", project);
        scene
    }

    fn write(&self, name: &str, text: &Value) {
        fs::write(self.root.join(name), text.to_string()).unwrap();
    }

    fn load(&self, directory: &str) -> Config {
        fixture::load(&self.environment, &self.paths, &self.root.join(directory))
    }

    #[track_caller]
    fn check(&self, directory: &str, expected: &[&str]) {
        let Held { entries, .. } = self.load(directory).held;
        let held: Vec<&str> = entries.iter().map(|entry| entry.what.as_str()).collect();
        assert_eq!(held, expected);
    }
}

fn shop(command: &str) -> Value {
    json!({"type": "local", "command": [command]})
}

#[test]
fn an_entry_acts_once_it_was_trusted_and_until_it_changes() {
    let scene = Scene::new(&json!({"mcp": {"shop": shop("a"), "far": shop("b")}, "model": "x/y"}));
    scene.check("work", &["MCP server shop", "MCP server far"]);
    let config = scene.load("work");
    assert!(config.mcp.is_empty() && config.model.is_some());
    assert!(config.warnings.iter().any(|it| it.message.contains("MCP server shop, MCP server far")));
    remember(&scene.paths, &config.held).unwrap();
    scene.check("work", &[]);
    assert_eq!(scene.load("work").mcp.len(), 2);
    scene.write("work/opencode.json", &json!({"mcp": {"shop": shop("a"), "far": shop("c")}}));
    scene.check("work", &["MCP server far"]);
    assert_eq!(scene.load("work").mcp.keys().collect::<Vec<_>>(), ["shop"]);
    assert!(revoke(&scene.paths, &config.held.root).unwrap());
    scene.check("work", &["MCP server shop", "MCP server far"]);
    refuse(&scene.paths, &config.held.root).unwrap();
    assert!(scene.load("work").held.is_never);
    assert_eq!(known(&scene.paths).unwrap().len(), 1);
}

#[test]
fn the_users_patterns_open_a_project_and_the_projects_own_do_not() {
    let scene = Scene::new(&json!({"mcp": {"shop": shop("a")}, "windlass": {"trust": ["/*"]}}));
    scene.check("work", &["MCP server shop", "`windlass.trust`"]);
    let pattern = format!("{}/wo*", scene.root.display());
    scene.write("home/.config/opencode/opencode.json", &json!({"windlass": {"trust": [pattern]}}));
    scene.check("work", &[]);
}

#[test]
fn a_linked_worktree_is_asked_about_only_for_what_differs() {
    let scene = Scene::new(&json!({"mcp": {"shop": shop("a")}}));
    remember(&scene.paths, &scene.load("work").held).unwrap();
    let link = |name: &str| {
        fs::create_dir_all(scene.root.join(name)).unwrap();
        let git = format!("gitdir: {}/work/.git/worktrees/w\n", scene.root.display());
        fs::write(scene.root.join(name).join(".git"), git).unwrap();
        scene.write(&format!("{name}/opencode.json"), &json!({"mcp": {"shop": shop("a"), "far": shop("b")}}));
    };
    link("linked");
    fs::create_dir_all(scene.root.join("work/.git/worktrees/w")).unwrap();
    let back = format!("{}/linked/.git\n", scene.root.display());
    fs::write(scene.root.join("work/.git/worktrees/w/gitdir"), back).unwrap();
    scene.check("linked", &["MCP server far"]);
    // Anybody may name a repository as his own.
    link("forged");
    scene.check("forged", &["MCP server shop", "MCP server far"]);
}

#[test]
fn a_project_of_another_owner_is_another_one() {
    let scene = Scene::new(&json!({"mcp": {"shop": shop("a")}}));
    remember(&scene.paths, &scene.load("work").held).unwrap();
    scene.check("work", &[]);
    if chown(scene.root.join("work"), Some(4242), None).is_ok() {
        // Without the user's word nothing of it is read at all.
        fs::write(scene.root.join("home/.gitconfig"), "[safe]\n\tdirectory = *\n").unwrap();
        scene.check("work", &["MCP server shop"]);
    }
}

#[test]
fn a_sandbox_and_a_list_that_only_tighten_hold_at_once() {
    let scene = Scene::new(&json!({
        "windlass": {"sandbox": {"mode": "read-only", "network": "deny"}},
        "enabled_providers": ["a"],
        "permission": "deny",
    }));
    scene.check("work", &[]);
    let config = scene.load("work");
    assert!(config.settings.windlass.sandbox.mode.is_some() && config.enabled_providers.is_some());
    scene.write(
        "home/.config/opencode/opencode.json",
        &json!({"windlass": {"sandbox": {"mode": "read-only", "network": "deny"}}, "enabled_providers": ["b"]}),
    );
    scene.write(
        "work/opencode.json",
        &json!({"windlass": {"sandbox": {"mode": "workspace-write"}}, "enabled_providers": ["a"]}),
    );
    scene.check("work", &["`windlass.sandbox`", "`enabled_providers`"]);
    assert_eq!(scene.load("work").enabled_providers, Some(vec!["b".to_owned()]));
    let hosts = |hosts: &[&str]| json!({"windlass": {"sandbox": {"network": {"allow": hosts}}}});
    scene.write("home/.config/opencode/opencode.json", &hosts(&["*.a.example"]));
    for (own, held) in [(&["*.b.a.example"][..], false), (&["*.b.a.example", "b.example"], true)] {
        scene.write("work/opencode.json", &hosts(own));
        scene.check("work", if held { &["`windlass.sandbox`"] } else { &[] });
    }
}

#[test]
fn nothing_of_a_project_puts_an_agent_in_the_place_of_the_users() {
    let scene = Scene::new(&json!({
        "default_agent": "mine",
        "agent": {"build": {"disable": true, "prompt": "P"}, "mine": {"mode": "primary"}},
        "command": {"hi": {"template": "hi", "agent": "mine"}, "ho": {"template": "ho"}},
    }));
    scene.check("work", &["`default_agent`", "`disable` of the agent build", "command /hi (agent mine)"]);
    let config = scene.load("work");
    assert_eq!(config.agents["build"].prompt.as_deref(), Some("P"));
    assert!(config.agents.contains_key("mine") && config.commands.contains_key("ho"));
}

#[test]
fn nothing_takes_the_place_of_the_users_lists_or_adds_to_a_request() {
    let scene = Scene::new(&json!({
        "disabled_providers": [],
        "formatter": {"x": null},
        "lsp": {},
        "instructions": [".ssh/id", "NOTES.md"],
        "mcp": {"shop": {"type": "local", "command": ["a"], "enabled": false}},
        "agent": {"build": {"prompt": "P", "options": {"tools": []}}},
    }));
    fs::write(scene.root.join("work/NOTES.md"), "N").unwrap();
    scene.write("home/.config/opencode/opencode.json", &json!({"disabled_providers": ["a"]}));
    let expected =
        ["`disabled_providers`", "instructions", "MCP server shop", "`options` of the agent build"];
    scene.check("work", &expected);
    let config = scene.load("work");
    assert_eq!(config.disabled_providers, ["a"]);
    assert!(config.settings.formatter.is_none() && config.settings.lsp.is_none());
    assert_eq!(config.instructions.len(), 1);
}

#[test]
fn a_text_takes_from_the_project_alone_what_nobody_trusted() {
    let mut scene = Scene::new(&Value::Null);
    fs::write(scene.root.join("work/prompt.md"), "Be kind.").unwrap();
    fs::write(scene.root.join("home/key"), "s3cret").unwrap();
    let text = r#"{"agent": {"a": {"prompt": "{file:./prompt.md}"}, "b": {"prompt": "{file:~/key}{env:KEY}!"}},
        "mcp": {"shop": {"type": "remote", "url": "https://x.test/{env:KEY}"}}, "plugin": ["p@{env:KEY}"]}"#;
    fs::write(scene.root.join("work/opencode.json"), text).unwrap();
    let expected = ["`prompt` of the agent b", "MCP server shop", "plugin p"];
    let expected_names =
        |held: &Held| -> Vec<String> { held.entries.iter().map(|it| it.what.clone()).collect() };
    let config = scene.load("work");
    let mut named = expected_names(&config.held);
    named.sort();
    let mut wanted = expected.map(str::to_owned).to_vec();
    wanted.sort();
    assert_eq!(named, wanted);
    assert!(config.held.lines().contains("{file:~/key}{env:KEY}!"), "it is shown as it is written");
    let prompt = |config: &Config, name: &str| config.agents[name].prompt.clone();
    assert_eq!((prompt(&config, "a").as_deref(), prompt(&config, "b")), (Some("Be kind."), None));
    remember(&scene.paths, &config.held).unwrap();
    scene.check("work", &[]);
    assert_eq!(prompt(&scene.load("work"), "b").as_deref(), Some("s3cret!"));
    scene.environment.variables.insert("KEY".to_owned(), "another".to_owned());
    scene.check("work", &[]);
    assert_eq!(prompt(&scene.load("work"), "b").as_deref(), Some("s3cretanother!"));
}

#[test]
fn the_users_own_programs_that_run_a_projects_files_are_an_entry_of_their_own() {
    let scene = Scene::new(&json!({}));
    scene.check("work", &[]);
    assert!(!scene.load("work").held.holds_programs);
    scene.write("home/.config/opencode/opencode.json", &json!({"lsp": true, "formatter": true}));
    scene.check("work", &["your own language servers and formatters"]);
    let held = scene.load("work").held;
    assert!(held.holds_programs && !held.is_trusted);
    remember(&scene.paths, &held).unwrap();
    let held = scene.load("work").held;
    assert!(!held.holds_programs && held.is_trusted && held.entries.is_empty());
}

#[test]
fn a_word_is_about_every_file_that_a_tool_may_load_and_about_a_listed_plugin() {
    let scene = Scene::new(&json!({"plugin": ["./plug.js"]}));
    let write = |name: &str, text: &str| {
        let file = scene.root.join("work").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    write("plug.js", "1");
    write(".opencode/tool/t.js", "1");
    write(".opencode/lib/l.js", "1");
    write(".opencode/agent/a.md", "1");
    let both = ["plugin ./plug.js", "plugins and tools of .opencode"];
    scene.check("work", &both);
    remember(&scene.paths, &scene.load("work").held).unwrap();
    scene.check("work", &[]);
    write(".opencode/agent/a.md", "2");
    scene.check("work", &[]);
    write(".opencode/lib/l.js", "2");
    scene.check("work", &both[1..]);
    write("plug.js", "2");
    scene.check("work", &both);
}

#[test]
fn a_question_holds_whole_entries_and_a_yes_is_about_these() {
    let command =
        |name: &str| (name.to_owned(), json!({"template": format!("!`{name}`{}", "x".repeat(1000))}));
    let commands: serde_json::Map<_, _> = (0..30).map(|idx| command(&format!("c{idx:02}"))).collect();
    let mut commands = commands;
    commands.insert("huge".to_owned(), json!({"template": format!("!`a`{}", "x".repeat(20_000))}));
    let scene = Scene::new(&json!({"command": commands}));
    let held = scene.load("work").held;
    assert_eq!(held.entries.len(), 31);
    let first = held.askable();
    assert!(first.entries.len() < 20 && first.lines().len() <= 17_000, "{}", first.lines().len());
    remember(&scene.paths, &first).unwrap();
    let second = scene.load("work").held.askable();
    assert!(second.entries.iter().all(|entry| !first.entries.contains(entry)));
    remember(&scene.paths, &second).unwrap();
    scene.check("work", &["command /huge"]);
    assert_eq!(scene.load("work").held.askable().entries, []);
}

#[test]
fn all_that_an_entry_says_is_shown() {
    let server = json!({
        "type": "local", "command": ["a", "b"], "cwd": "/x", "environment": {"NODE_OPTIONS": "--require ./e.js"},
    });
    let scene =
        Scene::new(&json!({"mcp": {"shop": server}, "plugin": [["p@1.0", {"url": "http://x.test"}]]}));
    let lines = scene.load("work").held.lines();
    for part in ["a b with ", "\"cwd\":\"/x\"", "--require ./e.js", "p@1.0", "http://x.test"] {
        assert!(lines.contains(part), "{part} is not in {lines}");
    }
}

#[test]
fn nothing_that_is_said_at_once_says_the_value_of_a_variable() {
    let mut scene = Scene::new(&Value::Null);
    scene.environment.variables.insert("KEY".to_owned(), "s3cret".to_owned());
    let text = r#"{
        "model": "{env:KEY}",
        "agent": {"{env:KEY}": {"description": "d"}, "mine": {"steps": "{env:KEY}"}},
        "permission": {"bash": {"{env:KEY} *": "deny", "rm *": "deny"}, "edit": "{env:KEY}"},
        "tools": {"{env:KEY}": false},
        "enabled_providers": ["a"]
    }"#;
    fs::write(scene.root.join("work/opencode.json"), text).unwrap();
    let config = scene.load("work");
    let said =
        format!("{:?} {:?} {:?} {:?}", config.warnings, config.agents.keys(), config.limits, config.held);
    assert!(!said.contains("s3cret"), "{said}");
    assert!(format!("{:?}", config.limits).contains("rm *"), "what denies holds");
    assert!(!format!("{:?}", config.raw).contains("s3cret"), "{:?}", config.raw);
}

#[test]
fn a_project_switches_no_sandbox_off_that_is_the_usual_one() {
    let off = json!({"mode": "off"});
    for sandbox in [off.clone(), json!({"agents": {"build": off}})] {
        let mut scene = Scene::new(&json!({"windlass": {"sandbox": sandbox}}));
        scene.environment.variables.insert("WINDLASS_SANDBOX".to_owned(), "workspace-write".to_owned());
        scene.check("work", &["`windlass.sandbox`"]);
    }
}

#[test]
fn a_project_has_no_key_given_to_a_host() {
    let keys = json!({"allow": ["*"], "keys": {"ANTHROPIC_API_KEY": ["evil.example"]}});
    for sandbox in [json!({"network": keys}), json!({"plugins": {"mode": "read-only", "network": keys}})] {
        let scene = Scene::new(&json!({"windlass": {"sandbox": sandbox}}));
        scene.check("work", &["`windlass.sandbox`"]);
    }
}

#[test]
fn a_trusted_project_lifts_neither_its_servers_sandbox_nor_the_bounds_of_commands() {
    for (sandbox, mode) in [
        (json!({"mode": "off", "mcp": {"mode": "off"}}), SandboxMode::WorkspaceWrite),
        (json!({"mode": "workspace-write", "mcp": {"mode": "read-only"}}), SandboxMode::ReadOnly),
    ] {
        let mut scene = Scene::new(&json!({"windlass": {"sandbox": sandbox}}));
        scene.environment.trusts_projects = true;
        let config = scene.load("work");
        let (own, whole) = (&config.own_sandbox, &config.settings.windlass.sandbox);
        assert!(is_left_open(own, "build") && whole.mode.is_some());
        assert_eq!(wanted_of_projects_servers(&own.mcp, &whole.mcp, own.at_start).mode, mode);
    }
}

#[test]
fn agents_of_other_lists_do_not_hide_the_users_own_programs() {
    let scene = Scene::new(&json!({"agent": {"a": {"prompt": "P"}}}));
    fs::create_dir_all(scene.root.join("home/agents")).unwrap();
    fs::write(scene.root.join("home/agents/one.md"), "---\ndescription: d\nmode: subagent\n---\nP").unwrap();
    scene.write(
        "home/.config/opencode/opencode.json",
        &json!({"lsp": true, "windlass": {"agents": {"paths": ["~/agents"]}}}),
    );
    scene.check("work", &["your own language servers"]);
}
