//! windlass: the front ends, over the engine of `crates/engine`.

pub mod acp;
pub mod cli;
pub mod http;
pub mod mcp_server;
