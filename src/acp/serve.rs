//! Serves one client from its first line to its end.

use std::{
    collections::VecDeque,
    future, io,
    path::Path,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;
use windlass_core::bus::Subscriber;
use windlass_engine::{Client as Lease, Engine};
use windlass_protocol::opencode::{event::EventPayload, id::SessionId};

use super::{
    connection::{Connection, Handled, Options},
    dispatch,
    encoder::Sink,
    input,
    lines::Lines,
    outbox::{Outbox, Outgoing},
    permissions::{Waiting, is_waiting, requests},
    reload,
    trace::Trace,
    wire::{Event, Wire},
};

/// Bytes that are encoded before they are written.
const WRITE_CHUNK: usize = 256 * 1024;
/// Time limit for the last lines after a signal.
const FLUSH_LIMIT: Duration = Duration::from_millis(300);

/// Reason that a connection ends before its input does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupted {
    /// The output is broken.
    Broken,
    Stopped,
}

/// A client, and its wire.
struct Server<R, W> {
    connection: Connection,
    wire: Wire<R, W, Handled>,
    /// Lease of the server that the client shares with others. It takes over the sessions that still work when the
    /// client leaves. Without one the engine ends with the client.
    server_lease: Option<Arc<Lease>>,
}

/// Serves the only client of an engine until its input ends, its output breaks or it gets a signal.
pub async fn serve(
    engine: Engine,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
    options: Options,
) -> io::Result<()> {
    serve_client(engine, None, input, output, options).await
}

/// Serves one of several clients of an engine. Its turns go on when it leaves, held by `server_lease`.
pub async fn serve_beside(
    engine: Engine,
    server_lease: Arc<Lease>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
    options: Options,
) -> io::Result<()> {
    serve_client(engine, Some(server_lease), input, output, options).await
}

