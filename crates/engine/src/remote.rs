//! Fetches the resources that a configuration names by URL.

pub mod agent_urls;
pub mod download;
pub mod fetch;
pub mod listed;
pub mod pages;
pub mod remote_config;
pub mod skill_urls;

use windlass_core::config::paths::Paths;
use windlass_provider::http;

/// Everything that was fetched or is asked for.
pub struct Fetched {
    pub pages: pages::Pages,
    pub asked: download::Asked,
}

impl Fetched {
    pub fn new(http: http::Client, paths: &Paths) -> Self {
        Self { pages: pages::Pages::new(http, paths.pages()), asked: download::Asked::default() }
    }
}
