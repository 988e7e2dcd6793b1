//! Reaches a server over streamable HTTP, or the older transport where the server knows that alone.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use reqwest::{
    Client, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::{Action, Attempt, Policy},
};
use rmcp::transport::{
    StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use windlass_base::{
    cause,
    public_address::{PublicNames, check_literal},
    reason::Reason,
    shown_url::without_secrets,
};
use windlass_protocol::opencode::config::McpOauthClient;

use super::{
    Shared, Status,
    http::install_tls,
    login::{LoggedIn, LoginPlace},
    loss,
    session::{GRACE, SessionEnd, Task, session},
    sse,
    streamable::BoundedClient,
};

/// Headers that the transport sets itself; it refuses other values for them.
const OWN_HEADERS: [&str; 4] = ["accept", "mcp-session-id", "mcp-protocol-version", "last-event-id"];
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_REDIRECTS: usize = 10;

/// Serves a remote slot until its connection ends or the task is stopped.
pub(super) async fn run(
    task: &Task<'_>,
    url: &str,
    headers: &BTreeMap<String, String>,
    oauth: Option<&McpOauthClient>,
) -> Status {
    let parsed = match Url::parse(url) {
        Ok(parsed) => parsed,
        Err(error) => return task.failed(&format!("has the URL {url}, which is invalid: {error}")),
    };
    let shown = without_secrets(&parsed);
    let headers = match header_map(&task.spec().name, headers) {
        Ok(headers) => headers,
        Err(name) => return task.failed(&format!("at {shown} has an invalid header {name}")),
    };
    let is_foreign = task.spec().is_foreign;
    let client = match http_client(task.shared, &parsed, is_foreign).await {
        Ok(client) => client,
        Err(reason) => return task.failed(&format!("at {shown} cannot be reached: {reason}")),
    };
    let custom_headers = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(custom_headers);
    // A token of the user's own is not replaced by one of a login.
    let oauth = oauth.filter(|_| !headers.contains_key(AUTHORIZATION));
    let login = oauth.map(|oauth| LoginPlace {
        server: task.spec().name.clone(),
        url: url.to_owned(),
        client: oauth.clone(),
        files: task.shared.directories.logins.clone(),
        is_foreign,
    });
    let remote = Remote { task, url: parsed, headers, client, login };
    let cancel = CancellationToken::new();
    let serving = remote.serve(config, &cancel);
    tokio::pin!(serving);
    let end = tokio::select! {
        biased;
        () = task.stop.cancelled() => {
            cancel.cancel();
            // Gives the task time to tell the server that its session is over.
            let _ = timeout(GRACE, &mut serving).await;
            return Status::Disabled;
        }
        end = &mut serving => end,
    };
    match end {
        Ok(end) => task.failed(&format!("at {shown} {}", end.describe(task.spec()))),
        Err(status) => status,
    }
}

/// A server at a URL, and the means to reach it.
struct Remote<'a> {
    task: &'a Task<'a>,
    url: Url,
    headers: HeaderMap,
    client: Client,
    /// The place of the login; `None` where the server is used without one.
    login: Option<LoginPlace>,
}

