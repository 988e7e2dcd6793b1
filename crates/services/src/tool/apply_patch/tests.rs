//! Questions and writes of a patch, which is applied completely or not at all.

use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};

use crate::tool::{
    ToolError,
    fake::{Numbers, Project, one},
    patch_text::tests::body_of,
};

fn patch(body: &str) -> Value {
    json!({ "patchText": format!("*** Begin Patch\n{body}\n*** End Patch") })
}

const ALL: &str = "*** Add File: x/new\n+n\n*** Update File: a\n@@\n-a\n+A\n*** Delete File: b\n*** Update File: c\n*** Move to: d\n@@\n-c\n+C";

fn project() -> Project {
    let project = Project::new();
    project.write("a", "a\n");
    project.write("b", "b\n");
    project.write("c", "c\n");
    project
}

fn names(project: &Project) -> Vec<String> {
    let entries = fs::read_dir(project.path(".")).expect("read");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("read").file_name().into_string().expect("utf-8")).collect();
    names.sort();
    names
}

#[tokio::test]
async fn all_files_are_changed_after_one_question() {
    for tool in ["apply_patch", "patch"] {
        let project = project();
        let output = project.output(tool, patch(ALL)).await;
        assert_eq!(output.output, "Success. Updated the following files:\nA x/new\nM a\nD b\nM d");
        let told = "add x/new, update a, delete b, c → d";
        assert_eq!(output.title, told);
        assert_eq!(names(&project), ["a", "d", "x"]);
        assert_eq!(["x/new", "a", "d"].map(|name| project.content(name)), ["n\n", "A\n", "C\n"]);
        let asked: Vec<String> = ["x/new", "a", "b", "c", "d"].map(str::to_owned).into();
        assert_eq!(project.asked(), [("edit".to_owned(), asked)]);
        let metadata = project.last_ask().metadata;
        assert_eq!(
            (&metadata["filepath"], &metadata["changes"]),
            (&json!("x/new, a, b, c → d"), &json!(told))
        );
        assert_eq!(
            (&metadata["files"], &metadata["diff"]),
            (&output.metadata["files"], &output.metadata["diff"])
        );
        let files = metadata["files"].as_array().expect("a list");
        let kinds: Vec<&Value> = files.iter().map(|file| &file["type"]).collect();
        assert_eq!(kinds, ["add", "update", "delete", "move"]);
        let mut moved = files[3].clone();
        assert!(moved["patch"].take().as_str().expect("a patch").contains("-c\n+C\n"));
        assert_eq!(
            moved,
            json!({
                "filePath": project.text("c"), "relativePath": "d", "type": "move", "patch": null, "additions": 1,
                "deletions": 1, "movePath": project.text("d"), "before": "c\n", "after": "C\n",
            })
        );
        assert_eq!((&files[0]["before"], &files[2]["after"]), (&Value::Null, &Value::Null));
        assert_eq!(project.host.edited.lock().expect("not poisoned").len(), 5);
    }
}

#[tokio::test]
async fn a_question_about_an_empty_file_says_that_it_is_deleted() {
    let project = project();
    project.write("empty", "");
    let output = project.output("apply_patch", patch("*** Delete File: empty\n*** Delete File: b")).await;
    assert_eq!(project.last_ask().metadata["changes"], "delete empty, delete b");
    assert_eq!(
        (output.title.as_str(), names(&project)),
        ("delete empty, delete b", vec!["a".to_owned(), "c".to_owned()])
    );
    let output = project.output("apply_patch", patch("*** Update File: a\n@@\n-a\n+A")).await;
    assert_eq!((&project.last_ask().metadata["changes"], output.title.as_str()), (&json!("a"), "a"));
}

#[tokio::test]
async fn sections_of_one_file_work_on_each_other() {
    let project = project();
    let body = "*** Update File: a\n@@\n-a\n+b\n*** Update File: ./a\n@@\n-b\n+c\n*** Delete File: b\n*** Add File: b\n+new";
    let output = project.output("apply_patch", patch(body)).await;
    assert_eq!(output.output, "Success. Updated the following files:\nM a\nM b");
    assert_eq!(["a", "b"].map(|name| project.content(name)), ["c\n", "new\n"]);
}

