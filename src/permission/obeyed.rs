//! Which files decide what a session may do: where rules, agents and servers are looked for, by their names and by what the configuration was read from, and what git obeys.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::bash;
use crate::{
    base::path::absolute,
    config::{
        deciding::{Deciding, SUBDIRECTORIES},
        rules::wildcard,
    },
};

const FILES: [&str; 4] = ["opencode.json", "opencode.jsonc", "config.json", "config.jsonc"];

/// How far something reaches that is done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The file of that name.
    Itself,
    /// Something below it too, which is judged by a name of its own.
    Named,
    /// Whatever is below it.
    Everything,
}

/// What is done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Write,
    /// It is taken away, gets another name or other permissions: what it denied may be allowed then.
    Remove,
}

/// Whether a file of this name decides. The path is absolute.
pub fn is_obeyed(path: &Path, deciding: &Deciding) -> bool {
    let text = path.to_string_lossy();
    bash::is_gits(&text, false)
        || is_repositorys(path)
        || is_configuration(&text, false)
        || is_source(path, Act::Write, Reach::Itself, None, deciding)
}

/// Whether a command may change what is allowed, or put there what is run without a question. The path is absolute and
/// may have globs in it.
pub fn may_change(path: &Path, act: Act, reach: Reach, deciding: &Deciding) -> bool {
    let is_tree = reach != Reach::Itself;
    let text = path.to_string_lossy();
    let is_write = act == Act::Write;
    let is_gits = bash::is_gits(&text, is_tree && is_write) || (is_write && is_repositorys(path));
    is_gits || is_configuration(&text, is_tree) || is_source(path, act, reach, glob_of(path), deciding)
}

/// Whether the file is another name of one that decides.
pub fn is_linked(path: &Path, deciding: &Deciding) -> bool {
    let identity = |path: &Path| {
        fs::metadata(path).ok().filter(|it| it.is_file() && it.nlink() > 1).map(|it| (it.dev(), it.ino()))
    };
    let Some(own) = identity(path) else { return false };
    deciding.files.iter().any(|file| identity(file) == Some(own))
}

/// Whether it is a repository's, whatever that is called, or makes a directory one: git runs what its files name.
fn is_repositorys(path: &Path) -> bool {
    let is_repository = |directory: &Path| {
        directory.join("HEAD").exists()
            && directory.join("objects").is_dir()
            && directory.join("refs").is_dir()
    };
    let is_head = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("HEAD"));
    is_head || path.ancestors().skip(1).any(is_repository)
}

fn is_configuration(path: &str, is_tree: bool) -> bool {
    let path = path.to_lowercase();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.last().is_some_and(|last| FILES[..2].contains(last)) {
        return true;
    }
    let starts = parts.iter().enumerate().filter(|(idx, part)| {
        let is_global = **part == "opencode" && *idx > 0 && parts.get(idx - 1) == Some(&".config");
        **part == ".opencode" || is_global
    });
    let mut below = starts.filter_map(|(idx, _)| parts.get(idx + 1..));
    below.any(|below| match below {
        [] => is_tree,
        [file] if FILES.contains(file) => true,
        [directory, rest @ ..] => SUBDIRECTORIES.contains(directory) && (is_tree || !rest.is_empty()),
    })
}

/// Whether the configuration was read from there, or would have been if it were there.
fn is_source(path: &Path, act: Act, reach: Reach, glob: Option<Glob<'_>>, deciding: &Deciding) -> bool {
    // A file system may not tell the cases apart.
    let lower = |path: &Path| PathBuf::from(path.as_os_str().to_ascii_lowercase());
    let path = lower(path);
    let mut trees = deciding.trees.iter().map(|tree| lower(tree));
    if trees.any(|tree| path.starts_with(tree)) {
        return true;
    }
    // What a glob removes has to be there.
    let has_to_be_there = act == Act::Remove && glob.is_some();
    let may_be_meant = |source: &&PathBuf| !has_to_be_there || source.exists();
    let sources = deciding.files.iter().chain(&deciding.trees).filter(may_be_meant);
    let mut sources = sources.map(|source| lower(source));
    match glob {
        // What a list names is seldom meant for these.
        Some(Glob { is_everywhere: true, .. }) if act == Act::Remove && path.ends_with("*") => false,
        Some(Glob { directory, is_everywhere: true, .. }) => is_found(directory, &path, deciding),
        Some(Glob { directory, pattern, is_deeper, .. }) => sources.any(|source| {
            let Ok(below) = source.strip_prefix(lower(directory)) else { return false };
            let mut parts = below.components();
            let name = parts.next().map(|it| it.as_os_str().to_string_lossy().into_owned());
            let is_itself = parts.next().is_none();
            let reaches = if is_deeper { !is_itself } else { is_itself || reach != Reach::Itself };
            reaches && name.is_some_and(|name| wildcard(&pattern, &name))
        }),
        None => {
            sources.any(|source| source == path || (reach == Reach::Everything && source.starts_with(&path)))
        }
    }
}

