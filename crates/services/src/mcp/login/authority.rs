//! Requests to the authorities that give tokens: their answers are put into the form of the standard (RFC 6749), and
//! nothing is asked at addresses that no authority of a server elsewhere has.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures_util::StreamExt;
use http::{HeaderValue, Method, StatusCode};
use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, WWW_AUTHENTICATE},
    redirect::Policy,
};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use serde_json::{Map, Value, json};
use windlass_base::{
    json_number,
    public_address::{is_loopback, literal, special},
};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of an answer.
const MAX_ANSWER: usize = 1 << 20;
const MAX_REDIRECTS: usize = 10;
/// The word before the address of metadata in a challenge (RFC 9728).
const POINTER: &str = "resource_metadata=";

/// See the module's comment.
pub(super) struct Authority {
    follows: Client,
    stops: Client,
    places: Places,
}

impl Authority {
    /// Makes a client for the logins of the server at this address, which is foreign if only the project names it. Reads
    /// the system's certificates.
    pub(super) fn new(server: &Url, is_foreign: bool) -> reqwest::Result<Self> {
        let places = Places { has_loopback: is_loopback(server), is_foreign };
        let build = |policy: Policy| {
            let builder = Client::builder().timeout(TIMEOUT).redirect(policy).dns_resolver(Arc::new(places));
            // A proxy would look the names up by itself.
            if is_foreign { builder.no_proxy() } else { builder }.build()
        };
        let follows = build(Policy::custom(move |attempt| {
            if attempt.previous().len() > MAX_REDIRECTS {
                attempt.error("the authority redirects too often")
            } else if places.has(attempt.url()) {
                attempt.follow()
            } else {
                attempt.error("the authority redirects to an address that is none of its own")
            }
        }))?;
        Ok(Self { follows, stops: build(Policy::none())?, places })
    }
}

impl Authority {
    /// Sends a request without a token; returns the challenge.
    pub(super) async fn challenge(&self, server: &Url) -> Challenge {
        if !self.places.has(server) {
            return Challenge::None;
        }
        let hello = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "windlass", "version": env!("CARGO_PKG_VERSION")},
            },
        });
        let request = self.stops.post(server.clone()).body(hello.to_string());
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        let answer = match request.send().await {
            Ok(answer) if answer.status() == StatusCode::UNAUTHORIZED => answer,
            Ok(_) | Err(_) => return Challenge::None,
        };
        let headers = answer.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|it| it.to_str().ok());
        let headers: Vec<&str> = headers.collect();
        let is_bearer = |it: &str| it.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
        let bearer = headers.iter().find(|it| it.contains(POINTER) || is_bearer(it));
        match bearer {
            Some(header) => Challenge::Bearer((*header).to_owned()),
            None if headers.is_empty() => Challenge::Silent,
            None => Challenge::None,
        }
    }
}

/// Answer of a server to a request without a token.
pub(super) enum Challenge {
    /// It answers, is not there, or wants something else than a token.
    None,
    /// It refuses the request and says no more.
    Silent,
    /// It wants a token: its `WWW-Authenticate`.
    Bearer(String),
}

impl Challenge {
    pub(super) fn header(&self) -> Option<&str> {
        match self {
            Self::Bearer(header) => Some(header),
            Self::None | Self::Silent => None,
        }
    }

    /// Returns true for a server of 2025-03-26, which names no metadata.
    pub(super) fn is_of_known_places(&self) -> bool {
        match self {
            Self::Silent => true,
            Self::Bearer(header) => !header.contains(POINTER),
            Self::None => false,
        }
    }
}

