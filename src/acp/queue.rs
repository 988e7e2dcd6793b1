//! The prompts behind a session's work: words for the turn that runs (`_session/steering`), and the prompts that wait,
//! listed, changed and withdrawn.

use std::sync::{Arc, Mutex};

use jsonrpsee::types::ErrorObjectOwned;
use serde_json::{Value, json};
use windlass_base::{ids, lock::lock};
use windlass_engine::{
    Begun, Delivery, EngineErrorKind, PromptInput, StopReason, TurnBegin, TurnEnd, WaitingPrompt,
};
use windlass_protocol::{opencode::id::SessionId, rpc::code};
use windlass_protocol_acp::{
    decode::{self, queue as decode_queue},
    schema::{ContentBlock, ContentChunk, MessageId, Notice, NoticeSeverity, SessionUpdate, TextContent},
};

use super::{
    call::Call,
    connection::Connection,
    error::{invalid_params, not_open, session_id},
    outbox::{Cancel, Outgoing},
    prompt::{input, parts},
};

/// Gives the turn that runs more words of the user. Answered when they are in the conversation, or cannot be.
pub fn steer(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let request = decode_queue::steering(params).map_err(|reason| invalid_params(&reason))?;
    let id = session_id(&request.prompt.session_id)?;
    let input = input(connection, &id, request.prompt)?;
    if request.is_turn_required && !connection.engine.sessions().is_working(&id) {
        return call.succeed(&prompt_required());
    }
    let delivery = if request.is_turn_required { Delivery::SteerOnly } else { Delivery::Steer };
    let input = PromptInput { delivery, ..input };
    let responder = call.take_responder()?;
    let rpc_id = responder.id().clone();
    let waiting = Arc::new(Mutex::new(Some(responder)));
    let begun = waiting.clone();
    let on_begin: TurnBegin = Box::new(move |how| {
        // Within a turn the words are not in the conversation yet.
        if how == Begun::Turn
            && let Some(responder) = lock(&begun).take()
        {
            responder.succeed(&json!({ "outcome": "startedNewTurn" }));
        }
    });
    let (outbox, session_id, wants_notices) =
        (connection.outbox.clone(), id.clone(), connection.wants_notices());
    let on_end: TurnEnd = Box::new(move |outcome| match (lock(&waiting).take(), outcome) {
        (Some(responder), Ok(outcome)) if outcome.stop != StopReason::Cancelled => {
            responder.succeed(&json!({ "outcome": "injected" }));
        }
        (Some(responder), Err(failure)) if failure.kind == EngineErrorKind::NoTurn => {
            responder.succeed(&prompt_required());
        }
        (Some(responder), _) => responder.succeed(&json!({ "outcome": "failed" })),
        // No request waits for the end of the turn that has begun.
        (None, Err(failure)) => {
            let update = Box::new(failed(&failure.message, wants_notices));
            outbox.push(Outgoing::Update(session_id, update));
        }
        (None, Ok(_)) => {}
    });
    let ticket = connection.engine.sessions().prompt_watched(&id, input, on_begin, on_end);
    connection.set_cancel(&rpc_id, Cancel::Prompt { session_id: id, ticket });
    Ok(())
}

/// Returns the update about the failure of a turn that no request waits for.
fn failed(message: &str, wants_notices: bool) -> SessionUpdate {
    if wants_notices {
        return SessionUpdate::Notice(Notice::new(NoticeSeverity::Error, message.to_owned()));
    }
    let chunk = ContentChunk::new(ContentBlock::Text(TextContent::new(message)));
    SessionUpdate::AgentThoughtChunk(chunk.message_id(MessageId::new(ids::message().shared())))
}

fn prompt_required() -> Value {
    json!({ "outcome": "promptRequired", "reason": "noRunningTurn" })
}

/// Lists the prompts that wait behind a session's work.
pub fn list(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let text = decode::session_id(params).map_err(|reason| invalid_params(&reason))?;
    let id = open_session(connection, &text)?;
    let row = |waiting: &WaitingPrompt| {
        let delivery = if waiting.delivery == Delivery::Turn { "queue" } else { "steer" };
        let mut row = json!({ "id": waiting.ticket.to_string(), "inboxID": waiting.id, "delivery": delivery, "text": waiting.words });
        if waiting.is_parked {
            row["parked"] = true.into();
        }
        row
    };
    let rows: Vec<Value> = connection.engine.sessions().waiting_prompts(&id).iter().map(row).collect();
    call.succeed(&json!({ "prompts": rows }))
}

/// Changes the words of a prompt that waits, the time at which it is read, or its place among the others.
pub fn change(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let named = decode_queue::waiting_prompt(params).map_err(|reason| invalid_params(&reason))?;
    let change = decode_queue::prompt_change(params).map_err(|reason| invalid_params(&reason))?;
    let id = open_session(connection, &named.session_id)?;
    let parts = change.prompt.map(|prompt| parts(connection, &id, prompt)).transpose()?;
    let delivery = change.is_steer.map(|is_steer| if is_steer { Delivery::Steer } else { Delivery::Turn });
    let sessions = connection.engine.sessions();
    let is_changed = sessions.change_prompt(&id, named.id, parts, delivery)
        && change.position.is_none_or(|position| sessions.move_prompt(&id, named.id, position));
    if !is_changed {
        return Err(not_waiting(&named));
    }
    call.succeed(&json!({}))
}

/// Takes a prompt back that waits: its request is answered as a cancelled one, and nothing of it is kept.
pub fn withdraw(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let named = decode_queue::waiting_prompt(params).map_err(|reason| invalid_params(&reason))?;
    let id = open_session(connection, &named.session_id)?;
    if !connection.engine.sessions().withdraw_prompt(&id, named.id) {
        return Err(not_waiting(&named));
    }
    call.succeed(&json!({}))
}

fn open_session(connection: &mut Connection, text: &str) -> Result<SessionId, ErrorObjectOwned> {
    let id = session_id(text)?;
    if connection.sessions().contains_key(&id) { Ok(id) } else { Err(not_open(text)) }
}

fn not_waiting(named: &decode_queue::WaitingPrompt) -> ErrorObjectOwned {
    let data = json!({ "id": named.id.to_string(), "sessionId": named.session_id });
    let message = format!("no prompt {} waits in this session; it may have begun", named.id);
    ErrorObjectOwned::owned(code::RESOURCE_NOT_FOUND, message, Some(data))
}
