//! `windlass serve`: OpenCode's HTTP API, spoken to as its clients do.

mod access;
mod api;
mod limits;
mod prompt;
mod services;
mod session;
mod transcript;
