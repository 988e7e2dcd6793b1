//! Every route: one table for each group, and the checks in front of all of them.

use axum::{
    Router,
    extract::Request,
    http::{Method, StatusCode, Uri},
    middleware,
    response::{IntoResponse, Response},
};
use serde_json::json;
use tower_http::compression::CompressionLayer;

use super::{
    access, account, acp, admission, api, api_key, api_login, api_message, api_pty, api_session, api_work,
    ask, config, cors, doc, error::Failure, event, experimental, files, global, history, inbox, mcp, message,
    metrics, page, pass_on, project, prompt, provider, pty, server::Shared, services, session,
    session_access, tui, vcs,
};

/// Returns the routes and the layers that every request passes.
pub fn router(server: &Shared) -> Router {
    Router::new()
        .merge(acp::routes())
        .merge(account::routes())
        .merge(api::routes())
        .merge(api_key::routes())
        .merge(api_login::routes())
        .merge(api_message::routes())
        .merge(api_pty::routes())
        .merge(api_session::routes())
        .merge(api_work::routes())
        .merge(ask::routes())
        .merge(config::routes())
        .merge(doc::routes())
        .merge(event::routes())
        .merge(experimental::routes())
        .merge(files::routes())
        .merge(global::routes())
        .merge(history::routes())
        .merge(inbox::routes())
        .merge(mcp::routes())
        .merge(message::routes())
        .merge(metrics::routes())
        .merge(page::routes())
        .merge(project::routes())
        .merge(prompt::routes())
        .merge(provider::routes())
        .merge(pty::routes())
        .merge(services::routes())
        .merge(session::routes())
        .merge(session_access::routes())
        .merge(tui::routes())
        .merge(vcs::routes())
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn(whole))
        .layer(middleware::from_fn_with_state(server.clone(), pass_on::pass_on))
        .layer(CompressionLayer::new())
        .layer(middleware::from_fn_with_state(server.clone(), admission::admit))
        .layer(middleware::from_fn_with_state(server.options.access.clone(), access::guard))
        .layer(middleware::from_fn_with_state(server.clone(), pass_on::admit))
        .layer(cors::layer(server))
        .with_state(server.clone())
}

/// Has a change that was begun made whole although its client leaves: the connection drops what it waits for then.
async fn whole(request: Request, next: middleware::Next) -> Response {
    // ACP's connections have ends of their own.
    if request.method().is_safe() || request.uri().path() == "/acp" {
        return next.run(request).await;
    }
    match tokio::spawn(next.run(request)).await {
        Ok(response) => response,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_cancelled) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        },
    }
}

async fn unknown(method: Method, uri: Uri) -> Failure {
    Failure::not_found(format!("There is no route {method} {}.", uri.path()))
}

async fn not_allowed(method: Method, uri: Uri) -> Response {
    let message = format!("{} does not take {method}.", uri.path());
    let data = json!({"message": message, "kind": "Params"});
    Failure::named(StatusCode::METHOD_NOT_ALLOWED, "BadRequest", data).into_response()
}
