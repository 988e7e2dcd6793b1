//! Messages for tool calls, questions, plans, sessions and the end of a turn.

use std::path::Path;

use serde_json::{Value, json};
use windlass_base::diff;
use windlass_engine as engine;
use windlass_protocol::opencode::{part::ToolPart, permission::PermissionRequest, session::Todo};

use windlass_protocol_acp::schema::PlanEntry;

use super::{
    BaseDirectories, permission, plan_entry, session_info, stop_reason, tool_call, tool_call_update, usage,
};

const CWD: &str = "/work";

fn bases() -> BaseDirectories<'static> {
    BaseDirectories { cwd: Path::new(CWD), home: Path::new("/home/u") }
}

fn part(tool: &str, state: Value) -> ToolPart {
    serde_json::from_value(json!({"callID": "call_1", "tool": tool, "state": state})).unwrap()
}

fn first_seen(tool: &str, input: Value) -> Value {
    let state = json!({"status": "pending", "input": input, "raw": ""});
    serde_json::to_value(tool_call(&part(tool, state), bases())).unwrap()
}

fn update(tool: &str, state: Value) -> Value {
    serde_json::to_value(tool_call_update(&part(tool, state), bases())).unwrap()
}

fn completed(tool: &str, input: Value, output: &str, metadata: Value, attachments: Value) -> Value {
    let state = json!({
        "status": "completed", "input": input, "output": output, "title": "shown", "metadata": metadata,
        "time": {"start": 1, "end": 2}, "attachments": attachments,
    });
    update(tool, state)
}