/// Whether one of the files below a directory decides that are called what the path ends with. Where files come from
/// outside of a command they may lie anywhere and be new; else they are those that are there.
fn is_found(directory: &Path, path: &Path, deciding: &Deciding) -> bool {
    const ENDINGS: [&str; 5] = [".md", ".ts", ".js", ".json", ".jsonc"];
    let lower = |path: &Path| path.to_string_lossy().to_lowercase();
    let (path, own) = (lower(path), lower(directory));
    let behind = path.rsplit_once("/**/").map_or("*", |it| it.1);
    let (place, name) = behind.rsplit_once('/').map_or((None, behind), |(place, name)| (Some(place), name));
    let is_anywhere = directory == Path::new("/");
    let is_below =
        |source: &Path| (is_anywhere || source.exists()) && Path::new(&lower(source)).starts_with(&own);
    let is_in_place = |directory: Option<&Path>| {
        let last = directory.and_then(Path::file_name).unwrap_or_default().to_string_lossy().to_lowercase();
        place.is_none_or(|place| wildcard(place.rsplit('/').next().unwrap_or(place), &last))
    };
    let is_called = |file: &Path| {
        wildcard(name, &lower(Path::new(file.file_name().unwrap_or_default()))) && is_in_place(file.parent())
    };
    // What windlass does not read is known by the end of its name alone.
    let is_definition = ENDINGS.iter().any(|ending| wildcard(name, &format!("x{ending}")));
    let has_git = is_anywhere || directory.join(".git/config").exists();
    deciding.files.iter().any(|file| is_called(file) && is_below(file))
        || (is_definition && deciding.trees.iter().any(|tree| is_in_place(Some(tree)) && is_below(tree)))
        || (wildcard(name, "config") && is_in_place(Some(Path::new(".git"))) && has_git)
}

/// A path's first glob.
struct Glob<'a> {
    directory: &'a Path,
    /// In lower case, with a star for its sets of characters.
    pattern: String,
    /// Whether the path goes on behind it.
    is_deeper: bool,
    /// `**`: whatever directories lie between.
    is_everywhere: bool,
}

fn is_glob(part: &OsStr) -> bool {
    part.to_string_lossy().contains(['*', '?', '['])
}

fn glob_of(path: &Path) -> Option<Glob<'_>> {
    let glob = path.ancestors().filter(|it| it.file_name().is_some_and(is_glob)).last()?;
    let text = glob.file_name()?.to_string_lossy().to_lowercase();
    let is_everywhere = text == "**" && glob != path;
    let pattern = match (text.find('['), text.rfind(']')) {
        (Some(start), Some(end)) if start < end => format!("{}*{}", &text[..start], &text[end + 1..]),
        _other => text,
    };
    Some(Glob { directory: glob.parent()?, pattern, is_deeper: glob != path, is_everywhere })
}

