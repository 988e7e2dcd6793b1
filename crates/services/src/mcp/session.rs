//! One connection with a server: shakes hands, lists the tools, and keeps the list fresh.

use std::{convert::Infallible, path::PathBuf, sync::Arc, time::Duration};

use rmcp::{
    RoleClient, ServiceError,
    model::ProtocolVersion,
    service::{
        ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle_and_ct,
    },
    transport::IntoTransport,
};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use windlass_base::{blocking::blocking, memory, text};

use super::{
    ServerSpec, Shared, Slot, Status, cause,
    client::{Client, Connection},
    prompts, subscription, tools,
};

/// The time between asking a process to end and killing it, and for telling a remote server that its session is
/// over.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// A version from before those that the library lists, which servers of OpenCode's users may still answer with.
const OLDEST_VERSION: &str = "2024-10-07";

/// Bytes that are shown of a version.
const MAX_VERSION: usize = 40;

/// The shared state of a server's task.
pub(super) struct Task<'a> {
    pub(super) shared: &'a Shared,
    pub(super) slot: &'a Slot,
    pub(super) slot_id: usize,
    pub(super) stop: CancellationToken,
}

impl Task<'_> {
    pub(super) fn spec(&self) -> &ServerSpec {
        &self.slot.spec
    }

    /// Makes the status of a failure, as a sentence about the server.
    pub(super) fn failed(&self, what: &str) -> Status {
        Status::Failed { error: format!("MCP server {} {what}", self.spec().name) }
    }
}

/// The reason for the end of a connection.
pub(super) enum SessionEnd {
    NotConnected(Box<ClientInitializeError>),
    /// The server speaks this version of the protocol, which nothing here knows.
    UnknownVersion(String),
    /// The server did not answer the named request.
    Silent(&'static str),
    NotListed(ServiceError),
    Closed,
    /// It takes our login no more.
    Refused,
}

impl SessionEnd {
    pub(super) fn describe(&self, spec: &ServerSpec) -> String {
        match self {
            SessionEnd::NotConnected(error) => {
                format!("cannot be used: {}", cause::of_handshake(error))
            }
            SessionEnd::UnknownVersion(version) => format!(
                "speaks version `{version}` of the protocol, which windlass does not; update one of the two"
            ),
            SessionEnd::Silent(what) => format!("did not answer {what} within {:?}", spec.timeout),
            SessionEnd::NotListed(error) => format!("did not list its tools: {}", cause::of_request(error)),
            SessionEnd::Closed => "closed the connection".to_owned(),
            SessionEnd::Refused => "wants a login".to_owned(),
        }
    }
}

/// Shakes hands, lists the tools and keeps the list fresh until the connection ends.
pub(super) async fn session<T, E, A>(task: &Task<'_>, transport: T, cancel: CancellationToken) -> SessionEnd
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    session_with_lifecycle(task, transport, ClientLifecycleMode::Initialize, cancel).await
}

/// Does the same with a server that begins in this way.
pub(super) async fn session_with_lifecycle<T, E, A>(
    task: &Task<'_>,
    transport: T,
    lifecycle: ClientLifecycleMode,
    cancel: CancellationToken,
) -> SessionEnd
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let spec = task.spec();
    let tools_changed = Arc::new(Notify::new());
    let prompts_changed = Arc::new(Notify::new());
    let is_stateless = lifecycle != ClientLifecycleMode::Initialize;
    let mut roots = task.shared.roots.subscribe();
    let client =
        Client::new(&spec.name, roots.clone(), !is_stateless, tools_changed.clone(), prompts_changed.clone());
    let connecting = serve_client_with_lifecycle_and_ct(client, transport, lifecycle, cancel);
    let running = match timeout(spec.timeout, connecting).await {
        Ok(Ok(running)) => running,
        Ok(Err(error)) => return SessionEnd::NotConnected(Box::new(error)),
        Err(_) => return SessionEnd::Silent(if is_stateless { "server/discover" } else { "initialize" }),
    };
    if let Some(version) = unknown_version(&running) {
        return SessionEnd::UnknownVersion(version);
    }
    if let Err(end) = offer_tools(task, &running).await {
        return end;
    }
    let connection = running.service().connection(running.peer().clone());
    let end = tokio::select! {
        never = refresh_tools(task, &connection, &tools_changed) => match never {},
        never = refresh_prompts(task, &connection, &prompts_changed) => match never {},
        never = tell_roots(&connection, &mut roots), if !is_stateless => match never {},
        never = subscription::keep(&spec.name, connection.peer(), &tools_changed, &prompts_changed), if is_stateless => {
            match never {}
        }
        wants_login = connection.lost() => if wants_login { SessionEnd::Refused } else { SessionEnd::Closed },
        _ = running.waiting() => SessionEnd::Closed,
    };
    task.shared.lose(task.slot);
    end
}

/// Returns the version that the server chose where it is none that we know (MCP, lifecycle: version negotiation).
fn unknown_version(running: &RunningService<RoleClient, Client>) -> Option<String> {
    let version = running.peer().peer_info()?.protocol_version.to_string();
    let mut known =
        ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).chain([OLDEST_VERSION]);
    (!known.any(|known| known == version))
        .then(|| text::visible_line(text::head(&version, MAX_VERSION)).into_owned())
}

/// Says whenever the roots have changed.
async fn tell_roots(connection: &Connection, roots: &mut watch::Receiver<Vec<PathBuf>>) -> Infallible {
    while roots.changed().await.is_ok() {
        connection.tell_roots().await;
    }
    std::future::pending().await
}

async fn refresh_tools(task: &Task<'_>, connection: &Connection, tools_changed: &Notify) -> Infallible {
    let spec = task.spec();
    loop {
        tools_changed.notified().await;
        let list = tools::list(connection.peer(), &spec.name, task.slot_id);
        match timeout(spec.timeout, list).await {
            Ok(Ok(tools)) => task.shared.offer(task.slot, connection.clone(), tools),
            Ok(Err(error)) => {
                let error = cause::of_request(&error);
                tracing::warn!(server = spec.name, error, "tools were not listed again");
            }
            Err(_) => tracing::warn!(server = spec.name, "tools were not listed again in time"),
        }
    }
}

/// Lists the prompts, and again when they have changed. A failure costs no tool.
async fn refresh_prompts(task: &Task<'_>, connection: &Connection, prompts_changed: &Notify) -> Infallible {
    let spec = task.spec();
    loop {
        let listed = if connection.has_prompts() {
            prompts::list(connection, &spec.name, spec.timeout).await
        } else {
            Ok(Vec::new())
        };
        let prompts = listed.unwrap_or_else(|error| {
            tracing::warn!(server = spec.name, %error, "prompts were not listed");
            task.slot.lock().prompts.clone().unwrap_or_default()
        });
        task.shared.offer_prompts(task.slot, prompts);
        prompts_changed.notified().await;
    }
}

async fn offer_tools(
    task: &Task<'_>,
    running: &RunningService<RoleClient, Client>,
) -> Result<(), SessionEnd> {
    let spec = task.spec();
    let list = tools::list(running.peer(), &spec.name, task.slot_id);
    match timeout(spec.timeout, list).await {
        Ok(Ok(tools)) => {
            let connection = running.service().connection(running.peer().clone());
            task.shared.offer(task.slot, connection, tools);
            // A long list takes several times its size while it is read.
            blocking(memory::give_back).await;
            Ok(())
        }
        Ok(Err(error)) => Err(SessionEnd::NotListed(error)),
        Err(_) => Err(SessionEnd::Silent("tools/list")),
    }
}
