//! Makes the schema from the types: it takes values that the check lets pass, and refuses those that it warns of.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use windlass_protocol::opencode::config::ConfigFile;

use super::second_version;
use crate::config::{formats::COLORS, normalize};

/// An address with a host, as `remote::url_problem` has it.
const URL: &str =
    r"https?://(\[[^\]/?#\s\x00-\x1f\x7f-\x9f]+|[^\[:/?#\s\x00-\x1f\x7f-\x9f])[^\s\x00-\x1f\x7f-\x9f]*";

/// An address that `remote::is_trusted` accepts.
const TRUSTED: &str = r"(https://|http://([^/?#@\s]*@)?(localhost|127\.[0-9.]+|\[::1\])(:[0-9]+)?([/?#]|$))";

/// Placeholders that are filled in while a file is read, so that their text cannot be checked.
const FILLED_IN: &str = r"\{(env|file):[^}]*\}";

/// A host with a port, as `base::names` reads it.
const HOST: &str = r"(\*|(\*\.)?[\p{L}\p{N}_\-]+(\.[\p{L}\p{N}_\-]+)*\.?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?";

/// Names in which [`name_problem`] finds a problem.
const NO_NAME: &str = r"(^|/)\.{0,2}(/|$)|[\x00-\x1f\x7f-\x9f]|^\s*$";

/// Returns the schema of a whole file, for editors.
pub fn schema() -> Value {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<ConfigFile>();
    let mut schema = schema.to_value();
    close(&mut schema);
    schema["definitions"].as_object_mut().into_iter().flatten().for_each(|(_, it)| close(it));
    second_version::add_servers(&mut schema);
    allow_parts_of_servers(&mut schema);
    each(&mut schema, &mut add_format);
    add_older_spellings(&mut schema);
    second_version::add(&mut schema);
    limit_integers(&mut schema);
    allow_nulls(&mut schema);
    if let Value::Object(schema) = &mut schema {
        schema.insert("title".to_owned(), Value::from("opencode.json, as windlass reads it"));
        schema.insert("allowComments".to_owned(), Value::Bool(true));
        schema.insert("allowTrailingCommas".to_owned(), Value::Bool(true));
    }
    schema
}

/// Lets an object have the keys that are named and no others.
fn close(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    for word in ["anyOf", "oneOf"] {
        schema.get_mut(word).and_then(Value::as_array_mut).into_iter().flatten().for_each(close);
    }
    if schema.contains_key("properties") {
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
    }
}

/// Takes a part of a server too, which changes a weaker file's server, and refuses keys of the other kind.
fn allow_parts_of_servers(schema: &mut Value) {
    let no_value = json!({"type": "null"});
    let Some(kinds) = schema["definitions"]["McpConfig"]["oneOf"].as_array_mut() else { return };
    let mut all = Map::new();
    let mut properties: Vec<_> = kinds.iter_mut().filter_map(|it| it["properties"].as_object_mut()).collect();
    properties.iter().for_each(|own| all.extend((*own).clone()));
    all.insert("type".to_owned(), no_value.clone());
    for own in &mut properties {
        for key in all.keys() {
            own.entry(key).or_insert_with(|| no_value.clone());
        }
    }
    schema["definitions"]["McpPart"] =
        json!({"type": "object", "properties": all, "additionalProperties": false});
    let servers = ["McpConfig", "McpPart"].map(|name| json!({"$ref": format!("#/definitions/{name}")}));
    schema["properties"]["mcp"]["additionalProperties"] = json!({"anyOf": servers});
}

/// Replaces the name of a format of ours by its keywords.
fn add_format(schema: &mut Map<String, Value>) {
    let format = schema.get("format").and_then(Value::as_str).and_then(keywords);
    if let Some(Value::Object(keywords)) = format {
        schema.shift_remove("format");
        schema.extend(keywords);
    }
}

/// Calls `found` with a schema and every one within it, inner ones first.
fn each(schema: &mut Value, found: &mut dyn FnMut(&mut Map<String, Value>)) {
    let Value::Object(object) = schema else { return };
    for word in ["properties", "definitions"] {
        let named = object.get_mut(word).and_then(Value::as_object_mut).into_iter().flatten();
        named.for_each(|(_, schema)| each(schema, found));
    }
    for word in ["anyOf", "oneOf", "allOf"] {
        let choices = object.get_mut(word).and_then(Value::as_array_mut).into_iter().flatten();
        choices.for_each(|schema| each(schema, found));
    }
    for word in ["additionalProperties", "items"] {
        match object.get_mut(word) {
            Some(Value::Array(places)) => places.iter_mut().for_each(|schema| each(schema, found)),
            Some(schema) => each(schema, found),
            None => {}
        }
    }
    found(object);
}

/// Refuses numbers that are too large for their type.
fn limit_integers(schema: &mut Value) {
    each(schema, &mut |schema| {
        let most = match schema.get("format").and_then(Value::as_str) {
            Some("uint32") => u64::from(u32::MAX),
            Some("uint64" | "uint") => u64::MAX,
            Some(_) | None => return,
        };
        schema.entry("maximum").or_insert(Value::from(most));
    });
}

