//! Lists a server's tools and gives them the names and schemas that models accept.

use std::{borrow::Cow, sync::Arc};

use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use windlass_base::json_schema::JsonSchema;

use super::McpTool;

/// Maximum number of tools of one server: an endless list must end here.
const MAX_TOOLS: usize = 2048;
/// Maximum number of pages, for a list with pages that are empty.
const MAX_PAGES: usize = 256;

/// Returns all pages of a server's list of tools.
pub(super) async fn list(
    peer: &Peer<RoleClient>,
    server: &str,
    slot_id: usize,
) -> Result<Vec<McpTool>, ServiceError> {
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let (page, next_cursor) = match peer.send_request(request).await {
            Ok(ServerResult::ListToolsResult(page)) => (page.tools, page.next_cursor),
            // A page that fits no known result arrives raw: one malformed tool must not cost the others.
            Ok(ServerResult::CustomResult(page)) => well_formed::<Tool>(page.0, "tools", server)?,
            // A server without tools need not know the method.
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => break,
            Ok(_) => return Err(ServiceError::UnexpectedResponse),
            Err(error) => return Err(error),
        };
        let page = page.into_iter().filter_map(|tool| offered(server, tool)).collect();
        tools.extend(apart(page).into_iter().map(|definition| definition.tool(server, slot_id)));
        if tools.len() > MAX_TOOLS {
            tracing::warn!(server, "the MCP server lists more than {MAX_TOOLS} tools; the rest is left out");
            tools.truncate(MAX_TOOLS);
            break;
        }
        if next_cursor.is_none() || next_cursor == cursor {
            break;
        }
        cursor = next_cursor;
    }
    Ok(tools)
}

/// Reads the items of a page one by one, and leaves out those that cannot be read.
pub(super) fn well_formed<T: DeserializeOwned>(
    mut page: Value,
    list: &'static str,
    server: &str,
) -> Result<(Vec<T>, Option<String>), ServiceError> {
    let next_cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    let Some(Value::Array(items)) = page.get_mut(list).map(Value::take) else {
        return Err(ServiceError::UnexpectedResponse);
    };
    let mut read = Vec::with_capacity(items.len());
    for item in items {
        let name = item.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        match serde_json::from_value(item) {
            Ok(item) => read.push(item),
            Err(error) => {
                tracing::warn!(server, list, name, %error, "a malformed item of an MCP server's list is left out");
            }
        }
    }
    Ok((read, next_cursor))
}

/// The part of a listed tool that is kept.
#[derive(Serialize, Deserialize)]
struct Definition {
    name: String,
    description: String,
    /// A JSON object, as text.
    schema: String,
}

impl Definition {
    fn tool(self, server: &str, slot_id: usize) -> McpTool {
        let key = key(server, &self.name);
        McpTool {
            n_bytes: key.len() + self.description.len() + self.schema.len(),
            key,
            server: server.to_owned(),
            name: self.name,
            description: self.description,
            schema: self.schema.into(),
            slot_id,
        }
    }
}

/// Copies definitions to where they lie beside each other. Those of a page lie between the trees that they were read
/// from, and would keep every page of that memory from going back to the system: 500 tools took 3.5 MB, not 1.
fn apart(definitions: Vec<Definition>) -> Vec<Definition> {
    let Ok(text) = serde_json::to_string(&definitions) else { return definitions };
    drop(definitions);
    // It was written from the same type.
    serde_json::from_str(&text).unwrap_or_default()
}

/// Returns what is kept of a tool; `None` where its schema is none, for which providers would refuse every request.
fn offered(server: &str, tool: Tool) -> Option<Definition> {
    let schema = schema(Arc::unwrap_or_clone(tool.input_schema));
    if let Err(reason) = usable(&schema) {
        let tool = &*tool.name;
        tracing::warn!(
            server,
            tool,
            "a tool of an MCP server is left out, its schema cannot be used: {reason}"
        );
        return None;
    }
    Some(Definition {
        name: tool.name.into_owned(),
        description: tool.description.map(Cow::into_owned).unwrap_or_default(),
        schema: schema.to_string(),
    })
}

/// Checks a schema by the draft that it names, or by the newest where that one is unknown.
fn usable(schema: &Value) -> Result<(), String> {
    let by_draft = JsonSchema::compile(schema);
    let known = match (&by_draft, schema) {
        (Err(_), Value::Object(fields)) if fields.contains_key("$schema") => {
            let mut fields = fields.clone();
            fields.shift_remove("$schema");
            JsonSchema::compile(&Value::Object(fields))
        }
        _ => by_draft,
    };
    known.map(|_| ())
}

/// Returns the name under which the model sees a tool.
pub(super) fn key(server: &str, tool: &str) -> String {
    format!("{}_{}", plain(server), plain(tool))
}

/// Replaces unusual characters of a name.
pub(super) fn plain(name: &str) -> String {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if is_usual(c) { c } else { '_' }).collect()
}

/// Completes a schema: providers refuse schemas that are not objects, and strict ones require a closed list of
/// properties.
pub(super) fn schema(mut schema: Map<String, Value>) -> Value {
    schema.insert("type".to_owned(), "object".into());
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    schema.insert("additionalProperties".to_owned(), false.into());
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    //! Schemas that reach no provider.

    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_whose_schema_is_none_is_left_out() {
        let is_offered = |schema: Value| {
            let tool = json!({"name": "t", "inputSchema": schema});
            offered("s", serde_json::from_value(tool).unwrap()).is_some()
        };
        let string = json!({"type": "string"});
        for taken in [
            json!({}),
            json!({"type": "object", "properties": {"a": string}, "required": ["a"]}),
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"$ref": "#/definitions/A"}}, "definitions": {"A": string}}),
            json!({"$schema": "https://schemas.example/unknown", "properties": {"a": string}, "x-more": 1}),
        ] {
            assert!(is_offered(taken.clone()), "{taken}");
        }
        let zod = json!({"_def": {"typeName": "ZodString", "checks": []}});
        for refused in [
            json!({"properties": {"a": "string"}}),
            json!({"properties": {"a": string}, "required": "a"}),
            json!({"properties": {"a": {"$ref": "#/definitions/gone"}}}),
            json!({"properties": {"a": zod}}),
            json!({"_def": {"typeName": "ZodObject"}}),
        ] {
            assert!(!is_offered(refused.clone()), "{refused}");
        }
    }
}
