//! The person behind a login, as far as a provider's words about them can be kept.

use windlass_base::text::visible_line;

/// Maximum characters of a name.
const MAX_NAME: usize = 100;
/// Maximum characters of a subject (OpenID Connect Core, section 2).
const MAX_SUBJECT: usize = 255;
/// Maximum bytes of an address (RFC 5321).
const MAX_EMAIL: usize = 254;

/// Checks the provider's id of an account.
pub(super) fn subject(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it names no account".to_owned());
    }
    if text.chars().count() > MAX_SUBJECT {
        return Err(format!("its account's id is longer than {MAX_SUBJECT} characters"));
    }
    if text.chars().any(char::is_control) {
        return Err("its account's id has control characters".to_owned());
    }
    Ok(text.to_owned())
}

/// Chooses the first name that is not empty, and makes it safe to show.
pub(super) fn name<'a>(names: impl IntoIterator<Item = Option<&'a str>>) -> Option<String> {
    let name = names.into_iter().flatten().map(str::trim).find(|name| !name.is_empty())?;
    Some(visible_line(name).chars().take(MAX_NAME).collect())
}

/// Keeps an address that can be one.
pub(super) fn email(text: &str) -> Option<String> {
    let text = text.trim();
    let is_plain = !text.chars().any(|character| character.is_control() || character.is_whitespace());
    (is_plain && text.len() <= MAX_EMAIL && text.contains('@') && visible_line(text) == text)
        .then(|| text.to_owned())
}
