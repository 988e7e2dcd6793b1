//! Gives MCP servers that are starting a moment before a turn's first step, so that it has their tools.

use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;
use windlass_services::mcp::ServersLease;

use crate::{
    session::context::{SessionCx, TurnCx},
    workspace::loaded::Loaded,
};

/// Time for all servers together, unless `windlass.mcp.start_wait` says otherwise.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// Waits for the servers that are starting, unless a prompt has waited for them before.
///
/// Once the input has ended, nothing can come after this turn: then it waits until each server is there or has
/// failed.
pub async fn wait(cx: &TurnCx<'_>) {
    let servers = cx.servers();
    let started = join_all(servers.iter().map(ServersLease::started));
    bounded(cx.session, &cx.loaded, &cx.cancel, &servers, started).await;
}

/// Waits so for the prompts of these servers of the session.
pub async fn wait_for_prompts(
    session: &SessionCx,
    loaded: &Loaded,
    servers: &[ServersLease],
    cancel: &CancellationToken,
) {
    let told = join_all(servers.iter().map(ServersLease::prompts_told));
    bounded(session, loaded, cancel, servers, told).await;
}

/// Says once which servers' tools are gone because their login has ended.
pub fn tell_lost_logins(cx: &TurnCx<'_>) {
    for server in cx.servers().iter().flat_map(ServersLease::with_lost_login) {
        cx.session.note(Some(format!(
            "The login at the MCP server {server} has ended, and its tools are gone. Run `windlass mcp auth {server}`."
        )));
    }
}

async fn bounded<T>(
    session: &SessionCx,
    loaded: &Loaded,
    cancel: &CancellationToken,
    servers: &[ServersLease],
    ready: impl Future<Output = T>,
) {
    let limit = loaded.config.settings.windlass.mcp.start_wait.map_or(DEFAULT_WAIT, Duration::from_millis);
    let patience = async {
        tokio::time::sleep(limit).await;
        if session.engine.is_finishing() {
            std::future::pending().await
        }
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => {}
        _ = ready => {}
        () = patience => servers.iter().for_each(ServersLease::stop_awaiting),
    }
}
