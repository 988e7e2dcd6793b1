//! The HTTP driver of all network wires: sends requests, receives server-sent events, classifies failures.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, Instant},
};

use bytes::Bytes;
use reqwest::{
    Response, Url,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION},
};
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use windlass_base::{cause, clock, figures, hash, lock::lock, log, public_address::check_literal, sse};
use windlass_core::config::{Environment, secrets};

use self::{credential::Credential, decode::Decode, exchange::Granted, framing::Framing};
use super::{
    Delta, Exchange, Model, Prompt, ProviderError, Quirk, Wire, anthropic,
    aws::{Account, NotSigned},
    bedrock, google,
    login::tokens::Tokens,
    openai_chat, openai_responses,
};

pub(super) mod blocks;
pub(super) mod body;
pub mod connect;
pub(super) mod credential;
pub mod decode;
mod exchange;
pub mod failure;
pub mod fetch;
#[cfg(test)]
pub(super) mod fixture;
pub mod framing;
pub(super) mod placeholder;
mod refused;
pub(super) mod schema;
mod session_headers;
#[cfg(test)]
mod tests;

/// Time for which an unused connection is kept, a little less than reqwest's.
const WARM: Duration = Duration::from_secs(80);
/// Maximum bytes of a body that is not a stream of events.
const MAX_BODY_BYTES: usize = 64 << 10;
/// Maximum bytes of a list of models.
const MAX_LIST_BYTES: usize = 8 << 20;
/// The header that names features of Anthropic's wire.
const BETAS: &str = "anthropic-beta";
/// Number of first bytes that are kept.
const MAX_HEAD: usize = 16;

/// Multiple of the time between two chunks for which signs of life alone are waited for: some providers send comments
/// or pings for as long as a model thinks, and some for ever.
const ALIVE_FACTOR: u32 = 6;

/// Time limit for the end of a complete answer, which must be read before the connection can serve the next
/// request.
const TAIL_TIMEOUT: Duration = Duration::from_millis(20);

/// The process's HTTP client, built at first use.
#[derive(Debug, Clone, Default)]
pub struct Client {
    built: Arc<OnceLock<reqwest::Client>>,
    /// The client for addresses that only the project names.
    built_foreign: Arc<OnceLock<reqwest::Client>>,
    /// True if all requests are for such addresses.
    is_foreign: bool,
    /// The tokens of logins; absent where none are sent.
    tokens: Option<Arc<Tokens>>,
    /// Tokens that were exchanged, by the way to them and the secret.
    exchanged: Arc<Mutex<HashMap<(String, u64), Granted>>>,
    /// A file of certificates that are trusted beside the system's.
    certificates: Option<Arc<Path>>,
    warmed: Arc<Mutex<Warmed>>,
}

impl Client {
    /// Makes a client that may send tokens of logins, and that trusts the certificates that a variable names.
    pub fn new(tokens: Tokens, environment: &Environment) -> Self {
        let certificates = environment.get("NODE_EXTRA_CA_CERTS").map(Path::new).map(Arc::from);
        Self { tokens: Some(Arc::new(tokens)), certificates, ..Self::default() }
    }

    /// Returns the credential that a request to a model carries. `refused` is a token that the provider did not take.
    async fn credential(
        &self,
        model: &Model,
        refused: Option<&super::Secret>,
    ) -> Result<Credential, ProviderError> {
        let credential = match &self.tokens {
            Some(tokens) if model.has_login => {
                let access = tokens.access(&self.reqwest()?, &model.provider_id, refused).await?;
                Credential::Token(access)
            }
            Some(_) | None => Credential::key(model),
        };
        match (&model.exchange, credential.secret()) {
            (Some(Exchange::Gitlab(_)), None) | (None, _) => Ok(credential),
            (Some(way), secret) => self.exchanged(way, secret.unwrap_or_default(), refused).await,
        }
    }

    /// Returns the token that is given in exchange for a secret; the last one until it ends or is refused.
    async fn exchanged(
        &self,
        way: &Exchange,
        secret: &str,
        refused: Option<&super::Secret>,
    ) -> Result<Credential, ProviderError> {
        let key = (format!("{way:?}"), hash::content(secret.as_bytes()));
        let known = lock(&self.exchanged).get(&key).cloned();
        let is_usable = |it: &Granted| it.is_good() && refused.is_none_or(|refused| *refused != it.token);
        if let Some(known) = known.filter(is_usable) {
            return Ok(Credential::Granted(known));
        }
        let granted = exchange::exchange(&self.reqwest()?, way, secret).await?;
        lock(&self.exchanged).insert(key, granted.clone());
        Ok(Credential::Granted(granted))
    }

