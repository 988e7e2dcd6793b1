//! Passes requests about sessions that another node of the fleet has on to it, and its events back to the readers here.

use std::time::Duration;

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_accounts::{AccountId, Scope};
use windlass_base::sse;
use windlass_engine::fleet::{Owner, TOKEN};
use windlass_protocol::opencode::{
    event::EventPayload,
    id::{PermissionId, QuestionId, SessionId},
    message::MessageError,
    session::SessionStatus,
};

use super::{
    acp,
    body::Answer,
    error::Failure,
    peers::{FromFleet, passed_on},
    server::Shared,
    team::Visiting,
};

/// The routes that nodes ask each other: all events, all requests to people, and all sessions that work.
pub const EVENTS: &str = "/global/event";
pub const PERMISSIONS: &str = "/permission";
pub const QUESTIONS: &str = "/question";
pub const STATUSES: &str = "/session/status";
/// The pages of sessions for people with a link.
pub const PAGES: &str = "/s/";
/// The account that a request was made by, as JSON of [`PassedOn`].
pub const ACCOUNT: HeaderName = HeaderName::from_static("x-windlass-account");
/// Time in which its events begin to come.
const EVENTS_LIMIT: Duration = Duration::from_secs(3);
/// Bytes of an answer to a permission or a question.
const MAX_ANSWER: usize = 1 << 20;

/// Headers that are for one connection alone, or for the node that was asked.
const OWN_HEADERS: [HeaderName; 16] = [
    header::TE,
    header::TRAILER,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::HOST,
    header::CONNECTION,
    header::UPGRADE,
    header::TRANSFER_ENCODING,
    header::CONTENT_LENGTH,
    header::AUTHORIZATION,
    header::COOKIE,
    header::ORIGIN,
    header::ACCEPT_ENCODING,
    // A directory of this machine.
    HeaderName::from_static("x-opencode-directory"),
];

/// The account of a request that a node passes on, which the node has judged with accounts up to `head`.
#[derive(Debug, Serialize, Deserialize)]
pub struct PassedOn {
    pub account: AccountId,
    pub scope: Scope,
    pub credential: Option<String>,
    pub address: String,
    pub head: i64,
}

impl PassedOn {
    fn of(server: &Shared, parts: &Parts) -> Option<HeaderValue> {
        let visitor = &parts.extensions.get::<Visiting>()?.0;
        let passed = Self {
            account: visitor.account.clone(),
            scope: visitor.scope,
            credential: visitor.credential.clone(),
            address: visitor.address.clone(),
            head: server.options.team.as_ref()?.accounts.head(),
        };
        HeaderValue::from_str(&serde_json::to_string(&passed).ok()?).ok()
    }
}

/// Lets requests of other nodes in by their token, before anybody looks at passwords.
pub async fn admit(State(server): State<Shared>, mut request: Request, next: Next) -> Response {
    let Some(token) = request.headers().get(TOKEN) else { return next.run(request).await };
    let token = token.to_str().unwrap_or_default().to_owned();
    // Nodes pass these on, and nothing else.
    let path = request.uri().path();
    let of_asked = asked_here(&server, path);
    let is_acp = path == acp::PATH && request.headers().contains_key(header::UPGRADE);
    let is_page = path.starts_with(PAGES);
    let may_pass = is_acp || is_page || path == EVENTS || of_asked.is_some() || passed_on(path).is_some();
    if !may_pass || !server.engine.fleet().is_of_fleet(&token).await {
        let message = "The token of the fleet does not hold here.";
        let body = json!({"message": message});
        return Failure::named(StatusCode::UNAUTHORIZED, "Unauthorized", body).into_response();
    }
    if let Some(answer) = of_asked {
        return answer;
    }
    request.extensions_mut().insert(FromFleet);
    next.run(request).await
}

/// Answers another node with everything that is asked here; `None` for other routes.
fn asked_here(server: &Shared, path: &str) -> Option<Response> {
    let asking = server.engine.asking();
    match path {
        PERMISSIONS => Some(Answer(asking.all_pending_permissions()).into_response()),
        QUESTIONS => Some(Answer(asking.all_pending_questions()).into_response()),
        STATUSES => Some(Answer(server.hub.busy()).into_response()),
        _other => None,
    }
}

