//! The ACP front end: newline-delimited JSON-RPC on standard input and output.
//!
//! A reader takes lines in order, a writer drains one ordered outbox; answers, updates and our own requests all
//! pass through it, so what a client sees has exactly the order in which it happened.

mod commands;
mod connection;
mod dispatch;
mod elicitation;
mod encoder;
mod from_proto;
mod initialize;
mod options;
mod outbox;
mod permissions;
mod prompt;
mod reload;
mod session;
mod settings;
mod terminal;
mod to_proto;
mod trace;

pub use connection::{MAX_LINE, Options, serve};
