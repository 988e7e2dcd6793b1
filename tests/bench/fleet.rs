//! Measures sessions in a shared Postgres through the store's own interface: `fleet URL [OPEN] [STREAMING] [SECONDS]`.
//!
//! Every figure with the log stands beside the one without it, of the same run. The schema `windlass_bench` of the
//! database is to be empty.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program of its own: it prints a table, and ends where something fails"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use windlass_core::storage::{Append, Storage, Write};
use windlass_protocol::opencode::{
    id::{PartId, SessionId},
    message::Message,
    part::Part,
    session::Session,
    settings::{Acknowledge, SharedSettings},
};
use windlass_shared::Shared;

/// A delta as a model streams it.
const DELTA: &str = "and some more words ";

/// The ways of a change: to this machine alone, there and later to the log, to both before it is shown.
const WAYS: [(&str, Option<Acknowledge>); 3] =
    [("without", None), ("local", Some(Acknowledge::Local)), ("shared", Some(Acknowledge::Shared))];

struct Node {
    storage: Storage,
    shared: Option<Shared>,
    run: Option<JoinHandle<()>>,
    _directory: TempDir,
}

impl Node {
    fn new(url: &str, ack: Option<Acknowledge>, name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let storage = Storage::new(directory.path().join("windlass.db"));
        let shared = ack.and_then(|ack| {
            let settings = SharedSettings {
                url: Some(url.to_owned()),
                ack: Some(ack),
                name: Some(name.to_owned()),
                schema: Some("windlass_bench".to_owned()),
                ..SharedSettings::default()
            };
            Shared::new(&settings, &storage, directory.path()).unwrap()
        });
        let run = shared.clone().map(|shared| tokio::spawn(shared.run()));
        Self { storage, shared, run, _directory: directory }
    }

    /// Makes a session with a message that is being written, and takes it.
    async fn session(&self, number: usize) -> Streaming {
        let id = SessionId::parse(&format!("ses_{:016}{number:08}", std::process::id())).unwrap();
        let info: Session = serde_json::from_value(json!({
            "id": id, "slug": "a-b", "projectID": "p", "directory": "/work", "title": "Bench", "version": "0",
            "time": {"created": 1, "updated": number}
        }))
        .unwrap();
        self.storage.create_session(info).await.unwrap();
        if let Some(shared) = &self.shared {
            shared.claim(&id, None).await.unwrap();
        }
        let streaming = Streaming::new(&id, number, 0);
        self.storage.apply(streaming.begin("")).await.unwrap();
        streaming
    }

    async fn end(self) {
        if let Some(shared) = &self.shared {
            shared.end().await;
        }
        if let Some(run) = self.run {
            run.await.unwrap();
        }
    }
}

/// A part that grows.
struct Streaming {
    session: SessionId,
    part: PartId,
    message: Message,
    offset: usize,
}

impl Streaming {
    fn new(session: &SessionId, number: usize, turn: usize) -> Self {
        let message: Message = serde_json::from_value(json!({
            "id": format!("msg_{number:010}{turn:010}"), "sessionID": session, "role": "user",
            "time": {"created": 1}, "agent": "build", "model": {"providerID": "a", "modelID": "b"}
        }))
        .unwrap();
        let part = PartId::parse(&format!("prt_{number:010}{turn:010}")).unwrap();
        Self { session: session.clone(), part, message, offset: 0 }
    }

    fn begin(&self, text: &str) -> Vec<Write> {
        let part: Part = serde_json::from_value(json!({
            "id": self.part, "messageID": self.message.id(), "sessionID": self.session, "type": "text",
            "text": text, "time": {"start": 1}
        }))
        .unwrap();
        vec![Write::Message(Arc::new(self.message.clone())), Write::Part(Arc::new(part))]
    }

    fn delta(&mut self) -> Vec<Write> {
        let offset = self.offset;
        self.offset += DELTA.len();
        let (session_id, part_id) = (self.session.clone(), self.part.clone());
        vec![Write::Append(Append { session_id, part_id, offset, text: DELTA.to_owned() })]
    }

