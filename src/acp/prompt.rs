//! `session/prompt`, and the client's answers to permission questions.

use std::sync::{Arc, Mutex};

use jsonrpsee::types::ErrorObjectOwned;
use serde_json::{json, value::RawValue};
use windlass_base::lock::lock;
use windlass_engine::{
    Begun, EngineError, EngineErrorKind, Invocation, OnMissing, PromptInput, PromptKey, PromptPart,
    TurnBegin, TurnEnd, TurnOutcome,
};
use windlass_protocol::{
    opencode::{id::SessionId, permission::Reply},
    rpc::{self, ErrorBody, Id, code},
};
use windlass_protocol_acp::{
    decode::{self, Version},
    schema::{ContentBlock, ContentChunk, MessageId, PromptResponse, SessionUpdate, TextContent},
};

use super::{
    call::Call,
    connection::Connection,
    elicitation,
    error::{engine_error, error, invalid_params, not_open, session_id},
    from_proto, options,
    outbox::{Cancel, News, Outbox, Outgoing, PromptEnd, Responder},
    permissions::AskedId,
    reload, server_login, to_proto,
    v2::agent,
};

pub fn prompt(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let request = decode::prompt(params).map_err(|reason| invalid_params(&reason))?;
    let id = session_id(&request.session_id)?;
    let is_second_version = connection.encoder.client.version == Version::V2;
    let key = if is_second_version {
        decode::idempotency_key(params).map_err(|reason| invalid_params(&reason))?
    } else {
        None
    };
    let input = input(connection, &id, request)?;
    server_login::offer(connection, &id);
    if let Some(key) = key {
        return once(connection, call, &PromptKey::new(&id, &key), id, input, params);
    }
    let responder = call.take_responder()?;
    let movable = Movable::new(connection, &id, responder.id(), params);
    if is_second_version {
        answer_at_once(connection, id, input, responder, movable);
        return Ok(());
    }
    let rpc_id = responder.id().clone();
    let begun = movable.clone();
    let on_begin: TurnBegin = Box::new(move |_how| begun.begin());
    let on_end: TurnEnd = Box::new(move |outcome| match outcome {
        Ok(outcome) => {
            let response = PromptResponse::new(to_proto::stop_reason(outcome.stop))
                .usage(outcome.tokens.as_ref().map(to_proto::usage));
            responder.succeed(&response);
        }
        Err(failure) => {
            if let Some(responder) = movable.moved(responder, &failure) {
                responder.fail(&engine_error(&failure));
            }
        }
    });
    let ticket = connection.engine.sessions().prompt_watched(&id, input, on_begin, on_end);
    connection.set_cancel(&rpc_id, Cancel::Prompt { session_id: id, ticket });
    Ok(())
}

/// A prompt whose session may be another node's by now: until it begins, its line can be read again behind that.
#[derive(Clone)]
struct Movable {
    outbox: Arc<Outbox>,
    session_id: SessionId,
    line: Arc<Mutex<Option<Vec<u8>>>>,
}

impl Movable {
    fn new(connection: &Connection, id: &SessionId, rpc_id: &Id, params: Option<&str>) -> Self {
        let may_be_elsewhere = connection.engine.fleet().may_be_elsewhere(id);
        let line = params.filter(|_| may_be_elsewhere).and_then(|params| {
            let params = serde_json::from_str::<&RawValue>(params).ok()?;
            serde_json::to_vec(&rpc::request(rpc_id, "session/prompt", params)).ok()
        });
        let line = Arc::new(Mutex::new(line));
        Self { outbox: connection.outbox.clone(), session_id: id.clone(), line }
    }

    /// Notes that the prompt has begun here.
    fn begin(&self) {
        lock(&self.line).take();
    }

    /// Has the line read again if another node has the session. Returns the duty to answer otherwise.
    fn moved(&self, responder: Responder, failure: &EngineError) -> Option<Responder> {
        let line = lock(&self.line).take().filter(|_| failure.kind == EngineErrorKind::OtherNode);
        let Some(line) = line else { return Some(responder) };
        let (session_id, failure) = (self.session_id.clone(), engine_error(failure));
        self.outbox.tell(News::Moved { responder, session_id, line, failure });
        None
    }
}

