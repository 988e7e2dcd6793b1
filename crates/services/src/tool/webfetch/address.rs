//! Decides which addresses a URL may be fetched from (public ones, and others that a rule names), and
//! normalizes URLs for rules.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use futures_util::future::BoxFuture;
use reqwest::Url;
use windlass_base::{
    public_address::{literal, special},
    text,
};
use windlass_core::config::rules::wildcard;
use windlass_protocol::opencode::permission::{Action, Rule};

/// A function that resolves a host name.
pub(crate) type Lookup = fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;

/// Returns the addresses to connect to after judging each, or a sentence for the model.
///
/// One forbidden address makes the whole name forbidden, because the choice of a connection is arbitrary.
pub(crate) async fn judge(url: &Url, rules: &[Rule], lookup: Lookup) -> Result<Vec<SocketAddr>, String> {
    let Some(host) = url.host_str() else { return Err(format!("Cannot fetch {url}: it names no host.")) };
    let literal: Option<IpAddr> = literal(host);
    let addresses = match literal {
        Some(address) => vec![address],
        None => match lookup(host.to_owned()).await {
            Ok(addresses) => addresses,
            Err(error) => return Err(format!("Cannot fetch {url}: {host} cannot be found ({error}).")),
        },
    };
    if addresses.is_empty() {
        return Err(format!("Cannot fetch {url}: {host} has no address."));
    }
    if !is_allowed(url, rules) {
        for address in &addresses {
            if let Some(kind) = special(*address) {
                return Err(refusal(url, host, *address, kind));
            }
        }
    }
    // Port 0 means the URL's own.
    Ok(addresses.into_iter().map(|address| SocketAddr::new(address, 0)).collect())
}

/// Refuses a forbidden literal address before any question; names are resolved only after the approval.
pub(crate) fn judge_literal(url: &Url, rules: &[Rule]) -> Result<(), String> {
    let host = url.host_str().unwrap_or_default();
    let special = literal(host).and_then(|address| special(address).map(|kind| (address, kind)));
    match special.filter(|_| !is_allowed(url, rules)) {
        Some((address, kind)) => Err(refusal(url, host, address, kind)),
        None => Ok(()),
    }
}

/// Normalizes a URL for rules: [`Url`] has resolved dots, the host's case and default ports; this also decodes
/// needless escapes (RFC 3986 §6.2.2) and removes the last dot of the host's name.
pub(crate) fn normal(mut url: Url) -> Url {
    let path = unescaped(url.path(), is_unreserved);
    url.set_path(&path);
    let query = url.query().map(|query| unescaped(query, is_unreserved));
    url.set_query(query.as_deref());
    // The fragment is never sent.
    url.set_fragment(None);
    let host = url.host_str().and_then(|host| host.strip_suffix('.')).map(str::to_owned);
    if let Some(host) = host.filter(|host| !host.is_empty()) {
        // A host without its last dot is as valid as before.
        let _ = url.set_host(Some(&host));
    }
    url
}

/// Reduces each run of slashes in the URL's path to one.
pub(crate) fn with_single_slashes(url: &Url) -> Url {
    let mut plain = url.clone();
    let mut path = String::with_capacity(url.path().len());
    for character in url.path().chars() {
        if character != '/' || !path.ends_with('/') {
            path.push(character);
        }
    }
    plain.set_path(&path);
    plain
}

/// Decodes the letters of all scripts in a URL.
pub(crate) fn readable(url: &Url) -> String {
    unescaped(url.as_str(), |character| !character.is_ascii() && !text::is_hidden(character))
}

fn is_unreserved(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_' | '~')
}

/// Decodes the escapes of wanted characters; writes the others in capitals.
fn unescaped(text: &str, is_wanted: fn(char) -> bool) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('%') {
        done.push_str(&rest[..start]);
        rest = &rest[start..];
        let mut bytes = Vec::new();
        while let Some(byte) = rest.get(bytes.len() * 3..).and_then(escaped_byte) {
            bytes.push(byte);
        }
        if bytes.is_empty() {
            // A percent sign that escapes nothing must not do so after the text behind it is decoded.
            done.push_str("%25");
            rest = &rest[1..];
            continue;
        }
        rest = &rest[bytes.len() * 3..];
        for chunk in bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                if is_wanted(character) {
                    done.push(character);
                } else {
                    push_escaped(&mut done, character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            push_escaped(&mut done, chunk.invalid());
        }
    }
    done.push_str(rest);
    done
}

fn push_escaped(text: &mut String, bytes: &[u8]) {
    bytes.iter().for_each(|byte| text.push_str(&format!("%{byte:02X}")));
}

/// Returns the byte of an escape at the start of the text.
fn escaped_byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix('%')?.get(..2).filter(|it| it.bytes().all(|it| it.is_ascii_hexdigit()))?;
    u8::from_str_radix(digits, 16).ok()
}

/// Resolves a name by the system.
pub(crate) fn system_lookup(host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
    Box::pin(async move {
        let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    })
}

/// Returns true if a rule for `webfetch` allows this URL and names its host in the pattern.
///
/// `https://*` or `https://github.com*` were not written with the user's own network in mind, and the latter
/// matches `https://github.com.evil.example` too.
fn is_allowed(url: &Url, rules: &[Rule]) -> bool {
    rules.iter().any(|rule| {
        rule.permission == "webfetch"
            && rule.action == Action::Allow
            && wildcard(&rule.pattern, url.as_str())
            && names_host(&rule.pattern, url)
    })
}

fn names_host(pattern: &str, url: &Url) -> bool {
    let (Some((_, rest)), Some(host)) = (pattern.split_once("://"), url.host_str()) else { return false };
    let rest = rest.split(['/', '\\']).next().unwrap_or_default();
    let named = match rest.find(']') {
        Some(end) => &rest[..=end],
        None => rest.split(':').next().unwrap_or_default(),
    };
    if named.trim_end_matches('*').eq_ignore_ascii_case(host) {
        return true;
    }
    match literal(host) {
        Some(_) => !named.starts_with(['*', '?']) && wildcard(named, host),
        None => named.strip_prefix("*.").is_some_and(|parent| {
            !parent.is_empty()
                && !parent.contains(['*', '?'])
                && host.strip_suffix(&parent.to_ascii_lowercase()).is_some_and(|before| before.ends_with('.'))
        }),
    }
}

fn refusal(url: &Url, host: &str, address: IpAddr, kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u', 'I']) { "an" } else { "a" };
    let place = match literal(host) {
        Some(_) => format!("{host} is {article} {kind} address"),
        None => format!("{host} is at {address}, {article} {kind} address"),
    };
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    let pattern = format!("{}://{host}{port}/*", url.scheme());
    format!(
        "Cannot fetch {url}: {place}, and only public addresses are fetched. \
         The user can allow it by a rule: \"permission\": {{\"webfetch\": {{\"{pattern}\": \"allow\"}}}}"
    )
}

#[cfg(test)]
mod tests;
