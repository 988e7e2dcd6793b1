//! Verdicts of the schema, and the keys that it finds unknown.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use windlass_base::packed;

use super::make::schema;
use crate::config::{
    Environment, Findings,
    check::check as check_layer,
    layer::{self, Kind, Layer},
    normalize::normalize,
};

/// Returns the error that an editor would show for a file; `None` when it is right.
fn problem(value: &Value) -> Option<String> {
    let mut compiler = boon::Compiler::new();
    let mut schemas = boon::Schemas::new();
    compiler.add_resource("mem:/config.json", schema()).unwrap();
    let index = compiler.compile("mem:/config.json", &mut schemas).unwrap();
    schemas.validate(value, index).err().map(|error| format!("{error:#}"))
}

/// Returns every file of `fixtures/config` that a user would write, by its path there.
fn fixtures() -> Vec<(String, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/config");
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
        let base = file.parent().unwrap().to_owned();
        let context = layer::SourceContext {
            environment: &environment,
            kind: Kind::File,
            source,
            base,
            project_files: None,
        };
        let layer = layer::parse(context, &text, &mut findings);
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
        json!({"mcp": {"a": {"type": "remote", "url": "https://u", "oauth": {"clientId": "i", "scope": "s", "callbackPort": 1}}}}),
        json!({"agents": {"a": {"mode": "primary"}}, "commands": {"c": {"template": "x"}}, "media": {}, "snapshots": true}),
        json!({"model": "{env:MODEL}", "small_model": "a/{env:B}", "skills": {"urls": ["{env:SKILLS}"]}}),
        json!({"mcp": {"a": {"type": "remote", "url": "{file:url.txt}"}}, "agent": {"a": {"color": "{env:C}"}}}),
        json!({"compaction": {"keep": {"turns": 1}, "buffer": 2}, "theme": "dark", "keybinds": {}, "tui": {}}),
        json!({"experimental": {"hook": {"file_edited": {"*.rs": [{"command": ["x"]}]}}, "chatMaxRetries": 3}}),
        json!({"windlass": {"agents": {"urls": ["https://a.example", "http://127.0.0.1:1/x", "http://localhost"]}}}),
        json!({
            "permissions": [{"action": "shell", "resource": "git *", "effect": "allow"}, {"action": "*", "effect": "ask"}],
            "policies": [{"action": "provider.use", "resource": "openai", "effect": "deny"}],
            "model": {"providerID": "a", "model": "b/c", "variant": "high"},
            "agents": {"a": {"model": "a/b#low", "system": "Judge.", "request": {"body": {"x": 1}}, "disabled": true}},
            "skills": ["./s", "https://s.example"],
            "plugins": ["one", {"package": "two", "options": {"x": 1}}],
            "update": "disable",
            "websearch": false,
            "warming": true,
            "worktree": {"directory": "../w"},
        }),
        json!({"mcp": {"timeout": {"startup": 5}, "servers": {
            "a": {"type": "remote", "url": "https://u", "oauth": {"client_id": "i"}, "timeout": {"execution": 5}, "codemode": false},
        }}}),
        json!({"providers": {"p": {
            "canonical": "openai", "package": "aisdk:x", "settings": {"baseURL": "https://u", "own": 1},
            "models": {"m": {"modelID": "n", "capabilities": {"tools": true}, "cost": {"input": 1, "cache": {"read": 0.5}},
                "variants": [{"id": "high", "body": {}}], "limit": {"context": 1, "output": 1}, "disabled": false}},
        }}}),
    ] {
        assert_eq!(problem(&value), None, "{value}");
    }
}

#[test]
fn the_schema_refuses_what_the_check_warns_of() {
    for value in [
        json!({"modle": "a/b"}),
        json!({"permissions": {}}),
        json!({"permissions": [{"action": "bash", "effect": "perhaps"}]}),
        json!({"policies": [{"action": "provider.use", "resource": "x", "effect": "allow", "until": "noon"}]}),
        json!({"agents": {"a": {"model": {"providerID": "a/b", "model": "c"}}}}),
        json!({"plugins": [{"package": "a", "option": {}}]}),
        json!({"mcp": {"timeout": {"startup": "long"}}}),
        json!({"providers": {"p": {"npm": "x"}}}),
        json!({"providers": {"p": {"models": {"m": {"cost": {"input": "much"}}}}}}),
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
        normalize(&mut layer, &mut findings);
        check_layer(&mut layer, &mut findings);
        assert!(!findings.warnings.is_empty(), "{value}");
    }
}

/// Returns true if our own check says nothing against a file.
fn is_taken(value: &Value) -> bool {
    let mut findings = Findings::default();
    let mut layer = Layer::new(Kind::File, "f", Path::new("/"), value.as_object().unwrap().clone());
    normalize(&mut layer, &mut findings);
    check_layer(&mut layer, &mut findings);
    findings.warnings.is_empty()
}