fn text(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

/// Returns the metadata of `edit` for a change of `/work/a.rs`.
fn change(before: Value, after: &str) -> Value {
    let patch = diff::unified("/work/a.rs", before.as_str().unwrap_or_default(), after).patch;
    json!({
        "filepath": "/work/a.rs",
        "diff": patch,
        "filediff": {"file": "/work/a.rs", "patch": patch, "additions": 1, "deletions": 1,
                     "before": before, "after": after},
    })
}

/// Returns the same without the whole texts.
fn stripped(change: &Value) -> Value {
    let mut change = change.clone();
    let filediff = change["filediff"].as_object_mut().unwrap();
    filediff.remove("before");
    filediff.remove("after");
    change
}

#[track_caller]
fn check_call(tool: &str, input: Value, title: &str, kind: &str, locations: Value) {
    let shown = first_seen(tool, input.clone());
    let mut expected = json!({"toolCallId": "call_1", "title": title, "name": tool, "rawInput": input});
    // The status `pending`, the kind `other` and an empty list mean the same as their absence.
    if kind != "other" {
        expected["kind"] = json!(kind);
    }
    if locations != json!([]) {
        expected["locations"] = locations.clone();
    }
    assert_eq!(shown, expected);
    let mut running =
        update(tool, json!({"status": "running", "input": shown["rawInput"], "time": {"start": 1}}));
    assert_eq!(running["status"], "pending", "it may still have to be allowed");
    for key in ["toolCallId", "title", "rawInput"] {
        assert_eq!(running[key].take(), shown[key], "{key}");
    }
    assert_eq!((&running["kind"], &running["locations"]), (&json!(kind), &locations));
}

#[test]
fn a_call_says_what_it_does_and_where() {
    let at = |path: &str| json!([{"path": path}]);
    check_call("bash", json!({"command": "ls -l"}), "ls -l", "execute", at("/work"));
    for (workdir, directory) in
        [("sub", "/work/sub"), ("~/sub", "/home/u/sub"), ("~", "/home/u"), ("", "/work")]
    {
        let input = json!({"command": "ls", "workdir": workdir});
        check_call("bash", input, "ls", "execute", at(directory));
    }
    check_call("bash", json!({"command": "ls", "workdir": "/tmp"}), "ls", "execute", at("/tmp"));
    check_call("read", json!({"filePath": "/a.rs"}), "read /a.rs", "read", at("/a.rs"));
    let read = json!({"filePath": "a.rs", "offset": 7});
    check_call("read", read, "read a.rs", "read", json!([{"path": "/work/a.rs", "line": 7}]));
    let read = json!({"filePath": "a.rs", "offset": 0});
    check_call("read", read, "read a.rs", "read", json!([{"path": "/work/a.rs", "line": 1}]));
    check_call("edit", json!({"filePath": "/a.rs"}), "edit /a.rs", "edit", at("/a.rs"));
    check_call("write", json!({"filePath": "/work/b/a.rs"}), "write b/a.rs", "edit", at("/work/b/a.rs"));
    check_call("grep", json!({"pattern": "fn", "path": "src"}), "search \"fn\"", "search", at("/work/src"));
    check_call("glob", json!({"pattern": "*.rs"}), "find \"*.rs\"", "search", at("/work"));
    check_call("list", json!({"path": "src"}), "list src", "search", at("/work/src"));
    check_call("webfetch", json!({"url": "https://x"}), "fetch https://x", "fetch", json!([]));
    check_call("websearch", json!({"query": "q"}), "search the web for \"q\"", "fetch", json!([]));
    check_call("task", json!({"description": "look"}), "look", "think", json!([]));
    check_call("plan_exit", json!({}), "plan_exit", "switch_mode", json!([]));
    check_call("todowrite", json!({"todos": []}), "update the plan", "other", json!([]));
    check_call("github_search", json!({"query": "q"}), "github_search", "other", json!([]));
}

#[test]
fn a_call_whose_input_is_not_known_yet_has_its_tool_s_name() {
    check_call("read", json!({}), "read", "read", json!([]));
    check_call("bash", json!({}), "bash", "execute", json!([{"path": "/work"}]));
}

#[test]
fn a_running_command_shows_the_end_of_its_output() {
    let running = |output: &str| {
        let state = json!({"status": "running", "input": {"command": "make"}, "time": {"start": 1},
                           "metadata": {"output": output}});
        update("bash", state)["content"].clone()
    };
    assert_eq!(running("cc a.c\n"), json!([text("cc a.c\n")]));
    assert_eq!(running(""), Value::Null);
    let long = format!("{}{}", "a".repeat(5000), "ä".repeat(2047));
    assert_eq!(running(&long), json!([text(&format!("aa{}", "ä".repeat(2047)))]));
    assert_eq!(running(&format!("{long}a")), json!([text(&format!("a{}a", "ä".repeat(2047)))]));
}

#[test]
fn a_running_tool_of_a_server_has_the_title_it_was_given() {
    let state = json!({"status": "running", "input": {}, "title": "Searching", "time": {"start": 1}});
    assert_eq!(update("github_search", state)["title"], "Searching");
}

#[test]
fn a_pending_call_says_nothing_but_that() {
    let expected = json!({"toolCallId": "call_1", "kind": "read", "name": "read", "status": "pending"});
    assert_eq!(update("read", json!({"status": "pending", "input": {}, "raw": ""})), expected);
}

#[test]
fn a_change_shows_both_whole_texts_and_says_them_once() {
    let metadata = change(json!("a\nb\nc\nd\ne\nf\ng\n"), "a\nb\nc\nd\ne\nf\nG\n");
    let shown = completed("edit", json!({"filePath": "a.rs"}), "done", metadata.clone(), Value::Null);
    let expected = json!({
        "toolCallId": "call_1", "kind": "edit", "name": "edit", "status": "completed", "title": "edit a.rs",
        "locations": [{"path": "/work/a.rs", "line": 7}],
        "content": [
            text("done"),
            {"type": "diff", "path": "/work/a.rs", "oldText": "a\nb\nc\nd\ne\nf\ng\n",
             "newText": "a\nb\nc\nd\ne\nf\nG\n"},
        ],
        "rawOutput": {"output": "done", "metadata": stripped(&metadata)},
    });
    assert_eq!(shown, expected);
}

/// Returns the metadata of `apply_patch` for an added, a deleted and a moved file.
fn patch_metadata() -> Value {
    let file = |name: &str, kind: &str, before: Value, after: Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let patch = diff::unified(name, &text(&before), &text(&after)).patch;
        json!({"filePath": format!("/work/{name}"), "relativePath": name, "type": kind, "patch": patch,
               "additions": 1, "deletions": 1, "before": before, "after": after})
    };
    let mut moved = file("from.rs", "move", json!("a\nb\n"), json!("a\nB\n"));
    moved["movePath"] = json!("/work/to.rs");
    let added = file("new.rs", "add", Value::Null, json!("n\n"));
    let deleted = file("old.rs", "delete", json!("o\n"), Value::Null);
    json!({"filepath": "new.rs, old.rs, to.rs", "changes": "what happens", "diff": "", "files": [added, deleted, moved]})
}

