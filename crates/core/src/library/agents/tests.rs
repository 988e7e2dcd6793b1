//! The agents of a configuration and their permissions.

use std::path::Path;

use serde_json::{Value, json};
use windlass_protocol::opencode::{
    config::AgentMode,
    permission::Action::{self, Allow, Ask, Deny},
};

use super::{Agent, agents, default_agent};
use crate::config::{Config, Environment, fixture::load, paths::Paths};

/// Resolves a configuration text without any real file.
fn config(text: &Value) -> Config {
    config_in(
        Path::new("/nowhere"),
        Path::new("/nowhere/project"),
        &[("OPENCODE_CONFIG_CONTENT", &text.to_string())],
    )
}

fn config_in(home: &Path, directory: &Path, variables: &[(&str, &str)]) -> Config {
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let environment = Environment { trusts_projects: true, variables, home: home.to_owned() };
    load(&environment, &Paths::new(&environment), directory)
}

fn agent(text: &Value, name: &str) -> Agent {
    agents(&config(text), &[]).0.into_iter().find(|agent| agent.name == name).unwrap()
}

#[track_caller]
fn check_rules(text: Value, name: &str, expected: &[(&str, &str, Action)]) {
    let agent = agent(&text, name);
    for &(permission, pattern, action) in expected {
        let verdict = agent.policy.evaluate(permission, pattern);
        assert_eq!(verdict, action, "{name}: {permission} {pattern} with {text}");
    }
}

#[test]
fn options_that_say_how_tools_are_called_restrict_nothing() {
    for option in
        ["disableParallelToolUse", "disable_parallel_tool_use", "tool_choice", "parallel_tool_calls"]
    {
        let (agents, warnings) =
            agents(&config(&json!({"agent": {"mine": {"prompt": "x", option: true}}})), &[]);
        assert!(agents.iter().any(|agent| agent.name == "mine"), "{option}");
        assert_eq!(warnings, [], "{option}");
    }
}

#[test]
fn the_seven_built_in_agents_exist_with_the_default_first() {
    let (agents, warnings) = agents(&config(&json!({})), &[]);
    let shown: Vec<_> = agents.iter().map(|agent| (agent.name.as_str(), agent.mode, agent.hidden)).collect();
    let (primary, subagent) = (AgentMode::Primary, AgentMode::Subagent);
    assert_eq!(
        shown,
        [
            ("build", primary, false),
            ("compaction", primary, true),
            ("explore", subagent, false),
            ("general", subagent, false),
            ("plan", primary, false),
            ("summary", primary, true),
            ("title", primary, true),
        ]
    );
    assert_eq!(warnings, []);
    assert!(agents.iter().all(|agent| agent.native));
}

#[test]
fn saved_outputs_are_readable_unless_their_directory_or_everything_is_denied() {
    let saved = "/nowhere/.local/share/windlass/tool-output/tool_1";
    let own = "/nowhere/.local/share/windlass/tool-output/*";
    for (permission, action) in [
        (json!({"read": {"*": "deny"}}), Allow),
        (json!({"read": "ask", "external_directory": "deny"}), Allow),
        (json!({"read": {"*": "allow", own: "deny"}}), Deny),
        (json!("deny"), Deny),
    ] {
        check_rules(json!({ "permission": permission }), "build", &[("read", saved, action)]);
    }
    check_rules(json!({}), "title", &[("read", saved, Deny)]);
}

