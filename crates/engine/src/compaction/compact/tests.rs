//! The division of a conversation into a summary and a tail.

use serde_json::{Value, json};
use windlass_protocol::opencode::message::MessageWithParts;

use super::{Plan, Settings, plan};

fn message(role: &str, n: usize, parts: Value) -> MessageWithParts {
    let mut info = json!({
        "role": role, "id": format!("msg_{n}"), "sessionID": "ses_1", "time": {"created": 1, "completed": 2},
        "agent": "build", "mode": "build", "model": {"providerID": "p", "modelID": "m"}, "modelID": "m",
        "providerID": "p", "parentID": "msg_1", "path": {"cwd": "/", "root": "/"}, "cost": 0.0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
    });
    if role == "user" {
        info["time"] = json!({"created": 1});
    }
    let parts = parts.as_array().unwrap().iter().enumerate().map(|(index, part)| {
        let mut part = part.clone();
        part["id"] = json!(format!("prt_{n}{index}"));
        part["sessionID"] = json!("ses_1");
        part["messageID"] = json!(format!("msg_{n}"));
        part
    });
    let parts: Vec<Value> = parts.collect();
    serde_json::from_value(json!({"info": info, "parts": parts})).unwrap()
}

fn said(role: &str, n: usize, text: &str) -> MessageWithParts {
    message(role, n, json!([{"type": "text", "text": text}]))
}

fn called(n: usize, output: &str) -> MessageWithParts {
    let state = json!({
        "status": "completed", "input": {}, "output": output, "title": "", "metadata": {},
        "time": {"start": 1, "end": 2},
    });
    message("assistant", n, json!([{"type": "tool", "callID": "c", "tool": "bash", "state": state}]))
}

fn settings(n_tokens: u64, max_text: Option<u64>) -> Settings {
    Settings { n_turns: 2, n_tokens, max_text, keeps_newest: false }
}

fn tail(history: &[MessageWithParts], settings: &Settings) -> Option<String> {
    let seen: Vec<&MessageWithParts> = history.iter().collect();
    plan(&seen, settings, "").unwrap().tail_start.map(|id| id.as_str().to_owned())
}

#[test]
fn a_tail_is_measured_by_what_is_sent_of_it() {
    let history = |output: &str| {
        vec![said("user", 1, "first"), said("assistant", 2, "one"), said("user", 3, "go"), called(4, output)]
    };
    // The summary would read 2000 bytes of the output; the model reads all of it again.
    assert_eq!(tail(&history(&"x".repeat(6000)), &settings(1000, None)), None);
    assert_eq!(tail(&history("short"), &settings(4, None)).as_deref(), Some("msg_3"));
}

#[test]
fn a_prompt_that_waits_for_its_answer_stays_where_everything_fits() {
    let history = [said("user", 1, "first"), said("assistant", 2, "one"), said("user", 3, "second")];
    assert_eq!(tail(&history, &settings(2000, None)), None);
    let keeping = settings(2000, None).keeping_newest(true);
    assert_eq!(tail(&history, &keeping).as_deref(), Some("msg_3"));
    assert_eq!(tail(&history[..1], &keeping), None, "then there would be nothing to summarise");
}

#[test]
fn the_text_to_summarise_fits_its_author() {
    let history: Vec<MessageWithParts> =
        (1..=4).map(|n| said("user", n, &format!("{n}{}", "x".repeat(390)))).collect();
    let seen: Vec<&MessageWithParts> = history.iter().collect();
    let text = |max| {
        let Plan { head, frame, .. } = plan(&seen, &settings(0, max), "").unwrap();
        frame.text(&head.into_iter().map(|(_, text)| text).collect::<Vec<_>>(), None)
    };
    let all = text(None);
    assert!(all.contains("[User]: 1x") && !all.contains("left out"));
    let newest = text(Some(210));
    assert!(
        newest.starts_with("<conversation>\n[2 older messages are left out, because they did not fit.]\n")
    );
    assert!(!newest.contains("[User]: 2x") && newest.contains("[User]: 3x") && newest.contains("[User]: 4x"));
    let beginning = text(Some(10));
    assert!(beginning.contains("[3 older messages"), "{beginning}");
    assert!(beginning.contains(&format!("\n[User]: 4{}\n", "x".repeat(31))), "{beginning}");
}