#[test]
fn a_patch_shows_every_file_once() {
    let metadata = patch_metadata();
    let mut bare = metadata.clone();
    for file in bare["files"].as_array_mut().unwrap() {
        let file = file.as_object_mut().unwrap();
        file.remove("before");
        file.remove("after");
    }
    let diffs = json!([
        {"type": "diff", "path": "/work/new.rs", "newText": "n\n"},
        {"type": "diff", "path": "/work/old.rs", "oldText": "o\n", "newText": "", "_meta": {"kind": "delete"}},
        {"type": "diff", "path": "/work/to.rs", "oldText": "a\nb\n", "newText": "a\nB\n"},
    ]);
    let places = json!([
        {"path": "/work/new.rs", "line": 1}, {"path": "/work/old.rs", "line": 1},
        {"path": "/work/to.rs", "line": 2}, {"path": "/work/from.rs"},
    ]);
    let patch = "*** Begin Patch\n*** Add File: new.rs\n+n\n*** Update File: from.rs\n*** Move to: to.rs\n*** Delete File: old.rs\n";
    let input = json!({"patchText": patch});
    assert_eq!(
        first_seen("apply_patch", input.clone())["title"],
        "add new.rs, from.rs → to.rs, delete old.rs"
    );
    let without_nulls = |mut content: Value| {
        for item in content.as_array_mut().unwrap() {
            item.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        }
        content
    };
    let shown = completed("apply_patch", input, "done", metadata.clone(), Value::Null);
    let mut content = without_nulls(shown["content"].clone());
    assert_eq!(content.as_array_mut().unwrap().remove(0), text("done"));
    assert_eq!((&content, &shown["locations"]), (&diffs, &places));
    assert_eq!(shown["rawOutput"]["metadata"], bare);
    let request: PermissionRequest = serde_json::from_value(json!({
        "id": "per_1", "sessionID": "ses_1", "permission": "edit", "patterns": ["new.rs", "old.rs"],
        "metadata": metadata, "always": ["*"],
    }))
    .unwrap();
    let asked = serde_json::to_value(permission(&request.session_id, &request, Path::new(CWD))).unwrap();
    let call = &asked["toolCall"];
    assert_eq!((&call["title"], &call["kind"]), (&json!("what happens"), &json!("edit")));
    assert_eq!((without_nulls(call["content"].clone()), &call["locations"]), (diffs, &places));
    assert_eq!(call["rawInput"], bare);
}

#[test]
fn a_patch_that_only_deletes_is_a_deletion() {
    let patch = |sections: &[&str]| json!({"patchText": format!("*** Begin Patch\n{}\n*** End Patch", sections.join("\n"))});
    let (gone, empty) = ("*** Delete File: gone", "*** Delete File:empty ");
    for (sections, title, kind) in [
        (&[gone][..], "delete gone", "delete"),
        (&[gone, empty], "delete gone, delete empty", "delete"),
        (&[gone, "*** Update File: a\n@@\n-a\n+b"], "delete gone, update a", "edit"),
        (&["*** Update File: a\n@@\n-a\n+b", "*** Update File: b\n@@\n-a\n+b"], "a, b", "edit"),
    ] {
        check_call("apply_patch", patch(sections), title, kind, json!([]));
    }
    let asked = |kinds: &[&str]| {
        let files = kinds.iter().map(|kind| json!({"filePath": "/work/f", "type": kind})).collect::<Vec<_>>();
        let request: PermissionRequest = serde_json::from_value(json!({
            "id": "per_1", "sessionID": "ses_1", "permission": "edit", "patterns": ["f"],
            "metadata": {"filepath": "f", "files": files}, "always": ["*"],
        }))
        .unwrap();
        serde_json::to_value(permission(&request.session_id, &request, Path::new(CWD))).unwrap()["toolCall"]["kind"].take()
    };
    assert_eq!(
        [asked(&["delete", "delete"]), asked(&["delete", "move"]), asked(&[])],
        ["delete", "edit", "edit"]
    );
}

