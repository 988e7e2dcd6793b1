//! The sandbox of a server: of MCP servers, language servers, and hosts of plugins.

use std::{cell::OnceCell, io, os::fd::OwnedFd, path::Path, sync::Arc};

use windlass_base::{
    process::{self, Child, Spawn},
    program,
    proxy::{self, gate::Gate},
    sandbox::{self, Level},
};
use windlass_protocol::opencode::settings::{SandboxMode, SandboxSettings, ServerSandbox};

use super::{Wanted, draw, placeholders, secret_variables, wanted_of_projects_servers, wanted_of_servers};
use crate::config::Config;

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

/// The sandboxes of one kind of servers.
#[derive(Debug)]
pub struct Enclosures<'a> {
    key: &'static str,
    own: Wanted,
    of_project: Wanted,
    config: &'a Config,
    /// A copy for all that are handed out, made for the first.
    shared: OnceCell<Arc<Config>>,
}

impl<'a> Enclosures<'a> {
    /// Returns the sandboxes of local MCP servers.
    pub fn of_mcp(config: &'a Config) -> Self {
        Self::new(config, "mcp", |sandbox| &sandbox.mcp)
    }

    /// Returns the sandboxes of language servers.
    pub fn of_lsp(config: &'a Config) -> Self {
        Self::new(config, "lsp", |sandbox| &sandbox.lsp)
    }

    fn new(config: &'a Config, key: &'static str, part: impl Fn(&SandboxSettings) -> &ServerSandbox) -> Self {
        let (own, whole) = (&config.own_sandbox, &config.settings.windlass.sandbox);
        let of_project = wanted_of_projects_servers(part(own), part(whole), own.at_start);
        Self { key, own: wanted_of_servers(part(whole)), of_project, config, shared: OnceCell::new() }
    }

    /// Returns the sandbox of the user's own servers, and of a client's; none where it is off.
    pub fn own(&self) -> Option<Enclosure> {
        self.enclosure(&self.own)
    }

    /// Returns the sandbox of servers that a project brings; none where it is off.
    pub fn of_project(&self) -> Option<Enclosure> {
        self.enclosure(&self.of_project)
    }

    fn enclosure(&self, wanted: &Wanted) -> Option<Enclosure> {
        let config = || self.shared.get_or_init(|| Arc::new(self.config.clone())).clone();
        (wanted.mode != SandboxMode::Off).then(|| Enclosure {
            key: self.key,
            wanted: wanted.clone(),
            config: config(),
        })
    }
}

/// Returns the sandbox of the user's own plugins and that of a project's; none for those that run outside.
pub async fn of_plugins(config: &Config) -> (Option<Enclosure>, Option<Enclosure>) {
    let sandboxes = Enclosures::new(config, "plugins", |sandbox| &sandbox.plugins);
    let of_project = sandboxes.of_project();
    // Plugins outside may do more, so it has to be known before they are started.
    let is_held = match &of_project {
        Some(held) if held.wanted.is_default => sandbox::level().await.level.is_full(),
        Some(_) | None => true,
    };
    (sandboxes.own(), of_project.filter(|_| is_held))
}

impl Enclosure {
    /// Returns the words for a server that fails in a sandbox that nobody has asked for.
    pub fn hint(&self) -> Option<String> {
        (self.wanted.is_default && sandbox::is_known_full()).then(|| {
            format!(
                "it runs in a sandbox, as it is the project's; `windlass.sandbox.{}.mode` \"off\" in your own \
                 configuration starts it without",
                self.key
            )
        })
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
        if self.wanted.is_default && !found.level.is_full() {
            return match channel {
                Some(channel) => process::spawn_with_channel(spawn, channel),
                None => process::spawn(spawn),
            };
        }
        if found.level == Level::None {
            let reason = found.reason.as_deref().unwrap_or("no reason is known");
            return Err(io::Error::other(format!(
                "this machine cannot hold its sandbox ({reason}); `windlass.sandbox.{}.mode` \"off\" starts it without",
                self.key
            )));
        }
        // A launcher could only be told that it has failed.
        let search = spawn.environment.get("PATH").or_else(|| self.config.environment.variables.get("PATH"));
        if program::find(search.map(String::as_str), spawn.directory, Path::new(spawn.program)).is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (config, wanted) = (self.config.clone(), self.wanted.clone());
        let drawing = tokio::task::spawn_blocking(move || {
            let boundary = draw(&config, &wanted, found.level).boundary;
            Ok::<_, io::Error>((
                boundary,
                secret_variables(&config, &wanted.environment),
                placeholders(&config, &wanted)?,
            ))
        });
        let (boundary, mut without, keys) = drawing.await.map_err(io::Error::other)??;
        without.retain(|name| !spawn.environment.contains_key(name));
        let keys = keys.map(|it| it.except(spawn.environment));
        let spawn = &Spawn { without: &without, ..*spawn };
        // Nobody is asked about a server's connections.
        let gate =
            self.wanted.network.names().map(|names| Arc::new(Gate::new(names.clone(), None, keys.clone())));
        proxy::spawn(spawn, &boundary, gate.as_ref(), channel)
    }
}
