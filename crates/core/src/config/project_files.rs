//! The files of a project that are obeyed: none that others can write, and none behind a link that leaves the project.

use std::{
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
};

use windlass_base::{path::absolute, pinned};

use super::{
    Environment,
    judge::{self, Judge},
    paths::Paths,
    refusal::Refusal,
    text_file::{self, Unreadable},
    worktree,
};

/// The files of one project.
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectFiles {
    judge: Judge,
    /// `/` outside git.
    pub worktree: PathBuf,
    /// Repositories around the directory that are not obeyed.
    pub refused: Vec<Refusal>,
    /// The worktree, or without one the session's directory.
    root: PathBuf,
    /// The root with its links followed.
    real_root: PathBuf,
    /// The directory that the user has to call safe.
    named_root: PathBuf,
    /// True if the user does; known only where all of the project is another user's, and looked up elsewhere.
    is_safe: Option<bool>,
    /// The user's own files and directories, which may also be within the project.
    users: Vec<PathBuf>,
    /// Links may leave the project, because the user that started this process trusts it.
    follows_links: bool,
    /// Directories of keys and records, and within them those that may be read.
    hidden: Vec<PathBuf>,
    shown: Vec<PathBuf>,
}

impl ProjectFiles {
    /// Finds the project around a directory. Does blocking reads.
    pub fn find(environment: &Environment, paths: &Paths, directory: &Path) -> Self {
        let judge = Judge::new(environment);
        let worktree::Found { root: worktree, refused } = worktree::find(&judge, directory);
        let root = if worktree == Path::new("/") { directory } else { worktree.as_path() };
        let root = absolute(Path::new("/"), root);
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_outside_git = worktree == Path::new("/");
        let nearest = refused.first().filter(|_| is_outside_git).map(|(root, _)| root.clone());
        let named_root = nearest.unwrap_or_else(|| root.clone());
        let is_faulty = fs::metadata(&root).is_ok_and(|metadata| judge.fault(&metadata).is_some());
        let is_safe = is_faulty.then(|| judge.is_safe(&named_root));
        let home = &environment.home;
        let named =
            ["OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR"].into_iter().filter_map(|it| environment.get(it));
        let mut users: Vec<PathBuf> = named.map(|named| absolute(directory, named)).collect();
        users.extend([".opencode", ".claude", ".agents"].map(|name| home.join(name)));
        users.push(paths.opencode_config.clone());
        users.push(paths.cache());
        users.extend(paths.managed.clone());
        Self {
            judge,
            refused: refused.into_iter().map(|(_, refusal)| refusal).collect(),
            real_root: real(&root),
            named_root,
            follows_links: environment.trusts_projects,
            is_safe,
            root,
            worktree,
            users: users.into_iter().filter(|it| it.is_absolute()).collect(),
            hidden: [&paths.data, &paths.opencode_data].map(|it| real(it)).into(),
            shown: [
                paths.tool_output(),
                paths.plans(),
                paths.cache(),
                paths.worktrees(),
                paths.opencode_data.join("worktree"),
            ]
            .map(|it| real(&it))
            .into(),
        }
    }

    /// Returns true if a path is in the project by its name, and not one of the user's own.
    pub fn has(&self, path: &Path) -> bool {
        (path.starts_with(&self.root) || path.starts_with(&self.real_root)) && !self.is_users(path)
    }

    fn is_users(&self, path: &Path) -> bool {
        self.users.iter().any(|own| path.starts_with(own))
    }

    /// Returns true for keys and records, by a path with its links followed.
    pub fn hides(&self, real: &Path) -> bool {
        let is_in = |directories: &[PathBuf]| directories.iter().any(|it| real.starts_with(it));
        is_in(&self.hidden) && !is_in(&self.shown)
    }

    /// Fails for keys and records, which commands cannot read either.
    fn check_hidden(&self, path: &Path, real: &Path) -> Result<(), Unreadable> {
        if self.hides(real) {
            let reason = "is among the keys and records of windlass or OpenCode, so it is not used";
            return Err(refused(path, reason.to_owned()));
        }
        Ok(())
    }

    /// Returns the text of a file; one of the project only if it may be obeyed. Blocks.
    pub fn read(&self, path: &Path) -> Result<String, Unreadable> {
        text_file::read_opened(self.open(path)?)
    }