#[track_caller]
fn check_line(before: Value, after: &str, expected: u32) {
    let shown = completed("edit", json!({"filePath": "a.rs"}), "", change(before, after), Value::Null);
    assert_eq!(shown["locations"], json!([{"path": "/work/a.rs", "line": expected}]));
}

#[test]
fn the_client_is_led_to_the_first_changed_line() {
    check_line(json!("a\n"), "b\n", 1);
    check_line(json!("a\nb\n"), "a\nB\n", 2);
    check_line(json!("a\n\nc\n"), "a\n\nC\n", 3);
    check_line(json!("a\nb\n"), "a\nb\nc\n", 3);
    check_line(json!("a\nb\nc\n"), "a\nc\n", 2);
    check_line(json!("a\n"), "", 1);
    check_line(Value::Null, "a\nb\n", 1);
}

#[test]
fn a_new_file_has_no_text_before() {
    let shown = completed("write", json!({"filePath": "a.rs"}), "", change(Value::Null, "a\n"), Value::Null);
    let expected = json!({"type": "diff", "path": "/work/a.rs", "newText": "a\n"});
    let mut shown = shown["content"][1].clone();
    // Absent and null say the same.
    if shown["oldText"].is_null() {
        shown.as_object_mut().unwrap().remove("oldText");
    }
    assert_eq!(shown, expected);
}

#[test]
fn a_change_too_large_to_keep_is_shown_without_its_texts() {
    let metadata = stripped(&change(json!("a\n"), "b\n"));
    let shown = completed("edit", json!({"filePath": "a.rs"}), "done", metadata.clone(), Value::Null);
    assert_eq!(shown["content"], json!([text("done")]));
    assert_eq!(shown["rawOutput"]["metadata"], metadata);
}

#[test]
fn a_file_that_was_read_is_shown_bare() {
    let metadata = json!({"display": {"text": "fn a() {}"}});
    let shown = completed("read", json!({"filePath": "a.rs"}), "1: fn a() {}", metadata.clone(), Value::Null);
    assert_eq!(shown["content"], json!([text("fn a() {}")]));
    assert_eq!(shown["rawOutput"], json!({"output": "1: fn a() {}", "metadata": metadata}));
}

#[test]
fn an_attached_image_is_shown_and_its_data_said_once() {
    let attachment = |mime: &str, filename: Value| {
        json!({
            "id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1", "type": "file", "mime": mime,
            "filename": filename, "url": format!("data:{mime};base64,AAAA"),
        })
    };
    let attachments =
        json!([attachment("image/png", json!("a.png")), attachment("application/pdf", Value::Null)]);
    let shown = completed("read", json!({"filePath": "a.png"}), "Image read", json!({}), attachments);
    let image =
        json!({"type": "content", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}});
    assert_eq!(shown["content"], json!([text("Image read"), image]));
    let expected = json!({
        "output": "Image read", "metadata": {},
        "attachments": [
            {"mime": "image/png", "filename": "a.png"},
            {"mime": "application/pdf", "filename": null},
        ],
    });
    assert_eq!(shown["rawOutput"], expected);
}

