//! Rules for tools' schemas that OpenAI, Anthropic and Amazon share: the outermost one is a plain object.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// Words that may not be on the outermost level.
const COMBINING: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// Returns a tool's schema in the form that is taken everywhere.
pub(crate) fn plain_object(schema: &Value) -> Cow<'_, Value> {
    let is_plain = |fields: &Map<String, Value>| {
        fields.get("type").is_some_and(|kind| kind == "object")
            && fields.get("properties").is_some_and(Value::is_object)
            && !COMBINING.iter().any(|word| fields.contains_key(*word))
    };
    match schema {
        Value::Object(fields) if is_plain(fields) => Cow::Borrowed(schema),
        Value::Object(fields) => Cow::Owned(flatten(fields.clone())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Cow::Owned(json!({"type": "object", "properties": {}}))
        }
    }
}

/// Takes the properties of all alternatives together; none of them is required, because each may be left out.
fn flatten(mut fields: Map<String, Value>) -> Value {
    let mut properties = match fields.shift_remove("properties") {
        Some(Value::Object(properties)) => properties,
        Some(_) | None => Map::new(),
    };
    for word in COMBINING {
        let Some(Value::Array(schemas)) = fields.shift_remove(word) else { continue };
        for schema in schemas {
            let more = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
            for (name, property) in more {
                properties.entry(name).or_insert(property);
            }
        }
    }
    fields.insert("type".to_owned(), "object".into());
    fields.insert("properties".to_owned(), Value::Object(properties));
    Value::Object(fields)
}

/// Removes the siblings of references, which some servers refuse.
pub(crate) fn with_plain_references(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => match fields.get("$ref") {
            Some(Value::String(target)) => json!({"$ref": target}),
            Some(_) | None => {
                let fields = fields.iter().map(|(key, value)| (key.clone(), with_plain_references(value)));
                Value::Object(fields.collect())
            }
        },
        Value::Array(items) => Value::Array(items.iter().map(with_plain_references).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{plain_object, with_plain_references};

    #[test]
    fn the_outermost_schema_becomes_a_plain_object() {
        let text = json!({"type": "string"});
        for (schema, expected) in [
            (json!({"type": "object", "properties": {"a": text}}), None),
            (Value::Null, Some(json!({"type": "object", "properties": {}}))),
            (json!({}), Some(json!({"type": "object", "properties": {}}))),
            (
                json!({"properties": {"a": text}, "required": ["a"]}),
                Some(json!({"required": ["a"], "type": "object", "properties": {"a": text}})),
            ),
            (
                json!({"type": "object", "properties": {"a": text}, "oneOf": [
                    {"properties": {"b": text}, "required": ["b"]}, {"properties": {"a": {"type": "number"}}},
                ]}),
                Some(json!({"type": "object", "properties": {"a": text, "b": text}})),
            ),
        ] {
            assert_eq!(*plain_object(&schema), expected.unwrap_or_else(|| schema.clone()), "{schema}");
        }
    }

    #[test]
    fn nothing_stands_beside_a_reference() {
        let schema = json!({"properties": {"a": {"$ref": "#/$defs/A", "description": "x"}, "b": [{"type": "string"}]}});
        let expected = json!({"properties": {"a": {"$ref": "#/$defs/A"}, "b": [{"type": "string"}]}});
        assert_eq!(with_plain_references(&schema), expected);
    }
}
