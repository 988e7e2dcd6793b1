//! Decides which files are obeyed: those that only the user and root can write, and those that the user calls safe.

use std::{
    fs::{self, Metadata},
    path::Path,
};

use windlass_base::owners::{Fault, Owners};

use super::{Environment, git_settings::GitSettings, refusal::Refusal};

/// The users with files that are obeyed, and the directories that are obeyed for any owner.
#[derive(Debug, Clone, PartialEq)]
pub struct Judge {
    owners: Owners,
    git_settings: GitSettings,
}

impl Judge {
    pub fn new(environment: &Environment) -> Self {
        Self { owners: Owners::new(environment.get("SUDO_UID")), git_settings: GitSettings::new(environment) }
    }

    /// Returns why the repository of a directory is not obeyed. Does blocking reads.
    pub(super) fn refused_repository(&self, root: &Path) -> Option<Refusal> {
        let git = root.join(".git");
        let judged =
            [(root, fs::metadata(root)), (&git, fs::symlink_metadata(&git)), (&git, fs::metadata(&git))];
        // A path that cannot be looked at cannot be used either.
        let judged = judged.into_iter().filter_map(|(path, metadata)| Some((path, metadata.ok()?)));
        let mut faults = judged.filter_map(|(path, metadata)| Some((path, self.fault(&metadata)?, metadata)));
        let (path, fault, metadata) = faults.next()?;
        (!self.is_safe(root)).then(|| refusal(root, path, &metadata, fault))
    }

    /// Returns the way by which others could have put a file there.
    pub(super) fn fault(&self, metadata: &Metadata) -> Option<Fault> {
        self.owners.fault(metadata)
    }

    /// Returns true if the user calls a project safe. Does blocking reads.
    pub(super) fn is_safe(&self, root: &Path) -> bool {
        self.git_settings.is_safe(root)
    }
}

/// Says why a file or a directory of the project `root` is not obeyed, and the way out.
pub(super) fn refusal(root: &Path, path: &Path, metadata: &Metadata, fault: Fault) -> Refusal {
    let rest = if metadata.is_dir() { "nothing in it is used" } else { "it is not used" };
    let safe = format!("`git config --global --add safe.directory {}`", root.display());
    let remedy = match fault.chmod() {
        Some(option) => {
            format!("run `chmod {option} {}`, or, to use the project as it is, {safe}", path.display())
        }
        None => format!("to use the project as it is, run {safe}"),
    };
    Refusal { path: path.to_owned(), reason: format!("{fault}, so {rest}; {remedy}") }
}