async fn serve_client(
    engine: Engine,
    server_lease: Option<Arc<Lease>>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
    options: Options,
) -> io::Result<()> {
    let trace = Trace::open(options.trace.as_deref()).map_err(|error| {
        let path = options.trace.as_deref().unwrap_or(Path::new(""));
        io::Error::new(error.kind(), format!("the trace {} cannot be written: {error}", path.display()))
    });
    let trace = Arc::new(trace?);
    let methods = dispatch::methods().map_err(io::Error::other)?;
    let (stop, hung_up, max_line) = (options.stop.clone(), options.hung_up.clone(), options.max_line);
    let (outbox, news) = Outbox::new();
    let (handled_sender, handled) = mpsc::unbounded_channel();
    let connection = Connection::new(engine.clone(), options, methods, outbox.clone(), handled_sender);
    let subscriber: Arc<dyn Subscriber> = outbox.clone();
    connection.lease.subscribe(&subscriber);
    let lines = input::Lines::new(input, max_line);
    let wire = Wire::new(lines, hung_up, output, trace, outbox.clone(), handled, news);
    let mut server = Server { connection, wire, server_lease };

    let served = server.serve_to_the_end(&engine, &stop).await;
    let never = CancellationToken::new();
    match served {
        Ok(()) => {}
        Err(_) if server.server_lease.is_some() => server.leave(&engine).await,
        Err(Interrupted::Broken) => {
            server.connection.give_up();
            // Without a reader nothing more can be said, and no session may wait for room.
            outbox.queue.close();
            engine.abort().await;
            return Ok(());
        }
        Err(Interrupted::Stopped) => {
            server.connection.give_up();
            // Their turns go on at their nodes.
            server.connection.other_nodes.clear();
            // A broken output has nothing more to say either.
            let _ = server.serve(&never, pin!(engine.abort()), |_| false).await;
        }
    }
    outbox.queue.close();
    let endless = pin!(future::pending());
    let rest = server.serve(&never, endless, |server| server.wire.is_drained());
    let limit = async {
        if served.is_ok() {
            stop.cancelled().await;
        }
        tokio::time::sleep(FLUSH_LIMIT).await;
    };
    tokio::select! {
        _ = rest => {}
        () = limit => {}
    }
    Ok(())
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Server<R, W> {
    /// Serves until the input has ended, then until everything that was asked for is done.
    async fn serve_to_the_end(
        &mut self,
        engine: &Engine,
        stop: &CancellationToken,
    ) -> Result<(), Interrupted> {
        self.serve(stop, pin!(future::pending()), |server| server.wire.has_ended()).await?;
        if self.server_lease.is_some() {
            self.serve(stop, pin!(future::pending()), |server| !server.connection.is_handling()).await?;
            self.leave(engine).await;
            let is_answered = |server: &Self| !server.connection.is_answering();
            return self.serve(stop, pin!(future::pending()), is_answered).await;
        }
        // Nobody is left to answer, so requests that would need an answer are refused.
        self.connection.give_up();
        self.serve(stop, pin!(future::pending()), |server| !server.connection.is_handling()).await?;
        // Some may have come meanwhile.
        self.connection.end_input_of_nodes();
        self.serve(stop, pin!(engine.finish()), |_| false).await?;
        // Turns at other nodes end there.
        self.serve(stop, pin!(future::pending()), |server| !server.connection.is_answering()).await
    }

    /// Closes the client's sessions, but for those that work: other clients can answer their questions.
    async fn leave(&mut self, engine: &Engine) {
        let Some(server_lease) = &self.server_lease else { return };
        let ids: Vec<SessionId> = self.connection.sessions().keys().cloned().collect();
        let (working, idle): (Vec<_>, Vec<_>) =
            ids.into_iter().partition(|id| engine.sessions().is_working(id));
        for id in &working {
            server_lease.hold(id);
        }
        self.connection.give_up();
        for id in &idle {
            self.connection.lease.close_session(id).await;
        }
    }

    /// Takes events until `work` has ended or `is_over` says so.
    async fn serve(
        &mut self,
        stop: &CancellationToken,
        mut work: Pin<&mut impl Future<Output = ()>>,
        is_over: impl Fn(&Self) -> bool,
    ) -> Result<(), Interrupted> {
        while !is_over(self) {
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => return Err(Interrupted::Stopped),
                () = &mut work => return Ok(()),
                event = self.wire.next(self.connection.encoder.due()) => event,
            };
            let Self { connection, wire, .. } = self;
            match event {
                Event::Line(line) => dispatch::line(connection, &line),
                Event::LongLine => dispatch::refuse_long_line(connection),
                Event::End => {}
                Event::Handled(handled) => dispatch::handled(connection, handled),
                Event::News(news) => dispatch::news(connection, news),
                Event::Say => wire.writer.fill(|lines| encode(connection, &mut wire.batch, lines)),
                Event::Due => wire.writer.fill(|lines| connection.encoder.encode_due(lines)),
                Event::Broken => return Err(Interrupted::Broken),
            }
        }
        Ok(())
    }
}

/// Encodes the items that are there, in order, up to a chunk.
fn encode(connection: &mut Connection, batch: &mut VecDeque<Outgoing>, lines: &mut Vec<u8>) {
    while let Some(mut item) = batch.pop_front() {
        while batch.front().is_some_and(|next| connection.encoder.merge(&mut item, next)) {
            batch.pop_front();
        }
        encode_one(connection, item, lines);
        if lines.len() >= WRITE_CHUNK {
            return;
        }
    }
}

fn encode_one(connection: &mut Connection, item: Outgoing, bytes: &mut Vec<u8>) {
    let mut lines = Lines { dialect: connection.encoder.dialect(), bytes };
    if let Outgoing::Answer { id, .. } = &item {
        connection.note_answer(id);
    } else if let Outgoing::Event(event) = &item
        && let EventPayload::ConfigUpdated { .. } = &event.payload
    {
        // The differences come before the event that brought them.
        reload::show(&mut connection.encoder, &mut lines);
    } else if let Outgoing::Event(event) = &item
        && let EventPayload::McpToolsChanged { .. } = &event.payload
    {
        reload::show_prompts(&mut connection.encoder, &mut lines);
    }
    let engine = &connection.engine;
    let waiting =
        Waiting { is_waiting: &|asked| is_waiting(engine, asked), of_session: &|id| requests(engine, id) };
    let mut sink = Sink { lines, waiting: &waiting, answered: Vec::new() };
    connection.encoder.encode(item, &mut sink);
    for id in sink.answered {
        connection.note_answer(&id);
    }
}
