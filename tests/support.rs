//! Support of the end-to-end tests: a scratch machine, a scripted model, a web server, a strict client, a
//! schema check.

pub mod agent;
pub mod browser;
pub mod http;
pub mod link;
pub mod llm;
pub mod message;
pub mod nodes;
pub mod outside;
pub mod people;
pub mod postgres;
pub mod process;
pub mod random;
pub mod schema;
pub mod scratch;
pub mod server;
pub mod skip;
pub mod stopwatch;
pub mod terminal;
pub mod tls;
pub mod transcript;
pub mod web;
