//! The outputs that are cleared.

use serde_json::{Value, json};
use windlass_protocol::opencode::message::MessageWithParts;

use super::{clearable, estimate};

/// Makes a turn of one call with an output of this many tokens.
fn turn(n: usize, tool: &str, n_tokens: usize, is_cleared: bool) -> [MessageWithParts; 2] {
    let output = "four".repeat(n_tokens);
    assert_eq!(estimate(&output), n_tokens as u64);
    let time = if is_cleared {
        json!({"start": 1, "end": 2, "compacted": 3})
    } else {
        json!({"start": 1, "end": 2})
    };
    let state = json!({
        "status": "completed", "input": {}, "output": output, "title": "", "metadata": {}, "time": time,
    });
    let call = json!({"type": "tool", "callID": "c", "tool": tool, "state": state});
    [message(n, "user", json!({"type": "text", "text": "go"})), message(n, "assistant", call)]
}

fn message(n: usize, role: &str, mut part: Value) -> MessageWithParts {
    part["id"] = json!(format!("prt_{n}"));
    part["sessionID"] = json!("ses_1");
    part["messageID"] = json!("msg_1");
    let info = json!({
        "role": role, "id": format!("msg_{n}"), "sessionID": "ses_1", "time": {"created": 1}, "agent": "build",
        "mode": "build", "model": {"providerID": "p", "modelID": "m"}, "modelID": "m", "providerID": "p",
        "parentID": "msg_1", "path": {"cwd": "/", "root": "/"}, "cost": 0.0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
    });
    serde_json::from_value(json!({"info": info, "parts": [part]})).unwrap()
}

#[test]
fn the_newest_outputs_stay_and_older_ones_go_when_they_are_many() {
    let cleared = |tool: &str, sizes: &[usize]| {
        let turns = sizes.iter().enumerate().flat_map(|(n, size)| turn(n, tool, *size, false));
        let history: Vec<MessageWithParts> = turns.collect();
        clearable(&history).into_iter().map(|(message_idx, _)| message_idx / 2).collect::<Vec<_>>()
    };
    // Two turns are not looked at, and 40 000 tokens before them stay.
    assert_eq!(cleared("bash", &[15_000, 15_000, 30_000, 10_000, 90_000, 90_000]), [1, 0]);
    assert_eq!(cleared("bash", &[10_000, 10_000, 30_000, 10_000, 90_000, 90_000]), [] as [usize; 0]);
    assert_eq!(cleared("bash", &[90_000, 90_000]), [] as [usize; 0]);
    assert_eq!(cleared("skill", &[15_000, 15_000, 30_000, 10_000, 90_000, 90_000]), [] as [usize; 0]);
}

#[test]
fn what_was_cleared_or_summarised_before_ends_the_search() {
    let mut history: Vec<MessageWithParts> = Vec::new();
    for (n, is_cleared) in [(1, false), (2, true), (3, false), (4, false), (5, false), (6, false)] {
        history.extend(turn(n, "bash", 41_000, is_cleared));
    }
    assert_eq!(clearable(&history), [(7, 0), (5, 0)]);
}
