//! Passes requests about sessions that another node of the fleet has on to it, and its events back to the readers here.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use windlass_base::sse;
use windlass_engine::fleet::Owner;
use windlass_protocol::opencode::{id::SessionId, session::Session};

use super::{error::Failure, peers::FromFleet, server::Shared};

/// Shows that a request comes from a node of the fleet.
pub const FLEET: HeaderName = HeaderName::from_static("x-windlass-fleet");
/// Time in which its events begin to come.
const EVENTS_LIMIT: Duration = Duration::from_secs(3);
/// Headers that are for one connection alone, or for the node that was asked.
const OWN_HEADERS: [HeaderName; 10] = [
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

/// Lets requests of other nodes in by their token, before anybody looks at passwords.
pub async fn admit(State(server): State<Shared>, mut request: Request, next: Next) -> Response {
    let Some(token) = request.headers().get(FLEET) else { return next.run(request).await };
    let token = token.to_str().unwrap_or_default().to_owned();
    if !server.engine.fleet().is_of_fleet(&token).await {
        let message = "The token of the fleet does not hold here.";
        let body = json!({"message": message});
        return Failure::named(StatusCode::UNAUTHORIZED, "Unauthorized", body).into_response();
    }
    request.extensions_mut().insert(FromFleet);
    next.run(request).await
}

/// Passes a request on if it names a session that another node has.
pub async fn pass_on(State(server): State<Shared>, request: Request, next: Next) -> Response {
    // Never further than once.
    if request.extensions().get::<FromFleet>().is_some() {
        return next.run(request).await;
    }
    let Some(id) = server.peers.session_of(request.uri().path()) else { return next.run(request).await };
    match server.engine.fleet().elsewhere(&id).await {
        Ok(None) => next.run(request).await,
        Ok(Some(owner)) => match forward(&server, &owner, &id, request).await {
            Ok(response) => response,
            Err(reason) => {
                let message =
                    format!("The session is open at {}, which does not answer: {reason}.", owner.name);
                let body = json!({"message": message});
                Failure::named(StatusCode::BAD_GATEWAY, "OtherNodeError", body).into_response()
            }
        },
        // The session's own claim says why, or goes on where this machine's store suffices.
        Err(_unknown) => next.run(request).await,
    }
}

/// Sends a request to a node, and returns the answer as it comes. Its events are followed first, so that none is missed.
async fn forward(
    server: &Shared,
    owner: &Owner,
    id: &SessionId,
    request: Request,
) -> Result<Response, String> {
    let address = owner.address.as_deref().ok_or("it has no address")?;
    follow(server, owner, address, id).await?;
    let (parts, body) = request.into_parts();
    let url = format!("{address}{}", path_there(&parts));
    let token = server.engine.fleet().token(owner).await.map_err(|error| error.to_string())?;
    let mut headers = parts.headers;
    OWN_HEADERS.iter().for_each(|name| drop(headers.remove(name)));
    let sent = server
        .peers
        .client()?
        .request(parts.method, url)
        .headers(headers)
        .header(FLEET, token)
        .body(reqwest::Body::wrap_stream(body.into_data_stream()));
    let answer = sent.send().await.map_err(|error| error.without_url().to_string())?;
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

/// Has a session's events come from its node, if they do not yet.
async fn follow(server: &Shared, owner: &Owner, address: &str, id: &SessionId) -> Result<(), String> {
    let (is_first, is_new) = server.peers.follow(owner, id);
    if is_first {
        let token = server.engine.fleet().token(owner).await.map_err(|error| error.to_string())?;
        let asked = server.peers.client()?.get(format!("{address}/global/event")).header(FLEET, token).send();
        let stream = match tokio::time::timeout(EVENTS_LIMIT, asked).await {
            Ok(Ok(stream)) if stream.status().is_success() => stream,
            Ok(Ok(refused)) => {
                server.peers.forget(&owner.id);
                return Err(format!("it answers {}", refused.status()));
            }
            Ok(Err(error)) => {
                server.peers.forget(&owner.id);
                return Err(error.without_url().to_string());
            }
            Err(_elapsed) => {
                server.peers.forget(&owner.id);
                return Err("its events do not come".to_owned());
            }
        };
        let (server, owner) = (server.clone(), owner.id.clone());
        server.engine.clone().spawn(async move {
            tokio::select! {
                () = read(&server, &owner, stream) => {}
                () = server.stop.cancelled() => {}
            }
            server.peers.forget(&owner);
        });
    }
    if is_new {
        note(server, owner, address, id).await?;
    }
    Ok(())
}

/// Learns where a session is, so that readers of its directory get its events.
async fn note(server: &Shared, owner: &Owner, address: &str, id: &SessionId) -> Result<(), String> {
    let token = server.engine.fleet().token(owner).await.map_err(|error| error.to_string())?;
    let asked = server.peers.client()?.get(format!("{address}/session/{id}")).header(FLEET, token).send();
    let answer = asked.await.map_err(|error| error.without_url().to_string())?;
    let bytes = answer.bytes().await.map_err(|error| error.without_url().to_string())?;
    if let Ok(info) = serde_json::from_slice::<Session>(&bytes) {
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
            if let Some(payload) = server.peers.take(owner, event["payload"].take()) {
                server.engine.bus().publish(payload);
            }
        }
    }
}

#[cfg(test)]
mod tests;
