//! A session: its state and stored history, the task that owns it, and the requests to it.

pub mod auto_summaries;
pub mod choice;
pub mod client_prompt;
pub mod context;
mod deletion;
pub mod edit;
pub mod export;
pub mod file_undo;
pub mod fork;
pub mod history;
pub mod import;
pub mod inbox;
pub mod listing;
pub mod open;
pub mod parent_limits;
pub mod patch;
mod prompts;
pub mod records;
pub mod request;
pub mod revert;
pub mod state;
pub mod stats;
pub mod task;
pub mod tickets;
pub mod title;
pub mod warning_log;
