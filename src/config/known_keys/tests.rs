//! Keys that are found unknown.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use windlass_protocol::opencode::config::ConfigFile;

use super::{Keys, keys};

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

impl Keys {
    fn add(&mut self, schema: &Value) {
        let Some(schema) = schema.as_object() else {
            self.is_open = true;
            return;
        };
        for word in ["anyOf", "oneOf", "allOf"] {
            for choice in schema.get(word).and_then(Value::as_array).into_iter().flatten() {
                self.add(choice);
            }
        }
        for (key, value) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.known.entry(key.clone()).or_default().add(value);
        }
        match schema.get("additionalProperties") {
            None | Some(Value::Bool(false)) => {}
            Some(value) => self.others.get_or_insert_default().add(value),
        }
        let of_list =
            |it: &Value| it == "array" || it.as_array().is_some_and(|it| it.iter().any(|it| it == "array"));
        self.is_list |= schema.get("type").is_some_and(of_list);
        if let Some(items) = schema.get("items") {
            // Elements are told apart by their number, which is any other key.
            self.others.get_or_insert_default().add(items);
        }
        let says = |word: &str| schema.contains_key(word);
        let is_any = !["type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref", "properties"]
            .iter()
            .any(|word| says(word));
        self.is_open |= is_any;
    }
}

#[test]
fn the_keys_written_down_are_those_of_the_types() {
    let mut settings = SchemaSettings::draft07();
    settings.inline_subschemas = true;
    let schema = settings.into_generator().into_root_schema_for::<ConfigFile>();
    let mut expected = Keys::default();
    expected.add(schema.as_value());
    let expected = serde_json::to_string_pretty(&expected).unwrap() + "\n";
    assert!(include_str!("../keys.json") == expected, "src/config/keys.json is to say:\n{expected}");
}
