//! AWS's signature of requests, version 4
//! (<https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>).

use std::fmt::Write as _;

use reqwest::Url;
use ring::{digest, hmac};
use windlass_base::clock;

use super::Credentials;

#[cfg(test)]
mod tests;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// A request as far as it is signed.
pub(super) struct Request<'a> {
    pub method: &'a str,
    pub url: &'a Url,
    /// Headers to sign beside `host`, the time and the token.
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
}

/// The service that a signature is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub region: &'a str,
    pub service: &'a str,
}

/// Returns the headers that a signed request has in addition.
pub(super) fn sign(
    request: &Request<'_>,
    scope: Scope<'_>,
    credentials: &Credentials,
    now_ms: i64,
) -> Vec<(&'static str, String)> {
    let time = time(now_ms);
    let day = &time[..time.len().min(8)];
    let mut headers: Vec<(String, String)> =
        request.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), squeeze(value))).collect();
    headers.push(("host".to_owned(), host(request.url)));
    headers.push(("x-amz-date".to_owned(), time.clone()));
    if let Some(token) = &credentials.session_token {
        headers.push(("x-amz-security-token".to_owned(), token.clone()));
    }
    headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    headers.dedup_by(|later, first| {
        let is_same = later.0 == first.0;
        if is_same {
            first.1 = format!("{},{}", first.1, later.1);
        }
        is_same
    });
    let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(";");
    let mut canonical = format!("{}\n{}\n{}\n", request.method, path(request.url), query(request.url));
    for (name, value) in &headers {
        _ = writeln!(canonical, "{name}:{value}");
    }
    _ = write!(canonical, "\n{names}\n{}", sha256(request.body));

    let Scope { region, service } = scope;
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let text = format!("{ALGORITHM}\n{time}\n{scope}\n{}", sha256(canonical.as_bytes()));
    let mut key = format!("AWS4{}", credentials.secret_access_key).into_bytes();
    for part in [day, region, service, "aws4_request"] {
        key = hmac(&key, part).as_ref().to_vec();
    }
    let signature = hex(hmac(&key, &text).as_ref());
    let id = &credentials.access_key_id;
    let authorization =
        format!("{ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}");
    let mut signed = vec![("authorization", authorization), ("x-amz-date", time)];
    signed.extend(credentials.session_token.clone().map(|token| ("x-amz-security-token", token)));
    signed
}

/// Returns a time as `20150830T123600Z`.
fn time(ms: i64) -> String {
    let iso = clock::iso(ms);
    let seconds = iso.split('.').next().unwrap_or_default();
    format!("{}Z", seconds.replace(['-', ':'], ""))
}

fn host(url: &Url) -> String {
    match (url.host_str().unwrap_or_default(), url.port()) {
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.to_owned(),
    }
}

/// Returns the path with each segment encoded, which the URL's own encoding is not spared.
fn path(url: &Url) -> String {
    let segments: Vec<String> = url.path().split('/').map(encode).collect();
    segments.join("/")
}

fn query(url: &Url) -> String {
    let mut pairs: Vec<(String, String)> =
        url.query_pairs().map(|(name, value)| (encode(&name), encode(&value))).collect();
    pairs.sort();
    let pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

/// Encodes all bytes but unreserved characters.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => _ = write!(encoded, "%{byte:02X}"),
        }
    }
    encoded
}

/// Removes white space around a value, and all but one space within.
fn squeeze(value: &str) -> String {
    value.split_whitespace().collect::<Vec<&str>>().join(" ")
}

fn hmac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// Returns bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}
