//! Files are replaced in one step, keep their properties, and are not changed behind the user's back.

use std::{fs, os::unix::fs::symlink, sync::Arc};

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::MAX_SHOWN_BYTES;
use crate::tool::{
    FileStamp, ToolError,
    fake::{Project, one},
};

#[tokio::test]
async fn links_are_written_through() {
    let project = Project::new();
    project.write("real/a", "old\n");
    symlink("real/a", project.path("link")).expect("linked");
    project.output("write", json!({ "filePath": "link", "content": "new\n" })).await;
    assert!(fs::symlink_metadata(project.path("link")).expect("there").is_symlink());
    assert_eq!(project.content("real/a"), "new\n");
    assert_eq!(project.last_ask().patterns, ["link", "real/a"]);
}

#[tokio::test]
async fn a_file_changed_while_the_user_is_asked_is_left_alone() {
    for (tool, input, theirs) in [
        ("edit", json!({ "filePath": "a", "oldString": "old", "newString": "new" }), "theirs"),
        // Same length and date as the text that was shown.
        ("edit", json!({ "filePath": "a", "oldString": "old", "newString": "new" }), "odd"),
        ("write", json!({ "filePath": "a", "content": "new" }), "odd"),
        ("write", json!({ "filePath": "a", "content": "new" }), "theirs"),
        ("write", json!({ "filePath": "created", "content": "new" }), "theirs"),
    ] {
        let mut project = Project::new();
        project.write("a", "old");
        let name = input["filePath"].as_str().expect("a path").to_owned();
        let path = project.path(&name);
        project.host.answer = Box::new(move |_| {
            let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
            let file = fs::write(&path, theirs).and_then(|()| fs::File::options().write(true).open(&path));
            let dated = file.and_then(|file| modified.map_or(Ok(()), |modified| file.set_modified(modified)));
            dated.map_err(|error| ToolError::Internal(error.to_string()))
        });
        let text = project.text(&name);
        assert_eq!(
            project.error(tool, input).await,
            format!("File {text} was modified while permission was being asked. Read it again and retry.")
        );
        assert_eq!(project.content(&name), theirs);
        assert!(project.host.edited.lock().expect("not poisoned").is_empty());
    }
}

fn edit(old: &str, new: &str) -> Value {
    json!({ "filePath": "a", "oldString": old, "newString": new })
}

#[tokio::test]
async fn edits_of_one_file_wait_for_each_other() {
    let mut project = Project::new();
    project.config.file_time = true;
    project.write("a", "1 2");
    project.output("read", json!({ "filePath": "a" })).await;
    let gate = Arc::new(Semaphore::new(0));
    project.host.gate = Some(gate.clone());
    let answered = async {
        project.host.arrived.notified().await;
        let first = project.last_ask().metadata["filediff"].clone();
        assert_eq!(first["before"], "1 2");
        gate.add_permits(1);
        project.host.arrived.notified().await;
        // The later call asks about the earlier one's result, so it asked only after that.
        assert_eq!(project.last_ask().metadata["filediff"]["before"], first["after"]);
        gate.add_permits(1);
    };
    project.host.arrived.notified().await;
    let (first, second, ()) =
        tokio::join!(project.run("edit", edit("1", "one")), project.run("edit", edit("2", "two")), answered);
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(project.content("a"), "one two");
}

#[tokio::test]
async fn another_session_does_not_wait_for_this_ones_user() {
    let inputs = [
        ("edit", edit("1", "one")),
        ("write", json!({ "filePath": "a", "content": "one" })),
        ("multiedit", json!({ "filePath": "a", "edits": [{ "oldString": "1", "newString": "one" }] })),
        (
            "apply_patch",
            json!({ "patchText": "*** Begin Patch\n*** Update File: a\n@@\n-1 2\n+one 2\n*** End Patch" }),
        ),
    ];
    for (tool, input) in inputs {
        let mut project = Project::new();
        project.write("a", "1 2");
        let gate = Arc::new(Semaphore::new(0));
        project.host.gate = Some(gate.clone());
        let mut other = Project::new();
        other.config.directory = project.config.directory.clone();
        other.config.worktree = project.config.worktree.clone();
        let others = async {
            project.host.arrived.notified().await;
            // Ends although the question is still open.
            other.output("edit", edit("2", "two")).await;
            gate.add_permits(1);
        };
        let (error, ()) = tokio::join!(project.error(tool, input), others);
        let text = project.text("a");
        assert_eq!(
            error,
            format!("File {text} was modified while permission was being asked. Read it again and retry.")
        );
        assert_eq!(project.content("a"), "1 two", "{tool}");
    }
}