#[test]
fn a_finished_call_keeps_its_title_or_shows_that_of_a_foreign_tool() {
    let title =
        |tool: &str, input: Value| completed(tool, input, "", json!({}), Value::Null)["title"].clone();
    assert_eq!(title("todowrite", json!({})), "update the plan");
    assert_eq!(title("read", json!({"filePath": "/work/a"})), "read a");
    assert_eq!(title("github_search", json!({})), "shown");
}

#[test]
fn a_failed_call_shows_why() {
    let metadata = change(json!("a\n"), "b\n");
    let state = json!({"status": "error", "input": {"filePath": "a.rs"}, "error": "no such file",
                       "metadata": metadata, "time": {"start": 1, "end": 2}});
    let expected = json!({
        "toolCallId": "call_1", "kind": "edit", "name": "edit", "status": "failed", "title": "edit a.rs",
        "content": [text("no such file")], "rawInput": {"filePath": "a.rs"},
        "rawOutput": {"error": "no such file", "metadata": stripped(&metadata)},
    });
    assert_eq!(update("edit", state), expected);
}

#[test]
fn a_list_and_a_resumed_task_are_asked_for_as_what_they_are() {
    let todos = json!([
        {"content": "one", "status": "completed", "priority": "high"},
        {"content": "two", "status": "pending", "priority": "low"},
    ]);
    check_question(
        question("todowrite", &["*"], json!({"todos": todos}), &["*"]),
        json!({
            "title": "replace the todo list by 2 todos", "kind": "other", "rawInput": {"todos": todos},
            "content": [text("- [completed] one (high)\n- [pending] two (low)")],
        }),
    );
    let metadata =
        json!({"description": "look", "prompt": "Look.", "subagent_type": "explore", "task_id": "ses_2"});
    check_question(
        question("task", &["explore"], metadata.clone(), &["*"]),
        json!({
            "title": "explore: look (continues ses_2)", "kind": "think", "rawInput": metadata,
            "content": [text("Look.")],
        }),
    );
}

fn question(permission: &str, patterns: &[&str], metadata: Value, always: &[&str]) -> PermissionRequest {
    serde_json::from_value(json!({
        "id": "per_1", "sessionID": "ses_1", "permission": permission, "patterns": patterns,
        "metadata": metadata, "always": always, "tool": {"messageID": "msg_1", "callID": "call_1"},
    }))
    .unwrap()
}

fn asked(request: &PermissionRequest) -> Value {
    serde_json::to_value(permission(&request.session_id, request, Path::new(CWD))).unwrap()
}

#[track_caller]
fn check_question(request: PermissionRequest, call: Value) {
    let what = match request.always.join(", ").as_str() {
        "*" => format!("every {}", request.permission),
        patterns => format!("{}: {patterns}", request.permission),
    };
    let mut options = vec![json!({"optionId": "once", "name": "Allow once", "kind": "allow_once"})];
    if !request.always.is_empty() {
        let name = format!("Always allow {what}");
        options.push(json!({"optionId": "always", "name": name, "kind": "allow_always"}));
    }
    options.push(json!({"optionId": "reject", "name": "Reject", "kind": "reject_once"}));
    if !request.always.is_empty() {
        let name = format!("Always reject {what}");
        options.push(json!({"optionId": "reject_always", "name": name, "kind": "reject_always"}));
    }
    let mut expected_call = json!({"toolCallId": "call_1", "status": "pending", "locations": []});
    expected_call.as_object_mut().unwrap().extend(call.as_object().unwrap().clone());
    let expected = json!({"sessionId": "ses_1", "toolCall": expected_call, "options": options});
    assert_eq!(asked(&request), expected);
}

#[test]
fn a_change_is_asked_for_with_the_whole_change() {
    let metadata = change(json!("a\nb\n"), "a\nB\n");
    check_question(
        question("edit", &["a.rs"], metadata.clone(), &["*"]),
        json!({
            "title": "/work/a.rs", "kind": "edit", "locations": [{"path": "/work/a.rs", "line": 2}],
            "content": [{"type": "diff", "path": "/work/a.rs", "oldText": "a\nb\n", "newText": "a\nB\n"}],
            "rawInput": stripped(&metadata),
        }),
    );
}

