//! Questions to the user, and calls that are refused before any server is asked.

use serde_json::json;
use windlass_core::config::rules::rule;

use super::*;
use crate::tool::{
    ToolError,
    fake::{Project, one},
};

#[tokio::test]
async fn the_question_names_the_operation_and_the_place() {
    let project = Project::new();
    project.write("a.rs", "fn a() {}");
    let any =
        |operation: &str| json!({"operation": operation, "filePath": "a.rs", "line": 1, "character": 4});
    for (operation, expected) in [
        ("hover", json!({"operation": "hover", "filePath": project.text("a.rs"), "line": 1, "character": 4})),
        ("documentSymbol", json!({"operation": "documentSymbol", "filePath": project.text("a.rs")})),
        (
            "workspaceSymbol",
            json!({"operation": "workspaceSymbol", "query": null, "filePath": project.text("a.rs")}),
        ),
    ] {
        project.host.asks.lock().unwrap().clear();
        let error = project.error("lsp", any(operation)).await;
        assert!(error.starts_with("No LSP server available for this file type.\n"), "{error}");
        assert!(error.contains("`\"lsp\": true`"), "{error}");
        assert_eq!(project.asked(), [one("lsp", "*"), one("read", "a.rs")]);
        let ask = project.host.asks.lock().unwrap()[0].clone();
        assert_eq!((json!(ask.metadata), ask.always), (expected, vec!["*".to_owned()]));
    }
}

#[tokio::test]
async fn a_file_outside_the_project_is_asked_for_first() {
    let project = Project::new();
    project.write("../beside/a.rs", "");
    project
        .error("lsp", json!({"operation": "hover", "filePath": "../beside/a.rs", "line": 1, "character": 1}))
        .await;
    let permissions: Vec<String> = project.asked().into_iter().map(|(permission, _)| permission).collect();
    assert_eq!(permissions, ["external_directory", "lsp", "read"]);
}

#[tokio::test]
async fn a_refused_call_asks_no_server() {
    for permission in ["lsp", "read"] {
        let mut project = Project::new();
        project.write("a.rs", "");
        project.deny(permission);
        let input = json!({"operation": "hover", "filePath": "a.rs", "line": 1, "character": 1});
        assert_eq!(project.run("lsp", input).await, Err(ToolError::Denied { feedback: None }));
        assert_eq!(project.last_ask().permission, permission);
    }
}

#[tokio::test]
async fn missing_files_and_wrong_places_are_named() {
    let project = Project::new();
    project.write("directory/a.rs", "");
    let at =
        |path: &str, line: i64| json!({"operation": "hover", "filePath": path, "line": line, "character": 1});
    assert_eq!(project.error("lsp", at("", 1)).await, "filePath is required");
    assert_eq!(
        project.error("lsp", at("no.rs", 1)).await,
        format!("File not found: {}", project.text("no.rs"))
    );
    let error = project.error("lsp", at("directory", 1)).await;
    assert_eq!(error, format!("Path is a directory, not a file: {}", project.text("directory")));
    assert!(project.error("lsp", at("a.rs", 0)).await.contains("`line` must be at least 1"));
    let unknown = json!({"operation": "rename", "filePath": "a.rs", "line": 1, "character": 1});
    assert!(project.error("lsp", unknown).await.contains("`operation` must be one of \"goToDefinition\""));
}

#[test]
fn results_in_files_that_reading_asks_for_are_left_out() {
    let project = Project::new();
    let rules = vec![
        rule("*", "*", Action::Allow),
        rule("external_directory", "*", Action::Ask),
        rule("external_directory", "/private/*", Action::Deny),
        rule("read", "*.env", Action::Ask),
        rule("read", "denied/*", Action::Deny),
    ];
    let guard = |answers: Vec<Rule>| Guard {
        roots: Roots::new(&project.config),
        policy: Policy::new(rules.clone()),
        answers,
        known: BTreeMap::new(),
        withheld: BTreeSet::new(),
    };
    let at = |name: &str| json!(format!("file://{}", project.text(name)));
    for (result, expected) in [
        (json!({"uri": at("a.rs")}), true),
        (json!({"uri": at(".env")}), false),
        (json!({"uri": at("%2Eenv")}), false),
        (json!({"targetUri": at("denied/a.rs")}), false),
        (json!({"name": "a", "location": {"uri": at("denied/a.rs")}}), false),
        (json!({"from": {"name": "a", "uri": at("denied/a.rs")}}), false),
        (json!({"to": {"name": "a", "uri": at("x/../denied/a.rs")}}), false),
        (json!({"uri": "file:///usr/lib/a.rs"}), true),
        (json!({"uri": "file:///private/a.rs"}), false),
        (json!({"uri": "jdt://contents/a.class"}), true),
        (json!({"uri": "no URL"}), false),
        (json!({"contents": "text"}), true),
    ] {
        let mut guard = guard(Vec::new());
        assert_eq!((guard.allows(&result), guard.withheld.is_empty()), (expected, expected), "{result}");
    }
    let mut agreed = guard(vec![rule("read", "*.env", Action::Allow)]);
    assert!(agreed.allows(&json!({"uri": at(".env")})), "the user has agreed to it for ever");
}
