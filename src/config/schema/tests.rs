//! What the schema says, and which keys it finds unknown.

use std::{
    fs,
    path::{Path, PathBuf},
};

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use windlass_protocol::opencode::config::ConfigFile;

use super::{Keys, keys, schema};
use crate::config::{
    Environment,
    check::check as check_layer,
    layer::{self, Findings, Kind, Layer},
    lower::lower,
};

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

/// What an editor would say of a file; nothing when it is right.
fn problem(value: &Value) -> Option<String> {
    let mut compiler = boon::Compiler::new();
    let mut schemas = boon::Schemas::new();
    compiler.add_resource("mem:/config.json", schema()).unwrap();
    let index = compiler.compile("mem:/config.json", &mut schemas).unwrap();
    schemas.validate(value, index).err().map(|error| format!("{error:#}"))
}

/// Every file of `fixtures/config` that a user would write, by its path there.
fn fixtures() -> Vec<(String, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/config");
    let mut files = Vec::new();
    let mut pending = vec![root.clone()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = entry.file_name().into_string().unwrap();
            if path.is_dir() && name != "cache" {
                pending.push(path);
            } else if name.ends_with(".json") && name != "case.json" || name.ends_with(".jsonc") {
                files.push(path);
            }
        }
    }
    files.sort();
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        let mut findings = Findings::default();
        let (environment, source) = (Environment::default(), file.display().to_string());
        let layer = layer::parse(&environment, Kind::File, source, root.clone(), &text, &mut findings);
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        (!layer.is_broken).then_some((name, Value::Object(layer.value)))
    };
    files.into_iter().filter_map(read).collect()
}

#[test]
fn the_schema_accepts_every_example_and_refuses_those_with_mistakes() {
    let files = fixtures();
    assert!(files.len() > 20, "{}", files.len());
    let refused = files.iter().filter_map(|(name, value)| Some((name.as_str(), problem(value)?)));
    let refused: Vec<(&str, String)> = refused.collect();
    let names: Vec<&str> = refused.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["broken/project/opencode.jsonc", "other_forms/project/opencode.json"], "{refused:#?}");
}

#[test]
fn the_schema_accepts_what_we_read() {
    for value in [
        json!({
            "$schema": "x",
            "model": "a/b",
            "permission": {"edit": "deny", "bash": {"*": "ask"}, "read": false},
            "agent": {"a": {"permission": "ask", "reasoningEffort": "high", "mode": "all", "color": "#f00", "maxSteps": 3}},
            "mcp": {"a": {"type": "local", "command": ["x"]}, "b": {"enabled": false}, "c": {"timeout": 5}},
            "plugin": ["a", ["b", {"c": 1}]],
            "formatter": {"x": {"command": ["y"]}},
            "lsp": true,
            "autoupdate": "notify",
            "provider": {"p": {"id": "q", "options": {"timeout": false, "own": 1}}},
        }),
        json!({"mcp": {"servers": {"a": {"type": "local", "command": ["x"]}, "b": {"enabled": false}}}}),
        json!({"mcp": {"servers": {"type": "remote", "url": "https://a.example"}}}),
        json!({"mcp": {"a": {"type": "remote", "url": "https://a.example", "oauth": false}}}),
        json!({"mcp": {"a": {"type": "remote", "url": "u", "oauth": {"clientId": "i", "scope": "s", "callbackPort": 1}}}}),
        json!({"agents": {"a": {"mode": "primary"}}, "commands": {"c": {"template": "x"}}, "media": {}, "snapshots": true}),
        json!({"compaction": {"keep": {"turns": 1}, "buffer": 2}, "theme": "dark", "keybinds": {}, "tui": {}}),
        json!({"experimental": {"hook": {"file_edited": {"*.rs": [{"command": ["x"]}]}}, "chatMaxRetries": 3}}),
        json!({"windlass": {"agents": {"urls": ["https://a.example", "http://127.0.0.1:1/x", "http://localhost"]}}}),
    ] {
        assert_eq!(problem(&value), None, "{value}");
    }
}

#[test]
fn the_schema_refuses_what_the_check_warns_of() {
    for value in [
        json!({"modle": "a/b"}),
        json!({"permissions": {}}),
        json!({"model": "nothing"}),
        json!({"agent": {"a": {"model": "b"}}}),
        json!({"permission": "never"}),
        json!({"permission": {"bash": true}}),
        json!({"permission": {"bash": {"*": "alow"}}}),
        json!({"agent": {"a": {"mode": "third"}}}),
        json!({"agent": {"a": {"temperature": 3}}}),
        json!({"agent": {"a": {"top_p": -0.5}}}),
        json!({"agent": {"a": {"steps": 0}}}),
        json!({"agent": {"a": {"color": "#12"}}}),
        json!({"command": {"c": {"templat": "x"}}}),
        json!({"command": {"c": {"model": "x"}}}),
        json!({"compaction": {"auto": 3}}),
        json!({"compaction": {"atuo": true}}),
        json!({"share": "loud"}),
        json!({"logLevel": "LOUD"}),
        json!({"autoupdate": "always"}),
        json!({"server": {"port": 70_000}}),
        json!({"mcp": {"a": {"type": "locl", "command": ["x"]}}}),
        json!({"mcp": {"a": {"type": "local"}}}),
        json!({"mcp": {"a": {"type": "local", "command": ["x"], "enviroment": {}}}}),
        json!({"mcp": {"servers": {"a": {"type": "local"}}}}),
        json!({"provider": {"p": {"nmp": "x"}}}),
        json!({"provider": {"p": {"options": {"timeout": true}}}}),
        json!({"plugin": [["a", 1]]}),
        json!({"skills": {"urls": ["ftp://x"]}}),
        json!({"windlass": {"agents": {"urls": ["http://a.example"]}}}),
        json!({"experimental": {"batchTool": true}}),
        json!({"instructions": "a.md"}),
    ] {
        assert!(problem(&value).is_some(), "{value}");
        let mut findings = Findings::default();
        let mut layer = Layer::new(Kind::File, "f", Path::new("/"), value.as_object().unwrap().clone());
        lower(&mut layer, &mut findings);
        check_layer(&mut layer, &mut findings);
        assert!(!findings.warnings.is_empty(), "{value}");
    }
}
