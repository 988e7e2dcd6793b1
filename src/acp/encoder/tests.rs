//! Updates that the client gets for events, live and on replay.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_engine::{Engine, Workspace, fixture};
use windlass_protocol::{
    opencode::{
        event::{Event, EventKind, EventPayload},
        id::{EventId, MessageId, PartId, PermissionId, SessionId},
        message::MessageWithParts,
        permission::Reply,
    },
    rpc::Id,
};
use windlass_protocol_acp::decode::{ClientCapabilities, EventChoice};

use super::{Encoder, Sink};
use crate::acp::{
    lines::Lines,
    outbox::{Outgoing, Past},
    permissions::{self, Waiting},
};

struct Scene {
    engine: Engine,
    home: tempfile::TempDir,
    workspace: Arc<Workspace>,
    encoder: Encoder,
}

impl Scene {
    /// Makes a connection without sessions.
    async fn detached() -> Self {
        let config = json!({"provider": {"p": {"options": {"baseURL": "http://127.0.0.1:1"}, "models": {
            "m": {"limit": {"context": 1000, "output": 100}}, "unlimited": {},
        }}}});
        let (home, engine) = fixture::engine(&[("OPENCODE_CONFIG_CONTENT", &config.to_string())]);
        let workspace = engine.workspaces().workspace(home.path()).await.unwrap();
        Self { workspace, encoder: Encoder::default(), engine, home }
    }

    /// Makes a connection that shows `ses_1`, which is in the middle of a turn.
    async fn new() -> Self {
        let mut scene = Self::detached().await;
        assert_eq!(scene.item(scene.attach(0.0)), [""; 0]);
        for payload in [message("user", "msg_1"), message("assistant", "msg_2")] {
            assert_eq!(scene.show(payload), [""; 0]);
        }
        scene
    }

    async fn with_events(events: EventChoice) -> Self {
        let mut scene = Self::new().await;
        scene.encoder.set_client(ClientCapabilities { events, ..ClientCapabilities::default() });
        scene
    }

    fn attach(&self, cost: f64) -> Outgoing {
        Outgoing::Attach {
            session_id: session_id(),
            workspace: self.workspace.clone(),
            title: "New session - now".to_owned(),
            cost,
        }
    }

    /// Returns the messages for an item: the update of a `session/update`, else the whole message.
    fn item(&mut self, item: Outgoing) -> Vec<Value> {
        let mut out = Vec::new();
        let waiting = Waiting {
            is_waiting: &|asked| permissions::is_waiting(&self.engine, asked),
            of_session: &|id| permissions::requests(&self.engine, id),
        };
        let lines = Lines { dialect: self.encoder.dialect(), bytes: &mut out };
        self.encoder.encode(item, &mut Sink { lines, waiting: &waiting, answered: Vec::new() });
        let text = String::from_utf8(out).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        let messages = text.lines().map(|line| serde_json::from_str(line).unwrap());
        messages
            .map(|mut message: Value| {
                message.as_object_mut().unwrap().remove("jsonrpc");
                if message["method"] != "session/update" {
                    return message;
                }
                assert_eq!(message["params"]["sessionId"], "ses_1");
                message["params"]["update"].take()
            })
            .collect()
    }

    fn show(&mut self, payload: EventPayload) -> Vec<Value> {
        if let EventPayload::PermissionAsked(request) = &payload {
            self.engine.asking().pretend_asked(request.clone());
        }
        self.item(event(payload))
    }

    fn show_all(&mut self, payloads: impl IntoIterator<Item = EventPayload>) -> Vec<Value> {
        payloads.into_iter().flat_map(|payload| self.show(payload)).collect()
    }

    fn replay(&mut self, messages: Vec<MessageWithParts>) -> Vec<Value> {
        let past = Past { session_id: session_id(), messages, children: Default::default() };
        let mut shown = self.item(Outgoing::Past(Box::new(past)));
        let (todos, children) = (Vec::new(), Vec::new());
        shown.extend(self.item(Outgoing::PastEnd { session_id: session_id(), todos, children }));
        shown
    }
}

fn session_id() -> SessionId {
    SessionId::from_trusted("ses_1")
}

fn event(payload: EventPayload) -> Outgoing {
    Outgoing::Event(Arc::new(Event { id: EventId::from_trusted("evt_1"), payload }))
}

fn payload(kind: &str, properties: Value) -> EventPayload {
    serde_json::from_value(json!({"type": kind, "properties": properties})).unwrap()
}

