//! The origins with pages that may read answers.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use super::{acp::CONNECTION_ID, server::Shared, unknown};

/// Header of a page of messages that names the next one.
pub const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// Returns the layer that answers preflights and names allowed origins.
pub fn layer(server: &Shared) -> CorsLayer {
    let server = server.clone();
    let is_allowed = move |origin: &HeaderValue, _: &_| {
        origin.to_str().is_ok_and(|origin| server.options.access.is_known_origin(origin))
    };
    let methods = [Method::GET, Method::HEAD, Method::PUT, Method::PATCH, Method::POST, Method::DELETE];
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(is_allowed))
        .allow_methods(methods)
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([header::LINK, NEXT_CURSOR, CONNECTION_ID, unknown::HEADER])
        .max_age(Duration::from_secs(86_400))
        .vary([header::ORIGIN])
}
