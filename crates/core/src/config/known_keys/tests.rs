//! Keys that are found unknown.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use windlass_protocol::opencode::config::ConfigFile;

use super::{Keys, Range, keys};
use crate::config::formats;

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
fn a_key_of_another_agent_is_named_by_ours() {
    check(
        json!({"mcpServers": {}, "mcp_servers": {}, "rules": [], "instructionFiles": [], "sandbox_mode": ""}),
        &[
            "mcpServers mcp",
            "mcp_servers mcp",
            "rules instructions",
            "instructionFiles instructions",
            "sandbox_mode -",
        ],
    );
    check(
        json!({"mcp": {"a": {"type": "local", "command": [], "env": {}, "envVars": {}, "args": []}}}),
        &["mcp.a.env environment", "mcp.a.envVars environment", "mcp.a.args command"],
    );
    check(
        json!({"agent": {"a": {"system": "", "system_prompt": "", "maxTurns": 1}}}),
        &["agent.a.system prompt", "agent.a.system_prompt prompt", "agent.a.maxTurns steps"],
    );
}

impl Keys {
    fn add(&mut self, schema: &Value) {
        let Some(schema) = schema.as_object() else {
            self.is_open = true;
            return;
        };
        let word = |key: &str| schema.get(key).and_then(Value::as_str);
        self.format = self
            .format
            .take()
            .or(word("format").filter(|it| formats::named(it).is_some()).map(str::to_owned));
        self.is_without_effect |= schema.contains_key("x-without-effect");
        let elsewhere = schema.get("x-elsewhere").and_then(Value::as_array).into_iter().flatten();
        self.elsewhere.extend(elsewhere.filter_map(Value::as_str).map(str::to_owned));
        let of_type = |name: &str| {
            let is =
                |it: &Value| it == name || it.as_array().is_some_and(|it| it.iter().any(|it| it == name));
            schema.get("type").is_some_and(is)
        };
        let number = |key: &str| schema.get(key).and_then(Value::as_f64);
        let (min, max) = (number("minimum").unwrap_or_default(), number("maximum"));
        // Types without a sign have 0 for their least.
        if min > 0.0 || max.is_some() {
            self.range = Some(Range { is_whole: of_type("integer"), min, max });
        }
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
            // Others may stand beside those that are known, which a typing error is told from.
            Some(Value::Bool(true)) if schema.contains_key("properties") => {}
            Some(value) => self.others.get_or_insert_default().add(value),
        }
        self.add_kinds(schema.get("oneOf").and_then(Value::as_array).map_or(&[], Vec::as_slice));
        self.is_list |= of_type("array");
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

    /// Notes which keys only one of several tagged types has.
    fn add_kinds(&mut self, kinds: &[Value]) {
        for (key, keys) in &mut self.known {
            let having: Vec<&Value> = kinds.iter().filter(|it| it["properties"].get(key).is_some()).collect();
            if let ([only], true) = (having.as_slice(), kinds.len() > 1) {
                keys.kind = only["properties"]["type"]["const"].as_str().map(str::to_owned);
                let required = only["required"].as_array().into_iter().flatten();
                keys.is_required = required.into_iter().any(|it| it == key);
            }
        }
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
    if include_str!("../keys.json") != expected {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/keys.json"), expected).unwrap();
        panic!("run `cp target/keys.json crates/core/src/config/keys.json`");
    }
}