/// Returns every place where a value may stand, as a file with `PLACE` there and only the values that must stand beside
/// it.
fn places(whole: &Value, schema: &Value, wrap: &dyn Fn(Value) -> Value, found: &mut Vec<Value>) {
    if let Some(name) = schema["$ref"].as_str() {
        return places(whole, whole.pointer(&name[1..]).unwrap(), wrap, found);
    }
    if schema.get("required").is_some() && schema.get("type").is_none() {
        return;
    }
    for word in ["anyOf", "oneOf", "allOf"] {
        schema[word].as_array().into_iter().flatten().for_each(|it| places(whole, it, wrap, found));
    }
    let beside = |key: &str| -> Map<String, Value> {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let sample = |name: &str| match &schema["properties"][name] {
            one if one["const"].is_string() => one["const"].clone(),
            one if one["type"] == "array" => json!(["x"]),
            _ => json!("https://host.example"),
        };
        required.filter(|name| *name != key).map(|name| (name.to_owned(), sample(name))).collect()
    };
    let named = schema["properties"].as_object().into_iter().flatten().map(|(key, it)| (key.as_str(), it));
    let other = Some(("other", &schema["additionalProperties"])).filter(|(_, it)| it.is_object());
    for (key, inner) in named.chain(other) {
        let wrap = |value: Value| {
            let mut object = beside(key);
            object.insert(key.to_owned(), value);
            wrap(Value::Object(object))
        };
        found.push(wrap(json!("PLACE")));
        places(whole, inner, &wrap, found);
    }
    if let items @ Value::Object(_) = &schema["items"] {
        let wrap = |value: Value| wrap(json!([value]));
        found.push(wrap(json!("PLACE")));
        places(whole, items, &wrap, found);
    }
}

fn edge_values() -> Vec<Value> {
    let text = r##"[
        null, true, false, 0, 1, -1, 1.5, 2.0, 70000, 3e9, 5e9, 1e30,
        "", " ", "x", "a/b", "a/b#c", "a/#b", "a#b/c", "/b", "#fff", "#ffff", "primary", "success", "allow",
        "https://h", "http://h", "http://localhost:1", "http://u@127.0.0.1/x", "http://", "https://h h",
        "https://:1", "https://[::1]/", "https://[]", "${X}/y", "nonsense",
        [], [null], [""], ["x"], ["x", ""], ["https://h"], ["http://127.0.0.1:1/"], [["x"]], [["x", {}]], [["x", null]],
        [["x", {}, {}]], [{}], [{"command": null}],
        {}, {"x": null}, {"x": {}}, {"x": "ask"}, {"x": "no"}, {"x": true}, {"x": false}, {"x": 1}, {"x": {"*": null}},
        {"x": {"*": "deny", "y": false}}, {"x": {"y": {}}}, {"": {}}, {"a/../b": {}}, {"..": null}, {"a b": {}},
        {"turns": 1}, {"tokens": null, "turns": null}, {"type": "local"}, {"type": null}, {"enabled": false},
        {"type": "local", "command": ["x"], "url": "https://h"}, {"type": "remote", "url": "https://h", "cwd": null},
        {"command": ["x"], "url": "https://h"}, {"type": "remote", "url": null}
    ]"##;
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_schema_takes_what_the_check_takes_and_nothing_else() {
    let schema = schema();
    let mut compiler = boon::Compiler::new();
    let mut schemas = boon::Schemas::new();
    compiler.add_resource("mem:/config.json", schema.clone()).unwrap();
    let index = compiler.compile("mem:/config.json", &mut schemas).unwrap();
    let mut files = Vec::new();
    places(&schema, &schema, &|value| value, &mut files);
    files.sort_by_key(ToString::to_string);
    files.dedup();
    assert!(files.len() > 300, "{}", files.len());
    let edges: Vec<String> = edge_values().iter().map(ToString::to_string).collect();
    let mut differing = Vec::new();
    let mut n_taken = 0;
    let fixtures = fixtures().into_iter().map(|(_, value)| value);
    let swept = files.iter().map(ToString::to_string).flat_map(|file| {
        let filled = edges.iter().map(move |edge| file.replace("\"PLACE\"", edge));
        filled.map(|text| serde_json::from_str::<Value>(&text).unwrap()).collect::<Vec<Value>>()
    });
    for value in swept.chain(fixtures) {
        let is_valid = schemas.validate(&value, index).is_ok();
        n_taken += usize::from(is_valid);
        if is_taken(&value) != is_valid {
            differing.push(format!("the schema {} {value}", if is_valid { "takes" } else { "refuses" }));
        }
    }
    assert!(n_taken > 3000, "{n_taken}");
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

#[test]
fn the_schema_in_the_binary_is_the_one_of_the_types() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/schema.json.gz");
    packed::check(&format!("{:#}", schema()), super::PACKED, &file);
}
