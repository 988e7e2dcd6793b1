//! Events to text.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_base::ids;
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::SessionId,
};

use super::{
    super::{
        super::{
            output::{Output, Stream},
            view::look::Look,
        },
        args::Format,
    },
    Printer,
};

fn event(kind: &str, mut properties: Value) -> EventPayload {
    properties["sessionID"] = json!("ses_1");
    serde_json::from_value(json!({"type": kind, "properties": properties})).expect("event")
}

fn part(id: &str, rest: Value) -> EventPayload {
    let mut part = json!({"id": id, "sessionID": "ses_1", "messageID": "msg_2"});
    part.as_object_mut().expect("part").extend(rest.as_object().expect("rest").clone());
    event("message.part.updated", json!({"part": part, "time": 0}))
}

fn text(id: &str, text: &str, end: Option<i64>) -> EventPayload {
    part(id, json!({"type": "text", "text": text, "time": {"start": 1, "end": end}}))
}

fn delta(id: &str, delta: &str) -> EventPayload {
    let properties = json!({"messageID": "msg_2", "partID": id, "field": "text", "delta": delta});
    event("message.part.delta", properties)
}

fn tool(id: &str, state: Value) -> EventPayload {
    part(id, json!({"type": "tool", "callID": "call_1", "tool": "bash", "state": state}))
}

fn answer(error: Value) -> EventPayload {
    let info = json!({
        "role": "assistant", "id": "msg_2", "sessionID": "ses_1", "parentID": "msg_1", "modelID": "m",
        "providerID": "p", "agent": "build", "mode": "build", "path": {"cwd": "/", "root": "/"},
        "time": {"created": 0}, "cost": 0.0, "error": error,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
    });
    event("message.updated", json!({"info": info}))
}

/// Returns the output of a turn with these events.
fn shown(format: Format, shows_thoughts: bool, events: Vec<EventPayload>) -> Vec<(Stream, String)> {
    let mut printer = Printer::new(format, Look { shows_thoughts, ..Look::plain() }, None);
    let mut output = Output::new();
    printer.begin(&SessionId::from_trusted("ses_1"));
    for payload in std::iter::once(answer(Value::Null)).chain(events) {
        printer.event(&Arc::new(Event { id: ids::event(), payload }), &mut output);
    }
    // Without a screen there is nothing to wait for.
    futures_util::FutureExt::now_or_never(printer.end(None, &mut output)).unwrap().unwrap();
    output.pending()
}

fn out(text: &str) -> (Stream, String) {
    (Stream::Out, text.to_owned())
}

fn err(text: &str) -> (Stream, String) {
    (Stream::Err, text.to_owned())
}

#[test]
fn text_streams_and_ends_with_one_newline() {
    let events = vec![
        text("prt_1", "", None),
        delta("prt_1", "Hel"),
        delta("prt_1", "lo"),
        text("prt_1", "Hello!", Some(2)),
        text("prt_1", "Hello!", Some(2)),
        text("prt_2", "done\n", Some(3)),
    ];
    assert_eq!(shown(Format::Default, false, events), [out("Hello!\ndone\n")]);
}

#[test]
fn what_the_user_said_is_not_repeated() {
    let mut said = text("prt_0", "question", Some(1));
    if let EventPayload::PartUpdated { part, .. } = &mut said {
        std::sync::Arc::make_mut(part).message_id =
            windlass_protocol::opencode::id::MessageId::from_trusted("msg_1");
    }
    assert_eq!(shown(Format::Default, false, vec![said]), []);
}

#[test]
fn a_call_is_one_line_between_the_texts() {
    let input = json!({"command": "echo hi\necho there"});
    let time = json!({"start": 1, "end": 2});
    let events = vec![
        text("prt_1", "first", Some(1)),
        tool("prt_2", json!({"status": "running", "input": input, "time": {"start": 1}})),
        tool(
            "prt_2",
            json!({"status": "completed", "input": input, "title": "echo hi\necho there", "output": "hi",
                   "metadata": {}, "time": time}),
        ),
        tool("prt_3", json!({"status": "error", "input": input, "error": "no\nway", "time": time})),
        text("prt_4", "second", Some(1)),
    ];
    let expected = [out("first\n"), err("| bash  echo hi …\n| bash  echo hi …: no …\n"), out("second\n")];
    assert_eq!(shown(Format::Default, false, events), expected);
}

#[test]
fn thoughts_are_shown_when_wanted() {
    let thought =
        || part("prt_1", json!({"type": "reasoning", "text": "hm", "time": {"start": 1, "end": 2}}));
    assert_eq!(shown(Format::Default, false, vec![thought()]), []);
    assert_eq!(shown(Format::Default, true, vec![thought()]), [err("Thinking: hm\n")]);
    assert_eq!(shown(Format::Json, false, vec![thought()]), []);
    assert!(shown(Format::Json, true, vec![thought()])[0].1.starts_with(r#"{"type":"reasoning","#));
}

#[test]
fn a_failure_is_shown_once_and_as_the_message_has_it() {
    let failure = json!({"name": "APIError", "data": {"message": "too big", "isRetryable": false}});
    let session_error =
        event("session.error", json!({"error": {"name": "UnknownError", "data": {"message": "too big"}}}));
    let events = || vec![text("prt_1", "so", None), answer(failure.clone()), session_error.clone()];
    assert_eq!(shown(Format::Default, false, events()), [out("so\n"), err("Error: too big\n")]);
    let lines = shown(Format::Json, false, events());
    let line: Value = serde_json::from_str(&lines[0].1).expect("one line");
    assert_eq!((&line["type"], &line["error"]), (&json!("error"), &failure));
}

#[test]
fn parts_become_lines_when_they_are_finished() {
    let events = vec![
        part("prt_0", json!({"type": "step-start"})),
        text("prt_1", "", None),
        delta("prt_1", "Hello"),
        text("prt_1", "Hello", Some(2)),
        text("prt_1", "Hello", Some(2)),
    ];
    let lines = shown(Format::Json, false, events);
    let lines: Vec<Value> =
        lines[0].1.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let kinds: Vec<&Value> = lines.iter().map(|line| &line["type"]).collect();
    assert_eq!(kinds, ["step_start", "text"]);
    assert_eq!(lines[1]["part"]["text"], "Hello");
    assert_eq!(lines[1]["sessionID"], "ses_1");
}
