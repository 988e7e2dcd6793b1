//! Lists and reads the resources of a server.

use std::{collections::BTreeMap, time::Duration};

use futures_util::future::join_all;
use rmcp::{
    ServiceError,
    model::{
        ClientRequest, ErrorCode, ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams,
        ReadResourceRequest, ReadResourceRequestParams, ResourceContents, ServerResult,
    },
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{
    CallError, ResourceContent, ResourceList, ServersLease,
    client::{Connection, failed},
    output::{self, NotAttached},
    tools::plain,
};

/// Bounds of a list: entries, bytes as JSON, and pages.
const MAX_ENTRIES: usize = 2048;
const MAX_BYTES: usize = 4 << 20;
const MAX_PAGES: usize = 256;

/// The keys of an entry that are kept.
const KEYS: [&str; 7] = ["uri", "uriTemplate", "name", "title", "description", "mimeType", "size"];

impl ServersLease {
    /// Returns the resources of all connected servers by a name of their own, each with its server as `client`, as
    /// OpenCode lists them. A server that does not answer is left out.
    pub async fn all_resources(&self) -> BTreeMap<String, Value> {
        let cancel = CancellationToken::new();
        let asked = self.with_resources().into_iter().map(async |server| {
            let listed = self.resources(&server, ResourceList::Resources, &cancel).await;
            let (entries, _) = listed.unwrap_or_else(|error| {
                tracing::warn!(server, %error, "the resources of an MCP server are not known");
                Default::default()
            });
            let named = entries.into_iter().map(|mut entry| {
                let name = entry["name"].as_str().unwrap_or_default();
                let key = format!("{}:{}", plain(&server), plain(name));
                entry["client"] = server.as_str().into();
                (key, entry)
            });
            named.collect::<Vec<_>>()
        });
        join_all(asked).await.into_iter().flatten().collect()
    }
}

/// Returns all pages of a list, and true if there were more.
pub(super) async fn list(
    connection: &Connection,
    server: &str,
    list: ResourceList,
    timeout: Duration,
    cancel: &CancellationToken,
) -> Result<(Vec<Value>, bool), CallError> {
    let mut entries = Vec::new();
    let mut n_bytes = 0;
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let (method, request) = match list {
            ResourceList::Resources => (
                "resources/list",
                ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params)),
            ),
            ResourceList::Templates => (
                "resources/templates/list",
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::with_param(params)),
            ),
        };
        let (page, next_cursor) = match connection.request(request, timeout, cancel).await? {
            Ok(answer) => page(list, answer).ok_or(ServiceError::UnexpectedResponse),
            // A server with resources need not have templates.
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => break,
            Err(error) => Err(error),
        }
        .map_err(|error| failed(server, method, &error))?;
        for entry in page {
            n_bytes += entry.to_string().len();
            if entries.len() == MAX_ENTRIES || n_bytes > MAX_BYTES {
                return Ok((entries, true));
            }
            entries.push(entry);
        }
        if next_cursor.is_none() || next_cursor == cursor {
            return Ok((entries, false));
        }
        cursor = next_cursor;
    }
    let is_cut = cursor.is_some();
    Ok((entries, is_cut))
}

/// Returns the entries of one page and the cursor of the next one.
fn page(list: ResourceList, answer: ServerResult) -> Option<(Vec<Value>, Option<String>)> {
    match (list, answer) {
        (ResourceList::Resources, ServerResult::ListResourcesResult(page)) => {
            let entries = page.resources.into_iter().map(|it| {
                let texts = [Some(it.uri), None, Some(it.name), it.title, it.description, it.mime_type];
                entry(texts, it.size)
            });
            Some((entries.collect(), page.next_cursor))
        }
        (ResourceList::Templates, ServerResult::ListResourceTemplatesResult(page)) => {
            let entries = page.resource_templates.into_iter().map(|it| {
                let texts =
                    [None, Some(it.uri_template), Some(it.name), it.title, it.description, it.mime_type];
                entry(texts, None)
            });
            Some((entries.collect(), page.next_cursor))
        }
        // A page that fits no known result arrives raw: one malformed entry must not cost the others.
        (_, ServerResult::CustomResult(page)) => well_formed(list, page.0),
        (ResourceList::Resources | ResourceList::Templates, _) => None,
    }
}

