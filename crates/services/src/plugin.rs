//! Plugins and custom tools: programs of users that one JavaScript process for each directory runs.

pub mod api;
pub mod fetch;
mod fetches;
mod files;
pub mod host;
pub mod manifest;
pub mod offer;
pub mod packages;
pub mod plan;
mod process;
pub mod runtime;