#[test]
fn built_in_agents_have_the_permissions_of_their_purpose() {
    let none = || json!({});
    let tool_output = "/nowhere/.local/share/windlass/tool-output/tool_1";
    check_rules(
        none(),
        "build",
        &[
            ("bash", "make", Allow),
            ("edit", "a", Allow),
            ("question", "*", Allow),
            ("plan_exit", "*", Deny),
            ("doom_loop", "bash", Ask),
            ("external_directory", "/etc/*", Ask),
            ("external_directory", tool_output, Allow),
            ("read", "src/a.rs", Allow),
            ("read", "src/.env", Ask),
            ("read", ".env.local", Ask),
            ("read", ".env.example", Allow),
        ],
    );
    check_rules(
        none(),
        "plan",
        &[
            ("edit", "src/a.rs", Deny),
            ("edit", ".opencode/plans/1.md", Allow),
            ("edit", "/nowhere/.local/share/windlass/plans/1.md", Allow),
            ("edit", "nowhere/.local/share/windlass/plans/1.md", Allow),
            ("task", "general", Deny),
            ("task", "explore", Allow),
            ("plan_exit", "*", Allow),
            ("bash", "ls", Allow),
        ],
    );
    check_rules(
        none(),
        "explore",
        &[
            ("grep", "x", Allow),
            ("read", "a", Allow),
            ("read", ".env", Ask),
            ("edit", "a", Deny),
            ("task", "general", Deny),
            ("external_directory", "/etc/*", Ask),
            ("external_directory", tool_output, Allow),
        ],
    );
    check_rules(
        none(),
        "general",
        &[("todowrite", "*", Deny), ("todoread", "*", Deny), ("edit", "a", Allow), ("question", "*", Deny)],
    );
    check_rules(none(), "title", &[("bash", "ls", Deny), ("read", "a", Deny)]);
}

#[test]
fn general_rules_do_not_loosen_plan_and_explore() {
    for loose in [
        json!("allow"),
        json!({"edit": "ask"}),
        json!({"*": "allow", "edit": {"*": "allow"}, "read": "allow"}),
    ] {
        let text = json!({"permission": loose});
        check_rules(text.clone(), "plan", &[("edit", "src/a.rs", Deny), ("task", "general", Deny)]);
        check_rules(text.clone(), "explore", &[("edit", "src/a.rs", Deny), ("read", ".env", Ask)]);
        check_rules(text, "title", &[("edit", "a", Deny)]);
    }
    check_rules(json!({"permission": {"edit": "ask"}}), "plan", &[("edit", ".opencode/plans/1.md", Ask)]);
    check_rules(json!({"permission": {"edit": "ask"}}), "build", &[("edit", "a", Ask)]);
}

#[test]
fn general_rules_may_tighten_plan_and_explore() {
    let text = json!({"permission": {
        "edit": "deny",
        "read": {"*.env": "deny", "secrets/*": "deny", "key.env": "deny"},
    }});
    check_rules(text.clone(), "plan", &[("edit", ".opencode/plans/1.md", Deny)]);
    check_rules(
        text,
        "explore",
        &[
            ("read", "a.env", Deny),
            ("read", "secrets/.env", Deny),
            ("read", "secrets/.env.local", Deny),
            ("read", "secrets/a", Deny),
            ("read", "key.env", Deny),
            ("read", "b", Allow),
        ],
    );
}

#[test]
fn rules_of_the_agent_itself_come_last() {
    let text = json!({
        "permission": {"edit": "deny"},
        "agent": {
            "plan": {"permission": {"edit": {"docs/*": "allow"}}},
            "explore": {"permission": {"read": "allow"}},
            "build": {"tools": {"write": true, "bash": false}, "permission": {"bash": {"ls *": "allow"}}},
        },
    });
    check_rules(text.clone(), "plan", &[("edit", "docs/a", Allow), ("edit", "src/a", Deny)]);
    check_rules(text.clone(), "explore", &[("read", ".env", Allow)]);
    check_rules(text, "build", &[("edit", "a", Allow), ("bash", "rm", Deny), ("bash", "ls -a", Allow)]);
}

#[test]
fn the_last_of_several_tool_switches_decides() {
    let own = |tools: Value| json!({"agent": {"build": {"tools": tools}}});
    check_rules(own(json!({"write": true, "edit": false})), "build", &[("edit", "a", Deny)]);
    check_rules(own(json!({"write": false, "edit": true})), "build", &[("edit", "a", Allow)]);
    check_rules(
        own(json!({"read": true, "*": false})),
        "build",
        &[("read", "a", Deny), ("bash", "ls", Deny)],
    );
    check_rules(
        own(json!({"*": false, "read": true})),
        "build",
        &[("read", "a", Allow), ("bash", "ls", Deny)],
    );
    let front_matter = tempfile::tempdir().unwrap();
    let file = front_matter.path().join(".opencode/agent/careful.md");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "---\ntools:\n  write: true\n  edit: false\n---\nCareful.\n").unwrap();
    let (agents, _) = agents(&config_in(Path::new("/nowhere"), front_matter.path(), &[]), &[]);
    let careful = agents.iter().find(|agent| agent.name == "careful").unwrap();
    assert_eq!(careful.policy.evaluate("edit", "a"), Deny);
}

