//! Settings of families of models.

use serde_json::{Value, json};

use super::{Subject, claude_version, options, sampling, variants};
use crate::{
    Quirks, Wire,
    catalog::{rows, table::ReasoningOption},
};

fn subject<'a>(provider: &'a str, api_id: &'a str, wire: Wire) -> Subject<'a> {
    let row = rows::find(provider);
    Subject { provider, row, api_id, wire, quirks: Quirks::default(), reasons: true, output: 64_000 }
}

#[track_caller]
fn check(provider: &str, api_id: &str, wire: Wire, expected: Value) {
    assert_eq!(Value::Object(options(&subject(provider, api_id, wire))), expected, "{provider}/{api_id}");
}

#[test]
fn options_by_family() {
    let gpt = json!({"reasoningEffort": "medium", "reasoningSummary": "auto", "textVerbosity": "low"});
    check("openai", "gpt-5.4", Wire::OpenAiResponses, gpt);
    let azure = json!({"reasoningEffort": "medium", "reasoningSummary": "auto"});
    check("azure", "gpt-5.4", Wire::OpenAiResponses, azure);
    check("openai", "gpt-5.5-pro", Wire::OpenAiResponses, json!({}));
    check("openai", "gpt-6-sol", Wire::OpenAiResponses, json!({}));
    check("meta", "muse-spark-1.3", Wire::OpenAiResponses, json!({"reasoningSummary": "auto"}));
    let thinks = json!({"thinkingConfig": {"includeThoughts": true}});
    check("google", "gemini-2.5-pro", Wire::Google, thinks);
    let high = json!({"thinkingConfig": {"includeThoughts": true, "thinkingLevel": "high"}});
    check("google", "gemini-3.8-flash", Wire::Google, high);
    check("anthropic", "claude-opus-5", Wire::Anthropic, json!({}));
    let bound = json!({"thinking": {
        "type": "adaptive", "display": "summarized",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    }});
    check("anthropic", "claude-opus-5-5", Wire::Anthropic, bound);
    let zai = json!({"thinking": {"type": "enabled", "clear_thinking": false}});
    check("zai", "glm-5.3", Wire::OpenAiChat, zai);
}

#[test]
fn sampling_by_family() {
    let of = |id| (sampling(id).temperature, sampling(id).top_p, sampling(id).top_k);
    assert_eq!(of("gemini-2.5-pro"), (Some(1.0), Some(0.95), Some(64)));
    assert_eq!(of("gemini-3.8-flash"), (None, None, None));
    assert_eq!(of("MiniMax-M2.1"), (Some(1.0), Some(0.95), Some(40)));
    assert_eq!(of("kimi-k2-instruct"), (Some(0.6), None, None));
    assert_eq!(of("claude-opus-5"), (None, None, None));
}

#[test]
fn versions_of_claude() {
    assert_eq!(claude_version("claude-opus-4-5-20251101"), Some((4, 5)));
    assert_eq!(claude_version("us.anthropic.claude-opus-4.7-v1:0"), Some((4, 7)));
    assert_eq!(claude_version("claude-sonnet-4-20250514"), Some((4, 0)));
    assert_eq!(claude_version("claude-opus-5@default"), Some((5, 0)));
    assert_eq!(claude_version("gpt-5"), None);
}

#[test]
fn variants_of_the_catalogs_options() {
    let effort = |values: &[&str]| ReasoningOption {
        kind: "effort".to_owned(),
        values: values.iter().map(|value| Some((*value).to_owned())).collect(),
        max: None,
    };
    let budget = ReasoningOption { kind: "budget_tokens".to_owned(), ..ReasoningOption::default() };
    let of = |subject: &Subject<'_>, listed: &[ReasoningOption]| {
        let variants = variants(subject, Some(listed)).into_iter();
        Value::Object(variants.map(|(name, options)| (name, Value::Object(options))).collect())
    };
    let gpt = subject("openai", "gpt-5.4", Wire::OpenAiResponses);
    assert_eq!(
        of(&gpt, &[effort(&["none", "high"])]),
        json!({
            "none": {"reasoningEffort": "none", "reasoningSummary": "auto"},
            "high": {"reasoningEffort": "high", "reasoningSummary": "auto"},
        })
    );
    let haiku = subject("anthropic", "claude-haiku-4-5", Wire::Anthropic);
    let enabled = |size: u64| json!({"thinking": {"type": "enabled", "budgetTokens": size}});
    assert_eq!(
        of(&haiku, std::slice::from_ref(&budget)),
        json!({"high": enabled(16_000), "max": enabled(31_999)})
    );
    let opus = subject("anthropic", "claude-opus-4-8", Wire::Anthropic);
    assert_eq!(
        of(&opus, &[effort(&["low"]), budget.clone()]),
        json!({"low": {"thinking": {"type": "adaptive", "display": "summarized"}, "effort": "low"}})
    );
    let gemini = subject("google", "gemini-2.5-pro", Wire::Google);
    let thinks = |size: u64| json!({"thinkingConfig": {"includeThoughts": true, "thinkingBudget": size}});
    assert_eq!(of(&gemini, &[budget]), json!({"high": thinks(16_000), "max": thinks(31_999)}));
    assert_eq!(of(&gemini, &[]), json!({}));
}
