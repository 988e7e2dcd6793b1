//! The clients that speak the protocol by requests: each a connection with its id, which outlives any of its requests.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;
use windlass_base::{ids, lock::lock};

use super::{
    agent::{Agent, BUFFER, Pipe},
    streams::{First, Limits, Streams},
};

/// Connections at a time.
const MAX_CONNECTIONS: usize = 256;
/// Messages that wait for the protocol.
const MAX_WAITING: usize = 64;
const LIMITS: Limits =
    Limits { unread: 16 << 20, stall: Duration::from_secs(60), unattended: Duration::from_secs(60) };

/// The connections of a server. Cloning it shares them.
#[derive(Clone, Default)]
pub struct Connections(Arc<Mutex<HashMap<String, Arc<Connection>>>>);

/// A client that speaks by requests.
pub struct Connection {
    pub streams: Arc<Streams>,
    lines: mpsc::Sender<Vec<u8>>,
    hung_up: CancellationToken,
    stop: CancellationToken,
}

/// A connection that has begun.
pub struct Begun {
    pub id: String,
    pub connection: Arc<Connection>,
    /// Gives the answer to `initialize`.
    pub first: oneshot::Receiver<First>,
}

impl Connections {
    /// Begins a connection; `None` while there are too many.
    pub fn begin(&self, agent: Agent) -> Option<Begun> {
        let (streams, first) = Streams::new(LIMITS);
        let (lines, waiting) = mpsc::channel(MAX_WAITING);
        let stop = agent.stop.clone();
        let (Pipe { input, lines: said, hung_up }, serving) = agent.connect();
        let connection = Arc::new(Connection {
            streams: streams.clone(),
            lines,
            hung_up: hung_up.clone(),
            stop: stop.clone(),
        });
        let id = ids::random(32);
        {
            let mut connections = lock(&self.0);
            if connections.len() >= MAX_CONNECTIONS {
                return None;
            }
            connections.insert(id.clone(), connection.clone());
        }
        let (connections, own_id) = (self.clone(), id.clone());
        tokio::spawn(async move {
            let served = async {
                if let Err(error) = serving.await {
                    tracing::debug!(%error, "a client of the Agent Client Protocol ended");
                }
                stop.cancel();
            };
            let attended = async {
                tokio::select! {
                    () = streams.unattended() => {
                        hung_up.cancel();
                        stop.cancel();
                    }
                    () = stop.cancelled() => {}
                }
            };
            tokio::join!(served, feed(waiting, input, &stop), carry(said, &streams, &stop), attended);
            streams.close();
            lock(&connections.0).remove(&own_id);
        });
        Some(Begun { id, connection, first })
    }

    pub fn get(&self, id: &str) -> Option<Arc<Connection>> {
        lock(&self.0).get(id).cloned()
    }
}

impl Connection {
    /// Returns a guard that ends the connection, unless it is disarmed.
    pub fn ending(self: &Arc<Self>) -> Ending {
        Ending(Some(self.clone()))
    }

    /// Gives the protocol a line; false when the connection has ended.
    pub async fn say(&self, line: Vec<u8>) -> bool {
        self.lines.send(line).await.is_ok()
    }

    /// Ends the connection; its sessions that work are left to the server.
    pub fn end(&self) {
        self.hung_up.cancel();
        self.stop.cancel();
    }
}

/// Ends a connection when it is dropped.
pub struct Ending(Option<Arc<Connection>>);

impl Ending {
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(connection) = &self.0 {
            connection.end();
        }
    }
}

/// Feeds the client's lines to the protocol.
async fn feed(
    mut waiting: mpsc::Receiver<Vec<u8>>,
    mut input: WriteHalf<DuplexStream>,
    stop: &CancellationToken,
) {
    let feeding = async {
        while let Some(line) = waiting.recv().await {
            if input.write_all(&line).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = feeding => {}
        () = stop.cancelled() => {}
    }
    // The protocol's input ends.
    let _ = input.shutdown().await;
}

/// Carries the protocol's lines to their streams, until it has said everything or nobody reads.
async fn carry(said: ReadHalf<DuplexStream>, streams: &Streams, stop: &CancellationToken) {
    let mut lines = BufReader::with_capacity(BUFFER, said).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if !streams.route(line).await {
            stop.cancel();
            return;
        }
    }
}
