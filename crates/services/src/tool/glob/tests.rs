//! Files found, their order, and their number.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    sync::atomic::AtomicBool,
};

use serde_json::{Value, json};

use super::find;
use crate::tool::{
    ToolError,
    fake::{Project, one},
};

async fn check(project: &Project, input: Value, expected: &[&str]) {
    let output = project.output("glob", input.clone()).await;
    let expected: Vec<String> = expected.iter().map(|name| project.text(name)).collect();
    assert_eq!(output.output, expected.join("\n"), "{input}");
    assert_eq!(output.metadata["count"], expected.len());
}

#[tokio::test]
async fn files_are_found_in_path_order() {
    let project = Project::new();
    for name in ["b.rs", "a.rs", "src/c.rs", "src/deep/d.rs", "src/e.txt", ".hidden/f.rs", ".git/g.rs"] {
        project.write(name, "");
    }
    check(&project, json!({ "pattern": "*.rs" }), &["a.rs", "b.rs", "src/c.rs", "src/deep/d.rs"]).await;
    check(&project, json!({ "pattern": "**/*.rs", "path": "src" }), &["src/c.rs", "src/deep/d.rs"]).await;
    check(&project, json!({ "pattern": "src/*.{rs,txt}" }), &["src/c.rs", "src/e.txt"]).await;
    check(&project, json!({ "pattern": "/*.rs" }), &["a.rs", "b.rs"]).await;
}

#[tokio::test]
async fn absolute_patterns_name_their_directory() {
    let project = Project::new();
    project.write("src/a.rs", "");
    project.write("../outside/b.rs", "");
    check(&project, json!({ "pattern": format!("{}/src/*.rs", project.text(".")) }), &["src/a.rs"]).await;
    let pattern = format!("{}/**/*.rs", project.text("../outside"));
    check(&project, json!({ "pattern": pattern }), &["../outside/b.rs"]).await;
    let asked = project.asked();
    assert_eq!(
        asked[1..],
        [one("external_directory", format!("{}/*", project.text("../outside"))), one("glob", pattern)]
    );
}

#[tokio::test]
async fn ignored_files_are_left_out_inside_git_only() {
    let project = Project::new();
    project.write(".gitignore", "*.log\nbuilt/\n");
    project.write(".ignore", "private\n");
    for name in ["a.log", "built/b.txt", "c.txt", "private"] {
        project.write(name, "");
    }
    check(&project, json!({ "pattern": "*" }), &["a.log", "built/b.txt", "c.txt"]).await;
    fs::create_dir(project.path(".git")).expect("created");
    check(&project, json!({ "pattern": "**/*" }), &["c.txt"]).await;
}

#[tokio::test]
async fn hidden_files_are_found_by_name() {
    let project = Project::new();
    project.write(".github/ci.yml", "");
    project.write(".git/config.yml", "");
    check(&project, json!({ "pattern": ".github/**" }), &[".github/ci.yml"]).await;
    check(&project, json!({ "pattern": "*.yml", "path": ".github" }), &[".github/ci.yml"]).await;
}

#[tokio::test]
async fn a_hundred_are_shown() {
    let project = Project::new();
    for n in 0..100 {
        project.write(&format!("{n:03}"), "");
    }
    let output = project.output("glob", json!({ "pattern": "*" })).await;
    assert_eq!(Value::Object(output.metadata), json!({ "count": 100, "truncated": false }));
    for n in 100..250 {
        project.write(&format!("{n:03}"), "");
    }
    let output = project.output("glob", json!({ "pattern": "*" })).await;
    assert_eq!(Value::Object(output.metadata), json!({ "count": 100, "truncated": true }));
    assert!(output.output.starts_with(&project.text("000")));
    assert!(output.output.ends_with(&format!(
        "{}\n\n(Results are truncated: showing first 100 results. Consider using a more specific path or pattern.)",
        project.text("099")
    )));
}

