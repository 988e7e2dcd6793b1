//! The ACP front end: newline-delimited JSON-RPC on standard input and output.
//!
//! A reader takes lines in order, a writer drains one ordered outbox; answers, updates and our own requests all
//! pass through it, so what a client sees has exactly the order in which it happened.

mod call;
mod commands;
mod connection;
mod dialog;
mod dispatch;
mod elicitation;
mod encoder;
mod error;
mod from_proto;
mod front;
mod initialize;
mod lines;
mod options;
mod outbox;
mod permissions;
mod prompt;
mod reload;
mod serve;
mod session;
mod settings;
mod terminal;
mod to_proto;
mod trace;

pub use connection::{MAX_LINE, Options};
pub use serve::serve;
