//! Lists servers' prompts and asks for the text of one.

use std::time::Duration;

use rmcp::{
    ServiceError,
    model::{
        ClientRequest, ContentBlock, GetPromptRequest, GetPromptRequestParams, ListPromptsRequest,
        PaginatedRequestParams, Prompt, PromptMessage, ResourceContents, Role, ServerResult,
    },
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use windlass_base::text;
use windlass_protocol::opencode::{event::EventPayload, part::FilePart};

use super::{
    CallError, McpPrompt, PromptArgument, ServersLease, Shared, Slot, Status,
    client::{Connection, failed},
    output, table, tools,
};

/// Bounds of a list: prompts and pages.
const MAX_PROMPTS: usize = 1024;
const MAX_PAGES: usize = 64;

/// Bounds of a prompt's messages, their texts in bytes, and their files.
const MAX_MESSAGES: usize = 256;
const MAX_TEXT: usize = 1 << 20;
const MAX_FILES: usize = 20;

/// The messages of a prompt.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromptAnswer {
    pub text: String,
    /// Pictures and documents.
    pub files: Vec<FilePart>,
}

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
    ) -> Result<PromptAnswer, CallError> {
        let mut slots = self.slots.values().rev().map(|leased| &leased.slot);
        let slot = slots.find(|slot| slot.spec.name == prompt.server && slot.lock().connection.is_some());
        let connection = slot.and_then(|slot| Some((slot.lock().connection.clone()?, slot.spec.timeout)));
        let gone = || CallError::Failed(format!("MCP server {} is gone", prompt.server));
        let (connection, timeout) = connection.ok_or_else(gone)?;
        ask(&connection, prompt, arguments, timeout, cancel).await
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

/// Asks for a prompt's messages.
async fn ask(
    connection: &Connection,
    prompt: &McpPrompt,
    arguments: Map<String, Value>,
    timeout: Duration,
    cancel: &CancellationToken,
) -> Result<PromptAnswer, CallError> {
    let params = GetPromptRequestParams::new(prompt.name.clone()).with_arguments(arguments);
    let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
    let messages = match connection.request(request, timeout, cancel).await? {
        Ok(ServerResult::GetPromptResult(answer)) => answer.messages,
        // One malformed message must not cost the others.
        Ok(ServerResult::CustomResult(answer)) => {
            let (messages, _) = tools::well_formed::<PromptMessage>(answer.0, "messages", &prompt.server)
                .map_err(|error| failed(&prompt.server, "prompts/get", &error))?;
            messages
        }
        Ok(_) => return Err(failed(&prompt.server, "prompts/get", &ServiceError::UnexpectedResponse)),
        Err(error) => return Err(failed(&prompt.server, "prompts/get", &error)),
    };
    Ok(read(messages))
}

/// Puts messages together, each with its side where there are both; others than texts become files or are named.
fn read(messages: Vec<PromptMessage>) -> PromptAnswer {
    let mut answer = PromptAnswer::default();
    let has_both = messages.iter().any(|message| message.role == Role::Assistant);
    let n_left_out = messages.len().saturating_sub(MAX_MESSAGES);
    for PromptMessage { role, content, .. } in messages.into_iter().take(MAX_MESSAGES) {
        let shown = match content {
            ContentBlock::Text(text) => Ok(text.text),
            ContentBlock::Image(image) => Err(output::shown("image", image.mime_type, image.data, None)),
            ContentBlock::Audio(audio) => Err(output::shown("audio", audio.mime_type, audio.data, None)),
            ContentBlock::ResourceLink(link) => Ok(output::link_note(&link)),
            ContentBlock::Resource(resource) => match resource.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => Ok(format!("[{uri}]\n{text}")),
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let mime = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                    Err(output::shown("resource", mime, blob, Some(uri)))
                }
                // The enum is non-exhaustive.
                _ => continue,
            },
            // The enum is non-exhaustive.
            _ => continue,
        };
        let text = match shown {
            Ok(text) | Err(Err(text)) => text,
            Err(Ok(file)) if answer.files.len() < MAX_FILES => {
                answer.files.push(file);
                if !has_both {
                    continue;
                }
                format!("[file {}]", answer.files.len())
            }
            Err(Ok(_)) => format!("[a file beyond {MAX_FILES}, not shown]"),
        };
        let side = match role {
            _ if !has_both => "",
            Role::User => "User: ",
            Role::Assistant => "Assistant: ",
        };
        let gap = if answer.text.is_empty() { "" } else { "\n\n" };
        answer.text.push_str(&format!("{gap}{side}{text}"));
    }
    if n_left_out > 0 {
        answer.text.push_str(&format!("\n\n[{n_left_out} more messages, not shown]"));
    }
    if answer.text.len() > MAX_TEXT {
        let kept = text::head(&answer.text, MAX_TEXT).len();
        answer.text.truncate(kept);
        answer.text.push_str("\n\n[the rest is not shown]");
    }
    answer
}
