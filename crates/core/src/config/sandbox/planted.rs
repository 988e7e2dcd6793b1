//! Finds files that commands have put into a repository's directories and that git would obey or does not put there.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use windlass_base::git::{
    repository,
    settings::{Setting, settings},
};

use super::repository::{Repository, git_directories, modules, subdirectories};
use crate::config::text_file;

/// Entries of a repository's directory that git and its companions write in everyday work, beside those in capitals and
/// locks. None of them is run.
const WRITTEN: [&str; 35] = [
    "ADD_EDIT.patch",
    "addp-hunk-edit.diff",
    "annex",
    "branchless",
    "description",
    "filter-repo",
    "fsmonitor--daemon",
    "fsmonitor--daemon.ipc",
    "gc.log",
    "gc.pid",
    "git-crypt",
    "gitbutler",
    "gitk.cache",
    "index",
    "info",
    "lfs",
    "locked",
    "logs",
    "lost-found",
    "machete",
    "modules",
    "objects",
    "opencode",
    "packed-refs",
    "packed-refs.new",
    "rebase-apply",
    "rebase-merge",
    "rebased-patches",
    "refs",
    "reftable",
    "rr-cache",
    "sequencer",
    "svn",
    "tmp",
    "worktrees",
];
/// The rest of their names differs.
const WRITTEN_BEGINNINGS: [&str; 4] = ["index.", "sharedindex.", "shallow", "tmp_"];
/// Settings of a submodule or a worktree as git makes them, by section without its subsection.
const PLAIN: [(&str, &str); 26] = [
    ("core", "repositoryformatversion"),
    ("core", "filemode"),
    ("core", "bare"),
    ("core", "logallrefupdates"),
    ("core", "worktree"),
    ("core", "ignorecase"),
    ("core", "precomposeunicode"),
    ("core", "symlinks"),
    ("extensions", "objectformat"),
    ("extensions", "refstorage"),
    ("remote", "url"),
    ("remote", "fetch"),
    ("branch", "remote"),
    ("branch", "merge"),
    ("branch", "rebase"),
    ("submodule", "active"),
    ("submodule", "url"),
    ("init", "defaultbranch"),
    ("core", "sparsecheckout"),
    ("core", "sparsecheckoutcone"),
    ("index", "sparse"),
    ("remote", "promisor"),
    ("remote", "partialclonefilter"),
    ("submodule", "alternatelocation"),
    ("submodule", "alternateerrorstrategy"),
    ("lfs", "repositoryformatversion"),
];
/// End of the name that a path gets which may not stay. Git reads no file of its own of such a name, nor such a hook.
const MOVED: &str = ".refused";
/// Names that are tried for one.
const MAX_MOVED_NAMES: usize = 100;
/// The steps of a rebase that are still to be done.
const STEPS: &str = "rebase-merge/git-rebase-todo";

/// A repository as it was before the commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Before {
    git: PathBuf,
    common: PathBuf,
    entries: HashSet<PathBuf>,
    worktrees: Vec<PathBuf>,
    modules: Vec<PathBuf>,
    /// The commands that rebases under way are going to run.
    steps: BTreeMap<PathBuf, Vec<String>>,
}

impl Before {
    pub(super) fn of(repository: &Repository) -> Self {
        let Repository { git, common, .. } = repository;
        let entries = git_directories(git, common).flat_map(|directory| entries(directory)).collect();
        let (worktrees, modules) = (subdirectories(&common.join("worktrees")), modules(common));
        let (git, common) = (git.clone(), common.clone());
        let mut before = Self { git, common, entries, worktrees, modules, steps: BTreeMap::new() };
        before.steps = before.steps(&before.worktrees, &before.modules);
        before
    }

