//! Serves one client: the reader and the writer of its lines, and how the connection ends.

use std::{
    collections::VecDeque,
    io,
    path::Path,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    time::{Instant, sleep_until},
};
use windlass_protocol::opencode::event::EventKind;

use super::{
    connection::{Connection, Options},
    dispatch,
    encoder::Encoder,
    outbox::{Outbox, Outgoing},
    reload::Reloads,
    trace::Trace,
};
use crate::{
    bus::{Filter, Subscriber},
    engine::{Answerable, Engine},
};

/// How long the last lines may take after a signal.
const FLUSH_LIMIT: Duration = Duration::from_millis(300);
/// Bytes that are encoded before they are written.
const WRITE_CHUNK: usize = 256 * 1024;
/// Bytes the client has not read that make windlass stop reading its requests.
const MAX_UNREAD: usize = 4 * 1024 * 1024;

/// Serves one client until its input ends, its output breaks or it is told to stop.
pub async fn serve(
    engine: Engine,
    input: impl AsyncRead + Unpin + Send,
    output: impl AsyncWrite + Unpin + Send + 'static,
    options: Options,
) -> io::Result<()> {
    let trace = Trace::open(options.trace.as_deref()).map_err(|error| {
        let path = options.trace.as_deref().unwrap_or(Path::new(""));
        io::Error::new(error.kind(), format!("the trace {} cannot be written: {error}", path.display()))
    });
    let trace = Arc::new(trace?);
    let methods = dispatch::methods().map_err(io::Error::other)?;
    // Every client can be asked: each must know how to ask for a permission (facts: ACP §1.2).
    let lease = engine.client(Answerable::Everything);
    let connection = Arc::new(Connection::new(engine.clone(), lease, options, methods, dispatch::line));
    let (outbox, permissions) = (connection.outbox.clone(), connection.permissions.clone());
    let reloads: Arc<dyn Subscriber> = Arc::new(Reloads(Arc::downgrade(&connection)));
    // First, so that the updates stand before the event that caused them.
    engine.bus().subscribe(Filter::Only(vec![EventKind::ConfigUpdated]), &reloads);
    let subscriber: Arc<dyn Subscriber> = outbox.clone();
    connection.lease.subscribe(&subscriber);
    let writer = Writer {
        connection: Arc::downgrade(&connection),
        encoder: Encoder::new(engine.clone(), permissions.clone(), connection.fronts.clone()),
        outbox: outbox.clone(),
        trace: trace.clone(),
        output,
    };
    let mut writing = tokio::spawn(writer.run());

    let stop = connection.options.stop.clone();
    let is_orderly = tokio::select! {
        read = read_lines(&connection, &trace, input) => {
            if let Err(error) = read {
                tracing::error!(%error, "the input failed");
            }
            true
        }
        _ = &mut writing => {
            tracing::error!("the output is broken; everything is cancelled");
            false
        }
        () = stop.cancelled() => false,
    };
    if is_orderly {
        // Nobody is left to answer, so what would need an answer is refused.
        permissions.give_up();
        connection.lease.set_answerable(Answerable::Nothing);
        let finished = async {
            connection.tasks.close();
            connection.tasks.wait().await;
            engine.finish().await;
        };
        tokio::select! {
            () = finished => {}
            _ = &mut writing => engine.abort().await,
            () = stop.cancelled() => engine.abort().await,
        }
    } else {
        permissions.give_up();
        engine.abort().await;
    }
    outbox.queue.close();
    if !writing.is_finished() {
        if is_orderly && !stop.is_cancelled() {
            let _ = writing.await;
        } else {
            let _ = tokio::time::timeout(FLUSH_LIMIT, writing).await;
        }
    }
    Ok(())
}

/// Reads lines and dispatches them in order until the input ends.
async fn read_lines(
    connection: &Arc<Connection>,
    trace: &Trace,
    input: impl AsyncRead + Unpin,
) -> io::Result<()> {
    let mut input = BufReader::with_capacity(64 * 1024, input);
    let mut line = Vec::new();
    loop {
        line.clear();
        let is_whole = read_line(&mut input, &mut line, connection.options.max_line).await?;
        if line.is_empty() && is_whole {
            return Ok(());
        }
        trace.received(&line);
        if is_whole {
            dispatch::line(connection, &line);
        } else {
            dispatch::refuse_long_line(connection, connection.options.max_line);
        }
        if line.capacity() > 1024 * 1024 {
            line = Vec::new();
        }
        // A client that asks and does not read is not read either.
        connection.outbox.queue.below(MAX_UNREAD).await;
    }
}

/// Reads up to and with the next line feed. False when the line was longer than allowed and is dropped.
async fn read_line(
    input: &mut (impl AsyncBufReadExt + Unpin),
    line: &mut Vec<u8>,
    limit: usize,
) -> io::Result<bool> {
    let mut is_whole = true;
    loop {
        let buffer = input.fill_buf().await?;
        if buffer.is_empty() {
            return Ok(is_whole);
        }
        let end = buffer.iter().position(|byte| *byte == b'\n').map(|index| index + 1);
        let n_taken = end.unwrap_or(buffer.len());
        if line.len() + n_taken > limit {
            is_whole = false;
            line.clear();
        }
        if is_whole {
            line.extend_from_slice(&buffer[..n_taken]);
        }
        input.consume(n_taken);
        if end.is_some() {
            return Ok(is_whole);
        }
    }
}

struct Writer<W> {
    connection: Weak<Connection>,
    encoder: Encoder,
    outbox: Arc<Outbox>,
    trace: Arc<Trace>,
    output: W,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    /// Writes what the outbox holds, in order, until it is closed and empty or the output breaks.
    async fn run(mut self) -> io::Result<()> {
        let mut batch = VecDeque::new();
        let mut bytes = Vec::with_capacity(16 * 1024);
        let mut knows_client = false;
        let result = loop {
            let due = self.encoder.due();
            tokio::select! {
                is_open = self.outbox.queue.next_batch(&mut batch) => {
                    if !is_open {
                        break Ok(());
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.encoder.encode_due(&mut bytes);
                    if let Err(error) = self.flush(&mut bytes).await {
                        break Err(error);
                    }
                    continue;
                }
            }
            if !knows_client && let Some(client) = self.connection.upgrade().and_then(|it| it.client()) {
                self.encoder.set_client(client);
                knows_client = true;
            }
            if let Err(error) = self.write(&mut batch, &mut bytes).await {
                break Err(error);
            }
        };
        // Without a reader nothing more can be said, and no session may wait for room.
        self.outbox.queue.close();
        result
    }

    async fn write(&mut self, batch: &mut VecDeque<Outgoing>, bytes: &mut Vec<u8>) -> io::Result<()> {
        while let Some(mut item) = batch.pop_front() {
            while let Some(next) = batch.front() {
                if !self.encoder.merge(&mut item, next) {
                    break;
                }
                batch.pop_front();
            }
            self.encoder.encode(item, bytes);
            if bytes.len() >= WRITE_CHUNK || batch.is_empty() {
                self.flush(bytes).await?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.trace.sent(line.trim_ascii_end());
        }
        self.output.write_all(bytes).await?;
        self.output.flush().await?;
        bytes.clear();
        bytes.shrink_to(WRITE_CHUNK);
        Ok(())
    }
}
