//! Lines found, their order, and their number.

use std::{fs, sync::atomic::AtomicBool};

use serde_json::{Value, json};
use windlass_core::config::rules::rule;
use windlass_protocol::opencode::permission::Action;

use super::{Args, Guard, notes, search};
use crate::tool::{Host, fake::Project, path::Roots};

async fn check(project: &Project, input: Value, expected: &str) {
    let output = project.output("grep", input.clone()).await;
    assert_eq!(output.output.replace(&project.text("."), "."), expected, "{input}");
}

#[tokio::test]
async fn matches_are_grouped_by_file_in_path_order() {
    let project = Project::new();
    project.write("b.rs", "fn one() {}\n\nfn two() {}\r\n");
    project.write("a/c.txt", "no\nfn three\n");
    project.write(".hidden", "fn four");
    project.write(".git/config", "fn five\n");
    check(
        &project,
        json!({ "pattern": r"^fn \w+" }),
        "Found 4 matches\n./.hidden:\n  Line 1: fn four\n\n./a/c.txt:\n  Line 2: fn three\n\n./b.rs:\n  Line 1: fn one() {}\n  Line 3: fn two() {}",
    )
    .await;
    check(
        &project,
        json!({ "pattern": "fn", "include": "*.{txt,md}" }),
        "Found 1 matches\n./a/c.txt:\n  Line 2: fn three",
    )
    .await;
    check(&project, json!({ "pattern": "FN", "path": "b.rs" }), "No files found").await;
    check(
        &project,
        json!({ "pattern": "(?i)TWO", "path": "b.rs" }),
        "Found 1 matches\n./b.rs:\n  Line 3: fn two() {}",
    )
    .await;
    assert_eq!(Value::Object(project.last_ask().metadata), json!({ "pattern": "(?i)TWO", "path": "b.rs" }));
}

#[tokio::test]
async fn unsearched_files_are_named() {
    let project = Project::new();
    project.write("a.txt", "needle\n");
    let mut wide = vec![b'x'; 17 * 1024 * 1024];
    wide.extend(b" needle\n");
    project.write("wide.txt", wide);
    let note = "(Not searched to the end, because a line is longer than 16 MB: ./wide.txt. Use bash to search there.)";
    check(
        &project,
        json!({ "pattern": "needle" }),
        &format!("Found 1 matches\n./a.txt:\n  Line 1: needle\n\n{note}"),
    )
    .await;
    check(&project, json!({ "pattern": "needle", "path": "wide.txt" }), &format!("No files found\n\n{note}"))
        .await;
    // Not even root can read this file from its beginning.
    let error = project.error("grep", json!({ "pattern": "x", "path": "/proc/self/mem" })).await;
    assert_eq!(error, "Cannot read /proc/self/mem: Input/output error (os error 5)");
}

/// A path that is too long for the system: not even root enters it.
const DEEP: &str = "mkdir deep && cd deep && name=$(printf 'x%.0s' $(seq 250)); \
    for n in $(seq 18); do mkdir $name && cd -P $name 2>/dev/null || exit 1; done";

#[tokio::test]
async fn directories_that_cannot_be_entered_are_named() {
    let project = Project::new();
    project.write("a.txt", "needle\n");
    assert_eq!(project.output("bash", json!({ "command": DEEP })).await.metadata["exit"], 0);
    for (tool, input) in [
        ("grep", json!({ "pattern": "needle" })),
        ("glob", json!({ "pattern": "*.txt" })),
        ("list", json!({})),
    ] {
        let output = project.output(tool, input).await.output;
        let path = project.text("deep");
        let note = format!("\n\n(Some paths were inaccessible and not searched: {path}/xxx");
        assert!(output.contains("a.txt") && output.contains(&note), "{tool}: {output}");
    }
}

#[tokio::test]
async fn ignored_and_binary_files_are_passed_over() {
    let project = Project::new();
    fs::create_dir(project.path(".git")).expect("created");
    project.write(".gitignore", "*.log\n");
    project.write("a.log", "needle");
    project.write("binary", b"\0\nneedle");
    project.write("latin", b"needle caf\xe9");
    check(
        &project,
        json!({ "pattern": "needle" }),
        "Found 1 matches\n./latin:\n  Line 1: needle caf\u{fffd}",
    )
    .await;
}

