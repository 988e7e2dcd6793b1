//! `windlass serve`: OpenCode's HTTP API, spoken to as its clients do.

mod access;
mod api;
mod prompt;
mod session;
