//! The page for people: sessions, a live one, and its questions. Its script calls the same routes as any client.

use axum::{
    extract::{Query, Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    response::{Html, IntoResponse, Redirect, Response},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_base::{clock::Zone, ids};
use windlass_engine::transcript::{Transcript, html};
use windlass_protocol::opencode::id::SessionId;

use super::{
    body::{Answer, Id},
    entry,
    error::Failure,
    routes::{Routes, get, post},
    server::Shared,
};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");
const NONCE_CHARS: usize = 24;

pub fn routes() -> Routes {
    Routes::new()
        .route("/", get(read))
        .route(entry::PATH, get(enter))
        .route("/page/link", post(link))
        .route("/page/session/{id}", get(session))
}

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    key: String,
    /// The directory that the page is for.
    directory: Option<String>,
}

/// Gives the browser that follows a link the page's cookie.
async fn enter(State(server): State<Shared>, Query(link): Query<Link>, request: Request) -> Response {
    // Programs look ahead at links, which uses none up.
    if *request.method() == Method::HEAD {
        return StatusCode::NO_CONTENT.into_response();
    }
    let access = &server.options.access;
    let cookie = access.enter(&link.key, &request).and_then(|it| HeaderValue::from_str(&it).ok());
    let Some(cookie) = cookie else {
        let message = "This link has been followed already, is too old, or is of another server.";
        return Failure::named(StatusCode::FORBIDDEN, "Forbidden", json!({"message": message}))
            .into_response();
    };
    let directory = link.directory.map(|it| utf8_percent_encode(&it, NON_ALPHANUMERIC).to_string());
    let page = directory.map_or_else(|| "/".to_owned(), |it| format!("/?directory={it}"));
    let mut response = Redirect::to(&page).into_response();
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Makes a link by which a browser can enter once.
async fn link(State(server): State<Shared>) -> Answer<Value> {
    Answer(json!({"path": server.options.access.link()}))
}

/// Answers with the page. Only its own script and styles run in it, and it talks to nobody else.
async fn read() -> Response {
    let nonce = ids::random(NONCE_CHARS);
    let page = PAGE
        .replace("{{style}}", &format!("<style nonce=\"{nonce}\">{}\n{STYLE}</style>", html::STYLE))
        .replace("{{script}}", &format!("<script nonce=\"{nonce}\">{SCRIPT}</script>"));
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    with_policy(Html(page).into_response(), &policy)
}

/// Draws a session as its export does.
async fn session(State(server): State<Shared>, Id(id): Id<SessionId>) -> Result<Response, Failure> {
    let record = server.engine.sessions().record(&id).await?.without_undone();
    let transcript = Transcript {
        info: &record.info,
        messages: &record.messages,
        todos: &record.todos,
        children: &record.children,
        zone: Zone::local(),
    };
    Ok(with_policy(Html(html::page(&transcript)).into_response(), "default-src 'none'; sandbox"))
}

fn with_policy(mut response: Response, policy: &str) -> Response {
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer"));
    response
}
