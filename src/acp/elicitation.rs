//! Passes on the answers of the client's user to the questions of tools.

use jsonrpsee::types::ErrorObjectOwned;
use serde_json::{json, value::RawValue};
use windlass_protocol::{
    opencode::{
        id::{QuestionId, SessionId},
        question::QuestionRequest,
    },
    rpc::{ErrorBody, code},
};
use windlass_protocol_acp::decode;

use super::{call::Call, connection::Connection, dialog::Progress, error::invalid_params, outbox::Outgoing};

/// Takes the client's answer to a message that showed this question.
pub fn answered(connection: &mut Connection, id: &QuestionId, result: Result<Option<&RawValue>, ErrorBody>) {
    if let Err(failure) = &result {
        tracing::warn!(code = failure.code, message = %failure.message, "the client could not ask its user");
    }
    let result = result.as_ref().map(|result| result.map(RawValue::get));
    match connection.encoder.permissions.with_dialog(id, |dialog| dialog.apply_reply(result)) {
        // It was settled meanwhile.
        None => {}
        Some(Progress::Continue) => connection.outbox.push(Outgoing::NextQuestion(id.clone())),
        Some(Progress::Answered(answers)) => _ = connection.engine.asking().reply_question(id, answers),
        Some(Progress::Closed) => _ = connection.engine.asking().close_question(id),
        Some(Progress::Dismissed) => _ = connection.engine.asking().reject_question(id),
    }
}

/// Handles `_windlass/question/reply`: answers a question by OpenCode's id, also in words of the user's own.
pub fn reply(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let request = decode::question_reply(params).map_err(|reason| invalid_params(&reason))?;
    let waiting = waiting(connection, &request.session_id, &request.request_id)?;
    let (n_questions, n_answers) = (waiting.questions.len(), request.answers.len());
    if n_questions != n_answers {
        let reason =
            format!("`answers` must hold one list for each of {n_questions} questions, not {n_answers}");
        return Err(invalid_params(&decode::InvalidParams(reason)));
    }
    connection.engine.asking().reply_question(&request.request_id, request.answers);
    call.succeed(&json!({}))
}

/// Handles `_windlass/question/reject`: dismisses a question by OpenCode's id.
pub fn reject(
    connection: &mut Connection,
    call: &mut Call,
    params: Option<&str>,
) -> Result<(), ErrorObjectOwned> {
    let request = decode::question_reply(params).map_err(|reason| invalid_params(&reason))?;
    waiting(connection, &request.session_id, &request.request_id)?;
    connection.engine.asking().reject_question(&request.request_id);
    call.succeed(&json!({}))
}

fn waiting(
    connection: &Connection,
    session_id: &SessionId,
    id: &QuestionId,
) -> Result<QuestionRequest, ErrorObjectOwned> {
    let pending = connection.engine.asking().pending_questions(session_id);
    pending.into_iter().find(|request| request.id == *id).ok_or_else(|| {
        let message = format!("no question {id} is waiting in this session");
        let data = json!({ "requestId": id, "sessionId": session_id });
        ErrorObjectOwned::owned(code::RESOURCE_NOT_FOUND, message, Some(data))
    })
}