/// Passes a request on if it names a session that another node has.
pub async fn pass_on(State(server): State<Shared>, request: Request, next: Next) -> Response {
    // Never further than once.
    if request.extensions().get::<FromFleet>().is_some() {
        return next.run(request).await;
    }
    let Some(id) = server.peers.session_of(request.uri().path()) else {
        if is_asked_elsewhere(&server, request.uri().path()).await {
            return ask_around(&server, request, next).await;
        }
        return next.run(request).await;
    };
    match server.engine.fleet().elsewhere(&id).await {
        Ok(None) => next.run(request).await,
        Ok(Some(owner)) => {
            // Its events are followed first, so that none is missed.
            if let Err(reason) = follow(&server, &owner, &id).await {
                tracing::warn!(node = owner.name, reason, "a node does not answer");
                // It has died and its session is taken when its lease has ended, or it says itself that it is at work.
                return next.run(request).await;
            }
            let (parts, body) = request.into_parts();
            let body = reqwest::Body::wrap_stream(body.into_data_stream());
            send(&server, &owner, &parts, body)
                .await
                .unwrap_or_else(|reason| silent(&owner, &reason).into_response())
        }
        // The session's own claim says why, or goes on where this machine's store suffices.
        Err(_unknown) => next.run(request).await,
    }
}

/// Returns true for the answer to a permission or a question that nobody asks here, where other nodes may.
async fn is_asked_elsewhere(server: &Shared, path: &str) -> bool {
    let asking = server.engine.asking();
    let is_here = match passed_on(path) {
        Some(("permission", id)) => PermissionId::parse(id).map(|id| asking.is_permission_waiting(&id)),
        Some(("question", id)) => QuestionId::parse(id).map(|id| asking.is_question_waiting(&id)),
        Some(_) | None => return false,
    };
    matches!(is_here, Ok(false)) && server.engine.fleet().is_shared().await
}

/// Passes an answer on to each node until one knows its question: the client may not have come by this node before.
async fn ask_around(server: &Shared, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_ANSWER).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let own = server.engine.fleet().standing().await.and_then(|standing| standing.node);
    for node in server.engine.fleet().nodes().await.unwrap_or_default() {
        let is_other = node.owner.is_alive && own.as_ref() != Some(&node.owner.id);
        if !is_other || node.owner.address.is_none() {
            continue;
        }
        let answer = send(server, &node.owner, &parts, body.clone().into()).await;
        match answer {
            Ok(response) if response.status() != StatusCode::NOT_FOUND => return response,
            Ok(_) => {}
            Err(reason) => tracing::debug!(node = node.owner.name, reason, "a node was not asked"),
        }
    }
    next.run(Request::from_parts(parts, Body::from(body))).await
}

/// Asks a node for something by its path, and returns the answer as it comes.
pub async fn ask(server: &Shared, owner: &Owner, parts: &Parts) -> Result<Response, Failure> {
    send(server, owner, parts, reqwest::Body::default()).await.map_err(|reason| silent(owner, &reason))
}

fn silent(owner: &Owner, reason: &str) -> Failure {
    let message = format!("The session is open at {}, which does not answer: {reason}.", owner.name);
    Failure::named(StatusCode::BAD_GATEWAY, "OtherNodeError", json!({"message": message}))
}

/// Sends a request to a node that has a session, and returns the answer as it comes.
async fn send(
    server: &Shared,
    owner: &Owner,
    parts: &Parts,
    body: reqwest::Body,
) -> Result<Response, String> {
    let mut headers = parts.headers.clone();
    OWN_HEADERS.iter().for_each(|name| drop(headers.remove(name)));
    headers.remove(ACCOUNT);
    if let Some(account) = PassedOn::of(server, parts) {
        headers.insert(ACCOUNT, account);
    }
    let request = server.engine.fleet().request(owner, parts.method.clone(), &path_there(parts)).await?;
    let answer =
        request.headers(headers).body(body).send().await.map_err(|error| error.without_url().to_string())?;
    let mut response = Response::builder().status(answer.status());
    if let Some(headers) = response.headers_mut() {
        *headers = without_own(answer.headers().clone());
    }
    response.body(Body::from_stream(answer.bytes_stream())).map_err(|error| error.to_string())
}

