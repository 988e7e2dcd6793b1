//! Arguments of a call: their schema from a type, and that type from what a model wrote.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{ToolError, find};

/// The schema the model is shown: one plain object, no references, no nullable types.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    if let Value::Object(object) = &mut schema {
        // The type's own comment is for readers of the code; the model reads the tool's text.
        object.remove("description");
    }
    schema
}

/// Decodes a call's arguments; what models commonly get wrong about types is put right first.
pub fn arguments<T: DeserializeOwned>(tool: &str, input: Value) -> Result<T, ToolError> {
    let mut input = match input {
        Value::Null => Value::Object(Map::new()),
        other => other,
    };
    let schema = find(tool).map_or(Value::Null, |tool| (tool.schema)());
    coerce(&mut input, &schema);
    let misfit = misfit(&input, &schema, "");
    serde_json::from_value(input).map_err(|error| {
        let place = misfit.map_or_else(String::new, |place| format!(" at `{place}`"));
        ToolError::Model(format!(
            "The {tool} tool was called with invalid arguments: {error}{place}.\nPlease rewrite the input so it satisfies the expected schema."
        ))
    })
}

/// Where the first value of a wrong type stands, such as `todos.0.content`.
fn misfit(value: &Value, schema: &Value, place: &str) -> Option<String> {
    let below = |name: &str| match place {
        "" => name.to_owned(),
        _ => format!("{place}.{name}"),
    };
    let is_fitting = match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _other => true,
    };
    if !is_fitting {
        return Some(place.to_owned()).filter(|place| !place.is_empty());
    }
    match value {
        Value::Array(items) => {
            let schema = schema.get("items")?;
            items.iter().enumerate().find_map(|(idx, item)| misfit(item, schema, &below(&idx.to_string())))
        }
        Value::Object(object) => {
            let properties = schema.get("properties")?.as_object()?;
            let mut known =
                object.iter().filter_map(|(name, value)| Some((name, value, properties.get(name)?)));
            known.find_map(|(name, value, schema)| misfit(value, schema, &below(name)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn simplify(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    for key in ["title", "format", "default", "$schema"] {
        object.remove(key);
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|it| it != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(simplify);
        object.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    if let Some(items) = object.get_mut("items") {
        simplify(items);
    }
}

fn coerce(value: &mut Value, schema: &Value) {
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let replacement = match (kind, &*value) {
        ("integer" | "number", Value::String(text)) => text.trim().parse().ok().map(Value::Number),
        ("boolean", Value::String(text)) => text.trim().to_ascii_lowercase().parse().ok().map(Value::Bool),
        ("object" | "array", Value::String(text)) => serde_json::from_str(text).ok(),
        _other => None,
    };
    if let Some(replacement) = replacement {
        *value = replacement;
    }
    match value {
        Value::Number(number) if kind == "integer" => {
            // Some models write every number with a fraction.
            let whole = number.as_f64().filter(|_| number.is_f64()).filter(|it| it.fract() == 0.0);
            if let Some(whole) = whole.filter(|it| it.abs() < 9_007_199_254_740_992.0) {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| coerce(item, schema));
            }
        }
        Value::Object(object) => coerce_object(object, schema),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn coerce_object(object: &mut Map<String, Value>, schema: &Value) {
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    // A null stands for "not given" wherever that is allowed.
    object.retain(|name, value| !value.is_null() || required.iter().any(|it| it == name.as_str()));
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, value) in object {
        if let Some(schema) = properties.get(name) {
            coerce(value, schema);
        }
    }
}

#[cfg(test)]
mod tests;
