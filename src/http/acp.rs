//! The Agent Client Protocol on a WebSocket: each message is a line of it, and the client shares the server's sessions.

use axum::{
    Router,
    extract::{
        State,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code},
    },
    response::Response,
    routing::get,
};
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use tokio_util::sync::CancellationToken;

use super::server::Shared;
use crate::acp::{self, Options};

/// Bytes between the socket and the protocol, in each direction.
const BUFFER: usize = 64 << 10;

pub fn routes() -> Router<Shared> {
    Router::new().route("/acp", get(connect))
}

async fn connect(State(server): State<Shared>, upgrade: WebSocketUpgrade) -> Response {
    let upgrade = upgrade.max_message_size(acp::MAX_LINE).max_frame_size(acp::MAX_LINE);
    upgrade.on_upgrade(move |socket| serve(server, socket))
}

/// Serves a client until it leaves or the server ends.
async fn serve(server: Shared, socket: WebSocket) {
    let (near, far) = duplex(BUFFER);
    let (input, output) = split(near);
    let (lines, messages) = split(far);
    let (sender, receiver) = socket.split();
    let hung_up = CancellationToken::new();
    let options = Options {
        trace: None,
        login_command: server.options.login_command.clone(),
        max_line: acp::MAX_LINE,
        stop: server.stop.child_token(),
        hung_up: hung_up.clone(),
    };
    let stop = options.stop.clone();
    let serving = acp::serve_beside(server.engine.clone(), server.lease.clone(), input, output, options);
    let reading = async {
        let end = tokio::select! {
            end = read(receiver, messages) => end,
            () = stop.cancelled() => return,
        };
        hung_up.cancel();
        if end == End::Gone {
            stop.cancel();
        }
    };
    let served = async {
        let served = serving.await;
        // The reader has nothing more to feed.
        stop.cancel();
        served
    };
    let (served, (), ()) = tokio::join!(served, reading, write(sender, lines));
    if let Err(error) = served {
        tracing::debug!(%error, "a client of the Agent Client Protocol ended");
    }
}

/// End of what a client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It still reads.
    Input,
    Gone,
}

/// Feeds the client's messages to the protocol as lines. An empty one ends the input and leaves the output open, for
/// which a WebSocket has no other means.
async fn read(mut receiver: SplitStream<WebSocket>, mut messages: WriteHalf<DuplexStream>) -> End {
    let mut end = End::Gone;
    while let Some(Ok(message)) = receiver.next().await {
        let mut line = match message {
            Message::Text(text) => text.as_bytes().to_vec(),
            Message::Binary(bytes) => bytes.to_vec(),
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => break,
        };
        if line.is_empty() {
            end = End::Input;
            break;
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        if messages.write_all(&line).await.is_err() {
            break;
        }
    }
    // The protocol's input ends.
    let _ = messages.shutdown().await;
    end
}

/// Sends the protocol's lines as messages, until it has said everything.
async fn write(mut sender: SplitSink<WebSocket, Message>, lines: ReadHalf<DuplexStream>) {
    let mut lines = BufReader::with_capacity(BUFFER, lines).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if sender.send(Message::text(line)).await.is_err() {
            return;
        }
    }
    let frame = CloseFrame { code: close_code::NORMAL, reason: "".into() };
    let _ = sender.send(Message::Close(Some(frame))).await;
}