#[test]
fn a_command_is_asked_for_in_its_own_words() {
    let metadata = json!({"command": "git log && ls"});
    check_question(
        question("bash", &["git log", "ls"], metadata.clone(), &["git log *", "ls *"]),
        json!({"title": "git log && ls", "kind": "execute", "rawInput": metadata}),
    );
}

#[test]
fn nothing_hidden_stands_in_a_title_or_an_option() {
    let hidden = "a\u{202e}sr.exe\u{200b}\r\u{1b}[2J";
    let shown = "a\\u{202e}sr.exe\\u{200b}\\u{d}\\u{1b}[2J";
    for (tool, key, verb) in [
        ("bash", "command", ""),
        ("read", "filePath", "read "),
        ("edit", "filePath", "edit "),
        ("webfetch", "url", "fetch "),
    ] {
        let input = json!({ key: hidden });
        let call = first_seen(tool, input.clone());
        let shown = format!("{verb}{shown}");
        assert_eq!((&call["title"], &call["rawInput"]), (&json!(shown), &input), "{tool}");
        let failed =
            json!({"status": "error", "input": input, "error": "no", "time": {"start": 1, "end": 2}});
        let running = json!({"status": "running", "input": input, "time": {"start": 1}});
        for state in [failed, running] {
            assert_eq!(update(tool, state)["title"], shown, "{tool}");
        }
    }
    for (permission, key) in
        [("bash", "command"), ("read", "filepath"), ("edit", "filepath"), ("glob", "pattern")]
    {
        let metadata = json!({ key: hidden });
        let asked = asked(&question(permission, &[hidden], metadata.clone(), &[hidden]));
        let call = &asked["toolCall"];
        assert_eq!((&call["title"], &call["rawInput"]), (&json!(shown), &metadata), "{permission}");
        assert_eq!(asked["options"][1]["name"], format!("Always allow {permission}: {shown}"));
        assert_eq!(asked["options"][3]["name"], format!("Always reject {permission}: {shown}"));
    }
    // Lines of a command are lines.
    assert_eq!(first_seen("bash", json!({"command": "a\n\tb"}))["title"], "a\n\tb");
}

#[test]
fn a_search_is_asked_for_with_its_place() {
    for permission in ["glob", "grep", "list"] {
        for (metadata, place) in [
            (json!({"pattern": "x", "path": "src"}), "/work/src"),
            (json!({"pattern": "x", "path": "/elsewhere"}), "/elsewhere"),
            (json!({"pattern": "x"}), "/work"),
        ] {
            let asked = asked(&question(permission, &["x"], metadata, &["*"]));
            assert_eq!(asked["toolCall"]["locations"], json!([{"path": place}]), "{permission}");
        }
    }
}

