//! Requests with the token of a login: a renewal that has begun is finished, even if the request that needed it is
//! dropped, because the server takes the old token only once.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use futures_util::stream::BoxStream;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::{
        auth::AuthClient,
        streamable_http_client::{StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse},
    },
};
use sse_stream::{Error as SseError, Sse};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use windlass_base::blocking::blocking;

use super::{client_credentials::ClientCredentials, store::Store};
use crate::mcp::streamable::BoundedClient;

/// Time that renewals have when the process ends.
const LAST_RENEWALS: Duration = Duration::from_secs(5);

/// The renewals that are on their way.
static RENEWALS: LazyLock<TaskTracker> = LazyLock::new(TaskTracker::new);

/// Waits until no renewal is on its way.
pub(in crate::mcp) async fn renewals_ended() {
    RENEWALS.close();
    let _ = timeout(LAST_RENEWALS, RENEWALS.wait()).await;
    RENEWALS.reopen();
}

/// See the module's comment.
#[derive(Clone)]
pub(in crate::mcp) struct LoggedIn {
    client: AuthClient<BoundedClient>,
    store: Store,
    /// Set where the tokens are not a person's.
    own: Option<Arc<ClientCredentials>>,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Failure = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

impl LoggedIn {
    pub(super) fn new(client: AuthClient<BoundedClient>, store: Store) -> Self {
        Self { client, store, own: None }
    }

    pub(super) fn of_program(
        client: AuthClient<BoundedClient>,
        store: Store,
        own: ClientCredentials,
    ) -> Self {
        Self { client, store, own: Some(Arc::new(own)) }
    }

    /// Notes the scopes that a message needs and the login does not have, for the next login.
    async fn noted<T>(&self, answer: Result<T, Failure>) -> Result<T, Failure> {
        if let (Err(Failure::AuthRequired(_)), Some(own)) = (&answer, &self.own) {
            own.forget().await;
        }
        if let Err(Failure::InsufficientScope(refusal)) = &answer
            && let Some(scope) = refusal.required_scope.clone()
        {
            let store = self.store.clone();
            if let Err(error) = blocking(move || store.want_scopes(&scope)).await {
                tracing::warn!(%error, "the scopes that a call needs are not noted for the next login");
            }
        }
        answer
    }

    /// Returns a token that holds; `None` where there is none, which the request itself then says.
    pub(in crate::mcp) async fn token(&self) -> Option<String> {
        if let Some(own) = &self.own {
            let got = own.token().await;
            return got
                .inspect_err(|error| tracing::warn!(%error, "no token was got for an MCP server"))
                .ok();
        }
        let client = self.client.clone();
        let renewed = RENEWALS.spawn(async move { client.get_access_token().await.ok() });
        renewed.await.ok().flatten()
    }
}

impl StreamableHttpClient for LoggedIn {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let token = self.token().await;
        self.noted(self.client.post_message(uri, message, session_id, token, headers).await).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let token = self.token().await;
        let sent =
            self.client.post_message_with_max_sse_event_size(uri, message, session_id, token, headers, max);
        self.noted(sent.await).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        let token = self.token().await;
        self.client.delete_session(uri, session_id, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        let token = self.token().await;
        self.client.get_stream(uri, session_id, last_event_id, token, headers).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        headers: Headers,
        max: usize,
    ) -> Result<Events, Failure> {
        let token = self.token().await;
        self.client
            .get_stream_with_max_sse_event_size(uri, session_id, last_event_id, token, headers, max)
            .await
    }
}
