//! Lists of servers, and the parts of them that are believed.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{KeptAgent, Listed, Text, layers, read_file, read_index};
use crate::config::cache::Listing;

fn listed(index: &Value) -> (Vec<(String, Value)>, Vec<String>) {
    let (agents, problems) = read_index(index.to_string().as_bytes()).unwrap();
    let shown = |agent: Listed| match agent.text {
        Text::Here(definition) => (agent.name, Value::Object(definition)),
        Text::File(file) => (agent.name, json!([file, agent.version])),
    };
    (agents.into_iter().map(shown).collect(), problems)
}

fn check(index: Value, expected: Value) {
    let (agents, problems) = listed(&index);
    let agents = Value::Object(Map::from_iter(agents));
    assert_eq!((agents, problems), (expected, Vec::new()));
}

#[test]
fn every_form_of_a_list_is_read() {
    let expected = json!({"team/poet": {"prompt": "Rhyme.", "mode": "primary"}});
    check(
        json!({"agents": [{"name": "team/poet", "prompt": "Rhyme.", "mode": "primary"}]}),
        expected.clone(),
    );
    check(json!({"agent": {"team/poet": {"prompt": "Rhyme.", "mode": "primary"}}}), expected.clone());
    check(json!({"agents": {"team/poet": {"prompt": "Rhyme.", "mode": "primary"}}}), expected);
    check(
        json!([{"id": "a", "name": "An A", "systemPrompt": "Do.", "permissions": {"edit": "deny"}, "version": 2}]),
        json!({"a": {"name": "An A", "prompt": "Do.", "permission": {"edit": "deny"}}}),
    );
    check(json!({"agents": [{"name": "b", "file": "x/b.md", "version": 3}]}), json!({"b": ["x/b.md", "3"]}));
}

#[test]
fn what_a_server_has_no_say_in_is_left_out() {
    check(
        json!([{"name": "a", "disable": true, "tools": {"write": false, "bash": true}, "permission": {"read": "allow"}}]),
        json!({"a": {"tools": {"write": false, "bash": true}, "permission": {"read": "allow"}}}),
    );
    let index = json!({"agents": [
        {"name": "../up"}, {"name": ""}, {"name": "build"}, {"prompt": "x"}, 7, {"name": "ok"}, {"name": "ok"},
        {"name": "f", "file": "../f.md"}, {"name": "f", "file": "/etc/passwd"}, {"name": "f", "file": "a/%2e%2e/b.md"},
        {"name": "f", "file": "http://else.where/f.md"}, {"name": "f", "file": 1},
    ]});
    let (agents, problems) = listed(&index);
    assert_eq!(agents, [("ok".to_owned(), json!({}))]);
    let starts = [
        "agent 1 is left out: \"../up\": a part of its name is `..`",
        "agent 2 is left out: \"\": its name is empty",
        "agent 3 is left out: `build` is built in, and only your own files change it",
        "agent 4 is left out: it has no `name`",
        "agent 5 is left out: it is not an object",
        "the agent `ok` is a duplicate; the first holds",
        "agent 8 is left out: its file \"../f.md\" is not a path below the list",
    ];
    assert_eq!(problems[..7], starts);
    assert_eq!(problems.len(), 11);
    assert_eq!(read_index(b"<html>").unwrap_err(), "is not JSON (expected value at line 1 column 1)");
    assert_eq!(read_index(b"{}").unwrap_err(), "has no list `agents`");
}

#[test]
fn a_markdown_agent_is_front_matter_and_prompt() {
    let (definition, places) =
        read_file("---\nmode: subagent\ndisable: true\n---\n\nSay {env:HOME}.\n").unwrap();
    assert_eq!(Value::Object(definition), json!({"mode": "subagent", "prompt": "Say {env:HOME}."}));
    assert_eq!((places["/mode"], places["/prompt"]), ((2, 1), (6, 1)));
    assert!(read_file("---\nmode: [x\n---\n").unwrap_err().starts_with("3:1: is not valid YAML"));
}

#[test]
fn what_a_server_says_stands_where_its_list_has_it() {
    let text = "{\"agents\": [\n {\"name\": \"a\",\n  \"systemPrompt\": \"Do.\",\n  \"permissions\": {\"edit\": \"deny\", \"edit\": \"ask\"}}]}";
    let (agents, problems) = read_index(text.as_bytes()).unwrap();
    assert_eq!(problems, ["4:35: agents.0.permissions.edit: duplicate key, on line 4; the first is ignored"]);
    let kept = KeptAgent {
        name: "a".to_owned(),
        version: None,
        file: None,
        definition: json!({"prompt": "Do."}).as_object().unwrap().clone(),
        places: agents[0].places.clone(),
    };
    let url = "https://agents.example/m".to_owned();
    let layer = layers(Listing { url, entries: vec![kept], problems: Vec::new() }, Path::new("/")).remove(0);
    let positions = [&["agent", "a"][..], &["agent", "a", "prompt"], &["agent", "a", "permission", "edit"]]
        .map(|path| layer.position(path));
    assert_eq!(positions, [Some((2, 2)), Some((3, 3)), Some((4, 35))]);
}
