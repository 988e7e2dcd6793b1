//! Failures of requests, in the shapes that OpenCode's clients read.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use windlass_base::ids;
use windlass_engine::{EngineError, EngineErrorKind};
use windlass_protocol::opencode::id::SessionId;

/// A refused or failed request: its status and body.
#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    body: Value,
}

/// The piece of a request that a refusal is about.
#[derive(Debug, Clone, Copy)]
pub enum Piece {
    Payload,
    Query,
    Params,
}

impl Failure {
    /// Refuses a request that says something wrong.
    pub fn bad_request(piece: Piece, message: impl Into<String>) -> Self {
        let kind = match piece {
            Piece::Payload => "Payload",
            Piece::Query => "Query",
            Piece::Params => "Params",
        };
        Self::named(StatusCode::BAD_REQUEST, "BadRequest", json!({"message": message.into(), "kind": kind}))
    }

    /// Refuses a request for something that is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::named(StatusCode::NOT_FOUND, "NotFoundError", json!({"message": message.into()}))
    }

    pub fn session_not_found(id: &SessionId) -> Self {
        Self::not_found(format!("Session not found: {id}"))
    }

    pub fn session_busy(id: &SessionId) -> Self {
        let fields = json!({"sessionID": id, "message": format!("Session is busy: {id}")});
        Self::tagged(StatusCode::CONFLICT, "SessionBusyError", fields)
    }

    /// Answers `{name, data}`.
    pub fn named(status: StatusCode, name: &str, data: Value) -> Self {
        Self { status, body: json!({"name": name, "data": data}) }
    }

    /// Answers `{_tag, …fields}`.
    pub fn tagged(status: StatusCode, tag: &str, fields: Value) -> Self {
        let mut body = json!({"_tag": tag});
        if let (Value::Object(body), Value::Object(fields)) = (&mut body, fields) {
            body.extend(fields);
        }
        Self { status, body }
    }

    /// Answers with fields alone, as some routes do.
    pub fn plain(status: StatusCode, body: Value) -> Self {
        Self { status, body }
    }

    /// Returns the words for people.
    pub fn message(&self) -> String {
        let words = self.body["data"]["message"].as_str().or_else(|| self.body["message"].as_str());
        words.unwrap_or_default().to_owned()
    }

    /// Answers a failure of our own, with its reason.
    pub fn unknown(message: impl Into<String>) -> Self {
        let reference = format!("err_{}", ids::random(8));
        let message = message.into();
        tracing::error!(reference, message, "a request failed");
        let data = json!({"message": message, "ref": reference});
        Self::named(StatusCode::INTERNAL_SERVER_ERROR, "UnknownError", data)
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let message = error.message;
        match error.kind {
            EngineErrorKind::SessionNotFound(id) => Self::session_not_found(&id),
            EngineErrorKind::MessageNotFound => Self::not_found(message),
            EngineErrorKind::SessionBusy | EngineErrorKind::OtherNode => {
                Self::tagged(StatusCode::CONFLICT, "SessionBusyError", json!({"message": message}))
            }
            EngineErrorKind::SessionExists
            | EngineErrorKind::NoTurn
            | EngineErrorKind::InvalidInput
            | EngineErrorKind::AuthRequired
            | EngineErrorKind::ModelUnusable
            | EngineErrorKind::StructuredOutput { .. }
            | EngineErrorKind::ContextOverflow => Self::bad_request(Piece::Payload, message),
            EngineErrorKind::Provider | EngineErrorKind::Store | EngineErrorKind::Internal => {
                Self::unknown(message)
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let json = [(header::CONTENT_TYPE, "application/json")];
        (self.status, json, self.body.to_string()).into_response()
    }
}
