//! Errors that models read, as people read them.

use serde_json::{Map, Value, json};

use super::of;

fn check(error: &str, metadata: Value, expected: &str) {
    let metadata: Map<String, Value> = serde_json::from_value(metadata).expect("object");
    assert_eq!(of(error, Some(&metadata)), expected);
}

#[test]
fn neither_json_nor_marks_reach_people() {
    let rules = "The user has specified a rule which prevents you from using this specific tool call. Here are some \
                 of the relevant rules [{\"permission\":\"bash\",\"pattern\":\"*\",\"action\":\"allow\"},\
                 {\"permission\":\"bash\",\"pattern\":\"rm *\",\"action\":\"deny\"}]";
    check(rules, json!({"denied": true}), "denied by the rules: `bash` of `rm *`");
    let rejected = "The user rejected permission to use this specific tool call";
    check(&format!("{rejected}."), json!({"denied": true}), "refused");
    let reasoned = format!("{rejected} with the following feedback: use jj");
    check(&reasoned, json!({"denied": true}), "refused: use jj");
    let aborted = "begun\n\n\n<shell_metadata>\nUser aborted the command\n</shell_metadata>";
    check(aborted, json!({"interrupted": true}), "User aborted the command");
    check("Tool execution aborted", json!({"interrupted": true}), "cancelled");
    check("no such file", json!({}), "no such file");
}
