//! Judges callers: by password or by the caller itself, by the `Host` of a request, and by the page it comes from.

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
use windlass_base::{ids, lock::lock, peer::Standing};

use super::{
    entry::{self, CHARS, Entry},
    error::Failure,
    peer::Peer,
    peers::FromFleet,
    ticket::Tickets,
};

/// Failed tries that an address has in a minute.
const MAX_TRIES: u32 = 20;
const TRIES_PERIOD: Duration = Duration::from_secs(60);
/// Addresses with failed tries that are counted at once.
const MAX_ADDRESSES: usize = 1024;

/// Origins of OpenCode's own pages and applications, which know a password if there is one.
const KNOWN_ORIGINS: [&str; 5] = [
    "tauri://localhost",
    "http://tauri.localhost",
    "https://tauri.localhost",
    "oc://renderer",
    "https://opencode.ai",
];

/// A header that no form sends.
const DIRECTORY: &str = "x-opencode-directory";

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
    /// Origins that the user allows.
    origins: Vec<String>,
    /// The ways in without a password.
    entry: Entry,
    /// Devices elsewhere come in by a link and its cookie too.
    is_pairing: bool,
    /// Accounts judge every caller, and nothing here does.
    is_of_accounts: bool,
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
        Self::with_entry(password, origins, Entry::new(ids::random(CHARS), ids::random(CHARS)))
    }

    pub fn with_entry(password: Option<Password>, origins: Vec<String>, entry: Entry) -> Self {
        let (failed, tickets) = (Mutex::default(), Tickets::default());
        Self { password, origins, entry, is_pairing: false, is_of_accounts: false, failed, tickets }
    }

    /// Lets devices elsewhere in that have followed a link.
    #[must_use]
    pub fn pairing(self, is_pairing: bool) -> Self {
        Self { is_pairing, ..self }
    }

    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Returns the path of a link that gives a browser the page's cookie once.
    pub fn link(&self) -> String {
        self.entry.link()
    }

    /// Returns the path of a link for a device elsewhere, which holds for five minutes.
    pub fn pairing_link(&self) -> String {
        self.entry.pairing_link()
    }

    /// Uses a link up, and returns the header that sets the page's cookie.
    pub fn enter(&self, key: &str, request: &Request) -> Option<String> {
        self.entry.enter(key, own_host(request)?)
    }

    /// Returns true if pages of this origin may use the server.
    pub fn is_known_origin(&self, origin: &str) -> bool {
        self.origins.iter().any(|allowed| allowed == origin)
            || self.password.is_some() && is_of_opencode(origin)
    }

    /// Returns the refusal of a request that a browser sends for a page elsewhere.
    pub fn refusal_of_page(&self, request: &Request) -> Option<Response> {
        let checked = self.check_site(request).and_then(|()| self.check_origin(request));
        checked.err().map(|refusal| refusal.answer(false))
    }

    /// Counts a failed try; false where the address has had too many.
    pub fn count_try(&self, peer: Option<IpAddr>) -> bool {
        let has_tries = self.has_tries(peer);
        if has_tries {
            self.note_failure(peer);
        }
        has_tries
    }

    /// Leaves callers to the accounts of the server.
    #[must_use]
    pub fn of_accounts(self) -> Self {
        Self { is_of_accounts: true, ..self }
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
        if own_host(request).is_none_or(is_loopback) { Ok(()) } else { Err(Refusal::ForeignHost) }
    }

    /// Refuses a browser's requests for pages elsewhere, but for showing the server's own page: even a read starts the
    /// services of the directory that it names.
    fn check_site(&self, request: &Request) -> Result<(), Refusal> {
        let value = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let is_elsewhere = matches!(value("sec-fetch-site"), Some("cross-site" | "same-site"));
        let is_page = ["/", entry::PATH].contains(&request.uri().path());
        let is_shown = value("sec-fetch-mode") == Some("navigate") && is_page;
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
        let is_allowed = self.origins.iter().any(|allowed| allowed == origin);
        // Any page of this machine can send requests that need no preflight, with a password that the browser has kept.
        let is_known = self.is_known_origin(origin) && is_asked_about_first(request);
        if is_own(request, origin) || is_allowed || is_known { Ok(()) } else { Err(Refusal::ForeignOrigin) }
    }

    /// Judges a device elsewhere that may have followed a link: its cookie counts, or the password where there is one. The
    /// name by which it calls the server does not: a page elsewhere that takes the name has no cookie of it.
    fn check_device(
        &self,
        request: &Request,
        peer: Option<IpAddr>,
        standing: Standing,
    ) -> Result<(), Refusal> {
        // This machine's own programs may come by its other addresses.
        match standing {
            Standing::Held => return Err(Refusal::Held),
            Standing::OtherUser => return Err(Refusal::OtherUser),
            Standing::Own | Standing::Confined | Standing::Hidden | Standing::Unknown | Standing::Gone => {}
        }
        self.check_site(request)?;
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        // The bare page holds nothing, and a link is looked at by its route. Behind a link that was followed from a page
        // elsewhere, a browser asks for the page without the cookie that it has just got.
        if is_read && ["/", entry::PATH].contains(&request.uri().path()) {
            return Ok(());
        }
        if own_host(request).is_some_and(|host| self.entry.has_cookie(request.headers(), host)) {
            return self.check_origin(request);
        }
        if self.password.is_none() {
            return Err(Refusal::NotPaired);
        }
        self.check_password(request, peer).and_then(|()| self.check_origin(request))
    }

    /// Lets in requests of the user's own programs, of pages by their cookie, and of pages of allowed origins.
    fn check_caller(&self, request: &Request, standing: Standing) -> Result<(), Refusal> {
        match standing {
            Standing::Held => return Err(Refusal::Held),
            Standing::OtherUser => return Err(Refusal::OtherUser),
            Standing::Gone => return Err(Refusal::NoSecret),
            Standing::Own | Standing::Confined | Standing::Hidden | Standing::Unknown => {}
        }
        let headers = request.headers();
        let value = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let origin = value("origin");
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        // The bare page holds nothing, and a link is looked at by its route.
        if is_read && origin.is_none() && ["/", entry::PATH].contains(&request.uri().path()) {
            return Ok(());
        }
        let is_allowed = origin.is_some_and(|it| self.is_known_origin(it));
        if origin.is_some_and(|it| !is_allowed && !is_own(request, it)) {
            return Err(Refusal::ForeignOrigin);
        }
        if Tickets::is_shown(request) || shown(request).is_some_and(|it| self.entry.is_secret(&it)) {
            return Ok(());
        }
        // Any program can send a page's headers: they count for one that can be looked at, or shows the cookie.
        let is_browser = !is_allowed && (origin.is_some() || value("sec-fetch-site").is_some());
        let has_cookie = || own_host(request).is_some_and(|host| self.entry.has_cookie(headers, host));
        match standing {
            Standing::Hidden => Err(Refusal::NoSecret),
            Standing::Own if !is_browser => Ok(()),
            Standing::Own | Standing::Confined | Standing::Unknown if has_cookie() => Ok(()),
            Standing::Own | Standing::Confined | Standing::Unknown if is_browser => Err(Refusal::NoCookie),
            Standing::Own
            | Standing::Confined
            | Standing::Unknown
            | Standing::Held
            | Standing::OtherUser
            | Standing::Gone => Err(Refusal::NoSecret),
        }
    }
}

