//! Tools' JSON schemas in the subset of OpenAPI that Gemini takes (facts: OpenCode §7.3).

use serde_json::{Map, Value, json};

/// Maximum depth of a schema; a deeper part takes anything.
const MAX_DEPTH: usize = 12;
/// Maximum number of schemas within one, with those that are referred to; a further one takes anything.
const MAX_SCHEMAS: usize = 5_000;

/// Keys that are taken over as they are.
const PLAIN: [&str; 4] = ["description", "format", "minLength", "title"];

/// Returns a tool's schema; `None` for a tool without parameters.
pub(super) fn of(schema: &Value) -> Option<Value> {
    let has_properties =
        schema.get("properties").and_then(Value::as_object).is_some_and(|properties| !properties.is_empty());
    let refers = schema.get("$ref").is_some();
    let mut around = Around { root: schema, targets: Vec::new(), depth: 0, n_schemas: 0 };
    (has_properties || refers).then(|| convert(schema, &mut around))
}

/// The place of a schema within a tool's whole schema.
struct Around<'a> {
    root: &'a Value,
    /// The targets of the references that lead to the place.
    targets: Vec<&'a str>,
    depth: usize,
    /// The number of schemas converted so far.
    n_schemas: usize,
}

/// Converts a schema that refers to itself only down to the first repetition, because expanding the rest would never end.
fn convert<'a>(schema: &'a Value, around: &mut Around<'a>) -> Value {
    let Value::Object(fields) = schema else {
        // `true` and the like: anything goes.
        return json!({"type": "string"});
    };
    around.n_schemas += 1;
    if around.depth == MAX_DEPTH || around.n_schemas > MAX_SCHEMAS {
        return json!({"type": "object"});
    }
    around.depth += 1;
    let converted = match fields.get("$ref").and_then(Value::as_str) {
        Some(target) if around.targets.contains(&target) => json!({"type": "object"}),
        Some(target) => {
            let found = target.strip_prefix('#').and_then(|pointer| around.root.pointer(pointer));
            around.targets.push(target);
            let converted = convert(found.unwrap_or(&Value::Bool(true)), around);
            around.targets.pop();
            converted
        }
        None => convert_fields(fields, around),
    };
    around.depth -= 1;
    converted
}

fn convert_fields<'a>(fields: &'a Map<String, Value>, around: &mut Around<'a>) -> Value {
    let mut inner = |schema: &'a Value| convert(schema, around);
    let mut res = Map::new();
    let (kinds, mut is_nullable) = kinds(fields);
    let required = fields.get("required").and_then(Value::as_array);
    let properties = fields.get("properties").and_then(Value::as_object);
    let is_object =
        kinds.first().is_some_and(|kind| *kind == "object") || (kinds.is_empty() && properties.is_some());
    if let (true, Some(required), Some(properties)) = (is_object, required, properties) {
        let known =
            required.iter().filter(|name| name.as_str().is_some_and(|name| properties.contains_key(name)));
        let known: Vec<Value> = known.cloned().collect();
        if !known.is_empty() {
            res.insert("required".to_owned(), Value::Array(known));
        }
    }
    for (key, value) in fields.iter().filter(|(key, _)| PLAIN.contains(&key.as_str())) {
        res.insert(key.clone(), value.clone());
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        let Some(Value::Array(choices)) = fields.get(key) else { continue };
        let is_null = |choice: &&Value| choice.get("type").is_some_and(|kind| kind == "null");
        is_nullable |= choices.iter().any(|choice| is_null(&choice));
        let mut choices: Vec<Value> =
            choices.iter().filter(|choice| !is_null(choice)).map(&mut inner).collect();
        if choices.len() == 1
            && let Some(Value::Object(only)) = choices.pop()
        {
            res.extend(only);
        } else if !choices.is_empty() {
            res.insert(key.to_owned(), Value::Array(choices));
        }
    }
    match (kinds.as_slice(), is_object) {
        (_, true) => _ = res.insert("type".to_owned(), json!("object")),
        ([kind], _) => _ = res.insert("type".to_owned(), json!(kind)),
        ([], _) => {}
        (several, _) => {
            let choices = several.iter().map(|kind| json!({"type": kind}));
            res.insert("anyOf".to_owned(), choices.collect());
        }
    }
    // Only texts can be enumerated.
    let choices = fields.get("enum").and_then(Value::as_array).cloned();
    if let Some(choices) = choices.or_else(|| fields.get("const").map(|only| vec![only.clone()])) {
        let texts = choices.iter().filter(|choice| !choice.is_null()).map(|choice| match choice {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        res.insert("enum".to_owned(), texts.collect());
        res.insert("type".to_owned(), json!("string"));
    }
    if let (true, Some(properties)) = (is_object, properties) {
        let properties = properties.iter().map(|(name, schema)| (name.clone(), inner(schema)));
        res.insert("properties".to_owned(), Value::Object(properties.collect()));
    }
    if kinds.contains(&"array") {
        let items = fields.get("items").map_or_else(|| json!({"type": "string"}), inner);
        res.insert("items".to_owned(), items);
    }
    if is_nullable {
        res.insert("nullable".to_owned(), json!(true));
    }
    Value::Object(res)
}

/// Returns the types of a schema without `null`, and whether `null` was among them.
fn kinds(fields: &Map<String, Value>) -> (Vec<&str>, bool) {
    let kinds: Vec<&str> = match fields.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is_nullable = kinds.contains(&"null");
    (kinds.into_iter().filter(|kind| *kind != "null").collect(), is_nullable)
}
