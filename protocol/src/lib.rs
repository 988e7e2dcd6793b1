//! Wire types of windlass: JSON-RPC, the Agent Client Protocol and OpenCode's shapes.
//!
//! No I/O, no runtime, no logic beyond encoding and decoding.

pub mod acp;
pub mod opencode;
pub mod rpc;
