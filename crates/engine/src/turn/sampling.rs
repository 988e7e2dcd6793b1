//! Has the session's model answer the requests of an MCP server while it works on a call.

use std::borrow::Cow;

use windlass_provider::{self as provider, AssistantContent, PromptIds, PromptMessage, UserContent};
use windlass_services::{
    mcp::{Sampled, Sampling, Speaker},
    tool::ToolError,
};

use super::{
    model_request::{Draft, Params, request},
    subtask::Parent,
};

/// Asks the session's model, without its conversation and its tools.
pub async fn sample(parent: &Parent, wish: Sampling) -> Result<Sampled, ToolError> {
    let model = parent.loaded.checked_model(&parent.model);
    let model = model.map_err(|unusable| ToolError::Model(unusable.to_string()))?;
    let Sampling { system, messages, temperature, max_tokens } = wish;
    let messages = messages.into_iter().map(|(speaker, text)| match speaker {
        Speaker::User => PromptMessage::User(vec![UserContent::Text(Cow::Owned(text))]),
        Speaker::Model => PromptMessage::Assistant(vec![AssistantContent::Text(Cow::Owned(text))]),
    });
    let draft = Draft {
        persona: Cow::Owned(system.unwrap_or_default()),
        messages: messages.collect(),
        params: Params {
            temperature,
            max_output_tokens: Some(max_tokens).filter(|limit| *limit > 0),
            ..Params::default()
        },
        ids: PromptIds { session: Some(parent.info.id.as_str()), is_agents: true, ..PromptIds::default() },
        ..Draft::default()
    };
    let prompt = request(&model, draft);
    let model = parent.engine.asked_by(&parent.info.id, &model);
    tokio::select! {
        biased;
        () = parent.cancel.cancelled() => Err(ToolError::Cancelled { partial: None }),
        text = provider::text(parent.engine.http(), &model, &prompt) => match text {
            Ok(text) => Ok(Sampled { text, model: model.id.clone() }),
            Err(error) => Err(ToolError::Model(error.to_string())),
        },
    }
}
