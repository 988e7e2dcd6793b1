//! The one HTTP driver of all network wires: request out, server-sent events in, failures classified.

use super::{Delta, Model, Prompt, ProviderError};

/// The process's HTTP client, built at first use.
#[derive(Debug, Clone, Default)]
pub struct Client {}

/// An answer being received over HTTP.
pub struct Stream {}

impl Stream {
    /// See [`super::Stream::next`].
    pub async fn next(&mut self, _deltas: &mut Vec<Delta>) -> Result<bool, ProviderError> {
        Ok(false)
    }
}

/// Sends the request and waits for the response headers.
pub async fn stream(_client: &Client, _model: &Model, _prompt: &Prompt<'_>) -> Result<Stream, ProviderError> {
    Ok(Stream {})
}
