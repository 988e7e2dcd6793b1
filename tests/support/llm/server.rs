//! Sends the scripted model's replies, with their gates and cuts, and notices clients that do not read.

use std::{io, time::Duration};

use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use super::{Gate, Reply, Step, Wire, encoder::Encoder};

/// The time that a write may be stuck before the server reports that its client does not read.
const STALL: Duration = Duration::from_millis(500);

/// Answers one request. Returns false if the connection is to be closed.
pub(super) async fn answer(stream: &mut TcpStream, wire: Wire, reply: Reply) -> io::Result<bool> {
    if let Some(gate) = &reply.before
        && !pass(gate, stream).await
    {
        return Ok(false);
    }
    if reply.cut_before {
        return Ok(false);
    }
    let reason = if reply.status == 200 { "OK" } else { "Scripted" };
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", reply.status);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = &reply.body {
        let body = body.to_string();
        head.push_str(&format!(
            "content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ));
        stream.write_all(head.as_bytes()).await?;
        return Ok(true);
    }
    head.push_str("content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;

    let mut encoder = Encoder::new(wire, reply.tokens);
    encoder.begin();
    for step in reply.steps.into_iter().chain([Step::Finish(reply.finish)]) {
        match step {
            Step::Text(text) => encoder.text(&text),
            Step::Reasoning(text) => encoder.reasoning(&text),
            Step::Call { id, name, arguments } => encoder.call(&id, &name, &arguments),
            Step::Garbage => encoder.out.push_str("data: {no json\n\n"),
            Step::Finish(finish) => encoder.finish(finish),
            Step::Gate(gate) => {
                send(stream, &mut encoder.out, reply.stalled.as_ref()).await?;
                if !pass(&gate, stream).await {
                    return Ok(false);
                }
            }
            Step::Cut => {
                send(stream, &mut encoder.out, reply.stalled.as_ref()).await?;
                return Ok(false);
            }
        }
        if encoder.out.len() > 32 * 1024 {
            send(stream, &mut encoder.out, reply.stalled.as_ref()).await?;
        }
    }
    send(stream, &mut encoder.out, reply.stalled.as_ref()).await?;
    if let Some(stalled) = &reply.stalled {
        // All of it fits into the system's buffers, which may be larger than any reply, so no write is left to
        // stall.
        stalled.reached.send_replace(true);
    }
    stream.write_all(b"0\r\n\r\n").await?;
    Ok(true)
}

/// Waits at a gate. Returns false if the client hung up.
async fn pass(gate: &Gate, stream: &mut TcpStream) -> bool {
    let mut open = gate.open.subscribe();
    gate.reached.send_replace(true);
    let mut byte = [0];
    tokio::select! {
        _ = open.wait_for(|is_open| *is_open) => true,
        peeked = stream.peek(&mut byte) => {
            assert!(!matches!(peeked, Ok(1..)), "the agent sent a second request on a busy connection");
            gate.abandoned.send_replace(true);
            false
        }
    }
}

/// Sends the buffered text as one HTTP chunk.
async fn send(stream: &mut TcpStream, out: &mut String, stalled: Option<&Gate>) -> io::Result<()> {
    if out.is_empty() {
        return Ok(());
    }
    let chunk = format!("{:x}\r\n{out}\r\n", out.len());
    out.clear();
    let write = stream.write_all(chunk.as_bytes());
    let Some(stalled) = stalled else { return write.await };
    tokio::pin!(write);
    match timeout(STALL, &mut write).await {
        Ok(written) => written,
        Err(_) => {
            stalled.reached.send_replace(true);
            write.await
        }
    }
}