    /// Does the same for a file of settings, which may be a link to anywhere: no text of it reaches a model.
    pub fn read_settings(&self, path: &Path) -> Result<String, Unreadable> {
        text_file::read_opened(self.open_at(path, true)?)
    }

    /// Opens a regular file for reading; one of the project only if it may be obeyed. Blocks, but never on a pipe.
    pub fn open(&self, path: &Path) -> Result<File, Unreadable> {
        self.open_at(path, self.follows_links)
    }

    fn open_at(&self, path: &Path, follows_links: bool) -> Result<File, Unreadable> {
        let path = absolute(Path::new("/"), path);
        if self.is_users(&path) {
            return text_file::open(&path);
        }
        if !self.has(&path) {
            self.check_hidden(&path, &fs::canonicalize(&path)?)?;
            return text_file::open(&path);
        }
        let (real, metadata) = self.judged(&path, follows_links)?;
        if !metadata.is_file() {
            return Err(Unreadable::NotAFile);
        }
        let file = match pinned::open_file(&real) {
            Err(error) if pinned::is_moved(&error) => {
                return Err(io::Error::other("a link was put in its place meanwhile").into());
            }
            opened => opened?,
        };
        let opened = file.metadata()?;
        if !opened.is_file() {
            return Err(Unreadable::NotAFile);
        }
        // The file may have been replaced since it was looked at.
        self.check(&path, &opened)?;
        Ok(file)
    }

    /// Returns why a file or a directory is treated as if it were not there. Does blocking reads.
    pub fn refusal(&self, path: &Path) -> Option<Refusal> {
        let path = absolute(Path::new("/"), path);
        match self.has(&path).then(|| self.judged(&path, self.follows_links))? {
            Err(Unreadable::Refused(refusal)) => Some(*refusal),
            Ok(_) | Err(_) => None,
        }
    }

    /// Judges a path of the project and the directories that lead to it. Returns it with its links followed.
    fn judged(&self, path: &Path, follows_links: bool) -> Result<(PathBuf, Metadata), Unreadable> {
        let mut metadata = fs::symlink_metadata(path)?;
        let (named_root, below) = match path.strip_prefix(&self.root) {
            Ok(below) => (&self.root, below),
            Err(_) => (&self.real_root, path.strip_prefix(&self.real_root).unwrap_or(path)),
        };
        self.check(named_root, &fs::metadata(&self.real_root)?)?;
        let mut has_links = false;
        let mut at = named_root.clone();
        for name in below.components() {
            at.push(name);
            let found = fs::symlink_metadata(&at)?;
            has_links |= found.is_symlink();
            self.check(&at, &found)?;
        }
        let mut real = self.real_root.join(below);
        if has_links {
            real = fs::canonicalize(path)?;
            metadata = fs::metadata(&real)?;
            self.check_target(path, &real, follows_links)?;
        }
        self.check_hidden(path, &real)?;
        Ok((real, metadata))
    }

    /// Judges the target of a link.
    fn check_target(&self, path: &Path, real: &Path, follows_links: bool) -> Result<(), Unreadable> {
        let Ok(below) = real.strip_prefix(&self.real_root) else {
            if follows_links {
                return self.check(path, &fs::metadata(real)?);
            }
            let reason = format!(
                "is a link that leaves the project, to {}, so it is not used; put a copy there, or link to it from your \
                 own configuration",
                real.display()
            );
            return Err(refused(path, reason));
        };
        let mut at = self.real_root.clone();
        for name in below.components() {
            at.push(name);
            self.check(&at, &fs::symlink_metadata(&at)?)?;
        }
        Ok(())
    }

    fn check(&self, path: &Path, metadata: &Metadata) -> Result<(), Unreadable> {
        let Some(fault) = self.judge.fault(metadata) else { return Ok(()) };
        if self.is_safe.unwrap_or_else(|| self.judge.is_safe(&self.named_root)) {
            return Ok(());
        }
        let refusal = judge::refusal(&self.named_root, path, metadata, fault);
        Err(Unreadable::Refused(Box::new(refusal)))
    }
}

fn refused(path: &Path, reason: String) -> Unreadable {
    Unreadable::Refused(Box::new(Refusal { path: path.to_owned(), reason }))
}

#[cfg(test)]
mod tests;
