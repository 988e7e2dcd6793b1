//! A scripted model on loopback: speaks OpenAI chat completions and Anthropic messages, one reply per request.
//!
//! Tests order things with [`Gate`]s: the server stops at a gate until the test opens it, and tells the test that it
//! got there or that the client hung up meanwhile. A request without tools and without earlier answers is a title
//! request; it is answered with a title and kept apart.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

/// How long a write may be stuck before the server reports that its client does not read.
const STALL: Duration = Duration::from_millis(500);

/// Where a reply waits for the test.
#[derive(Debug, Clone)]
pub struct Gate {
    open: Arc<watch::Sender<bool>>,
    reached: Arc<watch::Sender<bool>>,
    abandoned: Arc<watch::Sender<bool>>,
}

impl Gate {
    pub fn new() -> Self {
        let flag = || Arc::new(watch::Sender::new(false));
        Self { open: flag(), reached: flag(), abandoned: flag() }
    }

    /// Lets the reply go on.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Ends when the reply has come to the gate.
    pub async fn reached(&self) {
        wait(&self.reached, "the model's reply to reach its gate").await;
    }

    /// Ends when the client has closed its connection in front of the gate.
    pub async fn abandoned(&self) {
        wait(&self.abandoned, "the agent to drop its connection to the model").await;
    }
}

async fn wait(flag: &watch::Sender<bool>, what: &str) {
    let mut receiver = flag.subscribe();
    let waited = timeout(3 * super::agent::DEADLINE, receiver.wait_for(|is_set| *is_set)).await;
    assert!(waited.is_ok(), "waited in vain for {what}");
}

/// One piece of a reply.
#[derive(Debug, Clone)]
enum Step {
    Text(String),
    Reasoning(String),
    Call {
        id: String,
        name: String,
        arguments: String,
    },
    Gate(Gate),
    /// The connection is cut here.
    Cut,
    Finish(Finish),
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    Stop,
    Calls,
    Length,
    Filter,
}

/// What the server answers to one request.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Option<Value>,
    /// Waits here before the first byte.
    before: Option<Gate>,
    cut_before: bool,
    steps: Vec<Step>,
    finish: Finish,
    tokens: (u64, u64),
    stalled: Option<Gate>,
}

