//! Decoding of merged configurations, and warnings about values without a meaning.

use std::{path::Path, sync::Arc};

use serde_json::{Map, Value, json};
use windlass_protocol::opencode::permission::Action;

use crate::config::{
    Config, Environment, Hook,
    layer::Layer,
    layers::load,
    paths::Paths,
    policy::{Origin, Policy},
    sources::leaves,
};

fn config(text: &str) -> Config {
    let variables = [("OPENCODE_CONFIG_CONTENT".to_owned(), text.to_owned())].into();
    let environment = Environment { trusts_projects: true, variables, home: "/nowhere".into() };
    load(&environment, &Paths::new(&environment), Path::new("/nowhere/project"), &[], None).0
}

fn warnings(config: &Config) -> Vec<String> {
    let text = |warning: &crate::config::Warning| {
        let text = warning.to_string();
        text.strip_prefix("OPENCODE_CONFIG_CONTENT:").unwrap_or(&text).to_owned()
    };
    config.warnings.iter().map(text).collect()
}

#[test]
fn a_wrong_field_of_a_server_is_named_and_the_rest_holds() {
    let config = config(
        r#"{"mcp": {
"a": {"type": "local", "command": "npx foo"},
"b": {"type": "local", "command": ["x"], "timeout": "5", "enabled": false},
"c": {"type": "remote"},
"d": {"type": "lokal", "command": ["x"]},
"e": {"enabled": "no", "timeout": 5},
"f": {"type": "remote", "url": "https://f.example", "headers": {"A": 1}}
}}"#,
    );
    assert_eq!(
        warnings(&config),
        [
            "6:7: mcp.e.enabled: \"no\" is read as `enabled: false`",
            "2:24: mcp.a.command: \"npx foo\" cannot be used; expected a list; the server is left out",
            "3:42: mcp.b.timeout: \"5\" cannot be used; expected a whole number",
            "4:1: mcp.c: has no `url`; the server is left out",
            "5:7: mcp.d.type: \"lokal\" is not a kind of server; write \"local\" or \"remote\"; the server is left out",
            "7:65: mcp.f.headers.A: ******** cannot be used; expected a string; all of `headers` is ignored",
        ]
    );
    assert_eq!(config.mcp.keys().collect::<Vec<_>>(), ["b", "f"]);
}

#[test]
fn keys_in_other_capitals_and_misspelt_ones_that_restrict_are_read() {
    let config = config(
        r#"{"Agent": {"build": {"Disable": true}}, "agent": {"plan": {"disable": true}},
"MCP": {"shop": {"type": "local", "command": ["x"], "Enabled": false}},
"Windlass": {"sandbx": {"mode": "read-only"}}, "disabled_provider": ["a"]}"#,
    );
    assert_eq!(
        warnings(&config),
        [
            "1:2: Agent: is read as `agent`",
            "2:1: MCP: is read as `mcp`",
            "3:1: Windlass: is read as `windlass`",
            "3:48: disabled_provider: is read as `disabled_providers`",
            "1:22: agent.build.Disable: is read as `disable`",
            "2:53: mcp.shop.Enabled: is read as `enabled`",
            "3:14: windlass.sandbx: is read as `sandbox`",
        ]
    );
    let sandbox = serde_json::to_value(&config.settings.windlass.sandbox).unwrap();
    assert_eq!(sandbox["mode"], "read-only");
}

#[test]
fn a_limit_that_is_no_number_is_told() {
    let config = config(
        r#"{"provider": {"x": {"options": {"timeout": "5", "enterpriseUrl": "https://e"}},
"y": {"options": {"timeout": false}}, "z": {"options": {"timeout": 5}}}}"#,
    );
    assert_eq!(
        warnings(&config),
        ["1:33: provider.x.options.timeout: \"5\" is ignored; expected milliseconds or false"]
    );
    let timeouts: Vec<Option<String>> =
        config.providers.values().map(|it| it.options.timeout.as_ref().map(ToString::to_string)).collect();
    assert_eq!(timeouts, [None, Some("false".to_owned()), Some("5".to_owned())]);
    let notes: Vec<&str> = config.notes.iter().map(|note| note.message.as_str()).collect();
    assert_eq!(notes, ["provider.x.options.enterpriseUrl: is understood, but nothing acts on it yet"]);
}

