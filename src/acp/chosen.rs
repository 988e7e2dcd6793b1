//! The choices of a session's client.

use windlass_protocol::opencode::model_ref::ModelRef;

/// The choices for a session, or those that it had.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chosen {
    pub agent: Option<String>,
    pub model: Option<ModelRef>,
    /// Edits are made without a question.
    pub accepts_edits: bool,
}
