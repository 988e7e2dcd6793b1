//! What the schema says, and which keys it finds unknown.

use serde_json::{Value, json};

use super::{keys, schema};

#[track_caller]
fn check(value: Value, expected: &[&str]) {
    let mut found = Vec::new();
    keys().unknown(value.as_object().unwrap(), &mut Vec::new(), &mut |path, near| {
        found.push(format!("{} {}", path.join("."), near.unwrap_or("-")));
    });
    assert_eq!(found, expected, "{value}");
}

#[test]
fn unknown_keys_are_found_where_only_known_ones_may_stand() {
    check(
        json!({"modle": 1, "smallModel": 1, "zzz": 1}),
        &["modle model", "smallModel small_model", "zzz -"],
    );
    check(json!({"permission": {"anything": {"at *": "ask"}}, "tools": {"mine": true}}), &[]);
    check(
        json!({"mcp": {"files": {"type": "local", "command": [], "enviroment": {}, "environment": {"A": "1"}}}}),
        &["mcp.files.enviroment environment"],
    );
    check(json!({"compaction": {"atuo": true}}), &["compaction.atuo auto"]);
    check(json!({"formatter": {"prettier": {"disbaled": true}}}), &["formatter.prettier.disbaled disabled"]);
    check(json!({"formatter": false, "lsp": {"x": {"initialization": {"any": {"thing": 1}}}}}), &[]);
    check(json!({"command": {"a": {"templat": ""}}}), &["command.a.templat template"]);
    check(json!({"plugin": ["a", ["b", {"any": 1}]], "experimental": {"policies": {"any": 1}}}), &[]);
    check(
        json!({"agent": {"a": {"temprature": 1, "options": {"any": 1}}}}),
        &["agent.a.temprature temperature"],
    );
}

#[test]
fn the_schema_accepts_what_we_read() {
    let mut compiler = boon::Compiler::new();
    let mut schemas = boon::Schemas::new();
    compiler.add_resource("mem:/config.json", schema()).unwrap();
    let index = compiler.compile("mem:/config.json", &mut schemas).unwrap();
    let is_valid = |value: Value| schemas.validate(&value, index).is_ok();
    assert!(is_valid(json!({
        "$schema": "x",
        "model": "a/b",
        "permission": {"edit": "deny", "bash": {"*": "ask"}},
        "agent": {"a": {"permission": "ask", "reasoningEffort": "high", "mode": "all"}},
        "mcp": {"a": {"type": "local", "command": ["x"]}, "b": {"enabled": false}},
        "plugin": ["a", ["b", {"c": 1}]],
        "formatter": {"x": {"command": ["y"]}},
        "lsp": true,
        "autoupdate": "notify",
        "provider": {"p": {"options": {"timeout": false, "own": 1}}},
    })));
    assert!(!is_valid(json!({"permission": "never"})));
    assert!(!is_valid(json!({"agent": {"a": {"mode": "third"}}})));
    assert!(!is_valid(json!({"compaction": {"auto": 3}})));
}
