//! The request to a model. Each one, also of a title, a summary or a new agent, is put together here from its draft.

use std::borrow::Cow;

use serde_json::{Map, Value};
use windlass_provider::{Model, Prompt, PromptIds, PromptMessage, ToolSpec};

/// The contents of a request, before they are fitted to a model.
#[derive(Default)]
pub struct Draft<'a> {
    /// The instructions of the agent that asks.
    pub persona: Cow<'a, str>,
    /// Texts of the system prompt that depend on the session.
    pub situation: String,
    pub messages: Vec<PromptMessage<'a>>,
    pub tools: Vec<ToolSpec<'a>>,
    pub params: Params,
    /// See [`Prompt::cache_key`].
    pub cache_key: Option<&'a str>,
    pub ids: PromptIds<'a>,
}

/// Parameters that an agent or a task wishes for.
#[derive(Default)]
pub struct Params {
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub max_output_tokens: Option<u64>,
    /// Options that are laid over the model's own.
    pub options: Map<String, Value>,
}

/// Returns the request for a model.
pub fn request<'a>(model: &Model, draft: Draft<'a>) -> Prompt<'a> {
    let Draft { persona, situation, messages, tools, params, cache_key, ids } = draft;
    let Params { temperature, top_p, max_output_tokens, options } = chat_params(model, params);
    Prompt {
        system: system_prompt(persona, situation),
        messages,
        tools,
        temperature,
        top_p,
        top_k: model.sampling.top_k,
        max_output_tokens,
        options,
        cache_key,
        headers: Vec::new(),
        ids,
    }
}

/// Returns the blocks of the system prompt, the one that never changes first, so that a provider's cache holds.
fn system_prompt<'a>(persona: Cow<'a, str>, situation: String) -> Vec<Cow<'a, str>> {
    [persona, Cow::Owned(situation)].into_iter().filter(|block| !block.is_empty()).collect()
}

/// Fits parameters to those that the model takes.
fn chat_params(model: &Model, wanted: Params) -> Params {
    let max_output =
        |wanted: u64| if model.limit.output == 0 { wanted } else { wanted.min(model.limit.output) };
    Params {
        temperature: wanted.temperature.or(model.sampling.temperature).filter(|_| model.takes_temperature),
        top_p: wanted.top_p.or(model.sampling.top_p),
        max_output_tokens: wanted.max_output_tokens.map(max_output),
        ..wanted
    }
}