/// Checks the rules of `build` under an administrator's configuration.
#[track_caller]
fn check_managed(own: Value, managed: Value, expected: &[(&str, &str, Action)]) {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("opencode.json"), managed.to_string()).unwrap();
    let directory = root.path().display().to_string();
    let text = own.to_string();
    let variables = [("OPENCODE_CONFIG_CONTENT", text.as_str()), ("WINDLASS_MANAGED_CONFIG", &directory)];
    let config = config_in(Path::new("/nowhere"), Path::new("/nowhere/project"), &variables);
    let (agents, _) = agents(&config, &[]);
    let build = agents.iter().find(|agent| agent.name == "build").unwrap();
    for &(permission, pattern, action) in expected {
        let verdict = build.policy.evaluate(permission, pattern);
        assert_eq!(verdict, action, "{permission} {pattern}: {own} under {managed}");
    }
}

#[test]
fn nothing_is_looser_than_what_the_administrator_says() {
    let of_build = |permission: Value| json!({"agent": {"build": {"permission": permission}}});
    let asks = || json!({"permission": {"bash": "ask"}});
    check_managed(json!({"permission": {"bash": "allow"}}), asks(), &[("bash", "ls", Ask)]);
    check_managed(of_build(json!({"bash": "allow"})), asks(), &[("bash", "ls", Ask), ("edit", "a", Allow)]);
    check_managed(
        of_build(json!({"bash": {"*": "allow", "rm *": "deny"}})),
        asks(),
        &[("bash", "ls", Ask), ("bash", "rm x", Deny)],
    );
    let no_writing = || json!({"tools": {"write": false}});
    check_managed(json!({"permission": {"edit": "allow"}}), no_writing(), &[("edit", "a", Deny)]);
    check_managed(of_build(json!({"edit": {"docs/*": "allow"}})), no_writing(), &[("edit", "docs/a", Deny)]);
    // Rules of one agent outrank rules of all agents, for the administrator too.
    let mut both = asks();
    both["agent"]["build"]["permission"] = json!({"bash": {"rm *": "deny", "ls": "allow"}});
    check_managed(
        of_build(json!({"bash": {"*": "allow", "rm x": "allow", "ls -a": "ask"}})),
        both,
        &[("bash", "rm x", Deny), ("bash", "ls", Allow), ("bash", "pwd", Ask)],
    );
    let of_agent = json!({"agent": {"build": {"tools": {"bash": false}}}});
    check_managed(of_build(json!({"bash": {"ls": "allow"}})), of_agent, &[("bash", "ls", Deny)]);
}

#[test]
fn an_administrator_may_extend_an_agent_but_not_override_the_users_denials() {
    let root = tempfile::tempdir().unwrap();
    let managed = json!({"agent": {"plan": {"permission": {"edit": {"docs/*": "allow"}}}}});
    std::fs::write(root.path().join("opencode.json"), managed.to_string()).unwrap();
    let directory = root.path().display().to_string();
    let text = json!({"permission": {"edit": {"docs/old/*": "deny"}}}).to_string();
    let variables = [("OPENCODE_CONFIG_CONTENT", text.as_str()), ("WINDLASS_MANAGED_CONFIG", &directory)];
    let config = config_in(Path::new("/nowhere"), Path::new("/nowhere/project"), &variables);
    let (agents, _) = agents(&config, &[]);
    let plan = agents.iter().find(|agent| agent.name == "plan").unwrap();
    let edit = |file: &str| plan.policy.evaluate("edit", file);
    assert_eq!([edit("docs/a"), edit("docs/old/a"), edit("src/a")], [Allow, Deny, Deny]);
}