#[test]
fn a_name_of_dots_alone_is_quoted_in_a_warning() {
    let config = config(r#"{"provider": {"..": {"options": {"timeout": "5"}}}}"#);
    assert_eq!(
        warnings(&config),
        ["1:34: provider.`..`.options.timeout: \"5\" is ignored; expected milliseconds or false"]
    );
}

/// Resolves a home with these files under `<home>`, with an administrator's file `managed.json`.
fn resolved(files: &[(&str, Value)], hooks: &[Hook]) -> (Config, Vec<Layer>) {
    let temporary = tempfile::tempdir().unwrap();
    let home = temporary.path();
    std::fs::create_dir_all(home.join("managed")).unwrap();
    for (name, value) in files {
        std::fs::write(home.join(name), value.to_string()).unwrap();
    }
    let environment = Environment { trusts_projects: true, home: home.to_owned(), ..Environment::default() };
    let paths = Paths { managed: vec![home.join("managed")], ..Paths::new(&environment) };
    load(&environment, &paths, home, hooks, None)
}

fn rules(config: &Config) -> Vec<String> {
    let rules = config.permission.iter();
    rules.map(|rule| format!("{} {} {:?}", rule.permission, rule.pattern, rule.action)).collect()
}

#[test]
fn tools_are_rules_below_every_permission() {
    let value = json!({"permission": {"bash": "ask"}, "tools": {"write": false, "bash": true, "edit": true}});
    let (config, _) = resolved(&[("opencode.json", value)], &[]);
    // Each under its permission's name, `write` and `edit` under one.
    assert_eq!(rules(&config), ["edit * Deny", "bash * Allow", "edit * Allow", "bash * Ask"]);
    let (config, _) = resolved(
        &[
            ("opencode.json", json!({"permission": "allow"})),
            ("opencode.jsonc", json!({"tools": {"bash": false}})),
        ],
        &[],
    );
    assert_eq!(rules(&config), ["bash * Deny", "* * Allow"]);
}

#[test]
fn an_administrators_file_that_cannot_be_read_lets_everything_ask() {
    let own = json!({"permission": {"bash": "allow", "edit": "deny"}});
    let rules = json!({"permission": {"*": "allow", "bash": {"rm *": "deny"}}});
    for more in [None, Some(("managed/opencode.json", rules))] {
        let files = [("opencode.json", own.clone()), ("managed/opencode.jsonc", json!("oops"))];
        let is_alone = more.is_none();
        let files: Vec<(&str, Value)> = files.into_iter().chain(more).collect();
        let (config, _) = resolved(&files, &[]);
        let [warning] = config.warnings.as_slice() else { panic!("one warning: {:?}", config.warnings) };
        assert!(
            warning
                .message
                .ends_with("is not a JSON object; everything that is allowed asks until it is mended"),
            "{warning}"
        );
        let policy = Policy::new(config.permission.clone());
        let policy = policy.with(Origin::Administrator, &config.managed.general);
        let action = |permission: &str, pattern: &str| policy.evaluate(permission, pattern);
        let rm = if is_alone { Action::Ask } else { Action::Deny };
        assert_eq!(
            [action("bash", "ls"), action("bash", "rm x"), action("edit", "a"), action("read", "a")],
            [Action::Ask, rm, Action::Deny, Action::Ask]
        );
    }
}

#[test]
fn an_administrators_link_to_nowhere_lets_everything_ask() {
    let temporary = tempfile::tempdir().unwrap();
    let (home, managed) = (temporary.path().join("home"), temporary.path().join("managed"));
    std::fs::create_dir(&managed).unwrap();
    std::os::unix::fs::symlink("nowhere", managed.join("opencode.json")).unwrap();
    let environment = Environment { trusts_projects: true, home: home.clone(), ..Environment::default() };
    let paths = Paths { managed: vec![managed], ..Paths::new(&environment) };
    let (config, _) = load(&environment, &paths, &home, &[], None);
    assert_eq!(Policy::new(config.permission).evaluate("bash", "ls"), Action::Ask);
    let [warning] = config.warnings.as_slice() else { panic!("one warning: {:?}", config.warnings) };
    assert!(warning.message.ends_with("everything that is allowed asks until it is mended"), "{warning}");
}

#[test]
fn an_administrators_rules_hold_where_the_user_names_their_directory() {
    let temporary = tempfile::tempdir().unwrap();
    let (home, managed) = (temporary.path().join("home"), temporary.path().join("managed"));
    std::fs::create_dir_all(managed.join("agent")).unwrap();
    std::fs::create_dir(&home).unwrap();
    std::fs::write(managed.join("opencode.json"), r#"{"permission": {"bash": "deny"}}"#).unwrap();
    std::fs::write(managed.join("agent/build.md"), "---\npermission:\n  edit: deny\n---\n").unwrap();
    let variables = [("OPENCODE_CONFIG_DIR", &managed), ("OPENCODE_CONFIG", &managed.join("opencode.json"))];
    let variables =
        variables.map(|(name, path)| (name.to_owned(), path.display().to_string())).into_iter().collect();
    let environment = Environment { trusts_projects: true, home: home.clone(), variables };
    let paths = Paths { managed: vec![managed], ..Paths::new(&environment) };
    let (config, _) = load(&environment, &paths, &home, &[], None);
    let policy = Policy::default().with(Origin::Administrator, &config.managed.rules("build"));
    let action = |permission: &str| policy.evaluate(permission, "x");
    assert_eq!([action("bash"), action("edit"), action("read")], [Action::Deny, Action::Deny, Action::Allow]);
}

#[test]
fn a_plugins_hook_stands_above_everything_but_the_administrator() {
    let own = json!({"model": "a/own", "share": "manual", "username": "own", "instructions": ["a.md"]});
    let managed = json!({"share": "disabled", "permission": {"bash": "deny"}});
    let change = |config: &mut Map<String, Value>| {
        assert_eq!(config["model"], "a/own");
        // The administrator's part is not even shown.
        assert_eq!((config.get("permission"), &config["share"]), (None, &json!("manual")));
        config.insert("model".to_owned(), json!("a/hooked"));
        config.insert("share".to_owned(), json!("auto"));
        config.insert("permission".to_owned(), json!({"bash": "allow", "edit": "allow"}));
        config.insert(
            "agent".to_owned(),
            json!({"planner": {"mode": "primary", "prompt": "Plan.", "steps": 0}}),
        );
        config["instructions"].as_array_mut().unwrap().push(json!("b.md"));
        // A key that it removes stays.
        config.shift_remove("username");
        Ok(())
    };
    let hook = Hook { name: "planner@1.0".to_owned(), change: Arc::new(change), is_held: false };
    let files = [("opencode.json", own), ("managed/opencode.json", managed)];
    let (config, layers) = resolved(&files, &[hook]);
    assert_eq!(config.model.clone().map(|model| model.to_string()).as_deref(), Some("a/hooked"));
    assert_eq!((&config.raw["share"], &config.raw["username"]), (&json!("disabled"), &json!("own")));
    assert_eq!(rules(&config), ["bash * Deny", "bash * Allow", "edit * Allow"]);
    let policy = Policy::new(config.permission.clone());
    let policy = policy.with(Origin::Administrator, &config.managed.general);
    assert_eq!(policy.evaluate("bash", "ls"), Action::Deny);
    assert_eq!(config.agents["planner"].prompt.as_deref(), Some("Plan."));
    let patterns: Vec<&str> = config.instructions.iter().map(|it| it.pattern.as_str()).collect();
    assert_eq!(patterns, ["a.md", "b.md"]);
    // Its values are checked like all others, and `--sources` names it.
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["planner@1.0: agent.planner.steps: 0 is ignored; expected a whole number of at least 1"]
    );
    let leaves = leaves(&config.raw, &layers);
    let model = leaves.iter().find(|leaf| leaf.path == ["model"]).unwrap();
    let set_by: Vec<&str> = model.set_by.iter().map(|origin| origin.source.as_str()).collect();
    assert!(set_by[0] == "planner@1.0" && set_by[1].ends_with("opencode.json"), "{set_by:?}");
    assert!(Path::new(set_by[1]).is_absolute());
}

#[test]
fn a_hook_of_plugins_in_a_sandbox_starts_and_loosens_nothing() {
    let change = |config: &mut Map<String, Value>| {
        config.insert("mcp".to_owned(), json!({"shop": {"type": "local", "command": ["sh"]}}));
        config.insert("permission".to_owned(), json!({"bash": "allow", "edit": "deny"}));
        config.insert("username".to_owned(), json!("me"));
        let off = json!({"mode": "off"});
        config.insert("windlass".to_owned(), json!({"sandbox": {"mode": "off", "plugins": off}}));
        Ok(())
    };
    let hook = Hook { name: "plugins".to_owned(), change: Arc::new(change), is_held: true };
    let (config, _) = resolved(&[("opencode.json", json!({}))], &[hook]);
    assert!(config.mcp.is_empty() && config.raw["username"] == "me");
    assert!(config.permission.is_empty() && !config.limits.is_empty(), "what it denies holds");
    assert_eq!(
        (config.own_sandbox.mode, config.own_sandbox.plugins.mode),
        (None, None),
        "it is not the user's word"
    );
    let told = warnings(&config).join("|");
    assert!(told.contains("cannot set what would act outside: MCP server shop, rules"), "{told}");
}

#[test]
fn hooks_see_what_those_before_them_did_and_one_that_fails_changes_nothing() {
    let hook = |name: &str, change: fn(&mut Map<String, Value>) -> Result<(), String>| Hook {
        name: name.to_owned(),
        change: Arc::new(change),
        is_held: false,
    };
    let hooks = [
        hook("first", |config| {
            config.insert("tools".to_owned(), json!({"bash": false}));
            config.insert("agents".to_owned(), json!({"a": {"prompt": "One.", "maxSteps": 2}}));
            Ok(())
        }),
        hook("broken", |config| {
            config.insert("model".to_owned(), json!("a/broken"));
            Err("no answer".to_owned())
        }),
        hook("second", |config| {
            assert_eq!(config["agent"]["a"], json!({"prompt": "One.", "steps": 2}));
            config["agent"]["a"]["prompt"] = json!("Two.");
            Ok(())
        }),
    ];
    let (config, layers) = resolved(&[], &hooks);
    let agent = &config.agents["a"];
    assert_eq!((agent.prompt.as_deref(), agent.steps, &config.model), (Some("Two."), Some(2), &None));
    assert_eq!(rules(&config), ["bash * Deny"]);
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["broken: could not change the configuration, so nothing of it holds: no answer"]);
    let raw = crate::config::merge::merged(&layers);
    let leaves = leaves(&raw, &layers);
    let prompt = leaves.iter().find(|leaf| leaf.path == ["agent", "a", "prompt"]).unwrap();
    let set_by: Vec<&str> = prompt.set_by.iter().map(|origin| origin.source.as_str()).collect();
    assert_eq!(set_by, ["second", "first"]);
}

