//! An organisation's configuration that `auth.json` names: its owner, and the copy kept of the last fetch.

use std::{
    io,
    net::IpAddr,
    ops::Range,
    path::{Path, PathBuf},
};

use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use windlass_protocol::opencode::config::AuthEntry;

use super::{
    cache::{self, Cached},
    environment::Environment,
    jsonc,
    layer::Part,
    paths::Paths,
    text_file,
};

/// A `wellknown` entry of `auth.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Without a slash at the end.
    pub url: String,
    /// The variable that holds the token.
    pub variable: String,
    pub token: String,
}

/// An organisation's configuration as it is kept: the texts as they came, so that places in them can be named.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Its address; a document that was kept for another address is not used.
    pub url: String,
    /// The first answer.
    pub text: String,
    /// The second answer, when the first one's `remote_config` names one, and its address.
    pub remote: Option<(String, String)>,
}

impl Cached for Document {
    fn url(&self) -> &str {
        &self.url
    }
}

impl Document {
    /// Returns the configurations in it with their sources, the weaker first.
    pub fn configs(&self) -> Vec<(String, Part<'_>)> {
        let first = Answer::read(&self.text).ok().and_then(|answer| answer.config);
        let first = first.map(|config| (well_known(&self.url), part(&self.text, config)));
        let second = self.remote.as_ref().and_then(|(source, text)| {
            let range = second_answer(text).ok()?;
            Some((source.clone(), Part { whole: text, range }))
        });
        first.into_iter().chain(second).collect()
    }
}

/// The first answer.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    config: Option<&'a RawValue>,
    #[serde(default)]
    remote_config: Option<Remote>,
}

#[derive(Deserialize)]
struct Remote {
    url: String,
    #[serde(default)]
    headers: Map<String, Value>,
}

impl<'a> Answer<'a> {
    fn read(text: &'a str) -> Result<Self, String> {
        let answer: Self =
            serde_json::from_str(text).map_err(|err| format!("is not what was expected: {err}"))?;
        match answer.config {
            Some(config) if !is_object(config) => {
                Err("is not what was expected: `config` is not an object".to_owned())
            }
            Some(_) | None => Ok(answer),
        }
    }
}

fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

/// Returns the part of a text that a value in it is.
fn part<'a>(whole: &'a str, value: &RawValue) -> Part<'a> {
    // The value borrows from the text.
    let start = (value.get().as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    Part { whole, range: start..start + value.get().len() }
}

/// A request for the second answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub url: String,
    pub headers: Vec<(String, String)>,
}

/// Returns the `wellknown` entries of the credentials; ours override OpenCode's. The reader of the keys warns
/// about broken entries.
pub fn entries(environment: &Environment, paths: &Paths) -> Vec<Entry> {
    let texts = match environment.get("OPENCODE_AUTH_CONTENT") {
        Some(text) => vec![text.to_owned()],
        None => [paths.opencode_auth(), paths.auth()]
            .iter()
            .filter_map(|file| text_file::read(file).ok())
            .collect(),
    };
    let mut found = Map::new();
    for text in texts {
        if let Ok(entries) = serde_json::from_str::<Map<String, Value>>(&text) {
            found.extend(entries);
        }
    }
    let entry = |(url, value): (String, Value)| match AuthEntry::deserialize(value).ok()? {
        AuthEntry::Wellknown { key, token } => {
            Some(Entry { url: url.trim_end_matches('/').to_owned(), variable: key, token })
        }
        AuthEntry::Api { .. } | AuthEntry::Oauth { .. } => None,
    };
    found.into_iter().filter_map(entry).collect()
}

/// Returns the URL of an organisation's configuration.
pub fn well_known(url: &str) -> String {
    format!("{url}/.well-known/opencode")
}

/// Returns true if a configuration may be fetched from there: it may start programs, so it must not be changed
/// on the way.
pub fn is_trusted(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    url.scheme() == "https" || url.scheme() == "http" && is_here
}

/// Returns the reason why nothing can be fetched from a text as an address.
pub fn url_problem(url: &str) -> Option<&'static str> {
    let rest = ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    match rest {
        None => Some("is not a URL; write `https://…`"),
        Some(rest)
            if host(rest).is_empty() || url.contains(|it: char| it.is_whitespace() || it.is_control()) =>
        {
            Some("is not a URL with a host")
        }
        Some(_) => None,
    }
}

/// Returns the host of a URL without its scheme; with its user, where there is one.
fn host(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Reads the first answer: returns the request that has to follow.
pub fn first_answer(text: &str, environment: &Environment) -> Result<Option<Request>, String> {
    let request = Answer::read(text)?.remote_config.map(|remote| Request {
        url: remote.url,
        headers: remote
            .headers
            .into_iter()
            .filter_map(|(name, value)| Some((name, fill(value.as_str()?, environment))))
            .collect(),
    });
    Ok(request)
}

/// Returns the range of the configuration in the second answer: all of it, or the value of `config`.
pub fn second_answer(text: &str) -> Result<Range<usize>, String> {
    #[derive(Deserialize)]
    struct Wrapped<'a> {
        #[serde(borrow, default)]
        config: Option<&'a RawValue>,
    }
    let whole: &RawValue =
        serde_json::from_str(text).map_err(|err| format!("is not what was expected: {err}"))?;
    if !is_object(whole) {
        return Err("is not what was expected: it is not an object".to_owned());
    }
    let wrapped = serde_json::from_str::<Wrapped<'_>>(text).ok().and_then(|wrapped| wrapped.config);
    Ok(part(text, wrapped.filter(|config| is_object(config)).unwrap_or(whole)).range)
}

/// Replaces `{env:NAME}`.
fn fill(text: &str, environment: &Environment) -> String {
    let substitutes = jsonc::Substitutes {
        variable: &|name| environment.get(name).map(str::to_owned),
        file: &|name| Err(format!("{{file:{name}}}")),
    };
    let quoted = Value::from(text).to_string();
    let document = jsonc::parse(&format!("{{\"x\": {quoted}}}"), &substitutes);
    document.value.get("x").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the path under which an organisation's configuration is kept.
pub fn cache_file(paths: &Paths, url: &str) -> PathBuf {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = url.chars().map(plain).take(80).collect();
    // Two addresses may look alike without their punctuation.
    paths.data.join("cache/remote-config").join(format!("{name}-{}.json", cache::name(url)))
}

/// Keeps a document; false when the same was kept already.
pub fn keep(file: &Path, document: &Document) -> io::Result<bool> {
    if matches!(cache::read::<Document>(file, &document.url), Ok(Some(kept)) if kept == *document) {
        return Ok(false);
    }
    cache::write(file, document)?;
    Ok(true)
}

#[cfg(test)]
mod tests;