impl Authority {
    /// Sends a request; the answer to a `POST` is put into form.
    pub(super) async fn send(
        &self,
        request: http::Request<Vec<u8>>,
        follows_redirects: bool,
    ) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
        let client = if follows_redirects { &self.follows } else { &self.stops };
        let request = reqwest::Request::try_from(request)?;
        if !self.places.has(request.url()) {
            return Err(format!("no authority is asked at {}", request.url()).into());
        }
        let is_post = request.method() == Method::POST;
        let answer = client.execute(request).await?;
        let (mut status, mut headers) = (answer.status(), answer.headers().clone());
        let mut body = Vec::new();
        let mut bytes = answer.bytes_stream();
        while let Some(chunk) = bytes.next().await {
            let chunk = chunk?;
            if chunk.len() > MAX_ANSWER - body.len() {
                return Err("the authority's answer is too large".into());
            }
            body.extend_from_slice(&chunk);
        }
        if is_post && let Some(fields) = in_form(&body) {
            // Some refuse with a status of success.
            if status.is_success() && fields.contains_key("error") {
                status = StatusCode::BAD_REQUEST;
            }
            body = Value::Object(fields).to_string().into_bytes();
            headers.remove(CONTENT_LENGTH);
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let mut answer = http::Response::new(body);
        (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
        Ok(answer)
    }
}

impl OAuthHttpClient for Authority {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        let follows_redirects = !matches!(request.redirect_policy, OAuthHttpRedirectPolicy::Stop);
        Box::pin(self.send(request.request, follows_redirects))
    }
}

/// Returns the fields of an answer with a token, about a client or with an error, as they are read; `None` for another
/// answer.
fn in_form(body: &[u8]) -> Option<Map<String, Value>> {
    let mut fields = serde_json::from_slice(body).ok().or_else(|| of_form(body))?;
    let text = |fields: &Map<String, Value>, name: &str| fields.get(name).is_some_and(Value::is_string);
    if text(&fields, "access_token") {
        // A token without a life would never be used; some servers say so of one that does not end.
        let life =
            fields.remove("expires_in").as_ref().and_then(json_number::of).filter(|life_s| *life_s >= 1.0);
        fields.extend(life.map(|life_s| ("expires_in".to_owned(), Value::from(life_s as u64))));
        if !text(&fields, "token_type") {
            fields.insert("token_type".to_owned(), "bearer".into());
        }
        if fields.get("refresh_token").and_then(Value::as_str).is_none_or(str::is_empty) {
            fields.remove("refresh_token");
        }
        match fields.remove("scope") {
            Some(Value::Array(scopes)) => {
                let scopes: Vec<&str> = scopes.iter().filter_map(Value::as_str).collect();
                fields.insert("scope".to_owned(), scopes.join(" ").into());
            }
            Some(scope @ Value::String(_)) => _ = fields.insert("scope".to_owned(), scope),
            Some(_) | None => {}
        }
        // Of those that say so where nothing is wrong.
        fields.remove("error");
    } else if text(&fields, "client_id") {
        if !fields.get("redirect_uris").is_some_and(Value::is_array) {
            fields.insert("redirect_uris".to_owned(), json!([]));
        }
        fields.remove("error");
    } else if !text(&fields, "error") {
        return None;
    }
    Some(fields)
}

/// Reads the fields of a form, in which older authorities answer.
fn of_form(body: &[u8]) -> Option<Map<String, Value>> {
    let mut url = Url::parse("form:/").ok()?;
    url.set_query(Some(str::from_utf8(body).ok()?));
    let pairs = url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned().into()));
    Some(pairs.collect())
}

/// The addresses where an authority may be: those of the internet and of a company's network, and this machine for a
/// server on it. No server may send requests elsewhere, such as to the metadata of a machine in a cloud.
#[derive(Debug, Clone, Copy)]
struct Places {
    has_loopback: bool,
    /// Only the project names the server, so its word leads to public addresses alone.
    is_foreign: bool,
}

impl Places {
    /// Returns false for a URL with an address, which is not looked up, that no authority has.
    fn has(self, url: &Url) -> bool {
        url.host_str().and_then(literal).is_none_or(|address| self.has_address(address))
    }