    /// Returns the paths that have come and that have to go.
    pub(super) fn planted(&self) -> Vec<PathBuf> {
        let both = git_directories(&self.git, &self.common).flat_map(|directory| entries(directory));
        let new: BTreeSet<PathBuf> = both.filter(|path| !self.entries.contains(path)).collect();
        let mut found: Vec<PathBuf> =
            new.into_iter().filter(|path| !is_written(path) && !is_moved(path)).collect();
        let worktrees = subdirectories(&self.common.join("worktrees"));
        for worktree in worktrees.iter().filter(|it| !self.worktrees.contains(it)) {
            let shared = text_file::read(&worktree.join("commondir")).unwrap_or_default();
            let is_ours =
                fs::canonicalize(worktree.join(shared.trim_end())).is_ok_and(|shared| shared == self.common);
            // Git copies those of the main worktree, such as a sparse checkout.
            let settings = worktree.join("config.worktree");
            if !is_ours || settings.symlink_metadata().is_ok() && !has_plain_settings(&settings) {
                // Without these it is no worktree, by any name.
                found.extend(existing(worktree, &["HEAD", "commondir", "config.worktree", "gitdir"]));
            }
        }
        let modules = modules(&self.common);
        for module in modules.iter().filter(|it| !self.modules.contains(it)) {
            if module.is_symlink() {
                found.push(module.clone());
                continue;
            }
            found.extend(existing(module, &["commondir", "config.worktree"]));
            let hooks = entries(&module.join("hooks"));
            let runs = |hook: &PathBuf| hook.extension().is_none_or(|it| it != "sample") && !is_moved(hook);
            found.extend(hooks.into_iter().filter(runs));
            let config = module.join("config");
            if !has_plain_settings(&config) {
                found.push(config);
            }
        }
        let steps = self.steps(&worktrees, &modules).into_iter();
        // A rebase that was under way goes on meanwhile, and has fewer of its own.
        let new = steps.filter(|(file, commands)| {
            let before = self.steps.get(file);
            commands.iter().any(|command| before.is_none_or(|it| !it.contains(command)))
        });
        found.extend(new.map(|(file, _)| file));
        found
    }

    /// Returns the commands that the next steps of all rebases under way run.
    fn steps(&self, worktrees: &[PathBuf], modules: &[PathBuf]) -> BTreeMap<PathBuf, Vec<String>> {
        let directories = git_directories(&self.git, &self.common).chain(worktrees).chain(modules);
        let files = directories.map(|it| it.join(STEPS)).filter(|it| it.symlink_metadata().is_ok());
        files.map(|file| (file.clone(), commands(&file))).collect()
    }
}

/// Returns the names that a path may get which may not stay.
pub fn moved_names(path: &Path) -> impl Iterator<Item = PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (0..MAX_MOVED_NAMES).map(move |idx| match idx {
        0 => path.with_file_name(format!("{name}{MOVED}")),
        _more => path.with_file_name(format!("{name}{MOVED}-{idx}")),
    })
}

/// Returns true for a path that an earlier look has moved.
fn is_moved(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let end = name.rsplit_once(MOVED).map(|(_, end)| end);
    end.is_some_and(|end| {
        end.is_empty() || end.strip_prefix('-').is_some_and(|idx| idx.parse::<u32>().is_ok())
    })
}

fn existing(directory: &Path, names: &[&str]) -> impl Iterator<Item = PathBuf> {
    let paths: Vec<PathBuf> = names.iter().map(|name| directory.join(name)).collect();
    paths.into_iter().filter(|path| path.symlink_metadata().is_ok())
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|it| it.path()).collect()
}

fn is_written(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|it| it.to_str()) else { return false };
    let is_in_capitals = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let is_known = WRITTEN.contains(&name) || WRITTEN_BEGINNINGS.iter().any(|it| name.starts_with(it));
    is_in_capitals || is_known || name.ends_with(".lock") || name.ends_with(".swp")
}

fn is_plain(setting: &Setting) -> bool {
    let section = setting.section.split([' ', '\t']).next().unwrap_or_default();
    PLAIN.contains(&(section, setting.name.as_str()))
}

fn has_plain_settings(file: &Path) -> bool {
    text_file::read(file).is_ok_and(|text| settings(&text).iter().all(is_plain))
}