    /// Streams for some time, with a pause between two deltas.
    async fn stream(mut self, storage: Storage, time: Duration, pause: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            storage.apply(self.delta()).await.unwrap();
            tokio::time::sleep(pause).await;
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn at(times: &mut [f64], part: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    times[((times.len() - 1) as f64 * part) as usize]
}

async fn all(work: impl Iterator<Item = impl Future<Output = ()> + Send + 'static>) {
    let running: Vec<JoinHandle<()>> = work.map(tokio::spawn).collect();
    for one in running {
        one.await.unwrap();
    }
}

async fn single_deltas(url: &str) {
    for (name, way) in WAYS {
        let node = Node::new(url, way, name);
        let mut streaming = node.session(1).await;
        let mut times = Vec::new();
        for _ in 0..500 {
            let began = Instant::now();
            node.storage.apply(streaming.delta()).await.unwrap();
            times.push(milliseconds(began.elapsed()));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let (median, late) = (at(&mut times, 0.5), at(&mut times, 0.99));
        println!("a delta alone, {name}: p50 {median:.3} ms, p99 {late:.3} ms");
        node.end().await;
    }
}

async fn burst(url: &str) {
    let mut base = 0.0;
    for (name, way) in WAYS {
        let node = Node::new(url, way, name);
        let mut streaming = node.session(2).await;
        let began = Instant::now();
        // A read of the network has some deltas.
        for _ in 0..500 {
            node.storage.apply((0..10).flat_map(|_| streaming.delta()).collect()).await.unwrap();
        }
        let time = milliseconds(began.elapsed());
        if way.is_none() {
            base = time;
        }
        let (ratio, each) = (time / base, time / 500.0);
        println!("5 000 deltas in 500 reads, {name}: {time:.1} ms, {ratio:.2} x, {each:.3} ms a read");
        node.end().await;
    }
}

async fn parallel(url: &str) {
    for (name, way) in WAYS {
        let nodes: Vec<Node> = (0..3).map(|number| Node::new(url, way, &format!("{name}{number}"))).collect();
        let mut turns = Vec::new();
        for number in 0..50 {
            let node = &nodes[number % 3];
            turns.push((node.storage.clone(), node.session(100 + number).await));
        }
        let began = Instant::now();
        let (time, pause) = (Duration::from_secs(1), Duration::from_millis(20));
        all(turns.into_iter().map(|(storage, streaming)| streaming.stream(storage, time, pause))).await;
        println!("50 turns of 1 s on 3 nodes, {name}: {:.2} s", began.elapsed().as_secs_f64());
        for node in nodes {
            node.end().await;
        }
    }
}

async fn take_over(url: &str) {
    let one = Node::new(url, Some(Acknowledge::Shared), "one");
    let session = one.session(3).await.session;
    for turn in 1..=200 {
        let mut writes = Streaming::new(&session, 3, 2 * turn).begin(&"a question ".repeat(10));
        writes
            .extend(Streaming::new(&session, 3, 2 * turn + 1).begin(&"some line of an answer\n".repeat(100)));
        one.storage.apply(writes).await.unwrap();
    }
    one.shared.clone().unwrap().release(&session).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..7 {
        let two = Node::new(url, Some(Acknowledge::Shared), "two");
        let there = two.shared.clone().unwrap();
        there.join().await.unwrap();
        let began = Instant::now();
        there.claim(&session, None).await.unwrap();
        times.push(milliseconds(began.elapsed()));
        two.end().await;
    }
    let (median, most) = (at(&mut times, 0.5), at(&mut times, 1.0));
    println!("a session of 200 turns taken over: p50 {median:.1} ms, max {most:.1} ms");
    one.end().await;
}

async fn load(url: &str, n_open: usize, n_streaming: usize, seconds: u64) {
    let node = Node::new(url, Some(Acknowledge::Local), "load");
    let shared = node.shared.clone().unwrap();
    let began = Instant::now();
    let mut streaming = Vec::new();
    for number in 0..n_open {
        let session = node.session(100_000 + number).await;
        if number < n_streaming {
            streaming.push(session);
        }
    }
    println!("{n_open} sessions opened in {:.1} s", began.elapsed().as_secs_f64());
    let most = Arc::new(AtomicU64::new(0));
    let (watched, seen) = (shared.clone(), most.clone());
    let watch = tokio::spawn(async move {
        loop {
            let lag = u64::try_from(watched.standing().lag.as_millis()).unwrap_or(u64::MAX);
            seen.fetch_max(lag, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let (first, began) = (shared.standing(), Instant::now());
    let (time, pause) = (Duration::from_secs(seconds), Duration::from_millis(50));
    all(streaming.into_iter().map(|session| session.stream(node.storage.clone(), time, pause))).await;
    watch.abort();
    let (last, time) = (shared.standing(), began.elapsed().as_secs_f64());
    let per_second = |now: u64, then: u64| (now - then) as f64 / time;
    println!(
        "{n_streaming} of {n_open} sessions stream for {seconds} s, up to 20 deltas/s each: {:.0} rows/s, {:.0} kB/s, {:.1} \
         commits/s, at most {} ms behind",
        per_second(last.events, first.events),
        per_second(last.bytes, first.bytes) / 1000.0,
        per_second(last.commits, first.commits),
        most.load(Ordering::Relaxed),
    );
    let other = Node::new(url, Some(Acknowledge::Local), "lists");
    let lists = other.shared.clone().unwrap();
    let mut times = Vec::new();
    for _ in 0..21 {
        let began = Instant::now();
        lists.refresh().await.unwrap();
        times.push(milliseconds(began.elapsed()));
    }
    println!("the list of {n_open} sessions: {:.1} ms the first time", times[0]);
    println!("the list of {n_open} sessions: p50 {:.1} ms later", at(&mut times[1..], 0.5));
    let totals = lists.totals().await.unwrap();
    let megabytes = totals.n_bytes as f64 / 1e6;
    println!("{} sessions, {} rows of the log, {megabytes:.1} MB in all", totals.n_sessions, totals.n_events);
    other.end().await;
    node.end().await;
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let Some(url) = arguments.first() else {
        println!("usage: fleet URL [OPEN] [STREAMING] [SECONDS]");
        return;
    };
    let number = |place: usize, usual: u64| arguments.get(place).map_or(usual, |it| it.parse().unwrap());
    let (n_open, n_streaming, seconds) = (number(1, 10_000), number(2, 1_000), number(3, 20));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        single_deltas(url).await;
        burst(url).await;
        parallel(url).await;
        take_over(url).await;
        load(url, usize::try_from(n_open).unwrap(), usize::try_from(n_streaming).unwrap(), seconds).await;
    });
}
