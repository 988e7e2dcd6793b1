//! Headers that say which session a request belongs to (facts: provider requests §1).

use reqwest::header::{HeaderMap, HeaderValue};

use crate::provider::{Model, Prompt, Quirk};

/// Adds the headers, none of which identifies the user; the user's own hold.
pub(super) fn add(model: &Model, prompt: &Prompt<'_>, headers: &mut HeaderMap) {
    if model.has(Quirk::Initiator) {
        return;
    }
    let ids = prompt.ids;
    // Servers with several machines find the one that knows the conversation.
    let named: &[(&'static str, Option<&str>)] = if model.provider_id.starts_with("opencode") {
        &[
            ("x-opencode-project", ids.project),
            ("x-opencode-session", prompt.cache_key),
            ("x-opencode-request", ids.message),
            ("x-opencode-client", Some("windlass")),
        ]
    } else {
        &[
            ("x-session-affinity", prompt.cache_key),
            ("x-session-id", prompt.cache_key),
            ("x-parent-session-id", ids.parent_session),
        ]
    };
    for (name, value) in named {
        let value = value.and_then(|value| HeaderValue::try_from(value).ok());
        if let Some(value) = value {
            headers.entry(*name).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Each provider gets its own names, and the user's headers hold.

    use reqwest::header::{HeaderMap, HeaderValue};

    use super::add;
    use crate::provider::{Prompt, PromptIds, Quirk, Quirks, Wire, http::fixture};

    #[test]
    fn a_request_says_which_session_asks() {
        let ids = PromptIds { parent_session: Some("ses_0"), project: Some("p1"), message: Some("msg_1") };
        let prompt = Prompt { cache_key: Some("ses_1"), ids, ..Prompt::default() };
        let mut model = fixture::model(Wire::OpenAiChat);
        let mut added = |provider: &str, quirks: &[Quirk], own: &[(&'static str, &'static str)]| {
            (model.provider_id, model.quirks) = (provider.to_owned(), Quirks::of(quirks));
            let mut headers = HeaderMap::new();
            for (name, value) in own {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            add(&model, &prompt, &mut headers);
            let pair = |(name, value): (&_, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
            headers.iter().map(pair).collect::<Vec<String>>()
        };
        let plain = ["x-session-affinity: ses_1", "x-session-id: ses_1", "x-parent-session-id: ses_0"];
        assert_eq!(added("acme", &[], &[]), plain);
        let zen = [
            "x-opencode-project: p1",
            "x-opencode-session: ses_1",
            "x-opencode-request: msg_1",
            "x-opencode-client: windlass",
        ];
        assert_eq!(added("opencode", &[], &[]), zen);
        assert_eq!(added("opencode-go", &[], &[]), zen);
        let own = ["x-session-id: mine", "x-session-affinity: ses_1", "x-parent-session-id: ses_0"];
        assert_eq!(added("acme", &[], &[("x-session-id", "mine")]), own);
        assert!(added("github-copilot", &[Quirk::Initiator], &[]).is_empty());
    }
}
