//! The live rows of a turn, at times of a fixed clock.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_base::ids;
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::SessionId,
};

use super::{Closing, LONG_RUN_MS, Progress};
use crate::cli::view::look::Look;

const BEGAN: i64 = 1_000_000;

fn begun(look: Look) -> Progress {
    let mut progress = Progress::new(look);
    progress.set_width(100);
    progress.begin(&SessionId::from_trusted("ses_1"), BEGAN);
    progress
}

fn tell(progress: &mut Progress, kind: &str, properties: Value, now: i64) {
    let payload: EventPayload =
        serde_json::from_value(json!({"type": kind, "properties": properties})).expect("event");
    progress.event(&Arc::new(Event { id: ids::event(), payload }), now);
}

fn live(progress: &Progress, now: i64) -> String {
    progress.moving(100, 10, now).last().map(super::Line::text).unwrap_or_default()
}

#[test]
fn a_retry_counts_down() {
    let mut progress = begun(Look::full());
    let status = json!({"type": "retry", "attempt": 2, "message": "429 slow down.", "next": BEGAN + 8_000});
    tell(&mut progress, "session.status", json!({"sessionID": "ses_1", "status": status}), BEGAN);
    let rows: Vec<String> = progress.take().iter().map(super::Line::text).collect();
    assert_eq!(rows, ["429 slow down; again in 8 s, try 2"]);
    assert!(live(&progress, BEGAN + 1).contains("429 slow down; again in 8 s, try 2 · 0 s"));
    assert!(live(&progress, BEGAN + 5_000).contains("again in 3 s, try 2 · 5 s"));
    let busy = json!({"sessionID": "ses_1", "status": {"type": "busy"}});
    tell(&mut progress, "session.status", busy, BEGAN + 8_000);
    assert!(live(&progress, BEGAN + 8_000).contains("Waiting for the model · 8 s"));
}

#[test]
fn a_long_run_calls_its_user_back() {
    let bell = |look: Look, took: i64| {
        let mut progress = begun(look);
        progress.end(Closing::default(), BEGAN + took);
        progress.take_bell()
    };
    assert_eq!(bell(Look::full(), LONG_RUN_MS - 1), None);
    assert_eq!(bell(Look::full(), LONG_RUN_MS).as_deref(), Some("\x07"));
    let notifying = Look { notifies: true, ..Look::full() };
    assert_eq!(bell(notifying, 65_000).as_deref(), Some("\x1b]9;windlass: done after 1 min 5 s\x1b\\"));
}