    /// Returns the client for addresses that only the project names, if this is one: it connects to public addresses
    /// and to this machine where the URL says so, and never through a proxy.
    pub fn for_address(&self, is_foreign: bool) -> Self {
        Self { is_foreign: is_foreign || self.is_foreign, ..self.clone() }
    }

    /// Returns true for the client of addresses that only the project names.
    pub fn is_foreign(&self) -> bool {
        self.is_foreign
    }

    /// Returns the client for requests to a model.
    fn for_model(&self, model: &Model) -> Result<reqwest::Client, ProviderError> {
        if model.is_foreign
            && let Ok(url) = Url::parse(&model.base_url)
        {
            let refused = |message| ProviderError::Api { message, status: None, body: None };
            check_literal(&url).map_err(refused)?;
        }
        self.for_address(model.is_foreign).reqwest()
    }

    /// Returns the client itself; all users share its connections.
    pub fn reqwest(&self) -> Result<reqwest::Client, ProviderError> {
        let built = if self.is_foreign { &self.built_foreign } else { &self.built };
        if let Some(client) = built.get() {
            return Ok(client.clone());
        }
        let certificates = self.certificates.as_deref().map(connect::certificates).transpose()?;
        let client = connect::client(self.is_foreign, &certificates.unwrap_or_default())?;
        Ok(built.get_or_init(|| client).clone())
    }

    /// Connects to a model's provider ahead of the first request, unless that saves nothing.
    pub fn warm_up(&self, model: Option<Model>) {
        let Some(model) = model else { return };
        let is_foreign = model.is_foreign;
        let Ok(url) = Url::parse(&model.base_url) else { return };
        let host = url.host_str().unwrap_or_default().to_owned();
        let is_near = host == "localhost" || host.starts_with("127.") || host == "[::1]";
        let Ok(root) = url.join("/") else { return };
        if url.scheme() != "https" || is_near {
            return;
        }
        let Ok(mut warmed) = self.warmed.lock() else { return };
        if warmed.hosts.get(&host).is_some_and(|then| then.elapsed() < WARM) {
            return;
        }
        warmed.hosts.insert(host, Instant::now());
        let client = Client { warmed: Arc::default(), ..self.for_address(is_foreign) };
        warmed.newest = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            // The system's certificates are read here.
            let built = tokio::task::spawn_blocking(move || client.reqwest()).await;
            let Ok(Ok(http)) = built else { return };
            if is_foreign {
                return;
            }
            // Any answer will do: it is the connection that counts.
            let answer = http.head(root).timeout(connect::TIMEOUT).send().await;
            tracing::debug!(is_warm = answer.is_ok(), "connected ahead of the first request");
        })));
    }
}

/// Connections that were made ahead of requests.
#[derive(Debug, Default)]
struct Warmed {
    hosts: HashMap<String, Instant>,
    newest: Option<AbortOnDropHandle<()>>,
}

/// An answer being received over HTTP. Dropping it closes the connection.
pub struct Stream {
    response: Response,
    framing: Framing,
    decoder: Box<dyn Decode + Send>,
    /// Buffer for events, reused for its capacity.
    events: Vec<sse::Event>,
    n_events: usize,
    /// The first bytes, by which a page is told from a stream.
    head: Vec<u8>,
    chunk_timeout: Duration,
    origin: failure::Origin,
    ended: bool,
    record: Record,
}

/// A log record that is written when the request ends; a request that is dropped earlier counts as cancelled.
struct Record {
    /// `provider/model`.
    model: String,
    began: Instant,
    /// The time until the response headers arrived.
    headers: Option<Duration>,
    n_bytes: usize,
    end: &'static str,
}

impl Record {
    fn begin(model: &Model) -> Self {
        let model = format!("{}/{}", model.provider_id, model.id);
        Self { model, began: Instant::now(), headers: None, n_bytes: 0, end: "cancelled" }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let Self { model, began, headers, n_bytes: bytes, end } = self;
        let headers = headers.map(|duration| format!("{duration:.1?}"));
        let duration = log::duration(*began);
        tracing::info!(model, end, headers, bytes, duration, "a provider request ended");
    }
}

