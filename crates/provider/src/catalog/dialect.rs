//! Packages that serve models of several makers: the protocol, address and id of each model.

use crate::{Quirk, Quirks, Wire};

/// The protocol of one model.
pub(super) struct Dialect {
    pub wire: Wire,
    pub quirks: Quirks,
    /// The folder of the protocol below the address; empty for the address itself.
    pub folder: &'static str,
    /// The id that requests name the model by.
    pub api_id: String,
}

/// Returns a model's dialect from the peculiarities of its provider, its id and the path that is said to serve it.
pub(super) type DialectFn = fn(Quirks, &str, Option<&str>) -> Dialect;

/// Returns Copilot's dialect for a model: as Copilot says, or by the model's family.
pub(super) fn copilot_dialect(quirks: Quirks, api_id: &str, endpoint: Option<&str>) -> Dialect {
    let of_family = || {
        if api_id.starts_with("claude-") {
            Wire::Anthropic
        } else if is_gpt_5(api_id) {
            Wire::OpenAiResponses
        } else {
            Wire::OpenAiChat
        }
    };
    let wire = endpoint.and_then(wire_of).unwrap_or_else(of_family);
    let (quirks, folder) = match wire {
        Wire::Anthropic => (Quirks::of(&[Quirk::Initiator]), "v1"),
        Wire::OpenAiResponses => (quirks.and(Quirks::of(&[Quirk::NoOutputLimit])), ""),
        Wire::OpenAiChat | Wire::Google | Wire::Bedrock | Wire::Demo => (quirks, ""),
    };
    Dialect { wire, quirks, folder, api_id: api_id.to_owned() }
}

/// Returns the dialect of GitLab's gateway for a model.
pub(super) fn gitlab_dialect(quirks: Quirks, api_id: &str, _endpoint: Option<&str>) -> Dialect {
    let own_id = gitlab_model_id(api_id);
    if api_id.contains("gpt") {
        let quirks = Quirks::of(&[Quirk::Instructions]);
        return Dialect { wire: Wire::OpenAiResponses, quirks, folder: "openai/v1", api_id: own_id };
    }
    Dialect { wire: Wire::Anthropic, quirks, folder: "anthropic/v1", api_id: own_id }
}

/// Returns the wire of one of Copilot's paths.
pub(super) fn wire_of(endpoint: &str) -> Option<Wire> {
    match endpoint {
        "/v1/messages" => Some(Wire::Anthropic),
        "/responses" => Some(Wire::OpenAiResponses),
        "/chat/completions" => Some(Wire::OpenAiChat),
        _ => None,
    }
}

/// Returns true for GPT-5 and later, which Copilot serves by responses.
fn is_gpt_5(api_id: &str) -> bool {
    let version = api_id.strip_prefix("gpt-").and_then(|rest| rest.split(['-', '.']).next());
    version.and_then(|version| version.parse::<u32>().ok()).is_some_and(|version| version >= 5)
        && !api_id.starts_with("gpt-5-mini")
}

/// Returns the id that GitLab's gateway knows one of its models by: `duo-chat-gpt-5-6-sol` is `gpt-5.6-sol`.
fn gitlab_model_id(id: &str) -> String {
    let Some(rest) = id.strip_prefix("duo-chat-") else { return id.to_owned() };
    let Some(version) = rest.strip_prefix("gpt-") else { return format!("claude-{rest}") };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match version.split_once('-') {
        Some((major, minor)) if minor.split('-').next().is_some_and(is_number) => {
            format!("gpt-{major}.{minor}")
        }
        Some(_) | None => rest.to_owned(),
    }
}
