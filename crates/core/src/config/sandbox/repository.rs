//! Files that steer git in a repository: a command may not write them, although it may commit.

use std::{
    fs,
    path::{Path, PathBuf},
};

use windlass_base::{git::settings::settings, path::absolute};

use crate::config::{git_settings::GitSettings, text_file};

/// Submodules, and those within them, that are looked at.
const MAX_MODULES: usize = 1000;

/// A worktree and where git keeps it.
pub(super) struct Repository {
    worktree: PathBuf,
    /// Its own directory: `.git`, or one below that of the main worktree or of the repository around a submodule.
    pub(super) git: PathBuf,
    /// The directory that all linked worktrees share.
    pub(super) common: PathBuf,
    /// The hooks that the user names for all repositories.
    hooks: Option<PathBuf>,
}

impl Repository {
    /// Finds the repository of a worktree, unless its `.git` leads elsewhere than git puts it: a file in the workspace
    /// must not make other directories writable.
    pub(super) fn around(worktree: &Path, user: &GitSettings) -> Option<Self> {
        let worktree = fs::canonicalize(worktree).ok()?;
        let named = worktree.join(".git");
        let is_directory = named.symlink_metadata().ok()?.is_dir();
        let git = if is_directory { named.clone() } else { linked(&named)? };
        let common = match text_file::read(&git.join("commondir")) {
            Ok(text) if !is_directory => fs::canonicalize(git.join(text.trim_end())).ok()?,
            Ok(_) | Err(_) => git.clone(),
        };
        let is_linked = git.starts_with(common.join("worktrees")) && leads_back(&git, &named);
        let is_known = is_directory || is_linked || work_of(&git).as_ref() == Some(&worktree);
        let is_repository = common.join("objects").is_dir() && common.join("refs").is_dir();
        let hooks = user.hooks_directory(&worktree);
        (is_known && is_repository).then_some(Self { worktree, git, common, hooks })
    }

    /// Directories that git writes when it works in the worktree.
    pub(super) fn writable(&self) -> Vec<PathBuf> {
        git_directories(&self.git, &self.common).cloned().collect()
    }

    /// Files and directories by which git can be made to run something, whether they exist or not.
    pub(super) fn protected_paths(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        if !self.worktree.join(".git").is_dir() {
            found.push(self.worktree.join(".git"));
        }
        for directory in git_directories(&self.git, &self.common) {
            add(directory, &mut found);
        }
        if let Some(hooks) = setting(&self.common, "hookspath") {
            found.push(absolute(&self.worktree, &hooks));
        }
        found.extend(self.hooks.clone());
        for linked in subdirectories(&self.common.join("worktrees")) {
            found.extend(["gitdir", "commondir", "config.worktree"].map(|name| linked.join(name)));
            found.extend(text_file::read(&linked.join("gitdir")).ok().map(|text| text.trim_end().into()));
        }
        for module in modules(&self.common) {
            add(&module, &mut found);
            found.extend(work_of(&module).map(|work| work.join(".git")));
        }
        found
    }
}

/// Returns a repository's own and common directory; only a linked worktree has two.
pub(super) fn git_directories<'a>(
    git: &'a PathBuf,
    common: &'a PathBuf,
) -> impl Iterator<Item = &'a PathBuf> {
    [git].into_iter().chain(Some(common).filter(|it| *it != git))
}

fn add(git: &Path, found: &mut Vec<PathBuf>) {
    found.extend(["hooks", "config", "config.worktree", "commondir"].map(|name| git.join(name)));
}

/// Returns the directory that a `.git` file names.
fn linked(file: &Path) -> Option<PathBuf> {
    let text = text_file::read(file).ok()?;
    let named = text.strip_prefix("gitdir:")?.trim();
    fs::canonicalize(file.parent()?.join(named)).ok()
}

/// Returns true if a linked worktree's directory names this one as its own.
fn leads_back(git: &Path, named: &Path) -> bool {
    let Ok(text) = text_file::read(&git.join("gitdir")) else { return false };
    fs::canonicalize(git.join(text.trim_end())).is_ok_and(|back| back == *named)
}

/// Returns the worktree that a submodule's configuration names.
fn work_of(git: &Path) -> Option<PathBuf> {
    fs::canonicalize(git.join(setting(git, "worktree")?)).ok()
}

/// Returns a setting of the section `core`, the last that is there.
fn setting(git: &Path, name: &str) -> Option<String> {
    let text = text_file::read(&git.join("config")).ok()?;
    let mut values = settings(&text).into_iter().filter(|it| it.is("core", name));
    values.next_back()?.value
}

/// Returns the directories of submodules, also of those in linked worktrees, and of pretended ones: one that once had a
/// `HEAD` gets it back. A module's name may have slashes.
pub(super) fn modules(common: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let worktrees = subdirectories(&common.join("worktrees"));
    let mut ahead: Vec<PathBuf> =
        [common.to_owned()].into_iter().chain(worktrees).map(|it| it.join("modules")).collect();
    while let Some(directory) = ahead.pop() {
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        for (module, kind) in entries.filter_map(|it| Some((it.path(), it.file_type().ok()?))) {
            if found.len() == MAX_MODULES {
                return found;
            }
            let is_module = kind.is_symlink() || module.join("HEAD").symlink_metadata().is_ok();
            if kind.is_dir() {
                ahead.push(if is_module { module.join("modules") } else { module.clone() });
            }
            found.extend(Some(module).filter(|_| is_module));
        }
    }
    found
}

pub(super) fn subdirectories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir())).map(|it| it.path()).collect()
}
