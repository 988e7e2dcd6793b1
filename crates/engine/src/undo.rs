//! Changes of a session's past: its files and messages are taken back, and messages are edited.

pub mod edit;
pub mod file_undo;
