//! Every subscriber gets what it asked for, in the order of publishing, for as long as it lives.

use std::{collections::VecDeque, pin::pin, sync::Arc, task::Poll};

use futures_util::poll;
use windlass_protocol::opencode::event::{Event, EventKind, EventPayload};

use super::{Bus, Filter, LISTENER_HIGH_WATER};
use crate::base::queue::Queue;

fn edited(file: &str) -> EventPayload {
    EventPayload::FileEdited { file: file.to_owned() }
}

fn changed(server: &str) -> EventPayload {
    EventPayload::McpToolsChanged { server: server.to_owned() }
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
async fn the_slowest_subscriber_decides_whether_there_is_room() {
    let bus = Bus::default();
    let (slow, _fast) = (bus.listen(Filter::All), bus.listen(Filter::Only(vec![])));
    assert_eq!(poll!(pin!(bus.room())), Poll::Ready(()));
    (0..LISTENER_HIGH_WATER).for_each(|_| bus.publish(edited("/a")));
    let mut room = pin!(bus.room());
    assert_eq!(poll!(&mut room), Poll::Pending);
    heard(&slow);
    assert_eq!(poll!(&mut room), Poll::Ready(()));
}

#[tokio::test]
async fn a_dropped_subscriber_is_forgotten() {
    let bus = Bus::default();
    let slow = bus.listen(Filter::All);
    (0..LISTENER_HIGH_WATER).for_each(|_| bus.publish(edited("/a")));
    assert_eq!(poll!(pin!(bus.room())), Poll::Pending);
    drop(slow);
    assert_eq!(poll!(pin!(bus.room())), Poll::Ready(()));
}