/// Gives the engine a prompt that may have come before: its message is then the answer.
fn once(
    connection: &mut Connection,
    call: &mut Call,
    key: &PromptKey,
    id: SessionId,
    input: PromptInput,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let engine = connection.engine.clone();
    let responder = call.take_responder()?;
    match engine.sessions().claim_key(key) {
        Ok(claim) => {
            let input = PromptInput { key: Some(Arc::new(claim)), ..input };
            let movable = Movable::new(connection, &id, responder.id(), params);
            answer_at_once(connection, id, input, responder, movable);
        }
        Err(earlier) => {
            let sessions = engine.clone();
            engine.spawn(async move {
                match sessions.sessions().message_of_earlier(earlier).await {
                    Ok(Some(id)) => succeed(responder, &id),
                    Ok(None) => responder.fail(&error(
                        code::REQUEST_CANCELLED,
                        "The prompt with this key ended before it was in the conversation; send it again.",
                    )),
                    Err(failure) => responder.fail(&engine_error(&failure)),
                }
            });
        }
    }
    Ok(())
}

fn succeed(responder: Responder, message: &windlass_protocol::opencode::id::MessageId) {
    responder.succeed(&agent::PromptResponse { message_id: &MessageId::new(message.shared()) });
}

/// Returns a prompt for an open session, as its client has chosen agent and model, and tells the configuration's mistakes
/// that were not told.
pub fn input(
    connection: &mut Connection,
    id: &SessionId,
    prompt: decode::Prompt,
) -> Result<PromptInput, ErrorObjectOwned> {
    let parts = parts(connection, id, prompt)?;
    let wants_notices = connection.wants_notices();
    let (agent, model, warnings) = {
        let client_session = connection.sessions().get_mut(id).ok_or_else(|| not_open(id.as_str()))?;
        let pending_warnings = std::mem::take(&mut client_session.pending_warnings);
        let warnings = reload::readable(
            pending_warnings.into_iter().filter_map(|idx| client_session.shown.warnings.get(idx)),
        );
        // Another default is for sessions that begin with it.
        if client_session.chosen.agent.is_none() {
            client_session.chosen.agent =
                Some(options::current_agent(&client_session.shown, &client_session.chosen).to_owned());
        }
        (client_session.chosen.agent.clone(), client_session.chosen.model.clone(), warnings)
    };
    if !wants_notices {
        send_warnings(connection, id, &warnings);
    }
    Ok(PromptInput {
        parts,
        agent,
        model,
        // The configuration may be another one until the turn begins.
        on_missing: OnMissing::Fallback,
        invocation: Invocation::Slash,
        ..PromptInput::default()
    })
}

/// Returns the parts of a prompt for an open session, with the subagents and resources that its words name.
pub fn parts(
    connection: &mut Connection,
    id: &SessionId,
    prompt: decode::Prompt,
) -> Result<Vec<PromptPart>, ErrorObjectOwned> {
    if prompt.blocks.iter().any(|block| matches!(block, ContentBlock::Audio(_))) {
        let reason = "audio is not supported (`promptCapabilities.audio` is false); send its words as text";
        return Err(error(code::INVALID_PARAMS, reason));
    }
    let words = from_proto::words(&prompt.blocks);
    let (mut parts, unused) = from_proto::prompt_parts(prompt.blocks);
    for reason in prompt.skipped.iter().chain(&unused) {
        tracing::warn!(session = %id, "{reason}");
    }
    let says_something = |part: &PromptPart| match part {
        PromptPart::Text { text, .. } | PromptPart::Document { text, .. } => !text.trim().is_empty(),
        PromptPart::File(_) | PromptPart::Agent { .. } | PromptPart::Subtask { .. } => true,
    };
    let client_session = connection.sessions().get(id).ok_or_else(|| not_open(id.as_str()))?;
    if !parts.iter().any(says_something) {
        let reason = "the `prompt` is empty: it has no block that can be used";
        return Err(error(code::INVALID_PARAMS, reason));
    }
    parts.extend(client_session.workspace.loaded().mentions(&words));
    Ok(parts)
}