impl Reply {
    fn empty() -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: None,
            before: None,
            cut_before: false,
            steps: Vec::new(),
            finish: Finish::Stop,
            tokens: (100, 10),
            stalled: None,
        }
    }

    pub fn text(text: &str) -> Self {
        Self::empty().and_text(text)
    }

    /// One delta for each text.
    pub fn deltas<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        let mut reply = Self::empty();
        reply.steps = texts.into_iter().map(|text| Step::Text(text.into())).collect();
        reply
    }

    pub fn reasoning(text: &str) -> Self {
        Self::empty().and_reasoning(text)
    }

    pub fn call(id: &str, name: &str, arguments: Value) -> Self {
        Self::empty().and_call(id, name, arguments)
    }

    /// A call whose arguments are sent as they are, JSON or not.
    pub fn raw_call(id: &str, name: &str, arguments: &str) -> Self {
        let mut reply = Self::empty();
        reply.finish = Finish::Calls;
        reply.steps.push(Step::Call {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        });
        reply
    }

    pub fn status(status: u16) -> Self {
        let mut reply = Self::empty();
        reply.status = status;
        reply.body =
            Some(json!({"error": {"message": format!("scripted failure {status}"), "type": "scripted"}}));
        reply
    }

    /// Never answers: not even headers, until the gate opens.
    pub fn hang(gate: &Gate) -> Self {
        let mut reply = Self::text("late");
        reply.before = Some(gate.clone());
        reply
    }

    /// Cuts the connection before the first byte.
    pub fn cut() -> Self {
        let mut reply = Self::empty();
        reply.cut_before = true;
        reply
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    pub fn and_text(mut self, text: &str) -> Self {
        self.steps.push(Step::Text(text.to_owned()));
        self
    }

    pub fn and_reasoning(mut self, text: &str) -> Self {
        self.steps.push(Step::Reasoning(text.to_owned()));
        self
    }

    pub fn and_call(mut self, id: &str, name: &str, arguments: Value) -> Self {
        self.finish = Finish::Calls;
        self.steps.push(Step::Call {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_string(),
        });
        self
    }

    /// Stops here until the test opens the gate; what came before has been flushed.
    pub fn and_gate(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Gate(gate.clone()));
        self
    }

    /// Cuts the connection here.
    pub fn and_cut(mut self) -> Self {
        self.steps.push(Step::Cut);
        self
    }

    pub fn finish(mut self, finish: Finish) -> Self {
        self.finish = finish;
        self
    }

    /// Reports through the gate's `reached` when the client does not take more.
    pub fn reporting_stall(mut self, gate: &Gate) -> Self {
        self.stalled = Some(gate.clone());
        self
    }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The names of the tools offered.
    pub fn tools(&self) -> Vec<String> {
        let name = |tool: &Value| {
            tool["function"]["name"].as_str().or(tool["name"].as_str()).unwrap_or_default().to_owned()
        };
        self.body["tools"].as_array().map(|tools| tools.iter().map(name).collect()).unwrap_or_default()
    }

    /// All text of the system prompt.
    pub fn system(&self) -> String {
        let mut system = texts(&self.body["system"]);
        for message in self.messages().iter().filter(|message| message["role"] == "system") {
            system.push_str(&texts(&message["content"]));
        }
        system
    }

    pub fn messages(&self) -> Vec<Value> {
        self.body["messages"].as_array().cloned().unwrap_or_default()
    }

    /// What the model was told about the tool calls it made, by call id.
    pub fn tool_result(&self, call_id: &str) -> String {
        for message in self.messages() {
            if message["role"] == "tool" && message["tool_call_id"] == call_id {
                return texts(&message["content"]);
            }
            for block in message["content"].as_array().into_iter().flatten() {
                if block["type"] == "tool_result" && block["tool_use_id"] == call_id {
                    return texts(&block["content"]);
                }
            }
        }
        panic!("the model was told nothing about `{call_id}`: {:#}", self.body["messages"]);
    }

    /// The text of the last user message.
    pub fn last_user(&self) -> String {
        let messages = self.messages();
        let is_prompt = |message: &&Value| {
            message["role"] == "user"
                && !message["content"]
                    .as_array()
                    .is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"))
        };
        messages.iter().rev().find(is_prompt).map(|message| texts(&message["content"])).unwrap_or_default()
    }

    fn is_title(&self) -> bool {
        let has_answers =
            self.messages().iter().any(|message| message["role"] == "assistant" || message["role"] == "tool");
        self.tools().is_empty() && !has_answers && !self.last_user().contains("<conversation>")
    }
}

/// The text of a string or of a list of blocks.
fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks
            .iter()
            .map(|block| block["text"].as_str().unwrap_or_default())
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}

#[derive(Default)]
struct Script {
    replies: VecDeque<Reply>,
    /// Replies for prompts that contain a text.
    keyed: Vec<(String, Reply)>,
    titles: VecDeque<Reply>,
    requests: Vec<Request>,
    title_requests: Vec<Request>,
    unscripted: Vec<String>,
}

/// The server; clones share it.
#[derive(Clone)]
pub struct Llm {
    address: SocketAddr,
    script: Arc<Mutex<Script>>,
    count: Arc<watch::Sender<usize>>,
}