fn entry(texts: [Option<String>; 6], size: Option<u64>) -> Value {
    let mut fields = Map::new();
    for (key, text) in KEYS.iter().zip(texts) {
        if let Some(text) = text {
            fields.insert((*key).to_owned(), text.into());
        }
    }
    if let Some(size) = size {
        fields.insert("size".to_owned(), size.into());
    }
    Value::Object(fields)
}

fn well_formed(list: ResourceList, mut page: Value) -> Option<(Vec<Value>, Option<String>)> {
    let next_cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    let (key, address) = match list {
        ResourceList::Resources => ("resources", "uri"),
        ResourceList::Templates => ("resourceTemplates", "uriTemplate"),
    };
    let Some(Value::Array(mut entries)) = page.get_mut(key).map(Value::take) else { return None };
    entries.retain_mut(|entry| match entry {
        Value::Object(fields) => {
            fields.retain(|key, value| KEYS.contains(&key.as_str()) && !value.is_null());
            fields.get(address).is_some_and(Value::is_string)
        }
        _malformed => false,
    });
    Some((entries, next_cursor))
}

/// Reads the resource at an address.
pub(super) async fn read(
    connection: &Connection,
    server: &str,
    uri: &str,
    timeout: Duration,
    cancel: &CancellationToken,
) -> Result<ResourceContent, CallError> {
    let params = ReadResourceRequestParams::new(uri);
    let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params));
    let answer = match connection.request(request, timeout, cancel).await? {
        Ok(answer) => contents(answer).ok_or(ServiceError::UnexpectedResponse),
        Err(error) => Err(error),
    };
    let items = answer.map_err(|error| failed(server, "resources/read", &error))?;
    let mut content = ResourceContent { n_items: items.len(), ..ResourceContent::default() };
    let mut texts = Vec::new();
    for Item { uri: own, mime, body } in items {
        let uri = own.unwrap_or_else(|| uri.to_owned());
        texts.push(match body {
            Body::Text(text) => {
                let mime = mime.map(|mime| format!("MIME: {mime}\n")).unwrap_or_default();
                format!("Resource: {uri}\n{mime}{text}")
            }
            Body::Blob(blob) => {
                let mime = mime.unwrap_or_else(|| output::UNKNOWN_MIME.to_owned());
                let named = format!("{uri} ({mime}, {} KB)", (blob.len() / 4 * 3).div_ceil(1024));
                match output::attach(&mime, blob, Some(uri)) {
                    Ok(file) => {
                        content.attachments.push(file);
                        format!("[Binary MCP resource attached: {named}]")
                    }
                    Err(reason) => {
                        let reason = match reason {
                            NotAttached::Unsupported => "is not a supported attachment type",
                            NotAttached::TooLarge => "exceeds 10 MB",
                            NotAttached::Malformed => "is not valid base64",
                            NotAttached::Mistaken => "is no file of that type",
                        };
                        format!("[Binary MCP resource omitted: {named} {reason}]")
                    }
                }
            }
            Body::Neither => format!("[MCP resource content without text or blob: {uri}]"),
        });
    }
    content.text = texts.join("\n\n");
    Ok(content)
}

/// A piece of a resource.
struct Item {
    uri: Option<String>,
    mime: Option<String>,
    body: Body,
}

enum Body {
    Text(String),
    /// Binary content in base64.
    Blob(String),
    Neither,
}

fn contents(answer: ServerResult) -> Option<Vec<Item>> {
    match answer {
        ServerResult::ReadResourceResult(result) => Some(result.contents.into_iter().map(item).collect()),
        ServerResult::CustomResult(mut result) => {
            let Some(Value::Array(items)) = result.0.get_mut("contents").map(Value::take) else {
                return None;
            };
            Some(items.into_iter().map(raw_item).collect())
        }
        _other => None,
    }
}

fn item(contents: ResourceContents) -> Item {
    match contents {
        ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
            Item { uri: Some(uri), mime: mime_type, body: Body::Text(text) }
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            Item { uri: Some(uri), mime: mime_type, body: Body::Blob(blob) }
        }
        _unknown => Item { uri: None, mime: None, body: Body::Neither },
    }
}

fn raw_item(mut fields: Value) -> Item {
    let mut take = |key: &str| match fields.get_mut(key).map(Value::take) {
        Some(Value::String(text)) => Some(text),
        _other => None,
    };
    let body = take("text").map(Body::Text).or_else(|| take("blob").map(Body::Blob));
    Item { uri: take("uri"), mime: take("mimeType"), body: body.unwrap_or(Body::Neither) }
}
