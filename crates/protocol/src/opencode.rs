//! OpenCode's data model as JSON: ids, sessions, messages, parts, permissions, events and configuration files.
//!
//! These types are also the engine's domain types: the JSON is fixed by compatibility, so one type serves
//! storage, HTTP, plugins and notifications without conversion.

pub mod api_error;
pub mod config;
pub mod event;
pub mod file;
pub mod file_diff;
pub mod id;
pub mod inbox;
pub mod message;
pub mod model_ref;
pub mod part;
pub mod permission;
pub mod project;
pub mod provider;
pub mod pty;
pub mod question;
pub mod service;
pub mod session;
pub mod settings;
pub mod time;
pub mod tokens;
pub mod tool;
pub mod tool_metadata;
