//! Reads requests and writes answers: JSON under any Content-Type, ids, and queries.

use std::{str::FromStr, time::Duration};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error as _},
};
use serde_json::json;
use windlass_protocol::opencode::id::{MessageId, PartId, PermissionId, QuestionId, SessionId};

use super::{
    error::{Failure, Piece},
    unknown::Unknown,
};

/// Bytes of a request's body: a prompt carries its images in it.
const MAX_BODY: usize = 64 << 20;
/// Time that a client may let pass before it sends the rest of a body.
const BODY_LIMIT: Duration = Duration::from_secs(120);

/// Sessions of a list where its client names no number.
const DEFAULT_LIST_LIMIT: usize = 100;

/// A request's body as JSON; an empty one is `{}`.
pub struct Payload<T>(pub T);

/// The parameters behind the question mark.
pub struct Params<T>(pub T);

/// The id at the end of a path, or the only one in it.
pub struct Id<T>(pub T);

/// Several ids of a path, in their order.
pub struct Ids<T>(pub T);

/// An answer as JSON.
pub struct Answer<T>(pub T);

/// An id that a path may hold.
pub trait PathId: Sized {
    const PREFIX: &'static str;
    const NAME: &'static str;
    fn read(text: &str) -> Option<Self>;
}

macro_rules! path_id {
    ($($id:ident $name:literal),*) => {$(
        impl PathId for $id {
            const PREFIX: &'static str = $id::PREFIX;
            const NAME: &'static str = $name;
            fn read(text: &str) -> Option<Self> {
                $id::parse(text).ok()
            }
        }
    )*};
}

path_id!(
    SessionId "sessionID",
    MessageId "messageID",
    PartId "partID",
    PermissionId "requestID",
    QuestionId "requestID"
);

/// Reads the id that a client gives to a message.
pub fn message_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<MessageId>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| MessageId::parse(&text).map_err(D::Error::custom)).transpose()
}

pub fn id<T: PathId>(text: &str) -> Result<T, Failure> {
    T::read(text).ok_or_else(|| {
        let (prefix, name) = (T::PREFIX, T::NAME);
        let message =
            format!("Expected a string starting with \"{prefix}\", got {text:?}\n  at [\"{name}\"]");
        Failure::bad_request(Piece::Params, message)
    })
}

impl<S: Send + Sync, T: PathId> FromRequestParts<S> for Id<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        id(&path::<String, S>(parts, state).await?).map(Self)
    }
}

impl<S: Send + Sync, A: PathId, B: PathId> FromRequestParts<S> for Ids<(A, B)> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let (a, b) = path::<(String, String), S>(parts, state).await?;
        Ok(Self((id(&a)?, id(&b)?)))
    }
}

impl<S: Send + Sync, A: PathId, B: PathId, C: PathId> FromRequestParts<S> for Ids<(A, B, C)> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let (a, b, c) = path::<(String, String, String), S>(parts, state).await?;
        Ok(Self((id(&a)?, id(&b)?, id(&c)?)))
    }
}

async fn path<T: DeserializeOwned + Send, S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
) -> Result<T, Failure> {
    let path = Path::<T>::from_request_parts(parts, state).await;
    path.map(|Path(path)| path).map_err(|error| Failure::bad_request(Piece::Params, error.body_text()))
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        query
            .map(|Query(query)| Self(query))
            .map_err(|error| Failure::bad_request(Piece::Query, error.body_text()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Payload<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Failure> {
        let unknown = request.extensions().get::<Unknown>().cloned();
        let bytes = read(request.into_body()).await?;
        let text: &[u8] = if bytes.iter().all(u8::is_ascii_whitespace) { b"{}" } else { &bytes };
        unknown.inspect(|unknown| unknown.note::<T>(text));
        serde_json::from_slice(text).map(Self).map_err(|error| {
            Failure::bad_request(Piece::Payload, format!("The body cannot be used: {error}."))
        })
    }
}

/// Reads a body that is not too large and does not come too slowly.
async fn read(body: Body) -> Result<Bytes, Failure> {
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(too_large());
    }
    let read = tokio::time::timeout(BODY_LIMIT, Limited::new(body, MAX_BODY).collect()).await;
    let Ok(read) = read else {
        let message = "The body did not arrive in time; send the request again.";
        return Err(Failure::named(
            StatusCode::REQUEST_TIMEOUT,
            "BadRequest",
            json!({"message": message, "kind": "Payload"}),
        ));
    };
    match read {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(error) => Err(Failure::bad_request(Piece::Payload, format!("The body did not arrive: {error}."))),
    }
}

fn too_large() -> Failure {
    let message = format!("The body is larger than {} MiB; send less.", MAX_BODY >> 20);
    Failure::named(
        StatusCode::PAYLOAD_TOO_LARGE,
        "BadRequest",
        json!({"message": message, "kind": "Payload"}),
    )
}

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        json_response(StatusCode::OK, &self.0)
    }
}

/// Writes an answer.
pub fn json_response(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => raw_json(status, bytes.into()),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Answers with JSON that is written already.
pub fn raw_json(status: StatusCode, body: Bytes) -> Response {
    let mut response = (status, body).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns the length of a list of sessions: the number of a query, where it is one.
pub fn list_limit(text: Option<&str>) -> usize {
    number(text).filter(|limit| *limit > 0).unwrap_or(DEFAULT_LIST_LIMIT)
}

/// Reads a number of a query, which is ignored where it is none.
pub fn number<T: FromStr>(text: Option<&str>) -> Option<T> {
    text?.parse().ok()
}
