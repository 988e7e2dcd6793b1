//! Wire types of windlass: JSON-RPC and OpenCode's shapes.
//!
//! No I/O, no runtime, no logic beyond encoding and decoding.

pub mod opencode;
pub mod rpc;
