//! Forms of MCP servers in ACP's types, and the fields that a client filled in as answers to their questions.

use serde_json::{Map, Value, json};
use windlass_protocol_acp::schema::{ElicitationPropertySchema, ElicitationSchema};

use crate::acp::to_proto;

/// Returns a server's form for the client; `None` for one that ACP cannot say.
pub(super) fn schema(form: &Value) -> Option<ElicitationSchema> {
    let mut form = form.clone();
    let n_properties = form["properties"].as_object().map_or(0, Map::len);
    for field in form["properties"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        name_options(field);
        make_visible(field);
    }
    let schema: ElicitationSchema = serde_json::from_value(form).ok()?;
    // A field that is not understood is left out by the type, or is of a kind no client shows; the questions have it.
    let is_shown = |field: &ElicitationPropertySchema| !matches!(field, ElicitationPropertySchema::Other(_));
    (schema.properties.len() == n_properties && schema.properties.values().all(is_shown)).then_some(schema)
}

/// Gives options their names in the way that ACP knows.
fn name_options(field: &mut Value) {
    let Some(fields) = field.as_object_mut() else { return };
    let (Some(Value::Array(names)), Some(Value::Array(values))) =
        (fields.shift_remove("enumNames"), fields.get("enum"))
    else {
        return;
    };
    let named = values.iter().zip(names.iter().chain(std::iter::repeat(&Value::Null)));
    let named = named
        .map(|(value, name)| json!({ "const": value, "title": if name.is_string() { name } else { value } }));
    let named = named.collect();
    fields.shift_remove("enum");
    fields.insert("oneOf".to_owned(), named);
}

/// Lets no title or description of a server hide part of its text.
fn make_visible(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if key == "title" || key == "description" => {
                        *text = to_proto::label(text);
                    }
                    value => make_visible(value),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(make_visible),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the answers to the questions of a form, one for each of its properties; `None` where it has none.
pub(super) fn answers(form: &Value, content: &Map<String, Value>) -> Option<Vec<Vec<String>>> {
    let properties = form["properties"].as_object().filter(|properties| !properties.is_empty())?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let answer = |name: &String| match content.get(name) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) => values.iter().map(text).collect(),
        Some(value) => vec![text(value)],
    };
    Some(properties.keys().map(answer).collect())
}
