//! A message that arrives in pieces: kept while it is short, shortened where it is too long to keep.

use std::path::{Path, PathBuf};

use super::large::{Asked, Large};

/// Maximum bytes of a message that is kept in memory.
pub(super) const MAX_MESSAGE: usize = 16 << 20;

/// See the module's comment.
#[derive(Debug)]
pub(super) struct Body {
    kept: Vec<u8>,
    large: Option<Large>,
    results: PathBuf,
}

impl Body {
    /// Begins a message; the texts of a long one are saved in the directory.
    pub(super) fn new(results: &Path) -> Self {
        Self { kept: Vec::new(), large: None, results: results.to_owned() }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        match &mut self.large {
            Some(large) => large.feed(bytes),
            None if self.kept.len() + bytes.len() <= MAX_MESSAGE => self.kept.extend_from_slice(bytes),
            None => {
                let mut large = Large::new(&self.results);
                large.feed(&std::mem::take(&mut self.kept));
                large.feed(bytes);
                self.large = Some(large);
            }
        }
    }

    /// Returns the message, or the short one in its place; `None` for a long one that answers nothing.
    pub(super) fn finish(&mut self, asked: &Asked) -> Option<Vec<u8>> {
        let kept = std::mem::take(&mut self.kept);
        let Some(large) = self.large.take() else { return Some(kept) };
        if large.id().is_none() {
            large.discard();
            return None;
        }
        Some(large.shortened(asked).to_string().into_bytes())
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // A message that was cut off is named nowhere, and neither is its file.
        if let Some(large) = self.large.take() {
            large.discard();
        }
    }
}