/// Returns path and query without the directory, which is one of this machine.
fn path_there(parts: &Parts) -> String {
    let kept = parts.uri.query().unwrap_or_default().split('&');
    let kept: Vec<&str> = kept
        .filter(|pair| {
            !pair.is_empty() && !["directory", "auth_token"].contains(&pair.split('=').next().unwrap_or(""))
        })
        .collect();
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    format!("{}{query}", parts.uri.path())
}

fn without_own(mut headers: HeaderMap) -> HeaderMap {
    for name in [header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH] {
        headers.remove(name);
    }
    headers
}

/// Tells the readers of a node's sessions that nothing more comes from there, so that none waits for the end of a turn.
fn say_gone(server: &Shared, owner: &Owner) {
    let bus = server.engine.bus();
    for session_id in server.peers.forget(&owner.id) {
        let message =
            format!("The node {} that has the session is gone; go on, and it is taken over.", owner.name);
        let error = Some(MessageError::UnknownError { message });
        bus.publish(EventPayload::SessionError { session_id: Some(session_id.clone()), error });
        let status = SessionStatus::Idle;
        bus.publish(EventPayload::SessionStatus { session_id: session_id.clone(), status });
        bus.publish(EventPayload::SessionIdle { session_id });
    }
}

/// Follows nothing of a node any more when it is dropped, unless its events come.
struct Following<'a> {
    server: &'a Shared,
    owner: &'a str,
    is_settled: bool,
}

impl Following<'_> {
    fn settle(mut self) {
        self.is_settled = true;
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            drop(self.server.peers.forget(self.owner));
        }
    }
}

/// Has a session's events come from its node, if they do not yet.
pub async fn follow(server: &Shared, owner: &Owner, id: &SessionId) -> Result<(), String> {
    let (is_first, is_new) = server.peers.follow(owner, id);
    if is_first {
        // A client may leave before the events come.
        let following = Following { server, owner: &owner.id, is_settled: false };
        let asked = server.engine.fleet().request(owner, Method::GET, EVENTS).await?;
        let stream = match tokio::time::timeout(EVENTS_LIMIT, asked.send()).await {
            Ok(Ok(stream)) if stream.status().is_success() => stream,
            Ok(Ok(refused)) => {
                return Err(format!("it answers {}", refused.status()));
            }
            Ok(Err(error)) => return Err(error.without_url().to_string()),
            Err(_elapsed) => return Err("its events do not come".to_owned()),
        };
        following.settle();
        let (server, owner) = (server.clone(), owner.clone());
        server.engine.clone().spawn(async move {
            tokio::select! {
                () = read(&server, &owner.id, stream) => {}
                () = server.stop.cancelled() => {}
            }
            say_gone(&server, &owner);
        });
    }
    // Readers of its directory here get its events.
    if is_new && let Some(info) = server.engine.fleet().listed(id, &server.options.directory).await {
        server.peers.place(id, &info.directory);
        server.hub.note(&info);
    }
    Ok(())
}

/// Reads a node's events until it ends, and publishes those of the sessions that are followed.
async fn read(server: &Shared, owner: &str, mut stream: reqwest::Response) {
    let (mut parser, mut events) = (sse::Parser::default(), Vec::new());
    while let Ok(Some(bytes)) = stream.chunk().await {
        if parser.push(&bytes, &mut events).is_err() {
            return;
        }
        for event in events.drain(..) {
            let Ok(mut event) = serde_json::from_str::<Value>(&event.data) else { continue };
            let Some(payload) = server.peers.take(owner, event["payload"].take()) else { continue };
            match payload.session_id() {
                Some(id) if server.engine.fleet().holds(id) => server.peers.unfollow(owner, id),
                Some(_) | None => server.engine.bus().publish(payload),
            }
        }
    }
}

#[cfg(test)]
mod tests;
