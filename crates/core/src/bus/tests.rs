//! Every subscriber gets the events that it asked for, in the order of publishing, for as long as it lives.

use std::{collections::VecDeque, pin::pin, sync::Arc, task::Poll};

use futures_util::poll;
use serde_json::{Value, json};
use windlass_base::queue::Queue;
use windlass_protocol::opencode::{
    event::{Event, EventKind, EventPayload},
    id::{MessageId, PartId, SessionId},
};

use super::{Bus, CUT_OFF, Filter, LISTENER_HIGH_WATER, Scope};

fn edited(file: &str) -> EventPayload {
    EventPayload::FileEdited { file: file.to_owned() }
}

fn changed(server: &str) -> EventPayload {
    EventPayload::McpToolsChanged { server: server.to_owned() }
}

fn session(id: &str) -> SessionId {
    SessionId::from_trusted(id)
}

/// Adds a listener that holds one session.
fn reader(bus: &Bus, id: &str) -> (Arc<Queue<Arc<Event>>>, Arc<Scope>) {
    let scope = Arc::<Scope>::default();
    bus.hold(&scope, &session(id));
    (bus.listen(Filter::Scope(scope.clone())), scope)
}

fn event(kind: &str, properties: Value) -> EventPayload {
    serde_json::from_value(json!({ "type": kind, "properties": properties })).unwrap()
}

fn delta(session: &str, part: &str) -> EventPayload {
    EventPayload::PartDelta {
        session_id: SessionId::from_trusted(session),
        message_id: MessageId::from_trusted("msg_1"),
        part_id: PartId::from_trusted(part),
        field: "text".into(),
        delta: "x".to_owned(),
        offset: Some(0),
    }
}

fn whole(session: &str, part: &str) -> EventPayload {
    let part = json!({"id": part, "sessionID": session, "messageID": "msg_1", "type": "text", "text": "x"});
    event("message.part.updated", json!({ "sessionID": session, "part": part, "time": 0 }))
}

fn child(id: &str, parent: &str) -> EventPayload {
    let info = json!({
        "id": id, "slug": "s", "projectID": "p", "directory": "/d", "parentID": parent, "title": "t",
        "version": "1", "time": {"created": 0, "updated": 0},
    });
    event("session.created", json!({ "sessionID": id, "info": info }))
}

fn heard(queue: &Queue<Arc<Event>>) -> Vec<EventPayload> {
    let mut batch = VecDeque::new();
    queue.take(&mut batch);
    batch.into_iter().map(|event| event.payload.clone()).collect()
}

#[track_caller]
fn check(filter: Filter, expected: &[EventPayload]) {
    let bus = Bus::default();
    let queue = bus.listen(filter);
    for payload in [edited("/a"), changed("x"), edited("/b")] {
        bus.publish(payload);
    }
    assert_eq!(heard(&queue), expected);
}

#[test]
fn events_come_in_order_and_only_the_wanted_kinds() {
    check(Filter::All, &[edited("/a"), changed("x"), edited("/b")]);
    check(Filter::Only(vec![EventKind::FileEdited]), &[edited("/a"), edited("/b")]);
    check(Filter::Only(vec![]), &[]);
}

#[test]
fn all_subscribers_get_the_same_event() {
    let bus = Bus::default();
    let (first, second) = (bus.listen(Filter::All), bus.clone().listen(Filter::All));
    bus.publish(edited("/a"));
    let (mut one, mut other) = (VecDeque::new(), VecDeque::new());
    assert!(first.take(&mut one) && second.take(&mut other));
    assert!(Arc::ptr_eq(&one[0], &other[0]));
}

#[test]
fn what_was_published_before_is_not_heard() {
    let bus = Bus::default();
    bus.publish(edited("/a"));
    let queue = bus.listen(Filter::All);
    bus.publish(edited("/b"));
    assert_eq!(heard(&queue), [edited("/b")]);
}