#[tokio::test]
async fn empty_results_and_mistakes_are_reported() {
    let project = Project::new();
    project.write("file", "");
    assert_eq!(project.output("glob", json!({ "pattern": "*.x" })).await.output, "No files found");
    for (input, expected) in [
        (json!({ "pattern": "" }), "pattern is required".to_owned()),
        (
            json!({ "pattern": "*", "path": "file" }),
            format!("glob path must be a directory: {}", project.text("file")),
        ),
        (
            json!({ "pattern": "*", "path": "none" }),
            format!("glob path does not exist: {}", project.text("none")),
        ),
    ] {
        assert_eq!(project.error("glob", input).await, expected);
    }
    let error = project.error("glob", json!({ "pattern": "{a" })).await;
    assert!(error.starts_with("Invalid glob pattern \"{a\": "), "{error}");
    let deep = format!("{}a{}", "{".repeat(300), "}".repeat(300));
    let error = project.error("glob", json!({ "pattern": deep })).await;
    let shown =
        format!("Invalid glob pattern \"{}…\": it is too large or nested too deeply", "{".repeat(200));
    assert_eq!(error, shown);
}

#[tokio::test]
async fn the_ask_shows_what_is_searched() {
    let project = Project::new();
    fs::create_dir(project.path("src")).expect("created");
    project.output("glob", json!({ "pattern": "*.rs", "path": "src" })).await;
    let ask = project.last_ask();
    assert_eq!((ask.permission.as_str(), &ask.patterns[..]), ("glob", &["*.rs".to_owned()][..]));
    assert_eq!(Value::Object(ask.metadata), json!({ "pattern": "*.rs", "path": "src" }));
}

#[tokio::test]
async fn a_cancelled_turn_ends_the_search() {
    let project = Project::new();
    project.cancel.cancel();
    // Either end may come first: the search of an empty directory takes no time.
    match project.run("glob", json!({ "pattern": "*" })).await {
        Ok(output) => assert_eq!(output.output, "No files found"),
        Err(error) => assert_eq!(error, ToolError::Cancelled { partial: None }),
    }
}

#[tokio::test]
async fn odd_names_stay_one_line_each() {
    let project = Project::new();
    project.write("a\nb.rs", "needle");
    fs::write(project.path(".").join(OsStr::from_bytes(b"caf\xe9.rs")), "needle").expect("written");
    symlink(".", project.path("loop")).expect("linked");
    let root = project.text(".");
    let (first, second) = (format!("$'{root}/a\\nb.rs'"), format!("$'{root}/caf\\xe9.rs'"));
    let output = project.output("glob", json!({ "pattern": "**/*.rs" })).await;
    assert_eq!(output.output, format!("{first}\n{second}"));
    let output = project.output("grep", json!({ "pattern": "needle" })).await;
    assert_eq!(
        output.output,
        format!("Found 2 matches\n{first}:\n  Line 1: needle\n\n{second}:\n  Line 1: needle")
    );
    let output = project.output("list", json!({})).await;
    assert_eq!(output.output, format!("{root}/\n  $'a\\nb.rs'\n  $'caf\\xe9.rs'\n"));
    let output = project.output("read", json!({ "filePath": "." })).await;
    assert!(output.output.contains("\n$'a\\nb.rs'\n$'caf\\xe9.rs'\nloop/\n"), "{}", output.output);
    // The model can write the name as JSON text, so the file can be read.
    let output = project.output("read", json!({ "filePath": "a\nb.rs" })).await;
    assert!(output.output.contains("\n1: needle\n"), "{}", output.output);
    assert_eq!(output.title, "$'a\\nb.rs'");
}

#[test]
fn a_link_put_in_a_directorys_place_shows_nothing_of_its_target() {
    let project = Project::new();
    let target = project.swapped_door();
    let found = find(&target, "*", &AtomicBool::new(false)).unwrap();
    assert!(found.files.is_empty(), "{:?}", found.files);
}
