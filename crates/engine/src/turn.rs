//! Steps of a turn, the calls of their tools, and the request that each step sends to the model.

pub mod answer;
pub mod asked_again;
pub mod attach;
pub mod call_host;
pub mod calls;
pub mod file_snapshots;
pub mod hooks;
pub mod loaded_instructions;
pub mod local_reply;
pub mod media;
pub mod model_request;
pub mod named_lines;
pub mod prompt;
pub mod sampling;
pub mod servers;
pub mod step;
pub mod subtask;
pub mod subtask_parts;
pub mod tool_search;
pub mod toolbox;
pub mod user_reads;
pub mod user_shell;
