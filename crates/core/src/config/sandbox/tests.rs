//! Sandbox that the settings ask for.

use serde_json::{Value, json};
use windlass_base::sandbox::Level;
use windlass_protocol::opencode::settings::{SandboxAtStart, SandboxSettings};

use super::{narrowest, wanted};

fn settings(value: Value) -> SandboxSettings {
    serde_json::from_value(value).expect("settings")
}

#[test]
fn a_closed_network_implies_a_sandbox() {
    for (said, agent, mode, is_default) in [
        (json!({}), "build", "off", true),
        (json!({"network": "deny"}), "build", "workspace-write", false),
        (json!({"network": "loopback"}), "plan", "read-only", false),
        (json!({"network": "allow"}), "plan", "read-only", true),
        (json!({"network": "deny", "mode": "off"}), "build", "off", false),
        (json!({"network": "deny", "mode": "off"}), "plan", "off", false),
        (json!({"mode": "off", "agents": {"build": {"network": "deny"}}}), "build", "workspace-write", false),
        (json!({"mode": "off", "agents": {"build": {"network": "deny"}}}), "general", "off", false),
        (json!({"agents": {"build": {"mode": "off", "network": "deny"}}}), "build", "off", false),
        (json!({"mode": "read-only", "agents": {"build": {"network": "deny"}}}), "build", "read-only", false),
        (json!({"required": true}), "build", "workspace-write", false),
        (json!({"required": true, "mode": "off"}), "build", "workspace-write", false),
        (json!({"required": true, "mode": "off"}), "plan", "read-only", false),
    ] {
        let wanted = wanted(&settings(said.clone()), agent);
        assert_eq!((wanted.mode.name(), wanted.is_default), (mode, is_default), "{said} of {agent}");
    }
}

#[test]
fn the_start_of_a_process_says_what_no_file_says() {
    for (at_start, said, agent, mode) in [
        (SandboxAtStart::Usual, json!({}), "build", "workspace-write"),
        (SandboxAtStart::Usual, json!({}), "plan", "read-only"),
        (SandboxAtStart::Usual, json!({"mode": "off"}), "build", "off"),
        (SandboxAtStart::Usual, json!({"agents": {"build": {"mode": "off"}}}), "build", "off"),
        (SandboxAtStart::ReadOnly, json!({}), "build", "read-only"),
        (SandboxAtStart::ReadOnly, json!({"mode": "workspace-write"}), "build", "workspace-write"),
        (SandboxAtStart::Off, json!({"mode": "read-only", "network": "deny"}), "build", "off"),
        (SandboxAtStart::Off, json!({}), "plan", "off"),
        (SandboxAtStart::Off, json!({"required": true}), "build", "workspace-write"),
    ] {
        let settings = SandboxSettings { at_start, ..settings(said.clone()) };
        assert_eq!(wanted(&settings, agent).mode.name(), mode, "{at_start:?} with {said} of {agent}");
    }
}

#[test]
fn a_child_reaches_the_hosts_that_its_parent_reaches_too() {
    let said = json!({"mode": "workspace-write", "network": {"allow": ["a.example"]}, "agents": {
        "build": {"network": {"allow": ["*"], "deny": ["c.example"]}},
        "explore": {"network": "loopback"},
        "plan": {"network": "allow"},
        "broken": {"network": {"allow": ["a*b"]}},
    }});
    for (agents, expected) in [
        (["general", "plan"], json!({"allow": ["a.example:80,443"], "deny": []})),
        (["general", "build"], json!({"allow": [["a.example:80,443"], ["*:80,443"]], "deny": ["c.example"]})),
        (["general", "explore"], json!("loopback")),
        (["general", "broken"], json!("deny")),
    ] {
        let found = narrowest(&settings(said.clone()), agents.into_iter(), Level::Full);
        assert_eq!(found.map(|it| it.network.shown()), Some(expected), "{agents:?}");
    }
}

#[test]
fn a_child_is_never_wider_than_its_parent() {
    for (said, agents, level, expected) in [
        (json!({}), ["general", "plan"], Level::Full, json!(["read-only", "allow"])),
        // The parent runs outside there too.
        (json!({}), ["general", "plan"], Level::Landlock, json!(null)),
        (json!({}), ["general", "build"], Level::Full, json!(null)),
        (json!({}), ["explore", "build"], Level::Full, json!(["read-only", "allow"])),
        (
            json!({"mode": "workspace-write", "agents": {"build": {"network": "deny", "writable": ["/a", "/b"]},
                "general": {"writable": ["/b", "/c"], "ask_less": true}}}),
            ["general", "build"],
            Level::Landlock,
            json!(["workspace-write", "deny", "/b"]),
        ),
        (
            json!({"mode": "workspace-write", "agents": {"general": {"mode": "off"}}}),
            ["general", "build"],
            Level::None,
            json!(["workspace-write", "allow"]),
        ),
    ] {
        let found = narrowest(&settings(said.clone()), agents.into_iter(), level);
        let found = found.map(|it| {
            assert!(!it.ask_less, "{said}");
            let mut words = vec![json!(it.mode), it.network.shown()];
            words.extend(it.writable.into_iter().map(Value::from));
            words
        });
        assert_eq!(json!(found), expected, "{said} of {agents:?}");
    }
}
