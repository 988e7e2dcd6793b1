//! The Agent Client Protocol: the published message types, tolerant decoding around them, and our extensions.

pub mod decode;
pub mod ext;

pub use agent_client_protocol_schema::{self as version, v1 as schema};