#[test]
fn null_is_blank_at_any_depth() {
    let global = json!({
        "permission": {"bash": "deny", "edit": {"*": "deny"}},
        "agent": {"a": {"prompt": "p", "permission": {"read": "deny"}}},
        "command": {"c": {"template": "t"}},
        "mcp": {"m": {"type": "local", "command": ["x"], "environment": {"A": "1"}}},
        "provider": {"p": {"options": {"apiKey": "k", "timeout": 5}}},
        "share": "manual",
    });
    let (expected, _) = resolved(&[("opencode.json", global.clone())], &[]);
    assert_eq!(expected.mcp.len(), 1);
    for said in [
        json!({"permission": null}),
        json!({"permission": {"bash": null, "edit": null}}),
        json!({"permission": {"bash": {"*": null}, "edit": {"*": null}}}),
        json!({"agent": null, "command": null, "mcp": null, "provider": null, "share": null}),
        json!({"agent": {"a": null, "b": null}, "command": {"c": null}, "mcp": {"m": null}, "provider": {"p": null}}),
        json!({"agent": {"a": {"prompt": null, "permission": null}}, "mcp": {"m": {"environment": null}}}),
        json!({"agent": {"a": {"permission": {"read": null}}}, "mcp": {"m": {"command": null, "environment": {"A": null}}}}),
        json!({"agent": {"a": {"permission": {"read": {"x": null}}}}}),
        json!({"provider": {"p": {"options": null}}, "command": {"c": {"template": "t", "agent": null}}}),
    ] {
        let (config, _) =
            resolved(&[("opencode.json", global.clone()), ("opencode.jsonc", said.clone())], &[]);
        assert_eq!(warnings(&config), Vec::<String>::new(), "{said}");
        assert_eq!(config.raw, expected.raw, "{said}");
        assert_eq!(config.permission, expected.permission, "{said}");
    }
}

