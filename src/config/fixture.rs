//! Configurations for tests of other modules.

use std::path::Path;

use super::{Config, Environment, layers, paths::Paths, project_files::ProjectFiles};

/// Loads the configuration of `directory` from every source.
pub fn load(environment: &Environment, paths: &Paths, directory: &Path) -> Config {
    layers::load(environment, paths, directory, &[], None).0
}

/// Returns the project around `directory`, of a user without a home.
pub fn project_files(directory: &Path) -> ProjectFiles {
    let environment = Environment { home: "/nowhere".into(), ..Environment::default() };
    ProjectFiles::find(&environment, &Paths::new(&environment), directory)
}
