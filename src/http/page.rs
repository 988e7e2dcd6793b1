//! The page for people: sessions, a live one, and what it asks. Its script calls the same routes as any client.

use axum::{
    Router,
    extract::State,
    http::{HeaderName, HeaderValue, header},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use windlass_protocol::opencode::id::SessionId;

use super::{body::Id, error::Failure, server::Shared};
use crate::{
    base::{clock::Zone, ids},
    transcript::{Transcript, html},
};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");
const NONCE_CHARS: usize = 24;

pub fn routes() -> Router<Shared> {
    Router::new().route("/", get(read)).route("/page/session/{id}", get(session))
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
    let record = server.engine.record(&id).await?.without_undone();
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
