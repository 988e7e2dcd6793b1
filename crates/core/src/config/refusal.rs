//! A file or a directory that is treated as if it were not there, and the warning about it.

use std::path::PathBuf;

use super::warning::{Findings, Warning};

/// A file or a directory that is treated as if it were not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    pub path: PathBuf,
    pub reason: String,
}

impl From<&Refusal> for Warning {
    fn from(refusal: &Refusal) -> Self {
        let Refusal { path, reason } = refusal;
        Self { source: path.display().to_string(), line: None, column: None, message: reason.clone() }
    }
}

impl Findings {
    /// Warns of a refused file, once: all files of a directory may be refused for the same reason.
    pub fn refuse(&mut self, refusal: &Refusal) {
        let warning = Warning::from(refusal);
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}
