//! Instruction files: selection, order, and the treatment of unusable ones.

use std::{fs, path::Path};

use serde_json::json;

use super::{MAX_FILES, read};
use crate::{
    config::{Config, Environment, fixture::load, paths::Paths},
    library::{Instructions, Pages},
};

fn config_in(home: &Path, directory: &Path, variables: &[(&str, &str)]) -> Config {
    let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let environment = Environment { trusts_projects: true, variables, home: home.to_owned() };
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
        let read = read(&config, &pages);
        assert_eq!(read.all_warnings(), []);
        let Instructions { blocks, .. } = read;
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

/// Reads the instructions of a repository with these files; warnings are shortened to the file's name.
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
    let read = read(&config, pages);
    let warnings = read.all_warnings();
    let Instructions { blocks, .. } = read;
    let prefix = format!("{}/", root.display());
    let warnings = warnings.iter().map(|warning| warning.to_string().replace(&prefix, "")).collect();
    (blocks.into_iter().map(|block| block.text).collect(), warnings)
}

#[test]
fn a_long_file_is_cut_with_a_note() {
    let (texts, warnings) =
        repository(&[("AGENTS.md", "é".repeat(5 * 1024 * 1024).into_bytes())], "{}", &Pages::new());
    assert_eq!(texts.len(), 1);
    assert!(texts[0].ends_with("é\n[The file is cut here: 262144 of 10485760 bytes are shown.]"));
    assert!(texts[0].len() < 263_000);
    assert_eq!(warnings, ["AGENTS.md: is cut: 262144 of 10485760 bytes are among the instructions"]);
}

#[test]
fn all_files_together_are_bounded_and_the_omitted_are_named() {
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
fn binary_files_are_left_out_with_a_warning() {
    let files = [
        ("AGENTS.md", b"caf\xe9 rules".to_vec()),
        ("image.md", b"\x89PNG\0\0".to_vec()),
        ("folder.md/inside.txt", b"not this".to_vec()),
    ];
    let entries =
        r#"{"instructions": ["image.md", "folder.md", "loop.md", "missing.md", "http://h/a", "http://h/b"]}"#;
    let pages = Pages::from([("http://h/a".to_owned(), Err("the server answered 404".to_owned()))]);
    let (texts, warnings) = repository(&files, entries, &pages);
    // Invalid UTF-8 is no reason to lose the rest.
    assert_eq!(texts.len(), 1);
    assert!(texts[0].ends_with("caf\u{fffd} rules"), "{texts:?}");
    assert_eq!(
        warnings,
        [
            "image.md: is left out of the instructions: it is not a text",
            "folder.md: is left out of the instructions: it is not a regular file",
            "loop.md: is left out of the instructions: Too many levels of symbolic links",
            "http://h/a: is left out of the instructions: the server answered 404",
            "http://h/b: is left out of the instructions: it was not fetched",
        ]
    );
}

#[test]
fn a_binary_file_does_not_hide_another_name() {
    let files = [("AGENTS.md", b"\x7fELF\0".to_vec()), ("CLAUDE.md", b"Prefer tabs.".to_vec())];
    let (texts, warnings) = repository(&files, r#"{"instructions": ["AGENTS.md"]}"#, &Pages::new());
    assert_eq!(texts.len(), 1);
    assert!(texts[0].ends_with("/CLAUDE.md\nPrefer tabs."), "{texts:?}");
    assert_eq!(warnings, ["AGENTS.md: is left out of the instructions: it is not a text"]);
}

#[test]
fn broken_links_and_a_binary_global_file_hide_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    for (name, content) in [
        ("home/.config/opencode/AGENTS.md", &b"\0"[..]),
        ("home/.claude/CLAUDE.md", b"global"),
        ("p/.git/HEAD", b""),
        ("p/CLAUDE.md", b"project"),
    ] {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), content).unwrap();
    }
    std::os::unix::fs::symlink("gone", root.join("p/AGENTS.md")).unwrap();
    let read = read(&config_in(&root.join("home"), &root.join("p"), &[]), &Pages::new());
    let texts: Vec<&str> = read.blocks.iter().filter_map(|block| block.text.lines().last()).collect();
    assert_eq!(texts, ["global", "project"]);
    let left_out: Vec<&str> = read.warnings.iter().map(|warning| warning.source.as_str()).collect();
    let links =
        ["home/.config/opencode/AGENTS.md", "p/AGENTS.md"].map(|it| root.join(it).display().to_string());
    assert_eq!(left_out, links);
}

