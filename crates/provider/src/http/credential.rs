//! The secret that a request carries, asked for right before it is sent, and the headers that belong to it.

use reqwest::header::{HeaderMap, HeaderValue};

use super::exchange::Granted;
use crate::{Auth, Model, Prompt, PromptMessage, Quirk, Secret, UserContent, login::tokens::Access};

/// The secret of a request.
pub(crate) enum Credential {
    /// Local servers work without a key.
    None,
    Key(Secret),
    /// The token of a login.
    Token(Access),
    /// A token that was given in exchange for a key or login.
    Granted(Granted),
}

impl Credential {
    /// Returns a model's key.
    pub fn key(model: &Model) -> Self {
        let key = model.api_key.as_ref().map(|key| key.0.trim()).filter(|key| !key.is_empty());
        key.map_or(Credential::None, |key| Credential::Key(Secret(key.to_owned())))
    }

    /// Returns the token, which may be replaced by another one if the provider refuses it.
    pub fn token(&self) -> Option<&Secret> {
        match self {
            Credential::Token(access) => Some(&access.token),
            Credential::Granted(granted) => Some(&granted.token),
            Credential::None | Credential::Key(_) => None,
        }
    }

    /// Returns headers that were given with it.
    pub fn granted(&self) -> &[(String, String)] {
        match self {
            Credential::Granted(granted) => &granted.headers,
            Credential::None | Credential::Key(_) | Credential::Token(_) => &[],
        }
    }

    /// Returns the text that must not be shown.
    pub fn secret(&self) -> Option<&str> {
        match self {
            Credential::None => None,
            Credential::Key(secret) => Some(&secret.0),
            Credential::Token(access) => Some(&access.token.0),
            Credential::Granted(granted) => Some(&granted.token.0),
        }
    }

    /// Returns the headers that carry it.
    pub fn headers(&self, model: &Model) -> Vec<(&'static str, String)> {
        let Some(secret) = self.secret() else { return Vec::new() };
        let auth = if self.token().is_some() { Auth::Bearer } else { model.auth };
        let mut headers = vec![match auth {
            Auth::Bearer => ("authorization", format!("Bearer {secret}")),
            Auth::Header(name) => (name, secret.to_owned()),
            Auth::BearerIn(name) => (name, format!("Bearer {secret}")),
        }];
        if let Credential::Token(Access { account: Some(account), .. }) = self {
            headers.push(("chatgpt-account-id", account.clone()));
        }
        headers
    }
}

/// Adds headers that depend on the conversation (facts: provider requests §8.1, §8.2).
pub(super) fn add_prompt_headers(model: &Model, prompt: &Prompt<'_>, headers: &mut HeaderMap) {
    let mut insert = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    };
    if model.has(Quirk::SessionHeader)
        && let Some(session) = prompt.ids.session
    {
        insert("session-id", session);
    }
    if !model.has(Quirk::Initiator) {
        return;
    }
    // A request after a tool's result was not made by a person.
    let is_users = !prompt.ids.is_agents && matches!(prompt.messages.last(), Some(PromptMessage::User(_)));
    insert("x-initiator", if is_users { "user" } else { "agent" });
    let has_media = |message: &PromptMessage<'_>| match message {
        PromptMessage::User(contents) => contents.iter().any(|it| matches!(it, UserContent::Media(_))),
        PromptMessage::ToolResults(results) => results.iter().any(|result| !result.media.is_empty()),
        PromptMessage::Assistant(_) | PromptMessage::Encoded(_) => false,
    };
    if prompt.messages.iter().any(has_media) {
        insert("copilot-vision-request", "true");
    }
    if let Some(session) = prompt.ids.session {
        insert("x-interaction-id", session);
    }
}
