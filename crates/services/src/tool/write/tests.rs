//! Questions, writes and answers of the tool.

use std::fs;

use serde_json::{Value, json};

use crate::tool::fake::{Project, one};

#[tokio::test]
async fn a_new_file_has_nothing_before_it() {
    let project = Project::new();
    let output = project.output("write", json!({ "filePath": "new/n.txt", "content": "new\n" })).await;
    let file = project.text("new/n.txt");
    let patch = format!("Index: {file}\n{}\n--- {file}\n+++ {file}\n@@ -0,0 +1,1 @@\n+new\n", "=".repeat(67));
    let filediff = json!({
        "file": file, "patch": patch, "additions": 1, "deletions": 0, "before": null, "after": "new\n",
    });
    assert_eq!(output.title, "new/n.txt");
    assert_eq!(output.output, "Wrote file successfully.");
    assert_eq!(
        Value::Object(output.metadata),
        json!({
            "diagnostics": {}, "filepath": file, "exists": false, "filediff": filediff, "truncated": false,
        })
    );
    assert_eq!(project.asked(), [one("edit", "new/n.txt")]);
    assert_eq!(
        Value::Object(project.last_ask().metadata),
        json!({ "filepath": file, "diff": patch, "filediff": filediff })
    );
    assert_eq!(project.content("new/n.txt"), "new\n");
}

#[tokio::test]
async fn an_existing_file_is_replaced_and_keeps_its_byte_order_mark() {
    let project = Project::new();
    project.write("a", "\u{feff}old\r\n");
    let output = project.output("write", json!({ "filePath": project.text("a"), "content": "new\n" })).await;
    assert_eq!(output.metadata["exists"], true);
    assert_eq!(project.content("a"), "\u{feff}new\r\n");
}

#[tokio::test]
async fn a_file_keeps_its_uniform_line_ends() {
    let project = Project::new();
    for (before, content, after) in [
        ("a\r\nb\r\n", "x\ny", "x\r\ny"),
        ("a\r\nb", "x\r\ny\n", "x\r\ny\r\n"),
        ("a\nb\n", "x\r\ny\n", "x\ny\n"),
        // Mixed line ends, and a single line, do not change the written text.
        ("a\r\nb\n", "x\ny\r\n", "x\ny\r\n"),
        ("a", "x\r\ny\n", "x\r\ny\n"),
        ("\u{feff}a\r\n", "\u{feff}x\n", "\u{feff}x\r\n"),
    ] {
        project.write("a", before);
        project.output("write", json!({ "filePath": "a", "content": content })).await;
        assert_eq!(project.content("a"), after, "{before:?} {content:?}");
    }
    project.output("write", json!({ "filePath": "new", "content": "x\r\ny\n" })).await;
    assert_eq!(project.content("new"), "x\r\ny\n");
}

#[tokio::test]
async fn failures_say_what_is_wrong() {
    let project = Project::new();
    fs::create_dir(project.path("directory")).expect("created");
    project.write("file", "");
    assert_eq!(
        project.error("write", json!({ "filePath": "", "content": "" })).await,
        "filePath is required"
    );
    assert_eq!(
        project.error("write", json!({ "filePath": "directory", "content": "" })).await,
        format!("Path is a directory, not a file: {}", project.text("directory"))
    );
    assert_eq!(
        project.error("write", json!({ "filePath": "file/below", "content": "" })).await,
        format!("Cannot read {}: Not a directory (os error 20)", project.text("file/below"))
    );
}
