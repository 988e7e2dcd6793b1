//! The end of a turn, as a terminal learns of it.

use serde_json::Value;
use windlass_engine::StopReason;

/// Result of a turn, or the reason that it failed.
pub type TurnEnd = Result<TurnResult, String>;

/// Receiver of a turn's end.
pub type OnEnd = Box<dyn FnOnce(TurnEnd) + Send>;

/// Result of a turn that did not fail.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnResult {
    pub stop: StopReason,
    /// The answer in the form that was asked for.
    pub structured: Option<Value>,
}
