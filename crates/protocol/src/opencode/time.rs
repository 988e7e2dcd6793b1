//! The time of a message or a part.

use serde::{Deserialize, Serialize};

/// A time in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreatedTime {
    pub created: i64,
}
