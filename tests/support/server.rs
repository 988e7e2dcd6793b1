//! A running `windlass serve`, and a client of it.

use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use nix::sys::signal::Signal;
use reqwest::{Method, RequestBuilder, Response, StatusCode, header::HeaderMap};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, Command},
};

use super::{
    agent::{DEADLINE, binary},
    llm::{Llm, Wire, provider_config},
    process,
    scratch::Scratch,
};

/// A server that listens on a port of its own.
pub struct Server {
    pub url: String,
    pub llm: Llm,
    pub scratch: Arc<Scratch>,
    client: reqwest::Client,
    child: Child,
    is_finished: bool,
    /// Starts it again.
    again: Builder,
}

/// A server to be started.
#[derive(Clone)]
pub struct Builder {
    command: &'static str,
    arguments: Vec<String>,
    config: Value,
    env: Vec<(String, String)>,
    pub scratch: Arc<Scratch>,
    llm: Option<Llm>,
}

/// An answer that was read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    /// Returns the body of a request that succeeded.
    pub fn ok(self) -> Value {
        assert!(self.status.is_success(), "{} {}", self.status, self.text);
        self.json()
    }

    /// Returns the body of a request that was refused with this status.
    pub fn refused(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json()
    }

    pub fn json(&self) -> Value {
        if self.text.is_empty() {
            return Value::Null;
        }
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl Builder {
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|it| (*it).to_owned()));
        self
    }

    /// Starts another command, which prints the same line.
    pub fn command(mut self, command: &'static str) -> Self {
        self.command = command;
        self
    }

    pub fn llm(mut self, llm: &Llm) -> Self {
        self.llm = Some(llm.clone());
        self
    }

    pub fn config(mut self, key: &str, value: Value) -> Self {
        self.config[key] = value;
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the program; it may refuse to serve.
    pub async fn spawn(&mut self) -> Child {
        let llm = match self.llm.take() {
            Some(llm) => llm,
            None => Llm::start().await,
        };
        let mut config = provider_config(&llm, Wire::OpenAi);
        for (key, value) in self.config.as_object().unwrap() {
            config[key] = value.clone();
        }
        self.llm = Some(llm);
        let is_placed = self.config.get("server").is_some() || self.arguments.iter().any(|it| it == "--port");
        if !is_placed {
            self.arguments.extend(["--port".to_owned(), own_port().to_string()]);
        }
        Command::new(binary())
            .arg(self.command)
            .args(&self.arguments)
            .current_dir(&self.scratch.work)
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("WINDLASS_TRUST", "1")
            .env("HOME", &self.scratch.home)
            .env("SHELL", "/bin/bash")
            .env("OPENCODE_CONFIG_CONTENT", config.to_string())
            .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
            // A test that windlass itself runs is a held process of that one, and its servers are as well.
            .envs(std::env::var("WINDLASS_CHILD").map(|it| ("WINDLASS_CHILD", it)))
            .envs(self.env.clone())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    pub async fn start(mut self) -> Server {
        let mut child = self.spawn().await;
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut lines = stdout.lines();
        let line = tokio::time::timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap();
        let Some(line) = line else {
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).await.unwrap();
            panic!("no line: {stderr}");
        };
        let url = line.strip_prefix("opencode server listening on ").unwrap().to_owned();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let llm = self.llm.clone().unwrap();
        Server { url, llm, scratch: self.scratch.clone(), client, child, is_finished: false, again: self }
    }
}

impl Server {
    pub fn builder() -> Builder {
        Builder {
            command: "serve",
            arguments: Vec::new(),
            config: json!({}),
            env: Vec::new(),
            scratch: Scratch::new(),
            llm: None,
        }
    }

    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Starts a server where this permission asks.
    pub async fn asking(permission: &str) -> Self {
        Self::builder().config("permission", json!({permission: "ask"})).start().await
    }

    pub fn request(&self, method: &str, path: &str) -> RequestBuilder {
        self.client.request(Method::from_bytes(method.as_bytes()).unwrap(), format!("{}{path}", self.url))
    }

