//! URLs as they are shown: without the parts that carry keys.

use reqwest::Url;

/// Removes the query, the fragment and the user from a URL for messages.
pub fn without_secrets(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Fails only for URLs that cannot have a user.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}
