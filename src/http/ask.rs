//! Routes of permissions and questions, which any client may answer.

use std::path::Path;

use axum::{extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_engine::{AskedWords, asked_words, is_about_configuration};
use windlass_protocol::opencode::{
    id::{PermissionId, QuestionId, SessionId},
    permission::{PermissionRequest, Reply},
    question::QuestionRequest,
};

use super::{
    asked_elsewhere,
    body::{Answer, Id, Ids, Payload},
    by::{By, forbidden},
    error::Failure,
    routes::{Routes, get, post},
    selection::Named,
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/permission", get(permissions))
        .route("/permission/{id}/reply", post(reply))
        .route("/session/{id}/permissions/{permission}", post(respond))
        .route("/question", get(questions))
        .route("/question/{id}/reply", post(answer))
        .route("/question/{id}/reject", post(reject))
}

/// A request with the words that editors and the page show; OpenCode's clients make up their own.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Asked {
    #[serde(flatten)]
    request: PermissionRequest,
    words: Words,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "AskedWords"))]
struct Words {
    title: String,
    /// The subject of `always`; without it there is no such answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    always: Option<String>,
}

async fn permissions(State(server): State<Shared>, by: By, selected: Named) -> Answer<Vec<Asked>> {
    let (directory, waiting) =
        (selected.text(), server.engine.asking().all_pending_permissions().into_iter());
    let here = waiting.filter(|it| server.is_in(&it.session_id, &directory));
    let elsewhere = asked_elsewhere::permissions(&server, &directory).await;
    let asked = here.chain(elsewhere).filter(|it| by.sees(&it.session_id)).map(|request| {
        let AskedWords { title, always } = asked_words(&request, Path::new(&directory));
        Asked { request, words: Words { title, always } }
    });
    Answer(asked.collect())
}

/// An answer to a permission.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReplyBody {
    reply: Reply,
    message: Option<String>,
}

async fn reply(
    State(server): State<Shared>,
    by: By,
    Id(id): Id<PermissionId>,
    Payload(body): Payload<ReplyBody>,
) -> Result<Answer<bool>, Failure> {
    settle(&server, &by, &id, body.reply, body.message)
}

/// The same in the words of the first clients.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RespondBody {
    response: Reply,
}

async fn respond(
    State(server): State<Shared>,
    by: By,
    Ids((session_id, id)): Ids<(SessionId, PermissionId)>,
    Payload(body): Payload<RespondBody>,
) -> Result<Answer<bool>, Failure> {
    server.session(&session_id).await?;
    if !server.engine.asking().pending_permissions(&session_id).iter().any(|it| it.id == id) {
        return Err(no_permission(&id));
    }
    settle(&server, &by, &id, body.response, None)
}

/// Answers a permission. Only the owner of a session has answers remembered: others answer for the one time.
pub fn settle(
    server: &Shared,
    by: &By,
    id: &PermissionId,
    reply: Reply,
    feedback: Option<String>,
) -> Result<Answer<bool>, Failure> {
    let asked = server.engine.asking().all_pending_permissions().into_iter().find(|it| it.id == *id);
    let Some(asked) = asked.filter(|it| by.answers(&it.session_id)) else {
        return Err(no_permission(id));
    };
    let is_yes = matches!(reply, Reply::Once | Reply::Always);
    if is_yes && is_about_configuration(&asked.permission) && !by.administers() {
        return Err(forbidden(
            "An administrator decides about the configuration of a project: `windlass trust DIRECTORY` at the server's machine.",
        ));
    }
    let is_owner = by.owns(&asked.session_id);
    let reply = match reply {
        Reply::Always if !is_owner => Reply::Once,
        Reply::RejectAlways if !is_owner => Reply::Reject,
        reply => reply,
    };
    if server.engine.asking().reply_permission(id, reply, feedback) {
        return Ok(Answer(true));
    }
    Err(no_permission(id))
}

/// Refuses a request for a permission that does not wait.
pub fn no_permission(id: &PermissionId) -> Failure {
    let fields = json!({"requestID": id, "message": format!("Permission request not found: {id}")});
    Failure::tagged(StatusCode::NOT_FOUND, "PermissionNotFoundError", fields)
}

async fn questions(State(server): State<Shared>, by: By, selected: Named) -> Answer<Vec<QuestionRequest>> {
    let (directory, waiting) = (selected.text(), server.engine.asking().all_pending_questions().into_iter());
    let here = waiting.filter(|it| server.is_in(&it.session_id, &directory));
    let elsewhere = asked_elsewhere::questions(&server, &directory).await;
    Answer(here.chain(elsewhere).filter(|it| by.sees(&it.session_id)).collect())
}

/// An answer to a question: for each of its questions the labels that were chosen.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AnswerBody {
    answers: Vec<Vec<String>>,
}

async fn answer(
    State(server): State<Shared>,
    by: By,
    Id(id): Id<QuestionId>,
    Payload(body): Payload<AnswerBody>,
) -> Result<Answer<bool>, Failure> {
    settle_question(&server, &by, &id, Some(body.answers))
}

async fn reject(
    State(server): State<Shared>,
    by: By,
    Id(id): Id<QuestionId>,
) -> Result<Answer<bool>, Failure> {
    settle_question(&server, &by, &id, None)
}

/// Answers a question; without answers it is rejected.
pub fn settle_question(
    server: &Shared,
    by: &By,
    id: &QuestionId,
    answers: Option<Vec<Vec<String>>>,
) -> Result<Answer<bool>, Failure> {
    let asking = server.engine.asking();
    let asked = asking.all_pending_questions().into_iter().find(|it| it.id == *id);
    let is_settled = asked.is_some_and(|it| by.answers(&it.session_id))
        && match answers {
            Some(answers) => asking.reply_question(id, answers),
            None => asking.reject_question(id),
        };
    if is_settled { Ok(Answer(true)) } else { Err(no_question(id)) }
}

pub fn no_question(id: &QuestionId) -> Failure {
    let fields = json!({"requestID": id, "message": format!("Question request not found: {id}")});
    Failure::tagged(StatusCode::NOT_FOUND, "QuestionNotFoundError", fields)
}