#[tokio::test]
async fn a_sessions_only_reader_holds_it_up_and_no_other_session() {
    let bus = Bus::default();
    let (_slow, scope) = reader(&bus, "ses_1");
    (0..LISTENER_HIGH_WATER).for_each(|_| bus.publish(delta("ses_1", "prt_1")));
    assert_eq!(poll!(pin!(bus.room(&session("ses_1")))), Poll::Pending);
    assert_eq!(poll!(pin!(bus.room(&session("ses_2")))), Poll::Ready(()));
    bus.release(&scope, &session("ses_1"));
    assert_eq!(poll!(pin!(bus.room(&session("ses_1")))), Poll::Ready(()));
}

#[tokio::test]
async fn another_reader_frees_the_turn_that_waits_for_a_stalled_one() {
    let bus = Bus::default();
    let (_slow, _) = reader(&bus, "ses_1");
    (0..LISTENER_HIGH_WATER).for_each(|_| bus.publish(delta("ses_1", "prt_1")));
    let id = session("ses_1");
    let mut room = pin!(bus.room(&id));
    assert_eq!(poll!(&mut room), Poll::Pending);
    let (_quick, _) = reader(&bus, "ses_1");
    assert_eq!(poll!(&mut room), Poll::Ready(()));
}

#[tokio::test]
async fn a_stalled_reader_loses_deltas_and_gets_the_whole_part() {
    let bus = Bus::default();
    let ((slow, _), (quick, _)) = (reader(&bus, "ses_1"), reader(&bus, "ses_1"));
    for _ in 0..LISTENER_HIGH_WATER {
        bus.publish(delta("ses_1", "prt_1"));
        heard(&quick);
    }
    bus.publish(delta("ses_1", "prt_1"));
    assert_eq!(heard(&quick), [delta("ses_1", "prt_1")]);
    assert_eq!(heard(&slow).len(), LISTENER_HIGH_WATER);
    // There is room again, but a delta behind a gap is of no use.
    for event in [delta("ses_1", "prt_1"), delta("ses_1", "prt_2"), whole("ses_1", "prt_1")] {
        bus.publish(event);
    }
    bus.publish(delta("ses_1", "prt_1"));
    let expected = [delta("ses_1", "prt_2"), whole("ses_1", "prt_1"), delta("ses_1", "prt_1")];
    assert_eq!(heard(&slow), expected);
}

#[test]
fn a_reader_that_is_far_behind_is_cut_off_for_the_others() {
    let bus = Bus::default();
    let ((slow, _), (quick, _)) = (reader(&bus, "ses_1"), reader(&bus, "ses_1"));
    for _ in 0..=CUT_OFF * LISTENER_HIGH_WATER {
        bus.publish(whole("ses_1", "prt_1"));
        heard(&quick);
    }
    assert!(slow.is_closed() && !quick.is_closed());
    assert_eq!(heard(&slow).len(), CUT_OFF * LISTENER_HIGH_WATER);
}

#[test]
fn a_reader_gets_the_sessions_in_its_scope_and_those_of_their_subagents() {
    let bus = Bus::default();
    let ((own, _), (other, _)) = (reader(&bus, "ses_1"), reader(&bus, "ses_2"));
    bus.publish(child("ses_3", "ses_1"));
    bus.publish(child("ses_4", "ses_3"));
    heard(&own);
    heard(&other);
    for event in [delta("ses_2", "prt_2"), delta("ses_4", "prt_4"), edited("/a")] {
        bus.publish(event);
    }
    assert_eq!(heard(&own), [delta("ses_4", "prt_4"), edited("/a")]);
    assert_eq!(heard(&other), [delta("ses_2", "prt_2"), edited("/a")]);
    bus.forget_children(&session("ses_1"));
    bus.publish(delta("ses_4", "prt_4"));
    assert_eq!(heard(&own), []);
}

#[tokio::test]
async fn a_dropped_subscriber_is_forgotten() {
    let bus = Bus::default();
    let (slow, _) = reader(&bus, "ses_1");
    (0..LISTENER_HIGH_WATER).for_each(|_| bus.publish(delta("ses_1", "prt_1")));
    assert_eq!(poll!(pin!(bus.room(&session("ses_1")))), Poll::Pending);
    drop(slow);
    assert_eq!(poll!(pin!(bus.room(&session("ses_1")))), Poll::Ready(()));
}
