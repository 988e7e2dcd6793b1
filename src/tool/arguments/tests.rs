//! A slip in a type costs no round; a missing argument is said.

use serde_json::{Value, json};

use super::arguments;
use crate::tool::{ToolError, bash, edit, list, read, todowrite};

#[test]
fn numbers_and_booleans_may_come_as_text() {
    let args: read::Args =
        arguments("read", json!({ "filePath": "a", "offset": " 12 ", "limit": 5.0 })).expect("decodes");
    assert_eq!((args.offset, args.limit), (Some(12), Some(5)));
    let args: edit::Args = arguments(
        "edit",
        json!({ "filePath": "a", "oldString": "1", "newString": "true", "replaceAll": "True" }),
    )
    .expect("decodes");
    assert_eq!((args.old_string.as_str(), args.new_string.as_str(), args.replace_all), ("1", "true", true));
    let args: bash::Args = arguments("bash", json!({ "command": "ls", "timeout": "-5" })).expect("decodes");
    assert_eq!(args.timeout, Some(-5));
}

#[test]
fn null_means_not_given() {
    let args: edit::Args = arguments(
        "edit",
        json!({ "filePath": "a", "oldString": "b", "newString": "c", "replaceAll": null, "more": 1 }),
    )
    .expect("decodes");
    assert!(!args.replace_all);
    let args: list::Args = arguments("list", Value::Null).expect("decodes");
    assert!(args.path.is_none() && args.ignore.is_none());
}

#[test]
fn a_list_may_come_as_json_text() {
    let todos = json!({ "todos": "[{\"content\":\"a\",\"status\":\"pending\",\"priority\":\"low\"}]" });
    let args: todowrite::Args = arguments("todowrite", todos).expect("decodes");
    assert_eq!(args.todos.len(), 1);
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let check = |error: ToolError, issue: &str| {
        assert_eq!(
            error,
            ToolError::Model(format!(
                "The read tool was called with invalid arguments: {issue}.\nPlease rewrite the input so it satisfies the expected schema."
            ))
        );
    };
    let read = |input| arguments::<read::Args>("read", input).expect_err("fails");
    check(read(json!({ "path": "a" })), "missing field `filePath`");
    check(
        read(json!({ "filePath": "a", "offset": "x" })),
        "invalid type: string \"x\", expected usize at `offset`",
    );
    check(read(json!([1])), "invalid type: integer `1`, expected a string");
    let todos = json!({ "todos": [{ "content": 1, "status": "pending", "priority": "low" }] });
    let error = arguments::<todowrite::Args>("todowrite", todos).expect_err("fails").to_string();
    assert!(error.contains("expected a string at `todos.0.content`.\n"), "{error}");
}