#[tokio::test]
async fn a_patch_that_does_not_fit_is_refused_before_any_question() {
    let project = project();
    project.write("latin", b"caf\xe9\n");
    fs::create_dir(project.path("directory")).expect("created");
    fs::hard_link(project.path("a"), project.path("hard")).expect("linked");
    symlink("b", project.path("soft")).expect("linked");
    let failed = |reason: String| format!("apply_patch verification failed: {reason}");
    let text = |name: &str| project.text(name);
    for (input, expected) in [
        (json!({}), "patchText is required".to_owned()),
        (json!({ "patchText": " " }), "patchText is required".to_owned()),
        (json!({ "patchText": "*** Begin Patch\n*** End Patch" }), "patch rejected: empty patch".to_owned()),
        (patch("\n"), failed("no hunks found".to_owned())),
        (json!({ "patch": "x" }), failed("Invalid patch format: missing Begin/End markers".to_owned())),
        (
            patch("*** Update File: none\n@@\n-a"),
            failed(format!("Failed to read file to update: {}", text("none"))),
        ),
        (patch("*** Delete File: none"), failed(format!("Failed to read file to delete: {}", text("none")))),
        (
            patch("*** Delete File: b\n*** Update File: a\n@@\n-x\n+y"),
            failed(format!("Failed to find expected lines in {}:\nx", text("a"))),
        ),
        (
            patch("*** Update File: a\n@@ x\n-a"),
            failed(format!("Failed to find context 'x' in {}", text("a"))),
        ),
        (
            patch("*** Update File: a\n*** Move to: b"),
            failed(format!("Cannot move {} to {}: it exists", text("a"), text("b"))),
        ),
        (
            patch("*** Add File: k\n+1\n*** Add File: k/x\n+2"),
            failed(format!("{} is a file, so {} cannot be below it", text("k"), text("k/x"))),
        ),
        (
            patch("*** Add File: k/x/y\n+1\n*** Update File: a\n*** Move to: k"),
            failed(format!("{} is a file, so {} cannot be below it", text("k"), text("k/x/y"))),
        ),
        (
            patch("*** Add File: k\n+1\n*** Add File: ./k\n+2"),
            failed(format!("Cannot add {}: the patch changes it already", text("k"))),
        ),
        (
            patch("*** Update File: a\n*** Move to: k\n*** Add File: k\n+2"),
            failed(format!("Cannot add {}: the patch changes it already", text("k"))),
        ),
        (
            patch("*** Add File: k\n+1\n*** Update File: a\n*** Move to: k"),
            failed(format!("Cannot move {} to {}: it exists", text("a"), text("k"))),
        ),
        (
            patch("*** Update File: a\n@@\n-a\n+1\n*** Add File: a\n+2"),
            failed(format!("Cannot add {}: the patch changes it already", text("a"))),
        ),
        (
            patch("*** Delete File: a\n*** Delete File: a"),
            failed(format!("Failed to read file to delete: {}", text("a"))),
        ),
        (
            patch("*** Delete File: a\n*** Update File: a\n@@\n-a\n+1"),
            failed(format!("Failed to read file to update: {}", text("a"))),
        ),
        (
            patch("*** Update File: hard\n@@\n-a\n+1\n*** Update File: a\n@@\n-a\n+2"),
            failed(format!("{} and {} are the same file; name it in one way", text("a"), text("hard"))),
        ),
        (
            patch("*** Delete File: soft\n*** Update File: b\n@@\n-b\n+2"),
            failed(format!("{} and {} are the same file; name it in one way", text("b"), text("soft"))),
        ),
        (
            patch("*** Delete File: b\n*** Add File: b/x\n+1"),
            format!("Cannot read {}: Not a directory (os error 20)", text("b/x")),
        ),
        (patch("*** Update File: a\n@@\n-a\n+a"), failed("the patch changes nothing".to_owned())),
        (
            patch("*** Add File: directory\n+x"),
            format!("Path is a directory, not a file: {}", text("directory")),
        ),
        (
            patch("*** Update File: latin\n@@\n-a\n+b"),
            format!("Cannot edit {}: it is not valid UTF-8 text. Use bash instead.", text("latin")),
        ),
    ] {
        assert_eq!(project.error("apply_patch", input).await, expected);
    }
    assert!(project.asked().is_empty());
    assert_eq!(names(&project), ["a", "b", "c", "directory", "hard", "latin", "soft"]);
}

