//! Pages lack secrets and files of other places.

use std::path::Path;

use serde_json::{Value, json};

use super::{OUTSIDE, leave_out_elsewhere, texts_without, words};

fn call(input: Value) -> Value {
    let state = json!({"status": "completed", "input": input, "output": "its words", "title": "", "metadata": {"preview": "its"},
        "time": {"start": 1, "end": 2}, "attachments": []});
    json!({"type": "tool", "tool": "read", "callID": "call_1", "state": state})
}

#[test]
fn files_outside_of_the_project_are_named_and_not_shown() {
    for (path, is_shown) in [
        ("/p/a.txt", true),
        ("a.txt", true),
        ("/p/../etc/passwd", false),
        ("../b.txt", false),
        ("/etc/passwd", false),
        ("/project/a.txt", false),
    ] {
        let part = call(json!({"filePath": path, "content": "its words"}));
        let text = shown(json!([part]));
        assert_eq!(text.contains("its"), is_shown, "{text}");
        assert_eq!(text.contains(OUTSIDE), !is_shown, "{text}");
        assert!(text.contains(path), "{text}");
        let patch = call(
            json!({"patchText": format!("*** Begin Patch\n*** Update File: {path}\n@@\n+its\n*** End Patch")}),
        );
        assert_eq!(shown(json!([patch])).contains("its"), is_shown);
        let attached = json!([{"type": "file", "mime": "text/plain", "url": "data:text/plain,its", "source": {"path": path}},
            {"type": "text", "synthetic": true, "text": "its words"}, {"type": "text", "text": "said"}]);
        let text = shown(attached);
        assert!(text.contains("said") && text.contains("its") == is_shown, "{text}");
    }
}

fn shown(parts: Value) -> String {
    let mut message = json!({"parts": parts});
    leave_out_elsewhere(&mut message, Path::new("/p"));
    message.to_string()
}

#[test]
fn secrets_are_hidden_wherever_they_are_and_pictures_stay() {
    let key = format!("sk-ant-{}", "a1".repeat(20));
    let picture = format!("data:image/png;base64,{key}");
    let known = vec!["correct horse battery".to_owned()];
    let value = json!({"text": format!("{key} and correct horse battery"), "list": ["https://me:word@host/"], "url": picture});
    let hidden = texts_without(value, &known);
    assert_eq!(hidden["url"], picture);
    let text = hidden["text"].as_str().unwrap();
    assert!(!text.contains("horse") && !text.contains("a1a1"), "{text}");
    assert!(!hidden["list"][0].as_str().unwrap().contains("word"), "{hidden}");
    let pem = json!("a\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn\n-----END OPENSSH PRIVATE KEY-----\nz\n");
    assert_eq!(texts_without(pem, &[]), "a\n********\nz\n");
}

#[test]
fn every_text_of_a_file_of_keys_is_a_secret() {
    let stored = json!({"anthropic": {"type": "api", "key": "one"}, "other": {"type": "oauth", "access": "two", "expires": 3}});
    assert_eq!(words(&stored), ["one", "two"]);
}
