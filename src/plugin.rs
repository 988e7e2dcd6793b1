//! Plugins and custom tools: programs of users that one JavaScript process for each directory runs.

pub mod api;
mod files;
pub mod host;
pub mod offer;
pub mod packages;
pub mod plan;
mod process;
pub mod runtime;
