//! Files keep the keys that a change does not name.

use std::{fs, os::unix::fs::PermissionsExt, thread};

use serde_json::{Map, Value, json};

use super::{PatchError, change, project_file};
use crate::config::Environment;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[track_caller]
fn check(before: &str, patch: Value, after: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("opencode.jsonc");
    fs::write(&file, before).unwrap();
    change(&file, object(patch)).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), after);
}

#[test]
fn comments_and_order_stay() {
    let before = "{\n  // the model\n  \"model\": \"a/b\", // best\n  \"username\": \"x\",\n  \"permission\": { \"bash\": \"ask\" }\n}\n";
    check(
        before,
        json!({"username": "y", "permission": {"edit": "deny"}}),
        "{\n  // the model\n  \"model\": \"a/b\", // best\n  \"username\": \"y\",\n  \"permission\": {\n    \"bash\": \"ask\",\n    \"edit\": \"deny\"\n  }\n}\n",
    );
    check(before, json!({}), before);
    check(before, json!({"username": null}), &before.replace("  \"username\": \"x\",\n", ""));
    let key = "{ \"provider\": { \"p\": { \"options\": { \"apiKey\": \"k\" } } } }";
    check(key, json!({"provider": {"p": {"options": {"apiKey": "********"}}}}), key);
    let parts = "{ \"provider\": { \"p\": { \"options\": { \"user\": \"me:{env:KEY}\" } } } }";
    check(parts, json!({"provider": {"p": {"options": {"user": "me:********"}}}}), parts);
}

#[test]
fn what_was_shown_and_comes_back_stays_as_it_is() {
    let list = r#"{ "mcp": { "m": { "type": "local", "command": ["x", "--token", "abc"] } } }"#;
    check(list, json!({"mcp": {"m": {"type": "local", "command": ["x", "--token", "********"]}}}), list);
    // The key is the user's, and stands in another file.
    let provider = json!({"provider": {"p": {"options": {"apiKey": "********", "baseURL": "http://h"}}}});
    let written = "{\n  \"provider\": {\n    \"p\": {\n      \"options\": {\n        \"baseURL\": \"http://h\"\n      }\n    }\n  }\n}\n";
    check("{}\n", provider, written);
    // A line of stars is a text like any other.
    let prompt = r#"{ "agent": { "a": { "prompt": "one" } } }"#;
    check(
        prompt,
        json!({"agent": {"a": {"prompt": "two\n**********"}}}),
        &prompt.replace("one", "two\\n**********"),
    );
}

#[test]
fn a_list_with_a_hidden_text_that_the_file_does_not_have_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("opencode.json");
    let patch = json!({"mcp": {"m": {"type": "local", "command": ["x", "--token", "********"]}}});
    let error = change(&file, object(patch)).unwrap_err();
    assert!(
        matches!(&error, PatchError::Invalid(text) if text.starts_with("`mcp` has a list with ********")),
        "{error}"
    );
    assert!(!file.exists());
}

#[test]
fn a_new_file_is_made_and_a_wrong_value_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = project_file(&Environment::default(), directory.path());
    assert_eq!(file, directory.path().join("opencode.json"));
    let error = change(&file, object(json!({"model": 3}))).unwrap_err();
    assert!(matches!(&error, PatchError::Invalid(text) if text.starts_with("model: ")), "{error}");
    assert!(!file.exists());
    change(&file, object(json!({"username": "y"}))).unwrap();
    let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written, json!({"username": "y"}));
    fs::write(&file, "{ broken").unwrap();
    assert!(matches!(change(&file, object(json!({"username": "z"}))), Err(PatchError::File { .. })));
    assert_eq!(fs::read_to_string(&file).unwrap(), "{ broken");
}

#[test]
fn changes_at_the_same_time_are_all_kept_and_so_is_the_files_mode() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("opencode.json");
    fs::write(&file, "{}\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let names: Vec<String> = (0..16).map(|number| format!("agent{number}")).collect();
    thread::scope(|scope| {
        for name in &names {
            let patch = object(json!({"agent": {name: {"description": "one of many"}}}));
            scope.spawn(|| change(&file, patch).unwrap());
        }
    });
    let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written["agent"].as_object().unwrap().len(), names.len(), "{written}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft is left");
}
