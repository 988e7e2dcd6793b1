//! Configurations for tests of other modules and crates.

use std::{collections::BTreeMap, path::Path};

use super::{Config, Environment, layers, paths::Paths, project_files::ProjectFiles};

/// Loads the configuration of `directory` from every source.
pub fn load(environment: &Environment, paths: &Paths, directory: &Path) -> Config {
    layers::load(environment, paths, directory, &[], None).0
}

/// Loads the configuration of the directory `project` below `root`, trusted by a user with home and records beside
/// it.
pub fn project(root: &Path) -> Config {
    let variables = BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]);
    let environment = Environment { trusts_projects: true, variables, home: root.join("home") };
    let paths = Paths {
        data: root.join("data"),
        store: None,
        opencode_config: root.join("opencode-config"),
        opencode_data: root.join("opencode-data"),
        managed: Vec::new(),
    };
    let mut config = load(&environment, &paths, &root.join("project"));
    config.worktree = root.join("project");
    config.protected = Default::default();
    config
}

/// Returns the project around `directory`, of a user without a home.
pub fn project_files(directory: &Path) -> ProjectFiles {
    let environment = Environment { home: "/nowhere".into(), ..Environment::default() };
    ProjectFiles::find(&environment, &Paths::new(&environment), directory)
}
