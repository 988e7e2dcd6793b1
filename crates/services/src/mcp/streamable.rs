//! Requests over streamable HTTP with answers of any length: long ones are saved and shortened, as on pipes.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex},
};

use futures_util::{Stream, StreamExt, stream::BoxStream};
use reqwest::{
    Client, RequestBuilder, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientRequest, JsonRpcError, PingRequest, RequestId, ServerJsonRpcMessage,
    },
    transport::streamable_http_client::{
        AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpClient,
        StreamableHttpError, StreamableHttpPostResponse,
    },
};
use sse_stream::{Error as SseError, Sse};
use windlass_base::lock::lock;

use super::{
    body::Body,
    events::{Piece, Scanner},
    large::Asked,
    said,
};

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const STREAM: &str = "text/event-stream";
const BOTH: &str = "text/event-stream, application/json";

/// The id of the request that asks whether the server still knows a session.
const PROBE_ID: &str = "windlass-probe";

/// See the module's comment.
#[derive(Debug, Clone)]
pub(super) struct BoundedClient {
    http: Client,
    /// The directory of results that are too long.
    results: PathBuf,
    /// Requests for which a new session is begun, after which they are sent a second time.
    retried: Arc<Mutex<HashSet<RequestId>>>,
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
        let asked = match &message {
            ClientJsonRpcMessage::Request(request) => Some((Asked::of(&request.request), request.id.clone())),
            ClientJsonRpcMessage::Notification(_)
            | ClientJsonRpcMessage::Response(_)
            | ClientJsonRpcMessage::Error(_) => None,
        };
        let is_second = asked.as_ref().is_some_and(|(_, id)| lock(&self.retried).remove(id));
        let response =
            self.post(&uri, &message, session_id.as_deref(), token.clone(), headers.clone()).await?;
        let status = response.status();
        challenged(&response)?;
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(Failure::SessionExpired);
        }
        let Some((asked, id)) = asked else {
            // Some servers answer with nothing, or anything, where 202 is due.
            return if status.is_success() {
                Ok(StreamableHttpPostResponse::Accepted)
            } else {
                refused(response, None).await
            };
        };
        if !status.is_success() {
            let refused = refused(response, Some(&id)).await;
            // Servers that have forgotten a session say so by 400 as well, which means much else.
            if status == StatusCode::BAD_REQUEST
                && let Some(session_id) = session_id
                && !is_second
                && self.has_forgotten(&uri, &session_id, token, headers).await
            {
                lock(&self.retried).insert(id);
                return Err(Failure::SessionExpired);
            }
            return refused;
        }
        let session_id = header(&response, SESSION);
        let kind = header(&response, CONTENT_TYPE.as_str()).unwrap_or_default();
        if kind.starts_with(STREAM) {
            let events = self.events(response, asked, Some(id));
            return Ok(StreamableHttpPostResponse::Sse(events, session_id));
        }
        let mut body = Body::new(&self.results);
        let mut bytes = response.bytes_stream();
        while let Some(chunk) = bytes.next().await {
            body.push(&chunk.map_err(Failure::Client)?);
        }
        let body = body.finish(&asked).unwrap_or_default();
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(message) => match said::answering(message, &id) {
                Some(message) => Ok(StreamableHttpPostResponse::Json(message, session_id)),
                None => Err(unexpected(format!("HTTP {status} with a message that is no answer"))),
            },
            Err(_) => Err(unexpected(said::refusal(status, &body))),
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
        let is_resumed = last_event_id.is_some();
        if let Some(id) = last_event_id {
            request = request.header(LAST_EVENT, id);
        }
        let request = with_headers(request, session_id.as_deref(), token, headers);
        let response = request.send().await.map_err(Failure::Client)?;
        // Events that the server no longer has are not asked for until the call's time limit.
        let is_gone = matches!(
            response.status(),
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::GONE if is_resumed
        );
        if response.status() == StatusCode::METHOD_NOT_ALLOWED || is_gone {
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
        Ok(self.events(response, Asked::Call, None))
    }
}

impl BoundedClient {
    /// Makes a client that saves long results in the directory.
    pub(super) fn new(http: Client, results: PathBuf) -> Self {
        Self { http, results, retried: Arc::default() }
    }