#[test]
fn rules_stricter_than_the_administrators_stay() {
    let general = |permission: Value| json!({"permission": permission});
    let git = || general(json!({"bash": {"*": "ask", "git *": "allow"}}));
    check_managed(
        general(json!({"bash": {"git push *": "deny"}})),
        git(),
        &[("bash", "git push x", Deny), ("bash", "git log", Allow), ("bash", "ls", Ask)],
    );
    let no_rm = general(json!({"bash": {"*": "allow", "rm *": "deny"}}));
    check_managed(no_rm, general(json!({"bash": "allow"})), &[("bash", "rm x", Deny), ("bash", "ls", Allow)]);
    let asks = || general(json!({"bash": "ask"}));
    check_managed(general(json!({"bash": "deny"})), asks(), &[("bash", "ls", Deny)]);
    check_managed(json!({"tools": {"bash": false}}), asks(), &[("bash", "ls", Deny)]);
    check_managed(
        general(json!({"bash": "deny"})),
        general(json!({"*": "ask"})),
        &[("bash", "ls", Deny), ("edit", "a", Ask)],
    );
    let own_agent = json!({"agent": {"build": {"tools": {"bash": false}}}});
    check_managed(own_agent, json!({"agent": {"build": {"tools": {"bash": true}}}}), &[("bash", "ls", Deny)]);
    // The administrator may allow a permission that no other rule restricts.
    check_managed(
        json!({}),
        general(json!({"external_directory": {"/opt/*": "allow"}})),
        &[("external_directory", "/opt/x", Allow), ("external_directory", "/etc/x", Ask)],
    );
}

#[test]
fn the_configuration_adds_changes_and_removes_agents() {
    let text = json!({
        "default_agent": "review",
        "permission": {"webfetch": "ask"},
        "agent": {
            "review": {
                "description": "Reviews.", "prompt": "Look.", "model": "a/b#high", "temperature": 0.2, "top_p": 0.9,
                "steps": 4, "color": "#fff", "effort": "x", "options": {"y": 1}, "permission": {"edit": "deny"},
            },
            "build": {"model": "c/d", "variant": "low", "hidden": true},
            "general": {"disable": true},
        },
    });
    let (agents, warnings) = agents(&config(&text), &[]);
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["review", "build", "compaction", "explore", "plan", "summary", "title"]);
    assert_eq!(warnings, []);
    let review = &agents[0];
    assert_eq!(
        (review.mode, review.native, review.hidden, review.steps),
        (AgentMode::All, false, false, Some(4))
    );
    assert_eq!(review.model.as_ref().map(ToString::to_string).as_deref(), Some("a/b"));
    assert_eq!(review.variant.as_deref(), Some("high"));
    assert_eq!(json!(review.options), json!({"y": 1, "effort": "x"}));
    let build = &agents[1];
    assert_eq!((build.variant.as_deref(), build.hidden, build.native), (Some("low"), true, true));
    check_rules(text, "review", &[("edit", "a", Deny), ("webfetch", "u", Ask), ("read", ".env", Ask)]);
}

#[test]
fn a_bad_default_agent_falls_back_with_a_warning() {
    for (text, expected, warning) in [
        (json!({}), "build", ""),
        (json!({"default_agent": "plan"}), "plan", ""),
        (json!({"default_agent": "gone"}), "build", "default agent `gone` does not exist; `build` is used"),
        (
            json!({"default_agent": "explore"}),
            "build",
            "default agent `explore` is a subagent; `build` is used",
        ),
        (json!({"default_agent": "title"}), "build", "default agent `title` is hidden; `build` is used"),
        (json!({"agent": {"build": {"disable": true}}}), "plan", ""),
        (json!({"agent": {"build": {"disable": true}, "plan": {"hidden": true}, "mine": {}}}), "mine", ""),
        (
            json!({"agent": {"build": {"disable": true}, "plan": {"disable": true}}}),
            "build",
            "every primary agent is disabled or hidden; `build` is used",
        ),
    ] {
        let config = config(&text);
        let (agents, warnings) = agents(&config, &[]);
        let messages: Vec<&str> = warnings.iter().map(|warning| warning.message.as_str()).collect();
        assert_eq!(messages.join("; "), warning, "{text}");
        assert_eq!(
            default_agent(&agents, &config).0.map(|agent| agent.name.as_str()),
            Some(expected),
            "{text}"
        );
        assert_eq!(agents[0].name, expected, "{text}");
    }
}