impl Remote<'_> {
    /// Connects and serves until the connection ends; the error is the status of a server that cannot be used.
    async fn serve(
        &self,
        config: StreamableHttpClientTransportConfig,
        cancel: &CancellationToken,
    ) -> Result<SessionEnd, Status> {
        let task = self.task;
        let bounded = BoundedClient::new(self.client.clone(), task.shared.directories.results.clone());
        let login = match &self.login {
            None => Ok(None),
            Some(login) => login.client(bounded.clone()).await,
        };
        // A server that wants no login is used all the same.
        let (logged_in, unusable) = match login {
            Ok(logged_in) => (logged_in, None),
            Err(error) => {
                let server = &task.spec().name;
                tracing::warn!(server, %error, "the login is not used; the server is tried without");
                (None, Some(error))
            }
        };
        let wanted = async |logged_in| match &unusable {
            Some(error) => task.failed(&format!("at {} cannot be used: {error}", without_secrets(&self.url))),
            None => self.wanting_login(logged_in).await,
        };
        let end = match logged_in.clone() {
            None => {
                let transport = StreamableHttpClientTransport::with_client(bounded, config);
                session(task, transport, cancel.clone()).await
            }
            Some(client) => {
                let transport = StreamableHttpClientTransport::with_client(client, config);
                session(task, transport, cancel.clone()).await
            }
        };
        if needs_auth(&end, &self.client, &self.url, &self.headers).await {
            return Err(wanted(logged_in.as_ref()).await);
        }
        match end {
            // A server of the older kind knows no POST at this address.
            SessionEnd::NotConnected(_) => match self.serve_older(end, logged_in.as_ref(), cancel).await {
                Some(end) => Ok(end),
                None => Err(wanted(logged_in.as_ref()).await),
            },
            SessionEnd::NotListed(_)
            | SessionEnd::Refused
            | SessionEnd::UnknownVersion(_)
            | SessionEnd::Silent(_)
            | SessionEnd::Closed => Ok(end),
        }
    }

    /// Does the same over the older transport; returns the end that was met before where the server does not know it, and
    /// `None` where it wants a login.
    async fn serve_older(
        &self,
        end: SessionEnd,
        logged_in: Option<&LoggedIn>,
        cancel: &CancellationToken,
    ) -> Option<SessionEnd> {
        let mut with_login = self.headers.clone();
        if let Some(login) = logged_in
            && let Some(token) = login.token().await
            && let Ok(value) = HeaderValue::try_from(format!("Bearer {token}"))
        {
            with_login.insert(AUTHORIZATION, value);
        }
        match sse::open(&self.client, &self.url, &with_login, self.task.spec().timeout).await {
            Ok(opened) => {
                let keys = (&self.headers, logged_in);
                Some(sse::serve(self.task, opened, &self.client, keys, cancel.clone()).await)
            }
            Err(sse::Refusal::Unauthorized) => None,
            Err(sse::Refusal::Other) => Some(end),
        }
    }

    /// Returns the status of a server that wants a login, another one if it was given one.
    async fn wanting_login(&self, logged_in: Option<&LoggedIn>) -> Status {
        self.task.slot.lock().has_lost_login = logged_in.is_some();
        let Some(login) = &self.login else { return Status::NeedsAuth };
        match login.missing_client().await {
            Some(error) => Status::NeedsClientRegistration { error },
            None => Status::NeedsAuth,
        }
    }
}

/// Returns true if a connection ended because the server wants a login.
async fn needs_auth(end: &SessionEnd, client: &Client, url: &Url, headers: &HeaderMap) -> bool {
    match end {
        SessionEnd::NotConnected(error) => {
            error.auth_challenge().is_some()
                || error.is_authorization_required()
                || is_refused(client, url.clone(), headers.clone()).await
        }
        // Some servers shake hands without a login and refuse only the requests after it.
        SessionEnd::NotListed(error) => loss::wants_login(error),
        SessionEnd::Refused => true,
        SessionEnd::UnknownVersion(_) | SessionEnd::Silent(_) | SessionEnd::Closed => false,
    }
}

/// Converts the headers; the error names the first malformed one.
fn header_map(server: &str, headers: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let Ok(header_name) = HeaderName::try_from(name) else { return Err(name.clone()) };
        let Ok(value) = HeaderValue::try_from(value) else { return Err(name.clone()) };
        if OWN_HEADERS.contains(&header_name.as_str()) {
            tracing::warn!(
                server,
                "the header {name} of an MCP server is set by the protocol; it is ignored"
            );
            continue;
        }
        map.insert(header_name, value);
    }
    Ok(map)
}

async fn http_client(shared: &Shared, url: &Url, is_foreign: bool) -> Result<Client, Reason> {
    if is_foreign {
        check_literal(url)?;
    }
    let build = move || {
        install_tls();
        let builder = Client::builder().redirect(Policy::custom(redirected));
        // A proxy would look the name up by itself.
        if is_foreign { builder.no_proxy().dns_resolver(Arc::new(PublicNames)) } else { builder }.build()
    };
    let client = if is_foreign { &shared.foreign_http } else { &shared.http };
    let client = client.get_or_try_init(async || {
        // Runs on a blocking thread, because it reads the system's certificates.
        match tokio::task::spawn_blocking(build).await {
            Ok(built) => built,
            Err(_) => build(),
        }
    });
    client.await.cloned().map_err(|error: reqwest::Error| cause::innermost(&error))
}

/// Follows a redirect within an origin: headers and tokens are for the one that the configuration names.
fn redirected(attempt: Attempt<'_>) -> Action {
    let is_same = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
    if attempt.previous().len() > MAX_REDIRECTS {
        return attempt.error("it redirects too often");
    }
    if is_same {
        return attempt.follow();
    }
    let target = without_secrets(attempt.url());
    attempt.error(format!(
        "it redirects to {target}, which is not sent your headers and logins; put that address into the configuration if \
         it is the server's"
    ))
}

/// Returns true if the server answers 401. Without a challenge, the transport reports that only as prose.
async fn is_refused(client: &Client, url: Url, headers: HeaderMap) -> bool {
    let request = client
        .post(url)
        .headers(headers)
        .header(ACCEPT, "application/json, text/event-stream")
        .header(CONTENT_TYPE, "application/json")
        .timeout(PROBE_TIMEOUT)
        .body(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#);
    request.send().await.is_ok_and(|response| response.status() == StatusCode::UNAUTHORIZED)
}
