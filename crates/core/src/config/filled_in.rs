//! Hides the texts that variables and files put into a configuration, wherever it is shown.

use std::{cmp::Reverse, collections::BTreeSet, path::Path};

use serde_json::Value;

use super::{
    known_keys::{Keys, keys},
    secrets::{self, STARS, is_placeholder},
};

/// Shorter texts are left in URLs: they are parts of other words.
const MIN_PART: usize = 4;

/// Hides the texts that were put in for variables and files: as parts of every URL, and as whole tokens where no type
/// describes the value, as among a provider's options. A URL that is put in whole is looked at like any other, and
/// the path of something is no secret. Tokens are of eight letters and more, as [`secrets::hide`] has them.
pub fn hide(path: &[String], value: &mut Value, texts: &BTreeSet<String>) {
    let is_part = |text: &&String| text.len() >= MIN_PART && !text.contains("://") && !is_placeholder(text);
    let mut parts: Vec<&str> = texts.iter().filter(is_part).map(String::as_str).collect();
    // One may be the beginning of another.
    parts.sort_unstable_by_key(|text| Reverse(text.len()));
    let place = path.iter().try_fold(keys(), |place, key| place.below(key));
    hide_parts(place, value, &parts);
}

fn hide_parts(place: Option<&Keys>, value: &mut Value, parts: &[&str]) {
    match value {
        Value::String(text) => {
            if text.contains("://") {
                let words = parts.iter().filter(|part| !part.contains(char::is_whitespace));
                *text = words.fold(std::mem::take(text), |url, part| url.replace(part, STARS));
            }
            if place.is_none_or(Keys::takes_anything) {
                let secrets = parts.iter().filter(|part| !is_path(part));
                *text = secrets.fold(std::mem::take(text), |text, part| secrets::hide(&text, part));
            }
        }
        Value::Array(list) => {
            let place = place.and_then(|place| place.below(""));
            list.iter_mut().for_each(|value| hide_parts(place, value, parts));
        }
        Value::Object(object) => {
            for (key, value) in object {
                hide_parts(place.and_then(|place| place.below(key)), value, parts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns true for the path of something that is there. A key may begin with a slash too.
fn is_path(text: &str) -> bool {
    text.starts_with("~/") || text.starts_with('/') && Path::new(text).exists()
}

#[cfg(test)]
mod tests;