#[test]
fn a_wildcard_may_be_in_any_part() {
    let files = [
        ("a/f4/x/1.md", b"one".to_vec()),
        ("b/f4/x/2.md", b"two".to_vec()),
        ("b/f4/y/3.md", b"three".to_vec()),
        ("deep/er/still/4.md", b"four".to_vec()),
    ];
    let last_lines = |entries: &str| -> Vec<String> {
        let (texts, warnings) = repository(&files, entries, &Pages::new());
        assert_eq!(warnings, [""; 0]);
        texts.iter().map(|text| text.lines().last().unwrap().to_owned()).collect()
    };
    assert_eq!(last_lines(r#"{"instructions": ["*/f4/x/*.md"]}"#), ["one", "two"]);
    assert_eq!(last_lines(r#"{"instructions": ["*/f4/{x,y}/[23].md"]}"#), ["two", "three"]);
    assert_eq!(last_lines(r#"{"instructions": ["{a/f4,b/f4/x/..}/x/*.md"]}"#), ["one"]);
    assert_eq!(last_lines(r#"{"instructions": ["**/4.md", "b/*/y/3.md"]}"#), ["four", "three"]);
}

#[test]
fn a_wildcard_may_follow_the_root_directory() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().canonicalize().unwrap().join("x/rules.md");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "rules").unwrap();
    // Directories of others, which may be closed, do not match.
    let first = file.iter().nth(1).unwrap().to_str().unwrap();
    let below_first = file.iter().skip(2).collect::<std::path::PathBuf>();
    let entries =
        format!(r#"{{"instructions": ["/{}*/{}"]}}"#, &first[..first.len() - 1], below_first.display());
    let (texts, warnings) = repository(&[], &entries, &Pages::new());
    assert_eq!(texts, [format!("Instructions from: {}\nrules", file.display())]);
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn no_more_files_are_looked_at_than_are_used() {
    let text = |idx: usize| (format!("d/{idx:03}.md"), b"text".to_vec());
    let all: Vec<(String, Vec<u8>)> = [("d/000.bin".to_owned(), b"a\0".to_vec())]
        .into_iter()
        .chain((1..=MAX_FILES).map(text))
        .chain([("d/zzz.bin".to_owned(), b"a\0".to_vec())])
        .collect();
    let files: Vec<(&str, Vec<u8>)> = all.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    let (texts, warnings) = repository(&files, r#"{"instructions": ["d/**"]}"#, &Pages::new());
    assert_eq!(texts.len(), MAX_FILES);
    let told = [
        "d/**: names files that are no texts (1, such as d/000.bin); they are left out",
        "d/zzz.bin: is left out of the instructions: there are more than 100",
    ];
    assert_eq!(warnings, told);
}

#[test]
fn a_missing_file_named_twice_is_reported_once() {
    let temporary = tempfile::tempdir().unwrap();
    let (home, project) = (temporary.path().join("home"), temporary.path().join("project"));
    for file in [home.join(".config/opencode/opencode.json"), project.join("opencode.json")] {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, r#"{"instructions": ["none.md"]}"#).unwrap();
    }
    let config = config_in(&home, &project, &[]);
    assert_eq!(config.instructions.len(), 2, "each is looked for from its own file");
    assert_eq!(super::missing(&config), ["none.md"]);
}

#[test]
fn an_endless_search_is_cut_with_a_warning() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    for idx in 0..=super::search::MAX_ENTRIES {
        fs::write(root.join(idx.to_string()), "").unwrap();
    }
    let variables = [("OPENCODE_CONFIG_CONTENT", r#"{"instructions": ["**/none.md"]}"#)];
    let config = config_in(Path::new("/nowhere"), &root, &variables);
    let warnings: Vec<String> = read(&config, &Pages::new()).cuts.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["**/none.md: is looked for among the nearest 20000 files and directories only"]);
    assert_eq!(super::missing(&config), [""; 0]);
}

#[test]
fn a_search_of_everything_skips_ignored_directories() {
    let files = [
        (".gitignore", "/target/\n*.tmp/\n".into()),
        (".git/info/exclude", "private/\n".into()),
        ("a/.gitignore", "!kept.tmp/\n/build/\n".into()),
        ("a/.ignore", "old/\n".into()),
        ("a/one.md", "one".into()),
        ("a/build/no.md", "no".into()),
        ("a/kept.tmp/two.md", "two".into()),
        ("a/old/no.md", "no".into()),
        ("b/x.tmp/no.md", "no".into()),
        ("b/build/three.md", "three".into()),
        ("private/no.md", "no".into()),
        ("target/deep/no.md", "no".into()),
        ("node_modules/no.md", "no".into()),
    ];
    let last_lines = |entries: &str| -> Vec<String> {
        let (texts, told) = repository(&files, entries, &Pages::new());
        assert_eq!(told, [""; 0]);
        texts.iter().map(|text| text.lines().last().unwrap().to_owned()).collect()
    };
    assert_eq!(last_lines(r#"{"instructions": ["**/*.md"]}"#), ["two", "one", "three"]);
    assert_eq!(last_lines(r#"{"instructions": ["a/**/*.md"]}"#), ["two", "one"]);
    // A pattern that spells a directory's name means it.
    assert_eq!(last_lines(r#"{"instructions": ["target/*/*.md", "private/**/*.md"]}"#), ["no", "no"]);
    // Outside a repository, git's rules do not apply.
    let temporary = tempfile::tempdir().unwrap();
    let outside = |name: &str, text: &str| {
        let file = temporary.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    outside(".gitignore", "target/\n");
    outside(".ignore", "build/\n");
    outside("target/a.md", "a");
    outside("build/b.md", "b");
    let variables = [("OPENCODE_CONFIG_CONTENT", r#"{"instructions": ["**/*.md"]}"#)];
    let config = config_in(Path::new("/nowhere"), temporary.path(), &variables);
    let blocks = read(&config, &Pages::new()).blocks;
    assert_eq!(blocks.iter().map(|it| it.text.lines().last().unwrap()).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn warnings_of_a_pattern_for_everything_are_summarised() {
    let mut files: Vec<(String, Vec<u8>)> =
        (100..250).map(|idx| (format!("d/{idx}.md"), b"x".to_vec())).collect();
    files.extend((1..5).map(|idx| (format!("d/{idx}.png"), b"\x89PNG\0".to_vec())));
    let files: Vec<(&str, Vec<u8>)> =
        files.iter().map(|(name, text)| (name.as_str(), text.clone())).collect();
    let temporary = tempfile::tempdir().unwrap();
    fs::create_dir(temporary.path().join(".git")).unwrap();
    fs::create_dir(temporary.path().join("d")).unwrap();
    for (name, text) in &files {
        fs::write(temporary.path().join(name), text).unwrap();
    }
    for pattern in ["**", "**/*", "d/*"] {
        let entries = json!({"instructions": [pattern]}).to_string();
        let variables = [("OPENCODE_CONFIG_CONTENT", entries.as_str())];
        let root = temporary.path().canonicalize().unwrap();
        let config = config_in(Path::new("/nowhere"), &root, &variables);
        let read = read(&config, &Pages::new());
        assert_eq!((read.blocks.len(), &read.warnings), (100, &Vec::new()), "{pattern}");
        let cuts: Vec<String> = read.cuts.iter().map(ToString::to_string).collect();
        let place = root.join("d").display().to_string();
        // Those behind the last one that is used are not looked at.
        assert_eq!(
            cuts,
            [
                format!(
                    "{pattern}: names files that are no texts (1, such as {place}/1.png); they are left out"
                ),
                format!(
                    "{place}/2.png: is left out of the instructions, and 52 behind it: there are more than 100"
                ),
            ]
        );
    }
}

#[test]
fn an_entry_without_a_match_is_reported_with_its_place() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    fs::write(root.join("opencode.json"), "{\"instructions\": [\n\"{env:NOPE}\", \"a.md\"]}").unwrap();
    let config = config_in(Path::new("/nowhere"), &root, &[]);
    let patterns: Vec<&str> = config.instructions.iter().map(|it| it.pattern.as_str()).collect();
    assert_eq!(patterns, ["a.md"]);
    let told = format!(
        "{}:2:1: instructions.0: is empty and names nothing; a variable in it may not be set",
        root.join("opencode.json").display()
    );
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings.contains(&told), "{warnings:?}");
    assert_eq!(read(&config, &Pages::new()).warnings, []);
}