#[tokio::test]
async fn a_file_changed_while_the_user_is_asked_stops_the_whole_patch() {
    let mut project = project();
    let path = project.path("b");
    project.host.answer =
        Box::new(move |_| fs::write(&path, "theirs").map_err(|error| ToolError::Internal(error.to_string())));
    let expected = format!(
        "File {} was modified while permission was being asked. Read it again and retry.",
        project.text("b")
    );
    assert_eq!(project.error("apply_patch", patch(ALL)).await, expected);
    assert_eq!(["a", "b", "c"].map(|name| project.content(name)), ["a\n", "theirs", "c\n"]);
    assert_eq!(names(&project), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_refusal_changes_nothing() {
    let mut project = project();
    project.deny("edit");
    assert_eq!(project.run("apply_patch", patch(ALL)).await, Err(ToolError::Denied { feedback: None }));
    assert_eq!(names(&project), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_directory_outside_is_asked_for_once() {
    let project = project();
    let body = "*** Add File: ../outside/a\n+a\n*** Add File: ../outside/b\n+b";
    project.output("apply_patch", patch(body)).await;
    let outside = one("external_directory", format!("{}/*", project.text("../outside")));
    let files = vec![project.text("../outside/a"), project.text("../outside/b")];
    assert_eq!(project.asked(), [outside, ("edit".to_owned(), files)]);
}

#[tokio::test]
async fn deleting_a_link_leaves_its_target() {
    let project = project();
    symlink("a", project.path("link")).expect("linked");
    project.output("apply_patch", patch("*** Delete File: link")).await;
    assert_eq!(names(&project), ["a", "b", "c"]);
    assert_eq!(project.last_ask().patterns, ["link", "a"]);
}

/// Several files at once, with byte order marks, either line end, repeated lines, and last lines without an
/// end.
#[tokio::test]
async fn a_patch_turns_each_of_several_files_into_its_new_text() {
    const LINES: &[&str] = &["a", "b", "", "}", "  x"];
    let mut numbers = Numbers::new();
    for _ in 0..40 {
        let project = Project::new();
        let (mut body, mut expected) = (String::new(), Vec::new());
        for n_file in 0..1 + numbers.below(4) {
            let (bom, end) = (numbers.pick(&["", "\u{feff}"]), numbers.pick(&["\n", "\r\n"]));
            let mut old: Vec<&str> = (0..1 + numbers.below(10)).map(|_| numbers.pick(LINES)).collect();
            old.push("last");
            let mut new = old.clone();
            new.insert(numbers.below(old.len()), "new");
            if numbers.below(2) == 0 {
                new.remove(numbers.below(old.len()));
            }
            if old == new {
                continue;
            }
            let last_end = if new.last() == Some(&"last") { numbers.pick(&["", end]) } else { end };
            let file = |lines: &[&str]| format!("{bom}{}{last_end}", lines.join(end));
            let name = format!("file-{n_file}");
            project.write(&name, file(&old));
            body.push_str(&format!("\n*** Update File: {name}{}", body_of(&old, &new, 1000)));
            expected.push((name, file(&new)));
        }
        if expected.is_empty() {
            continue;
        }
        project.output("apply_patch", patch(body.trim_start())).await;
        for (name, expected) in expected {
            assert_eq!(project.content(&name), expected, "{body}");
        }
    }
}
