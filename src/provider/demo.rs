//! The built-in demo model: deterministic, offline, drives the real tools through the real loop.

use super::{Delta, Prompt, ProviderError};

/// A scripted answer.
pub struct Stream {}

impl Stream {
    /// See [`super::Stream::next`].
    pub async fn next(&mut self, _deltas: &mut Vec<Delta>) -> Result<bool, ProviderError> {
        Ok(false)
    }
}

/// Works out the answer to a prompt.
pub fn stream(_prompt: &Prompt<'_>) -> Stream {
    Stream {}
}
