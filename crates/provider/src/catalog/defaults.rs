//! Settings that OpenCode gives models of certain families (facts: provider requests §5, §6).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{rows::Row, table::ReasoningOption};
use crate::{Quirk, Quirks, Sampling, Wire, bedrock};

/// A model as far as settings depend on it.
pub(super) struct Subject<'a> {
    pub provider: &'a str,
    pub row: Option<&'static Row>,
    pub api_id: &'a str,
    pub wire: Wire,
    pub quirks: Quirks,
    pub reasons: bool,
    pub output: u64,
}

/// Returns the fields of every request's body, under the names that users write into `options`.
pub(super) fn options(subject: &Subject<'_>) -> Map<String, Value> {
    let id = subject.api_id.to_ascii_lowercase();
    let mut options = Map::new();
    let fixed = |json: &str| serde_json::from_str::<Map<String, Value>>(json).unwrap_or_default();
    if let Some(row) = subject.row {
        options.extend(fixed(row.options));
        if subject.reasons {
            options.extend(fixed(row.thinking));
        }
    }
    if !subject.reasons {
        return options;
    }
    let mut set = |key: &str, value: Value| _ = options.insert(key.to_owned(), value);
    match subject.wire {
        Wire::OpenAiResponses => {
            let is_gpt_5 = id.contains("gpt-5");
            if is_gpt_5 && !id.contains("-pro") && !id.contains("-chat") {
                set("reasoningEffort", json!("medium"));
                set("reasoningSummary", json!("auto"));
                if id.contains("gpt-5.") && !id.contains("codex") && !subject.provider.starts_with("azure") {
                    set("textVerbosity", json!("low"));
                }
            }
            if subject.provider == "meta" {
                set("reasoningSummary", json!("auto"));
            }
        }
        Wire::Google => {
            let mut thinking = json!({"includeThoughts": true});
            if !is_old_gemini(&id) {
                thinking["thinkingLevel"] = json!("high");
            }
            set("thinkingConfig", thinking);
        }
        Wire::Anthropic if claude_version(&id).is_some_and(|version| version >= (5, 1)) => {
            set("thinking", adaptive(&id));
        }
        Wire::Anthropic if id.contains("kimi") || id.contains("k2p") => {
            set("thinking", json!({"type": "adaptive", "display": "summarized"}));
            set("effort", json!("high"));
        }
        Wire::Anthropic if id.contains("minimax-m3") => set("thinking", json!({"type": "adaptive"})),
        Wire::OpenAiChat if subject.quirks.has(Quirk::ReasoningObject) && id.contains("gemini-3") => {
            set("reasoning", json!({"effort": "high"}));
        }
        Wire::Bedrock if claude_version(&id).is_some_and(|version| version >= (5, 1)) => {
            set("thinking", json!({"type": "adaptive", "display": "summarized"}));
        }
        Wire::OpenAiChat if subject.provider.starts_with("azure") && id.contains("gpt-5") => {
            set("reasoningEffort", json!("medium"));
            set("store", json!(false));
        }
        Wire::Anthropic | Wire::Bedrock | Wire::OpenAiChat | Wire::Demo => {}
    }
    options
}

/// Returns headers that the family needs.
pub(super) fn headers(subject: &Subject<'_>) -> Option<(&'static str, &'static str)> {
    let is_copilots = subject.provider == "github-copilot" && subject.wire == Wire::Anthropic;
    is_copilots.then_some(("anthropic-beta", "interleaved-thinking-2025-05-14"))
}

/// Returns the sampling that a family's maker recommends.
pub(super) fn sampling(api_id: &str) -> Sampling {
    let id = api_id.to_ascii_lowercase();
    let has = |name: &str| id.contains(name);
    let of = |temperature, top_p, top_k| Sampling { temperature, top_p, top_k };
    let gemini = ["gemini-2.5", "gemini-3-flash", "gemini-3-pro", "gemini-3.1", "gemini-3.5-flash"];
    if gemini.iter().any(|name| has(name)) {
        of(Some(1.0), Some(0.95), Some(64))
    } else if has("minimax-m2") {
        of(Some(1.0), Some(0.95), Some(if has("minimax-m2.") { 40 } else { 20 }))
    } else if has("kimi-k2.5") {
        of(Some(1.0), Some(0.95), None)
    } else if has("kimi-k2.") || has("kimi-k2-thinking") {
        of(Some(1.0), None, None)
    } else if has("kimi-k2") {
        of(Some(0.6), None, None)
    } else if has("glm-4.6") || has("glm-4.7") || has("north-mini-code") {
        of(Some(1.0), None, None)
    } else if has("deepseek-v4-flash") {
        of(None, Some(0.95), None)
    } else {
        Sampling::default()
    }
}

