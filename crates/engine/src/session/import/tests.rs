//! Kinds of parts, the order of imported ids, and the settings that strangers' files must not bring.

use super::*;

#[test]
fn all_kinds_of_parts_are_known() {
    let unknown = json!({"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1", "type": "new-kind"});
    let error = serde_json::from_value::<Part>(unknown).expect_err("unknown").to_string();
    let known = KINDS.map(|kind| format!("`{kind}`")).join(", ");
    assert_eq!(error, format!("unknown variant `new-kind`, expected one of {known}"));
}

/// Makes a file with two messages; their ids are not in the order of their times.
fn file(ids: [&str; 2], permission: Value) -> Value {
    json!({
        "info": {"id": "ses_1", "slug": "../../x", "permission": permission,
            "revert": {"messageID": ids[1], "snapshot": "--output=x", "diff": "x"}},
        "messages": [
            {"info": {"id": ids[0], "role": "user", "time": {"created": 2}}, "parts": [
                {"id": "prt_01", "type": "text", "text": "second"},
                {"id": "prt_02", "type": "step-start", "snapshot": "--output=x"},
                {"id": "prt_03", "type": "patch", "hash": "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "files": ["/x"]},
            ]},
            {"info": {"id": ids[1], "role": "user", "time": {"created": 1}}, "parts": []},
        ],
    })
}

fn read(file: Value) -> SessionFile {
    decode(&tolerant(file).expect("understood").0).expect("understood")
}

#[test]
fn ids_in_order_and_before_new_ones_are_kept() {
    let sorts = |ids| renaming::sorts_before_new_ids(&read(file(ids, json!([]))));
    assert!(sorts(["msg_000000000001a", "msg_000000000001b"]));
    assert!(!sorts(["msg_000000000001b", "msg_000000000001a"]));
    assert!(!sorts(["msg_000000000001a", "msg_zzz"]));
    let mut part = file(["msg_000000000001a", "msg_000000000001b"], json!([]));
    part["messages"][0]["parts"][2]["id"] = "prt_zzz".into();
    assert!(!renaming::sorts_before_new_ids(&read(part)));
}

#[test]
fn rules_trees_and_paths_of_strangers_are_left_out() {
    let rules = json!([
        {"permission": "*", "pattern": "*", "action": "allow"},
        {"permission": "bash", "pattern": "*", "action": "ask"},
        {"permission": "edit", "pattern": "*", "action": "deny"},
    ]);
    let file = read(file(["msg_1", "msg_2"], rules));
    let info = safety::without_powers(&file);
    let permission = serde_json::to_value(&info.permission).expect("JSON");
    assert_eq!(permission, json!([{"permission": "edit", "pattern": "*", "action": "deny"}]));
    assert!(!info.slug.contains('/'), "{}", info.slug);
    let revert = info.revert.expect("an undo of the conversation");
    assert_eq!((revert.message_id.as_str(), revert.snapshot, revert.diff), ("msg_2", None, None));
    let parts: Vec<Part> = file.messages[0].parts.iter().filter_map(safety::without_snapshots).collect();
    let parts = serde_json::to_string(&parts).expect("JSON");
    assert!(
        parts.contains("step-start") && !parts.contains("--output") && !parts.contains("4b825"),
        "{parts}"
    );
}
