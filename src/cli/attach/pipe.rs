//! `windlass acp --attach`: carries an editor's lines to a server and the server's lines back.

use std::io;

use futures_util::{SinkExt, StreamExt};
use reqwest::{Method, Upgraded, header};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::client::generate_key,
        protocol::{Role, WebSocketConfig},
    },
};

use super::super::{daemon::http::Http, run::failure::Failure, stdio};
use crate::acp::MAX_LINE;

/// Carries lines until the server has answered everything that was asked before the input ended.
pub async fn run(http: &Http) -> Result<(), Failure> {
    let request = http.request(Method::GET, "/acp").header(header::CONNECTION, "Upgrade");
    let request = request.header(header::UPGRADE, "websocket").header("sec-websocket-version", "13");
    let response = http.send(request.header("sec-websocket-key", generate_key())).await;
    let response = response.map_err(Failure::Failed)?;
    let no_socket = || Failure::Failed(format!("{} does not serve editors; is it windlass?", http.address()));
    let upgraded = response.upgrade().await.map_err(|_| no_socket())?;
    let config = WebSocketConfig::default().max_message_size(Some(MAX_LINE)).max_frame_size(Some(MAX_LINE));
    let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
    match carry(socket).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Failed(format!("{} has ended the connection.", http.address()))),
        Err(error) => Err(Failure::Output(error)),
    }
}

/// Returns true if the editor ended the connection.
async fn carry(socket: WebSocketStream<Upgraded>) -> io::Result<bool> {
    let (mut sender, mut receiver) = socket.split();
    let sending = async {
        let mut input = BufReader::new(stdio::input());
        let mut line = Vec::new();
        loop {
            line.clear();
            if input.read_until(b'\n', &mut line).await.unwrap_or_default() == 0 {
                break;
            }
            let line = line.trim_ascii_end();
            let message = match str::from_utf8(line) {
                Ok(text) => Message::text(text),
                // Refused by the server, as it would be on a pipe.
                Err(_) => Message::binary(line.to_vec()),
            };
            if sender.send(message).await.is_err() {
                return false;
            }
        }
        // The end of the input; earlier requests are still answered.
        sender.send(Message::text("")).await.is_ok()
    };
    let receiving = async {
        let mut output = stdio::output();
        while let Some(Ok(message)) = receiver.next().await {
            let Message::Text(text) = message else { continue };
            output.write_all(text.as_bytes()).await?;
            output.write_all(b"\n").await?;
            output.flush().await?;
        }
        Ok::<(), io::Error>(())
    };
    tokio::pin!(sending, receiving);
    tokio::select! {
        biased;
        received = &mut receiving => received.map(|()| false),
        is_ended = &mut sending => {
            receiving.await?;
            Ok(is_ended)
        }
    }
}