#[test]
fn a_list_of_tools_denies_the_others_and_loosens_no_rule() {
    for tools in [json!("Read, Grep, Glob"), json!(["Read", "Grep", "Glob"])] {
        let general = json!({"grep": "ask", "bash": "allow"});
        let own = json!({"tools": tools, "permission": {"webfetch": "allow"}});
        let text = json!({"permission": general, "agent": {"reviewer": own}});
        let expected = [
            ("read", "a.rs", Allow),
            ("read", ".env", Ask),
            ("grep", "x", Ask),
            ("glob", "*", Allow),
            ("bash", "ls", Deny),
            ("edit", "a", Deny),
            ("webfetch", "https://a", Deny),
            ("shop_buy", "*", Deny),
            ("external_directory", "/etc/*", Ask),
        ];
        check_rules(text.clone(), "reviewer", &expected);
        check_rules(text, "build", &[("bash", "ls", Allow), ("edit", "a", Allow)]);
        let text = json!({"tools": tools, "permission": {"bash": "allow"}, "agent": {"a": {}}});
        for name in ["build", "a", "general"] {
            check_rules(text.clone(), name, &[("bash", "ls", Deny), ("read", "a.rs", Allow)]);
        }
    }
}

#[test]
fn tools_that_are_taken_away_are_denied_whatever_a_rule_says() {
    for key in ["disallowedTools", "disallowed-tools", "disalowedTools", "excludeTools"] {
        let text = json!({"agent": {"a": {key: "Bash(git push:*), Write", "permission": {"edit": "allow"}}}});
        let expected =
            [("bash", "git push", Deny), ("bash", "ls", Allow), ("edit", "a", Deny), ("read", "a", Allow)];
        check_rules(text, "a", &expected);
    }
    let text = json!({"permission": {"deny": ["Bash(rm:*)"], "ask": ["WebFetch"], "bash": "allow"}});
    check_rules(text, "build", &[("bash", "rm x", Deny), ("bash", "ls", Allow), ("webfetch", "x", Ask)]);
}

#[test]
fn a_switch_that_is_no_boolean_never_widens() {
    for (said, expected) in [
        (json!("false"), Deny),
        (json!(0), Deny),
        (json!("off"), Deny),
        (json!({}), Deny),
        (json!("True"), Allow),
    ] {
        for key in ["bash", "Bash"] {
            let text = json!({"agent": {"a": {"tools": {key: said}}}});
            check_rules(text, "a", &[("bash", "ls", expected), ("read", "a", Allow)]);
            check_rules(json!({"tools": {key: said}}), "build", &[("bash", "ls", expected)]);
        }
    }
    check_rules(json!({"tools": {"mcp__shop__buy": false}}), "build", &[("shop_buy", "*", Deny)]);
    check_rules(json!({"tools": {"Bash(rm:*)": false}}), "build", &[("bash", "ls", Deny)]);
    check_rules(json!({"tools": {"multiedit": false}}), "build", &[("edit", "a", Deny)]);
}

