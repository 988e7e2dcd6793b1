//! Headers that say which session a request belongs to (facts: provider requests §1).

use reqwest::header::{HeaderMap, HeaderValue};

use crate::provider::{Model, Prompt, Quirk};

/// Adds the headers, none of which identifies the user; the user's own hold.
pub(super) fn add(model: &Model, prompt: &Prompt<'_>, headers: &mut HeaderMap) {
    if model.has(Quirk::Initiator) {
        return;
    }
    let is_opencode = model.provider_id.starts_with("opencode");
    // Servers with several machines find the one that knows the conversation.
    let names: &[&'static str] =
        if is_opencode { &["x-opencode-session"] } else { &["x-session-affinity", "x-session-id"] };
    let session = prompt.cache_key.and_then(|session| HeaderValue::try_from(session).ok());
    for (name, session) in names.iter().zip(session.iter().cycle()) {
        headers.entry(*name).or_insert(session.clone());
    }
    if is_opencode {
        headers.entry("x-opencode-client").or_insert(HeaderValue::from_static("windlass"));
    }
}
