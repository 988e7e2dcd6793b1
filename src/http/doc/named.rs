//! Gives names to schemas that stand within others, because generators of clients make one class for each name.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The name of an object with any keys.
const ANY: &str = "AnyObject";

/// Names every object within the schemas, by the way that leads to it.
pub fn name_all(schemas: &mut Map<String, Value>) {
    let names: Vec<String> = schemas.keys().cloned().collect();
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    for name in names {
        let Some(mut schema) = schemas.get_mut(&name).map(Value::take) else { continue };
        name_below(&mut schema, &name, schemas, &mut known);
        schemas.insert(name, schema);
    }
    schemas.extend(known);
}

fn name_below(
    schema: &mut Value,
    path: &str,
    schemas: &Map<String, Value>,
    known: &mut BTreeMap<String, Value>,
) {
    let Value::Object(schema) = schema else { return };
    for (key, inner) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        replace(inner, &format!("{path}{}", word(key)), schemas, known);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key) {
            replace(inner, &format!("{path}Item"), schemas, known);
        }
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        let choices = schema.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten();
        for (idx, choice) in choices.enumerate() {
            let tags = choice["properties"].as_object().into_iter().flatten();
            let tag = tags.filter_map(|(_, it)| it["const"].as_str()).next().map(word);
            replace(
                choice,
                &format!("{path}{}", tag.unwrap_or_else(|| format!("Form{}", idx + 1))),
                schemas,
                known,
            );
        }
    }
}

/// Puts a reference in the place of an object.
fn replace(
    schema: &mut Value,
    path: &str,
    schemas: &Map<String, Value>,
    known: &mut BTreeMap<String, Value>,
) {
    name_below(schema, path, schemas, known);
    if schema["type"] != "object" {
        return;
    }
    let keys = schema.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    let is_open = schema["additionalProperties"] == json!(true)
        && keys
            .into_iter()
            .all(|key| ["type", "additionalProperties", "default", "description"].contains(&key));
    let mut name = if is_open { ANY.to_owned() } else { path.to_owned() };
    if is_open {
        *schema = json!({"type": "object", "additionalProperties": true});
    }
    if let Value::Object(schema) = schema {
        schema.remove("default");
    }
    while schemas.contains_key(&name) || known.get(&name).is_some_and(|it| it != schema) {
        name.push_str("Value");
    }
    let reference = json!({"$ref": format!("#/components/schemas/{name}")});
    known.insert(name, std::mem::replace(schema, reference));
}

/// Returns a key as a piece of a class's name.
fn word(key: &str) -> String {
    let pieces = key.split(|it: char| !it.is_alphanumeric()).map(|piece| {
        let mut letters = piece.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().chain(letters).collect::<String>())
            .unwrap_or_default()
    });
    pieces.collect()
}