fn info(role: &str, id: &str) -> Value {
    match role {
        "user" => json!({
            "role": "user", "id": id, "sessionID": "ses_1", "time": {"created": 1}, "agent": "build",
            "model": {"providerID": "p", "modelID": "m"},
        }),
        _ => json!({
            "role": "assistant", "id": id, "sessionID": "ses_1", "parentID": "msg_1", "modelID": "m",
            "providerID": "p", "agent": "build", "mode": "build", "path": {"cwd": "/", "root": "/"},
            "time": {"created": 1}, "cost": 0.0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
        }),
    }
}

fn message(role: &str, id: &str) -> EventPayload {
    payload("message.updated", json!({"sessionID": "ses_1", "info": info(role, id)}))
}

fn part_of(message_id: &str, id: &str, mut part: Value) -> Value {
    part["id"] = json!(id);
    part["sessionID"] = json!("ses_1");
    part["messageID"] = json!(message_id);
    part
}

fn part_updated(message_id: &str, id: &str, part: Value) -> EventPayload {
    let part = part_of(message_id, id, part);
    payload("message.part.updated", json!({"sessionID": "ses_1", "part": part, "time": 1}))
}

/// Returns a part of the answer `msg_2`.
fn part(id: &str, part: Value) -> EventPayload {
    part_updated("msg_2", id, part)
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn thought(text: &str) -> Value {
    json!({"type": "reasoning", "text": text, "time": {"start": 1}})
}

fn tool(state: &str) -> Value {
    let input = json!({"filePath": "/a.rs"});
    let state = match state {
        "pending" => json!({"status": "pending", "input": {}, "raw": ""}),
        "running" => json!({"status": "running", "input": input, "time": {"start": 1}}),
        _ => json!({"status": "completed", "input": input, "output": "fn a() {}", "title": "a.rs",
                    "metadata": {}, "time": {"start": 1, "end": 2}}),
    };
    json!({"type": "tool", "callID": "call_1", "tool": "read", "state": state})
}

fn step_finish(cost: f64, input: u64) -> Value {
    json!({"type": "step-finish", "reason": "stop", "cost": cost,
           "tokens": {"input": input, "output": 9, "reasoning": 9, "cache": {"read": 20, "write": 3}}})
}

fn delta(part_id: &str, offset: usize, delta: &str) -> EventPayload {
    EventPayload::PartDelta {
        session_id: session_id(),
        message_id: MessageId::from_trusted("msg_2"),
        part_id: PartId::from_trusted(part_id),
        field: "text".into(),
        delta: delta.to_owned(),
        offset: Some(offset),
    }
}

fn session(kind: &str, title: &str) -> EventPayload {
    let info = json!({
        "id": "ses_1", "slug": "s", "projectID": "global", "directory": "/work", "title": title,
        "version": "0", "time": {"created": 1, "updated": 1_790_000_000_000_i64},
    });
    payload(kind, json!({"sessionID": "ses_1", "info": info}))
}

fn idle() -> EventPayload {
    EventPayload::SessionIdle { session_id: session_id() }
}

fn chunk(kind: &str, id: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": id})
}

fn said(text: &str) -> Value {
    chunk("agent_message_chunk", "msg_2", text)
}

fn history(user_parts: Vec<Value>, answer_parts: Vec<Value>) -> Vec<MessageWithParts> {
    let parts = |message_id: &str, parts: Vec<Value>| -> Vec<Value> {
        let ids = (1..).map(|idx| format!("prt_{idx}"));
        ids.zip(parts).map(|(id, part)| part_of(message_id, &id, part)).collect()
    };
    serde_json::from_value(json!([
        {"info": info("user", "msg_1"), "parts": parts("msg_1", user_parts)},
        {"info": info("assistant", "msg_2"), "parts": parts("msg_2", answer_parts)},
    ]))
    .unwrap()
}

#[tokio::test]
async fn text_is_shown_as_it_comes_and_its_end_adds_nothing() {
    let mut scene = Scene::new().await;
    assert_eq!(scene.show(part("prt_1", text(""))), [""; 0]);
    assert_eq!(scene.show(delta("prt_1", 0, "ä")), [said("ä")]);
    assert_eq!(scene.show(delta("prt_1", 2, "b")), [said("b")]);
    assert_eq!(scene.show(part("prt_1", text("äb"))), [""; 0]);
}

#[tokio::test]
async fn a_thought_is_a_message_of_its_own() {
    let mut scene = Scene::new().await;
    let shown = scene.show_all([
        part("prt_1", thought("")),
        delta("prt_1", 0, "hm"),
        part("prt_1", thought("hm")),
        part("prt_2", text("")),
        delta("prt_2", 0, "a"),
    ]);
    assert_eq!(shown, [chunk("agent_thought_chunk", "prt_1", "hm"), said("a")]);
}

#[tokio::test]
async fn text_that_came_whole_is_shown_whole() {
    let mut scene = Scene::new().await;
    assert_eq!(scene.show(part("prt_1", text("whole"))), [said("whole")]);
}

#[tokio::test]
async fn a_text_whose_beginning_was_not_seen_is_shown_when_it_ends() {
    let mut scene = Scene::new().await;
    assert_eq!(scene.show(delta("prt_1", 2, "cd")), [""; 0]);
    assert_eq!(scene.show(part("prt_1", text("abcd"))), [said("abcd")]);
}

#[tokio::test]
async fn what_the_user_said_is_shown_only_again() {
    let mut scene = Scene::new().await;
    assert_eq!(scene.show(part_updated("msg_1", "prt_0", text("hi"))), [""; 0]);
    let said = vec![
        text("hi"),
        json!({"type": "text", "text": "read for you", "synthetic": true}),
        json!({"type": "text", "text": "for you", "ignored": true}),
        text(""),
    ];
    let shown = scene.replay(history(said, vec![]));
    assert_eq!(shown, ["hi", "for you"].map(|text| chunk("user_message_chunk", "msg_1", text)));
}

#[tokio::test]
async fn a_call_is_made_known_once_and_then_updated() {
    let mut scene = Scene::new().await;
    let begun = json!({
        "sessionUpdate": "tool_call", "toolCallId": "call_1", "title": "read", "name": "read", "kind": "read",
        "status": "pending", "rawInput": {},
    });
    assert_eq!(scene.show(part("prt_1", tool("pending"))), [begun]);
    let running = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "call_1", "title": "read /a.rs", "name": "read",
        "kind": "read", "status": "pending", "locations": [{"path": "/a.rs"}],
        "rawInput": {"filePath": "/a.rs"},
    });
    assert_eq!(scene.show(part("prt_1", tool("running"))), [running]);
    let completed = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "call_1", "title": "read /a.rs", "name": "read",
        "kind": "read", "status": "completed", "locations": [{"path": "/a.rs"}],
        "content": [{"type": "content", "content": {"type": "text", "text": "fn a() {}"}}],
        "rawOutput": {"output": "fn a() {}", "metadata": {}},
    });
    assert_eq!(scene.show(part("prt_1", tool("completed"))), [completed]);
}

