//! Lists servers' prompts and asks for the text of one.

use std::time::Duration;

use rmcp::{
    ServiceError,
    model::{
        ClientRequest, ContentBlock, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest,
        PaginatedRequestParams, Prompt, ResourceContents, ServerResult,
    },
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use windlass_protocol::opencode::event::EventPayload;

use super::{
    CallError, McpPrompt, PromptArgument, ServersLease, Shared, Slot, Status,
    client::{Connection, failed},
    table, tools,
};

/// Bounds of a list: prompts and pages.
const MAX_PROMPTS: usize = 1024;
const MAX_PAGES: usize = 64;

impl ServersLease {
    /// Returns the prompts of the connected servers.
    pub fn prompts(&self) -> Vec<McpPrompt> {
        let slots = table::serving(&self.slots).map(|slot| slot.lock());
        let connected = slots.filter(|state| state.connection.is_some());
        connected.flat_map(|state| state.prompts.clone().unwrap_or_default()).collect()
    }

    /// Waits until every server has told its prompts or has failed, except those that a prompt has waited for in
    /// vain.
    pub async fn prompts_told(&self) {
        self.all(|state| match state.status {
            Status::Connecting => !state.is_awaited,
            Status::Connected => state.prompts.is_some(),
            Status::Disabled
            | Status::Failed { .. }
            | Status::NeedsAuth
            | Status::NeedsClientRegistration { .. } => true,
        })
        .await;
    }

    /// Returns the server that a command's name begins with, if it is not connected.
    pub fn offline(&self, command: &str) -> Option<(String, Status)> {
        let (server, _) = command.split_once(':')?;
        let slots = self.slots.values().rev().map(|leased| &leased.slot);
        let slots: Vec<_> = slots.filter(|slot| tools::plain(&slot.spec.name) == server).collect();
        let slot = slots.iter().find(|slot| slot.lock().status == Status::Connected).or(slots.first())?;
        let status = slot.lock().status.clone();
        (status != Status::Connected).then(|| (slot.spec.name.clone(), status))
    }

    /// Asks the server for a prompt's text. Cancelled and timed out like [`ServersLease::call`].
    pub async fn prompt(
        &self,
        prompt: &McpPrompt,
        arguments: Map<String, Value>,
        cancel: &CancellationToken,
    ) -> Result<String, CallError> {
        let mut slots = self.slots.values().rev().map(|leased| &leased.slot);
        let slot = slots.find(|slot| slot.spec.name == prompt.server && slot.lock().connection.is_some());
        let connection = slot.and_then(|slot| Some((slot.lock().connection.clone()?, slot.spec.timeout)));
        let gone = || CallError::Failed(format!("MCP server {} is gone", prompt.server));
        let (connection, timeout) = connection.ok_or_else(gone)?;
        text(&connection, prompt, arguments, timeout, cancel).await
    }
}

impl Shared {
    /// Records the prompts of a server that is ready.
    pub(super) fn offer_prompts(&self, slot: &Slot, prompts: Vec<McpPrompt>) {
        let before = slot.lock().prompts.replace(prompts.clone());
        self.changes.send_replace(());
        if before.unwrap_or_default() != prompts {
            self.bus.publish(EventPayload::McpToolsChanged { server: slot.spec.name.clone() });
        }
    }
}

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
        let (page, next_cursor) = match connection.request(request, timeout, &never).await? {
            Ok(ServerResult::ListPromptsResult(page)) => (page.prompts, page.next_cursor),
            // A page that fits no known result arrives raw: one malformed prompt must not cost the others.
            Ok(ServerResult::CustomResult(page)) => {
                tools::well_formed::<Prompt>(page.0, "prompts", server)
                    .map_err(|error| failed(server, "prompts/list", &error))?
            }
            Ok(_) => return Err(failed(server, "prompts/list", &ServiceError::UnexpectedResponse)),
            Err(error) => return Err(failed(server, "prompts/list", &error)),
        };
        prompts.extend(page.into_iter().map(|prompt| McpPrompt {
            command: format!("{}:{}", tools::plain(server), tools::plain(&prompt.name)),
            server: server.to_owned(),
            name: prompt.name,
            description: prompt.description.or(prompt.title).unwrap_or_default(),
            arguments: prompt.arguments.into_iter().flatten().map(argument).collect(),
        }));
        if prompts.len() >= MAX_PROMPTS || next_cursor.is_none() || next_cursor == cursor {
            break;
        }
        cursor = next_cursor;
    }
    prompts.truncate(MAX_PROMPTS);
    Ok(prompts)
}

fn argument(argument: rmcp::model::PromptArgument) -> PromptArgument {
    PromptArgument { name: argument.name, is_required: argument.required == Some(true) }
}

/// Asks for a prompt's text.
async fn text(
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
