//! Requests of plugins to windlass: calls of the SDK's client, answered as the HTTP server answers them.

use std::sync::Arc;

use futures_util::{future::BoxFuture, stream::BoxStream};
use serde::Deserialize;

/// A request of a plugin's client.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ApiRequest {
    /// The plugin that asks.
    pub plugin: String,
    pub method: String,
    /// The path with its query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
}

/// The answer to a request.
pub struct ApiResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: ApiBody,
}

/// The body of an answer.
pub enum ApiBody {
    Whole(String),
    /// A stream of events, which ends when either side drops it.
    Stream(BoxStream<'static, String>),
}

/// The function that answers the requests of plugins.
pub type Api = Arc<dyn Fn(ApiRequest) -> BoxFuture<'static, ApiResponse> + Send + Sync>;
