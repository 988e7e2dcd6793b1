//! A scripted model on the loopback: OpenAI chat completions, a thread for each connection.
//!
//! The last user text selects the answer: `STREAM n` is n deltas, `SLOW ms n` n deltas that far apart,
//! `GROW ms n bytes` the same with deltas of that size, `TOOLS n
//! name json` n calls one after another (`%N` in the JSON is the call's number), `TOGETHER n name json` n calls
//! in one answer, anything else a short text. A request without tools is one for a title.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::Result;

/// The maximum size of one write.
const PIECE: usize = 64 << 10;
const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

pub struct Model {
    address: SocketAddr,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
    pause_ms: Arc<AtomicU64>,
}

/// A request with tools; the time between its two moments is the model's own.
pub struct Exchange {
    pub received: Instant,
    pub understood: Instant,
}

impl Model {
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let model =
            Self { address: listener.local_addr()?, exchanges: Arc::default(), pause_ms: Arc::default() };
        let (exchanges, pause_ms) = (model.exchanges.clone(), model.pause_ms.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (exchanges, pause_ms) = (exchanges.clone(), pause_ms.clone());
                // An agent that hangs up ends its connection's thread.
                thread::spawn(move || serve(stream, &exchanges, &pause_ms).ok());
            }
        });
        Ok(model)
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Sets the time before each answer; none is set at first.
    pub fn think(&self, pause: Duration) {
        self.pause_ms.store(pause.as_millis().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the exchanges since the last call.
    pub fn take_exchanges(&self) -> Vec<Exchange> {
        std::mem::take(&mut self.exchanges.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Measures a bare request on a warm connection: the time to the first byte, and to the end of the answer.
    pub fn bare(&self, text: &str) -> Result<(Duration, Duration)> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        let body = json!({"messages": [{"role": "user", "content": text}], "tools": [{}]}).to_string();
        let request = format!("POST /v1 HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let mut buffer = vec![0; PIECE];
        let mut times = (Duration::ZERO, Duration::ZERO);
        for _ in 0..2 {
            let start = Instant::now();
            stream.write_all(request.as_bytes())?;
            let mut n_read = stream.read(&mut buffer)?;
            let first = start.elapsed();
            while n_read > 0 && !buffer[..n_read].ends_with(b"0\r\n\r\n") {
                n_read = stream.read(&mut buffer)?;
            }
            times = (first, start.elapsed());
        }
        self.take_exchanges();
        Ok(times)
    }
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow, default)]
    messages: Vec<Message<'a>>,
    #[serde(borrow, default)]
    tools: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    role: &'a str,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

fn serve(mut stream: TcpStream, exchanges: &Mutex<Vec<Exchange>>, pause_ms: &AtomicU64) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(PIECE, stream.try_clone()?);
    let mut body = Vec::new();
    while read_request(&mut reader, &mut body)? {
        let received = Instant::now();
        let request: Request = serde_json::from_slice(&body)?;
        if !request.tools.is_empty() {
            thread::sleep(Duration::from_millis(pause_ms.load(Ordering::Relaxed)));
            let exchange = Exchange { received, understood: Instant::now() };
            exchanges.lock().unwrap_or_else(PoisonError::into_inner).push(exchange);
        }
        answer(&mut stream, &request)?;
    }
    Ok(())
}

/// Reads one request's body. Returns false at the end of the connection.
fn read_request(reader: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> Result<bool> {
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse()?
            }
            _ => {}
        }
    }
    body.resize(length, 0);
    reader.read_exact(body)?;
    Ok(true)
}