/// Takes `null` for every value that need not be there: it says nothing.
fn allow_nulls(schema: &mut Value) {
    each(schema, &mut |schema| {
        let required = schema.get("required").cloned().unwrap_or_default();
        let is_required = |key: &str| required.as_array().is_some_and(|keys| keys.iter().any(|it| it == key));
        for (key, schema) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
        {
            if !is_required(key) {
                allow_null(schema);
            }
        }
        schema.get_mut("additionalProperties").into_iter().for_each(allow_null);
    });
}

fn allow_null(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    let no_value = json!({"type": "null"});
    if let Some(reference) = object.remove("$ref") {
        object.insert("anyOf".to_owned(), json!([{"$ref": reference}, no_value]));
        return;
    }
    if let Some(all) = object.remove("allOf") {
        object.insert("anyOf".to_owned(), json!([{"allOf": all}, no_value]));
        return;
    }
    for word in ["anyOf", "oneOf"] {
        if let Some(Value::Array(choices)) = object.get_mut(word) {
            if !choices.contains(&no_value) {
                choices.push(no_value);
            }
            return;
        }
    }
    if let Some(Value::Array(words)) = object.get_mut("enum")
        && !words.contains(&Value::Null)
    {
        words.push(Value::Null);
    }
    match object.get_mut("type") {
        Some(Value::Array(types)) if !types.iter().any(|it| it == "null") => types.push(Value::from("null")),
        Some(Value::String(one)) if one != "null" => {
            let one = one.clone();
            object.insert("type".to_owned(), json!([one, "null"]));
        }
        Some(_) | None => {}
    }
}

/// Adds the forms that `normalize` rewrites: deprecated ones, and those of newer versions.
fn add_older_spellings(schema: &mut Value) {
    let deprecated = |value: &Value| {
        let mut value = value.clone();
        value["deprecated"] = Value::Bool(true);
        value
    };
    for (older, key) in normalize::RENAMED {
        schema["properties"][older] = deprecated(&schema["properties"][key]);
    }
    for key in normalize::TERMINAL_KEYS {
        schema["properties"][key] = json!({
            "deprecated": true, "description": "Belongs to OpenCode's terminal interface; no effect here.",
        });
    }
    let entry = schema["properties"]["mcp"]["additionalProperties"].clone();
    let servers = json!({"type": "object", "additionalProperties": entry});
    // A server of that name is told from an object of servers by these.
    let is_one = json!({"anyOf": [{"required": ["type"]}, {"required": ["enabled"]}]});
    let one = json!({"allOf": [entry, is_one]});
    let servers = json!({"allOf": [servers, {"not": is_one}]});
    schema["properties"]["mcp"]["properties"] =
        json!({"servers": {"anyOf": [servers, one], "deprecated": true}});
    // Lists of tools, as agents of Claude Code have them.
    let word = r"[\p{L}\p{N}_.:/@*?][\p{L}\p{N}_\-.:/@*?]*(\([^()]*\))?";
    let text = json!({"type": "string", "pattern": format!(r"^[\s,]*({word}([\s,]+{word})*[\s,]*)?$")});
    let list = json!({"anyOf": [text, {"type": "array", "items": text}]});
    for owner in ["", "/definitions/AgentConfig"] {
        let Some(keys) = schema.pointer_mut(owner).and_then(|owner| owner["properties"].as_object_mut())
        else {
            continue;
        };
        let switches = keys.get("tools").cloned().unwrap_or_default();
        keys.insert("tools".to_owned(), json!({"anyOf": [switches, list]}));
        keys.insert("disallowedTools".to_owned(), list.clone());
    }
    let steps = deprecated(&schema["definitions"]["AgentConfig"]["properties"]["steps"]);
    schema["definitions"]["AgentConfig"]["properties"]["maxSteps"] = steps;
    let turns = json!({"type": "integer", "minimum": 0, "format": "uint32"});
    let amount = json!({"type": "integer", "minimum": 0, "format": "uint64"});
    let kept = json!({"type": "object", "properties": {"turns": turns, "tokens": amount}, "additionalProperties": false});
    let compaction = &mut schema["definitions"]["CompactionSettings"]["properties"];
    compaction["keep"] = json!({"anyOf": [amount, kept], "deprecated": true});
    compaction["buffer"] = deprecated(&amount);
}

/// Returns the keywords of a format of [`crate::config::formats`].
fn keywords(format: &str) -> Option<Value> {
    Some(match format {
        "model" => json!({"pattern": format!("^[^/#]+/[^#]+|{FILLED_IN}")}),
        "color" => {
            let names = COLORS.join("|");
            json!({"pattern": format!("^(#([0-9a-fA-F]{{3}}){{1,2}}|{names})$|{FILLED_IN}")})
        }
        "text" => json!({"pattern": "\\S"}),
        "url" => json!({"pattern": format!("^{URL}$|{FILLED_IN}")}),
        "trusted-url" => {
            let patterns = [format!("^{URL}$|{FILLED_IN}"), format!("^{TRUSTED}|{FILLED_IN}")];
            json!({"allOf": patterns.map(|pattern| json!({"pattern": pattern}))})
        }
        "late-url" => json!({"pattern": format!("^($|\\$\\{{|{URL}$)|{FILLED_IN}")}),
        "host" => json!({"pattern": format!("^{HOST}$|{FILLED_IN}")}),
        "program" => json!({"not": {"type": "array", "items": [{"const": ""}]}}),
        "by-name" => json!({"propertyNames": {"not": {"pattern": NO_NAME}}}),
        _ => return None,
    })
}
