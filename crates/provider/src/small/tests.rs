//! The options of small requests, by provider.

use serde_json::{Value, json};

use super::without_thinking;
use crate::{Model, Wire, http::fixture::model};

fn check(wire: Wire, api_id: &str, options: Value, variants: &[(&str, Value)], expected: Value) {
    let mut model: Model = model(wire);
    api_id.clone_into(&mut model.api_id);
    model.options = options.as_object().unwrap().clone();
    let variants =
        variants.iter().map(|(name, value)| ((*name).to_owned(), value.as_object().unwrap().clone()));
    model.variants = variants.collect();
    assert_eq!(Value::Object(without_thinking(&model).options), expected, "{api_id}");
}

#[test]
fn a_small_request_thinks_as_little_as_it_can() {
    let thinking = json!({"type": "enabled", "budgetTokens": 16_000});
    check(
        Wire::Anthropic,
        "claude-haiku-4-5",
        json!({"thinking": thinking, "effort": "high", "x": 1}),
        &[],
        json!({"x": 1}),
    );
    check(
        Wire::Anthropic,
        "minimax-m3",
        json!({"thinking": thinking}),
        &[],
        json!({"thinking": {"type": "disabled"}}),
    );
    check(Wire::Bedrock, "us.anthropic.claude-opus-5", json!({"thinking": thinking}), &[], json!({}));
    let efforts = [("low", json!({"reasoningEffort": "low"})), ("none", json!({"reasoningEffort": "none"}))];
    check(
        Wire::OpenAiResponses,
        "gpt-5.4-nano",
        json!({"reasoningEffort": "medium", "textVerbosity": "low"}),
        &efforts,
        json!({"textVerbosity": "low", "reasoningEffort": "none"}),
    );
    check(Wire::OpenAiChat, "grok", json!({}), &efforts[..1], json!({"reasoningEffort": "low"}));
    check(
        Wire::OpenAiChat,
        "glm-4.7",
        json!({"thinking": thinking}),
        &[],
        json!({"thinking": {"type": "disabled"}}),
    );
    check(
        Wire::OpenAiChat,
        "qwen3",
        json!({"enable_thinking": true}),
        &[],
        json!({"enable_thinking": false}),
    );
    let config = |value: Value| json!({"thinkingConfig": value});
    check(
        Wire::Google,
        "gemini-2.5-flash",
        config(json!({"includeThoughts": true})),
        &[],
        config(json!({"thinkingBudget": 0})),
    );
    check(
        Wire::Google,
        "gemini-3-flash",
        config(json!({"thinkingLevel": "high"})),
        &[],
        config(json!({"thinkingLevel": "low"})),
    );
}
