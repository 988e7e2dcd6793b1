//! The ACP front end: newline-delimited JSON-RPC on standard input and output.
//!
//! One task owns a client's state and takes one event after another: a line of the client, something for it, the end of
//! a handler. Answers, updates and our own requests pass through one ordered outbox, so a client sees everything in
//! exactly the order in which it happened.

mod auth;
mod call;
mod choices;
mod chosen;
mod client_call;
mod client_session;
mod commands;
mod compactions;
mod connection;
mod dialog;
mod dispatch;
mod editor;
mod elicitation;
mod encoder;
mod error;
mod from_proto;
mod git_patch;
mod initialize;
mod input;
mod lines;
mod linked;
mod options;
mod other_node;
mod other_paths;
mod outbox;
mod output;
mod passed_on;
mod permissions;
mod prompt;
mod providers;
mod queue;
mod records;
mod reload;
mod reopen;
mod serve;
mod server_login;
mod session;
mod settings;
mod terminal;
mod to_proto;
mod trace;
mod v1;
mod v2;
mod wire;

pub use connection::Options;
pub use encoder::alone::Alone;
pub use input::MAX_LINE;
pub use serve::{serve, serve_beside};
