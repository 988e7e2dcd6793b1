//! Providers that serve a login elsewhere, or otherwise, than a key (facts: provider requests §8).

use windlass_protocol::opencode::config::ModelLimit;

use crate::{Quirk, Quirks};

/// A provider's peculiarities for users that logged in.
pub(super) struct Plan {
    provider: &'static str,
    /// The address, if it is another one.
    pub url: Option<&'static str>,
    /// The address for an instance of one's own, with `${INSTANCE}` for its host.
    pub instance_url: Option<&'static str>,
    pub headers: &'static [(&'static str, &'static str)],
    pub quirks: Quirks,
    /// True if the account decides which models there are.
    pub lists_models: bool,
    /// True if requests are paid for by the month.
    pub is_flat: bool,
    pub serves: fn(&str) -> bool,
    pub limit: fn(&str) -> Option<ModelLimit>,
}

/// Returns a provider's plan.
pub(super) fn find(provider: &str) -> Option<&'static Plan> {
    PLANS.iter().find(|plan| plan.provider == provider)
}

const PLANS: [Plan; 2] = [
    Plan {
        provider: "openai",
        url: Some("https://chatgpt.com/backend-api/codex"),
        instance_url: None,
        headers: &[("originator", "windlass")],
        quirks: Quirks::of(&[Quirk::Instructions, Quirk::NoOutputLimit, Quirk::SessionHeader]),
        lists_models: false,
        is_flat: true,
        serves: is_chatgpts,
        limit: chatgpts_limit,
    },
    Plan {
        provider: "github-copilot",
        url: None,
        instance_url: Some("https://copilot-api.${INSTANCE}"),
        headers: &[],
        quirks: Quirks::of(&[]),
        lists_models: true,
        is_flat: false,
        serves: |_| true,
        limit: |_| None,
    },
];

/// Returns true for the models that ChatGPT's plans serve.
fn is_chatgpts(id: &str) -> bool {
    const NAMED: [&str; 5] = ["gpt-5.4", "gpt-5.4-mini", "gpt-5.3-codex-spark", "gpt-6-sol", "gpt-6-luna"];
    // A faster mode is served where its model is.
    let id = id.strip_suffix("-fast").unwrap_or(id);
    let version = id.strip_prefix("gpt-").and_then(|rest| rest.split('-').next()?.split_once('.'));
    let version = version.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let is_newer = version.is_some_and(|version: (u32, u32)| version > (5, 4));
    NAMED.contains(&id) || is_newer && !id.contains("-pro") && id != "gpt-5.6"
}

fn chatgpts_limit(id: &str) -> Option<ModelLimit> {
    let is_smaller = id.starts_with("gpt-5.5") || id.starts_with("gpt-5.6");
    is_smaller.then_some(ModelLimit { context: 400_000, input: Some(272_000), output: 128_000 })
}