/// Whether a pattern of the user's names such files, rather than files of any kind. What the pattern says begins in the
/// worktree.
pub fn is_named(pattern: &str, worktree: &Path, deciding: &Deciding) -> bool {
    let is_glob = |text: &str| text.contains(['*', '?']);
    let is_place = |directory: &str| {
        let directory = absolute(worktree, directory);
        !is_glob(&directory.to_string_lossy())
            && (deciding.directories.contains(&directory) || deciding.trees.contains(&directory))
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

    fn decides(path: &str, reach: Reach) -> bool {
        may_change(Path::new(path), Act::Write, reach, &Deciding::default())
    }

    #[test]
    fn what_decides_is_told_from_what_is_only_said() {
        let deciding = [
            "opencode.json",
            "/p/sub/opencode.jsonc",
            "/p/.opencode/agent/build.md",
            "/p/.opencode/agents/a/b.md",
            "/p/.OpenCode/mode/x.md",
            "/p/.opencode/config.json",
            "/home/u/.config/opencode/plugin/x.ts",
            "/home/u/.config/opencode/config.json",
            "/p/.opencode/command/a.md",
            "/p/.git/hooks/pre-commit",
            "/p/.git/config",
        ];
        for path in deciding {
            assert!(decides(path, Reach::Itself), "{path}");
        }
        let said = [
            "src/opencode.rs",
            "config.json",
            "/p/opencode/config.json",
            "/p/.opencode/plans/a.md",
            "/p/.opencode/skill/a/SKILL.md",
            "/p/.opencode/agent",
            "/p/agent/build.md",
            "/p/.git/COMMIT_EDITMSG",
            "/p/AGENTS.md",
        ];
        for path in said {
            assert!(!decides(path, Reach::Itself), "{path}");
        }
        for tree in ["/p/.opencode", "/p/.opencode/agent", "/p/.git/hooks"] {
            assert!(decides(tree, Reach::Named), "{tree}");
        }
        assert!(!decides("/p/src", Reach::Everything));
    }

    #[test]
    fn what_the_configuration_was_read_from_decides_under_any_name() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        let deciding = Deciding {
            files: paths(&["/p/conf/rules.json", "/p/opencode.json", "/p/src/server.js"]),
            trees: paths(&["/p/market", "/p/conf/agent"]),
            directories: paths(&["/p/conf"]),
        };
        let of = |path: &str, act, reach| may_change(Path::new(path), act, reach, &deciding);
        let writes = |path: &str, reach| of(path, Act::Write, reach);
        for file in ["/p/conf/rules.json", "/p/CONF/Rules.json", "/p/market/a/b.md", "/p/conf/agent/a.md"] {
            assert!(writes(file, Reach::Itself) && of(file, Act::Remove, Reach::Itself), "{file}");
        }
        for file in ["/p/conf/other.json", "/p/conf", "/p/src", "/p/conf/agents.md", "/p/*.js", "/p/src/*.ts"]
        {
            assert!(!writes(file, Reach::Itself) && !writes(file, Reach::Named), "{file}");
        }
        for pattern in
            ["/p/*", "/p/*.json", "/p/o*", "/p/src/*", "/p/conf/[a-z]*", "/p/conf/*.json", "/p/sr?/x.js"]
        {
            assert!(writes(pattern, Reach::Itself), "{pattern}");
            assert!(!of(pattern, Act::Remove, Reach::Everything), "{pattern}");
        }
        assert!(!is_obeyed(Path::new("/p/[a]"), &deciding) && is_obeyed(Path::new("/p/market/x"), &deciding));
        assert!(!writes("/p/c*", Reach::Itself) && writes("/p/c*", Reach::Named));
        for tree in ["/p", "/p/conf", "/p/src", "/p/market"] {
            assert!(writes(tree, Reach::Everything) && of(tree, Act::Remove, Reach::Everything), "{tree}");
        }
        assert!(
            !writes("/p/lib", Reach::Everything) && !of("/p/.git/index.lock", Act::Remove, Reach::Everything)
        );
        let named = |pattern: &str| is_named(pattern, Path::new("/p"), &deciding);
        assert!(named("conf/rules.json") && named("conf/*") && named("/p/market/*") && named("conf/agent/*"));
        assert!(!named("src/*") && !named("*") && !named("*.json") && !named("conf/*.json"));
    }

    #[test]
    fn a_rule_names_them_or_any_file() {
        let is_named = |pattern: &str| is_named(pattern, Path::new("/p"), &Deciding::default());
        assert!(is_named(".opencode/agent/*") && is_named("*/opencode.json") && is_named(".git/config"));
        assert!(is_named("*.opencode/*") && !is_named("*/proj.git/*"));
        assert!(!is_named("*") && !is_named("*.json") && !is_named("src/*"));
    }
}