#[test]
fn a_rule_by_another_name_restricts() {
    for said in [
        json!({"permission": {"Bash": "deny", "Write": "deny", "edit": "allow"}}),
        json!({"permissions": {"bash": "deny", "apply_patch": "deny"}}),
        json!({"Permission": {"Bash(ls:*)": "deny", "multiedit": "deny"}}),
        json!({"permissons": "deny"}),
    ] {
        let expected = [("bash", "ls", Deny), ("edit", "a", Deny)];
        check_rules(said.clone(), "build", &expected);
        check_rules(json!({"agent": {"a": said}}), "a", &expected);
    }
    // No other name loosens, in any order.
    for permission in [
        json!({"edit": "deny", "multiedit": "allow", "bash": "deny", "Bash": "allow"}),
        json!({"Write": "deny", "edit": {"*": "allow"}, "Bash(rm:*)": "deny", "Bash": "deny", "bash": "allow"}),
        json!({"edit": "deny", "write": {"*": "allow", "x": "ask"}, "bash": "deny", "Bash": "ask"}),
    ] {
        check_rules(
            json!({"permission": permission}),
            "build",
            &[("edit", "a", Deny), ("bash", "rm x", Deny)],
        );
    }
    let text = json!({"permission": {"Bash(rm:*)": "deny", "bash": "allow"}});
    check_rules(text, "build", &[("bash", "rm x", Deny), ("bash", "ls", Allow)]);
    for text in [json!({"permission": "Deny"}), json!({"tools": {"all": false}})] {
        check_rules(text, "build", &[("bash", "ls", Deny)]);
    }
    // Options of providers speak of tools too.
    check_rules(
        json!({"agent": {"a": {"parallel_tool_calls": false, "tool_choice": "auto"}}}),
        "a",
        &[("bash", "ls", Allow)],
    );
    let text = json!({"permission": {"Deny": "Write, Bash(rm:*)"}});
    check_rules(text, "build", &[("edit", "a", Deny), ("bash", "rm x", Deny), ("bash", "ls", Allow)]);
    let text = json!({"permission": {"Bash": {"*": "allow", "rm *": "deny"}}});
    check_rules(text, "build", &[("bash", "rm x", Deny), ("bash", "ls", Allow)]);
    check_rules(json!({"tools": {"bash": false, "Bash": true}}), "build", &[("bash", "ls", Deny)]);
}

#[test]
fn an_agent_whose_restriction_cannot_be_understood_is_left_out() {
    for said in [
        json!({"tools": 5}),
        json!({"tools": true}),
        json!({"tools": "!Bash"}),
        json!({"tools": [{"bash": false}]}),
        json!({"allowedTools": {"bash": true}}),
        json!({"disallowedTools": ["Bash", 5]}),
        json!({"permissions": [{"action": "bash", "resource": "*", "effect": "perhaps"}]}),
        json!({"permissions": {"bash": "deny"}, "permission": {"edit": "deny"}}),
        json!({"disabledTools": ["Bash"]}),
        json!({"readonly": true}),
        json!({"tools": {"deny": ["Bash"]}}),
    ] {
        let text = json!({"permission": {"webfetch": "deny"}, "default_agent": "own", "agent": {"own": said, "build": said}});
        let config = config(&text);
        let own = config.warnings.iter().filter(|it| it.message.ends_with("the agent is left out"));
        assert_eq!(own.count(), 1, "{said}: {:?}", config.warnings);
        let built_in = config.warnings.iter().filter(|it| it.message.contains("everything asks"));
        assert_eq!(built_in.count(), 1, "{said}: {:?}", config.warnings);
        assert!(agents(&config, &[]).0.iter().all(|agent| agent.name != "own"));
        let asking = [("bash", "ls", Ask), ("read", "a", Ask), ("webfetch", "https://a", Deny)];
        check_rules(text.clone(), "build", &asking);
        // Nor does another agent in the default's place do more than ask.
        check_rules(text, "plan", &[("bash", "ls", Ask)]);
        check_rules(said, "general", &[("bash", "ls", Ask)]);
    }
    // A broken `permission` asks also for tools that another source allows by name.
    let text = json!({"permission": {"bash": "allow"}}).to_string();
    let (home, project) = (Path::new("/nowhere"), Path::new("/nowhere/project"));
    let variables = [("OPENCODE_CONFIG_CONTENT", text.as_str()), ("OPENCODE_PERMISSION", "[\"deny\"]")];
    let (agents, _) = agents(&config_in(home, project, &variables), &[]);
    assert!(agents.iter().all(|agent| agent.policy.evaluate("bash", "ls") != Allow));
}

#[test]
fn a_switch_that_turns_an_agent_off_is_understood() {
    for said in [
        json!({"disable": "true"}),
        json!({"disabled": 1}),
        json!({"enabled": false}),
        json!({"disable": "y"}),
    ] {
        let (agents, _) = agents(&config(&json!({"agent": {"general": said}})), &[]);
        assert!(agents.iter().all(|agent| agent.name != "general"), "{said}");
    }
    let (agents, _) =
        agents(&config(&json!({"agent": {"general": {"disable": "false", "enabled": true}}})), &[]);
    assert!(agents.iter().any(|agent| agent.name == "general"));
}