impl Llm {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let llm = Self {
            address: listener.local_addr().unwrap(),
            script: Arc::default(),
            count: Arc::new(watch::Sender::new(0)),
        };
        let server = llm.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move {
                    // A client that goes away in the middle is part of many tests.
                    let _ = server.serve(stream).await;
                });
            }
        });
        llm
    }

    /// The base URL for `options.baseURL`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Adds a reply for the next request nobody else has one for.
    pub fn reply(&self, reply: Reply) {
        self.script.lock().unwrap().replies.push_back(reply);
    }

    /// Adds a reply for a request whose last user text contains `needle`.
    pub fn reply_to(&self, needle: &str, reply: Reply) {
        self.script.lock().unwrap().keyed.push((needle.to_owned(), reply));
    }

    /// Replaces the automatic answer to the next title request.
    pub fn title(&self, reply: Reply) {
        self.script.lock().unwrap().titles.push_back(reply);
    }

    /// The requests so far, without those for titles.
    pub fn requests(&self) -> Vec<Request> {
        self.script.lock().unwrap().requests.clone()
    }

    pub fn title_requests(&self) -> Vec<Request> {
        self.script.lock().unwrap().title_requests.clone()
    }

    pub fn last_request(&self) -> Request {
        self.requests().pop().expect("the model was never asked")
    }

    /// Ends when that many requests, titles not counted, have arrived.
    pub async fn asked(&self, times: usize) {
        let mut count = self.count.subscribe();
        let waited = timeout(super::agent::DEADLINE, count.wait_for(|count| *count >= times)).await;
        assert!(waited.is_ok(), "the model was not asked {times} times");
    }

    /// What went against the script: requests without a reply, replies nobody asked for.
    pub fn problems(&self) -> Vec<String> {
        let script = self.script.lock().unwrap();
        let mut problems = script.unscripted.clone();
        if !script.replies.is_empty() || !script.keyed.is_empty() {
            problems.push(format!(
                "{} scripted replies were never asked for",
                script.replies.len() + script.keyed.len()
            ));
        }
        problems
    }

    fn take(&self, request: Request) -> Reply {
        let mut script = self.script.lock().unwrap();
        if request.is_title() {
            script.title_requests.push(request);
            return script.titles.pop_front().unwrap_or_else(|| Reply::text("Scripted title"));
        }
        let prompt = request.last_user();
        let keyed = script.keyed.iter().position(|(needle, _)| prompt.contains(needle.as_str()));
        let reply = match keyed {
            Some(position) => Some(script.keyed.remove(position).1),
            None => script.replies.pop_front(),
        };
        let reply = reply.unwrap_or_else(|| {
            script.unscripted.push(format!("a request without a scripted reply, last prompt `{prompt}`"));
            Reply::status(400)
        });
        script.requests.push(request);
        let count = script.requests.len();
        drop(script);
        self.count.send_replace(count);
        reply
    }

    async fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut buffer = Vec::new();
        while let Some(request) = read_request(&mut stream, &mut buffer).await? {
            let wire = if request.path.ends_with("/messages") { Wire::Anthropic } else { Wire::Chat };
            let reply = self.take(request);
            if !answer(&mut stream, wire, reply).await? {
                return Ok(());
            }
        }
        Ok(())
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<Request>> {
    let head_end = loop {
        match buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            Some(position) => break position,
            None if stream.read_buf(buffer).await? == 0 => return Ok(None),
            None => {}
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    let body_start = head_end + 4;
    while buffer.len() < body_start + length {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body = serde_json::from_slice(&buffer[body_start..body_start + length]).unwrap_or(Value::Null);
    buffer.drain(..body_start + length);
    Ok(Some(Request { path, headers, body }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wire {
    Chat,
    Anthropic,
}

/// Answers one request; false when the connection is to be closed.
async fn answer(stream: &mut TcpStream, wire: Wire, reply: Reply) -> io::Result<bool> {
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
        // All of it fits into the system's buffers, which may be larger than any reply: nothing is left to stall.
        stalled.reached.send_replace(true);
    }
    stream.write_all(b"0\r\n\r\n").await?;
    Ok(true)
}

/// Waits at a gate; false when the client hung up.
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

/// Sends what is buffered as one HTTP chunk.
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

/// Writes the stream of one wire.
struct Encoder {
    wire: Wire,
    out: String,
    tokens: (u64, u64),
    /// Anthropic: the open block and its kind.
    block: Option<&'static str>,
    n_blocks: usize,
    n_calls: usize,
}

impl Encoder {
    fn new(wire: Wire, tokens: (u64, u64)) -> Self {
        Self { wire, out: String::new(), tokens, block: None, n_blocks: 0, n_calls: 0 }
    }

    fn event(&mut self, event: Value) {
        if self.wire == Wire::Anthropic {
            self.out.push_str(&format!("event: {}\n", event["type"].as_str().unwrap()));
        }
        self.out.push_str(&format!("data: {event}\n\n"));
    }

    fn chat(&mut self, delta: Value, finish: Value) {
        self.event(json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }));
    }

    fn begin(&mut self) {
        match self.wire {
            Wire::Chat => self.chat(json!({"role": "assistant", "content": ""}), Value::Null),
            Wire::Anthropic => {
                let usage = json!({"input_tokens": self.tokens.0, "output_tokens": 1});
                self.event(json!({"type": "message_start", "message": {
                    "id": "msg_1", "type": "message", "role": "assistant", "model": "mock", "content": [],
                    "stop_reason": null, "stop_sequence": null, "usage": usage,
                }}));
            }
        }
    }

    fn open_block(&mut self, kind: &'static str, start: Value) {
        if self.block == Some(kind) && kind != "tool_use" {
            return;
        }
        self.close_block();
        self.block = Some(kind);
        self.event(json!({"type": "content_block_start", "index": self.n_blocks, "content_block": start}));
    }

    fn close_block(&mut self) {
        let Some(kind) = self.block.take() else { return };
        if kind == "thinking" {
            self.block_delta(json!({"type": "signature_delta", "signature": "c2ln"}));
        }
        self.event(json!({"type": "content_block_stop", "index": self.n_blocks}));
        self.n_blocks += 1;
    }

    fn block_delta(&mut self, delta: Value) {
        self.event(json!({"type": "content_block_delta", "index": self.n_blocks, "delta": delta}));
    }

    fn text(&mut self, text: &str) {
        match self.wire {
            Wire::Chat => self.chat(json!({"content": text}), Value::Null),
            Wire::Anthropic => {
                self.open_block("text", json!({"type": "text", "text": ""}));
                self.block_delta(json!({"type": "text_delta", "text": text}));
            }
        }
    }

    fn reasoning(&mut self, text: &str) {
        match self.wire {
            Wire::Chat => self.chat(json!({"reasoning_content": text}), Value::Null),
            Wire::Anthropic => {
                self.open_block("thinking", json!({"type": "thinking", "thinking": "", "signature": ""}));
                self.block_delta(json!({"type": "thinking_delta", "thinking": text}));
            }
        }
    }

    /// The arguments come in two pieces, as they do from real models.
    fn call(&mut self, id: &str, name: &str, arguments: &str) {
        let half = (0..=arguments.len() / 2).rev().find(|at| arguments.is_char_boundary(*at)).unwrap_or(0);
        let pieces = [&arguments[..half], &arguments[half..]];
        match self.wire {
            Wire::Chat => {
                let index = self.n_calls;
                self.n_calls += 1;
                let start = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
                self.chat(json!({"tool_calls": [start]}), Value::Null);
                for piece in pieces {
                    let call = json!({"index": index, "function": {"arguments": piece}});
                    self.chat(json!({"tool_calls": [call]}), Value::Null);
                }
            }
            Wire::Anthropic => {
                self.open_block("tool_use", json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
                for piece in pieces {
                    self.block_delta(json!({"type": "input_json_delta", "partial_json": piece}));
                }
            }
        }
    }

    fn finish(&mut self, finish: Finish) {
        let (input, output) = self.tokens;
        match self.wire {
            Wire::Chat => {
                let reason = match finish {
                    Finish::Stop => "stop",
                    Finish::Calls => "tool_calls",
                    Finish::Length => "length",
                    Finish::Filter => "content_filter",
                };
                self.chat(json!({}), json!(reason));
                let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
                self.event(json!({
                    "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock",
                    "choices": [], "usage": usage,
                }));
                self.out.push_str("data: [DONE]\n\n");
            }
            Wire::Anthropic => {
                self.close_block();
                let reason = match finish {
                    Finish::Stop => "end_turn",
                    Finish::Calls => "tool_use",
                    Finish::Length => "max_tokens",
                    Finish::Filter => "refusal",
                };
                let delta = json!({"stop_reason": reason, "stop_sequence": null});
                self.event(
                    json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": output}}),
                );
                self.event(json!({"type": "message_stop"}));
            }
        }
    }
}