#[tokio::test]
async fn large_texts_do_not_travel() {
    let project = Project::new();
    project.write("a", "a".repeat(MAX_SHOWN_BYTES + 1));
    let output = project.output("write", json!({ "filePath": "a", "content": "b" })).await;
    let filediff = &output.metadata["filediff"];
    assert_eq!((filediff.get("before"), filediff.get("after")), (None, None));
    project.write("b", "a".repeat(MAX_SHOWN_BYTES));
    let output = project.output("write", json!({ "filePath": "b", "content": "b" })).await;
    assert_eq!(output.metadata["filediff"]["after"], "b");
}

#[tokio::test]
async fn a_refusal_writes_nothing() {
    for permission in ["edit", "external_directory"] {
        let mut project = Project::new();
        project.deny(permission);
        let input = json!({ "filePath": "../outside/new/a", "content": "x" });
        assert_eq!(project.run("write", input).await, Err(ToolError::Denied { feedback: None }));
        assert!(!project.path("../outside").exists());
    }
}

#[tokio::test]
async fn outside_the_project_is_asked_for_twice() {
    let project = Project::new();
    let path = project.write("../outside/a", "old");
    let (directory, file) = (project.text("../outside"), project.text("../outside/a"));
    symlink("../outside", project.path("way-out")).expect("linked");
    let patterns = |inner: &[&str]| {
        vec![
            one("external_directory", format!("{directory}/*")),
            ("edit".to_owned(), inner.iter().map(|it| (*it).to_owned()).collect()),
        ]
    };
    project.output("write", json!({ "filePath": "../outside/a", "content": "1" })).await;
    assert_eq!(project.asked(), patterns(&[&file]));
    let first = project.host.asks.lock().expect("not poisoned")[0].clone();
    assert_eq!(Value::Object(first.metadata), json!({ "filepath": file, "parentDir": directory }));
    assert_eq!(first.always, first.patterns);
    project.host.asks.lock().expect("not poisoned").clear();
    project.output("edit", json!({ "filePath": "way-out/a", "oldString": "1", "newString": "2" })).await;
    assert_eq!(project.asked(), patterns(&["way-out/a", &file]));
    assert_eq!(fs::read_to_string(path).expect("read"), "2");
}

#[tokio::test]
async fn only_a_file_the_model_knows_is_changed() {
    let patch = |text: &str| format!("*** Begin Patch\n*** Update File: a\n@@\n-{text}\n+new\n*** End Patch");
    for (tool, input) in [
        ("edit", json!({ "filePath": "a", "oldString": "old", "newString": "new" })),
        ("write", json!({ "filePath": "a", "content": "new" })),
        ("multiedit", json!({ "filePath": "a", "edits": [{ "oldString": "old", "newString": "new" }] })),
        ("apply_patch", json!({ "patchText": patch("old") })),
    ] {
        let mut project = Project::new();
        project.config.file_time = true;
        project.write("a", "old");
        let text = project.text("a");
        assert_eq!(
            project.error(tool, input.clone()).await,
            format!("You must read the file {text} before overwriting it. Use the Read tool first")
        );
        project.write("a", "\0\0\0\0\0\0\0\0");
        if tool == "write" {
            let error = project.error(tool, input.clone()).await;
            assert!(error.ends_with("If it has to go, remove it with the bash tool."), "{error}");
        }
        project.write("a", "old");
        project.output("read", json!({ "filePath": "a" })).await;
        project.write("a", "old and more");
        let error = project.error(tool, input.clone()).await;
        let known = format!("File {text} has been modified since it was last read.\nLast modification: ");
        assert!(error.starts_with(&known), "{error}");
        assert!(error.ends_with("\n\nPlease read the file again before modifying it."), "{error}");
        assert_eq!(project.content("a"), "old and more");
        project.write("a", "old");
        project.output("read", json!({ "filePath": "a", "limit": 1 })).await;
        project.output(tool, input).await;
        // Content that was just written is known.
        project.output("write", json!({ "filePath": "a", "content": "again" })).await;
    }
}

