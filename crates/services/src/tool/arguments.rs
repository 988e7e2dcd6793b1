//! Arguments of a call: derives a schema from a type, and decodes a model's arguments into that type.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use windlass_base::text;

use super::{ToolError, schema};

/// Maximum bytes of a wrong value that an error shows.
const MAX_SHOWN: usize = 80;

/// Returns the schema that the model is shown: one plain object without references and nullable types.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    // Not as a root: that would cost ten kilobytes of code per type, for a title without a reader.
    let mut schema = T::json_schema(&mut settings().into_generator()).to_value();
    simplify(&mut schema);
    if let Value::Object(object) = &mut schema {
        // The type's own comment is for readers of the code; the model reads the tool's text.
        object.remove("description");
    }
    schema
}

fn settings() -> SchemaSettings {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    settings
}

/// Decodes a call's arguments, after correcting common mistakes of models in types.
pub fn arguments<T: DeserializeOwned>(tool: &str, input: Value) -> Result<T, ToolError> {
    let mut input = match input {
        Value::Null => Value::Object(Map::new()),
        other => other,
    };
    let schema = schema(tool);
    coerce(&mut input, schema);
    let mut issues = Vec::new();
    find_issues(&input, schema, "", &mut issues);
    serde_json::from_value(input).map_err(|error| {
        invalid(tool, &if issues.is_empty() { error.to_string() } else { issues.join("; ") })
    })
}

/// Makes the error for arguments that do not fit.
pub fn invalid(tool: &str, issues: &str) -> ToolError {
    ToolError::Model(format!(
        "The {tool} tool was called with invalid arguments: {issues}.\nPlease rewrite the input so it satisfies the expected schema.\nExpected schema: {}",
        brief(schema(tool).clone())
    ))
}

/// Collects the parts of a value that do not fit the schema, each with its place, such as `todos.0.content`.
fn find_issues(value: &Value, schema: &Value, place: &str, issues: &mut Vec<String>) {
    let below = |name: &str| match place {
        "" => name.to_owned(),
        _ => format!("{place}.{name}"),
    };
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    if !is_of(value, kind) {
        let place = if place.is_empty() { "the input" } else { &format!("`{place}`") };
        issues.push(format!("{place} must be of type {kind}, but is {}", shown(value)));
        return;
    }
    if let Some(Value::Array(choices)) = schema.get("enum")
        && !choices.contains(value)
    {
        let choices: Vec<String> = choices.iter().map(Value::to_string).collect();
        issues.push(format!("`{place}` must be one of {}, but is {}", choices.join(", "), shown(value)));
    }
    find_range_issues(value, schema, place, issues);
    match value {
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (idx, item) in items.iter().enumerate() {
                find_issues(item, schema, &below(&idx.to_string()), issues);
            }
        }
        Value::Object(object) => {
            for name in required(schema).iter().filter_map(Value::as_str) {
                if !object.contains_key(name) {
                    issues.push(format!("`{}` is missing", below(name)));
                }
            }
            let Some(Value::Object(properties)) = schema.get("properties") else { return };
            for (name, value) in object {
                if let Some(schema) = properties.get(name) {
                    find_issues(value, schema, &below(name), issues);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn find_range_issues(value: &Value, schema: &Value, place: &str, issues: &mut Vec<String>) {
    let Some(number) = value.as_f64() else { return };
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    if let Some(least) = bound("minimum").filter(|least| number < *least) {
        issues.push(format!("`{place}` must be at least {least}, but is {value}"));
    }
    if let Some(bound) = bound("exclusiveMinimum").filter(|bound| number <= *bound) {
        issues.push(format!("`{place}` must be greater than {bound}, but is {value}"));
    }
    if let Some(most) = bound("maximum").filter(|most| number > *most) {
        issues.push(format!("`{place}` must be at most {most}, but is {value}"));
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _other => true,
    }
}

fn required(schema: &Value) -> &[Value] {
    schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Formats a value for an error, shortened if it is long.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text::head(&text, MAX_SHOWN) {
        head if head.len() < text.len() => format!("{head}…"),
        head => head.to_owned(),
    }
}

/// Returns the schema without its descriptions.
fn brief(mut schema: Value) -> Value {
    if let Value::Object(object) = &mut schema {
        object.remove("description");
        object.remove("additionalProperties");
        if let Some(items) = object.get_mut("items") {
            *items = brief(items.take());
        }
        if let Some(Value::Object(properties)) = object.get_mut("properties") {
            properties.values_mut().for_each(|property| *property = brief(property.take()));
        }
    }
    schema
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
        ("object" | "array", Value::String(text)) => {
            serde_json::from_str(text).ok().filter(|parsed| is_of(parsed, kind))
        }
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
    let required = required(schema);
    // A null means "not given" wherever that is allowed.
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
