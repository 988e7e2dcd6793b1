//! Knows the files that decide the rights of a session: by the names of configuration and of git's hooks and settings,
//! and by the files that the configuration was read from.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use windlass_base::path::absolute;

use crate::config::protected_paths::{PACKAGE_FILES, ProtectedPaths, SUBDIRECTORIES};

const FILES: [&str; 4] = ["opencode.json", "opencode.jsonc", "config.json", "config.jsonc"];

/// Returns true if a file of this name decides. The path is absolute.
pub fn is_protected(path: &Path, protected: &ProtectedPaths) -> bool {
    let text = path.to_string_lossy().to_lowercase();
    is_gits(&text) || is_repositorys(path) || is_configuration(&text) || is_source(path, protected)
}

/// Returns true if the file is another name of one that decides.
pub fn is_linked(path: &Path, protected: &ProtectedPaths) -> bool {
    let identity = |path: &Path| {
        fs::metadata(path).ok().filter(|it| it.is_file() && it.nlink() > 1).map(|it| (it.dev(), it.ino()))
    };
    let Some(own) = identity(path) else { return false };
    protected.files.iter().any(|file| identity(file) == Some(own))
}

/// Returns true for a file of a repository of any name, or one that makes a directory a repository: git
/// runs the commands that its files name.
fn is_repositorys(path: &Path) -> bool {
    let is_repository = |directory: &Path| {
        directory.join("HEAD").exists()
            && directory.join("objects").is_dir()
            && directory.join("refs").is_dir()
    };
    let is_head = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("HEAD"));
    is_head || path.ancestors().skip(1).any(is_repository)
}

/// Returns true for a hook of git, a file of its settings, or the file that says where these are.
fn is_gits(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    if !parts.any(|part| part == ".git") {
        return false;
    }
    let below: Vec<&str> = parts.collect();
    let is_setting = |part: &&str| matches!(*part, "config" | "config.worktree" | "commondir");
    below.last().is_none_or(is_setting) || below.iter().any(|part| part.starts_with("hooks"))
}

fn is_configuration(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.last().is_some_and(|last| FILES[..2].contains(last)) {
        return true;
    }
    let starts = parts.iter().enumerate().filter(|(idx, part)| {
        let is_global = **part == "opencode" && *idx > 0 && parts.get(idx - 1) == Some(&".config");
        **part == ".opencode" || is_global
    });
    let mut below = starts.filter_map(|(idx, _)| parts.get(idx + 1..));
    below.any(|below| match below {
        [] => false,
        [file] if FILES.contains(file) || PACKAGE_FILES.contains(file) => true,
        [directory, rest @ ..] => SUBDIRECTORIES.contains(directory) && !rest.is_empty(),
    })
}

/// Returns true if the configuration was read from there, or would have been if it were there.
fn is_source(path: &Path, protected: &ProtectedPaths) -> bool {
    // A file system may not tell the cases apart.
    let lower = |path: &Path| PathBuf::from(path.as_os_str().to_ascii_lowercase());
    let path = lower(path);
    protected.trees.iter().any(|tree| path.starts_with(lower(tree)))
        || protected.files.iter().any(|file| path == lower(file))
}

/// Returns true if a pattern of the user's names such files, rather than files of any kind. A pattern begins in the
/// worktree.
pub fn is_named(pattern: &str, worktree: &Path, protected: &ProtectedPaths) -> bool {
    let is_glob = |text: &str| text.contains(['*', '?']);
    let is_place = |directory: &str| {
        let directory = absolute(worktree, directory);
        !is_glob(&directory.to_string_lossy())
            && (protected.directories.contains(&directory) || protected.trees.contains(&directory))
    };
    let is_source = !is_glob(pattern) || pattern.strip_suffix("/*").is_some_and(is_place);
    let pattern = pattern.to_lowercase();
    let parts: Vec<&str> = pattern.trim_start_matches('*').split('/').collect();
    let is_name = |part: &&str| matches!(*part, ".git" | ".opencode") || part.starts_with("opencode.json");
    is_source || parts.iter().any(is_name) || parts.windows(2).any(|pair| pair == [".config", "opencode"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_decide_are_told_from_others_by_name() {
        let is_protected = |path: &str| is_protected(Path::new(path), &ProtectedPaths::default());
        for path in [
            "/p/opencode.json",
            "/p/sub/opencode.jsonc",
            "/p/.opencode/agent/build.md",
            "/p/.opencode/agents/a/b.md",
            "/p/.OpenCode/mode/x.md",
            "/p/.opencode/config.json",
            "/p/.opencode/package.json",
            "/p/.opencode/node_modules/a/index.js",
            "/home/u/.config/opencode/plugin/x.ts",
            "/home/u/.config/opencode/config.json",
            "/p/.opencode/command/a.md",
            "/p/.git",
            "/p/.git/hooks/pre-commit",
            "/p/.Git/Hooks/pre-commit",
            "/p/.git/config",
            "/p/.git/modules/m/config",
            "/p/.git/worktrees/w/commondir",
        ] {
            assert!(is_protected(path), "{path}");
        }
        for path in [
            "/p/src/opencode.rs",
            "/p/config.json",
            "/p/package.json",
            "/p/node_modules/a/index.js",
            "/p/opencode/config.json",
            "/p/.opencode/plans/a.md",
            "/p/.opencode/skill/a/SKILL.md",
            "/p/.opencode/agent",
            "/p/agent/build.md",
            "/p/.git/COMMIT_EDITMSG",
            "/p/AGENTS.md",
        ] {
            assert!(!is_protected(path), "{path}");
        }
    }

    #[test]
    fn files_of_the_configuration_decide_under_any_name() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        let protected = ProtectedPaths {
            files: paths(&["/p/conf/rules.json", "/p/opencode.json", "/p/src/server.js"]),
            trees: paths(&["/p/market", "/p/conf/agent"]),
            directories: paths(&["/p/conf"]),
        };
        for file in ["/p/conf/rules.json", "/p/CONF/Rules.json", "/p/market/a/b.md", "/p/conf/agent/a.md"] {
            assert!(is_protected(Path::new(file), &protected), "{file}");
        }
        for file in ["/p/conf/other.json", "/p/conf", "/p/src", "/p/conf/agents.md", "/p/src/a.js"] {
            assert!(!is_protected(Path::new(file), &protected), "{file}");
        }
        let named = |pattern: &str| is_named(pattern, Path::new("/p"), &protected);
        assert!(named("conf/rules.json") && named("conf/*") && named("/p/market/*") && named("conf/agent/*"));
        assert!(!named("src/*") && !named("*") && !named("*.json") && !named("conf/*.json"));
    }

    #[test]
    fn a_rule_names_them_or_any_file() {
        let is_named = |pattern: &str| is_named(pattern, Path::new("/p"), &ProtectedPaths::default());
        assert!(is_named(".opencode/agent/*") && is_named("*/opencode.json") && is_named(".git/config"));
        assert!(is_named("*.opencode/*") && !is_named("*/proj.git/*"));
        assert!(!is_named("*") && !is_named("*.json") && !is_named("src/*"));
    }
}
