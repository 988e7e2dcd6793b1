//! Makes the OpenAPI document from the types that are sent.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::operations::{GROUPS, Operation};

/// Returns the whole document.
pub fn document() -> Value {
    let mut settings = SchemaSettings::openapi3();
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for operation in GROUPS.iter().copied().flatten() {
        let mut described = json!({
            "operationId": operation.id,
            "parameters": parameters(operation),
            "responses": {"200": {
                "description": "The answer.",
                "content": {"application/json": {"schema": (operation.response)(&mut generator)}},
            }},
        });
        if let (Some(request), Some(described)) = (operation.request, described.as_object_mut()) {
            let content = json!({"content": {"application/json": {"schema": request(&mut generator)}}});
            described.insert("requestBody".to_owned(), content);
        }
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Some(methods) = methods.as_object_mut() {
            methods.insert(operation.method.to_owned(), described);
        }
    }
    json!({
        "openapi": "3.1.1",
        "info": {"title": "opencode", "description": "opencode api", "version": "1.0.0"},
        "paths": paths,
        "components": {"schemas": generator.take_definitions(true)},
    })
}

/// Returns the names in the path, and the directory that any request may select.
fn parameters(operation: &Operation) -> Vec<Value> {
    let names = operation.path.split(['{', '}']).skip(1).step_by(2);
    let in_path =
        names.map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let selection = if operation.path.starts_with("/api/") { "location[directory]" } else { "directory" };
    let selection =
        json!({"name": selection, "in": "query", "required": false, "schema": {"type": "string"}});
    in_path.chain([selection]).collect()
}