#[test]
fn a_wrong_value_of_an_inherited_server_is_dropped_alone_and_not_shown() {
    let global = json!({"mcp": {
        "r": {"type": "remote", "url": "https://r.example", "headers": {"A": "1"}},
        "l": {"type": "local", "command": ["x"]},
    }});
    let (expected, _) = resolved(&[("opencode.json", global.clone())], &[]);
    for (server, key, wrong, told) in [
        ("r", "headers", json!("Bearer SSSECRET"), "\"********\" cannot be used; expected an object"),
        ("l", "environment", json!("SSSECRET"), "\"********\" cannot be used; expected an object"),
        ("l", "command", json!("x --token SSSECRET"), "\"********\" cannot be used; expected a list"),
        ("r", "oauth", json!("SSSECRET"), "cannot be used; expected false or an object"),
    ] {
        let said = json!({"mcp": {server: {key: wrong}}});
        let (config, _) = resolved(&[("opencode.json", global.clone()), ("opencode.jsonc", said)], &[]);
        assert_eq!(config.mcp, expected.mcp, "{key}");
        let warnings = warnings(&config).join("\n");
        assert!(warnings.ends_with(&format!("mcp.{server}.{key}: {told}")), "{warnings}");
        assert!(!warnings.contains("SSSECRET"), "{warnings}");
    }
    let config = config(r#"{"mcp": {"a": "x", "b": 5, "c": {"headers": {"A": "SSSECRET"}}}}"#);
    let told = warnings(&config).join("\n");
    assert!(!told.contains("McpConfig") && !told.contains("SSSECRET"), "{told}");
    assert_eq!(told.matches("expected an object with `type`").count(), 2, "{told}");
}

#[test]
fn an_address_or_a_program_that_cannot_work_is_told() {
    let config = config(
        r#"{"mcp": {
"a": {"type": "local", "command": []},
"b": {"type": "local", "command": [""]},
"c": {"type": "remote", "url": "zzz"},
"d": {"type": "remote", "url": ""},
"e": {"type": "remote", "url": "http://e.example/mcp"}},
"provider": {
"p": {"options": {"baseURL": "nonsense"}},
"q": {"options": {"baseURL": "${HOST}/v1"}},
"r": {"options": {"baseURL": "https://${HOST}/v1"}}},
"windlass": {"exa_url": "zz", "parallel_url": "https://p"}}"#,
    );
    assert_eq!(
        warnings(&config),
        [
            "2:24: mcp.a.command: names no program; expected a program and its arguments; the server is left out",
            "3:24: mcp.b.command: names no program; expected a program and its arguments; the server is left out",
            "4:25: mcp.c.url: \"zzz\" is not a URL; write `https://…`; the server is left out",
            "5:25: mcp.d.url: \"\" is not a URL; write `https://…`; the server is left out",
            "8:19: provider.p.options.baseURL: \"nonsense\" is not a URL; write `https://…`; it is ignored",
            "11:14: windlass.exa_url: \"zz\" is not a URL; write `https://…`; it is ignored",
        ]
    );
    assert_eq!(config.mcp.keys().collect::<Vec<_>>(), ["e"]);
}

