//! A wrong type costs no round if the meaning is clear; a missing argument is reported.

use serde_json::{Value, json};

use super::{arguments, schema_of, settings, simplify};
use crate::tool::{
    ToolError, bash, batch, edit, list, multiedit, question, read, read_mcp_resource, task, todowrite,
    webfetch, websearch,
};

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
    assert_eq!(args.timeout, Some(-5.0));
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
    let ignored = json!({ "ignore": "[\"a\", \"b\"]" });
    let args: list::Args = arguments("list", ignored).expect("decodes");
    assert_eq!(args.ignore, Some(vec!["a".to_owned(), "b".to_owned()]));
    // Text that is not a list is not decoded as one.
    assert!(arguments::<list::Args>("list", json!({ "ignore": "7" })).is_err());
}

#[test]
fn missing_and_wrong_arguments_are_named() {
    let schema = r#"{"type":"object","properties":{"filePath":{"type":"string"},"offset":{"type":"integer","minimum":0},"limit":{"type":"integer","minimum":0}},"required":["filePath"]}"#;
    for (input, issues) in [
        (json!({ "path": "a" }), "`filePath` is missing"),
        (json!({ "filePath": null }), "`filePath` must be of type string, but is null"),
        (
            json!({ "filePath": 1, "offset": "x" }),
            "`filePath` must be of type string, but is 1; `offset` must be of type integer, but is \"x\"",
        ),
        (json!({ "filePath": "a", "limit": 1.5 }), "`limit` must be of type integer, but is 1.5"),
        (json!([1]), "the input must be of type object, but is [1]"),
        (json!({ "filePath": "a", "limit": -1 }), "`limit` must be at least 0, but is -1"),
    ] {
        assert_eq!(
            arguments::<read::Args>("read", input).expect_err("fails"),
            ToolError::Model(format!(
                "The read tool was called with invalid arguments: {issues}.\nPlease rewrite the input so it satisfies the expected schema.\nExpected schema: {schema}"
            ))
        );
    }
    let error = |tool: &str, input| arguments::<Value>(tool, input);
    assert!(error("webfetch", json!({})).is_ok(), "a decoder that takes anything is never overruled");
    let todos = json!({ "todos": [{ "content": 1, "status": "pending" }, "x".repeat(200)] });
    let error = arguments::<todowrite::Args>("todowrite", todos).expect_err("fails").to_string();
    let long = format!("\"{}…", "x".repeat(79));
    let issues = format!(
        "`todos.0.priority` is missing; `todos.0.content` must be of type string, but is 1; `todos.1` must be of type object, but is {long}.\n"
    );
    assert!(error.contains(&issues), "{error}");
    let input = json!({ "url": "https://h", "format": "pdf" });
    let error = arguments::<webfetch::Args>("webfetch", input).expect_err("fails").to_string();
    let issue = r#"`format` must be one of "text", "markdown", "html", but is "pdf""#;
    assert!(error.contains(issue), "{error}");
}

#[test]
fn a_schema_equals_the_root_schema() {
    fn check<T: schemars::JsonSchema>() {
        let mut root = settings().into_generator().into_root_schema_for::<T>().to_value();
        simplify(&mut root);
        root.as_object_mut().expect("an object").remove("description");
        assert_eq!(schema_of::<T>(), root);
    }
    check::<bash::Args>();
    check::<batch::Args>();
    check::<edit::Args>();
    check::<list::Args>();
    check::<multiedit::Args>();
    check::<question::Args>();
    check::<read::Args>();
    check::<read_mcp_resource::Args>();
    check::<task::Args>();
    check::<todowrite::Args>();
    check::<webfetch::Args>();
    check::<websearch::Args>();
}
