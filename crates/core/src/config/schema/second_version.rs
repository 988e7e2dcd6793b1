//! Adds the forms of OpenCode's second version, which `normalize` rewrites.

use serde_json::{Map, Value, json};

use crate::config::normalize::{
    providers::{
        CAPABILITIES, MODEL, MODEL_WITHOUT_EFFECT, PROVIDER, PROVIDER_WITHOUT_EFFECT, VARIANT_WITHOUT_EFFECT,
    },
    second_version::{LIMITS, LOGIN, POLICIES, SERVER_WITHOUT_EFFECT, WITHOUT_EFFECT},
};

/// Adds keys of servers, before parts of servers are made of these.
pub fn add_servers(schema: &mut Value) {
    let login = &mut schema["definitions"]["McpOauthClient"]["properties"];
    for (from, to) in LOGIN {
        login[from] = login[to].clone();
    }
    let kinds = schema["definitions"]["McpConfig"]["oneOf"].as_array_mut();
    for keys in kinds.into_iter().flatten().filter_map(|kind| kind["properties"].as_object_mut()) {
        SERVER_WITHOUT_EFFECT.iter().for_each(|key| _ = keys.insert((*key).to_owned(), json!({})));
        keys.insert("disabled".to_owned(), switch());
        let timeout = keys.get("timeout").cloned().unwrap_or_default();
        keys.insert("timeout".to_owned(), either([timeout.clone(), limits(&timeout)]));
    }
}

/// Adds all others.
pub fn add(schema: &mut Value) {
    let text = json!({"type": "string"});
    let rule = |effects: &[&str], actions: Option<&[&str]>| {
        let action = actions.map_or(text.clone(), |actions| json!({"enum": actions}));
        let keys = json!({"action": action, "resource": text, "effect": {"enum": effects}});
        list(closed(keys, &["action", "effect"]))
    };
    let rules = rule(&["allow", "ask", "deny"], None);
    let name = json!({"type": "string", "pattern": r"^[^#\s]+$"});
    let provider_name = json!({"type": "string", "pattern": r"^[^/#\s]+$"});
    let model = closed(
        json!({"providerID": provider_name, "model": name, "variant": name}),
        &["providerID", "model"],
    );
    for owner in ["", "/definitions/AgentConfig", "/definitions/CommandConfig"] {
        let Some(keys) = schema.pointer_mut(owner).map(|owner| &mut owner["properties"]) else { continue };
        keys["model"] = either([keys["model"].clone(), model.clone()]);
        if owner != "/definitions/CommandConfig" {
            keys["permissions"] = rules.clone();
        }
    }
    let agent = &mut schema["definitions"]["AgentConfig"]["properties"];
    agent["disabled"] = switch();
    agent["system"] = agent["prompt"].clone();
    agent["request"] = closed(json!({"headers": {}, "body": agent["options"]}), &[]);
    let command = &mut schema["definitions"]["CommandConfig"]["properties"];
    command["subagent"] = command["subtask"].clone();

    let provider = provider(schema);
    let skills = &schema["definitions"]["SkillsConfig"]["properties"];
    let address = json!({"pattern": "^https?://"});
    let skill = either([
        json!({"allOf": [skills["paths"]["items"], {"not": address}]}),
        json!({"allOf": [skills["urls"]["items"], address]}),
    ]);
    let policies = rule(&["allow", "deny"], Some(&POLICIES));
    schema["definitions"]["ExperimentalSettings"]["properties"]["policies"] = policies.clone();
    let keys = &mut schema["properties"];
    keys["policies"] = policies;
    keys["skills"] = either([keys["skills"].clone(), list(skill)]);
    let plugin = closed(json!({"package": text, "options": {"type": "object"}}), &["package"]);
    keys["plugins"] = list(either([keys["plugin"]["items"].clone(), plugin]));
    keys["update"] = either([keys["autoupdate"].clone(), json!({"enum": ["auto", "disable"]})]);
    keys["websearch"] = json!({"anyOf": [{"const": false}, {"type": "object"}]});
    keys["providers"] = keys["provider"].clone();
    keys["providers"]["additionalProperties"] = provider;
    WITHOUT_EFFECT.iter().for_each(|key| keys[*key] = json!({}));
    let timeout = schema["definitions"]["ExperimentalSettings"]["properties"]["mcp_timeout"].clone();
    let mcp = &mut schema["properties"]["mcp"];
    mcp["properties"]["timeout"] = either([mcp["additionalProperties"].clone(), limits(&timeout)]);
}