/// Returns the variants that the catalog's options mean, in their order.
pub(super) fn variants(
    subject: &Subject<'_>,
    listed: Option<&[ReasoningOption]>,
) -> Vec<(String, Map<String, Value>)> {
    if !subject.reasons {
        return Vec::new();
    }
    let listed = listed.unwrap_or_default();
    let efforts = listed.iter().filter(|option| option.kind == "effort").flat_map(|option| &option.values);
    let efforts: Vec<&str> = efforts.map(|value| value.as_deref().unwrap_or("none")).collect();
    if !efforts.is_empty() {
        let options = |effort: &&str| Some(((*effort).to_owned(), with_effort(subject, effort)));
        return efforts.iter().filter_map(options).collect();
    }
    let Some(budget) = listed.iter().find(|option| option.kind == "budget_tokens") else { return Vec::new() };
    let most = [budget.max.unwrap_or(31_999), 31_999, subject.output.saturating_sub(1).max(1_024)];
    let most = most.into_iter().min().unwrap_or(31_999);
    let sizes = [("high", most.div_ceil(2)), ("max", most)];
    let options = |(name, size): (&str, u64)| Some((name.to_owned(), with_budget(subject, size)?));
    sizes.into_iter().filter_map(options).collect()
}

fn with_effort(subject: &Subject<'_>, effort: &str) -> Map<String, Value> {
    let id = subject.api_id.to_ascii_lowercase();
    let options = match subject.wire {
        Wire::Bedrock if id.contains("openai.") => json!({"reasoningEffort": effort}),
        Wire::Bedrock if !bedrock::is_claude(&id) => {
            json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": effort}})
        }
        Wire::Anthropic | Wire::Bedrock => match claude_version(&id) {
            Some(version) if version < (4, 6) => {
                let budget = 16_000.min((subject.output / 2).saturating_sub(1)).max(1_024);
                json!({"thinking": {"type": "enabled", "budgetTokens": budget}, "effort": effort})
            }
            // The mark for bound thoughts needs a header that Bedrock does not know.
            Some(version) if version >= (5, 1) && subject.wire == Wire::Bedrock => {
                json!({"thinking": {"type": "adaptive", "display": "summarized"}, "effort": effort})
            }
            Some(_) | None => json!({"thinking": adaptive(&id), "effort": effort}),
        },
        Wire::Google => json!({"thinkingConfig": {"includeThoughts": true, "thinkingLevel": effort}}),
        Wire::OpenAiChat if subject.quirks.has(Quirk::ReasoningObject) => {
            json!({"reasoning": {"effort": effort}})
        }
        Wire::OpenAiResponses => json!({"reasoningEffort": effort, "reasoningSummary": "auto"}),
        Wire::OpenAiChat | Wire::Demo => json!({"reasoningEffort": effort}),
    };
    options.as_object().cloned().unwrap_or_default()
}

fn with_budget(subject: &Subject<'_>, size: u64) -> Option<Map<String, Value>> {
    let options = match subject.wire {
        Wire::Anthropic | Wire::Bedrock => json!({"thinking": {"type": "enabled", "budgetTokens": size}}),
        Wire::Google => json!({"thinkingConfig": {"includeThoughts": true, "thinkingBudget": size}}),
        Wire::OpenAiChat if subject.quirks.has(Quirk::ReasoningObject) => {
            json!({"reasoning": {"max_tokens": size}})
        }
        Wire::OpenAiChat if subject.provider.starts_with("alibaba") => {
            json!({"enable_thinking": true, "thinking_budget": size})
        }
        Wire::OpenAiChat | Wire::OpenAiResponses | Wire::Demo => return None,
    };
    options.as_object().cloned()
}

fn adaptive(id: &str) -> Value {
    match claude_version(id) {
        Some(version) if version >= (5, 1) && !id.contains("mythos-5-1") => json!({
            "type": "adaptive", "display": "summarized",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"},
        }),
        Some(version) if version < (4, 7) => json!({"type": "adaptive"}),
        Some(_) | None => json!({"type": "adaptive", "display": "summarized"}),
    }
}

fn is_old_gemini(id: &str) -> bool {
    id.contains("gemini-1") || id.contains("gemini-2")
}

/// Reads the version in a Claude's id: `claude-opus-4-5`, `claude-opus-4.5` and `claude-sonnet-4-20250514` have
/// one, `claude-3-opus` another place for it.
fn claude_version(id: &str) -> Option<(u32, u32)> {
    let (_, rest) = id.split_once("claude-")?;
    let numbers = rest.split(['-', '.', '@', ':']).map(|word| word.parse::<u32>().ok());
    let mut numbers = numbers.skip_while(Option::is_none);
    let major = numbers.next()??;
    // A day is no version.
    let minor = numbers.next().flatten().filter(|minor| *minor < 100).unwrap_or(0);
    Some((major, minor))
}

/// Lays the configured variants over the family's, without those that are switched off.
pub(super) fn with_written(
    family: Vec<(String, Map<String, Value>)>,
    written: &BTreeMap<String, Map<String, Value>>,
) -> Vec<(String, Map<String, Value>)> {
    let mut variants = family;
    for (name, options) in written {
        let at = variants.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            variants.push((name.clone(), Map::new()));
            variants.len() - 1
        });
        variants[at].1.extend(options.clone());
    }
    variants.retain_mut(|(_, options)| options.shift_remove("disabled") != Some(Value::Bool(true)));
    variants
}

#[cfg(test)]
mod tests;
