//! Requests over streamable HTTP whose answers may be of any length: long ones are saved and shortened, as on pipes.

use std::{borrow::Cow, collections::HashMap, path::PathBuf, sync::Arc};

use futures_util::{Stream, StreamExt, stream::BoxStream};
use reqwest::{
    Client, RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_client::{
        AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpClient,
        StreamableHttpError, StreamableHttpPostResponse,
    },
};
use sse_stream::{Error as SseError, Sse};

use super::{
    body::Body,
    events::{Piece, Scanner},
    large::Asked,
};
use crate::base::text;

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const BOTH: &str = "text/event-stream, application/json";

/// Bytes of an answer that says why a request failed.
const MAX_REFUSAL: usize = 64 << 10;
/// Bytes of it that are shown.
const MAX_SAID: usize = 256;

/// See the module's comment.
#[derive(Debug, Clone)]
pub(super) struct BoundedClient {
    pub http: Client,
    /// The directory of results that are too long.
    pub results: PathBuf,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Failure = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

impl StreamableHttpClient for BoundedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let has_session = session_id.is_some();
        let request = self.http.post(&*uri).header(ACCEPT, BOTH);
        let request = with_headers(request, session_id.as_deref(), token, headers).json(&message);
        let response = request.send().await.map_err(Failure::Client)?;
        let status = response.status();
        challenged(&response)?;
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(Failure::SessionExpired);
        }
        if !status.is_success() {
            return refused(response).await;
        }
        let session_id = header(&response, SESSION);
        let asked = match &message {
            ClientJsonRpcMessage::Request(request) => Some(Asked::of(&request.request)),
            ClientJsonRpcMessage::Notification(_)
            | ClientJsonRpcMessage::Response(_)
            | ClientJsonRpcMessage::Error(_) => None,
        };
        let kind = header(&response, CONTENT_TYPE.as_str()).unwrap_or_default();
        if kind.starts_with(STREAM) {
            let events = self.events(response, asked.unwrap_or(Asked::Other));
            return Ok(StreamableHttpPostResponse::Sse(events, session_id));
        }
        // Some servers answer with nothing, or anything, where 202 is due.
        let Some(asked) = asked else { return Ok(StreamableHttpPostResponse::Accepted) };
        if !kind.starts_with(JSON) {
            return Err(Failure::UnexpectedContentType(Some(kind).filter(|kind| !kind.is_empty())));
        }
        let mut body = Body::new(&self.results);
        let mut bytes = response.bytes_stream();
        while let Some(chunk) = bytes.next().await {
            body.push(&chunk.map_err(Failure::Client)?);
        }
        let body = body.finish(&asked).unwrap_or_default();
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session_id)),
            Err(error) => {
                let said = String::from_utf8_lossy(&body[..body.len().min(MAX_SAID)]).into_owned();
                Err(unexpected(format!("an answer that is no message ({error}): {said}")))
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        let request = with_headers(self.http.delete(&*uri), Some(&session_id), token, headers);
        let response = request.send().await.map_err(Failure::Client)?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            return Ok(());
        }
        response.error_for_status().map(drop).map_err(Failure::Client)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        let mut request = self.http.get(&*uri).header(ACCEPT, BOTH);
        if let Some(id) = last_event_id {
            request = request.header(LAST_EVENT, id);
        }
        let request = with_headers(request, session_id.as_deref(), token, headers);
        let response = request.send().await.map_err(Failure::Client)?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            return Err(Failure::ServerDoesNotSupportSse);
        }
        challenged(&response)?;
        if let Some(error) = overloaded(&response) {
            return Err(error.into());
        }
        let response = response.error_for_status().map_err(Failure::Client)?;
        let kind = header(&response, CONTENT_TYPE.as_str());
        if !kind.as_deref().is_some_and(|kind| kind.starts_with(STREAM)) {
            return Err(Failure::UnexpectedContentType(kind));
        }
        // A stream that is taken up again brings the answers of calls.
        Ok(self.events(response, Asked::Call))
    }
}

