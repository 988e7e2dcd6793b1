//! The events of readers, and the end of those that stall.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use serde_json::{Value, json};
use windlass_base::ids;
use windlass_core::bus::Subscriber;
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::SessionId,
    part::Part,
    session::Session,
};

use super::{CUT_OFF, Hub, LATE, MAX_SESSIONS, Reader, Wanted};

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

fn delta(hub: &Arc<Hub>, session: &str, text: &str) {
    let properties = json!({"sessionID": session, "messageID": "msg_1", "partID": "prt_1", "field": "text", "delta": text});
    deliver(hub, json!({"type": "message.part.delta", "properties": properties}));
}

fn whole(hub: &Arc<Hub>, session: &str) {
    let part: Part = serde_json::from_value(
        json!({"id": "prt_1", "sessionID": session, "messageID": "msg_1", "type": "text", "text": "all"}),
    )
    .unwrap();
    let properties = json!({"sessionID": session, "part": part, "time": 1});
    deliver(hub, json!({"type": "message.part.updated", "properties": properties}));
}

/// Returns the events that wait for a reader.
fn read(reader: &Reader) -> Vec<Value> {
    let mut batch = VecDeque::new();
    reader.feed.queue.take(&mut batch);
    let event = |frame: &axum::body::Bytes| {
        let text = std::str::from_utf8(frame).unwrap();
        serde_json::from_str(text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap()).unwrap()
    };
    batch.iter().map(event).collect()
}

fn directory(path: &str) -> Wanted {
    Wanted::Directory(path.into())
}

#[test]
fn a_reader_gets_the_events_of_its_directory() {
    let hub = Arc::new(Hub::default());
    hub.note(&session("ses_a", "/a"));
    hub.note(&session("ses_b", "/b"));
    let (a, all) = (hub.subscribe(directory("/a")), hub.subscribe(Wanted::All));
    delta(&hub, "ses_b", "1");
    delta(&hub, "ses_a", "2");
    let deltas = |events: Vec<Value>, at: &str| -> Vec<Value> {
        events.iter().map(|event| event.pointer(at).unwrap().clone()).collect()
    };
    assert_eq!(deltas(read(&a), "/properties/delta"), ["2"]);
    let events = read(&all);
    assert_eq!(deltas(events.clone(), "/payload/properties/delta"), ["1", "2"]);
    assert_eq!(deltas(events.clone(), "/directory"), ["/b", "/a"]);
    assert_eq!(deltas(events, "/project"), ["p", "p"]);
}

#[test]
fn a_reader_that_is_late_misses_deltas_until_the_whole_part() {
    let hub = Arc::new(Hub::default());
    hub.note(&session("ses_a", "/a"));
    let reader = hub.subscribe(directory("/a"));
    delta(&hub, "ses_a", &"x".repeat(LATE));
    delta(&hub, "ses_a", "missed");
    assert_eq!(read(&reader).len(), 1);
    delta(&hub, "ses_a", "still missed");
    whole(&hub, "ses_a");
    delta(&hub, "ses_a", "again");
    let kinds: Vec<Value> = read(&reader).iter().map(|event| event["type"].clone()).collect();
    assert_eq!(kinds, ["message.part.updated", "message.part.delta"]);
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_off_and_holds_nothing() {
    let hub = Arc::new(Hub::default());
    hub.note(&session("ses_a", "/a"));
    let reader = hub.subscribe(directory("/a"));
    for _ in 0..CUT_OFF + 1 {
        deliver(
            &hub,
            json!({"type": "session.error", "properties": {"sessionID": "ses_a",
            "error": {"name": "UnknownError", "data": {"message": "x".repeat(LATE)}}}}),
        );
    }
    assert!(reader.is_cut_off());
    assert!(!reader.next_batch(&mut VecDeque::new()).await);
    assert_eq!(reader.feed.queue.weight(), 0);
    assert!(super::lock(&hub.0).readers.is_empty());
}

#[test]
fn a_hundred_stalled_readers_share_what_waits_for_them() {
    let hub = Arc::new(Hub::default());
    hub.note(&session("ses_a", "/a"));
    let readers: Vec<Reader> = (0..100).map(|_| hub.subscribe(directory("/a"))).collect();
    for _ in 0..20_000 {
        delta(&hub, "ses_a", &"x".repeat(200));
    }
    let heaviest = readers.iter().map(|reader| reader.feed.queue.weight()).max();
    assert!(heaviest.unwrap() <= LATE + 1024, "{heaviest:?}");
    let mut batches = [VecDeque::new(), VecDeque::new()];
    readers[0].feed.queue.take(&mut batches[0]);
    readers[99].feed.queue.take(&mut batches[1]);
    assert_eq!(batches[0][0].as_ptr(), batches[1][0].as_ptr());
}

#[test]
fn a_reader_that_leaves_is_forgotten() {
    let hub = Arc::new(Hub::default());
    for _ in 0..10_000 {
        drop(hub.subscribe(Wanted::All));
    }
    assert!(super::lock(&hub.0).readers.is_empty());
    let reader = hub.subscribe(directory("/a"));
    hub.end(Some("/b"));
    assert!(!reader.feed.queue.is_closed());
    hub.end(Some("/a"));
    assert!(reader.feed.queue.is_closed() && !reader.feed.is_cut_off.load(Ordering::Relaxed));
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

#[test]
fn only_readers_of_one_directory_keep_its_services_alive() {
    let hub = Arc::new(Hub::default());
    let _readers =
        (hub.subscribe(Wanted::All), hub.subscribe(Wanted::Located), hub.subscribe(directory("/a")));
    assert!(hub.has_reader("/a") && !hub.has_reader("/b"));
}
