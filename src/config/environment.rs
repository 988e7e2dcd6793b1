//! The process's environment, read once at the top and handed down.

use std::{collections::BTreeMap, path::PathBuf};

/// Variables and the home directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    pub variables: BTreeMap<String, String>,
    pub home: PathBuf,
    /// Everything that a project brings acts at once, because whoever started this process says so.
    pub trusts_projects: bool,
}

impl Environment {
    /// Returns a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns true if an on/off variable is on: set, and neither `0` nor `false`.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !matches!(value, "0" | "false"))
    }
}
