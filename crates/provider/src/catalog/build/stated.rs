//! The part of a configuration that is about one provider.

use windlass_core::config::{Config, Environment};
use windlass_protocol::opencode::{config::ProviderConfig, settings::WireName};

/// The part of a configuration that is about one provider.
#[derive(Debug, Clone, Copy)]
pub struct Stated<'a> {
    pub provider: &'a ProviderConfig,
    /// Its entry in `windlass.wire`.
    pub wire: Option<&'a WireName>,
    pub environment: &'a Environment,
}

impl<'a> Stated<'a> {
    /// Takes the part about a provider; `unconfigured` stands for an entry that is not there.
    pub fn of(config: &'a Config, id: &str, unconfigured: &'a ProviderConfig) -> Stated<'a> {
        Stated {
            provider: config.providers.get(id).unwrap_or(unconfigured),
            wire: config.settings.windlass.wire.get(id),
            environment: &config.environment,
        }
    }
}