fn answer(stream: &mut TcpStream, request: &Request) -> Result<()> {
    if request.tools.is_empty() {
        return send_whole(stream, &texts(["A ", "title"]));
    }
    let asked = request.messages.iter().rposition(|message| message.role == "user").unwrap_or(0);
    let content = request.messages.get(asked).and_then(|message| message.content);
    let text = content.map_or(Ok(String::new()), text)?;
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["STREAM", count, ..] => {
            send_whole(stream, &texts((0..count.parse()?).map(|n: usize| format!("tok{} ", n % 1000))))
        }
        ["SLOW", pause, count, ..] => {
            let token = |n| format!("tok{n} ");
            send_slowly(stream, Duration::from_millis(pause.parse()?), count.parse()?, token)
        }
        ["GROW", pause, count, n_bytes, ..] => {
            let token = "x".repeat(n_bytes.parse()?);
            send_slowly(stream, Duration::from_millis(pause.parse()?), count.parse()?, |_| token.clone())
        }
        ["TOOLS", count, name, ..] => {
            let n_results =
                request.messages.iter().skip(asked).filter(|message| message.role == "tool").count();
            if n_results >= count.parse::<usize>()? {
                return send_whole(stream, &texts(["done"]));
            }
            send_whole(stream, &calls(name, arguments(&text, name), n_results..n_results + 1))
        }
        ["TOGETHER", count, name, ..] => {
            if request.messages.iter().skip(asked).any(|message| message.role == "tool") {
                return send_whole(stream, &texts(["done"]));
            }
            send_whole(stream, &calls(name, arguments(&text, name), 0..count.parse()?))
        }
        _ => send_whole(stream, &texts(["Hello ", "from ", "the model."])),
    }
}

fn text(content: &RawValue) -> Result<String> {
    Ok(match serde_json::from_str(content.get())? {
        Value::String(text) => text,
        parts => {
            let parts = parts.as_array().into_iter().flatten();
            parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
    })
}

fn event(out: &mut String, delta: &Value, finish: Option<&str>) {
    let finish = json!(finish);
    let _ = write!(
        out,
        "data: {{\"id\":\"m\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"mock\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    );
}

fn end(out: &mut String, finish: &str) {
    event(out, &json!({}), Some(finish));
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
    let last = json!({"id": "m", "object": "chat.completion.chunk", "created": 1, "model": "mock",
        "choices": [], "usage": usage});
    let _ = write!(out, "data: {last}\n\ndata: [DONE]\n\n");
}

fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> String {
    let mut out = String::new();
    event(&mut out, &json!({"role": "assistant", "content": ""}), None);
    for text in texts {
        event(&mut out, &json!({"content": text.into()}), None);
    }
    end(&mut out, "stop");
    out
}

fn arguments<'a>(text: &'a str, name: &str) -> &'a str {
    text.split_once(name).map_or("{}", |(_, arguments)| arguments.trim())
}

fn calls(name: &str, arguments: &str, numbers: Range<usize>) -> String {
    let mut out = String::new();
    event(&mut out, &json!({"role": "assistant", "content": ""}), None);
    for (index, number) in numbers.enumerate() {
        let function = json!({"name": name, "arguments": ""});
        let start =
            json!({"index": index, "id": format!("call_{number}"), "type": "function", "function": function});
        event(&mut out, &json!({"tool_calls": [start]}), None);
        let function = json!({"arguments": arguments.replace("%N", &number.to_string())});
        event(&mut out, &json!({"tool_calls": [{"index": index, "function": function}]}), None);
    }
    end(&mut out, "tool_calls");
    out
}

fn send_whole(stream: &mut TcpStream, events: &str) -> Result<()> {
    let mut out = HEAD.to_vec();
    for piece in events.as_bytes().chunks(PIECE) {
        frame(&mut out, piece)?;
        if out.len() >= PIECE {
            stream.write_all(&out)?;
            out.clear();
        }
    }
    out.extend_from_slice(b"0\r\n\r\n");
    stream.write_all(&out)?;
    Ok(())
}

/// Sends deltas at fixed times, so that a late one does not delay the rest.
fn send_slowly(
    stream: &mut TcpStream,
    pause: Duration,
    count: u32,
    token: impl Fn(u32) -> String,
) -> Result<()> {
    let start = Instant::now();
    let mut out = HEAD.to_vec();
    for n in 0..count {
        let mut events = String::new();
        event(&mut events, &json!({"content": token(n)}), None);
        frame(&mut out, events.as_bytes())?;
        stream.write_all(&out)?;
        out.clear();
        thread::sleep((start + pause * (n + 1)).saturating_duration_since(Instant::now()));
    }
    let mut events = String::new();
    end(&mut events, "stop");
    frame(&mut out, events.as_bytes())?;
    out.extend_from_slice(b"0\r\n\r\n");
    stream.write_all(&out)?;
    Ok(())
}

fn frame(out: &mut Vec<u8>, piece: &[u8]) -> Result<()> {
    write!(out, "{:x}\r\n", piece.len())?;
    out.extend_from_slice(piece);
    out.extend_from_slice(b"\r\n");
    Ok(())
}
