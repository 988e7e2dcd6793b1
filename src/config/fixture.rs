//! Configurations for tests of other modules.

use std::path::Path;

use super::{Config, Environment, layers, paths::Paths};

/// Loads the configuration of `directory` from every source.
pub fn load(environment: &Environment, paths: &Paths, directory: &Path) -> Config {
    layers::load(environment, paths, directory, &[], None).0
}
