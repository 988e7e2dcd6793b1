//! The protocol on a WebSocket: each message is a line of it.

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use super::agent::{Agent, BUFFER, Pipe, line};

/// Serves a client until it leaves or the server ends.
pub async fn serve(agent: Agent, socket: WebSocket) {
    let stop = agent.stop.clone();
    let (Pipe { input, lines, hung_up }, serving) = agent.connect();
    let (sender, receiver) = socket.split();
    let reading = async {
        let end = tokio::select! {
            end = read(receiver, input) => end,
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

/// End of a client's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It still reads.
    Input,
    Gone,
}

/// Feeds the client's messages to the protocol as lines. An empty one ends the input and leaves the output open, for
/// which a WebSocket has no other means.
async fn read(mut receiver: SplitStream<WebSocket>, mut input: WriteHalf<DuplexStream>) -> End {
    let mut end = End::Gone;
    while let Some(Ok(message)) = receiver.next().await {
        let message = match &message {
            Message::Text(text) => text.as_bytes(),
            Message::Binary(bytes) => bytes,
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => break,
        };
        if message.is_empty() {
            end = End::Input;
            break;
        }
        if input.write_all(&line(message)).await.is_err() {
            break;
        }
    }
    // The protocol's input ends.
    let _ = input.shutdown().await;
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
