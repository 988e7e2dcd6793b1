//! The change of one file.

use serde::{Deserialize, Serialize};

/// A changed file of `session.diff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileDiff {
    /// The path below the worktree.
    pub file: String,
    /// A unified diff; empty where it is too large.
    pub patch: String,
    pub additions: u64,
    pub deletions: u64,
    /// `added`, `deleted` or `modified`.
    pub status: String,
}