/// Returns the steps of a rebase that run a command. Git reads other bytes than text too; an unreadable file is one.
fn commands(steps: &Path) -> Vec<String> {
    let Ok(bytes) = repository::read(steps) else { return vec!["(unread)".to_owned()] };
    let text = String::from_utf8_lossy(&bytes);
    let runs = |line: &&str| matches!(line.split_whitespace().next(), Some("exec" | "x"));
    text.lines().filter(runs).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    //! Files that commands may leave in a repository, and those that they may not.

    use super::*;

    /// Writes files into a repository's directory; those that have to go.
    fn planted(files: &[(&str, &str)]) -> Vec<String> {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let git = fs::canonicalize(temporary.path()).expect("it is there").join(".git");
        fs::create_dir_all(git.join("worktrees/old")).expect("created");
        fs::write(git.join("own-tool"), "").expect("written");
        fs::create_dir_all(git.join("rebase-merge")).expect("created");
        fs::write(git.join(STEPS), "exec make\npick 2\nexec make\n").expect("written");
        let mut before = Before {
            entries: entries(&git).into_iter().collect(),
            worktrees: vec![git.join("worktrees/old")],
            common: git.clone(),
            git: git.clone(),
            modules: Vec::new(),
            steps: BTreeMap::new(),
        };
        before.steps = before.steps(&[], &[]);
        for (name, text) in files {
            let file = git.join(name);
            fs::create_dir_all(file.parent().expect("a directory")).expect("created");
            fs::write(file, text).expect("written");
        }
        let found = before.planted().into_iter();
        found.map(|path| path.strip_prefix(&git).expect("below").to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn what_git_writes_in_everyday_work_stays() {
        for files in [
            &[("index", ""), ("HEAD", ""), ("ORIG_HEAD", ""), ("index.lock", ""), ("objects/ab/c", "")][..],
            &[("rebase-merge/git-rebase-todo", "pick 1234 exec\nlabel x\n"), ("BISECT_LOG", "")],
            &[("worktrees/new/commondir", "../..\n"), ("worktrees/new/gitdir", "/w/.git\n")],
            &[
                ("modules/a/b/HEAD", ""),
                ("modules/a/b/hooks/pre-push.sample", ""),
                (
                    "modules/a/b/config",
                    "[core]\n\tbare = false\n\tworktree = ../../../b\n[remote \"origin\"]\n\turl = x\n\tfetch = y\n",
                ),
            ],
            &[
                ("worktrees/new/commondir", "../..\n"),
                ("worktrees/new/config.worktree", "[core]\n\tsparseCheckout = true\n"),
            ],
            // Of a rebase that was there before.
            &[("rebase-merge/git-rebase-todo", "pick 2\nexec make\n")],
            &[("own-tool", "changed")],
            // Moved by a look before.
            &[("remotes.refused/origin", ""), ("remotes.refused-2", "")],
            &[
                ("modules/a/HEAD", ""),
                ("modules/a/config", "[core]\n\tbare = false\n"),
                ("modules/a/hooks/pre-push.refused", ""),
            ],
        ] {
            assert_eq!(planted(files), [""; 0], "{files:?}");
        }
    }

    #[test]
    fn what_git_would_obey_goes() {
        for (files, gone) in [
            (
                &[("rebase-merge/git-rebase-todo", "pick 1\n\tx touch x\n")][..],
                "rebase-merge/git-rebase-todo",
            ),
            (&[("branches/origin", "ext::sh -c x")], "branches"),
            (&[("remotes/origin", "URL: ext::sh -c x")], "remotes"),
            (
                &[("rebase-merge/git-rebase-todo", "pick 1234\nexec touch x\n")],
                "rebase-merge/git-rebase-todo",
            ),
            (
                &[("worktrees/old/rebase-merge/git-rebase-todo", "x touch x\n")],
                "worktrees/old/rebase-merge/git-rebase-todo",
            ),
            (&[("worktrees/new/commondir", "../../../evil\n")], "worktrees/new/commondir"),
            (
                &[("modules/a/HEAD", ""), ("modules/a/config", ""), ("modules/a/hooks/post-checkout", "x")],
                "modules/a/hooks/post-checkout",
            ),
            (
                &[("modules/a/HEAD", ""), ("modules/a/config", "[core]\nfsmonitor = touch x\n")],
                "modules/a/config",
            ),
            (&[("modules/a/HEAD", ""), ("modules/a/config", "[include]\npath = x\n")], "modules/a/config"),
            (
                &[
                    ("worktrees/old/modules/a/HEAD", ""),
                    ("worktrees/old/modules/a/config", "[core]\nfsmonitor = x\n"),
                ],
                "worktrees/old/modules/a/config",
            ),
        ] {
            assert_eq!(planted(files), [gone], "{files:?}");
        }
    }
}
