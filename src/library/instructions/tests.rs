//! Which instruction files are read, in which order, and what becomes of those that cannot be used.

use std::{fs, path::Path};

use super::read;
use crate::{
    config::{Config, Environment, load, paths::Paths},
    library::{Instructions, Pages},
};

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
    let pages = Pages::from([
        ("https://h/x".to_owned(), Ok("a page".to_owned())),
        ("https://h/y".to_owned(), Ok(" \n".to_owned())),
    ]);
    let read = |directory: &str, variables: &[(&str, &str)]| -> Vec<String> {
        let config = config_in(&root.join("home"), &root.join(directory), variables);
        let Instructions { blocks, warnings } = read(&config, &pages);
        assert_eq!(warnings, []);
        for block in &blocks {
            assert!(block.text.starts_with(&format!("Instructions from: {}\n", block.source)));
        }
        blocks.iter().map(|block| block.text.lines().last().unwrap_or_default().to_owned()).collect()
    };
    let entries = r#"{"instructions": ["docs/*.md", "~/notes.md", "docs/a.md", "https://h/x", "docs/**/c.md", "no*.md", "https://h/y", "https://h/x"]}"#;
    assert_eq!(
        read("p/sub", &[("OPENCODE_CONFIG_CONTENT", entries)]),
        ["global", "outer", "inner", "a", "b", "notes", "a page", "c"]
    );
    assert_eq!(read("bare/sub", &[]), ["global", "project claude"]);
    assert_eq!(read("bare/sub", &[("OPENCODE_DISABLE_CLAUDE_CODE", "1")]), ["global", "context"]);
    let other = root.join("other").display().to_string();
    let alone = [("OPENCODE_CONFIG_DIR", other.as_str()), ("OPENCODE_DISABLE_PROJECT_CONFIG", "1")];
    assert_eq!(read("p/sub", &alone), ["other"]);
    write("p/sub/conf/AGENTS.md", "relative");
    assert_eq!(read("p/sub", &[("OPENCODE_CONFIG_DIR", "conf")]), ["relative", "outer", "inner"]);
    let relative = [("OPENCODE_CONFIG_DIR", "conf"), ("OPENCODE_DISABLE_PROJECT_CONFIG", "1")];
    assert_eq!(
        read(
            "p/sub",
            &[&relative[..], &[("OPENCODE_CONFIG_CONTENT", r#"{"instructions": ["AG*"]}"#)]].concat()
        ),
        ["relative"]
    );
    fs::remove_file(root.join("home/.config/opencode/AGENTS.md")).unwrap();
    write("home/.opencode/AGENTS.md", "dot");
    assert_eq!(read("p/docs", &[]), ["dot", "outer"]);
    fs::remove_file(root.join("home/.opencode/AGENTS.md")).unwrap();
    assert_eq!(read("p/docs", &[]), ["claude", "outer"]);
}

/// What a repository with these files gives, with the names of its warnings shortened to the file.
fn repository(files: &[(&str, Vec<u8>)], entries: &str, pages: &Pages) -> (Vec<String>, Vec<String>) {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    fs::create_dir(root.join(".git")).unwrap();
    for (name, content) in files {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), content).unwrap();
    }
    std::os::unix::fs::symlink("loop.md", root.join("loop.md")).unwrap();
    let config = config_in(Path::new("/nowhere"), &root, &[("OPENCODE_CONFIG_CONTENT", entries)]);
    let Instructions { blocks, warnings } = read(&config, pages);
    let prefix = format!("{}/", root.display());
    let warnings = warnings.iter().map(|warning| warning.to_string().replace(&prefix, "")).collect();
    (blocks.into_iter().map(|block| block.text).collect(), warnings)
}

#[test]
fn a_long_file_is_cut_and_says_so() {
    let (texts, warnings) =
        repository(&[("AGENTS.md", "é".repeat(5 * 1024 * 1024).into_bytes())], "{}", &Pages::new());
    assert_eq!(texts.len(), 1);
    assert!(texts[0].ends_with("é\n[The file is cut here: 262144 of 10485760 bytes are shown.]"));
    assert!(texts[0].len() < 263_000);
    assert_eq!(warnings, ["AGENTS.md: is cut: 262144 of 10485760 bytes are among the instructions"]);
}

#[test]
fn all_files_together_are_bounded_and_what_is_left_out_is_named() {
    let long = || b"x".repeat(200 * 1024);
    let files = [("d/1.md", long()), ("d/2.md", long()), ("d/3.md", long()), ("d/4.md", long())];
    let (texts, warnings) = repository(&files, r#"{"instructions": ["d/*.md"]}"#, &Pages::new());
    assert_eq!(texts.len(), 3);
    assert!(texts.iter().map(String::len).sum::<usize>() < 513 * 1024);
    assert_eq!(
        warnings,
        [
            "d/3.md: is cut: 114688 of 204800 bytes are among the instructions",
            "d/4.md: is left out of the instructions: those before it fill the 512 KiB there are",
        ]
    );
}

#[test]
fn what_is_no_text_is_left_out_and_named() {
    let files = [
        ("AGENTS.md", b"caf\xe9 rules".to_vec()),
        ("image.md", b"\x89PNG\0\0".to_vec()),
        ("folder.md/inside.txt", b"not this".to_vec()),
    ];
    let entries =
        r#"{"instructions": ["image.md", "folder.md", "loop.md", "missing.md", "http://h/a", "http://h/b"]}"#;
    let pages = Pages::from([("http://h/a".to_owned(), Err("the server answered 404".to_owned()))]);
    let (texts, warnings) = repository(&files, entries, &pages);
    // What is not UTF-8 is no reason to lose the rest.
    assert_eq!(texts.len(), 1);
    assert!(texts[0].ends_with("caf\u{fffd} rules"), "{texts:?}");
    assert_eq!(
        warnings,
        [
            "image.md: is left out of the instructions: it is not a text",
            "folder.md: is left out of the instructions: it is not a regular file",
            "loop.md: is left out of the instructions: Too many levels of symbolic links (os error 40)",
            "http://h/a: is left out of the instructions: the server answered 404",
            "http://h/b: is left out of the instructions: it was not fetched",
        ]
    );
}
