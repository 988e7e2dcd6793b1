//! The process's environment, read once at the top and handed down.

use std::{collections::BTreeMap, path::PathBuf};

use windlass_protocol::opencode::settings::{SandboxAtStart, SandboxMode};

/// Keeps windlass's own keys from commands, also outside of a sandbox.
const HIDE_KEYS: &str = "WINDLASS_HIDE_KEYS";

/// The variable by which a command line says which sandbox is used.
const SANDBOX: &str = "WINDLASS_SANDBOX";

/// Its word for a sandbox that nothing leaves.
const REQUIRED: &str = "required";

/// Variables and the home directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    pub variables: BTreeMap<String, String>,
    pub home: PathBuf,
    /// Everything that a project brings acts at once, because the user that started this process says so.
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

    /// Returns the sandbox that was asked for at the start of this process.
    pub fn sandbox_at_start(&self) -> SandboxAtStart {
        match self.get(SANDBOX) {
            None => SandboxAtStart::Unsaid,
            Some("0" | "off" | "false") => SandboxAtStart::Off,
            Some("1" | "true" | "workspace-write" | REQUIRED) => SandboxAtStart::Usual,
            // Any other word means at most that.
            Some(_) => SandboxAtStart::ReadOnly,
        }
    }

    /// Lets the commands of this process run in the usual sandbox, unless its variable says something already.
    pub fn use_sandbox(&mut self) {
        if self.get(SANDBOX).is_none() {
            self.variables.insert(SANDBOX.to_owned(), SandboxMode::WorkspaceWrite.name().to_owned());
        }
    }

    /// Lets no command of this process run outside of a sandbox, against the files if need be.
    pub fn require_sandbox(&mut self) {
        self.variables.insert(SANDBOX.to_owned(), REQUIRED.to_owned());
    }

    /// Returns true if no command of this process runs outside of a sandbox.
    pub fn requires_sandbox(&self) -> bool {
        self.get(SANDBOX) == Some(REQUIRED)
    }

    /// Keeps windlass's own keys from the commands of this process, unless it was started with another word.
    pub fn hide_keys(&mut self) {
        if self.get(HIDE_KEYS).is_none() {
            self.variables.insert(HIDE_KEYS.to_owned(), "1".to_owned());
        }
    }

    /// Returns true if windlass's own keys are kept from commands outside of a sandbox too.
    pub fn hides_keys(&self) -> bool {
        self.is_on(HIDE_KEYS)
    }

    /// Lets the commands of this process run outside of every sandbox that is not required.
    pub fn use_no_sandbox(&mut self) {
        self.variables.insert(SANDBOX.to_owned(), SandboxMode::Off.name().to_owned());
    }
}