#[tokio::test]
async fn a_hundred_are_shown() {
    let project = Project::new();
    for n in 0..60 {
        project.write(&format!("{n:02}"), "x\nx\n");
    }
    let output = project.output("grep", json!({ "pattern": "x" })).await;
    assert!(output.output.starts_with(&format!(
        "Found 100 matches (more matches available)\n{}:\n  Line 1: x\n",
        project.text("00")
    )));
    assert!(output.output.ends_with(&format!(
        "{}:\n  Line 1: x\n  Line 2: x\n\n(Results truncated. Consider using a more specific path or pattern.)",
        project.text("49")
    )));
    assert_eq!(Value::Object(output.metadata), json!({ "matches": 100, "truncated": true }));

    project.write("one/file", "x\n".repeat(1000));
    let output = project.output("grep", json!({ "pattern": "x", "path": "one" })).await;
    assert_eq!(output.output.matches("  Line ").count(), 100);
    project.write("exact/file", "x\n".repeat(100));
    let output = project.output("grep", json!({ "pattern": "x", "path": "exact" })).await;
    assert_eq!(Value::Object(output.metadata), json!({ "matches": 100, "truncated": false }));
}

#[tokio::test]
async fn long_lines_are_cut() {
    let project = Project::new();
    project.write("a", "é".repeat(2001));
    let cut = "é".repeat(2000);
    check(&project, json!({ "pattern": "é" }), &format!("Found 1 matches\n./a:\n  Line 1: {cut}...")).await;
}

#[tokio::test]
async fn many_long_lines_stay_within_the_limit() {
    let mut project = Project::new();
    project.config.tool_output.max_bytes = 5000;
    project.write("a", format!("{}\n", "x".repeat(1900)).repeat(10));
    let output = project.output("grep", json!({ "pattern": "x" })).await;
    assert!(output.output.starts_with("Found 2 matches (more matches available)\n"));
    assert_eq!(Value::Object(output.metadata), json!({ "matches": 2, "truncated": true }));
}

#[tokio::test]
async fn mistakes_are_reported() {
    let project = Project::new();
    assert_eq!(project.error("grep", json!({ "pattern": "" })).await, "pattern is required");
    assert_eq!(
        project.error("grep", json!({ "pattern": "a", "path": "none" })).await,
        format!("grep path does not exist: {}", project.text("none"))
    );
    assert_eq!(
        project.error("grep", json!({ "pattern": "a", "path": "/dev/zero" })).await,
        "Cannot search /dev/zero: it is not a regular file."
    );
    let error = project.error("grep", json!({ "pattern": "foo(" })).await;
    assert!(error.starts_with("Invalid regular expression \"foo(\": "), "{error}");
    assert!(error.contains("unclosed group"), "{error}");
    let error = project.error("grep", json!({ "pattern": "a", "include": "{a" })).await;
    assert!(error.starts_with("Invalid glob pattern \"{a\": "), "{error}");
}

#[tokio::test]
async fn files_that_read_would_ask_for_are_not_searched() {
    let mut project = Project::new();
    project.host.rules = [("*", Action::Allow), ("*.env", Action::Ask), ("keys/*", Action::Deny)]
        .map(|(pattern, action)| rule("read", pattern, action))
        .to_vec();
    project.write("a.txt", "needle");
    project.write(".env", "needle");
    project.write("sub/.ENV", "needle");
    project.write("keys/b", "needle");
    fs::hard_link(project.path(".env"), project.path("linked.txt")).expect("linked");
    let names = ["./.env", "./keys/b", "./linked.txt", "./sub/.ENV"].join(", ");
    let note = "(Not searched, because reading needs permission:";
    check(
        &project,
        json!({ "pattern": "needle" }),
        &format!(
            "Found 1 matches\n./a.txt:\n  Line 1: needle\n\n{note} {names}. Use the read tool to ask for it.)"
        ),
    )
    .await;
    // A match in such a file does not show.
    for pattern in ["needle", "other"] {
        let expected = format!("No files found\n\n{note} ./.env. Use the read tool to ask for it.)");
        check(&project, json!({ "pattern": pattern, "path": ".env" }), &expected).await;
    }
}

#[test]
fn a_link_put_in_a_directorys_place_shows_nothing_of_its_target() {
    let project = Project::new();
    let target = project.swapped_door();
    let guard = Guard::new(&target, &Roots::new(&project.config), project.host.policy(), Vec::new());
    let args = Args { pattern: "needle".to_owned(), path: None, include: None };
    let found =
        search(&target, &args, &guard, &std::collections::BTreeSet::new(), &AtomicBool::new(false)).unwrap();
    assert!(found.files.is_empty() && found.n_matches == 0);
    assert!(notes(&found).contains("not searched"), "{}", notes(&found));
}