#[tokio::test]
async fn a_replay_shows_the_same_messages_and_calls_as_they_were_shown_live() {
    let answer = || vec![thought("hm"), text("a"), tool("completed"), step_finish(0.5, 100)];
    let mut scene = Scene::new().await;
    let live = scene.show_all([
        part("prt_1", thought("")),
        delta("prt_1", 0, "hm"),
        part("prt_1", thought("hm")),
        part("prt_2", text("")),
        delta("prt_2", 0, "a"),
        part("prt_2", text("a")),
        part("prt_3", tool("pending")),
        part("prt_3", tool("running")),
        part("prt_3", tool("completed")),
        part("prt_4", step_finish(0.5, 100)),
        idle(),
    ]);
    scene.item(scene.attach(0.0));
    let again = scene.replay(history(vec![text("hi")], answer()));
    let calls = |updates: &[Value]| {
        let kinds = updates.iter().map(|it| (it["sessionUpdate"].clone(), it["toolCallId"].clone()));
        kinds.collect::<Vec<_>>()
    };
    let (begin, running, rest) = (3, 3, 4);
    assert_eq!(again[0], chunk("user_message_chunk", "msg_1", "hi"));
    // The client was never shown the call's own state in between.
    let without_running = [&live[..running], &live[rest..]].concat();
    assert_eq!(calls(&again[1..]), calls(&without_running));
    assert_eq!(again[1..begin], live[..begin - 1]);
    assert_eq!(again[begin + 1..], live[rest..]);
    scene.item(scene.attach(0.0));
    assert_eq!(scene.replay(history(vec![text("hi")], answer())), again);
}

