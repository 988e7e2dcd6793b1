//! The sandbox of a server: of MCP servers, language servers, and hosts of plugins.

use std::{io, os::fd::OwnedFd, sync::Arc};

use windlass_protocol::opencode::settings::{SandboxMode, ServerSandbox};

use super::{Wanted, draw, secret_variables, wanted_of_servers};
use crate::{
    base::{
        process::{Child, Spawn},
        sandbox::{self, Level},
    },
    config::Config,
};

/// A sandbox that is drawn when a server is started.
#[derive(Debug, Clone)]
pub struct Enclosure {
    /// The key below `windlass.sandbox`.
    key: &'static str,
    wanted: Wanted,
    config: Arc<Config>,
}

/// Two are the same when their settings are: the rest of the configuration is looked at by the next start only.
impl PartialEq for Enclosure {
    fn eq(&self, other: &Self) -> bool {
        (self.key, &self.wanted) == (other.key, &other.wanted)
    }
}

impl Eq for Enclosure {}

impl Enclosure {
    /// Returns the sandbox of local MCP servers; none where it is off.
    pub fn of_mcp(config: &Config) -> Option<Self> {
        Self::new(config, "mcp", &config.settings.windlass.sandbox.mcp)
    }

    /// Returns the sandbox of language servers; none where it is off.
    pub fn of_lsp(config: &Config) -> Option<Self> {
        Self::new(config, "lsp", &config.settings.windlass.sandbox.lsp)
    }

    /// Returns the sandbox of the host of plugins; none where it is off.
    pub fn of_plugins(config: &Config) -> Option<Self> {
        Self::new(config, "plugins", &config.settings.windlass.sandbox.plugins)
    }

    fn new(config: &Config, key: &'static str, settings: &ServerSandbox) -> Option<Self> {
        let wanted = wanted_of_servers(settings);
        (wanted.mode != SandboxMode::Off).then(|| Self { key, wanted, config: Arc::new(config.clone()) })
    }

    /// Starts a server inside, without the keys of windlass but with the variables that were set for it.
    ///
    /// Fails where the machine can hold no sandbox.
    pub async fn spawn(&self, spawn: &Spawn<'_>) -> io::Result<Child> {
        self.spawn_with_channel(spawn, None).await
    }

    /// Starts a server as [`Self::spawn`] does, with one end of a channel.
    pub async fn spawn_with_channel(&self, spawn: &Spawn<'_>, channel: Option<OwnedFd>) -> io::Result<Child> {
        let found = sandbox::level().await;
        if found.level == Level::None {
            let reason = found.reason.as_deref().unwrap_or("no reason is known");
            return Err(io::Error::other(format!(
                "this machine cannot hold its sandbox ({reason}); `windlass.sandbox.{}.mode` \"off\" starts it without",
                self.key
            )));
        }
        let (config, wanted) = (self.config.clone(), self.wanted.clone());
        let drawing = tokio::task::spawn_blocking(move || {
            (draw(&config, &wanted, found.level).boundary, secret_variables(&config, &wanted.environment))
        });
        let (boundary, mut without) = drawing.await.map_err(io::Error::other)?;
        without.retain(|name| !spawn.environment.contains_key(name));
        sandbox::spawn_with_channel(&Spawn { without: &without, ..*spawn }, &boundary, channel)
    }
}
