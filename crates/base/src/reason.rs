//! The type of messages that say why something failed.

/// A reason, as part of a sentence for the user or the model. No code looks into it: where code has to tell failures
/// apart, they are an enum.
pub type Reason = String;