/// Sends the request and waits for the response headers.
pub async fn stream(client: &Client, model: &Model, prompt: &Prompt<'_>) -> Result<Stream, ProviderError> {
    let mut record = Record::begin(model);
    let opened = open(client, model, prompt).await;
    let taught = opened.as_ref().err().and_then(|error| placeholder::learnt(model, prompt, error));
    let opened = match &taught {
        Some(model) => open(client, model, prompt).await.or(opened),
        None => opened,
    };
    match opened {
        Ok((response, origin)) => {
            record.headers = Some(record.began.elapsed());
            Ok(Stream {
                response,
                framing: Framing::of(model.wire),
                decoder: decoder(model.wire),
                events: Vec::new(),
                n_events: 0,
                head: Vec::new(),
                chunk_timeout: model.timeouts.chunk,
                origin,
                ended: false,
                record,
            })
        }
        Err(error) => {
            record.end = "failed";
            Err(error)
        }
    }
}

/// Returns the address and the body of a request.
pub fn encode(model: &Model, prompt: &Prompt<'_>) -> (String, Vec<u8>) {
    let prompt = &*placeholder::filled(model, prompt);
    match model.wire {
        Wire::OpenAiChat => (openai_chat::url(model), openai_chat::encode(model, prompt)),
        Wire::OpenAiResponses => (openai_responses::url(model), openai_responses::encode(model, prompt)),
        Wire::Anthropic => (anthropic::url(model), anthropic::encode(model, prompt)),
        Wire::Google => (google::url(model), google::encode(model, prompt)),
        Wire::Bedrock => (bedrock::url(model), bedrock::encode(model, prompt)),
        // It has no network address.
        Wire::Demo => (String::new(), Vec::new()),
    }
}

/// Returns a decoder of a wire's answers.
pub fn decoder(wire: Wire) -> Box<dyn Decode + Send> {
    match wire {
        Wire::OpenAiChat | Wire::Demo => Box::<openai_chat::Decoder>::default(),
        Wire::OpenAiResponses => Box::<openai_responses::Decoder>::default(),
        Wire::Anthropic => Box::<anthropic::Decoder>::default(),
        Wire::Google => Box::<google::Decoder>::default(),
        Wire::Bedrock => Box::<bedrock::Decoder>::default(),
    }
}

async fn open(
    client: &Client,
    model: &Model,
    prompt: &Prompt<'_>,
) -> Result<(Response, failure::Origin), ProviderError> {
    let origin = failure::Origin::of(model);
    let (url, body) = encode(model, prompt);
    let body = Bytes::from(body);
    let mut credential = client.credential(model, None).await.map_err(|error| origin.named(error))?;
    let mut response = send(client, model, prompt, &url, &body, &credential, &origin).await?;
    // Providers may take a token back before its time.
    if response.status().as_u16() == 401
        && let Some(refused) = credential.token()
    {
        match client.credential(model, Some(refused)).await {
            Ok(renewed) => {
                credential = renewed;
                response = send(client, model, prompt, &url, &body, &credential, &origin).await?;
            }
            // The login may be good: it is tried again.
            Err(error @ ProviderError::Transport { .. }) => return Err(origin.named(error)),
            Err(error) => tracing::warn!(%error, "a refused token was not renewed"),
        }
    }
    if !response.status().is_success() || is_not_a_stream(response.headers()) {
        let body = read_start(&mut response, model.timeouts.chunk).await;
        let body = without_secrets(model, &credential, body);
        let error = refusal(&response, &body);
        if let (ProviderError::Auth { .. }, Some(account)) = (&error, signing_account(model)) {
            account.forget();
        }
        return Err(origin.named(error));
    }
    Ok((response, origin))
}

/// Returns the account that signs a model's requests; `None` where a key is sent instead.
fn signing_account(model: &Model) -> Option<&Account> {
    model.aws.as_deref().filter(|_| model.api_key.is_none())
}

