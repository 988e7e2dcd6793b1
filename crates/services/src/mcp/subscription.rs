//! Word of changed lists from a server without state: a subscription that stays on its way.

use std::{convert::Infallible, time::Duration};

use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{ServerNotification, SubscriptionFilter},
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use super::cause;

/// Time before a subscription that ended is begun again; doubled up to the longest while it ends at once.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Has the server tell of changed lists, as far as it can.
pub(super) async fn keep(
    server: &str,
    peer: &Peer<RoleClient>,
    tools_changed: &Notify,
    prompts_changed: &Notify,
) -> Infallible {
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        match subscribed(peer, tools_changed, prompts_changed).await {
            Ok(Told::Nothing) => return std::future::pending().await,
            Ok(Told::UntilNow) => tracing::info!(server, "the server told of changed lists and has stopped"),
            Err(error) => {
                let reason = cause::of_request(&error);
                tracing::warn!(server, error = reason, "the server does not tell of changed lists");
                if let ServiceError::McpError(_) = error {
                    return std::future::pending().await;
                }
            }
        }
        if began.elapsed() >= LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
        // Nobody told of changes in between.
        tools_changed.notify_one();
        prompts_changed.notify_one();
    }
}

/// The outcome of a subscription.
enum Told {
    /// The server has no lists that change.
    Nothing,
    UntilNow,
}

async fn subscribed(
    peer: &Peer<RoleClient>,
    tools_changed: &Notify,
    prompts_changed: &Notify,
) -> Result<Told, ServiceError> {
    let Some(info) = peer.peer_info() else { return Ok(Told::Nothing) };
    let tools = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
    let prompts = info.capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed);
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed = tools.filter(|tells| *tells);
    filter.prompts_list_changed = prompts.filter(|tells| *tells);
    if filter == SubscriptionFilter::new() {
        return Ok(Told::Nothing);
    }
    let mut subscription = peer.listen(filter).await?;
    while let Some(notice) = subscription.next().await? {
        match notice {
            ServerNotification::ToolListChangedNotification(_) => tools_changed.notify_one(),
            ServerNotification::PromptListChangedNotification(_) => prompts_changed.notify_one(),
            // Nothing else was asked for.
            _ => {}
        }
    }
    Ok(Told::UntilNow)
}
