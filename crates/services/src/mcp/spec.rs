//! A server to start, as the configuration has it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use windlass_core::config::{
    Config, ProjectAddresses,
    sandbox::enclosure::{Enclosure, Enclosures},
    secrets,
};
use windlass_protocol::opencode::config::{McpConfig, McpOauth, McpOauthClient};

use super::Link;

/// Default time limit for each of connecting, listing and calling.
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The way to reach a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// A child process with MCP on its pipes.
    Local {
        /// Program and arguments.
        command: Vec<String>,
        /// The working directory; relative paths, and the default, start from the directory of the [`Servers`].
        cwd: Option<PathBuf>,
        environment: BTreeMap<String, String>,
    },
    /// A server over streamable HTTP.
    Remote {
        url: String,
        headers: BTreeMap<String, String>,
        /// Our identity at its login; absent where it is switched off.
        oauth: Option<McpOauthClient>,
    },
    /// A server that lives in the client.
    Linked(Link),
}

impl Server {
    /// Reads an entry of `mcp`.
    pub fn of(config: &McpConfig) -> Self {
        match config {
            McpConfig::Local { command, cwd, environment, .. } => Self::Local {
                command: command.clone(),
                cwd: cwd.as_ref().map(PathBuf::from),
                environment: environment.clone(),
            },
            McpConfig::Remote { url, headers, oauth, .. } => {
                let oauth = match oauth {
                    Some(McpOauth::Allowed(false)) => None,
                    Some(McpOauth::Allowed(true)) | None => Some(McpOauthClient::default()),
                    Some(McpOauth::Client(client)) => Some(client.clone()),
                };
                Self::Remote { url: url.clone(), headers: headers.clone(), oauth }
            }
        }
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local { command, .. } => f.write_str(&command.join(" ")),
            Self::Remote { url, .. } => f.write_str(url),
            Self::Linked(link) => link.fmt(f),
        }
    }
}

/// A server to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    pub name: String,
    pub server: Server,
    /// Time limit for connecting, for each page of a list, and for a call since its last sign of progress.
    pub timeout: Duration,
    /// The sandbox of a local server.
    pub sandbox: Option<Enclosure>,
    /// True if only the project names the address of a remote server.
    pub is_foreign: bool,
}

/// Returns the time limit of servers that name none: `experimental.mcp_timeout`, else 30 seconds.
pub fn usual_timeout(config: &Config) -> Duration {
    config.settings.experimental.mcp_timeout.map_or(DEFAULT_TIMEOUT, Duration::from_millis)
}

/// Returns the servers among these that are switched on. `is_clients` is true for the names of those that a client has
/// added, in the place of any that the configuration has.
pub fn specs(
    config: &Config,
    servers: &BTreeMap<String, McpConfig>,
    is_clients: impl Fn(&str) -> bool,
) -> Vec<ServerSpec> {
    let (usual, sandboxes) = (usual_timeout(config), Enclosures::of_mcp(config));
    let specs = servers.iter().filter_map(|(name, server)| {
        let programs = &config.project_programs;
        let sandbox = match server {
            McpConfig::Local { command, .. } => {
                let is_inside = command.first().is_some_and(|it| programs.holds(Path::new(it)));
                let is_projects = (programs.names("mcp", name) || is_inside) && !is_clients(name);
                if is_projects { sandboxes.of_project() } else { sandboxes.own() }
            }
            McpConfig::Remote { .. } => None,
        };
        ServerSpec::from_config(name, server, usual, sandbox, &config.project_addresses)
    });
    specs.collect()
}

impl ServerSpec {
    /// Reads `mcp.<name>`; `None` if the server is switched off. `usual` is the time limit of a server that names none,
    /// `sandbox` is for a local one. `addresses` are those of the project.
    pub fn from_config(
        name: &str,
        config: &McpConfig,
        usual: Duration,
        sandbox: Option<Enclosure>,
        addresses: &ProjectAddresses,
    ) -> Option<Self> {
        let (McpConfig::Local { enabled, timeout, .. } | McpConfig::Remote { enabled, timeout, .. }) = config;
        if *enabled == Some(false) {
            return None;
        }
        let timeout = timeout.map_or(usual, Duration::from_millis);
        let is_foreign = match config {
            McpConfig::Remote { url, .. } => addresses.has(url),
            McpConfig::Local { .. } => false,
        };
        Some(Self { name: name.to_owned(), server: Server::of(config), timeout, sandbox, is_foreign })
    }

    /// Replaces the values of the server's environment, which are often keys, in a line of its output.
    pub(super) fn masked(&self, line: &str) -> String {
        match &self.server {
            Server::Local { environment, .. } => {
                environment.values().fold(line.to_owned(), |line, value| secrets::hide(&line, value))
            }
            Server::Remote { .. } | Server::Linked(_) => line.to_owned(),
        }
    }
}
