//! Gives MCP servers that are starting a moment before a turn's first step, so that it has their tools.

use std::time::Duration;

use futures_util::future::join_all;

use crate::{engine::session::context::TurnCx, mcp::ServersLease};

/// Time for all servers together, unless `windlass.mcp.start_wait` says otherwise.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// Waits for the servers that are starting, unless a prompt has waited for them before.
///
/// Once the input has ended, nothing can come after this turn: then it waits until each server is there or has
/// failed.
pub async fn wait(cx: &TurnCx<'_>) {
    let servers = cx.servers();
    let limit = cx.loaded.config.settings.windlass.mcp.start_wait.map_or(DEFAULT_WAIT, Duration::from_millis);
    let patience = async {
        tokio::time::sleep(limit).await;
        if cx.session.engine.is_finishing() {
            std::future::pending().await
        }
    };
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => {}
        _ = join_all(servers.iter().map(ServersLease::started)) => {}
        () = patience => servers.iter().for_each(ServersLease::stop_awaiting),
    }
}