/// Gives the engine a prompt of version 2, which is answered when its message is there; the state of its session tells
/// how its turn ended.
fn answer_at_once(
    connection: &mut Connection,
    id: SessionId,
    input: PromptInput,
    responder: Responder,
    movable: Movable,
) {
    let rpc_id = responder.id().clone();
    let waiting = Arc::new(Mutex::new((Some(responder), None)));
    let begun = waiting.clone();
    let (outbox, session_id) = (connection.outbox.clone(), id.clone());
    let begun_movable = movable.clone();
    let on_begin: TurnBegin = Box::new(move |how| {
        begun_movable.begin();
        let mut waiting = lock(&begun);
        waiting.1 = Some(how);
        if how == Begun::Turn
            && let Some(responder) = waiting.0.take()
        {
            outbox.push(Outgoing::PromptBegan { session_id, responder });
        }
    });
    let (outbox, session_id) = (connection.outbox.clone(), id.clone());
    let on_end: TurnEnd = Box::new(move |outcome| {
        let (responder, how) = std::mem::take(&mut *lock(&waiting));
        let (responder, outcome) = match (responder, outcome) {
            (Some(responder), Err(failure)) => match movable.moved(responder, &failure) {
                Some(responder) => (Some(responder), Err(engine_error(&failure))),
                None => return,
            },
            (responder, outcome) => (responder, outcome.map_err(|failure| engine_error(&failure))),
        };
        match (responder, &outcome) {
            // It is a message of the turn that runs, and ends nothing.
            (Some(responder), Ok(TurnOutcome { message_id: Some(id), .. })) if how == Some(Begun::Within) => {
                succeed(responder, id);
            }
            (Some(responder), Err(failure)) if how == Some(Begun::Within) => responder.fail(failure),
            (responder, _) => {
                let end = Box::new(PromptEnd { responder, outcome });
                outbox.push(Outgoing::PromptEnded { session_id, end });
            }
        }
    });
    let ticket = connection.engine.sessions().prompt_watched(&id, input, on_begin, on_end);
    connection.set_cancel(&rpc_id, Cancel::Prompt { session_id: id, ticket });
}

/// Shows the configuration's mistakes to a user with a client that knows no notices: once, as a thought.
fn send_warnings(connection: &Connection, id: &SessionId, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    let text = format!("Part of the configuration is ignored:\n- {}", warnings.join("\n- "));
    let chunk = ContentChunk::new(ContentBlock::Text(TextContent::new(text)))
        .message_id(MessageId::new(format!("warnings_{id}")));
    let update = Box::new(SessionUpdate::AgentThoughtChunk(chunk));
    connection.outbox.push(Outgoing::Update(id.clone(), update));
}

/// Takes the client's answer to a request of ours.
pub fn answered(connection: &mut Connection, id: &Id, result: Result<Option<&RawValue>, ErrorBody>) {
    if connection.encoder.client_calls.answered(id, &result) {
        return;
    }
    // An answer to nothing, or to a question that was settled meanwhile, is ignored.
    let asked = connection.encoder.permissions.answered(id);
    let place = asked.as_ref().and_then(|asked| connection.encoder.permissions.session_of(asked));
    if place.is_some_and(|place| connection.encoder.is_child(place)) {
        match &result {
            Ok(_) => connection.encoder.has_answered_child = true,
            Err(failure) if !connection.encoder.has_answered_child => {
                let reason = "the client does not know a subagent that it was told of, so that those are shown no more";
                tracing::warn!(code = failure.code, message = %failure.message, "{reason}");
                return connection.outbox.push(Outgoing::ShowSubagentsAbove);
            }
            Err(_) => {}
        }
    }
    let permission = match asked {
        Some(AskedId::Permission(permission)) => permission,
        Some(AskedId::Question(question)) => return elicitation::answered(connection, &question, result),
        None => return,
    };
    let choice = match result {
        Ok(result) => decode::permission_outcome(result.map_or("{}", RawValue::get)),
        Err(failure) => {
            tracing::warn!(code = failure.code, message = %failure.message, "the client could not ask its user");
            Ok(None)
        }
    };
    let reply = match choice.as_ref().map(|choice| choice.as_deref()) {
        Ok(Some("once")) => Reply::Once,
        Ok(Some("always")) => Reply::Always,
        Ok(Some("reject_always")) => Reply::RejectAlways,
        Ok(Some(_) | None) | Err(_) => Reply::Reject,
    };
    connection.engine.asking().reply_permission(&permission, reply, None);
}

/// Handles `_windlass/permission/reply`: answers a question by OpenCode's id, with feedback for the model.
pub fn permission_reply(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let request = decode::permission_reply(params).map_err(|reason| invalid_params(&reason))?;
    let pending = connection.engine.asking().pending_permissions(&request.session_id);
    if !pending.iter().any(|it| it.id == request.request_id) {
        let message = format!("no permission request {} is waiting in this session", request.request_id);
        let data = json!({ "requestId": request.request_id, "sessionId": request.session_id });
        return Err(ErrorObjectOwned::owned(code::RESOURCE_NOT_FOUND, message, Some(data)));
    }
    connection.engine.asking().reply_permission(&request.request_id, request.reply, request.message);
    call.succeed(&json!({}))
}
