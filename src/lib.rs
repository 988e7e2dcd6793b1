//! windlass: sessions, turns, tools and permissions behind the Agent Client Protocol.
//!
//! Modules stand in reading order, lowest floor first; a module imports only lower floors (ARCHITECTURE.md).

pub mod base;

pub mod bus;
pub mod config;
pub mod storage;

pub mod library;
pub mod lsp;
pub mod mcp;
pub mod permission;
pub mod plugin;
pub mod provider;
pub mod pty;
pub mod snapshot;
pub mod transcript;

pub mod tool;

pub mod engine;

pub mod acp;
pub mod cli;
pub mod http;
pub mod mcp_server;
