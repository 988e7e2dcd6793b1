//! ACP's encoder alone: the time from an event to its line, for each version of the protocol.

use std::{hint::black_box, path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use windlass::acp::Alone;
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{Engine, Workspace};
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::{EventId, MessageId, PartId, SessionId},
};
use windlass_protocol_acp::decode::Version;

use crate::best;

const N_DELTAS: usize = 2_000;
const N_CALLS: usize = 500;
const LONGEST_US: f64 = 2.0;

/// Prints the time of an update of a text and of one of a tool call.
pub fn measure() {
    let home = tempfile::tempdir();
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let workspace = home.ok().and_then(|home| runtime.block_on(workspace(home.path())));
    let Some(workspace) = workspace else {
        println!("encode updates: NOT MEASURED, because there is no workspace");
        return;
    };
    for (version, name) in [(Version::V1, "v1"), (Version::V2, "v2")] {
        for (what, events) in [("a delta", deltas()), ("an update of a call", calls())] {
            let mut bytes = Vec::new();
            let mut taken = Duration::MAX;
            for _ in 0..3 {
                taken = taken.min(best(|| {
                    let mut encoder = Alone::new(version, workspace.clone(), session());
                    begin(&mut encoder);
                    bytes.clear();
                    for event in &events {
                        encoder.show(event.clone(), &mut bytes);
                    }
                    black_box(&bytes);
                }));
            }
            let n_lines = bytes.iter().filter(|byte| **byte == b'\n').count();
            let each = taken.as_secs_f64() * 1e6 / n_lines.max(1) as f64;
            let verdict = if n_lines < events.len() {
                "TOO FEW"
            } else if each <= LONGEST_US {
                "ok"
            } else {
                "OVER"
            };
            println!("encode {what} for {name}, µs: {each:.2} (at most {LONGEST_US}) {verdict}");
        }
    }
}

async fn workspace(home: &Path) -> Option<Arc<Workspace>> {
    let environment = Environment { trusts_projects: true, variables: [].into(), home: home.to_owned() };
    let engine = Engine::new(environment.clone(), Paths::new(&environment));
    engine.workspaces().workspace(home).await.ok()
}

fn session() -> SessionId {
    SessionId::from_trusted("ses_1")
}

fn event(payload: EventPayload) -> Arc<Event> {
    Arc::new(Event { id: EventId::from_trusted("evt_1"), payload })
}

fn decoded(kind: &str, properties: Value) -> Option<Arc<Event>> {
    serde_json::from_value(json!({"type": kind, "properties": properties})).ok().map(event)
}

/// Shows the messages that the parts belong to, and the text that grows.
fn begin(encoder: &mut Alone) {
    let user = json!({
        "role": "user", "id": "msg_1", "sessionID": "ses_1", "time": {"created": 1}, "agent": "build",
        "model": {"providerID": "p", "modelID": "m"},
    });
    let answer = json!({
        "role": "assistant", "id": "msg_2", "sessionID": "ses_1", "parentID": "msg_1", "modelID": "m",
        "providerID": "p", "agent": "build", "mode": "build", "path": {"cwd": "/", "root": "/"},
        "time": {"created": 1}, "cost": 0.0,
        "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
    });
    for info in [user, answer] {
        let message = decoded("message.updated", json!({"sessionID": "ses_1", "info": info}));
        message.into_iter().for_each(|message| encoder.show(message, &mut Vec::new()));
    }
    let text = part("prt_1", json!({"type": "text", "text": ""}));
    text.into_iter().for_each(|text| encoder.show(text, &mut Vec::new()));
}

fn part(id: &str, mut part: Value) -> Option<Arc<Event>> {
    part["id"] = json!(id);
    part["sessionID"] = json!("ses_1");
    part["messageID"] = json!("msg_2");
    decoded("message.part.updated", json!({"sessionID": "ses_1", "part": part, "time": 1}))
}

fn deltas() -> Vec<Arc<Event>> {
    const WORDS: &str = "a few words ";
    let delta = |index: usize| {
        event(EventPayload::PartDelta {
            session_id: session(),
            message_id: MessageId::from_trusted("msg_2"),
            part_id: PartId::from_trusted("prt_1"),
            field: "text".into(),
            delta: WORDS.to_owned(),
            offset: Some(index * WORDS.len()),
        })
    };
    (0..N_DELTAS).map(delta).collect()
}

/// Returns calls that wait, run and end, in this order.
fn calls() -> Vec<Arc<Event>> {
    let input = json!({"filePath": "/work/src/main.rs", "offset": 10, "limit": 40});
    let states = [
        json!({"status": "pending", "input": {}, "raw": ""}),
        json!({"status": "running", "input": input, "time": {"start": 1}}),
        json!({
            "status": "completed", "input": input, "output": "fn main() {}\n".repeat(40), "title": "src/main.rs",
            "metadata": {}, "time": {"start": 1, "end": 2},
        }),
    ];
    let updates = (0..N_CALLS).flat_map(|index| {
        let of_state = move |state: &Value| {
            let call =
                json!({"type": "tool", "callID": format!("call_{index}"), "tool": "read", "state": state});
            part(&format!("prt_call_{index}"), call)
        };
        states.iter().filter_map(of_state).collect::<Vec<_>>()
    });
    updates.collect()
}
