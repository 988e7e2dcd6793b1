//! Bodies in the form `application/x-www-form-urlencoded`.

use reqwest::Url;

/// Returns fields as such a body.
pub fn text(fields: &[(&str, &str)]) -> String {
    match Url::parse("form:/") {
        Ok(mut url) => {
            url.query_pairs_mut().extend_pairs(fields);
            url.query().unwrap_or_default().to_owned()
        }
        Err(_) => String::new(),
    }
}

/// Returns a text as the value of a field.
pub fn value(text: &str) -> String {
    self::text(&[("", text)]).trim_start_matches('=').to_owned()
}
