//! Lists a server's prompts and asks for the text of one.

use std::time::Duration;

use rmcp::{
    ServiceError,
    model::{
        ClientRequest, ContentBlock, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest,
        PaginatedRequestParams, ResourceContents, ServerResult,
    },
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{
    CallError, McpPrompt, PromptArgument,
    client::{Connection, failed},
    tools,
};

/// Bounds of a list: prompts and pages.
const MAX_PROMPTS: usize = 1024;
const MAX_PAGES: usize = 64;

/// Returns all pages of a server's list of prompts.
pub(super) async fn list(
    connection: &Connection,
    server: &str,
    timeout: Duration,
) -> Result<Vec<McpPrompt>, CallError> {
    let mut prompts = Vec::new();
    let mut cursor = None;
    let never = CancellationToken::new();
    for _ in 0..MAX_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
        let request = ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params));
        let page = match connection.request(request, timeout, &never).await? {
            Ok(ServerResult::ListPromptsResult(page)) => page,
            Ok(_) => return Err(failed(server, "prompts/list", &ServiceError::UnexpectedResponse)),
            Err(error) => return Err(failed(server, "prompts/list", &error)),
        };
        prompts.extend(page.prompts.into_iter().map(|prompt| McpPrompt {
            command: format!("{}:{}", tools::plain(server), tools::plain(&prompt.name)),
            server: server.to_owned(),
            name: prompt.name,
            description: prompt.description.or(prompt.title).unwrap_or_default(),
            arguments: prompt.arguments.into_iter().flatten().map(argument).collect(),
        }));
        if prompts.len() >= MAX_PROMPTS || page.next_cursor.is_none() || page.next_cursor == cursor {
            break;
        }
        cursor = page.next_cursor;
    }
    prompts.truncate(MAX_PROMPTS);
    Ok(prompts)
}

fn argument(argument: rmcp::model::PromptArgument) -> PromptArgument {
    PromptArgument { name: argument.name, is_required: argument.required == Some(true) }
}

/// Asks for a prompt's text.
pub(super) async fn text(
    connection: &Connection,
    prompt: &McpPrompt,
    arguments: Map<String, Value>,
    timeout: Duration,
    cancel: &CancellationToken,
) -> Result<String, CallError> {
    let params = GetPromptRequestParams::new(prompt.name.clone()).with_arguments(arguments);
    let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
    let messages = match connection.request(request, timeout, cancel).await? {
        Ok(ServerResult::GetPromptResult(answer)) => answer.messages,
        Ok(_) => return Err(failed(&prompt.server, "prompts/get", &ServiceError::UnexpectedResponse)),
        Err(error) => return Err(failed(&prompt.server, "prompts/get", &error)),
    };
    let texts = messages.into_iter().filter_map(|message| match message.content {
        ContentBlock::Text(text) => Some(text.text),
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { text, .. } => Some(text),
            _ => None,
        },
        _ => None,
    });
    Ok(texts.collect::<Vec<_>>().join("\n\n"))
}