    async fn post(
        &self,
        uri: &str,
        message: &ClientJsonRpcMessage,
        session_id: Option<&str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Response, Failure> {
        let request = self.http.post(uri).header(ACCEPT, BOTH);
        let request = with_headers(request, session_id, token, headers).json(message);
        request.send().await.map_err(Failure::Client)
    }

    /// Returns true if the server refuses even a ping in the session. One that answers the ping's id knows the session,
    /// even with an error.
    async fn has_forgotten(
        &self,
        uri: &str,
        session_id: &str,
        token: Option<String>,
        headers: Headers,
    ) -> bool {
        let id = RequestId::String(PROBE_ID.into());
        let ping = ClientRequest::PingRequest(PingRequest::default());
        let ping = ClientJsonRpcMessage::request(ping, id.clone());
        let Ok(response) = self.post(uri, &ping, Some(session_id), token, headers).await else {
            return false;
        };
        if !matches!(response.status(), StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND) {
            return false;
        }
        let answer = serde_json::from_slice::<JsonRpcError>(&said::start(response).await);
        answer.ok().and_then(|error| error.id) != Some(id)
    }

    /// Returns the events of an answer, long ones shortened. `id` is that of the request which it answers.
    fn events(&self, response: Response, asked: Asked, id: Option<RequestId>) -> Events {
        let bytes =
            response.bytes_stream().map(|chunk| chunk.map_err(|error| SseError::Body(Box::new(error))));
        events(bytes, Body::new(&self.results), asked, id).boxed()
    }
}

fn events<B: AsRef<[u8]> + Send>(
    bytes: impl Stream<Item = Result<B, SseError>> + Send + 'static,
    mut body: Body,
    asked: Asked,
    id: Option<RequestId>,
) -> impl Stream<Item = Result<Sse, SseError>> + Send {
    let mut scanner = Scanner::default();
    // The last event may lack the blank line behind it.
    let batches = bytes.map(Some).chain(futures_util::stream::iter([None])).map(move |chunk| {
        let mut found = Vec::new();
        let take = |piece: Piece<'_>| match piece {
            Piece::Data(bytes) => body.push(bytes),
            Piece::End(fields) => {
                let data = body.finish(&asked).filter(|_| fields.has_data);
                let data = data.map(|data| with_id(String::from_utf8_lossy(&data).into_owned(), id.as_ref()));
                found.push(Ok(Sse { event: fields.event, data, id: fields.id, retry: fields.retry }));
            }
        };
        match chunk {
            Some(Ok(chunk)) => scanner.push(chunk.as_ref(), take),
            Some(Err(error)) => {
                scanner = Scanner::default();
                return vec![Err(error)];
            }
            None => scanner.finish(take),
        }
        found
    });
    batches.flat_map(futures_util::stream::iter)
}

/// Gives an error without an id that of the request that it answers.
fn with_id(data: String, id: Option<&RequestId>) -> String {
    let Some(id) = id else { return data };
    match serde_json::from_str(&data) {
        Ok(JsonRpcError { jsonrpc, id: None, error }) => {
            let error = JsonRpcError { jsonrpc, id: Some(id.clone()), error };
            serde_json::to_string(&error).unwrap_or(data)
        }
        Ok(JsonRpcError { id: Some(_), .. }) | Err(_) => data,
    }
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

/// Reads the reason for which a message was refused: an error of the protocol, or the status with the server's words.
async fn refused(response: Response, id: Option<&RequestId>) -> Result<StreamableHttpPostResponse, Failure> {
    let status = response.status();
    let session_id = header(&response, SESSION);
    let body = said::start(response).await;
    // One without a login is no matter of the protocol.
    let is_login = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if !is_login && let Ok(message @ ServerJsonRpcMessage::Error(_)) = serde_json::from_slice(&body) {
        match id.map(|id| said::answering(message, id)) {
            Some(Some(message)) => return Ok(StreamableHttpPostResponse::Json(message, session_id)),
            // A server that takes no notice of a kind is no reason to leave it.
            None => return Ok(StreamableHttpPostResponse::Accepted),
            Some(None) => {}
        }
    }
    Err(unexpected(said::refusal(status, &body)))
}

fn unexpected(what: String) -> Failure {
    Failure::UnexpectedServerResponse(Cow::Owned(what))
}

fn header(response: &Response, name: &str) -> Option<String> {
    let value = response.headers().get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}
