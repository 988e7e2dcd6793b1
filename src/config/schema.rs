//! The JSON schema of the configuration: it takes what the check lets pass, and refuses what that warns of.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use windlass_protocol::opencode::config::ConfigFile;

/// Names of colours in OpenCode.
pub const COLORS: [&str; 7] = ["primary", "secondary", "accent", "success", "warning", "error", "info"];

/// Objects that take other keys too: an agent's go to its model, and providers have fields of their own.
const OPEN: [&str; 8] = [
    "AgentConfig",
    "ProviderOptions",
    "ModelConfig",
    "ModelProvider",
    "ModelLimit",
    "ModelCost",
    "LongContextCost",
    "Modalities",
];

/// An address with a host, as `remote::url_problem` has it.
const URL: &str =
    r"https?://(\[[^\]/?#\s\x00-\x1f\x7f-\x9f]+|[^\[:/?#\s\x00-\x1f\x7f-\x9f])[^\s\x00-\x1f\x7f-\x9f]*";

/// Placeholders that are filled in while a file is read, so that their text cannot be checked.
const FILLED_IN: &str = r"\{(env|file):[^}]*\}";

/// Names in which `check::name_problem` finds a problem.
const NO_NAME: &str = r"(^|/)\.{0,2}(/|$)|[\x00-\x1f\x7f-\x9f]|^\s*$";

/// Returns the schema of a whole file, for editors.
pub fn schema() -> Value {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<ConfigFile>();
    let mut schema = schema.to_value();
    close(&mut schema);
    for (name, definition) in schema["definitions"].as_object_mut().into_iter().flatten() {
        if !OPEN.contains(&name.as_str()) {
            close(definition);
        }
    }
    bound(&mut schema);
    add_older_spellings(&mut schema);
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

/// Says what the types cannot: ranges and patterns, as `check` has them.
fn bound(schema: &mut Value) {
    let model = json!({"pattern": format!("^[^/#]+/[^#]+|{FILLED_IN}")});
    let color = format!("^(#([0-9a-fA-F]{{3}}){{1,2}}|{})$|{FILLED_IN}", COLORS.join("|"));
    let said = json!({"pattern": "\\S"});
    let url = format!("^{URL}$|{FILLED_IN}");
    let urls = json!({"items": {"type": "string", "pattern": url}});
    // A text that is empty or begins with a variable is known later.
    let late_url = json!({"pattern": format!("^($|\\$\\{{|{URL}$)|{FILLED_IN}")});
    let trusted = "^(https://|http://([^/?#@\\s]*@)?(localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?([/?#]|$))";
    let trusted = format!("{trusted}|{FILLED_IN}");
    let trusted = json!({"items": {"type": "string", "allOf": [{"pattern": url}, {"pattern": trusted}]}});
    let program = json!({"not": {"type": "array", "items": [{"const": ""}]}});
    let names = json!({"propertyNames": {"not": {"pattern": NO_NAME}}});
    let no = json!({"type": "null"});
    let pair = json!({"minItems": 2, "maxItems": 2});
    let bounds = [
        ("/properties/model", model.clone()),
        ("/properties/small_model", model.clone()),
        ("/properties/agent", names.clone()),
        ("/properties/mode", names.clone()),
        ("/properties/command", names),
        ("/definitions/AgentConfig/properties/model", model.clone()),
        ("/definitions/AgentConfig/properties/variant", said.clone()),
        ("/definitions/AgentConfig/properties/prompt", said),
        ("/definitions/AgentConfig/properties/temperature", json!({"minimum": 0, "maximum": 2})),
        ("/definitions/AgentConfig/properties/top_p", json!({"minimum": 0, "maximum": 1})),
        ("/definitions/AgentConfig/properties/steps", json!({"minimum": 1})),
        ("/definitions/ToolOutputSettings/properties/max_lines", json!({"minimum": 1, "maximum": 1_000_000})),
        (
            "/definitions/ToolOutputSettings/properties/max_bytes",
            json!({"minimum": 1, "maximum": 10_000_000}),
        ),
        (
            "/definitions/WindlassSettings/properties/max_answer_bytes",
            json!({"minimum": 1, "maximum": 67_108_864}),
        ),
        ("/definitions/AgentConfig/properties/color", json!({"pattern": color})),
        ("/definitions/CommandConfig/properties/model", model),
        ("/definitions/SkillsConfig/properties/urls", urls),
        ("/definitions/MarketSettings/properties/urls", trusted),
        ("/definitions/ProviderOptions/properties/baseURL", late_url.clone()),
        ("/definitions/WindlassSettings/properties/exa_url", late_url.clone()),
        ("/definitions/WindlassSettings/properties/parallel_url", late_url),
        ("/definitions/McpPart/properties/url", json!({"pattern": url})),
        ("/definitions/McpPart/properties/command", program.clone()),
        ("/definitions/McpPart/properties", json!({"type": no})),
        ("/definitions/McpConfig/oneOf/0/properties", json!({"url": no, "headers": no, "oauth": no})),
        ("/definitions/McpConfig/oneOf/1/properties", json!({"command": no, "cwd": no, "environment": no})),
        ("/definitions/McpConfig/oneOf/0/properties/command", program),
        ("/definitions/McpConfig/oneOf/1/properties/url", json!({"pattern": url})),
        ("/definitions/PluginSpec/anyOf/1", pair),
    ];
    for (place, words) in bounds {
        if let (Some(Value::Object(place)), Value::Object(words)) = (schema.pointer_mut(place), words) {
            place.extend(words);
        }
    }
    for choices in ["/definitions/ActionOrFalse/anyOf", "/definitions/Limit/anyOf"] {
        for choice in schema.pointer_mut(choices).and_then(Value::as_array_mut).into_iter().flatten() {
            if choice["type"] == "boolean" {
                *choice = json!({"const": false});
            }
        }
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

/// Adds what `normalize` rewrites: deprecated forms, and those of newer versions.
fn add_older_spellings(schema: &mut Value) {
    let deprecated = |value: &Value| {
        let mut value = value.clone();
        value["deprecated"] = Value::Bool(true);
        value
    };
    let renamed = [
        ("agents", "agent"),
        ("commands", "command"),
        ("reference", "references"),
        ("snapshots", "snapshot"),
        ("media", "attachment"),
    ];
    for (older, key) in renamed {
        schema["properties"][older] = deprecated(&schema["properties"][key]);
    }
    for key in ["theme", "keybinds", "tui"] {
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
    let steps = deprecated(&schema["definitions"]["AgentConfig"]["properties"]["steps"]);
    schema["definitions"]["AgentConfig"]["properties"]["maxSteps"] = steps;
    let turns = json!({"type": "integer", "minimum": 0, "format": "uint32"});
    let amount = json!({"type": "integer", "minimum": 0, "format": "uint64"});
    let kept = json!({"type": "object", "properties": {"turns": turns, "tokens": amount}, "additionalProperties": false});
    let compaction = &mut schema["definitions"]["CompactionSettings"]["properties"];
    compaction["keep"] = json!({"anyOf": [amount, kept], "deprecated": true});
    compaction["buffer"] = deprecated(&amount);
}

#[cfg(test)]
mod tests;