/// Returns the schema of a provider, by that of ours.
fn provider(schema: &Value) -> Value {
    let inner = |owner: &Value, path: &[&str]| -> Value {
        path.iter().fold(owner.clone(), |owner, key| resolved(schema, &owner)["properties"][*key].clone())
    };
    let keys = |owner: &str, rows: &[(&str, &[&str])], without_effect: &[&str]| -> Map<String, Value> {
        let owner = &schema["definitions"][owner];
        let rows = rows.iter().map(|(from, to)| ((*from).to_owned(), inner(owner, to)));
        rows.chain(without_effect.iter().map(|key| ((*key).to_owned(), json!({})))).collect()
    };
    let mut model = keys("ModelConfig", &MODEL, &MODEL_WITHOUT_EFFECT);
    let mut capabilities = keys("ModelConfig", &CAPABILITIES, &[]);
    let supported = json!({"type": "object", "properties": {"supported": {"type": "boolean"}}});
    capabilities.insert("reasoning".to_owned(), json!({"anyOf": [{"type": "boolean"}, supported]}));
    model.insert("capabilities".to_owned(), closed(capabilities.into(), &[]));
    model.insert("disabled".to_owned(), json!({"type": "boolean"}));
    let price = |key: &str| schema["definitions"]["ModelCost"]["properties"][key].clone();
    let cache = json!({"read": price("cache_read"), "write": price("cache_write")});
    let cache = json!({"type": "object", "properties": cache});
    let cost = json!({"input": price("input"), "output": price("output"), "cache": cache, "tier": {}});
    let cost = json!({"type": "object", "properties": cost});
    model.insert("cost".to_owned(), json!({"anyOf": [cost, list(cost.clone())]}));
    let mut variant = Map::from_iter([("id".to_owned(), json!({"type": "string"}))]);
    variant.extend(["settings", "body"].map(|key| (key.to_owned(), json!({"type": "object"}))));
    variant.insert("disabled".to_owned(), json!({}));
    variant.extend(VARIANT_WITHOUT_EFFECT.map(|key| (key.to_owned(), json!({}))));
    model.insert("variants".to_owned(), list(closed(variant.into(), &["id"])));
    let mut provider = keys("ProviderConfig", &PROVIDER, &PROVIDER_WITHOUT_EFFECT);
    let models = &schema["definitions"]["ProviderConfig"]["properties"]["models"];
    let mut models = models.clone();
    models["additionalProperties"] = closed(model.into(), &[]);
    provider.insert("models".to_owned(), models);
    closed(provider.into(), &[])
}

/// Returns the schema behind a reference, also one of several choices.
fn resolved<'a>(schema: &'a Value, owner: &'a Value) -> &'a Value {
    let choices = ["anyOf", "allOf"].into_iter().filter_map(|word| owner[word].as_array()).flatten();
    let named = std::iter::once(owner).chain(choices).find_map(|it| it["$ref"].as_str());
    named.and_then(|name| schema.pointer(&name[1..])).unwrap_or(owner)
}

/// Returns the schema of a switch that is read with some leniency.
fn switch() -> Value {
    json!({"enum": [true, false, 0, 1]})
}

fn limits(one: &Value) -> Value {
    closed(LIMITS.iter().map(|key| ((*key).to_owned(), one.clone())).collect(), &[])
}

fn closed(keys: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": keys, "required": required, "additionalProperties": false})
}

fn list(element: Value) -> Value {
    json!({"type": "array", "items": element})
}

fn either(choices: [Value; 2]) -> Value {
    json!({"anyOf": choices})
}
