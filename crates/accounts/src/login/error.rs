//! The reasons for which a login fails, in sentences for people.

use windlass_base::text::visible_line;

/// Maximum characters of a text that a provider wrote.
const MAX_REASON: usize = 200;

/// A login that failed. No text holds a secret, a code or a token.
///
/// `provider` is the name that people know the provider by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// A setting cannot be used as it is.
    #[error("the login provider \"{provider}\" cannot be used: {reason}")]
    Settings { provider: String, reason: String },
    /// No provider has this id.
    #[error(
        "there is no login provider with the id \"{id}\"; choose one of those that the login page offers"
    )]
    UnknownProvider { id: String },
    /// The attempt is too old, was completed before, or was never begun.
    #[error(
        "this login at {provider} is not known any more: it took longer than 10 minutes, was used before, or the server \
         was restarted; log in again"
    )]
    UnknownAttempt { provider: String },
    /// The answer came by another browser than the one that began.
    #[error(
        "this login at {provider} was begun in another browser, or cookies are switched off; log in again in this browser"
    )]
    OtherBrowser { provider: String },
    /// The attempt belongs to another provider than the one that the answer is addressed to.
    #[error("the answer came from {provider}, but the login was begun elsewhere; log in again")]
    OtherProvider { provider: String },
    /// The answer names another issuer than the provider's, or none although this one always does (RFC 9207).
    #[error(
        "the answer to the login at {provider} was not given by it ({reason}); log in again, and tell the administrator \
         if this happens again"
    )]
    OtherIssuer { provider: String, reason: String },
    /// The person or the provider said no.
    #[error(
        "{provider} did not allow the login ({reason}); log in again, or ask its administrator for access"
    )]
    Denied { provider: String, reason: String },
    /// A code or a refresh token is not accepted any more: the account's session at the provider has ended.
    #[error("{provider} does not accept this login any more ({reason}); log in again")]
    Refused { provider: String, reason: String },
    /// The provider does not accept this server as its client.
    #[error(
        "{provider} does not accept this server as a client ({reason}); the administrator has to compare the client id, \
         the client secret and the redirect address with those registered there"
    )]
    Client { provider: String, reason: String },
    /// The provider gave no answer, or one that says to try later.
    #[error("{provider} cannot be reached ({reason}); try again in a moment")]
    Unreachable { provider: String, reason: String },
    /// The provider's answer cannot be used.
    #[error("{provider} sent an answer that cannot be used: {reason}")]
    Answer { provider: String, reason: String },
    /// A token does not prove a login.
    #[error("a token of {provider} is not accepted: {reason}")]
    Token { provider: String, reason: String },
}

/// Makes a text of a provider safe to show, and short.
pub(super) fn shown(text: &str) -> String {
    visible_line(text.trim()).chars().take(MAX_REASON).collect()
}

/// Joins an OAuth error and its description.
pub(super) fn described(error: &str, description: Option<&str>) -> String {
    match description.map(str::trim).filter(|description| !description.is_empty()) {
        Some(description) => shown(&format!("{error}: {description}")),
        None => shown(error),
    }
}
