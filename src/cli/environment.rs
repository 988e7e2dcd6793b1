//! Reads the process's environment, once; everything below gets it handed.
#![expect(clippy::disallowed_methods, reason = "this module is the one place that reads the environment")]

use std::path::PathBuf;

use windlass_base::{process::search, program};
use windlass_core::config::Environment;

/// A directory without programs: an empty `PATH` would mean the one that a program is started in.
const NOWHERE: &str = "/";

/// Returns the variables that are valid text, and the home directory. Relative directories of `PATH`, which are a
/// project's, count nowhere, also not for children.
pub fn read() -> Environment {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let home = std::env::home_dir().unwrap_or_else(|| PathBuf::from("/"));
    let mut environment = Environment { variables, home, trusts_projects: false };
    if let Some(given) = std::env::var_os("PATH") {
        let absolute = program::absolute_directories(Some(&given.to_string_lossy()));
        let absolute = if absolute.is_empty() { NOWHERE.to_owned() } else { absolute };
        if given != *absolute {
            search::limit(absolute.clone());
            environment.variables.insert("PATH".to_owned(), absolute);
        }
    }
    environment.trusts_projects = environment.is_on("WINDLASS_TRUST");
    environment
}