    pub async fn get(&self, path: &str) -> Answer {
        answer(self.request("GET", path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, body).await
    }

    pub async fn send(&self, method: &str, path: &str, body: Value) -> Answer {
        answer(self.request(method, path).body(body.to_string())).await
    }

    /// Makes a session and returns its id.
    pub async fn session(&self) -> String {
        let session = self.post("/session", json!({})).await.ok();
        session["id"].as_str().unwrap().to_owned()
    }

    /// Sends words and returns the answer at the end of the turn.
    pub async fn prompt(&self, session: &str, words: &str) -> Value {
        let body = json!({"parts": [{"type": "text", "text": words}]});
        self.post(&format!("/session/{session}/message"), body).await.ok()
    }

    /// Opens a stream of events, behind its first word.
    pub async fn events(&self, path: &str) -> Events {
        let mut events = self.stream(path).await;
        let first = events.next().await;
        let first = if first["payload"].is_object() { &first["payload"] } else { &first };
        assert_eq!(first["type"], "server.connected");
        events
    }

    /// Opens a stream of events.
    pub async fn stream(&self, path: &str) -> Events {
        stream(self.request("GET", path)).await
    }

    /// Returns an address by which a browser enters once.
    pub async fn link(&self) -> String {
        let link = self.post("/page/link", json!({})).await.ok();
        format!("{}{}", self.url, link["path"].as_str().unwrap())
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id().unwrap()).unwrap()
    }

    /// Ends the server and starts it again at the same address.
    pub async fn restarted(mut self) -> Self {
        self.end().await;
        self.at_the_same_port().await
    }

    async fn at_the_same_port(&self) -> Self {
        self.again.clone().start().await
    }

    /// Kills the server and starts it again at the same address.
    pub async fn killed(mut self) -> Self {
        self.is_finished = true;
        process::send(self.pid(), Signal::SIGKILL);
        tokio::time::timeout(DEADLINE, self.child.wait()).await.unwrap().unwrap();
        self.at_the_same_port().await
    }

    /// Ends the server and checks that it leaves nothing behind.
    pub async fn finish(mut self) {
        self.end().await;
        let left = process::gone(&self.scratch.home).await;
        assert!(left.is_empty(), "left behind: {}", process::describe(&left));
        assert_eq!(self.llm.problems(), Vec::<String>::new());
    }

    async fn end(&mut self) {
        self.is_finished = true;
        process::send(self.pid(), Signal::SIGTERM);
        let status = tokio::time::timeout(DEADLINE, self.child.wait()).await.unwrap().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        assert!(self.is_finished || std::thread::panicking(), "call `finish`");
    }
}

/// Returns a port that no other test takes while a server is started again: each test is a process, and the system hands
/// out no ports below 32 768 by itself. Servers that choose a port all try the usual one first.
pub fn own_port() -> u16 {
    static N_SERVERS: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id() * 4;
    loop {
        let n = N_SERVERS.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(10_000 + (first + n) % 20_000).unwrap();
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub async fn answer(request: RequestBuilder) -> Answer {
    let response = tokio::time::timeout(DEADLINE, request.send()).await.unwrap().unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let text = tokio::time::timeout(DEADLINE, response.text()).await.unwrap().unwrap();
    Answer { status, headers, text }
}

/// Opens a stream of events.
pub async fn stream(request: RequestBuilder) -> Events {
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    Events { response, buffer: Vec::new() }
}

/// A stream of events.
pub struct Events {
    response: Response,
    buffer: Vec<u8>,
}

impl Events {
    /// Returns the next event.
    pub async fn next(&mut self) -> Value {
        self.read().await.expect("the stream goes on")
    }

    /// Returns the next event; `None` at the end of the stream.
    pub async fn read(&mut self) -> Option<Value> {
        let frame = self.frame().await?;
        Some(serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap())
    }

    /// Returns the next frame as it was sent; `None` at the end of the stream.
    pub async fn frame(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Some(String::from_utf8(frame).unwrap().trim_end().to_owned());
            }
            let chunk = tokio::time::timeout(DEADLINE, self.response.chunk()).await.expect("an event");
            self.buffer.extend_from_slice(&chunk.unwrap()?);
        }
    }

    /// Returns the events up to the first of this type.
    pub async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let event = self.next().await;
            let is_last = event["type"] == kind || event["payload"]["type"] == kind;
            seen.push(event);
            if is_last {
                return seen;
            }
        }
    }
}

/// Returns the types of events, each run of the same one once.
pub fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    kinds.dedup();
    kinds
}
