//! Routes of the streams of events.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures_util::future::BoxFuture;
use tokio::time::{Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use windlass_core::bus::{Filter, Subscriber};

mod frame;
pub mod hub;
mod stream;

use super::{
    by::By,
    routes::{Routes, get},
    selection::Named,
    server::Shared,
    watching::Watch,
};
use stream::{Stream, Wanted};

/// Interval of the signs of life.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Bytes that are handed to a connection at once.
const MAX_CHUNK: usize = 64 << 10;

pub fn routes() -> Routes {
    Routes::new()
        .route("/event", get(of_directory))
        .route("/global/event", get(of_all))
        .route("/api/event", get(of_all_located))
}

async fn of_directory(State(server): State<Shared>, by: By, named: Named) -> Response {
    open(&server, by, Wanted::Directory(named.text().into()))
}

async fn of_all(State(server): State<Shared>, by: By) -> Response {
    open(&server, by, Wanted::All)
}

async fn of_all_located(State(server): State<Shared>, by: By) -> Response {
    open(&server, by, Wanted::Located)
}

/// Answers with the events from now on.
fn open(server: &Shared, by: By, wanted: Wanted) -> Response {
    let stream = Stream::new(&server.hub, by.clone(), wanted);
    // Nothing comes before it, and no later event is lost.
    stream.greet();
    let subscriber: Arc<dyn Subscriber> = stream.clone();
    server.engine.bus().subscribe(Filter::Lossy, &subscriber);
    let mut beat = interval_at(tokio::time::Instant::now() + HEARTBEAT, HEARTBEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watch = by.account().map(|(team, visitor)| team.watching.begin(&visitor.account));
    let ended = Box::pin(async move { by.ended().await });
    let feed = Feed { stream, ended, _watch: watch, batch: VecDeque::new(), beat, stop: server.stop.clone() };
    let frames = futures_util::stream::unfold(feed, async |mut feed| Some((feed.next().await?, feed)));
    let mut response = Body::from_stream(frames).into_response();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache, no-transform"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A reader's events on their way to its connection.
struct Feed {
    stream: Arc<Stream>,
    /// Ends when its account changes.
    ended: BoxFuture<'static, ()>,
    _watch: Option<Watch>,
    batch: VecDeque<Bytes>,
    beat: Interval,
    stop: CancellationToken,
}

impl Feed {
    /// Returns the next frames. The stream ends without an error only where the client is not to come again.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let broken = |reason: &str| Some(Err(io::Error::other(reason.to_owned())));
        while self.batch.is_empty() {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return broken("the server ends"),
                is_open = self.stream.next_batch(&mut self.batch) => {
                    if !is_open {
                        return if self.stream.is_cut_off() { broken("the client reads too slowly") } else { None };
                    }
                }
                () = &mut self.ended => return None,
                _ = self.beat.tick() => self.stream.beat(),
            }
        }
        let first = self.batch.pop_front()?;
        if self.batch.is_empty() {
            return Some(Ok(first));
        }
        let mut chunk = first.to_vec();
        while self.batch.front().is_some_and(|frame| chunk.len() + frame.len() <= MAX_CHUNK)
            && let Some(frame) = self.batch.pop_front()
        {
            chunk.extend_from_slice(&frame);
        }
        Some(Ok(chunk.into()))
    }
}