#[test]
fn a_number_without_bounds_is_told() {
    let config = config("{\n\"agent\": {\"a\": {\"temperature\": 1e999, \"top_p\": -1e999, \"steps\": 5}}}");
    assert_eq!(
        warnings(&config),
        [
            "2:32: agent.a.temperature: 1e999 cannot be used as a number; it is ignored",
            "2:48: agent.a.top_p: -1e999 cannot be used as a number; it is ignored",
        ]
    );
    assert_eq!(config.agents["a"].steps, Some(5));
}

#[test]
fn a_sandbox_that_cannot_be_understood_is_the_strictest() {
    for (said, understood, expected) in [
        (json!({"mode": "workspace-wirte"}), json!({"mode": "read-only"}), "windlass.sandbox.mode"),
        (json!("workspace-write"), json!({"mode": "read-only"}), "expected an object with `mode`"),
        (json!([true]), json!({"mode": "read-only"}), "windlass.sandbox: [true] is no sandbox"),
        (json!({"modee": "workspace-write"}), json!({"mode": "read-only"}), "did you mean `mode`?"),
        (json!({"enabled": true}), json!({"mode": "read-only"}), "is not a known key; `mode`"),
        (json!({"enabled": true, "mode": "off"}), json!({"mode": "off"}), "is not a known key"),
        (
            json!({"mode": "workspace-write", "network": false}),
            json!({"mode": "workspace-write", "network": "deny"}),
            "false is not understood; expected \"allow\", \"deny\", \"loopback\" or an object",
        ),
        (
            json!({"mode": "workspace-write", "netwrok": "deny"}),
            json!({"mode": "workspace-write", "network": "deny"}),
            "did you mean `network`?",
        ),
        (json!({"network": {"alow": ["a.example"]}}), json!({"network": "deny"}), "windlass.sandbox.network"),
        (json!({"network": {"deny": ["a*b"]}}), json!({"network": "deny"}), "is not understood"),
        (json!({"ask_less": "yes"}), json!({"ask_less": false}), "ask_less"),
        (json!({"writable": "/"}), json!({"writable": []}), "expected a list of paths"),
        (json!({"agents": ["plan"]}), json!({"mode": "read-only"}), "names no agents"),
        (
            json!({"agents": {"plan": "off", "build": {"mode": 1}}}),
            json!({"agents": {"plan": {"mode": "read-only"}, "build": {"mode": "read-only"}}}),
            "windlass.sandbox.agents.plan",
        ),
        (
            json!({"mcp": true, "lsp": {"mode": "x"}, "plugins": {"netwrok": "deny"}}),
            json!({"mcp": {"mode": "read-only"}, "lsp": {"mode": "read-only"}, "plugins": {"network": "deny"}}),
            "windlass.sandbox.mcp",
        ),
    ] {
        // A weaker source does not loosen it.
        let weaker = json!({"windlass": {"sandbox": {"ask_less": true, "writable": ["/"]}}});
        let files = [("opencode.json", weaker), ("opencode.jsonc", json!({"windlass": {"sandbox": said}}))];
        let (config, _) = resolved(&files, &[]);
        let wrong = warnings(&config);
        assert!(wrong.iter().any(|it| it.contains(expected)), "{said}: {wrong:?}");
        let mut merged = json!({"ask_less": true, "writable": ["/"]});
        merged.as_object_mut().expect("an object").extend(understood.as_object().expect("one").clone());
        assert_eq!(config.raw["windlass"]["sandbox"], merged, "{said}");
    }
}

#[test]
fn a_warning_is_one_line_without_hidden_characters() {
    let config = config(r#"{"a\u001b[2Jb\nforged: fine\u202e": 1, "model": "x\u009by"}"#);
    let told = warnings(&config).join("|");
    assert!(told.contains(r"a\u{1b}[2Jb\u{a}forged: fine\u{202e}: is not a known key"), "{told}");
    assert!(told.contains(r#""x\u{9b}y" is not a model"#), "{told}");
}
