//! Instruction files for a file that is read, and their sizes.

use std::{collections::BTreeMap, fs, path::Path};

use super::{MAX_BYTES, Nested, read};
use crate::config::{
    Environment,
    fixture::{load, project_files},
    paths::Paths,
};

fn files(root: &Path, variables: &[(&str, &str)], file: &str) -> Vec<String> {
    let variables: BTreeMap<String, String> =
        variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let environment = Environment { trusts_projects: true, variables, home: root.join("home") };
    let config = load(&environment, &Paths::new(&environment), &root.join("p/session"));
    let found = Nested::new(&config).files(&root.join("p").join(file));
    let relative =
        |path: &std::path::PathBuf| path.strip_prefix(root.join("p")).unwrap().display().to_string();
    found.iter().map(relative).collect()
}

#[test]
fn files_between_the_read_file_and_the_sessions_directory_are_found() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    for path in [
        ".git/HEAD",
        "AGENTS.md",
        "session/AGENTS.md",
        "session/a/AGENTS.md",
        "session/a/CLAUDE.md",
        "session/a/b/CLAUDE.md",
        "session/a/b/CONTEXT.md",
        "session/other/AGENTS.md",
        "beside/AGENTS.md",
    ] {
        let path = root.join("p").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "text").unwrap();
    }
    let both = ["session/a/AGENTS.md", "session/a/b/CLAUDE.md"];
    assert_eq!(files(&root, &[], "session/a/b/c/x.rs"), both);
    assert_eq!(files(&root, &[], "session/a/x.rs"), both[..1]);
    // The file being read is not added to itself.
    assert_eq!(files(&root, &[], "session/a/b/CLAUDE.md"), both[..1]);
    for outside in ["session/x.rs", "x.rs", "beside/x.rs"] {
        assert_eq!(files(&root, &[], outside), [""; 0], "{outside}");
    }
    for variable in ["OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_CLAUDE_CODE_PROMPT"] {
        let found = files(&root, &[(variable, "1")], "session/a/b/c/x.rs");
        assert_eq!(found, ["session/a/AGENTS.md", "session/a/b/CONTEXT.md"]);
    }
    assert_eq!(files(&root, &[("OPENCODE_DISABLE_PROJECT_CONFIG", "1")], "session/a/x.rs"), [""; 0]);
}

#[test]
fn all_together_are_bounded() {
    let temporary = tempfile::tempdir().unwrap();
    let [large, empty, after] = ["large", "empty", "after"].map(|name| temporary.path().join(name));
    fs::write(&large, "x".repeat(MAX_BYTES - 10)).unwrap();
    fs::write(&empty, " \n").unwrap();
    fs::write(&after, "y".repeat(100)).unwrap();
    let read = read(
        &project_files(temporary.path()),
        &[large.clone(), empty, after.clone(), temporary.path().join("lost")],
    );
    assert_eq!(read.warnings, []);
    let blocks = read.blocks;
    let sources: Vec<&str> = blocks.iter().map(|block| block.source.as_str()).collect();
    assert_eq!(sources, [large.display().to_string(), after.display().to_string()]);
    assert!(blocks[0].text.ends_with("xxx"));
    assert!(
        blocks[1].text.ends_with("\n[The file is cut here: 0 of 100 bytes are shown.]"),
        "{}",
        blocks[1].text
    );
}

#[test]
fn an_unusable_file_hides_no_other_name_and_is_reported() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    let of_session = root.join("p/session");
    fs::create_dir_all(of_session.join("q/r/AGENTS.md")).unwrap();
    fs::create_dir(root.join("p/.git")).unwrap();
    fs::write(of_session.join("q/AGENTS.md"), b"\x7fELF\0").unwrap();
    fs::write(of_session.join("q/CLAUDE.md"), "Prefer tabs.").unwrap();
    let names = files(&root, &[], "session/q/r/x.rs");
    assert_eq!(names, ["session/q/AGENTS.md", "session/q/CLAUDE.md", "session/q/r/AGENTS.md"]);
    let read = read(
        &project_files(&of_session),
        &names.iter().map(|name| root.join("p").join(name)).collect::<Vec<_>>(),
    );
    let texts: Vec<&str> = read.blocks.iter().filter_map(|block| block.text.lines().last()).collect();
    assert_eq!(texts, ["Prefer tabs."]);
    let prefix = format!("{}/", of_session.display());
    let told: Vec<String> = read.warnings.iter().map(|it| it.to_string().replace(&prefix, "")).collect();
    assert_eq!(
        told,
        [
            "q/AGENTS.md: is left out of the instructions: it is not a text",
            "q/r/AGENTS.md: is left out of the instructions: it is not a regular file",
        ]
    );
}
