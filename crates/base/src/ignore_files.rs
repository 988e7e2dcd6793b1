//! Finds ignore files that a walk must not open: a pipe would be waited for, and a device may never end.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::path::absolute;

/// Names of the files that a walk opens in each directory.
const NAMES: [&str; 3] = [".gitignore", ".ignore", ".rgignore"];
/// Bytes of a file that names a repository's directory.
const MAX_BYTES: u64 = 4096;

/// Returns true if a walk cannot enter this directory: an ignore file in it is neither regular nor a directory. Blocks.
pub fn is_blocked(directory: &Path) -> bool {
    NAMES.iter().any(|name| is_special(&directory.join(name)))
        || exclude_file(directory).is_some_and(|it| is_special(&it))
}

/// Returns true if a walk cannot begin with this directory: it opens the files of the directories above too. Blocks.
pub fn is_blocked_above(root: &Path) -> bool {
    root.ancestors().any(is_blocked)
}

fn is_special(file: &Path) -> bool {
    // A link is opened as its target.
    fs::metadata(file).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Returns the `info/exclude` of a directory that is a repository, or the file that a walk opens to find it.
fn exclude_file(directory: &Path) -> Option<PathBuf> {
    let git = directory.join(".git");
    let metadata = fs::symlink_metadata(&git).ok()?;
    if metadata.is_dir() {
        return Some(git.join("info/exclude"));
    }
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return None;
    }
    // A linked worktree shares the file of its repository.
    let text = fs::read_to_string(&git).ok()?;
    let own = absolute(directory, text.strip_prefix("gitdir: ")?.trim_end());
    let common = own.join("commondir");
    if is_special(&common) {
        return Some(common);
    }
    let text =
        fs::metadata(&common).is_ok_and(|it| it.len() <= MAX_BYTES).then(|| fs::read_to_string(&common));
    Some(absolute(&own, text?.ok()?.trim_end()).join("info/exclude"))
}

#[cfg(test)]
mod tests {
    //! Ignore files that stop a walk.

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    #[test]
    fn a_pipe_as_an_ignore_file_is_noticed_wherever_a_walk_opens_it() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().canonicalize().unwrap();
        let pipe = |name: &str| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            mkfifo(&root.join(name), Mode::S_IRWXU).unwrap();
        };
        for name in ["a/.gitignore", "b/.ignore", "c/.rgignore", "d/.git/info/exclude", "main/info/exclude"] {
            pipe(name);
        }
        pipe("odd/commondir");
        for (name, gitdir) in [("linked", "../main/worktrees/w"), ("broken", "../odd")] {
            fs::create_dir_all(root.join(name)).unwrap();
            fs::write(root.join(name).join(".git"), format!("gitdir: {gitdir}\n")).unwrap();
        }
        fs::create_dir_all(root.join("main/worktrees/w")).unwrap();
        fs::write(root.join("main/worktrees/w/commondir"), "../..\n").unwrap();
        for name in ["a", "b", "c", "d", "linked", "broken"] {
            assert!(is_blocked(&root.join(name)), "{name}");
            assert!(is_blocked_above(&root.join(name).join("below")), "{name}");
        }
        fs::create_dir_all(root.join("fine/.git/info")).unwrap();
        fs::write(root.join("fine/.gitignore"), "x").unwrap();
        fs::write(root.join("fine/.git/info/exclude"), "x").unwrap();
        assert!(!is_blocked(&root.join("fine")) && !is_blocked(&root));
    }
}
