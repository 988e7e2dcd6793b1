//! Placeholders: a command has them in the place of keys, which the proxy puts in for named hosts alone.

use std::{collections::BTreeMap, fmt, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderValue, header};

use super::authority::Authority;
use crate::{
    ids,
    names::{Host, Names},
};

/// Beginning of every placeholder, by which a reader of a log recognises it.
const BEGINNING: &str = "windlass-placeholder-";
const CHARS: usize = 32;

/// The keys of a command.
#[derive(Debug, Clone)]
pub struct Keys {
    keys: Vec<Key>,
    authority: Arc<Authority>,
}

#[derive(Clone)]
struct Key {
    variable: String,
    placeholder: String,
    value: String,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.variable)
    }
}

impl Keys {
    /// Makes placeholders for the variables that a network names and that are set; none where there is none.
    pub fn new(
        names: &Names,
        variables: &BTreeMap<String, String>,
        authority: impl FnOnce() -> std::io::Result<Arc<Authority>>,
    ) -> std::io::Result<Option<Self>> {
        let set = names.keys().filter_map(|variable| {
            let value = variables.get(variable).filter(|it| !it.is_empty())?;
            let placeholder = format!("{BEGINNING}{}", ids::random(CHARS));
            Some(Key { variable: variable.to_owned(), placeholder, value: value.clone() })
        });
        let keys: Vec<Key> = set.collect();
        if keys.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { keys, authority: authority()? }))
    }

    /// Leaves out the variables that are set for a server itself.
    #[must_use]
    pub fn except(mut self, own: &BTreeMap<String, String>) -> Self {
        self.keys.retain(|key| !own.contains_key(&key.variable));
        self
    }

    /// Returns the command's variables: the placeholders, and those by which it trusts the proxy.
    pub fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let own = self.keys.iter().map(|key| (key.variable.clone(), key.placeholder.clone()));
        own.chain(self.authority.variables())
    }

    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the keys that a host gets; none where it gets none.
    pub(super) fn of_host(&self, names: &Names, host: &Host, port: u16) -> Option<HostKeys> {
        let own = self.keys.iter().filter(|key| names.gives(&key.variable, host, port));
        let keys: Vec<Key> = own.cloned().collect();
        (!keys.is_empty()).then_some(HostKeys { keys })
    }
}

/// The keys that a host gets.
#[derive(Debug, Clone)]
pub(super) struct HostKeys {
    keys: Vec<Key>,
}

impl HostKeys {
    /// Puts the keys into the headers of a request alone, as hosts store and show addresses and bodies. The error names
    /// the variable with a value that does not fit.
    pub fn put(&self, headers: &mut HeaderMap) -> Result<(), String> {
        for (name, value) in headers.iter_mut() {
            let Ok(text) = value.to_str() else { continue };
            let is_login = [header::AUTHORIZATION, header::PROXY_AUTHORIZATION].contains(name);
            let basic = is_login.then(|| self.in_basic(text)).flatten();
            let Some((variable, filled)) = basic.or_else(|| self.filled(text)) else { continue };
            let filled = HeaderValue::from_str(&filled);
            *value =
                filled.map_err(|_| format!("the value of {variable} has letters that no header has."))?;
            value.set_sensitive(true);
        }
        Ok(())
    }

    /// Returns the text with keys in the place of their placeholders, and the last key's variable.
    fn filled(&self, text: &str) -> Option<(&str, String)> {
        let mut acc = None;
        for key in &self.keys {
            let filled = acc.as_ref().map_or(text, |(_, filled): &(&str, String)| filled.as_str());
            if filled.contains(&key.placeholder) {
                acc = Some((key.variable.as_str(), filled.replace(&key.placeholder, &key.value)));
            }
        }
        acc
    }

    /// Does so within a login by name and password, which is encoded.
    fn in_basic(&self, text: &str) -> Option<(&str, String)> {
        let (scheme, token) = text.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let login = String::from_utf8(BASE64_STANDARD.decode(token.trim()).ok()?).ok()?;
        let (variable, filled) = self.filled(&login)?;
        Some((variable, format!("{scheme} {}", BASE64_STANDARD.encode(filled))))
    }
}

#[cfg(test)]
mod tests {
    //! Keys in requests.

    use super::*;

    fn keys() -> HostKeys {
        let key = |variable: &str, placeholder: &str, value: &str| Key {
            variable: variable.to_owned(),
            placeholder: placeholder.to_owned(),
            value: value.to_owned(),
        };
        HostKeys { keys: vec![key("TOKEN", "place-1", "secret"), key("BROKEN", "place-2", "a\nb")] }
    }

    fn put(name: &'static str, value: &str) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).expect("a header"));
        keys().put(&mut headers)?;
        Ok(headers[name].to_str().expect("letters").to_owned())
    }

    #[test]
    fn a_placeholder_becomes_its_key_in_headers() {
        for (name, value, expected) in [
            ("authorization", "Bearer place-1", "Bearer secret"),
            ("x-key", "place-1/place-1", "secret/secret"),
            ("x-key", "place-3", "place-3"),
            ("authorization", "basic dXNlcjpwbGFjZS0x", "basic dXNlcjpzZWNyZXQ="),
            ("authorization", "Basic dXNlcjpvdGhlcg==", "Basic dXNlcjpvdGhlcg=="),
        ] {
            assert_eq!(put(name, value).as_deref(), Ok(expected), "{name}: {value}");
        }
    }

    #[test]
    fn a_key_that_no_header_can_have_is_named_and_not_shown() {
        let refused = put("x-key", "place-2").expect_err("a refusal");
        assert_eq!(refused, "the value of BROKEN has letters that no header has.");
        assert!(!format!("{:?}", keys()).contains("secret"));
    }
}
