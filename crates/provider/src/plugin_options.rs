//! Options that plugins set for a provider with a stored login.

use std::collections::BTreeMap;

use super::{Secret, http::fetch::Fetch};

/// Options that go over those of the configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginOptions {
    pub api_key: Option<Secret>,
    pub base_url: Option<String>,
    pub headers: BTreeMap<String, String>,
    pub fetch: Option<Fetch>,
}