/// Sends a request and waits for the headers of the answer.
async fn send(
    client: &Client,
    model: &Model,
    prompt: &Prompt<'_>,
    url: &str,
    body: &Bytes,
    credential: &Credential,
    origin: &failure::Origin,
) -> Result<Response, ProviderError> {
    let mut headers = prompt_headers(model, prompt, credential).map_err(|error| origin.named(error))?;
    let http = client.for_model(model).map_err(|error| origin.named(error))?;
    if let Some(account) = signing_account(model) {
        let signed = account.sign(&http, url, body).await;
        let signed = signed.map_err(|error| {
            origin.named(match error {
                NotSigned::Refused(message) => ProviderError::Auth { message },
                NotSigned::Unavailable(message) => ProviderError::Transport { message },
            })
        })?;
        insert_headers(signed.iter().map(|(name, value)| (*name, value)), &mut headers)
            .map_err(|error| origin.named(error))?;
    }
    // Those of plugins may hold a key of the user.
    let last = prompt.headers.iter().filter(|_| !model.is_foreign);
    let last = last.map(|(name, value)| (name.as_str(), value));
    insert_headers(last, &mut headers).map_err(|error| origin.named(error))?;
    if let Some(fetch) = &model.fetch {
        let sent = timeout(model.timeouts.headers, fetch.post(url, &headers, body.clone())).await;
        let answer = match sent {
            Ok(answer) => answer.map_err(|error| match error {
                fetch::FetchError::Transport(message) => ProviderError::Transport { message },
                fetch::FetchError::Refused(message) => {
                    ProviderError::Api { message, status: None, body: None }
                }
            }),
            Err(_) => Err(silent(model)),
        };
        return answer.map_err(|error| origin.named(error));
    }
    let mut request = http.post(url).headers(headers).body(body.clone());
    if let Some(total) = model.timeouts.total {
        request = request.timeout(total);
    }
    match timeout(model.timeouts.headers, request.send()).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) if error.is_builder() => Err(origin.named(ProviderError::Api {
            message: format!("the request cannot be made ({}); check the provider's base URL", causes(error)),
            status: None,
            body: None,
        })),
        Ok(Err(error)) => Err(origin.named(refused::unanswered(error).await)),
        Err(_) => Err(origin.named(silent(model))),
    }
}

fn silent(model: &Model) -> ProviderError {
    ProviderError::Silent { message: format!("no answer within {}", limit(model.timeouts.headers)) }
}

/// Requests a provider's list of models, which costs nothing; returns the status of the answer.
pub async fn probe(client: &Client, model: &Model, limit: Duration) -> Result<u16, ProviderError> {
    request_list(client, model, limit).await.map(|response| response.status().as_u16())
}

/// Requests a provider's list of models.
pub async fn list(client: &Client, model: &Model, limit: Duration) -> Result<Value, ProviderError> {
    let origin = failure::Origin::of(model);
    let failed = |message: String| origin.named(ProviderError::Transport { message });
    let mut response = request_list(client, model, limit).await?;
    if !response.status().is_success() {
        return Err(failed(format!("the list of models was answered by {}", response.status().as_u16())));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| origin.named(transport(error)))? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_LIST_BYTES {
            return Err(failed("the list of models is too large".to_owned()));
        }
    }
    serde_json::from_slice(&body).map_err(|_| failed("the list of models is not JSON".to_owned()))
}

async fn request_list(client: &Client, model: &Model, limit: Duration) -> Result<Response, ProviderError> {
    let origin = failure::Origin::of(model);
    let credential = client.credential(model, None).await.map_err(|error| origin.named(error))?;
    let mut headers = request_headers(model, &credential).map_err(|error| origin.named(error))?;
    headers.insert(reqwest::header::ACCEPT, HeaderValue::from_static("application/json"));
    let url = body::join(&model.base_url, "/models");
    let http = client.for_model(model).map_err(|error| origin.named(error))?;
    match http.get(url).headers(headers).timeout(limit).send().await {
        Ok(response) => Ok(response),
        Err(error) => Err(origin.named(refused::unanswered(error).await)),
    }
}

/// Returns the headers of a prompt's request, but for those that sign it.
pub(super) fn prompt_headers(
    model: &Model,
    prompt: &Prompt<'_>,
    credential: &Credential,
) -> Result<HeaderMap, ProviderError> {
    let mut headers = request_headers(model, credential)?;
    credential::add_prompt_headers(model, prompt, &mut headers);
    session_headers::add(model, prompt, &mut headers);
    if let Some(beta) = anthropic::beta(model, &prompt.options) {
        let known = headers.get(BETAS).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !known.contains(beta) {
            let all = if known.is_empty() { beta.to_owned() } else { format!("{known},{beta}") };
            insert_headers([(BETAS, &all)].into_iter(), &mut headers)?;
        }
    }
    Ok(headers)
}

