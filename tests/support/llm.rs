//! A scripted model on loopback: speaks OpenAI chat completions and responses, Anthropic
//! messages and Gemini, one reply per request.
//!
//! Tests order events with [`Gate`]s: the server stops at a gate until the test opens it, and tells the test
//! that it got there or that the client hung up meanwhile. A request without tools and without earlier answers
//! is a title request; it is answered with a title and kept apart.

mod dialects;
mod encoder;
pub mod request;
mod server;

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

use self::request::Request;
use super::http;

/// The protocol of the configured provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    OpenAi,
    Responses,
    Anthropic,
    Google,
}

impl Wire {
    /// Returns the protocol of a request by its path.
    fn of(path: &str) -> Self {
        let path = path.split('?').next().unwrap_or_default();
        if path.ends_with("/messages") {
            Wire::Anthropic
        } else if path.ends_with("/responses") {
            Wire::Responses
        } else if path.ends_with(":streamGenerateContent") {
            Wire::Google
        } else {
            Wire::OpenAi
        }
    }
}

/// Makes the arguments of a `task` call.
pub fn task(prompt: &str, agent: &str) -> Value {
    json!({"description": "look around", "prompt": prompt, "subagent_type": agent})
}

/// Makes a configuration with the scripted model as `mock/mock`.
pub fn provider_config(llm: &Llm, wire: Wire) -> Value {
    let npm = match wire {
        Wire::OpenAi => "@ai-sdk/openai-compatible",
        Wire::Responses => "@ai-sdk/openai",
        Wire::Anthropic => "@ai-sdk/anthropic",
        Wire::Google => "@ai-sdk/google",
    };
    json!({
        "model": "mock/mock",
        "provider": {"mock": {
            "name": "Mock",
            "npm": npm,
            "options": {"baseURL": llm.url(), "apiKey": "test"},
            "models": {
                "mock": {
                    "name": "Mock",
                    "limit": {"context": 200_000, "output": 8192},
                    "modalities": {"input": ["text", "image"], "output": ["text"]}
                },
                "other": {"name": "Other", "limit": {"context": 100_000, "output": 4096}},
            },
        }},
    })
}

/// A point at which a reply waits for the test.
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

    /// Waits until the reply has reached the gate.
    pub async fn reached(&self) {
        wait(&self.reached, "the model's reply to reach its gate").await;
    }

    /// Waits until the client has closed its connection in front of the gate.
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
    /// Cuts the connection.
    Cut,
    /// An event that is no JSON.
    Garbage,
    Finish(Finish),
}

/// The reason that a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    Stop,
    Calls,
    Length,
    Filter,
    /// Only Anthropic's models pause; on the other wires it is an end.
    Pause,
}

/// The server's answer to one request.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Option<Value>,
    /// A gate before the first byte.
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

    /// Makes a reply of one delta for each text.
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

    /// Adds a call with arguments that are sent unchanged, JSON or not.
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

    /// Makes a reply that never comes: not even headers, until the gate opens.
    pub fn hang(gate: &Gate) -> Self {
        let mut reply = Self::text("late");
        reply.before = Some(gate.clone());
        reply
    }

    /// Makes a reply that cuts the connection before the first byte.
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

    /// Holds the reply back, headers and all, until the test opens the gate.
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.before = Some(gate.clone());
        self
    }

    /// Stops the reply until the test opens the gate; the part before it has been flushed.
    pub fn and_gate(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Gate(gate.clone()));
        self
    }

    /// Cuts the connection.
    pub fn and_cut(mut self) -> Self {
        self.steps.push(Step::Cut);
        self
    }

    /// Sends an event that is no JSON.
    pub fn and_garbage(mut self) -> Self {
        self.steps.push(Step::Garbage);
        self
    }

    /// Replaces the reported tokens of the request and of the answer.
    pub fn tokens(mut self, input: u64, output: u64) -> Self {
        self.tokens = (input, output);
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

/// Makes the reply to a request.
type Answerer = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

#[derive(Default)]
struct Script {
    /// Answers requests that have no reply of their own.
    answerer: Option<Answerer>,
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
                    // A client that disconnects in the middle is part of many tests.
                    let _ = server.serve(stream).await;
                });
            }
        });
        llm
    }

    /// Returns the base URL for `options.baseURL`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Adds a reply for the next request without a reply of its own.
    pub fn reply(&self, reply: Reply) {
        self.script.lock().unwrap().replies.push_back(reply);
    }

    /// Adds a reply for a request with `needle` in its last user text.
    pub fn reply_to(&self, needle: &str, reply: Reply) {
        self.script.lock().unwrap().keyed.push((needle.to_owned(), reply));
    }

    /// Answers every request that has no reply of its own.
    pub fn answer_with(&self, answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) {
        self.script.lock().unwrap().answerer = Some(Arc::new(answer));
    }

    /// Replaces the automatic answer to the next title request.
    pub fn title(&self, reply: Reply) {
        self.script.lock().unwrap().titles.push_back(reply);
    }

    /// Returns the requests so far, without those for titles.
    pub fn requests(&self) -> Vec<Request> {
        self.script.lock().unwrap().requests.clone()
    }

    pub fn title_requests(&self) -> Vec<Request> {
        self.script.lock().unwrap().title_requests.clone()
    }

    pub fn last_request(&self) -> Request {
        self.requests().pop().expect("the model was never asked")
    }

    /// Waits until that many requests, titles not counted, have arrived.
    pub async fn asked(&self, times: usize) {
        let mut count = self.count.subscribe();
        let waited = timeout(super::agent::DEADLINE, count.wait_for(|count| *count >= times)).await;
        assert!(waited.is_ok(), "the model was not asked {times} times");
    }

    /// Returns the deviations from the script: requests without a reply, and unused replies.
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
        let reply = reply.or_else(|| script.answerer.as_ref().map(|answer| answer(&request)));
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
        while let Some(asked) = http::read(&mut stream, &mut buffer).await? {
            if asked.line == "GET /v1/models" {
                stream.write_all(&models()).await?;
                continue;
            }
            let request = Request::new(asked);
            let wire = Wire::of(&request.path);
            let reply = self.take(request);
            if !server::answer(&mut stream, wire, reply).await? {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Returns the answer of a server that lists its models.
fn models() -> Vec<u8> {
    let body = json!({"object": "list", "data": [{"id": "mock"}, {"id": "other"}]}).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}
