//! Which instruction files are read, in which order, and what becomes of those that cannot be used.

use std::{fs, path::Path};

use super::read as instructions;
use crate::config::{Config, Environment, load, paths::Paths};

fn config_in(home: &Path, directory: &Path, variables: &[(&str, &str)]) -> Config {
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let environment = Environment { variables, home: home.to_owned() };
    load(&environment, &Paths::new(&environment), directory)
}

#[test]
fn instruction_files_are_read_in_order() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for (path, text) in [
        ("home/.config/opencode/AGENTS.md", "global"),
        ("home/.claude/CLAUDE.md", "claude"),
        ("home/notes.md", "notes"),
        ("other/AGENTS.md", "other"),
        ("p/.git/HEAD", ""),
        ("p/AGENTS.md", "outer"),
        ("p/CLAUDE.md", "not this name"),
        ("p/sub/AGENTS.md", "inner"),
        ("p/docs/b.md", "b"),
        ("p/docs/a.md", "a"),
        ("p/docs/deep/c.md", "c"),
        ("p/docs/empty.md", " \n"),
        ("bare/sub/CLAUDE.md", "project claude"),
        ("bare/sub/CONTEXT.md", "context"),
        ("bare/.git", "gitdir: x"),
    ] {
        write(path, text);
    }
    let read = |directory: &str, variables: &[(&str, &str)]| -> Vec<String> {
        let config = config_in(&root.join("home"), &root.join(directory), variables);
        let blocks = instructions(&config);
        for block in &blocks {
            assert!(block.text.starts_with(&format!("Instructions from: {}\n", block.source)));
        }
        blocks.iter().map(|block| block.text.lines().last().unwrap_or_default().to_owned()).collect()
    };
    let entries = r#"{"instructions": ["docs/*.md", "~/notes.md", "docs/a.md", "docs/**/c.md", "no*.md", "https://h/x"]}"#;
    assert_eq!(
        read("p/sub", &[("OPENCODE_CONFIG_CONTENT", entries)]),
        ["global", "outer", "inner", "a", "b", "notes", "c"]
    );
    assert_eq!(read("bare/sub", &[]), ["global", "project claude"]);
    assert_eq!(read("bare/sub", &[("OPENCODE_DISABLE_CLAUDE_CODE", "1")]), ["global", "context"]);
    let other = root.join("other").display().to_string();
    let alone = [("OPENCODE_CONFIG_DIR", other.as_str()), ("OPENCODE_DISABLE_PROJECT_CONFIG", "1")];
    assert_eq!(read("p/sub", &alone), ["other"]);
    fs::remove_file(root.join("home/.config/opencode/AGENTS.md")).unwrap();
    assert_eq!(read("p/docs", &[]), ["claude", "outer"]);
}

#[test]
fn a_long_instruction_file_is_cut_and_says_so() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    fs::create_dir(root.join(".git")).unwrap();
    fs::write(root.join("AGENTS.md"), "é".repeat(200_000)).unwrap();
    let blocks = instructions(&config_in(Path::new("/nowhere"), &root, &[]));
    assert_eq!(blocks.len(), 1);
    assert!(blocks[0].text.ends_with("é\n[The file is cut here: 262144 of 400000 bytes are shown.]"));
}