/// Merges the headers; the user's own replace ours.
fn request_headers(model: &Model, credential: &Credential) -> Result<HeaderMap, ProviderError> {
    let mut res = HeaderMap::new();
    res.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    res.insert(
        reqwest::header::ACCEPT,
        HeaderValue::from_static(match model.wire {
            Wire::Bedrock => "application/vnd.amazon.eventstream",
            Wire::OpenAiChat | Wire::OpenAiResponses | Wire::Anthropic | Wire::Google | Wire::Demo => {
                "text/event-stream"
            }
        }),
    );
    if model.wire == Wire::Anthropic && !model.has(Quirk::Vertex) {
        res.insert("anthropic-version", HeaderValue::from_static(anthropic::VERSION));
    }
    let key_headers = credential.headers(model);
    let key_headers = key_headers.iter().map(|(name, value)| (*name, value));
    let granted = credential.granted().iter().map(|(name, value)| (name.as_str(), value));
    let own_headers = granted.chain(model.headers.iter().map(|(name, value)| (name.as_str(), value)));
    insert_headers(key_headers.chain(own_headers), &mut res)?;
    Ok(res)
}

fn insert_headers<'a>(
    headers: impl Iterator<Item = (&'a str, &'a String)>,
    res: &mut HeaderMap,
) -> Result<(), ProviderError> {
    for (name, value) in headers {
        let parsed = (HeaderName::try_from(name), HeaderValue::try_from(value.as_str()));
        let (Ok(name), Ok(mut value)) = parsed else {
            return Err(ProviderError::Auth {
                message: format!(
                    "the request header `{name}` or its value holds characters that cannot be sent"
                ),
            });
        };
        value.set_sensitive(true);
        res.insert(name, value);
    }
    Ok(())
}

