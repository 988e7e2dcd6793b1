//! Turns the result of a call into text and files for the model.

use base64::{Engine, engine::general_purpose::STANDARD};
use rmcp::model::{ContentBlock, Resource, ResourceContents, ServerResult};
use serde_json::Value;
use windlass_base::mime;
use windlass_protocol::opencode::part::FilePart;

use super::{CallError, CallOutput};

const MAX_ATTACHMENT_BYTES: usize = 10 * 1024 * 1024;
/// The MIME type of a file if the server does not tell its type.
pub(super) const UNKNOWN_MIME: &str = "application/octet-stream";

/// Reads the answer to `tools/call`.
pub(super) fn read(result: ServerResult) -> Result<CallOutput, CallError> {
    match result {
        ServerResult::CallToolResult(result) => {
            let items = result.content.into_iter().map(Ok).collect();
            assemble(items, result.structured_content, result.is_error == Some(true))
        }
        // A result with content of a kind unknown to the library arrives raw.
        ServerResult::CustomResult(result) => read_raw(result.0),
        ServerResult::EmptyResult(_) => Ok(CallOutput::default()),
        ServerResult::InputRequiredResult(_) => {
            Err(CallError::Failed("the tool asks for further input, which is not supported yet".to_owned()))
        }
        _ => Err(CallError::Failed("the MCP server answered with something that is not a result".to_owned())),
    }
}

/// A piece of the result, or the name of its unknown kind.
type Item = Result<ContentBlock, String>;

fn read_raw(mut result: Value) -> Result<CallOutput, CallError> {
    let is_error = result.get("isError").and_then(Value::as_bool) == Some(true);
    let content = match result.get_mut("content") {
        Some(Value::Array(content)) => std::mem::take(content),
        Some(_) | None => return Ok(CallOutput { text: result.to_string(), attachments: Vec::new() }),
    };
    let structured = result.get_mut("structuredContent").map(Value::take);
    let to_item = |block: Value| {
        let kind = block.get("type").and_then(Value::as_str).unwrap_or("unknown").to_owned();
        serde_json::from_value(block).map_err(|_| kind)
    };
    assemble(content.into_iter().map(to_item).collect(), structured, is_error)
}

fn assemble(items: Vec<Item>, structured: Option<Value>, is_error: bool) -> Result<CallOutput, CallError> {
    let mut texts = Vec::new();
    let mut attachments = Vec::new();
    let mut has_text = false;
    for item in items {
        let attached = match item {
            Ok(ContentBlock::Text(text)) => {
                has_text = true;
                texts.push(text.text);
                continue;
            }
            Ok(ContentBlock::Image(image)) => shown("image", image.mime_type, image.data, None),
            Ok(ContentBlock::Audio(audio)) => shown("audio", audio.mime_type, audio.data, None),
            Ok(ContentBlock::Resource(embedded)) => match embedded.resource {
                ResourceContents::TextResourceContents { text, .. } => {
                    has_text = true;
                    texts.push(text);
                    continue;
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let mime = mime_type.unwrap_or_else(|| UNKNOWN_MIME.to_owned());
                    shown("resource", mime, blob, Some(uri))
                }
                _ => Err("[resource of an unknown kind, not shown]".to_owned()),
            },
            Ok(ContentBlock::ResourceLink(resource)) => Err(link_note(&resource)),
            Ok(_) => Err("[content of an unknown kind, not shown]".to_owned()),
            Err(kind) => Err(format!("[content of the unknown kind {kind}, not shown]")),
        };
        match attached {
            Ok(file) => attachments.push(file),
            Err(note) => texts.push(note),
        }
    }
    match structured {
        Some(structured) if !has_text => texts.insert(0, structured.to_string()),
        Some(_) | None => {}
    }
    let text = texts.join("\n\n");
    if !is_error {
        return Ok(CallOutput { text, attachments });
    }
    Err(CallError::Failed(if text.is_empty() {
        "the tool failed without saying why".to_owned()
    } else {
        text
    }))
}

/// Returns the file, or a note in its place.
pub(super) fn shown(what: &str, mime: String, data: String, uri: Option<String>) -> Result<FilePart, String> {
    let named = uri.as_deref().map(|uri| format!(" {uri}")).unwrap_or_default();
    let note = format!("[{what}{named} of type {mime}");
    attach(&mime, data, uri).map_err(|reason| match reason {
        NotAttached::Unsupported => format!("{note}, not shown]"),
        NotAttached::TooLarge => format!("{note} is larger than 10 MB, not shown]"),
        NotAttached::Malformed => format!("{note} is not valid base64, not shown]"),
        NotAttached::Mistaken => format!("{note} is no file of that type, not shown]"),
    })
}

/// The reason for a file that is not sent to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotAttached {
    Unsupported,
    TooLarge,
    Malformed,
    /// It was declared to be a picture or a document, and is none.
    Mistaken,
}

/// Makes a file part of base64 content. Its type is that of its bytes, which providers compare with the declared one.
pub(super) fn attach(declared: &str, data: String, uri: Option<String>) -> Result<FilePart, NotAttached> {
    let found = mime::of_base64(&data);
    if found.is_none() && !mime::is_media(declared) {
        return Err(NotAttached::Unsupported);
    }
    if data.len() / 4 * 3 > MAX_ATTACHMENT_BYTES + 2 {
        return Err(NotAttached::TooLarge);
    }
    match STANDARD.decode(&data) {
        Ok(bytes) if bytes.len() > MAX_ATTACHMENT_BYTES => Err(NotAttached::TooLarge),
        Ok(_) => {
            let mime = found.ok_or(NotAttached::Mistaken)?.to_owned();
            Ok(FilePart { url: format!("data:{mime};base64,{data}"), mime, filename: uri, source: None })
        }
        Err(_) => Err(NotAttached::Malformed),
    }
}

pub(super) fn link_note(resource: &Resource) -> String {
    let mut note = format!("[resource {}: {}", resource.name, resource.uri);
    if let Some(mime) = &resource.mime_type {
        note.push_str(&format!(" ({mime})"));
    }
    if let Some(description) = &resource.description {
        note.push_str(&format!(", {description}"));
    }
    note.push(']');
    note
}