#[tokio::test]
async fn a_change_is_noticed_though_size_and_time_are_the_same_and_a_touch_is_none() {
    for size in [4, FileStamp::MAX_HASHED + 1] {
        let mut project = Project::new();
        project.config.file_time = true;
        let (old, other) = ("a".repeat(size), "b".repeat(size));
        let path = project.write("a", &old);
        let modified = fs::metadata(&path).expect("there").modified().expect("has a time");
        project.output("read", json!({ "filePath": "a" })).await;
        project.write("a", &other);
        fs::File::options().write(true).open(&path).expect("opened").set_modified(modified).expect("set");
        let error = project.error("write", json!({ "filePath": "a", "content": "x" })).await;
        assert!(error.contains("has been modified since it was last read."), "{error}");
        assert_eq!(project.content("a").len(), size);
        // A replaced file is another file.
        project.output("read", json!({ "filePath": "a" })).await;
        project.write("b", &old);
        fs::File::options()
            .write(true)
            .open(project.path("b"))
            .expect("opened")
            .set_modified(modified)
            .expect("set");
        fs::rename(project.path("b"), &path).expect("renamed");
        let error = project.error("write", json!({ "filePath": "a", "content": "x" })).await;
        assert!(error.contains("has been modified since it was last read."), "{error}");
    }
    let mut project = Project::new();
    project.config.file_time = true;
    let path = project.write("a", "same");
    project.output("read", json!({ "filePath": "a" })).await;
    fs::remove_file(&path).expect("removed");
    project.write("a", "same");
    project.output("write", json!({ "filePath": "a", "content": "x" })).await;
    assert_eq!(project.content("a"), "x");
}

#[tokio::test]
async fn a_new_file_needs_no_reading() {
    let mut project = Project::new();
    project.config.file_time = true;
    project.output("write", json!({ "filePath": "a", "content": "one\n" })).await;
    project.output("edit", json!({ "filePath": "a", "oldString": "one", "newString": "two" })).await;
    let patch = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-two\n+three\n*** Add File: c\n+c\n*** End Patch";
    project.output("apply_patch", json!({ "patchText": patch })).await;
    project.output("edit", json!({ "filePath": "b", "oldString": "three", "newString": "four" })).await;
    assert_eq!(project.content("b"), "four\n");
}

#[tokio::test]
async fn names_with_line_breaks_are_refused() {
    let project = Project::new();
    let edits = json!([{ "oldString": "", "newString": "x" }]);
    for (tool, input) in [
        ("write", json!({ "filePath": "a\nb", "content": "x" })),
        ("edit", json!({ "filePath": "a\nb", "oldString": "", "newString": "x" })),
        ("multiedit", json!({ "filePath": "a\nb", "edits": edits })),
    ] {
        assert_eq!(
            project.error(tool, input).await,
            "A path must not contain line breaks or NUL characters: \"a\\nb\". Use bash instead."
        );
    }
    assert!(project.asked().is_empty());
}

#[tokio::test]
async fn a_path_with_a_trailing_slash_is_not_a_file() {
    let project = Project::new();
    project.write("file", "x");
    for name in ["new/", "./new/.", "file/", "file/.", "new/..", "/", ".", ".."] {
        let edits = json!([{ "oldString": "", "newString": "x" }]);
        for (tool, input) in [
            ("write", json!({ "filePath": name, "content": "y" })),
            ("edit", json!({ "filePath": name, "oldString": "", "newString": "y" })),
            ("multiedit", json!({ "filePath": name, "edits": edits })),
            (
                "apply_patch",
                json!({ "patchText": format!("*** Begin Patch\n*** Add File: {name}\n+y\n*** End Patch") }),
            ),
        ] {
            let expected =
                format!("{name} names a directory, not a file. End the path with the file's own name.");
            assert_eq!(project.error(tool, input).await, expected, "{tool}");
        }
    }
    assert!(project.asked().is_empty());
    assert_eq!((project.content("file").as_str(), project.path("new").exists()), ("x", false));
}

#[tokio::test]
async fn files_that_cannot_be_changed_are_named() {
    let project = Project::new();
    project.write("file", "x");
    fs::create_dir(project.path("directory")).expect("created");
    symlink("loop-b", project.path("loop-a")).expect("linked");
    symlink("loop-a", project.path("loop-b")).expect("linked");
    let text = |name: &str| project.text(name);
    let inputs = |name: &str| {
        let edit = json!({ "oldString": "x", "newString": "y" });
        let patch = format!("*** Begin Patch\n*** Update File: {name}\n@@\n-x\n+y\n*** End Patch");
        [
            ("write", json!({ "filePath": name, "content": "y" })),
            ("edit", json!({ "filePath": name, "oldString": "x", "newString": "y" })),
            ("multiedit", json!({ "filePath": name, "edits": [edit] })),
            ("apply_patch", json!({ "patchText": patch })),
        ]
    };
    for (name, expected) in [
        ("directory", format!("Path is a directory, not a file: {}", text("directory"))),
        ("file/below", format!("Cannot read {}: Not a directory (os error 20)", text("file/below"))),
        (
            "loop-a",
            format!("Cannot read {}: Too many levels of symbolic links (os error 40)", text("loop-a")),
        ),
        ("/dev/null", "Not a regular file: /dev/null".to_owned()),
    ] {
        for (tool, input) in inputs(name) {
            assert_eq!(project.error(tool, input).await, expected, "{tool}");
        }
    }
    assert_eq!(project.content("file"), "x");
}
