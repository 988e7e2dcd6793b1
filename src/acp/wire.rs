//! Both directions of a connection, and the ends of its handlers, as one stream of events.

use std::{collections::VecDeque, io, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    input::{Line, Lines},
    outbox::{News, Outbox, Outgoing},
    output::Writer,
    trace::Trace,
};

/// Bytes the client has not read that make windlass stop reading its requests.
const MAX_UNREAD: usize = 4 * 1024 * 1024;

/// Something that happens to a connection.
pub enum Event<T> {
    /// The client said something.
    Line(Vec<u8>),
    /// The client said something that was too long to keep.
    LongLine,
    /// The input has ended.
    End,
    /// A handler beside the connection's task has ended.
    Handled(T),
    News(News),
    /// There is something for the client in [`Wire::batch`], and the writer is idle.
    Say,
    /// Output that was held back to spare the client is due, and the writer is idle.
    Due,
    /// The output is broken, or nothing more is to be said.
    Broken,
}

/// See the module's comment.
pub struct Wire<R, W, T> {
    lines: Lines<R>,
    hung_up: CancellationToken,
    pub writer: Writer<W>,
    outbox: Arc<Outbox>,
    handled: mpsc::UnboundedReceiver<T>,
    news: mpsc::UnboundedReceiver<News>,
    trace: Arc<Trace>,
    /// Taken from the outbox and not encoded yet.
    pub batch: VecDeque<Outgoing>,
    has_ended: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin, T> Wire<R, W, T> {
    pub fn new(
        lines: Lines<R>,
        hung_up: CancellationToken,
        output: W,
        trace: Arc<Trace>,
        outbox: Arc<Outbox>,
        handled: mpsc::UnboundedReceiver<T>,
        news: mpsc::UnboundedReceiver<News>,
    ) -> Self {
        let writer = Writer::new(output, trace.clone());
        let batch = VecDeque::new();
        Self { lines, hung_up, writer, outbox, handled, news, trace, batch, has_ended: false }
    }

    /// Returns true if the input has ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Returns true if nothing is left to be written.
    pub fn is_drained(&self) -> bool {
        self.writer.is_idle() && self.batch.is_empty() && self.outbox.queue.is_empty()
    }

    /// Waits for the next event; `due` is the time at which held output is due. A call that is dropped halfway loses
    /// nothing.
    ///
    /// Lines are read while the client does not read: only output waits for it.
    pub async fn next(&mut self, due: Option<Instant>) -> Event<T> {
        loop {
            if let Ok(news) = self.news.try_recv() {
                return Event::News(news);
            }
            if let Ok(handled) = self.handled.try_recv() {
                return Event::Handled(handled);
            }
            let is_idle = self.writer.is_idle();
            // Events are sent before the next line is taken.
            if is_idle && (!self.batch.is_empty() || self.outbox.queue.take(&mut self.batch)) {
                return Event::Say;
            }
            // A client that asks and does not read is not read either.
            let is_reading = !self.has_ended && self.outbox.queue.weight() < MAX_UNREAD;
            // The end of an input that is not read is noticed all the same.
            let is_unheard = !self.has_ended && !is_reading && !self.writer.is_hurried();
            tokio::select! {
                biased;
                written = self.writer.write(), if !is_idle => {
                    if let Err(error) = written {
                        tracing::error!(%error, "the output is broken; everything is cancelled");
                        return Event::Broken;
                    }
                }
                Some(news) = self.news.recv() => return Event::News(news),
                Some(handled) = self.handled.recv() => return Event::Handled(handled),
                is_open = self.outbox.queue.next_batch(&mut self.batch), if is_idle => {
                    return if is_open { Event::Say } else { Event::Broken };
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if is_idle && due.is_some() => {
                    return Event::Due;
                }
                () = self.hung_up.cancelled(), if is_unheard => self.writer.hurry(),
                line = self.lines.next(), if is_reading => return self.read(line),
            }
        }
    }

    fn read(&mut self, line: io::Result<Line>) -> Event<T> {
        match line {
            Ok(Line::Whole(line)) => {
                self.trace.received(&line);
                Event::Line(line)
            }
            Ok(Line::TooLong) => {
                self.trace.received(&[]);
                Event::LongLine
            }
            Ok(Line::End) => self.end(),
            Err(error) => {
                tracing::error!(%error, "the input failed");
                self.end()
            }
        }
    }

    fn end(&mut self) -> Event<T> {
        self.has_ended = true;
        self.writer.hurry();
        Event::End
    }
}
