//! Paths of files: our own state, and OpenCode's directories that are only read (facts: OpenCode §1.6).

use std::path::PathBuf;

use super::environment::Environment;

/// The name of the directory of worktrees that were made for tasks, by project.
pub const WORKTREES: &str = "worktree";

/// Directories and files outside any project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Our data: `WINDLASS_HOME`, else `$XDG_DATA_HOME/windlass`, else `~/.local/share/windlass`.
    pub data: PathBuf,
    /// Directory of the store where it is not among our data.
    pub store: Option<PathBuf>,
    /// OpenCode's global configuration: `$XDG_CONFIG_HOME/opencode` or `~/.config/opencode`.
    pub opencode_config: PathBuf,
    /// OpenCode's data: `$XDG_DATA_HOME/opencode` or `~/.local/share/opencode`.
    pub opencode_data: PathBuf,
    /// Directories of an administrator's configuration, the weakest first.
    pub managed: Vec<PathBuf>,
}

impl Paths {
    /// Works the directories out from the environment.
    pub fn new(environment: &Environment) -> Self {
        let xdg = |name: &str, fallback: &str| {
            environment
                .get(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
                .unwrap_or_else(|| environment.home.join(fallback))
        };
        let data_home = xdg("XDG_DATA_HOME", ".local/share");
        let data =
            environment.get("WINDLASS_HOME").map(PathBuf::from).unwrap_or_else(|| data_home.join("windlass"));
        Self {
            data,
            store: None,
            opencode_config: xdg("XDG_CONFIG_HOME", ".config").join("opencode"),
            opencode_data: data_home.join("opencode"),
            managed: managed(environment),
        }
    }

    fn stored(&self, name: &str) -> PathBuf {
        self.store.as_ref().unwrap_or(&self.data).join(name)
    }

    /// Returns the file of the store.
    pub fn database(&self) -> PathBuf {
        self.stored("windlass.db")
    }

    /// Returns the file of the changes that the store has not taken over yet.
    pub fn database_log(&self) -> PathBuf {
        self.stored("windlass.db-wal")
    }

    /// Returns the file of the accounts of a server's people.
    pub fn accounts(&self) -> PathBuf {
        self.data.join("accounts.db")
    }

    /// Returns the file of the tokens by which this user is logged in at servers.
    pub fn servers(&self) -> PathBuf {
        self.data.join("servers.json")
    }

    /// Returns the file of the projects that the user trusts.
    pub fn trust(&self) -> PathBuf {
        self.data.join("trust.json")
    }

    /// Returns the directory of the full texts of cut tool outputs.
    pub fn tool_output(&self) -> PathBuf {
        self.stored("tool-output")
    }

    /// Returns the directory of snapshots of worktrees.
    pub fn snapshots(&self) -> PathBuf {
        self.stored("snapshot")
    }

    /// Returns the directory of plans that are written outside of a project.
    pub fn plans(&self) -> PathBuf {
        self.data.join("plans")
    }

    /// Returns the directory of the worktrees that are made for tasks.
    pub fn worktrees(&self) -> PathBuf {
        self.data.join(WORKTREES)
    }

    /// Returns the directory of fetched files.
    pub fn cache(&self) -> PathBuf {
        self.data.join("cache")
    }

    /// Returns the directory of a language server that was installed on command.
    pub fn language_server(&self, id: &str) -> PathBuf {
        self.cache().join("language-servers").join(id)
    }

    /// Returns the directory of texts that were fetched for URLs of the configuration.
    pub fn pages(&self) -> PathBuf {
        self.cache().join("pages")
    }

    /// Returns the directory of agents that were fetched for `windlass.agents.urls`.
    pub fn market(&self) -> PathBuf {
        self.cache().join("agents")
    }

    /// Returns the directory of skills that were fetched for `skills.urls`.
    pub fn skills(&self) -> PathBuf {
        self.cache().join("skills")
    }

    /// Returns the file of our credentials.
    pub fn auth(&self) -> PathBuf {
        self.data.join("auth.json")
    }

    /// Returns the file of OpenCode's credentials, which is only read.
    pub fn opencode_auth(&self) -> PathBuf {
        self.opencode_data.join("auth.json")
    }

    /// Returns the file of our logins at MCP servers.
    pub fn mcp_auth(&self) -> PathBuf {
        self.data.join("mcp-auth.json")
    }

    /// Returns the file of OpenCode's, which is only read.
    pub fn opencode_mcp_auth(&self) -> PathBuf {
        self.opencode_data.join("mcp-auth.json")
    }

    /// Returns the directory of the log's files.
    pub fn log(&self) -> PathBuf {
        self.data.join("log")
    }

    /// Returns the file of the lines that were typed in chats.
    pub fn chat_history(&self) -> PathBuf {
        self.data.join("chat-history")
    }

    /// Returns the file of the model that was used last.
    pub fn state(&self) -> PathBuf {
        self.data.join("state.json")
    }
}

/// Returns the directories of an administrator's configuration. The variable adds one and takes none away, or it
/// would be a way around them.
fn managed(environment: &Environment) -> Vec<PathBuf> {
    let system =
        if cfg!(target_os = "macos") { "/Library/Application Support/opencode" } else { "/etc/opencode" };
    let named = environment.get("WINDLASS_MANAGED_CONFIG").map(PathBuf::from);
    named.filter(|path| path.is_absolute()).into_iter().chain([PathBuf::from(system)]).collect()
}

#[cfg(test)]
mod tests {
    //! Places of the administrator's files.

    use std::path::{Path, PathBuf};

    use super::Paths;
    use crate::config::Environment;

    #[test]
    fn a_variable_adds_a_weaker_directory_and_displaces_none() {
        let managed = |value: &str| {
            let variables = [("WINDLASS_MANAGED_CONFIG".to_owned(), value.to_owned())].into();
            Paths::new(&Environment { trusts_projects: true, variables, home: "/h".into() }).managed
        };
        let system: &Path = if cfg!(target_os = "macos") {
            Path::new("/Library/Application Support/opencode")
        } else {
            Path::new("/etc/opencode")
        };
        for value in ["", "relative", "../etc"] {
            assert_eq!(managed(value), [system]);
        }
        assert_eq!(managed("/own"), [Path::new("/own"), system]);
        assert_eq!(managed("/etc/opencode/../other").last().map(PathBuf::as_path), Some(system));
    }
}
