//! The calls of every hook, field by field beside those that OpenCode makes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{example, runtimes};
use crate::support::{agent::Agent, llm::Reply, scratch::Scratch};

/// The fields that OpenCode passes, by hook, recorded with the same plugin.
const OPENCODE: &str = include_str!("../../fixtures/plugins/probe/opencode.json");
/// Fields that only one of both passes, by hook, each with the reason.
const DIFFERENCES: &str = include_str!("../../fixtures/plugins/probe/differences.json");

/// Adds the paths of a value's leaves, with their types. Models are named by their users.
fn shape(value: &Value, path: &str, fields: &mut BTreeSet<String>) {
    let kind = match value {
        // Each tool has its own.
        Value::Object(_) if path.ends_with("jsonSchema") => "schema",
        Value::Object(object) => {
            if object.is_empty() {
                fields.insert(format!("{path} {{}}"));
            }
            for (key, value) in object {
                let key = if path.ends_with("models") { "*" } else { key };
                shape(value, &format!("{path}.{key}"), fields);
            }
            return;
        }
        Value::Array(list) => {
            match list.first() {
                Some(first) => shape(first, &format!("{path}[]"), fields),
                None => _ = fields.insert(format!("{path} []")),
            }
            return;
        }
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
    };
    fields.insert(format!("{path} {kind}"));
}

fn recorded(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut hooks: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let hook = row["hook"].as_str().unwrap();
        if let Some(kind) = hook.strip_prefix("event ") {
            hooks.entry("event".to_owned()).or_default().insert(kind.to_owned());
            continue;
        }
        let fields = hooks.entry(hook.to_owned()).or_default();
        for key in ["input", "output"] {
            if let Some(value) = row.get(key) {
                shape(value, key, fields);
            }
        }
        for (key, word) in [("keys", "key"), ("client", "client"), ("context", "ctx")] {
            let names = row.get(key).and_then(Value::as_array).into_iter().flatten();
            fields.extend(names.map(|name| format!("{word} {}", name.as_str().unwrap())));
        }
    }
    hooks
}

#[tokio::test]
async fn every_hook_gets_the_fields_that_opencode_passes() {
    let expected: BTreeMap<String, BTreeSet<String>> = serde_json::from_str(OPENCODE).unwrap();
    let reasons: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(DIFFERENCES).unwrap();
    for mut config in runtimes() {
        let scratch = Scratch::new();
        config["plugin"] = json!([example("probe/plugin.ts")]);
        config["command"] = json!({"hello": {"template": "hi $ARGUMENTS", "description": "d"}});
        let login = json!({"mock": {"type": "api", "key": "stored-key", "metadata": {"m": "1"}}}).to_string();
        let builder = Agent::builder().scratch(&scratch).config(config);
        let agent = builder.env("OPENCODE_AUTH_CONTENT", &login).start().await;
        let session = agent.new_session().await;
        agent.told(&session, "bash", json!({"command": "echo hi"})).await;
        agent.told(&session, "probe", json!({})).await;
        agent.llm.reply(Reply::text("hello"));
        agent.prompt(&session, "/hello a b").await;
        agent.llm.reply(Reply::text("a summary"));
        agent.prompt(&session, "/compact").await;
        agent.finish().await;
        let ours = recorded(&scratch.read("recorded.jsonl"));
        let mut differences: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (hook, fields) in &expected {
            let empty = BTreeSet::new();
            let own = ours.get(hook).unwrap_or(&empty);
            let lacking = fields.difference(own).map(|field| format!("- {field}"));
            let more = own.difference(fields).map(|field| format!("+ {field}"));
            let of_hook: BTreeSet<String> = lacking.chain(more).collect();
            if !of_hook.is_empty() {
                differences.insert(hook.clone(), of_hook);
            }
        }
        let known = reasons.iter().map(|(hook, fields)| (hook.clone(), fields.keys().cloned().collect()));
        let known: BTreeMap<String, BTreeSet<String>> = known.collect();
        assert_eq!(differences, known, "{}", json!(differences));
    }
}
