//! One connection with a server: shakes hands, lists the tools, and keeps the list fresh.

use std::{convert::Infallible, sync::Arc, time::Duration};

use rmcp::{
    RoleClient, ServiceError,
    service::{ClientInitializeError, RunningService, serve_client_with_ct},
    transport::IntoTransport,
};
use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    ServerSpec, Shared, Slot, Status, cause,
    client::{Client, Connection},
    prompts, tools,
};

/// The time between asking a process to end and killing it, and for telling a remote server that its session is
/// over.
pub(super) const GRACE: Duration = Duration::from_secs(2);

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
    /// The server did not answer the named request.
    Silent(&'static str),
    NotListed(ServiceError),
    Closed,
}

impl SessionEnd {
    pub(super) fn describe(&self, spec: &ServerSpec) -> String {
        match self {
            SessionEnd::NotConnected(error) => {
                format!("cannot be used: {}", cause::of_handshake(error))
            }
            SessionEnd::Silent(what) => format!("did not answer {what} within {:?}", spec.timeout),
            SessionEnd::NotListed(error) => format!("did not list its tools: {}", cause::of_request(error)),
            SessionEnd::Closed => "closed the connection".to_owned(),
        }
    }
}

/// Shakes hands, lists the tools and keeps the list fresh until the connection ends.
pub(super) async fn session<T, E, A>(task: &Task<'_>, transport: T, cancel: CancellationToken) -> SessionEnd
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let spec = task.spec();
    let tools_changed = Arc::new(Notify::new());
    let prompts_changed = Arc::new(Notify::new());
    let directory = task.shared.directory();
    let client = Client::new(&spec.name, directory, tools_changed.clone(), prompts_changed.clone());
    let running = match timeout(spec.timeout, serve_client_with_ct(client, transport, cancel)).await {
        Ok(Ok(running)) => running,
        Ok(Err(error)) => return SessionEnd::NotConnected(Box::new(error)),
        Err(_) => return SessionEnd::Silent("initialize"),
    };
    if let Err(end) = offer_tools(task, &running).await {
        return end;
    }
    let connection = running.service().connection(running.peer().clone());
    tokio::select! {
        never = refresh_tools(task, &connection, &tools_changed) => match never {},
        never = refresh_prompts(task, &connection, &prompts_changed) => match never {},
        _ = running.waiting() => SessionEnd::Closed,
    }
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
        if connection.has_prompts() {
            match prompts::list(connection, &spec.name, spec.timeout).await {
                Ok(prompts) => task.shared.offer_prompts(task.slot, prompts),
                Err(error) => tracing::warn!(server = spec.name, %error, "prompts were not listed"),
            }
        }
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
            Ok(())
        }
        Ok(Err(error)) => Err(SessionEnd::NotListed(error)),
        Err(_) => Err(SessionEnd::Silent("tools/list")),
    }
}
