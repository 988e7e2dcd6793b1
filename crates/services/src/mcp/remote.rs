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
    login::{LoginError, LoginPlace},
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
    let cancel = CancellationToken::new();
    // A token of the user's own is not replaced by one of a login.
    let oauth = oauth.filter(|_| !headers.contains_key(AUTHORIZATION));
    let place = oauth.map(|oauth| LoginPlace {
        server: task.spec().name.clone(),
        url: url.to_owned(),
        client: oauth.clone(),
        files: task.shared.place.logins.clone(),
        is_foreign,
    });
    let results = task.shared.place.results.clone();
    let bounded = BoundedClient::new(client.clone(), results);
    let wants_login = async || match &place {
        Some(place) => match place.missing_client().await {
            Some(error) => Status::NeedsClientRegistration { error },
            None => Status::NeedsAuth,
        },
        None => Status::NeedsAuth,
    };
    let connected = async {
        let with_token = match &place {
            None => None,
            Some(place) => place.client(bounded.clone()).await?,
        };
        let end = match with_token.clone() {
            None => {
                let transport = StreamableHttpClientTransport::with_client(bounded.clone(), config);
                session(task, transport, cancel.clone()).await
            }
            Some(client) => {
                let transport = StreamableHttpClientTransport::with_client(client, config);
                session(task, transport, cancel.clone()).await
            }
        };
        if needs_auth(&end, &client, &parsed, &headers).await {
            task.slot.lock().has_lost_login = with_token.is_some();
            return Ok(Err(wants_login().await));
        }
        // A server of the older kind knows no POST at this address.
        if !matches!(end, SessionEnd::NotConnected(_)) {
            return Ok(Ok(end));
        }
        let mut with_login = headers.clone();
        if let Some(login) = &with_token
            && let Some(token) = login.token().await
            && let Ok(value) = HeaderValue::try_from(format!("Bearer {token}"))
        {
            with_login.insert(AUTHORIZATION, value);
        }
        match sse::open(&client, &parsed, &with_login, task.spec().timeout).await {
            Ok(opened) => {
                let keys = (&headers, with_token.as_ref());
                Ok(Ok(sse::serve(task, opened, &client, keys, cancel.clone()).await))
            }
            Err(sse::Refusal::Unauthorized) => {
                task.slot.lock().has_lost_login = with_token.is_some();
                Ok(Err(wants_login().await))
            }
            Err(sse::Refusal::Other) => Ok(Ok(end)),
        }
    };
    tokio::pin!(connected);
    let end = tokio::select! {
        biased;
        () = task.stop.cancelled() => {
            cancel.cancel();
            // Gives the task time to tell the server that its session is over.
            let _ = timeout(GRACE, &mut connected).await;
            return Status::Disabled;
        }
        end = &mut connected => end,
    };
    match end {
        Ok(Ok(end)) => task.failed(&format!("at {shown} {}", end.describe(task.spec()))),
        Ok(Err(status)) => status,
        Err::<_, LoginError>(error) => task.failed(&format!("at {shown} cannot be used: {error}")),
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
