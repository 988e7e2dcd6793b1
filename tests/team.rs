//! A server with accounts: people have sessions of their own, and share them in steps.

mod account;
mod browser;
mod fleet;
mod routes;
mod sharing;
