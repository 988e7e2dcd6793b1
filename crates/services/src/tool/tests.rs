//! The table of tools as the model sees it.

use serde_json::{Value, json};
use windlass_core::config::rules::PERMISSIONS;

use super::{
    BUILTIN,
    fake::{Project, offer},
    find, permission_name,
    row::Offer,
};

mod known;

#[test]
fn names_are_unique_and_texts_end_in_a_newline() {
    let mut names: Vec<&str> = BUILTIN.iter().map(|tool| &*tool.name).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "apply_patch",
            "bash",
            "batch",
            "codesearch",
            "edit",
            "glob",
            "grep",
            "invalid",
            "job",
            "list",
            "list_mcp_resource_templates",
            "list_mcp_resources",
            "lsp",
            "multiedit",
            "patch",
            "plan_enter",
            "plan_exit",
            "question",
            "read",
            "read_mcp_resource",
            "skill",
            "task",
            "todoread",
            "todowrite",
            "webfetch",
            "websearch",
            "write",
        ]
    );
    assert!(BUILTIN.iter().all(|tool| tool.text.ends_with(".\n")));
    assert!(find("nosuch").is_none());
}

#[test]
fn writing_tools_share_one_permission() {
    let names: Vec<&str> =
        ["edit", "write", "apply_patch", "patch", "multiedit", "read"].map(permission_name).into();
    assert_eq!(names, ["edit", "edit", "edit", "edit", "edit", "read"]);
}

#[test]
fn models_that_learnt_to_write_patches_get_them_instead_of_edits() {
    let changing = ["edit", "write", "multiedit", "apply_patch", "patch"];
    let config = Project::new().config;
    let is_offered = |tool: &str, model: &str| {
        find(tool).expect(tool).is_offered(&Offer { model_id: model, ..offer(&config) })
    };
    let offered = |model: &str| changing.map(|tool| is_offered(tool, model));
    for model in ["gpt-5", "openai/gpt-5.1-codex", "gpt-3.5-turbo"] {
        assert_eq!(offered(model), [false, false, false, true, true], "{model}");
    }
    for model in ["gpt-4o", "gpt-4.1", "gpt-oss-120b", "claude-sonnet-4-5", "demo", "gpt5"] {
        assert_eq!(offered(model), [true, true, true, false, false], "{model}");
    }
    assert!(is_offered("read", "gpt-5") && is_offered("todoread", "demo"));
}

#[test]
fn schemas_are_plain_objects() {
    let without_texts = |name: &str| {
        fn strip(value: &mut Value) {
            match value {
                Value::Object(object) => {
                    object.retain(|key, value| key != "description" || value.is_object());
                    object.values_mut().for_each(strip);
                }
                Value::Array(items) => items.iter_mut().for_each(strip),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let mut schema = find(name).expect("there").schema().into_owned();
        strip(&mut schema);
        schema
    };
    let string = json!({ "type": "string" });
    assert_eq!(
        without_texts("bash"),
        json!({
            "type": "object",
            "properties": {
                "command": string,
                "timeout": { "type": "number", "exclusiveMinimum": 0 },
                "workdir": string,
                "description": string,
                "background": { "type": "boolean" },
            },
            "required": ["command"],
            "additionalProperties": false,
        })
    );
    assert_eq!(
        without_texts("read"),
        json!({
            "type": "object",
            "properties": {
                "filePath": string,
                "offset": { "type": "integer", "minimum": 0 },
                "limit": { "type": "integer", "minimum": 0 },
            },
            "required": ["filePath"],
            "additionalProperties": false,
        })
    );
    assert_eq!(
        without_texts("edit"),
        json!({
            "type": "object",
            "properties": {
                "filePath": string,
                "oldString": string,
                "newString": string,
                "replaceAll": { "type": "boolean" },
            },
            "required": ["filePath", "oldString", "newString"],
            "additionalProperties": false,
        })
    );
    assert_eq!(
        without_texts("todowrite"),
        json!({
            "type": "object",
            "properties": { "todos": { "type": "array", "items": {
                "type": "object",
                "properties": { "content": string, "status": string, "priority": string },
                "required": ["content", "status", "priority"],
                "additionalProperties": false,
            } } },
            "required": ["todos"],
            "additionalProperties": false,
        })
    );
    for (name, properties, required) in [
        ("write", ["content", "filePath"].as_slice(), ["content", "filePath"].as_slice()),
        ("multiedit", &["filePath", "edits"], &["filePath", "edits"]),
        ("apply_patch", &["patchText"], &["patchText"]),
        ("patch", &["patchText"], &["patchText"]),
        ("glob", &["pattern", "path"], &["pattern"]),
        ("grep", &["pattern", "path", "include"], &["pattern"]),
        ("list", &["path", "ignore"], &[]),
        ("invalid", &["tool", "error"], &["tool", "error"]),
    ] {
        let schema = without_texts(name);
        let names: Vec<&String> = schema["properties"].as_object().expect("an object").keys().collect();
        assert_eq!(names, properties, "{name}");
        assert_eq!(schema.get("required").cloned().unwrap_or(json!([])), json!(required), "{name}");
    }
}

#[tokio::test]
async fn invalid_says_what_was_wrong() {
    let output = Project::new().output("invalid", json!({ "tool": "x", "error": "no such tool" })).await;
    assert_eq!(output.title, "Invalid Tool");
    assert_eq!(output.output, "The arguments provided to the tool are invalid: no such tool");
    assert_eq!(Value::Object(output.metadata), json!({ "truncated": false }));
}

#[test]
fn the_configuration_knows_the_name_of_every_permission() {
    let asked = BUILTIN.iter().filter(|tool| tool.name != "invalid").map(|tool| permission_name(&tool.name));
    let unknown: Vec<&str> =
        asked.chain(super::OTHER_PERMISSIONS).filter(|it| !PERMISSIONS.contains(it)).collect();
    assert_eq!(unknown, Vec::<&str>::new());
}
