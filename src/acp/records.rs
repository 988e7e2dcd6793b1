//! A client's operations on a session as a whole: its title, the archive, and where it stands (facts: ACP §2).

use std::path::PathBuf;

use jsonrpsee::types::ErrorObjectOwned;
use serde_json::json;
use windlass_base::clock;
use windlass_engine::SessionPatch;
use windlass_protocol::{opencode::id::SessionId, rpc::code};
use windlass_protocol_acp::{
    decode,
    schema::{
        ArchiveSessionResponse, SessionStatus, SessionStatusResponse, SetSessionTitleResponse,
        UnarchiveSessionResponse,
    },
};

use super::{
    call::Call,
    connection::{Connection, Reply},
    error::{engine_error, invalid_params, session_id},
    outbox::{Outgoing, Responder},
};

/// Closes the session and takes it out of lists.
pub fn archive(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let (id, text) = named(params)?;
    let (engine, lease) = (connection.engine.clone(), connection.lease.clone());
    call.spawn_whole(connection, Some(text), async move {
        let known = engine.sessions().get(&id).await.map_err(|failure| engine_error(&failure))?;
        lease.close_session(&id).await;
        if known.time.archived.is_none() {
            let patch = SessionPatch { archived: Some(Some(clock::now_ms())), ..SessionPatch::default() };
            engine.sessions().patch(&id, patch).await.map_err(|failure| engine_error(&failure))?;
        }
        Ok(Box::new(move |connection: &mut Connection, responder: Responder| {
            connection.sessions().remove(&id);
            responder.succeed(&ArchiveSessionResponse::new());
            connection.outbox.push(Outgoing::Detach(id));
        }) as Reply)
    })
}

/// Has the client told of changes of a directory's list of sessions.
pub fn subscribe(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let directory = decode::list_directory(params).map_err(|reason| invalid_params(&reason))?;
    match connection.encoder.lists.watch(PathBuf::from(directory)) {
        Some(id) => {
            connection.lease.watch_lists(true);
            call.succeed(&json!({ "subscriptionId": id }))
        }
        None => {
            let data = json!({ "reason": "too_many_subscriptions" });
            let message = "The client watches as many lists as it can.";
            Err(ErrorObjectOwned::owned(code::INVALID_PARAMS, message, Some(data)))
        }
    }
}

/// Has the client told of them no more.
pub fn unsubscribe(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let id = decode::subscription(params).map_err(|reason| invalid_params(&reason))?;
    let is_any_left = connection.encoder.lists.unwatch(&id);
    connection.lease.watch_lists(is_any_left);
    call.succeed(&json!({}))
}

/// Takes the session back into lists.
pub fn unarchive(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let (id, text) = named(params)?;
    let engine = connection.engine.clone();
    call.spawn_whole(connection, Some(text), async move {
        let patch = SessionPatch { archived: Some(None), ..SessionPatch::default() };
        engine.sessions().patch(&id, patch).await.map_err(|failure| engine_error(&failure))?;
        let answer = UnarchiveSessionResponse::new();
        Ok(Box::new(move |_: &mut Connection, responder: Responder| responder.succeed(&answer)) as Reply)
    })
}

/// Says if this client has the session open.
pub fn status(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let (id, text) = named(params)?;
    let is_open = connection.sessions().contains_key(&id);
    let engine = connection.engine.clone();
    call.spawn(connection, Some(text), async move {
        engine.sessions().get(&id).await.map_err(|failure| engine_error(&failure))?;
        let status = if is_open { SessionStatus::Open } else { SessionStatus::Saved };
        let answer = SessionStatusResponse::new(status);
        Ok(Box::new(move |_: &mut Connection, responder: Responder| responder.succeed(&answer)) as Reply)
    })
}

/// Gives the session the title that its user wants, for good.
pub fn set_title(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let (text, title) = decode::set_title(params).map_err(|reason| invalid_params(&reason))?;
    let id = session_id(&text)?;
    let engine = connection.engine.clone();
    call.spawn_whole(connection, Some(text), async move {
        let renamed =
            engine.sessions().rename(&id, &title).await.map_err(|failure| engine_error(&failure))?;
        let answer = SetSessionTitleResponse::new(renamed.title);
        Ok(Box::new(move |_: &mut Connection, responder: Responder| responder.succeed(&answer)) as Reply)
    })
}

fn named(params: Option<&str>) -> Result<(SessionId, String), ErrorObjectOwned> {
    let text = decode::session_id(params).map_err(|reason| invalid_params(&reason))?;
    Ok((session_id(&text)?, text))
}