    fn has_address(self, address: IpAddr) -> bool {
        let is_v4 = |it: Ipv4Addr| {
            !(it.is_link_local() || it.is_multicast() || it.is_broadcast() || it.octets()[0] == 0)
        };
        match address.to_canonical() {
            address if address.is_loopback() => self.has_loopback,
            address if self.is_foreign && special(address).is_some() => false,
            IpAddr::V4(it) => is_v4(it),
            IpAddr::V6(it) => !(it.is_unspecified() || it.is_multicast() || it.is_unicast_link_local()),
        }
    }
}

impl Resolve for Places {
    fn resolve(&self, name: Name) -> Resolving {
        let places = *self;
        Box::pin(async move {
            let host = name.as_str();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.collect();
            // No metadata names this machine by its name; a proxy may be there.
            let is_local = host.eq_ignore_ascii_case("localhost");
            let kept: Vec<SocketAddr> =
                found.into_iter().filter(|it| is_local || places.has_address(it.ip())).collect();
            if kept.is_empty() {
                return Err(format!("{host} has no address where an authority may be").into());
            }
            Ok(Box::new(kept.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    //! Answers that are nearly in the form, and addresses that no authority has.

    use super::*;

    #[test]
    fn an_answer_is_put_into_the_form_of_the_standard() {
        let check = |body: &str, expected: Value| {
            let fields = in_form(body.as_bytes()).map_or(Value::Null, Value::Object);
            assert_eq!(fields, expected, "{body}");
        };
        let token = json!({"access_token": "a", "token_type": "bearer", "expires_in": 3600});
        check(r#"{"access_token":"a","token_type":"bearer","expires_in":"3600"}"#, token.clone());
        check(r#"{"access_token":"a","expires_in":3600.5,"refresh_token":"","scope":null}"#, token.clone());
        check("access_token=a&expires_in=3600&token_type=bearer", token);
        let plain = json!({"access_token": "a", "token_type": "Bearer"});
        check(r#"{"access_token":"a","token_type":"Bearer","expires_in":"soon"}"#, plain.clone());
        check(r#"{"access_token":"a","token_type":"Bearer","error":null}"#, plain.clone());
        check(r#"{"access_token":"a","token_type":"Bearer","expires_in":0}"#, plain);
        let rich = json!({"access_token": "a", "token_type": "bearer", "refresh_token": "r", "scope": "x y", "team": 1});
        check(r#"{"access_token":"a","refresh_token":"r","scope":["x","y"],"team":1}"#, rich);
        check(r#"{"client_id":"c"}"#, json!({"client_id": "c", "redirect_uris": []}));
        check(r#"{"error":"slow_down"}"#, json!({"error": "slow_down"}));
        check("error=slow_down", json!({"error": "slow_down"}));
        check("<html>", Value::Null);
        check(r#"{"issuer":"i"}"#, Value::Null);
    }

    #[test]
    fn no_authority_is_looked_for_at_addresses_that_are_none() {
        let check = |server: &str, url: &str, expected: bool| {
            let places =
                Places { has_loopback: is_loopback(&Url::parse(server).unwrap()), is_foreign: false };
            assert_eq!(places.has(&Url::parse(url).unwrap()), expected, "{server} {url}");
        };
        let far = "https://mcp.example.com/mcp";
        for url in ["https://login.example.com", "https://1.1.1.1", "https://10.0.0.9", "https://[fd00::1]"] {
            check(far, url, true);
        }
        for url in [
            "http://169.254.169.254/",
            "http://127.0.0.1:8080/",
            "http://[::1]/",
            "http://[::ffff:169.254.169.254]/",
            "http://0.0.0.0/",
            "http://[fe80::1]/",
        ] {
            check(far, url, false);
        }
        check("http://localhost:3000/mcp", "http://127.0.0.1:8080/", true);
        check("http://127.0.0.1:3000/mcp", "http://[::1]:8080/", true);
        check("http://127.0.0.1:3000/mcp", "http://169.254.169.254/", false);
    }
}
