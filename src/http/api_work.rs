//! Sessions at work below `/api`: making them, prompting, undoing, and the answers to their questions.

use axum::{
    Extension,
    extract::{Path, State},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_base::{clock, ids, mime};
use windlass_engine::{NewSession, RevertTo};
use windlass_protocol::opencode::{
    id::{MessageId, PermissionId, QuestionId, SessionId},
    inbox::InboxDelivery,
    model_ref::ModelRef,
    part::FilePart,
    permission::{PermissionRequest, Reply},
    session::SessionModel,
};

use super::{
    admission::Noted,
    api_session::{find, session_view},
    ask,
    body::{self, Answer, Ids, Payload},
    by::By,
    error::{Failure, Piece},
    history,
    prompt::{self, PartInput, PromptBody},
    routes::{Routes, get, post},
    selection::Named,
    server::Shared,
    session_access,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/api/session", post(create))
        .route("/api/session/{id}/agent", post(choose_agent))
        .route("/api/session/{id}/model", post(choose_model))
        .route("/api/session/{id}/prompt", post(admit))
        .route("/api/session/{id}/interrupt", post(interrupt))
        .route("/api/session/{id}/compact", post(unavailable))
        .route("/api/session/{id}/wait", post(unavailable))
        .route("/api/session/{id}/revert/stage", post(revert))
        .route("/api/session/{id}/revert/clear", post(unrevert))
        .route("/api/session/{id}/permission", get(permissions))
        .route("/api/session/{id}/permission/{permission}", get(permission))
        .route("/api/session/{id}/permission/{permission}/reply", post(reply))
        .route("/api/session/{id}/question", get(questions))
        .route("/api/session/{id}/question/{question}/reply", post(answer))
        .route("/api/session/{id}/question/{question}/reject", post(reject))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CreateBody {
    id: Option<SessionId>,
    agent: Option<String>,
    model: Option<SessionModel>,
    location: Option<Location>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Location {
    directory: String,
}

async fn create(
    State(server): State<Shared>,
    by: By,
    Named(selected): Named,
    Payload(body): Payload<CreateBody>,
) -> Result<(Extension<Noted>, Answer<Value>), Failure> {
    let CreateBody { id, agent, model, location } = body;
    let directory = location.map_or(selected, |location| server.options.directory.join(location.directory));
    let mut new = NewSession { directory, id, agent, model, ..NewSession::default() };
    let opened = by.create(&server, &mut new).await?;
    server.hold(&opened.info.id).await;
    server.engine.workspaces().watch(&opened.workspace);
    let noted = Extension(Noted::subject(&opened.info.id));
    let info = session_access::share_unasked(&server, &by, opened.info).await;
    Ok((noted, Answer(json!({"data": session_view(info)}))))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AgentBody {
    agent: String,
}

async fn choose_agent(
    State(server): State<Shared>,
    Path(id): Path<String>,
    Payload(body): Payload<AgentBody>,
) -> Result<StatusCode, Failure> {
    let id = find(&server, &id).await?.id;
    server.open(&id).await?.loaded().checked_agent(&body.agent)?;
    server.engine.sessions().select(&id, Some(body.agent), None).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ModelBody {
    model: SessionModel,
}

async fn choose_model(
    State(server): State<Shared>,
    Path(id): Path<String>,
    Payload(body): Payload<ModelBody>,
) -> Result<StatusCode, Failure> {
    let id = find(&server, &id).await?.id;
    let SessionModel { id: model_id, provider_id, variant } = body.model;
    let model = ModelRef { provider_id, model_id, variant };
    let loaded = server.open(&id).await?.loaded();
    loaded.checked_model(&model).map_err(windlass_engine::EngineError::from)?;
    server.engine.sessions().select(&id, None, Some(model)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AdmitBody {
    #[serde(default, deserialize_with = "body::message_id")]
    id: Option<MessageId>,
    prompt: Words,
    #[serde(default)]
    delivery: InboxDelivery,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PromptWords"))]
pub struct Words {
    text: String,
    #[serde(default)]
    files: Vec<File>,
    #[serde(default)]
    agents: Vec<Agent>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PromptFile"))]
pub struct File {
    uri: String,
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "PromptAgent"))]
pub struct Agent {
    name: String,
}

/// Gives the session a prompt and answers at once.
async fn admit(
    State(server): State<Shared>,
    Path(id): Path<String>,
    Payload(body): Payload<AdmitBody>,
) -> Result<Answer<Value>, Failure> {
    let id = find(&server, &id).await?.id;
    let AdmitBody { id: message_id, prompt: Words { text, files, agents }, delivery } = body;
    if text.trim().is_empty() && files.is_empty() {
        return Err(Failure::bad_request(
            Piece::Payload,
            "A prompt has to have words\n  at [\"prompt\"][\"text\"]",
        ));
    }
    let message_id = message_id.unwrap_or_else(ids::message);
    let shown = json!({"text": text});
    let answer = Answer(json!({"data": {
        "admittedSeq": 0, "id": message_id, "sessionID": id, "prompt": shown, "delivery": delivery,
        "timeCreated": clock::now_ms(),
    }}));
    if prompt::is_repeated(&server, &id, &message_id).await? {
        return Ok(answer);
    }
    let files = files.into_iter().map(|File { uri, name }| {
        let mime = mime::of_path(&uri).unwrap_or("text/plain").to_owned();
        PartInput::File { id: None, file: FilePart { mime, filename: name, url: uri, source: None } }
    });
    let agents = agents.into_iter().map(|agent| PartInput::Agent { id: None, name: agent.name });
    let words = PartInput::Text { id: None, text, synthetic: false, ignored: false };
    let parts = std::iter::once(words).chain(files).chain(agents).collect();
    let body = PromptBody::of_parts(parts, message_id.clone());
    let mut input = prompt::accepted(&server, &id, body).await?;
    input.delivery = delivery.into();
    server.engine.sessions().prompt_until_stored(&id, input).await?;
    Ok(answer)
}

async fn interrupt(State(server): State<Shared>, Path(id): Path<String>) -> Result<StatusCode, Failure> {
    let id = find(&server, &id).await?.id;
    server.engine.sessions().cancel(&id);
    Ok(StatusCode::NO_CONTENT)
}

/// Answers as OpenCode does where its younger store has no such operation yet.
async fn unavailable(State(server): State<Shared>, Path(id): Path<String>) -> Result<StatusCode, Failure> {
    find(&server, &id).await?;
    let message = "This is not available here yet; use the same operation outside of /api.";
    let fields = json!({"message": message, "service": "session"});
    Err(Failure::tagged(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError", fields))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RevertBody {
    #[serde(rename = "messageID")]
    message_id: MessageId,
}

async fn revert(
    State(server): State<Shared>,
    Path(id): Path<String>,
    Payload(body): Payload<RevertBody>,
) -> Result<Answer<Value>, Failure> {
    let id = find(&server, &id).await?.id;
    let to = RevertTo::Message { message_id: body.message_id, part_id: None };
    let session = history::undo(&server, &id, to).await?.0;
    Ok(Answer(json!({"data": session.revert})))
}

async fn unrevert(State(server): State<Shared>, Path(id): Path<String>) -> Result<StatusCode, Failure> {
    let id = find(&server, &id).await?.id;
    history::undo(&server, &id, RevertTo::Nothing).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns a request for a permission in the words of this interface.
pub fn permission_view(request: PermissionRequest) -> Value {
    let mut view = json!({
        "id": request.id,
        "sessionID": request.session_id,
        "action": request.permission,
        "resources": request.patterns,
        "save": request.always,
        "metadata": request.metadata,
    });
    if let Some(tool) = request.tool {
        view["source"] = json!(tool);
        view["source"]["type"] = "tool".into();
    }
    view
}

async fn permissions(State(server): State<Shared>, Path(id): Path<String>) -> Result<Answer<Value>, Failure> {
    let id = find(&server, &id).await?.id;
    let waiting = server.engine.asking().pending_permissions(&id).into_iter().map(permission_view);
    Ok(Answer(json!({"data": waiting.collect::<Vec<_>>()})))
}

async fn permission(
    State(server): State<Shared>,
    Ids((session, id)): Ids<(SessionId, PermissionId)>,
) -> Result<Answer<Value>, Failure> {
    let waiting =
        server.engine.asking().pending_permissions(&session).into_iter().find(|request| request.id == id);
    let request = waiting.ok_or_else(|| ask::no_permission(&id))?;
    Ok(Answer(json!({"data": permission_view(request)})))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReplyBody {
    reply: Reply,
    message: Option<String>,
}

async fn reply(
    State(server): State<Shared>,
    by: By,
    Ids((_, id)): Ids<(SessionId, PermissionId)>,
    Payload(body): Payload<ReplyBody>,
) -> Result<StatusCode, Failure> {
    ask::settle(&server, &by, &id, body.reply, body.message)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn questions(State(server): State<Shared>, Path(id): Path<String>) -> Result<Answer<Value>, Failure> {
    let id = find(&server, &id).await?.id;
    let mut waiting = server.engine.asking().all_pending_questions();
    waiting.retain(|request| request.session_id == id);
    Ok(Answer(json!({"data": waiting})))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AnswerBody {
    answers: Vec<Vec<String>>,
}

async fn answer(
    State(server): State<Shared>,
    by: By,
    Ids((_, id)): Ids<(SessionId, QuestionId)>,
    Payload(body): Payload<AnswerBody>,
) -> Result<StatusCode, Failure> {
    ask::settle_question(&server, &by, &id, Some(body.answers))?;
    Ok(StatusCode::NO_CONTENT)
}

async fn reject(
    State(server): State<Shared>,
    by: By,
    Ids((_, id)): Ids<(SessionId, QuestionId)>,
) -> Result<StatusCode, Failure> {
    ask::settle_question(&server, &by, &id, None)?;
    Ok(StatusCode::NO_CONTENT)
}
