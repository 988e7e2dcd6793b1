//! The events of readers, and the end of those that stall.

use std::{collections::VecDeque, sync::Arc};

use serde_json::{Value, json};
use windlass_core::bus::{Bus, Filter, Subscriber};
use windlass_protocol::opencode::{
    event::EventPayload,
    part::Part,
    service::{ServiceEvent, ServiceNews},
    session::Session,
};

use super::super::super::by::By;
use super::{Hub, LATE, Stream, Wanted};

/// Multiple of [`LATE`] at which the bus cuts a reader off.
const CUT_OFF: usize = 4;

/// A bus with the sessions `ses_a` in `/a` and `ses_b` in `/b`, as a server has it.
struct Scene {
    bus: Bus,
    hub: Arc<Hub>,
}

impl Scene {
    fn new() -> Self {
        let (bus, hub) = (Bus::default(), Arc::new(Hub::default()));
        let subscriber: Arc<dyn Subscriber> = hub.clone();
        bus.subscribe(Filter::Lossy, &subscriber);
        hub.note(&session("ses_a", "/a"));
        hub.note(&session("ses_b", "/b"));
        Self { bus, hub }
    }

    fn open(&self, wanted: Wanted) -> Arc<Stream> {
        let stream = Stream::new(&self.hub, By::Everybody, wanted);
        let subscriber: Arc<dyn Subscriber> = stream.clone();
        self.bus.subscribe(Filter::Lossy, &subscriber);
        stream
    }

    fn of_directory(&self, path: &str) -> Arc<Stream> {
        self.open(Wanted::Directory(path.into()))
    }

    fn publish(&self, payload: Value) {
        self.bus.publish(serde_json::from_value(payload).unwrap());
    }

    fn delta(&self, session: &str, text: &str) {
        let properties = json!({"sessionID": session, "messageID": "msg_1", "partID": "prt_1", "field": "text", "delta": text});
        self.publish(json!({"type": "message.part.delta", "properties": properties}));
    }

    fn whole(&self, session: &str) {
        let part: Part = serde_json::from_value(
            json!({"id": "prt_1", "sessionID": session, "messageID": "msg_1", "type": "text", "text": "all"}),
        )
        .unwrap();
        let properties = json!({"sessionID": session, "part": part, "time": 1});
        self.publish(json!({"type": "message.part.updated", "properties": properties}));
    }

    fn tell(&self, directory: Option<&str>, news: ServiceNews) {
        self.bus
            .publish(EventPayload::Service(ServiceEvent { directory: directory.map(str::to_owned), news }));
    }
}

fn session(id: &str, directory: &str) -> Session {
    serde_json::from_value(json!({
        "id": id, "slug": "a-b", "projectID": "p", "directory": directory, "title": "t", "version": "0",
        "time": {"created": 1, "updated": 1},
    }))
    .unwrap()
}

/// Returns the events that wait for a reader.
fn read(stream: &Stream) -> Vec<Value> {
    let mut batch = VecDeque::new();
    stream.queue.take(&mut batch);
    let event = |frame: &axum::body::Bytes| {
        let text = std::str::from_utf8(frame).unwrap();
        serde_json::from_str(text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap()).unwrap()
    };
    batch.iter().map(event).collect()
}

#[test]
fn a_reader_gets_the_events_of_its_directory() {
    let scene = Scene::new();
    let (a, all, located) = (scene.of_directory("/a"), scene.open(Wanted::All), scene.open(Wanted::Located));
    scene.delta("ses_b", "1");
    scene.delta("ses_a", "2");
    let deltas = |events: &[Value], at: &str| -> Vec<Value> {
        events.iter().map(|event| event.pointer(at).unwrap().clone()).collect()
    };
    assert_eq!(deltas(&read(&a), "/properties/delta"), ["2"]);
    let events = read(&all);
    assert_eq!(deltas(&events, "/payload/properties/delta"), ["1", "2"]);
    assert_eq!(deltas(&events, "/directory"), ["/b", "/a"]);
    assert_eq!(deltas(&events, "/project"), ["p", "p"]);
    let events = read(&located);
    assert_eq!(deltas(&events, "/data/delta"), ["1", "2"]);
    assert_eq!(deltas(&events, "/location/directory"), ["/b", "/a"]);
}

