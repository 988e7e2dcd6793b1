//! Makes the OpenAPI document from the types that are read and sent.

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use windlass_protocol::opencode::event::Event;

use super::{
    answers::Problem,
    named::name_all,
    operations::{GROUPS, Operation},
};

/// Returns the whole document.
pub fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for operation in GROUPS.iter().copied().flatten() {
        let mut described = json!({
            "operationId": operation.id,
            "summary": operation.summary,
            "parameters": parameters(operation, &mut generator),
            "responses": responses(operation, &mut generator),
        });
        if let (Some(request), Some(described)) = (operation.request, described.as_object_mut()) {
            let schema = request(&mut generator).to_value();
            let is_required = schema["required"].as_array().is_some_and(|keys| !keys.is_empty());
            let content =
                json!({"required": is_required, "content": {"application/json": {"schema": schema}}});
            described.insert("requestBody".to_owned(), content);
        }
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Some(methods) = methods.as_object_mut() {
            methods.insert(operation.method.to_owned(), described);
        }
    }
    let mut document = json!({
        "openapi": "3.1.1",
        "info": {"title": "opencode", "description": "opencode api", "version": "1.0.0"},
        "paths": paths,
        // Without a password, the user's own programs need none.
        "security": [{}, {"basic": []}],
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    });
    no_booleans(&mut document);
    if let Some(schemas) = document["components"]["schemas"].as_object_mut() {
        name_all(schemas);
    }
    document
}

/// Writes a schema that takes anything as an object, because generators of clients read no others.
fn no_booleans(schema: &mut Value) {
    let Value::Object(object) = schema else { return };
    for (key, inner) in object {
        match (key.as_str(), inner) {
            ("properties" | "schemas", Value::Object(named)) => named.values_mut().for_each(open),
            ("items" | "schema", one) => open(one),
            ("oneOf" | "anyOf" | "allOf", Value::Array(choices)) => choices.iter_mut().for_each(open),
            (_, Value::Array(list)) => list.iter_mut().for_each(no_booleans),
            (_, other) => no_booleans(other),
        }
    }
}

fn open(schema: &mut Value) {
    if *schema == json!(true) {
        *schema = json!({});
    }
    no_booleans(schema);
}

/// Returns the names in the path, the directory that any request may select, and the operation's own.
fn parameters(operation: &Operation, generator: &mut SchemaGenerator) -> Vec<Value> {
    let names = operation.path.split(['{', '}']).skip(1).step_by(2);
    let in_path =
        names.map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let selection = if operation.path.starts_with("/api/") { "location[directory]" } else { "directory" };
    let mut parameters: Vec<Value> = in_path.collect();
    parameters.push(json!({
        "name": selection, "in": "query", "required": false, "schema": {"type": "string"},
        "description": "The absolute path of the directory that the request is about.",
    }));
    let own = operation.query.map(|query| query(generator).to_value()).unwrap_or_default();
    for (name, schema) in own["properties"].as_object().into_iter().flatten() {
        if parameters.iter().any(|known| known["name"] == *name) {
            continue;
        }
        let is_required =
            own["required"].as_array().is_some_and(|keys| keys.iter().any(|key| key.as_str() == Some(name)));
        parameters.push(json!({"name": name, "in": "query", "required": is_required, "schema": schema}));
    }
    parameters
}

fn responses(operation: &Operation, generator: &mut SchemaGenerator) -> Value {
    let schema = |of: fn(&mut SchemaGenerator) -> schemars::Schema, generator: &mut SchemaGenerator| json!({"application/json": {"schema": of(generator)}});
    let (status, description, content) = match (operation.answer)().as_ref() {
        "Nothing" => ("204", "It is done.", None),
        "Unavailable" => ("503", "It is not offered.", None),
        "Socket" => ("101", "The connection is a WebSocket.", None),
        "Text" => ("200", "The answer.", Some(json!({"text/x-diff": {"schema": {"type": "string"}}}))),
        "Stream" => {
            let event = generator.subschema_for::<Event>();
            ("200", "Events, as they come.", Some(json!({"text/event-stream": {"schema": event}})))
        }
        _ => ("200", "The answer.", Some(schema(operation.response, generator))),
    };
    let mut answer = json!({"description": description});
    if let Some(content) = content {
        answer["content"] = content;
    }
    let refusal = schema(|generator| generator.subschema_for::<Problem>(), generator);
    let mut responses = json!({
        status: answer,
        "400": {"description": "The request says something wrong.", "content": refusal},
    });
    responses["401"] = json!({"description": "The password is missing or wrong.", "content": refusal});
    responses["403"] = json!({"description": "This caller may not ask.", "content": refusal});
    if operation.path.contains('{') || operation.path.starts_with("/file") {
        responses["404"] = json!({"description": "There is no such thing.", "content": refusal});
    }
    responses
}
