//! Messages that a killed daemon left open are closed once; changes that were not stored are not shown.

use std::{collections::VecDeque, sync::Arc};

use serde_json::{Value, json};
use windlass_base::queue::Queue;
use windlass_core::{
    bus::{Bus, Filter},
    storage::{Storage, StoredSession},
};
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    session::SessionStatus,
};

use super::{Journal, SessionState};

fn stored(answer_time: Value, error: Value, parts: &Value) -> StoredSession {
    let mut parts = parts.clone();
    for (idx, part) in parts.as_array_mut().unwrap().iter_mut().enumerate() {
        part["id"] = json!(format!("prt_{idx}"));
        part["sessionID"] = json!("ses_1");
        part["messageID"] = json!("msg_2");
    }
    let mut answer = json!({
        "role": "assistant", "id": "msg_2", "sessionID": "ses_1", "parentID": "msg_1",
        "modelID": "m", "providerID": "p", "agent": "build", "mode": "build",
        "path": {"cwd": "/work", "root": "/work"}, "time": answer_time, "cost": 0.0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
    });
    if !error.is_null() {
        answer["error"] = error;
    }
    StoredSession {
        info: serde_json::from_value(json!({
            "id": "ses_1", "slug": "s", "projectID": "global", "directory": "/work", "title": "t",
            "version": "0", "time": {"created": 1, "updated": 1},
        }))
        .unwrap(),
        messages: serde_json::from_value(json!([{"info": answer, "parts": parts}])).unwrap(),
        todos: Vec::new(),
        known_files: Vec::new(),
    }
}

