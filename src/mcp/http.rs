//! What requests to remote servers have in common.

use reqwest::Url;

/// Removes the query and the user from a URL for messages, since both carry keys.
pub(super) fn without_secrets(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Fails only for URLs that cannot have a user.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

/// Chooses the process's cryptography.
pub(super) fn install_tls() {
    // Fails if one is chosen already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