/// Returns true for a body that holds no events, or none that can be read: nothing packed was asked for.
fn is_not_a_stream(headers: &HeaderMap) -> bool {
    if is_packed(headers) {
        return true;
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_ascii_lowercase();
    content_type.starts_with("application/json") || content_type.starts_with("text/html")
}

fn is_packed(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity")
}

/// Returns the part of the body that could be read in time; a failure on the way must not hide the status.
async fn read_start(response: &mut Response, limit: Duration) -> Vec<u8> {
    let mut res = Vec::new();
    while res.len() < MAX_BODY_BYTES {
        match timeout(limit, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                res.extend_from_slice(&chunk[..chunk.len().min(MAX_BODY_BYTES - res.len())])
            }
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    res
}

/// Removes keys and headers from an error's body: some providers repeat those they refuse, and errors end up in
/// logs and transcripts.
fn without_secrets(model: &Model, credential: &Credential, body: Vec<u8>) -> Vec<u8> {
    let key = credential.secret().into_iter();
    // The last word of `Bearer …` is the secret.
    let headers = model.headers.iter().filter_map(|(_, value)| value.split_whitespace().next_back());
    let secrets: Vec<&str> = key.chain(headers).filter(|secret| !secret.is_empty()).collect();
    if secrets.is_empty() {
        return body;
    }
    let text = String::from_utf8_lossy(&body).into_owned();
    secrets.into_iter().fold(text, |text, secret| secrets::hide(&text, secret)).into_bytes()
}

fn refusal(response: &Response, body: &[u8]) -> ProviderError {
    let status = response.status();
    if status.is_redirection() {
        let target =
            response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or("nowhere");
        return ProviderError::Api {
            message: format!(
                "the base URL is redirected to {target}; put the final address into the configuration"
            ),
            status: Some(status.as_u16()),
            body: None,
        };
    }
    if !status.is_success() {
        return failure::from_response(status.as_u16(), response.headers(), body, clock::now_ms());
    }
    if is_packed(response.headers()) {
        return ProviderError::Api {
            message: "the answer is compressed, which was not asked for; check the gateway at the base URL"
                .to_owned(),
            status: Some(status.as_u16()),
            body: None,
        };
    }
    match serde_json::from_slice::<Value>(body) {
        Ok(json) if failure::holds_error(&json) => failure::from_event(&json),
        Ok(_) | Err(_) => not_events(Some(String::from_utf8_lossy(body).into_owned())),
    }
}

/// Returns true if the first bytes are those of a stream of events, as far as they came.
fn may_be_events(head: &[u8]) -> bool {
    let head = head.trim_ascii_start();
    let fields: [&[u8]; 6] = [b"data:", b"event:", b"id:", b"retry:", b":", b"\xEF\xBB\xBF"];
    fields.iter().any(|field| head.starts_with(field) || field.starts_with(head))
}

fn not_events(body: Option<String>) -> ProviderError {
    ProviderError::Api {
        message:
            "the answer is not a stream of events; check that the base URL is the API's and that it supports \
                  streaming"
                .to_owned(),
        status: Some(200),
        body,
    }
}

impl Stream {
    /// Implements [`super::Stream::next`]. Reads on while a read completes no event.
    pub async fn next(&mut self, deltas: &mut Vec<Delta>) -> Result<bool, ProviderError> {
        let n_before = deltas.len();
        let alive_limit = self.chunk_timeout.saturating_mul(ALIVE_FACTOR);
        let began = Instant::now();
        while deltas.len() == n_before {
            if self.ended {
                return Ok(false);
            }
            if self.decoder.answer().is_done {
                self.drain().await;
                return Ok(false);
            }
            let left = alive_limit.saturating_sub(began.elapsed());
            let read = match timeout(self.chunk_timeout.min(left), self.response.chunk()).await {
                Ok(Ok(chunk)) => self.decode(chunk, deltas),
                // Some servers cut the connection directly behind the last event.
                Ok(Err(error)) => {
                    self.ended = true;
                    self.record.end = "completed";
                    self.decoder.finish(deltas).map_err(|_| transport(error))
                }
                Err(_) => {
                    let stopped = if began.elapsed() < alive_limit {
                        format!("nothing arrived for {}", limit(self.chunk_timeout))
                    } else {
                        format!("only signs of life arrived for {}", limit(alive_limit))
                    };
                    Err(ProviderError::Silent { message: format!("the answer stopped: {stopped}") })
                }
            };
            if let Err(error) = read {
                self.ended = true;
                self.record.end = "failed";
                return Err(self.origin.named(error));
            }
        }
        Ok(true)
    }

    fn decode(&mut self, chunk: Option<Bytes>, deltas: &mut Vec<Delta>) -> Result<(), ProviderError> {
        let Some(chunk) = chunk else {
            self.ended = true;
            self.record.end = "completed";
            self.events.clear();
            self.framing.finish(&mut self.events);
            self.n_events += self.events.len();
            for event in &self.events {
                self.decoder.push(event, deltas)?;
            }
            let finished = self.decoder.finish(deltas);
            // Something came, and none of it was an event: asked again, the same would come.
            let is_other = self.n_events == 0 && !may_be_events(&self.head);
            return if finished.is_err() && is_other { Err(not_events(None)) } else { finished };
        };
        self.record.n_bytes += chunk.len();
        let n_missing = MAX_HEAD.saturating_sub(self.head.len());
        self.head.extend_from_slice(&chunk[..chunk.len().min(n_missing)]);
        self.events.clear();
        let parsed = self.framing.push(&chunk, &mut self.events);
        self.n_events += self.events.len();
        for event in &self.events {
            self.decoder.push(event, deltas)?;
        }
        parsed
    }

    /// Reads the end of the body, without which the connection could not be reused.
    async fn drain(&mut self) {
        self.ended = true;
        self.record.end = "completed";
        let _ = timeout(TAIL_TIMEOUT, async { while let Ok(Some(_)) = self.response.chunk().await {} }).await;
    }
}

fn limit(time: Duration) -> String {
    let milliseconds = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    if milliseconds < 1_000 { format!("{milliseconds} ms") } else { figures::clock(milliseconds) }
}

fn transport(error: reqwest::Error) -> ProviderError {
    let what = if error.is_connect() {
        "cannot connect"
    } else if error.is_timeout() {
        "the request took longer than allowed"
    } else {
        "the connection broke before the answer was complete"
    };
    ProviderError::Transport { message: format!("{what} ({})", causes(error)) }
}

/// Returns the innermost cause of a failed request, without the URL, which may hold a key.
pub fn causes(error: reqwest::Error) -> String {
    let cause = cause::innermost(&error.without_url());
    // Libraries name pages that explain the error to programmers.
    cause.split_once(": https://").map_or(cause.clone(), |(words, _)| words.to_owned())
}
