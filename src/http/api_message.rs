//! Messages below `/api`, in the form of OpenCode's younger interface: one list of contents for each.

use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    message::{Message, MessageWithParts},
    part::{Part, PartKind, ToolPart, ToolState},
};

use super::{
    api_session::find,
    body::{Answer, Ids, Params, number},
    error::Failure,
    routes::{Routes, get},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/api/session/{id}/message", get(list))
        .route("/api/session/{id}/message/{message}", get(read))
        .route("/api/session/{id}/context", get(context))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListParams {
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    limit: Option<String>,
    order: Option<String>,
}

/// Answers with the newest messages, the oldest of them first unless the order is `desc`.
async fn list(
    State(server): State<Shared>,
    Path(id): Path<String>,
    Params(params): Params<ListParams>,
) -> Result<Answer<Value>, Failure> {
    let id = find(&server, &id).await?.id;
    let limit = number(params.limit.as_deref()).filter(|limit| *limit > 0);
    let mut messages = views(server.engine.sessions().last_messages(&id, None, limit).await?);
    if params.order.as_deref() == Some("desc") {
        messages.reverse();
    }
    Ok(Answer(json!({"data": messages, "cursor": {}})))
}

async fn read(
    State(server): State<Shared>,
    Ids((session, id)): Ids<(SessionId, MessageId)>,
) -> Result<Answer<Value>, Failure> {
    let message = server.engine.sessions().message(&session, &id).await?;
    let message = message.ok_or_else(|| Failure::not_found(format!("Message not found: {id}")))?;
    Ok(Answer(json!({"data": view(message)})))
}

async fn context(State(server): State<Shared>, Path(id): Path<String>) -> Result<Answer<Value>, Failure> {
    let id = find(&server, &id).await?.id;
    let record = server.engine.sessions().record(&id).await?.without_undone();
    Ok(Answer(json!({"data": views(record.messages)})))
}

fn views(messages: Vec<MessageWithParts>) -> Vec<Value> {
    messages.into_iter().map(view).collect()
}

fn view(message: MessageWithParts) -> Value {
    let MessageWithParts { info, parts } = message;
    let answer = match info {
        Message::User(user) => {
            let mut view =
                json!({"id": user.id, "type": "user", "time": user.time, "text": user_text(&parts)});
            let files: Vec<Value> = parts.iter().filter_map(file_view).collect();
            if !files.is_empty() {
                view["files"] = files.into();
            }
            return view;
        }
        Message::Assistant(answer) => answer,
    };
    let mut view = json!({
        "id": answer.id,
        "type": "assistant",
        "time": answer.time,
        "agent": answer.agent,
        "model": {"id": answer.model_id, "providerID": answer.provider_id},
        "content": parts.iter().filter_map(content).collect::<Vec<_>>(),
        "cost": answer.cost,
        "tokens": answer.tokens,
    });
    if let Some(finish) = answer.finish {
        view["finish"] = finish.into();
    }
    if let Some(error) = answer.error {
        let error = json!(error);
        view["error"] = json!({"type": "unknown", "message": error["data"]["message"]});
    }
    view
}

fn user_text(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match &part.kind {
        PartKind::Text(text) if text.synthetic != Some(true) => Some(text.text.as_str()),
        _other => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn file_view(part: &Part) -> Option<Value> {
    let PartKind::File(file) = &part.kind else { return None };
    Some(json!({"uri": file.url, "mime": file.mime, "name": file.filename}))
}

fn content(part: &Part) -> Option<Value> {
    match &part.kind {
        PartKind::Text(text) => Some(json!({"type": "text", "id": part.id, "text": text.text})),
        PartKind::Reasoning(thought) => Some(json!({
            "type": "reasoning", "id": part.id, "text": thought.text,
            "time": {"created": thought.time.start, "completed": thought.time.end},
        })),
        PartKind::Tool(call) => Some(call_view(call)),
        _other => None,
    }
}

fn call_view(call: &ToolPart) -> Value {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let (state, time) = match &call.state {
        ToolState::Pending { raw, .. } => (json!({"status": "pending", "input": raw}), json!({"created": 0})),
        ToolState::Running { input, metadata, time, .. } => (
            json!({"status": "running", "input": input, "structured": metadata, "content": []}),
            json!({"created": time.start, "ran": time.start}),
        ),
        ToolState::Completed { input, output, metadata, time, .. } => (
            json!({"status": "completed", "input": input, "structured": metadata, "content": text(output)}),
            json!({"created": time.start, "ran": time.start, "completed": time.end}),
        ),
        ToolState::Error { input, error, metadata, time, .. } => (
            json!({"status": "error", "input": input, "structured": metadata, "content": [],
                "error": {"type": "unknown", "message": error}}),
            json!({"created": time.start, "ran": time.start, "completed": time.end}),
        ),
    };
    json!({"type": "tool", "id": call.call_id, "name": call.tool, "state": state, "time": time})
}
