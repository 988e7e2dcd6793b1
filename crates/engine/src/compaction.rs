//! Keeps a conversation within the model's context: summaries, and old outputs that are cleared.

pub mod compact;
pub mod overflow;
pub mod prune;
pub mod window;