#[test]
fn a_reader_that_is_late_misses_deltas_until_the_whole_part() {
    let scene = Scene::new();
    let reader = scene.of_directory("/a");
    scene.delta("ses_a", &"x".repeat(LATE));
    scene.delta("ses_a", "missed");
    assert_eq!(read(&reader).len(), 1);
    scene.delta("ses_a", "still missed");
    scene.whole("ses_a");
    scene.delta("ses_a", "again");
    let kinds: Vec<Value> = read(&reader).iter().map(|event| event["type"].clone()).collect();
    assert_eq!(kinds, ["message.part.updated", "message.part.delta"]);
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_off_and_holds_nothing() {
    let scene = Scene::new();
    let reader = scene.of_directory("/a");
    for _ in 0..CUT_OFF + 1 {
        let error = json!({"name": "UnknownError", "data": {"message": "x".repeat(LATE)}});
        scene.publish(json!({"type": "session.error", "properties": {"sessionID": "ses_a", "error": error}}));
    }
    assert!(reader.is_cut_off());
    assert!(!reader.next_batch(&mut VecDeque::new()).await);
    assert_eq!(reader.queue.weight(), 0);
}

#[test]
fn a_hundred_stalled_readers_share_what_waits_for_them() {
    let scene = Scene::new();
    let readers: Vec<Arc<Stream>> = (0..100).map(|_| scene.of_directory("/a")).collect();
    for _ in 0..20_000 {
        scene.delta("ses_a", &"x".repeat(200));
    }
    let heaviest = readers.iter().map(|reader| reader.queue.weight()).max();
    assert!(heaviest.unwrap() <= LATE + 1024, "{heaviest:?}");
    let mut batches = [VecDeque::new(), VecDeque::new()];
    readers[0].queue.take(&mut batches[0]);
    readers[99].queue.take(&mut batches[1]);
    assert_eq!(batches[0][0].as_ptr(), batches[1][0].as_ptr());
}

#[test]
fn a_stream_ends_behind_the_end_of_its_directory() {
    let scene = Scene::new();
    let (a, b, all) = (scene.of_directory("/a"), scene.of_directory("/b"), scene.open(Wanted::All));
    scene.tell(Some("/a"), ServiceNews::InstanceDisposed { directory: "/a".to_owned() });
    assert!(a.queue.is_closed() && !a.is_cut_off());
    let disposed = json!({"directory": "/a"});
    assert_eq!(read(&a)[0]["properties"], disposed);
    assert_eq!(read(&all)[0]["payload"]["properties"], disposed);
    assert!(read(&b).is_empty() && !b.queue.is_closed());
    scene.tell(None, ServiceNews::GlobalDisposed {});
    assert!(b.queue.is_closed() && !all.queue.is_closed());
    assert_eq!(read(&b)[0]["type"], "global.disposed");
}

#[test]
fn the_end_of_a_session_reaches_the_streams_of_its_directory() {
    let scene = Scene::new();
    let (a, b) = (scene.of_directory("/a"), scene.of_directory("/b"));
    let info = session("ses_a", "/a");
    scene.publish(json!({"type": "session.deleted", "properties": {"sessionID": "ses_a", "info": info}}));
    assert_eq!(read(&a).len(), 1);
    assert!(read(&b).is_empty());
}

#[test]
fn only_readers_of_one_directory_keep_its_services_alive() {
    let scene = Scene::new();
    let readers = [scene.open(Wanted::All), scene.open(Wanted::Located)];
    assert!(!scene.hub.has_reader("/a"));
    let two = [scene.of_directory("/a"), scene.of_directory("/a")];
    let [first, second] = two;
    drop(first);
    assert!(scene.hub.has_reader("/a") && !scene.hub.has_reader("/b"));
    drop((second, readers));
    assert!(!scene.hub.has_reader("/a"));
}
