//! MCP servers that a client brings along for one session.

use std::{collections::BTreeMap, time::Duration};

use windlass_core::config::sandbox::enclosure::Enclosure;
use windlass_protocol::opencode::config::McpOauthClient;
use windlass_services::mcp;

/// An MCP server that a client brings along for one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientServer {
    /// A child process: program and arguments.
    Stdio {
        name: String,
        command: Vec<String>,
        environment: BTreeMap<String, String>,
    },
    Http {
        name: String,
        url: String,
        headers: BTreeMap<String, String>,
    },
    /// A server that lives in the client.
    Linked {
        name: String,
        link: mcp::Link,
    },
}

impl ClientServer {
    pub(super) fn spec(self, timeout: Duration, sandbox: Option<Enclosure>) -> mcp::ServerSpec {
        let (name, server) = match self {
            Self::Stdio { name, command, environment } => {
                (name, mcp::Server::Local { command, cwd: None, environment })
            }
            Self::Http { name, url, headers } => {
                let oauth = Some(McpOauthClient::default());
                (name, mcp::Server::Remote { url, headers, oauth })
            }
            Self::Linked { name, link } => (name, mcp::Server::Linked(link)),
        };
        mcp::ServerSpec { name, server, timeout, sandbox, is_foreign: false }
    }
}
