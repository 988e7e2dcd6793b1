//! Logins at MCP servers, offered to a client that opens pages: once for each server, while the turn goes on without it.

use std::sync::Arc;

use serde_json::json;
use windlass_base::{ids, lock::lock};
use windlass_engine::Workspace;
use windlass_protocol::{opencode::id::SessionId, rpc};
use windlass_protocol_acp::{
    decode::{self, FormOutcome},
    schema::{CompleteElicitationNotification, ElicitationId},
};

use super::{connection::Connection, outbox::Outbox};

/// Offers the logins that the servers of a session want and that were not offered before.
pub fn offer(connection: &mut Connection, id: &SessionId) {
    if !connection.client().is_some_and(|client| client.pages) {
        return;
    }
    let Some(workspace) = connection.sessions().get(id).map(|session| session.workspace.clone()) else {
        return;
    };
    let (outbox, id, offered) = (connection.outbox.clone(), id.clone(), connection.offered_logins.clone());
    let engine = connection.engine.clone();
    connection.engine.spawn(async move {
        for server in workspace.servers_without_login().await {
            let is_new = lock(&offered).insert((workspace.directory().to_owned(), server.clone()));
            if is_new {
                // A page that is never finished holds up no other.
                let (outbox, workspace, id) = (outbox.clone(), workspace.clone(), id.clone());
                engine.spawn(async move { ask(&outbox, &workspace, &server, &id).await });
            }
        }
    });
}

/// Has the user open the login page of a server, and sees the login to its end.
async fn ask(outbox: &Arc<Outbox>, workspace: &Arc<Workspace>, server: &str, id: &SessionId) {
    let page = match workspace.begin_server_login(server).await {
        Ok(page) => page,
        Err(error) => return tracing::warn!(server, %error, "a login is not offered"),
    };
    let elicitation = ids::question();
    let params = json!({
        "mode": "url", "url": page.url, "elicitationId": elicitation,
        "message": format!("The MCP server {server} wants a login. Its page opens in your browser."),
    });
    let answer = outbox.call(Some(id), "elicitation/create", params, None).await;
    let outcome = answer.ok().map(|answer| decode::form_outcome(&answer.to_string()));
    if !matches!(outcome, Some(Ok(FormOutcome::Accepted(_)))) {
        return workspace.give_up_server_login(server, &page);
    }
    if let Err(error) = workspace.server_login_end(server).await {
        tracing::warn!(server, %error, "a login has failed");
    }
    let completed = CompleteElicitationNotification::new(ElicitationId::new(elicitation.shared()));
    outbox.send(&rpc::notification("elicitation/complete", completed));
}
