//! Reads the process's environment, once; everything below gets it handed.
#![expect(clippy::disallowed_methods, reason = "this module is the one place that reads the environment")]

use std::path::PathBuf;

use crate::config::Environment;

/// Returns the variables that are valid text, and the home directory.
pub fn read() -> Environment {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let home = std::env::home_dir().unwrap_or_else(|| PathBuf::from("/"));
    let mut environment = Environment { variables, home, trusts_projects: false };
    environment.trusts_projects = environment.is_on("WINDLASS_TRUST");
    environment
}
