//! The OpenAPI document.

use axum::{http::StatusCode, response::Response};
use windlass_base::packed;

use super::{
    body::raw_json,
    routes::{Routes, get},
};

/// Made from the types by a test of this module, so that no program carries the types' descriptions.
const PACKED: &[u8] = include_bytes!("doc/openapi.json.gz");

pub fn routes() -> Routes {
    Routes::new().route("/doc", get(read))
}

async fn read() -> Response {
    raw_json(StatusCode::OK, packed::text(PACKED).into())
}

#[cfg(test)]
#[expect(dead_code, reason = "only the schemas of the types are used")]
mod answers;
#[cfg(test)]
mod make;
#[cfg(test)]
mod named;
#[cfg(test)]
mod operations;
#[cfg(test)]
mod tests;