impl BoundedClient {
    /// Returns the events of an answer, long ones shortened.
    fn events(&self, response: Response, asked: Asked) -> Events {
        let bytes =
            response.bytes_stream().map(|chunk| chunk.map_err(|error| SseError::Body(Box::new(error))));
        events(bytes, Body::new(&self.results), asked).boxed()
    }
}

fn events<B: AsRef<[u8]>>(
    bytes: impl Stream<Item = Result<B, SseError>> + Send + 'static,
    mut body: Body,
    asked: Asked,
) -> impl Stream<Item = Result<Sse, SseError>> + Send {
    let mut scanner = Scanner::default();
    let batches = bytes.map(move |chunk| {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error) => return vec![Err(error)],
        };
        let mut found = Vec::new();
        scanner.push(chunk.as_ref(), |piece| match piece {
            Piece::Data(bytes) => body.push(bytes),
            Piece::End(fields) => {
                let data = body.finish(&asked).filter(|_| fields.has_data);
                let data = data.map(|data| String::from_utf8_lossy(&data).into_owned());
                found.push(Ok(Sse { event: fields.event, data, id: fields.id, retry: fields.retry }));
            }
        });
        found
    });
    batches.flat_map(futures_util::stream::iter)
}

fn with_headers(
    mut request: RequestBuilder,
    session_id: Option<&str>,
    token: Option<String>,
    headers: Headers,
) -> RequestBuilder {
    for (name, value) in headers {
        request = request.header(name, value);
    }
    if let Some(id) = session_id {
        request = request.header(SESSION, id);
    }
    match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

/// Fails if the server wants a login, or more rights than ours.
fn challenged(response: &Response) -> Result<(), Failure> {
    let Some(challenge) = header(response, WWW_AUTHENTICATE.as_str()) else { return Ok(()) };
    match response.status() {
        StatusCode::UNAUTHORIZED => Err(Failure::AuthRequired(AuthRequiredError::new(challenge))),
        StatusCode::FORBIDDEN => {
            let scope = scope(&challenge);
            Err(Failure::InsufficientScope(InsufficientScopeError::new(challenge, scope)))
        }
        _ => Ok(()),
    }
}

/// Returns the scope that a challenge names.
fn scope(challenge: &str) -> Option<String> {
    let start = challenge.to_ascii_lowercase().find("scope=")? + "scope=".len();
    let value = challenge.get(start..)?;
    let scope = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split([',', ';', ' ', '\t']).next(),
    };
    scope.filter(|scope| !scope.is_empty()).map(str::to_owned)
}

/// Returns the error of a server that is overloaded or broken, with the time to wait that it names.
fn overloaded(response: &Response) -> Option<HttpStatusError> {
    let status = response.status();
    let is_theirs = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    is_theirs.then(|| HttpStatusError::new(status.as_u16(), header(response, RETRY_AFTER.as_str())))
}

/// Reads the reason for which a message was refused: an error of the protocol, or the status.
async fn refused(response: Response) -> Result<StreamableHttpPostResponse, Failure> {
    let (status, error) = (response.status(), overloaded(&response));
    let session_id = header(&response, SESSION);
    let is_json = header(&response, CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with(JSON));
    let mut body = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Some(Ok(chunk)) = bytes.next().await {
        if body.len() + chunk.len() > MAX_REFUSAL {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    // One without a login is no matter of the protocol.
    let is_login = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if is_json
        && !is_login
        && let Ok(message @ ServerJsonRpcMessage::Error(_)) = serde_json::from_slice(&body)
    {
        return Ok(StreamableHttpPostResponse::Json(message, session_id));
    }
    if let Some(error) = error {
        return Err(error.into());
    }
    let said = String::from_utf8_lossy(&body).into_owned();
    Err(unexpected(format!("HTTP {status}: {}", text::head(&said, MAX_SAID))))
}

fn unexpected(what: String) -> Failure {
    Failure::UnexpectedServerResponse(Cow::Owned(what))
}

fn header(response: &Response, name: &str) -> Option<String> {
    let value = response.headers().get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}