/// Times that are not the scene's own small ones.
fn mask(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_i64().is_some_and(|number| number > 1_000_000_000) => {
            *value = json!("now");
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::Object(fields) => fields.values_mut().for_each(mask),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn masked(value: &impl serde::Serialize) -> Value {
    let mut value = serde_json::to_value(value).unwrap();
    mask(&mut value);
    value
}

/// A store that holds the session, and the events of committing the journal to it.
struct Scene {
    _directory: tempfile::TempDir,
    storage: Storage,
    bus: Bus,
    events: Arc<Queue<Arc<Event>>>,
}

impl Scene {
    async fn new(session: &StoredSession) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let storage = Storage::new(directory.path().join("windlass.db"));
        storage.create_session(session.info.clone()).await.unwrap();
        let bus = Bus::default();
        Self { _directory: directory, storage, events: bus.listen(Filter::All), bus }
    }

    fn heard(&self) -> Vec<EventPayload> {
        let mut batch = VecDeque::new();
        self.events.take(&mut batch);
        batch.into_iter().map(|event| event.payload.clone()).collect()
    }
}

#[track_caller]
fn check_part(open: Value, expected: Value) {
    let (state, _) = SessionState::from_stored(stored(json!({"created": 1}), Value::Null, &json!([open])));
    let mut part = masked(&state.history[0].parts[0]);
    for key in ["id", "sessionID", "messageID"] {
        part.as_object_mut().unwrap().remove(key);
    }
    assert_eq!(part, expected);
}

#[test]
fn an_open_part_of_a_killed_answer_is_closed() {
    check_part(
        json!({"type": "text", "text": "so fa", "time": {"start": 1}}),
        json!({"type": "text", "text": "so fa", "time": {"start": 1, "end": "now"}}),
    );
    check_part(
        json!({"type": "reasoning", "text": "hm", "time": {"start": 1}}),
        json!({"type": "reasoning", "text": "hm", "time": {"start": 1, "end": "now"}}),
    );
    check_part(
        json!({"type": "tool", "callID": "c", "tool": "bash", "state": {
            "status": "pending", "input": {}, "raw": "",
        }}),
        json!({"type": "tool", "callID": "c", "tool": "bash", "state": {
            "status": "error", "input": {}, "error": "[Tool execution was interrupted]",
            "metadata": {"interrupted": true}, "time": {"start": "now", "end": "now"},
        }}),
    );
    check_part(
        json!({"type": "tool", "callID": "c", "tool": "bash", "state": {
            "status": "running", "input": {"command": "make"}, "metadata": {"output": "cc"},
            "time": {"start": 1},
        }}),
        json!({"type": "tool", "callID": "c", "tool": "bash", "state": {
            "status": "error", "input": {"command": "make"}, "error": "[Tool execution was interrupted]",
            "metadata": {"output": "cc", "interrupted": true}, "time": {"start": 1, "end": "now"},
        }}),
    );
}

#[test]
fn a_closed_part_of_a_killed_answer_stays_as_it_is() {
    for part in [
        json!({"type": "text", "text": "said", "time": {"start": 1, "end": 2}}),
        json!({"type": "text", "text": "without times"}),
        json!({"type": "reasoning", "text": "hm", "time": {"start": 1, "end": 2}}),
        json!({"type": "tool", "callID": "c", "tool": "bash", "state": {
            "status": "completed", "input": {}, "output": "o", "title": "t", "metadata": {},
            "time": {"start": 1, "end": 2},
        }}),
        json!({"type": "tool", "callID": "c", "tool": "bash", "state": {
            "status": "error", "input": {}, "error": "e", "time": {"start": 1, "end": 2},
        }}),
        json!({"type": "step-start"}),
    ] {
        check_part(part.clone(), part);
    }
}

#[tokio::test]
async fn a_killed_answer_is_aborted_stored_and_shown() {
    let parts = json!([
        {"type": "text", "text": "said", "time": {"start": 1, "end": 2}},
        {"type": "text", "text": "so fa", "time": {"start": 1}},
    ]);
    let session = stored(json!({"created": 1}), Value::Null, &parts);
    let scene = Scene::new(&session).await;
    let mut as_left = Journal::default();
    as_left.message(&session.messages[0].info);
    session.messages[0].parts.iter().for_each(|part| as_left.part(part));
    as_left.commit(&scene.storage, &scene.bus).await.unwrap();
    scene.heard();

    let (state, mut journal) = SessionState::from_stored(session);
    let answer = masked(&state.history[0].info);
    assert_eq!(answer["time"], json!({"created": 1, "completed": "now"}));
    let error = json!({
        "name": "MessageAbortedError",
        "data": {"message": "The daemon ended before the answer was complete."},
    });
    assert_eq!(answer["error"], error);

    journal.commit(&scene.storage, &scene.bus).await.unwrap();
    let repaired = &state.history[0];
    match scene.heard().as_slice() {
        [EventPayload::PartUpdated { part, .. }, EventPayload::MessageUpdated { info, .. }] => {
            assert_eq!((&**part, &**info), (&repaired.parts[1], &repaired.info));
        }
        other => panic!("expected the part, then its message: {other:?}"),
    }
    let again = scene.storage.load(state.info.id.clone()).await.unwrap().unwrap();
    assert_eq!(again.messages, *state.history);
}

#[test]
fn an_error_that_is_there_already_is_kept() {
    let error = json!({"name": "APIError", "data": {"message": "overloaded", "isRetryable": true}});
    let (state, _) = SessionState::from_stored(stored(json!({"created": 1}), error.clone(), &json!([])));
    assert_eq!(masked(&state.history[0].info)["error"], error);
}

#[tokio::test]
async fn what_is_whole_is_not_repaired_again() {
    let parts = json!([{"type": "text", "text": "so fa", "time": {"start": 1}}]);
    let (once, _) = SessionState::from_stored(stored(json!({"created": 1}), Value::Null, &parts));
    let repaired = StoredSession {
        info: once.info,
        messages: once.history.to_vec(),
        todos: once.todos,
        known_files: Vec::new(),
    };
    let scene = Scene::new(&repaired).await;
    let (twice, mut journal) = SessionState::from_stored(repaired.clone());
    assert_eq!(*twice.history, *repaired.messages);
    journal.commit(&scene.storage, &scene.bus).await.unwrap();
    assert_eq!(scene.heard(), []);
}

#[tokio::test]
async fn what_could_not_be_stored_is_not_shown() {
    let session = stored(json!({"created": 1}), Value::Null, &json!([{"type": "step-start"}]));
    let scene = Scene::new(&session).await;
    let mut journal = Journal::default();
    journal.session(&session.info);
    // Its message is not in the store.
    journal.part(&session.messages[0].parts[0]);
    assert!(journal.commit(&scene.storage, &scene.bus).await.is_err());
    assert_eq!(scene.heard(), []);
}

#[tokio::test]
async fn a_session_that_becomes_idle_says_so_twice() {
    let session = stored(json!({"created": 1}), Value::Null, &json!([]));
    let scene = Scene::new(&session).await;
    let mut journal = Journal::default();
    journal.status(&session.info, SessionStatus::Busy);
    journal.status(&session.info, SessionStatus::Idle);
    journal.commit(&scene.storage, &scene.bus).await.unwrap();
    let session_id = || session.info.id.clone();
    let expected = [
        EventPayload::SessionStatus { session_id: session_id(), status: SessionStatus::Busy },
        EventPayload::SessionStatus { session_id: session_id(), status: SessionStatus::Idle },
        EventPayload::SessionIdle { session_id: session_id() },
    ];
    assert_eq!(scene.heard(), expected);
}

#[test]
fn a_session_never_changes_at_the_same_time_twice() {
    let (mut state, _) = SessionState::from_stored(stored(json!({"created": 1}), Value::Null, &json!([])));
    let future = 9_000_000_000_000_000;
    state.info.time.updated = future;
    state.touch();
    assert_eq!(state.info.time.updated, future + 1);
}
