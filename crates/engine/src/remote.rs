//! Fetches the resources that a configuration names by URL.

pub mod agent_urls;
pub mod download;
pub mod fetch;
pub mod listed;
pub mod pages;
pub mod remote_config;
pub mod skill_urls;