/// Returns false for a request that a browser sends for any page without asking the server before: a form's, or the
/// beginning of a WebSocket, unless that shows something of its own.
fn is_asked_about_first(request: &Request) -> bool {
    let headers = request.headers();
    if headers.contains_key(header::UPGRADE) {
        return Tickets::is_shown(request) || parameter(request).is_some();
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_json =
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    request.method() != Method::POST || is_json || headers.contains_key(DIRECTORY)
}

/// Returns true for a request that a program passes on: its own sender is another one.
fn is_passed_on(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        let name = name.as_str();
        ["forwarded", "via"].contains(&name) || name.starts_with("x-forwarded-")
    })
}

/// Returns true for the origins of pages on this machine, and of OpenCode's own pages and applications.
fn is_of_opencode(origin: &str) -> bool {
    let has_port = |prefix: &str| {
        let port = origin.strip_prefix(prefix);
        port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_hosted = origin.strip_prefix("https://").is_some_and(|host| {
        host.strip_suffix(".opencode.ai").is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
        })
    });
    has_port("http://localhost:")
        || has_port("http://127.0.0.1:")
        || is_hosted
        || KNOWN_ORIGINS.contains(&origin)
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
    Held,
    OtherUser,
    NoCookie,
    NoSecret,
    NotPaired,
}

