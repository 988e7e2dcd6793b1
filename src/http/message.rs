//! Routes of a session's messages and parts.

use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, Uri, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use windlass_engine::{Edit, created};
use windlass_protocol::opencode::{
    id::{MessageId, PartId, SessionId},
    message::MessageWithParts,
    part::Part,
};

use super::{
    body::{Answer, Id, Ids, Params, Payload},
    cors::NEXT_CURSOR,
    error::{Failure, Piece},
    routes::{Routes, delete, get},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/session/{id}/message", get(list))
        .route("/session/{id}/message/{message}", get(read).delete(remove))
        .route("/session/{id}/message/{message}/part/{part}", delete(remove_part).patch(replace_part))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListParams {
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    limit: Option<String>,
    before: Option<String>,
}

/// The place in front of a page, as clients give it back.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PageCursor {
    id: MessageId,
    time: i64,
}

async fn list(
    State(server): State<Shared>,
    uri: Uri,
    Id(id): Id<SessionId>,
    Params(params): Params<ListParams>,
) -> Result<Response, Failure> {
    server.session(&id).await?;
    let limit = match params.limit.as_deref() {
        Some(limit) => Some(limit.parse::<usize>().map_err(|_| {
            Failure::bad_request(Piece::Query, format!("Expected a number, got {limit:?}\n  at [\"limit\"]"))
        })?),
        None => None,
    };
    // As OpenCode, which takes 0 for all.
    let limit = limit.filter(|limit| *limit > 0);
    let before = match params.before.as_deref() {
        Some(before) if limit.is_some() => Some(decode(before).ok_or_else(|| {
            Failure::bad_request(Piece::Query, "Expected the cursor of a page\n  at [\"before\"]")
        })?),
        Some(_) => {
            return Err(Failure::bad_request(Piece::Query, "\"before\" needs \"limit\"\n  at [\"limit\"]"));
        }
        None => None,
    };
    // One more tells whether there is another page.
    let wanted = limit.map(|limit| limit.saturating_add(1));
    let before = before.map(|cursor| cursor.id);
    let mut messages = server.engine.sessions().last_messages(&id, before.as_ref(), wanted).await?;
    let mut headers = HeaderMap::new();
    if let Some(limit) = limit
        && messages.len() > limit
    {
        messages.remove(0);
        if let Some(first) = messages.first() {
            let cursor = PageCursor { id: first.info.id().clone(), time: created(&first.info) };
            let cursor = BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&cursor).unwrap_or_default());
            let link = format!("<{}?limit={limit}&before={cursor}>; rel=\"next\"", uri.path());
            for (name, value) in [(header::LINK, link), (NEXT_CURSOR, cursor)] {
                headers.extend(HeaderValue::from_str(&value).ok().map(|value| (name, value)));
            }
        }
    }
    Ok((headers, Answer(messages)).into_response())
}

fn decode(cursor: &str) -> Option<PageCursor> {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(cursor.trim_end_matches('=')).ok()?).ok()
}

async fn read(
    State(server): State<Shared>,
    Ids((id, message_id)): Ids<(SessionId, MessageId)>,
) -> Result<Answer<MessageWithParts>, Failure> {
    server.session(&id).await?;
    let message = server.engine.sessions().message(&id, &message_id).await?;
    message.map(Answer).ok_or_else(|| Failure::not_found(format!("Message not found: {message_id}")))
}

async fn remove(
    State(server): State<Shared>,
    Ids((id, message_id)): Ids<(SessionId, MessageId)>,
) -> Result<Answer<bool>, Failure> {
    server.session(&id).await?;
    edit(&server, &id, Edit::RemoveMessage(message_id)).await?;
    Ok(Answer(true))
}

async fn remove_part(
    State(server): State<Shared>,
    Ids((id, message_id, part_id)): Ids<(SessionId, MessageId, PartId)>,
) -> Result<Answer<bool>, Failure> {
    server.session(&id).await?;
    edit(&server, &id, Edit::RemovePart(message_id, part_id)).await?;
    Ok(Answer(true))
}

async fn replace_part(
    State(server): State<Shared>,
    Ids((id, message_id, part_id)): Ids<(SessionId, MessageId, PartId)>,
    Payload(part): Payload<Part>,
) -> Result<Answer<Part>, Failure> {
    server.session(&id).await?;
    if (&part.session_id, &part.message_id, &part.id) != (&id, &message_id, &part_id) {
        return Err(Failure::bad_request(
            Piece::Payload,
            "The part's ids are not those of the path\n  at [\"id\"]",
        ));
    }
    edit(&server, &id, Edit::ReplacePart(Box::new(part.clone()))).await?;
    Ok(Answer(part))
}

async fn edit(server: &Shared, id: &SessionId, edit: Edit) -> Result<(), Failure> {
    server.open(id).await?;
    server.require_idle(id)?;
    Ok(server.engine.sessions().edit(id, edit).await?)
}
