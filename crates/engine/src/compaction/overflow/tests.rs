//! The figures of answers, and the prompt that is said again behind a summary.

use serde_json::{Value, json};
use windlass_protocol::opencode::{
    message::MessageWithParts,
    part::{Part, PartKind},
};

use super::{answers, replay, unanswered, used};

fn message(info: Value, parts: Value) -> MessageWithParts {
    let mut whole = json!({
        "sessionID": "ses_1", "time": {"created": 1}, "agent": "build", "mode": "build",
        "model": {"providerID": "p", "modelID": "m"}, "modelID": "m", "providerID": "p", "parentID": "msg_1",
        "path": {"cwd": "/", "root": "/"}, "cost": 0.0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
    });
    whole.as_object_mut().unwrap().extend(info.as_object().unwrap().clone());
    serde_json::from_value(json!({"info": whole, "parts": located(parts)})).unwrap()
}

fn located(parts: Value) -> Value {
    let located = parts.as_array().unwrap().iter().map(|part| {
        let mut part = part.clone();
        part["id"] = json!("prt_1");
        part["sessionID"] = json!("ses_1");
        part["messageID"] = json!("msg_1");
        part
    });
    located.collect()
}

fn user(id: &str, part: Value) -> MessageWithParts {
    message(json!({"role": "user", "id": id}), json!([part]))
}

fn said(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn answer(id: &str, input: u64, changes: Value) -> MessageWithParts {
    let tokens = json!({"input": input, "output": 5, "reasoning": 2, "cache": {"read": 3, "write": 0}});
    let mut info = json!({"role": "assistant", "id": id, "tokens": tokens, "finish": "stop"});
    info.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    message(info, json!([said("text")]))
}

#[test]
fn figures_count_from_the_last_summary_that_was_written_in_full() {
    let failed = json!({"error": {"name": "UnknownError", "data": {"message": "no"}}});
    let half = json!({"summary": true, "error": {"name": "UnknownError", "data": {"message": "no"}}});
    let mut history = vec![user("msg_1", said("a")), answer("msg_2", 10, json!({}))];
    history.push(answer("msg_3", 20, json!({})));
    history.push(answer("msg_4", 30, failed));
    history.push(answer("msg_5", 40, half));
    let figures = |history: &[MessageWithParts]| answers(history).map(used).collect::<Vec<_>>();
    assert_eq!(figures(&history), [30, 20]);
    history.push(answer("msg_6", 50, json!({"summary": true})));
    assert!(figures(&history).is_empty());
    history.push(answer("msg_7", 60, json!({})));
    assert_eq!(figures(&history), [70]);
}

#[test]
fn a_prompt_is_unanswered_until_an_answer_stands() {
    let overflow = json!({"error": {"name": "ContextOverflowError", "data": {"message": "no"}}});
    let mut history = vec![user("msg_1", said("a")), answer("msg_2", 1, overflow)];
    let compaction = json!({"type": "compaction", "auto": true});
    history.push(user("msg_3", compaction));
    assert_eq!(unanswered(&history).unwrap().info.id().as_str(), "msg_1");
    history.insert(1, answer("msg_12", 1, json!({})));
    assert!(unanswered(&history).is_none());
}

#[test]
fn a_prompt_is_said_again_without_its_pictures() {
    let parts = json!([
        said("look"),
        {"type": "text", "text": "shown only", "ignored": true},
        {"type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,AAAA"},
        {"type": "file", "mime": "text/plain", "filename": "b.txt", "url": "file:///b.txt"},
    ]);
    let parts: Vec<Part> = serde_json::from_value(located(parts)).unwrap();
    let texts = replay(&parts).into_iter().map(|kind| match kind {
        PartKind::Text(text) => (text.text, text.synthetic),
        other => panic!("{other:?}"),
    });
    let line = "[The attachment a.png (image/png) was left out to make room.]";
    let wanted = [("look".to_owned(), Some(true)), (line.to_owned(), Some(true))];
    assert_eq!(texts.collect::<Vec<_>>(), wanted);
}