/// Lets a request through to its route if its caller may make it.
pub async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    // The node that it comes from has judged its caller.
    if access.is_of_accounts || request.extensions().get::<FromFleet>().is_some() {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_else(Peer::nobody);
    if access.is_pairing && peer.address().is_some_and(|it| !it.is_loopback()) {
        let standing = peer.standing().await;
        return match access.check_device(&request, peer.address(), standing) {
            Ok(()) => next.run(request).await,
            Err(refusal) => refusal.answer(request.uri().path().starts_with("/api/")),
        };
    }
    let standing = if access.has_password() {
        None
    } else {
        Some(match peer.standing().await {
            Standing::Own if is_passed_on(request.headers()) => Standing::Unknown,
            standing => standing,
        })
    };
    let checked = access.check_host(&request, peer.address()).and_then(|()| access.check_site(&request));
    let checked = checked.and_then(|()| match standing {
        Some(standing) => access.check_caller(&request, standing),
        None => access.check_password(&request, peer.address()).and_then(|()| access.check_origin(&request)),
    });
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
            Self::Held => {
                let message = "Nothing that windlass has started may use its server.";
                refuse(StatusCode::FORBIDDEN, message)
            }
            Self::OtherUser => {
                let message = "Another user's server takes no requests; start your own, or ask for one with a password.";
                refuse(StatusCode::FORBIDDEN, message)
            }
            Self::NoCookie => {
                let message = "This page has not entered: open it by a link, under the address that the link has. \
                               `curl -X POST ADDRESS/page/link` shows a new one.";
                refuse(StatusCode::FORBIDDEN, message)
            }
            Self::NoSecret => {
                let message = "The server cannot tell that this is a program of its user: show the secret in the file \
                               server-ADDRESS-PORT.secret of windlass's data directory as the password, or start it with \
                               OPENCODE_SERVER_PASSWORD.";
                refuse(StatusCode::FORBIDDEN, message)
            }
            Self::NotPaired => {
                let message =
                    "This device has not been let in: follow the link that `windlass web --pair` shows.";
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
    let token = basic.or_else(|| parameter(request))?;
    String::from_utf8(BASE64_STANDARD.decode(token).ok()?).ok()
}

/// Returns the parameter of requests that cannot set a header.
fn parameter(request: &Request) -> Option<String> {
    let query = Query::<HashMap<String, String>>::try_from_uri(request.uri()).ok()?;
    query.0.get("auth_token").cloned()
}

/// Returns true if an origin is that of the server, as the request names it.
fn is_own(request: &Request, origin: &str) -> bool {
    let page = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    own_host(request).is_some_and(|own| page == Some(own))
}

/// Returns the server's name in a request of either version of the protocol.
fn own_host(request: &Request) -> Option<&str> {
    host(request.headers()).or_else(|| Some(request.uri().authority()?.as_str()))
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
