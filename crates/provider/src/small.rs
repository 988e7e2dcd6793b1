//! Small requests, such as for a title: they need no thinking.

use serde_json::{Map, Value, json};

use super::{Model, Wire, bedrock};

/// Options by which users and the catalog have a model think.
const THINKING: [&str; 9] = [
    "chat_template_args",
    "effort",
    "enable_thinking",
    "reasoning",
    "reasoningConfig",
    "reasoningEffort",
    "reasoning_effort",
    "thinking",
    "thinkingConfig",
];

/// Returns the model with as little thinking as it can do with.
pub fn without_thinking(model: &Model) -> Model {
    let mut options = Map::new();
    for (key, value) in &model.options {
        if !THINKING.contains(&key.as_str()) {
            options.insert(key.clone(), value.clone());
        }
    }
    options.extend(least(model));
    Model { options, ..model.clone() }
}

/// Returns the options with which the model thinks least.
fn least(model: &Model) -> Map<String, Value> {
    let id = model.api_id.to_ascii_lowercase();
    // Claude does not think unless it is told to.
    let is_silent = match model.wire {
        Wire::Anthropic => !model.options.contains_key("thinking") || id.contains("claude"),
        Wire::Bedrock => bedrock::is_claude(&id),
        Wire::OpenAiChat | Wire::OpenAiResponses | Wire::Google | Wire::Demo => false,
    };
    if is_silent || !model.reasons {
        return Map::new();
    }
    if let Some(options) = ["none", "minimal", "low"].iter().find_map(|effort| model.variant(effort)) {
        return options.clone();
    }
    // Thinking that is switched on for every request is switched off.
    let off = if model.options.contains_key("thinking") {
        json!({"thinking": {"type": "disabled"}})
    } else if model.options.contains_key("enable_thinking") {
        json!({"enable_thinking": false})
    } else if model.options.contains_key("chat_template_args") {
        json!({"chat_template_args": {"enable_thinking": false}})
    } else if model.wire == Wire::Google && id.contains("gemini-2.5") {
        // Only the larger one cannot do without.
        json!({"thinkingConfig": {"thinkingBudget": if id.contains("pro") { 128 } else { 0 }}})
    } else if model.wire == Wire::Google && model.options.contains_key("thinkingConfig") {
        json!({"thinkingConfig": {"thinkingLevel": "low"}})
    } else {
        json!({})
    };
    off.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests;
