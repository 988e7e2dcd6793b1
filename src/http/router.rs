//! Every route: one table for each group, and what stands in front of all of them.

use axum::{
    Router,
    http::{Method, StatusCode, Uri},
    middleware,
    response::{IntoResponse, Response},
};
use serde_json::json;
use tower_http::compression::CompressionLayer;

use super::{
    access, api_session, ask, cors, error::Failure, event, global, history, message, prompt, server::Shared,
    session,
};

/// Returns the routes and what every request passes on its way to them.
pub fn router(server: &Shared) -> Router {
    Router::new()
        .merge(api_session::routes())
        .merge(ask::routes())
        .merge(event::routes())
        .merge(global::routes())
        .merge(history::routes())
        .merge(message::routes())
        .merge(prompt::routes())
        .merge(session::routes())
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(CompressionLayer::new())
        .layer(middleware::from_fn_with_state(server.options.access.clone(), access::guard))
        .layer(cors::layer(server))
        .with_state(server.clone())
}

async fn unknown(method: Method, uri: Uri) -> Failure {
    Failure::not_found(format!("There is no route {method} {}.", uri.path()))
}

async fn not_allowed(method: Method, uri: Uri) -> Response {
    let message = format!("{} does not take {method}.", uri.path());
    let data = json!({"message": message, "kind": "Params"});
    Failure::named(StatusCode::METHOD_NOT_ALLOWED, "BadRequest", data).into_response()
}
