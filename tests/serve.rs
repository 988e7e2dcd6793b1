//! `windlass serve`: OpenCode's HTTP API, spoken to as its clients do.

mod access;
mod acp_requests;
mod api;
mod busy;
mod document;
mod errors;
mod limits;
mod opening;
mod pairing;
mod prompt;
mod services;
mod session;
mod transcript;
