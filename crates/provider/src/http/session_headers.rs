//! Headers that say which session a request belongs to (facts: provider requests §1).

use reqwest::header::{HeaderMap, HeaderValue};

use crate::{Model, Prompt};

/// Adds the headers, none of which identifies the user; the user's own hold.
pub(super) fn add(model: &Model, prompt: &Prompt<'_>, headers: &mut HeaderMap) {
    let ids = prompt.ids;
    // Servers with several machines find the one that knows the conversation.
    let named: &[(&'static str, Option<&str>)] = if model.provider_id.starts_with("opencode") {
        &[
            ("x-opencode-project", ids.project),
            ("x-opencode-session", ids.session),
            ("x-opencode-request", ids.message),
            ("x-opencode-client", Some("windlass")),
        ]
    } else {
        &[
            ("x-session-affinity", ids.session),
            ("x-session-id", ids.session),
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
    use crate::{Prompt, PromptIds, Wire, http::fixture};

    #[test]
    fn a_request_says_which_session_asks() {
        let ids = PromptIds {
            session: Some("ses_1"),
            parent_session: Some("ses_0"),
            project: Some("p1"),
            message: Some("msg_1"),
            is_agents: false,
        };
        let prompt = Prompt { ids, ..Prompt::default() };
        let mut model = fixture::model(Wire::OpenAiChat);
        let mut added = |provider: &str, own: &[(&'static str, &'static str)]| {
            provider.clone_into(&mut model.provider_id);
            let mut headers = HeaderMap::new();
            for (name, value) in own {
                headers.insert(*name, HeaderValue::from_static(value));
            }
            add(&model, &prompt, &mut headers);
            let pair = |(name, value): (&_, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
            headers.iter().map(pair).collect::<Vec<String>>()
        };
        let plain = ["x-session-affinity: ses_1", "x-session-id: ses_1", "x-parent-session-id: ses_0"];
        assert_eq!(added("acme", &[]), plain);
        let zen = [
            "x-opencode-project: p1",
            "x-opencode-session: ses_1",
            "x-opencode-request: msg_1",
            "x-opencode-client: windlass",
        ];
        assert_eq!(added("opencode", &[]), zen);
        assert_eq!(added("opencode-go", &[]), zen);
        let own = ["x-session-id: mine", "x-session-affinity: ses_1", "x-parent-session-id: ses_0"];
        assert_eq!(added("acme", &[("x-session-id", "mine")]), own);
    }
}
