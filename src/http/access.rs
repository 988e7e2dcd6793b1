//! Decides who may call: the password, the `Host` that a request names, and the page it comes from.

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{
    extract::{Query, Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;
use subtle::ConstantTimeEq;

use super::{error::Failure, ticket::Tickets};
use crate::base::lock::lock;

/// Failed tries that an address has in a minute.
const MAX_TRIES: u32 = 20;
const TRIES_PERIOD: Duration = Duration::from_secs(60);
/// Addresses whose failed tries are counted at once.
const MAX_ADDRESSES: usize = 1024;

/// Origins of OpenCode's own pages and applications.
const KNOWN_ORIGINS: [&str; 5] = [
    "tauri://localhost",
    "http://tauri.localhost",
    "https://tauri.localhost",
    "oc://renderer",
    "https://opencode.ai",
];

/// The address that a request comes from; none for a Unix socket.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub Option<IpAddr>);

/// The name and password that requests have to show.
#[derive(Clone)]
pub struct Password {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// The server's rules of access.
#[derive(Debug)]
pub struct Access {
    password: Option<Password>,
    /// Origins that the user allows beside the known ones.
    origins: Vec<String>,
    failed: Mutex<HashMap<Option<IpAddr>, Tries>>,
    /// Tickets for terminals, each of which stands for the password once.
    pub tickets: Tickets,
}

#[derive(Debug)]
struct Tries {
    count: u32,
    since: Instant,
}

impl Access {
    pub fn new(password: Option<Password>, origins: Vec<String>) -> Self {
        Self { password, origins, failed: Mutex::default(), tickets: Tickets::default() }
    }

    /// Returns true if pages of this origin may use the server.
    pub fn is_known_origin(&self, origin: &str) -> bool {
        let has_port = |prefix: &str| {
            let port = origin.strip_prefix(prefix);
            port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let is_hosted = origin.strip_prefix("https://").is_some_and(|host| {
            host.strip_suffix(".opencode.ai").is_some_and(|name| {
                !name.is_empty()
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
            })
        });
        has_port("http://localhost:")
            || has_port("http://127.0.0.1:")
            || is_hosted
            || KNOWN_ORIGINS.contains(&origin)
            || self.origins.iter().any(|allowed| allowed == origin)
    }

    /// Counts a failed try, and forgets those of addresses that have been quiet.
    fn note_failure(&self, peer: Option<IpAddr>) {
        let mut failed = lock(&self.failed);
        if failed.len() >= MAX_ADDRESSES {
            failed.retain(|_, tries| tries.since.elapsed() < TRIES_PERIOD);
        }
        if failed.len() >= MAX_ADDRESSES && !failed.contains_key(&peer) {
            return;
        }
        let tries = failed.entry(peer).or_insert(Tries { count: 0, since: Instant::now() });
        if tries.since.elapsed() >= TRIES_PERIOD {
            *tries = Tries { count: 0, since: Instant::now() };
        }
        tries.count += 1;
    }

    fn has_tries(&self, peer: Option<IpAddr>) -> bool {
        let failed = lock(&self.failed);
        let tries = failed.get(&peer);
        tries.is_none_or(|it| it.count < MAX_TRIES || it.since.elapsed() >= TRIES_PERIOD)
    }

    fn check_password(&self, request: &Request, peer: Option<IpAddr>) -> Result<(), Refusal> {
        let Some(password) = &self.password else { return Ok(()) };
        if Tickets::is_shown(request) {
            return Ok(());
        }
        if !self.has_tries(peer) {
            return Err(Refusal::TooManyTries);
        }
        match shown(request) {
            Some(shown) if password.is(&shown) => Ok(()),
            Some(_) => {
                self.note_failure(peer);
                Err(Refusal::Unauthorized)
            }
            None => Err(Refusal::Unauthorized),
        }
    }

    /// Refuses a name that only a page elsewhere can have given to this machine.
    fn check_host(&self, request: &Request, peer: Option<IpAddr>) -> Result<(), Refusal> {
        if self.password.is_some() || peer.is_none() {
            return Ok(());
        }
        let authority = host(request.headers()).or_else(|| Some(request.uri().authority()?.as_str()));
        if authority.is_none_or(is_loopback) { Ok(()) } else { Err(Refusal::ForeignHost) }
    }

    /// Refuses what a browser does for pages elsewhere, but for showing the server's own page: even a read starts the
    /// services of the directory that it names.
    fn check_site(&self, request: &Request) -> Result<(), Refusal> {
        let value = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let is_elsewhere = matches!(value("sec-fetch-site"), Some("cross-site" | "same-site"));
        let is_shown = value("sec-fetch-mode") == Some("navigate") && request.uri().path() == "/";
        let is_known = value("origin").is_some_and(|origin| self.is_known_origin(origin));
        if is_elsewhere && !is_shown && !is_known { Err(Refusal::ForeignOrigin) } else { Ok(()) }
    }

    /// Refuses writes and upgrades of pages that have no business here.
    fn check_origin(&self, request: &Request) -> Result<(), Refusal> {
        let is_read = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
        let Some(origin) = request.headers().get(header::ORIGIN) else { return Ok(()) };
        if is_read && !request.headers().contains_key(header::UPGRADE) {
            return Ok(());
        }
        let origin = origin.to_str().unwrap_or_default();
        let own = host(request.headers()).or_else(|| Some(request.uri().authority()?.as_str()));
        let is_own = own.is_some_and(|own| {
            let page = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            page == Some(own)
        });
        if is_own || self.is_known_origin(origin) { Ok(()) } else { Err(Refusal::ForeignOrigin) }
    }
}

impl Password {
    /// Returns true if these are the name and the password, in a time that does not depend on the first difference.
    fn is(&self, shown: &str) -> bool {
        format!("{}:{}", self.user, self.password).as_bytes().ct_eq(shown.as_bytes()).into()
    }
}

/// A reason to refuse a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Unauthorized,
    TooManyTries,
    ForeignHost,
    ForeignOrigin,
}

/// Lets a request through to its route if its caller may make it.
pub async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().and_then(|peer| peer.0);
    let checked = access
        .check_host(&request, peer)
        .and_then(|()| access.check_site(&request))
        .and_then(|()| access.check_password(&request, peer))
        .and_then(|()| access.check_origin(&request));
    match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.answer(request.uri().path().starts_with("/api/")),
    }
}

impl Refusal {
    fn answer(self, is_api: bool) -> Response {
        match self {
            Self::Unauthorized => {
                let mut response = if is_api {
                    let message = "Send the server's user name and password as Basic authorization.";
                    let fields = json!({"message": message});
                    Failure::tagged(StatusCode::UNAUTHORIZED, "UnauthorizedError", fields).into_response()
                } else {
                    StatusCode::UNAUTHORIZED.into_response()
                };
                let realm = HeaderValue::from_static("Basic realm=\"Secure Area\"");
                response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
                response
            }
            Self::TooManyTries => {
                let message = "Too many wrong passwords came from this address; wait a minute.";
                refuse(StatusCode::TOO_MANY_REQUESTS, message)
            }
            Self::ForeignHost => {
                let message = "The server was called by a foreign name; use localhost or 127.0.0.1, or set \
                               OPENCODE_SERVER_PASSWORD.";
                refuse(StatusCode::FORBIDDEN, message)
            }
            Self::ForeignOrigin => {
                let message =
                    "Pages of this origin may not use the server; start it with --cors ORIGIN to allow them.";
                refuse(StatusCode::FORBIDDEN, message)
            }
        }
    }
}

fn refuse(status: StatusCode, message: &str) -> Response {
    Failure::named(status, "Forbidden", json!({"message": message})).into_response()
}

/// Returns `user:password` as the request shows it: its header's, or the parameter of those that cannot set one.
fn shown(request: &Request) -> Option<String> {
    let basic = request.headers().get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("basic").then(|| token.trim().to_owned())
    });
    let token = basic.or_else(|| {
        let query = Query::<HashMap<String, String>>::try_from_uri(request.uri()).ok()?;
        query.0.get("auth_token").cloned()
    })?;
    String::from_utf8(BASE64_STANDARD.decode(token).ok()?).ok()
}

fn host(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST)?.to_str().ok()
}

/// Returns true if a `Host` names this machine by a name that no page elsewhere can take.
fn is_loopback(authority: &str) -> bool {
    let name = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => authority.rsplit_once(':').map_or(authority, |(name, _)| name),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
