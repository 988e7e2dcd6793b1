//! All edits or none, in order.

use std::fs;

use serde_json::{Value, json};

use crate::tool::fake::{Project, one};

fn edits(edits: &[(&str, &str)]) -> Value {
    let edits: Vec<Value> =
        edits.iter().map(|(old, new)| json!({ "oldString": old, "newString": new })).collect();
    json!({ "filePath": "a.txt", "edits": edits })
}

#[tokio::test]
async fn edits_are_made_in_order_and_asked_for_once() {
    let project = Project::new();
    project.write("a.txt", "\u{feff}one\r\ntwo\r\n");
    let output = project.output("multiedit", edits(&[("one", "1\n1"), ("1\n1\ntwo", "three")])).await;
    assert_eq!((output.title.as_str(), output.output.as_str()), ("a.txt", "Edit applied successfully."));
    assert_eq!(project.content("a.txt"), "\u{feff}three\r\n");
    assert_eq!(project.asked(), [one("edit", "a.txt")]);
    let filediff = &output.metadata["filediff"];
    assert_eq!((&filediff["additions"], &filediff["deletions"]), (&json!(1), &json!(2)));
    assert_eq!(project.last_ask().metadata["filediff"], *filediff);
    let all = json!({ "filePath": "a.txt", "edits": [
        { "oldString": "e", "newString": "E", "replaceAll": true }, { "oldString": "EE", "newString": "ee" },
    ] });
    project.output("multiedit", all).await;
    assert_eq!(project.content("a.txt"), "\u{feff}three\r\n");
}

#[tokio::test]
async fn the_first_edit_may_create() {
    let project = Project::new();
    project.output("multiedit", edits(&[("", "one\n"), ("one", "two")])).await;
    assert_eq!(project.content("a.txt"), "two\n");
}

#[tokio::test]
async fn one_that_fails_undoes_all() {
    let project = Project::new();
    let text = project.text("a.txt");
    let none = "(edit 2 of 2; none was applied)";
    for (content, given, expected) in [
        (None, vec![("a", "b")], format!("File {text} not found\n(edit 1 of 1; none was applied)")),
        (None, vec![], "No changes to apply: edits is empty.".to_owned()),
        (
            Some("a b"),
            vec![("a", "b"), ("b", "c")],
            format!(
                "Found multiple matches for oldString. Provide more surrounding context to make the match unique.\n{none}"
            ),
        ),
        (
            Some("a b"),
            vec![("a", "x"), ("a", "y")],
            format!(
                "Could not find oldString in the file. It must match exactly, including whitespace, indentation, and line endings.\n{none}"
            ),
        ),
        (
            Some("a b"),
            vec![("a", "x"), ("b", "b")],
            format!("No changes to apply: oldString and newString are identical.\n{none}"),
        ),
        (
            Some("a b"),
            vec![("a", "x"), ("", "y")],
            format!(
                "oldString cannot be empty when editing an existing file. Provide the exact text to replace, or use write for an intentional full-file replacement.\n{none}"
            ),
        ),
    ] {
        if let Some(content) = content {
            project.write("a.txt", content);
        }
        assert_eq!(project.error("multiedit", edits(&given)).await, expected);
        assert_eq!(fs::read_to_string(project.path("a.txt")).ok().as_deref(), content);
    }
    assert!(project.asked().is_empty());
}
