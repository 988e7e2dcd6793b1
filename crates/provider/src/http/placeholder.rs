//! The tool that is offered where a provider refuses calls in the conversation without any: in the last step, for titles
//! and for summaries.

use std::borrow::Cow;

use serde_json::json;

use super::super::{Model, Prompt, ProviderError, Quirk, Quirks, ToolSpec, Wire};

/// OpenCode's name for it.
pub const NAME: &str = "_noop";

/// Returns the prompt, with the tool in the place of none where the provider wants one.
pub fn filled<'p, 'a>(model: &Model, prompt: &'p Prompt<'a>) -> Cow<'p, Prompt<'a>> {
    if !is_sent(model) || !is_lacking(model, prompt) {
        return Cow::Borrowed(prompt);
    }
    let tool = ToolSpec {
        name: NAME.into(),
        description: "Does nothing. Do not call it.".into(),
        schema: Cow::Owned(json!({"type": "object", "properties": {}})),
    };
    Cow::Owned(Prompt { tools: vec![tool], ..prompt.clone() })
}

/// Returns the model with the peculiarity, where a refusal shows that its provider has it, which the names do not tell.
pub fn learnt(model: &Model, prompt: &Prompt<'_>, error: &ProviderError) -> Option<Model> {
    let ProviderError::Api { message, status: Some(400 | 422), body } = error else { return None };
    let speaks_of_tools = |text: &str| text.to_ascii_lowercase().contains("tool");
    let is_asked_for = speaks_of_tools(message) || body.as_deref().is_some_and(speaks_of_tools);
    (is_asked_for && !is_sent(model) && is_lacking(model, prompt)).then(|| {
        let quirks = model.quirks.and(Quirks::of(&[Quirk::NeedsTools]));
        Model { quirks, ..model.clone() }
    })
}

fn is_sent(model: &Model) -> bool {
    model.wire == Wire::Bedrock || model.has(Quirk::NeedsTools)
}

/// Returns true for a conversation with calls that offers no tool.
fn is_lacking(model: &Model, prompt: &Prompt<'_>) -> bool {
    let offers_none = prompt.tools.is_empty() || !model.takes_tools;
    offers_none && prompt.messages.iter().any(|message| message.has_calls())
}

/// Returns the peculiarity of a provider that refuses calls without tools.
pub fn quirks(wire: Wire, npm: &str, names: [&str; 2], is_litellm: bool) -> Quirks {
    if is_litellm || is_needed(wire, npm, names) {
        Quirks::of(&[Quirk::NeedsTools])
    } else {
        Quirks::default()
    }
}

/// Returns true for a provider that refuses calls without tools, or that passes requests on to one: Claude's other
/// hosts do, LiteLLM says so for them, and behind the chat form Claude is always at another host.
fn is_needed(wire: Wire, npm: &str, names: [&str; 2]) -> bool {
    let has = |word: &str| names.iter().any(|name| name.to_ascii_lowercase().contains(word));
    npm == "@ai-sdk/github-copilot"
        || has("github-copilot")
        || has("litellm")
        || (wire == Wire::OpenAiChat && has("claude"))
}

#[cfg(test)]
mod tests {
    //! Prompts that get the tool, and providers that want it.

    use serde_json::{Map, Value};

    use super::*;
    use crate::{AssistantContent, PromptMessage, UserContent, encoded, http::fixture::model};

    fn with_call<'a>() -> Vec<PromptMessage<'a>> {
        const NO_INPUT: &Value = &Value::Null;
        let call =
            AssistantContent::ToolCall { call_id: "c", name: "read", input: NO_INPUT, signature: None };
        vec![PromptMessage::User(vec![UserContent::Text("Go.".into())]), PromptMessage::Assistant(vec![call])]
    }

    #[test]
    fn a_conversation_with_calls_is_not_sent_without_a_tool() {
        for wire in [Wire::OpenAiChat, Wire::OpenAiResponses, Wire::Anthropic, Wire::Google] {
            let mut model = model(wire);
            let named = |model: &Model, messages: Vec<PromptMessage<'_>>| -> usize {
                let prompt = Prompt { messages, ..Prompt::default() };
                let body = String::from_utf8(super::super::encode(model, &prompt).1).unwrap();
                body.matches("\"_noop\"").count()
            };
            assert_eq!(named(&model, with_call()), 0, "{wire:?}");
            model.quirks = Quirks::of(&[Quirk::NeedsTools]);
            assert_eq!(named(&model, with_call()), 1, "{wire:?}");
            let plain = vec![PromptMessage::User(vec![UserContent::Text("Go.".into())])];
            assert_eq!(named(&model, plain), 0, "{wire:?}");
            // A message that was encoded before still holds its calls.
            let pieces = encoded(&model, &Map::new(), &with_call()).unwrap();
            assert_eq!(named(&model, vec![PromptMessage::Encoded(&pieces)]), 1, "{wire:?}");
        }
    }

    #[test]
    fn a_refusal_that_speaks_of_tools_teaches_it() {
        let model = model(Wire::OpenAiChat);
        let prompt = |messages| Prompt { messages, ..Prompt::default() };
        let refused = |status, message: &str| {
            let message = message.to_owned();
            ProviderError::Api { message, status: Some(status), body: None }
        };
        let words = "litellm.UnsupportedParamsError: Anthropic expects `tools=` param to be passed";
        let taught = learnt(&model, &prompt(with_call()), &refused(400, words)).unwrap();
        assert!(taught.has(Quirk::NeedsTools));
        assert!(
            learnt(&taught, &prompt(with_call()), &refused(400, words)).is_none(),
            "it helps once or never"
        );
        let plain = vec![PromptMessage::User(vec![UserContent::Text("Go.".into())])];
        assert!(learnt(&model, &prompt(plain), &refused(400, words)).is_none());
        assert!(learnt(&model, &prompt(with_call()), &refused(400, "no temperature")).is_none());
        assert!(learnt(&model, &prompt(with_call()), &refused(429, words)).is_none());
    }

    #[test]
    fn gateways_to_claude_and_litellm_want_it() {
        for (wire, npm, names, expected) in [
            (Wire::OpenAiResponses, "@ai-sdk/github-copilot", ["github-copilot", "gpt-6"], true),
            (Wire::OpenAiChat, "@ai-sdk/openai-compatible", ["github-copilot", "gpt-6"], true),
            (Wire::OpenAiChat, "@ai-sdk/openai-compatible", ["my-LiteLLM", "large"], true),
            (Wire::Anthropic, "@ai-sdk/anthropic", ["litellm", "claude-opus-5"], true),
            (Wire::OpenAiChat, "@ai-sdk/openai-compatible", ["corp", "litellm/large"], true),
            (Wire::OpenAiChat, "@ai-sdk/openai-compatible", ["corp", "anthropic/claude-opus-5"], true),
            (Wire::OpenAiChat, "@ai-sdk/openai-compatible", ["corp", "large"], false),
            (Wire::Anthropic, "@ai-sdk/anthropic", ["anthropic", "claude-opus-5"], false),
            (Wire::OpenAiResponses, "@ai-sdk/openai", ["openai", "gpt-6"], false),
        ] {
            assert_eq!(is_needed(wire, npm, names), expected, "{names:?}");
        }
    }
}