/// Checks the replay of an answer of which the client has `ab` and the store `stored`: `held` came while it was read,
/// and `live` comes behind it.
async fn check_meeting(stored: &str, held: &[(usize, &str)], live: &[(usize, &str)], expected: &[&str]) {
    let mut scene = Scene::new().await;
    scene.show_all([part("prt_1", text("")), delta("prt_1", 0, "ab")]);
    scene.item(Outgoing::Hold(session_id()));
    for &(offset, more) in held {
        assert_eq!(scene.show(delta("prt_1", offset, more)), [""; 0]);
    }
    assert_eq!(scene.item(scene.attach(0.0)), [""; 0]);
    let mut shown = scene.replay(history(vec![], vec![text(stored)]));
    shown.extend(live.iter().flat_map(|&(offset, more)| scene.show(delta("prt_1", offset, more))));
    assert_eq!(shown, expected.iter().map(|text| said(text)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_replay_and_live_text_meet_exactly() {
    check_meeting("ab", &[], &[(2, "cd")], &["ab", "cd"]).await;
    check_meeting("ab", &[(2, "cd")], &[(4, "ef")], &["ab", "cd", "ef"]).await;
    check_meeting("abcd", &[(2, "cd")], &[(4, "ef")], &["abcd", "ef"]).await;
    check_meeting("abcd", &[(2, "cde")], &[(5, "f")], &["abcd", "e", "f"]).await;
    check_meeting("abcd", &[(2, "c"), (3, "d")], &[(4, "ef")], &["abcd", "ef"]).await;
    check_meeting("abcd", &[], &[(2, "cd"), (4, "ef")], &["abcd", "ef"]).await;
}

#[tokio::test]
async fn a_part_that_began_behind_the_replay_s_read_is_shown_behind_it() {
    let mut scene = Scene::new().await;
    scene.item(Outgoing::Hold(session_id()));
    for payload in [part("prt_2", text("")), delta("prt_2", 0, "b"), part("prt_3", tool("pending"))] {
        assert_eq!(scene.show(payload), [""; 0]);
    }
    scene.item(scene.attach(0.0));
    let shown = scene.replay(history(vec![], vec![text("a")]));
    let kinds: Vec<_> = shown.iter().map(|it| it["sessionUpdate"].as_str().unwrap()).collect();
    assert_eq!(shown[..2], [said("a"), said("b")]);
    assert_eq!(kinds[2..], ["tool_call"]);
    assert_eq!(scene.show(delta("prt_2", 1, "c")), [said("c")]);
}

#[tokio::test]
async fn usage_is_shown_where_the_window_is_known() {
    let mut scene = Scene::new().await;
    let usage = |used: u64, amount: f64| {
        json!({"sessionUpdate": "usage_update", "used": used, "size": 1000,
               "cost": {"amount": amount, "currency": "USD"}})
    };
    assert_eq!(scene.show(part("prt_1", step_finish(0.5, 100))), [usage(123, 0.5)]);
    assert_eq!(scene.show(part("prt_2", step_finish(0.25, 200))), [usage(223, 0.75)]);
    let mut other = info("assistant", "msg_2");
    other["modelID"] = json!("unlimited");
    scene.show(payload("message.updated", json!({"sessionID": "ses_1", "info": other})));
    assert_eq!(scene.show(part("prt_3", step_finish(1.0, 300))), [""; 0]);
    scene.show(message("assistant", "msg_2"));
    assert_eq!(scene.show(part("prt_4", step_finish(0.0, 300))), [usage(323, 1.75)]);
}

#[tokio::test]
async fn a_resumed_session_goes_on_from_its_cost() {
    let mut scene = Scene::detached().await;
    scene.item(scene.attach(2.0));
    scene.show(message("assistant", "msg_2"));
    assert_eq!(scene.show(part("prt_1", step_finish(0.5, 1)))[0]["cost"]["amount"], 2.5);
}

#[tokio::test]
async fn a_new_title_is_shown_once() {
    let mut scene = Scene::detached().await;
    assert_eq!(scene.show(session("session.created", "New session - now")), [""; 0]);
    scene.item(scene.attach(0.0));
    assert_eq!(scene.show(session("session.updated", "New session - now")), [""; 0]);
    let expected = json!({"sessionUpdate": "session_info_update", "title": "Fix it",
                          "updatedAt": "2026-09-21T14:13:20.000Z"});
    assert_eq!(scene.show(session("session.updated", "Fix it")), [expected]);
    assert_eq!(scene.show(session("session.updated", "Fix it")), [""; 0]);
}

#[tokio::test]
async fn todos_are_a_plan() {
    let mut scene = Scene::new().await;
    let todo = json!({"content": "a", "status": "pending", "priority": "high"});
    let todos = json!({"sessionID": "ses_1", "todos": [todo]});
    assert_eq!(
        scene.show(payload("todo.updated", todos)),
        [json!({"sessionUpdate": "plan", "entries": [todo]})]
    );
}

#[tokio::test]
async fn a_retry_is_a_notice_or_a_thought_where_notices_are_not_known() {
    let mut scene = Scene::new().await;
    let retry = || {
        let status = json!({"type": "retry", "attempt": 1, "message": "overloaded", "next": 1});
        payload("session.status", json!({"sessionID": "ses_1", "status": status}))
    };
    let shown = scene.show(retry());
    let text = "The provider did not answer; trying again (attempt 2).\noverloaded";
    let words = json!({"type": "text", "text": text});
    assert_eq!(
        shown.iter().map(|it| (&it["sessionUpdate"], &it["content"])).collect::<Vec<_>>(),
        [(&json!("agent_thought_chunk"), &words)]
    );
    scene.encoder.set_client(ClientCapabilities { notices: true, ..ClientCapabilities::default() });
    let expected = json!({
        "sessionUpdate": "notice", "severity": "warning", "description": "overloaded",
        "title": "The provider did not answer; trying again (attempt 2).",
    });
    assert_eq!(scene.show(retry()), [expected]);
}

#[tokio::test]
async fn a_session_that_is_not_attached_is_not_shown() {
    let mut scene = Scene::detached().await;
    scene
        .encoder
        .set_client(ClientCapabilities { events: EventChoice::All, ..ClientCapabilities::default() });
    let events =
        || [message("assistant", "msg_2"), part("prt_1", text("a")), session("session.updated", "t")];
    assert_eq!(scene.show_all(events()), [""; 0]);
    scene.item(scene.attach(0.0));
    assert_ne!(scene.show_all(events()), [""; 0]);
    assert_eq!(scene.item(Outgoing::Detach(session_id())), [""; 0]);
    assert_eq!(scene.show_all(events()), [""; 0]);
}

#[tokio::test]
async fn a_deleted_session_is_not_shown_any_more() {
    let mut scene = Scene::new().await;
    scene.show(session("session.deleted", "t"));
    assert_eq!(scene.show(part("prt_1", text("a"))), [""; 0]);
}

fn raw(payload: EventPayload) -> Value {
    let event = Event { id: EventId::from_trusted("evt_1"), payload };
    let mut params = json!({"event": event});
    if event.payload.session_id().is_some() {
        params["sessionId"] = json!("ses_1");
    }
    json!({"method": "_windlass/event", "params": params})
}

#[tokio::test]
async fn an_event_follows_its_update_for_clients_that_want_all() {
    let mut scene = Scene::with_events(EventChoice::All).await;
    let (begin, more) = (part("prt_1", text("")), delta("prt_1", 0, "a"));
    assert_eq!(
        scene.show_all([begin.clone(), more.clone(), idle()]),
        [raw(begin), said("a"), raw(more), raw(idle()),]
    );
}

#[tokio::test]
async fn only_the_chosen_kinds_of_events_are_sent() {
    let mut scene =
        Scene::with_events(EventChoice::Only(vec![EventKind::SessionIdle, EventKind::FileEdited])).await;
    let edited = EventPayload::FileEdited { file: "/a.rs".to_owned() };
    let shown = scene.show_all([part("prt_1", text("a")), edited.clone(), idle()]);
    assert_eq!(shown, [said("a"), raw(edited), raw(idle())]);
}

#[tokio::test]
async fn the_creation_of_a_session_is_told_once_it_is_known() {
    let mut scene = Scene::detached().await;
    scene
        .encoder
        .set_client(ClientCapabilities { events: EventChoice::All, ..ClientCapabilities::default() });
    assert_eq!(scene.show(session("session.created", "t")), [""; 0]);
    let attach = scene.attach(0.0);
    assert_eq!(scene.item(attach), [raw(session("session.created", "t"))]);
    let again = scene.attach(0.0);
    assert_eq!(scene.item(again), [""; 0]);
}

#[tokio::test]
async fn held_events_are_told_behind_the_replay() {
    let mut scene = Scene::with_events(EventChoice::All).await;
    scene.item(Outgoing::Hold(session_id()));
    assert_eq!(scene.show(idle()), [""; 0]);
    let attach = scene.attach(0.0);
    assert_eq!(scene.item(attach), [""; 0]);
    assert_eq!(scene.replay(history(vec![], vec![text("a")])), [said("a"), raw(idle())]);
}

#[track_caller]
fn check_merge(scene: &mut Scene, first: EventPayload, second: EventPayload, is_merged: bool) -> Vec<Value> {
    let mut first = event(first);
    assert_eq!(scene.encoder.merge(&mut first, &event(second)), is_merged);
    scene.item(first)
}

#[tokio::test]
async fn neighbouring_text_of_a_part_becomes_one_chunk() {
    let mut scene = Scene::new().await;
    scene.show_all([part("prt_1", text("")), part("prt_2", text(""))]);
    let shown = check_merge(&mut scene, delta("prt_1", 0, "a"), delta("prt_1", 1, "b"), true);
    assert_eq!(shown, [said("ab")]);
    let shown = check_merge(&mut scene, delta("prt_1", 2, "c"), delta("prt_2", 0, "x"), false);
    assert_eq!(shown, [said("c")]);
    check_merge(&mut scene, delta("prt_1", 3, "d"), part("prt_1", text("abcd")), false);
    check_merge(&mut scene, part("prt_3", text("")), delta("prt_3", 0, "a"), false);
    assert_eq!(scene.show(delta("prt_1", 4, "e")), [said("e")]);
}

#[tokio::test]
async fn nothing_is_merged_for_clients_that_want_events() {
    let mut scene = Scene::with_events(EventChoice::Only(vec![EventKind::SessionIdle])).await;
    scene.show(part("prt_1", text("")));
    let shown = check_merge(&mut scene, delta("prt_1", 0, "a"), delta("prt_1", 1, "b"), false);
    assert_eq!(shown, [said("a")]);
}

fn asked(id: &str) -> EventPayload {
    payload(
        "permission.asked",
        json!({
            "id": id, "sessionID": "ses_1", "permission": "bash", "patterns": [id], "metadata": {}, "always": [],
        }),
    )
}

fn replied(id: &str) -> EventPayload {
    EventPayload::PermissionReplied {
        session_id: session_id(),
        request_id: PermissionId::from_trusted(id),
        reply: Reply::Once,
    }
}

/// Returns the requests to the client, as JSON-RPC id and title.
fn questions(shown: &[Value]) -> Vec<(i64, &str)> {
    let question = |it: &Value| it["method"] == "session/request_permission";
    let asked = shown.iter().filter(|it| question(it));
    asked
        .map(|it| (it["id"].as_i64().unwrap(), it["params"]["toolCall"]["title"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn the_next_question_is_shown_when_the_first_was_answered() {
    let mut scene = Scene::new().await;
    let shown = scene.show_all([asked("per_a"), asked("per_b")]);
    assert_eq!((questions(&shown), shown.len()), (vec![(0, "per_a")], 1));
    scene.encoder.permissions.answered(&Id::Number(0));
    let shown = scene.show(replied("per_a"));
    assert_eq!((questions(&shown), shown.len()), (vec![(1, "per_b")], 1));
}

#[tokio::test]
async fn a_question_answered_elsewhere_is_taken_back_before_the_next() {
    let mut scene = Scene::new().await;
    scene.show_all([asked("per_a"), asked("per_b")]);
    let shown = scene.show(replied("per_a"));
    assert_eq!(shown[0], json!({"method": "$/cancel_request", "params": {"requestId": 0}}));
    assert_eq!((questions(&shown[1..]), shown.len()), (vec![(1, "per_b")], 2));
}

#[tokio::test]
async fn a_client_that_is_gone_is_asked_nothing() {
    let mut scene = Scene::new().await;
    scene.encoder.permissions.give_up();
    assert_eq!(scene.show(asked("per_a")), [""; 0]);
    // Kept to the end: the engine's files are in it.
    assert!(scene.home.path().is_dir());
}

#[tokio::test]
async fn a_line_is_passed_on_as_it_is() {
    let mut scene = Scene::detached().await;
    assert_eq!(scene.item(Outgoing::Line(b"{\"id\":1}".to_vec())), [json!({"id": 1})]);
}

#[tokio::test]
async fn a_first_load_misses_nothing_that_happens_meanwhile() {
    let mut scene = Scene::detached().await;
    scene.item(Outgoing::Hold(session_id()));
    scene.show(delta("prt_1", 2, "cd"));
    scene.item(scene.attach(0.0));
    let mut shown = scene.replay(history(vec![], vec![text("ab")]));
    shown.extend(scene.show(delta("prt_1", 4, "ef")));
    assert_eq!(shown, [said("ab"), said("cd"), said("ef")]);
}

#[tokio::test]
async fn a_call_that_was_replayed_does_not_go_back() {
    let mut scene = Scene::new().await;
    scene.item(Outgoing::Hold(session_id()));
    let states = ["pending", "running", "completed"];
    scene.show_all(states.map(|state| part("prt_1", tool(state))));
    scene.item(scene.attach(0.0));
    let shown = scene.replay(history(vec![], vec![tool("completed")]));
    let seen: Vec<_> = shown.iter().map(|it| (it["sessionUpdate"].clone(), it["status"].clone())).collect();
    assert_eq!(
        seen,
        [("tool_call".into(), "pending".into()), ("tool_call_update".into(), "completed".into())]
    );
}

#[tokio::test]
async fn a_replayed_step_is_not_paid_twice() {
    let mut scene = Scene::new().await;
    scene.item(Outgoing::Hold(session_id()));
    scene.show(part("prt_1", step_finish(0.5, 1)));
    scene.item(scene.attach(0.0));
    let shown = scene.replay(history(vec![], vec![step_finish(0.5, 1)]));
    let costs: Vec<_> = shown.iter().map(|it| it["cost"]["amount"].clone()).collect();
    assert_eq!(costs, [json!(0.5)]);
}

#[tokio::test]
async fn a_failed_load_gives_back_what_it_held() {
    let mut scene = Scene::new().await;
    scene.item(Outgoing::Hold(session_id()));
    assert_eq!(scene.show(part("prt_1", text("a"))), [""; 0]);
    assert_eq!(scene.item(Outgoing::Release(session_id())), [said("a")]);
}

#[tokio::test]
async fn a_question_asked_during_a_load_is_shown_behind_it() {
    let mut scene = Scene::detached().await;
    scene.item(Outgoing::Hold(session_id()));
    scene.show(asked("per_a"));
    scene.item(scene.attach(0.0));
    let shown = scene.replay(history(vec![], vec![]));
    assert_eq!(questions(&shown).len(), 1);
}

#[tokio::test]
async fn a_load_shows_the_question_that_waits_again_behind_the_replay() {
    let mut scene = Scene::new().await;
    scene.show_all([asked("per_a"), asked("per_b")]);
    scene.item(Outgoing::Hold(session_id()));
    scene.item(scene.attach(0.0));
    let shown = scene.replay(history(vec![], vec![text("ab")]));
    assert_eq!(shown[..2], [said("ab"), json!({"method": "$/cancel_request", "params": {"requestId": 0}})]);
    assert_eq!((questions(&shown[2..]), shown.len()), (vec![(1, "per_a")], 3));
    assert_eq!(scene.encoder.permissions.answered(&Id::Number(0)), None);
    assert!(scene.encoder.permissions.answered(&Id::Number(1)).is_some());
}

#[tokio::test]
async fn who_resumes_a_session_is_asked_what_waits_there_whoever_was_asked_before() {
    let mut scene = Scene::detached().await;
    for id in ["per_a", "per_b"] {
        let EventPayload::PermissionAsked(request) = asked(id) else { unreachable!() };
        scene.engine.asking().pretend_asked(request);
    }
    let shown = scene.item(scene.attach(0.0));
    assert_eq!((questions(&shown), shown.len()), (vec![(0, "per_a")], 1));
    assert_eq!(questions(&scene.show(replied("per_a"))), [(1, "per_b")]);
}

#[tokio::test]
async fn a_question_that_is_settled_before_it_could_be_shown_is_not_shown() {
    let mut scene = Scene::new().await;
    let first = asked("per_a");
    let EventPayload::PermissionAsked(request) = &first else { unreachable!() };
    scene.engine.asking().pretend_asked(request.clone());
    scene.engine.asking().reply_permission(&request.id, Reply::Reject, None);
    assert_eq!(scene.item(event(first)), [""; 0]);
    assert_eq!(scene.show(replied("per_a")), [""; 0]);
}
