//! Which keys are found unknown.

use serde_json::{Value, json};

use super::keys;

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