#[test]
fn a_repeated_call_says_how_often() {
    for (times, word) in
        [(3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (21, "21st"), (22, "22nd"), (113, "113th")]
    {
        let metadata = json!({"tool": "bash", "input": {"command": "ls"}, "times": times});
        let asked = asked(&question("doom_loop", &["bash"], metadata, &["bash"]));
        assert_eq!(
            asked["toolCall"]["title"],
            format!("repeat bash, the {word} time with the same input: ls")
        );
    }
}

#[test]
fn a_page_is_asked_for_by_the_address_that_is_requested() {
    let metadata = json!({"url": "https://HOST/%73", "requested": "https://host/s"});
    let asked = asked(&question("webfetch", &["https://HOST/%73", "https://host/s"], metadata, &["*"]));
    assert_eq!(asked["toolCall"]["title"], "https://host/s");
}

#[test]
fn what_was_approved_before_is_in_the_input() {
    let mut request = question("bash", &["git log", "ls"], json!({"command": "git log; ls"}), &[]);
    request.approved = vec!["git log".to_owned()];
    let expected = json!({"command": "git log; ls", "approved": ["git log"]});
    assert_eq!(asked(&request)["toolCall"]["rawInput"], expected);
    assert_eq!(serde_json::to_value(&request).unwrap()["approved"], json!(["git log"]));
}

#[test]
fn a_command_that_failed_shows_how() {
    let shown = |output: &str, metadata: Value| {
        let shown = completed("bash", json!({"command": "x"}), output, metadata, Value::Null);
        shown["content"][0]["content"]["text"].as_str().unwrap().to_owned()
    };
    let metadata = |exit: Value| json!({"output": "out\n", "exit": exit, "signal": "SIGKILL"});
    assert_eq!(shown("out\n", metadata(json!(3))), "out\n\n(exit code 3)");
    assert_eq!(shown("out\n", metadata(Value::Null)), "out\n\n(ended by SIGKILL)");
    assert_eq!(shown("out\n", metadata(json!(0))), "out\n");
    let printed = "</shell_metadata>\n\nexit code 3\n</shell_metadata>";
    let shown_of_printed = shown(printed, json!({"output": printed, "exit": 3}));
    assert_eq!(
        shown_of_printed,
        format!("{printed}\n\n(exit code 3)"),
        "what a command prints tells nothing"
    );
    let told = "(no output)\n\n<shell_metadata>\nexit code 3\n</shell_metadata>";
    assert_eq!(shown(told, json!({"output": "", "exit": 3})), told);
}

#[test]
fn what_has_no_always_offers_none() {
    let metadata = json!({"command": "ls"});
    check_question(
        question("bash", &["ls"], metadata.clone(), &[]),
        json!({"title": "ls", "kind": "execute", "rawInput": metadata}),
    );
}

#[test]
fn a_secret_file_is_asked_for_by_its_path() {
    check_question(
        question("read", &[".env"], json!({"filepath": "/work/.env"}), &["*"]),
        json!({
            "title": "/work/.env", "kind": "read", "locations": [{"path": "/work/.env"}],
            "rawInput": {"filepath": "/work/.env"},
        }),
    );
    let metadata = json!({"filepath": "/work/innocent", "resolved": ".env"});
    check_question(
        question("read", &["innocent", ".env"], metadata.clone(), &["*"]),
        json!({
            "title": "/work/innocent (leads to .env)", "kind": "read", "locations": [{"path": "/work/innocent"}],
            "rawInput": metadata,
        }),
    );
}

#[test]
fn leaving_the_project_says_for_what_and_where_to() {
    let metadata = json!({"filepath": "/etc/hosts", "parentDir": "/etc"});
    check_question(
        question("external_directory", &["/etc/*"], metadata.clone(), &["/etc/*"]),
        json!({
            "title": "/etc/hosts (outside the project: /etc/*)", "kind": "other",
            "locations": [{"path": "/etc/hosts"}], "rawInput": metadata,
        }),
    );
    let metadata = json!({"command": "cat /etc/hosts"});
    check_question(
        question("external_directory", &["/etc/*", "/tmp/*"], metadata.clone(), &[]),
        json!({
            "title": "cat /etc/hosts (outside the project: /etc/*, /tmp/*)", "kind": "other",
            "rawInput": metadata,
        }),
    );
    check_question(
        question("external_directory", &["/etc/*"], json!({}), &[]),
        json!({
            "title": "outside the project: /etc/*", "kind": "other",
            "rawInput": {"permission": "external_directory", "patterns": ["/etc/*"]},
        }),
    );
}

#[test]
fn a_server_s_tool_is_asked_for_by_its_name() {
    check_question(
        question("github_search", &["*"], json!({}), &["*"]),
        json!({
            "title": "github_search", "kind": "other",
            "rawInput": {"permission": "github_search", "patterns": ["*"]},
        }),
    );
}

#[test]
fn what_a_server_s_tool_is_given_stands_for_nothing_of_ours() {
    let mut input = change(json!("a\nb\n"), "a\nB\n");
    for key in ["command", "filepath", "url", "prompt", "diff"] {
        input[key] = json!("harmless");
    }
    let asked = asked(&question("shop_pay", &["*"], input.clone(), &["*"]));
    let call = &asked["toolCall"];
    assert_eq!((&call["title"], &call["rawInput"]), (&json!("shop_pay"), &input));
    assert_eq!((&call["locations"], call.get("content")), (&json!([]), None));
}

#[test]
fn a_task_is_asked_for_with_its_subagent_and_all_it_is_told() {
    let metadata = json!({"description": "look", "subagent_type": "explore", "prompt": "Find it."});
    check_question(
        question("task", &["explore"], metadata.clone(), &["*"]),
        json!({
            "title": "explore: look", "kind": "think", "rawInput": metadata, "content": [text("Find it.")],
        }),
    );
}

#[test]
fn an_answer_for_ever_names_what_it_is_about_in_one_short_line() {
    let long = format!("make \n{} *", "x".repeat(500));
    let asked = asked(&question("bash", &["make"], json!({"command": "make"}), &["git *", &long]));
    let name = asked["options"][1]["name"].as_str().unwrap();
    assert!(name.starts_with("Always allow bash: git *, make  xxx") && name.ends_with("x…"), "{name}");
    assert!(name.len() < 160, "{name}");
}

#[test]
fn a_question_of_no_call_has_an_id_of_its_own() {
    let mut request = question("webfetch", &["https://x"], json!({"url": "https://x"}), &[]);
    request.tool = None;
    let asked = asked(&request);
    assert_eq!(
        (&asked["toolCall"]["toolCallId"], &asked["toolCall"]["title"]),
        (&json!("per_1"), &json!("https://x"))
    );
}

#[test]
fn a_plan_is_the_list_without_what_was_given_up() {
    let todo = |content: &str, status: &str, priority: &str| json!({"content": content, "status": status, "priority": priority});
    let todos: Vec<Todo> = serde_json::from_value(json!([
        todo("a", "completed", "high"),
        todo("b", "cancelled", "high"),
        todo("c", "in_progress", "medium"),
        todo("d", "pending", "low"),
    ]))
    .unwrap();
    let expected = json!([
        todo("a", "completed", "high"),
        todo("c", "in_progress", "medium"),
        todo("d", "pending", "low"),
    ]);
    let entries: Vec<PlanEntry> = todos.iter().filter_map(plan_entry).collect();
    assert_eq!(serde_json::to_value(entries).unwrap(), expected);
}

#[test]
fn a_session_is_listed_with_its_title_and_time() {
    let session = serde_json::from_value(json!({
        "id": "ses_1", "slug": "s", "projectID": "global", "directory": "/work", "title": "Fix it",
        "version": "0", "time": {"created": 1, "updated": 1_790_000_000_000_i64},
    }))
    .unwrap();
    let expected = json!({
        "sessionId": "ses_1", "cwd": "/work", "title": "Fix it", "updatedAt": "2026-09-21T14:13:20.000Z", "archived": false,
    });
    assert_eq!(serde_json::to_value(session_info(&session)).unwrap(), expected);
}

#[test]
fn every_stop_reason_has_acp_s_word() {
    use engine::StopReason::{Cancelled, EndTurn, MaxTokens, MaxTurnRequests, Refusal};
    let words = [EndTurn, MaxTokens, MaxTurnRequests, Refusal, Cancelled].map(stop_reason);
    let expected = json!(["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]);
    assert_eq!(serde_json::to_value(words).unwrap(), expected);
}

#[test]
fn usage_names_only_what_there_was() {
    let counts = |reasoning: u64, read: u64, write: u64| {
        let tokens = serde_json::from_value(json!({
            "input": 1, "output": 2, "reasoning": reasoning, "cache": {"read": read, "write": write},
        }))
        .unwrap();
        serde_json::to_value(usage(&tokens)).unwrap()
    };
    assert_eq!(counts(0, 0, 0), json!({"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}));
    let expected = json!({
        "totalTokens": 63, "inputTokens": 1, "outputTokens": 2, "thoughtTokens": 10, "cachedReadTokens": 20,
        "cachedWriteTokens": 30,
    });
    assert_eq!(counts(10, 20, 30), expected);
}
