//! The sessions that are known, and those that work.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_base::ids;
use windlass_core::bus::Subscriber;
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::SessionId,
    session::Session,
};

use super::{Hub, MAX_SESSIONS};

fn session(id: &str, directory: &str) -> Session {
    serde_json::from_value(json!({
        "id": id, "slug": "a-b", "projectID": "p", "directory": directory, "title": "t", "version": "0",
        "time": {"created": 1, "updated": 1},
    }))
    .unwrap()
}

fn deliver(hub: &Arc<Hub>, payload: Value) {
    let payload: EventPayload = serde_json::from_value(payload).unwrap();
    hub.deliver(&Arc::new(Event { id: ids::event(), payload }));
}

#[test]
fn only_a_bounded_number_of_idle_sessions_is_known() {
    let hub = Arc::new(Hub::default());
    hub.note(&session("ses_busy", "/a"));
    let busy = json!({"sessionID": "ses_busy", "status": {"type": "busy"}});
    deliver(&hub, json!({"type": "session.status", "properties": busy}));
    hub.note(&session("ses_old", "/a"));
    for number in 0..3 * MAX_SESSIONS {
        hub.note(&session(&format!("ses_{number}"), "/a"));
    }
    let n_known = super::lock(&hub.0).sessions.len();
    assert!((MAX_SESSIONS / 2..=MAX_SESSIONS).contains(&n_known), "{n_known}");
    assert_eq!(hub.directory(&SessionId::from_trusted("ses_old")), None);
    let newest = SessionId::from_trusted(format!("ses_{}", 3 * MAX_SESSIONS - 1));
    assert!(hub.directory(&newest).is_some());
    assert_eq!(hub.statuses("/a").len(), 1, "one that works stays known");
}
