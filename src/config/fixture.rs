//! Configurations for tests of other modules.

use std::path::Path;

use super::{Config, Environment, layers, paths::Paths};

/// What every source says for `directory`.
pub fn load(environment: &Environment, paths: &Paths, directory: &Path) -> Config {
    layers::load(environment, paths, directory, &[], None).0
}
