//! The agent under test: the real binary on its pipes, and a client that forgives nothing.
//!
//! Every line is checked as it arrives. `finish` ends the process and fails the test on what a client must not see:
//! a line that is no JSON object or breaks the schema, two answers to one request, a request nobody read, an update
//! after its turn, a process left behind.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};

use super::{
    llm::Llm,
    message::{Turn, tag},
    process, schema,
    scratch::Scratch,
};

/// How long anything may take before a test gives up on it.
pub const DEADLINE: Duration = Duration::from_secs(20);
/// How long a cancelled turn may take to end.
pub const CANCEL_LIMIT: Duration = Duration::from_secs(1);

const NOT_JSON: &str = "stdout holds a line that is no JSON object";

/// Updates that belong to a session rather than to a turn, and so may come at any time.
const TIMELESS: &[&str] = &[
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "notice",
];

/// How the client answers `session/request_permission`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
    /// The outcome `cancelled`.
    Cancelled,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Value,
}

/// A request from the agent.
#[derive(Debug, Clone)]
pub struct Ask {
    pub id: Value,
    pub method: String,
    pub params: Value,
}

impl Ask {
    /// The tool call the permission is for.
    pub fn call(&self) -> &Value {
        &self.params["toolCall"]
    }
}

#[derive(Debug)]
struct AskState {
    ask: Ask,
    is_taken: bool,
    is_answered: bool,
    is_withdrawn: bool,
}

#[derive(Debug)]
struct Open {
    method: String,
    params: Value,
}

/// A line on either pipe.
#[derive(Debug, Clone)]
pub struct Line {
    pub from_agent: bool,
    pub message: Value,
}

#[derive(Default)]
struct State {
    lines: Vec<Line>,
    /// Where `wait_for` goes on.
    cursor: usize,
    open: HashMap<String, Open>,
    answers: HashMap<String, (usize, Result<Value, RpcError>)>,
    answered: HashSet<String>,
    asks: Vec<AskState>,
    policy: Option<Answer>,
    known_sessions: HashSet<String>,
    failures: Vec<String>,
    stderr: String,
    is_closed: bool,
    /// The output may end in the middle, so requests may stay open.
    may_be_cut: bool,
}

struct Shared {
    state: Mutex<State>,
    version: watch::Sender<u64>,
    input: mpsc::UnboundedSender<Input>,
}

enum Input {
    Bytes(Vec<u8>),
    Close,
}

/// Which wire the configured provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    OpenAi,
    Anthropic,
}

pub struct Builder {
    wrapper: Vec<String>,
    arguments: Vec<String>,
    config: Vec<Value>,
    env: Vec<(String, String)>,
    wire: Option<Wire>,
    scratch: Option<Arc<Scratch>>,
    llm: Option<Llm>,
    policy: Option<Answer>,
    deadline: Duration,
}

impl Builder {
    /// Lays `config` over the inline configuration (`OPENCODE_CONFIG_CONTENT`); a null takes a key away.
    pub fn config(mut self, config: Value) -> Self {
        // Laid over each other at the start only: a `null` must still find what it removes.
        self.config.push(config);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self
    }

    /// Started by this command, which must become the agent: its process is the one that is watched.
    pub fn started_by(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    pub fn wire(mut self, wire: Wire) -> Self {
        self.wire = Some(wire);
        self
    }

    /// No provider at all, so that the demo model answers.
    pub fn without_provider(mut self) -> Self {
        self.wire = None;
        self
    }

    /// The same machine as another agent, to see what outlives a process.
    pub fn scratch(mut self, scratch: &Arc<Scratch>) -> Self {
        self.scratch = Some(scratch.clone());
        self
    }

    pub fn llm(mut self, llm: &Llm) -> Self {
        self.llm = Some(llm.clone());
        self
    }

    /// Answers every permission request at once; otherwise the test must read each.
    pub fn answering(mut self, answer: Answer) -> Self {
        self.policy = Some(answer);
        self
    }

    pub async fn spawn(self) -> Agent {
        let scratch = self.scratch.unwrap_or_else(Scratch::new);
        let llm = match self.llm {
            Some(llm) => llm,
            None => Llm::start().await,
        };
        let mut config = json!({});
        if let Some(wire) = self.wire {
            config = provider_config(&llm, wire);
        }
        for over in self.config {
            merge(&mut config, over);
        }
        let mut words = self.wrapper.iter().map(PathBuf::from).chain([binary()]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .args(&self.arguments)
            .current_dir(scratch.root())
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("HOME", &scratch.home)
            .env("SHELL", "/bin/bash")
            .env("OPENCODE_CONFIG_CONTENT", config.to_string())
            .envs(self.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let pid = i32::try_from(child.id().unwrap()).unwrap();

        let (input, commands) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared { state: Mutex::default(), version: watch::Sender::new(0), input });
        shared.state.lock().unwrap().policy = self.policy;
        let reading = watch::Sender::new(true);
        let stderr = child.stderr.take().unwrap();
        let writer = tokio::spawn(write_input(child.stdin.take().unwrap(), commands));
        let stderr = tokio::spawn(collect_stderr(stderr, shared.clone()));
        let reader =
            tokio::spawn(read_output(child.stdout.take().unwrap(), shared.clone(), reading.subscribe()));
        Agent {
            llm,
            scratch,
            pid,
            child,
            shared,
            reading,
            reader,
            writer,
            stderr,
            next_id: AtomicI64::new(0),
            deadline: self.deadline,
            exit: None,
            is_finished: false,
        }
    }
}

/// The binary under test; `E2E_BINARY` names another, such as a release build.
pub fn binary() -> PathBuf {
    PathBuf::from(std::env::var("E2E_BINARY").unwrap_or(env!("CARGO_BIN_EXE_windlass").to_owned()))
}

/// Configuration with the scripted model as `mock/mock`.
pub fn provider_config(llm: &Llm, wire: Wire) -> Value {
    let npm = match wire {
        Wire::OpenAi => "@ai-sdk/openai-compatible",
        Wire::Anthropic => "@ai-sdk/anthropic",
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

fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                match value {
                    Value::Null => _ = base.remove(&key),
                    value => merge(base.entry(key).or_insert(Value::Null), value),
                }
            }
        }
        (base, over) => *base = over,
    }
}

async fn write_input(mut stdin: ChildStdin, mut commands: mpsc::UnboundedReceiver<Input>) {
    while let Some(Input::Bytes(bytes)) = commands.recv().await {
        // Writing to an agent that has exited is part of some tests.
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn collect_stderr(mut stderr: tokio::process::ChildStderr, shared: Arc<Shared>) {
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = stderr.read(&mut buffer).await {
        let mut state = shared.state.lock().unwrap();
        if state.stderr.len() < 1 << 20 {
            state.stderr.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
        drop(state);
        shared.changed();
    }
}

async fn read_output(stdout: ChildStdout, shared: Arc<Shared>, mut reading: watch::Receiver<bool>) {
    // The smallest buffer, so that a paused client takes nothing off the pipe beyond one line.
    let mut stdout = BufReader::with_capacity(8192, stdout);
    let mut line = Vec::new();
    loop {
        if reading.wait_for(|is_reading| *is_reading).await.is_err() {
            break;
        }
        line.clear();
        match stdout.read_until(b'\n', &mut line).await {
            Ok(1..) => shared.receive(&line),
            Ok(0) | Err(_) => break,
        }
        shared.changed();
    }
    shared.state.lock().unwrap().is_closed = true;
    shared.changed();
}

impl Shared {
    fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    fn send(&self, message: &Value) {
        let mut bytes = message.to_string().into_bytes();
        bytes.push(b'\n');
        self.state.lock().unwrap().lines.push(Line { from_agent: false, message: message.clone() });
        let _ = self.input.send(Input::Bytes(bytes));
    }

    /// Takes one line of the agent's.
    fn receive(&self, line: &[u8]) {
        let mut state = self.state.lock().unwrap();
        let message = match serde_json::from_slice::<Value>(line) {
            Ok(message @ Value::Object(_)) if line.ends_with(b"\n") => message,
            _ => {
                let failure = format!(
                    "stdout holds a line that is no JSON object: {:?}",
                    String::from_utf8_lossy(line)
                );
                state.failures.push(failure);
                return;
            }
        };
        if let Err(problem) = schema::check_envelope(&message) {
            state.failures.push(problem);
        }
        state.lines.push(Line { from_agent: true, message: message.clone() });
        let reply = match (message.get("method").and_then(Value::as_str), message.get("id")) {
            (None, _) => {
                state.take_response(&message);
                None
            }
            (Some(method), None) => {
                state.take_notification(method, &message["params"]);
                None
            }
            (Some(method), Some(id)) => state.take_request(method, id, &message["params"]),
        };
        drop(state);
        if let Some(reply) = reply {
            self.send(&reply);
        }
    }
}

impl State {
    fn take_response(&mut self, message: &Value) {
        let id = message["id"].to_string();
        let answer = match message.get("error") {
            None => Ok(message["result"].clone()),
            Some(error) => Err(RpcError {
                code: error["code"].as_i64().unwrap_or_default(),
                message: error["message"].as_str().unwrap_or_default().to_owned(),
                data: error["data"].clone(),
            }),
        };
        let Some(open) = self.open.remove(&id) else {
            // Lines that are no requests are answered with a null id, any number of times.
            if id != "null" || answer.is_ok() {
                let what =
                    if self.answered.contains(&id) { "answered twice" } else { "answered but never asked" };
                self.failures.push(format!("request {id} was {what}: {message}"));
            }
            return;
        };
        if let Ok(result) = &answer {
            if let Err(problem) = schema::check_result(&open.method, result) {
                self.failures.push(problem);
            }
            let named = result["sessionId"].as_str().or(open.params["sessionId"].as_str());
            self.known_sessions.extend(named.map(str::to_owned));
        }
        self.answered.insert(id.clone());
        self.answers.insert(id, (self.lines.len() - 1, answer));
    }

    fn take_notification(&mut self, method: &str, params: &Value) {
        if let Err(problem) = schema::check_call(method, params, false) {
            self.failures.push(problem);
        }
        let session = params["sessionId"].as_str().unwrap_or_default();
        match method {
            "session/update" => {
                let busy = |methods: &[&str]| {
                    self.open.values().any(|open| {
                        methods.contains(&open.method.as_str()) && open.params["sessionId"] == session
                    })
                };
                let update = tag(&params["update"]);
                if !self.known_sessions.contains(session) && !busy(&["session/load", "session/resume"]) {
                    self.failures.push(format!("an update came before its session was known: {params}"));
                } else if !TIMELESS.contains(&update) && !busy(&["session/prompt", "session/load"]) {
                    self.failures.push(format!("an update of a turn came outside of any: {params}"));
                }
            }
            "$/cancel_request" => {
                let ask = self.asks.iter_mut().find(|state| state.ask.id == params["requestId"]);
                match ask {
                    Some(ask) => ask.is_withdrawn = true,
                    None => {
                        self.failures.push(format!("$/cancel_request for a request never made: {params}"))
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether the client has said that it shows forms.
    fn takes_forms(&self) -> bool {
        let form = "/params/clientCapabilities/elicitation/form";
        self.lines.iter().any(|line| line.message.pointer(form).is_some_and(Value::is_object))
    }

    fn take_request(&mut self, method: &str, id: &Value, params: &Value) -> Option<Value> {
        if let Err(problem) = schema::check_call(method, params, true) {
            self.failures.push(problem);
            return Some(
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "method not found"}}),
            );
        }
        if self.asks.iter().any(|state| state.ask.id == *id) {
            self.failures.push(format!("the agent used the request id {id} twice"));
        }
        if method == "elicitation/create" && !self.takes_forms() {
            self.failures.push(format!("a form for a client that shows none: {params}"));
        }
        let ask = Ask { id: id.clone(), method: method.to_owned(), params: params.clone() };
        let reply = self.policy.map(|answer| permission_reply(&ask, answer));
        self.asks.push(AskState {
            ask,
            is_taken: reply.is_some(),
            is_answered: reply.is_some(),
            is_withdrawn: false,
        });
        reply
    }
}

fn permission_reply(ask: &Ask, answer: Answer) -> Value {
    let kind = match answer {
        Answer::AllowOnce => "allow_once",
        Answer::AllowAlways => "allow_always",
        Answer::RejectOnce => "reject_once",
        Answer::RejectAlways => "reject_always",
        Answer::Cancelled => {
            return json!({"jsonrpc": "2.0", "id": ask.id, "result": {"outcome": {"outcome": "cancelled"}}});
        }
    };
    let options = ask.params["options"].as_array().unwrap();
    let option = options.iter().find(|option| option["kind"] == kind);
    let option = option.unwrap_or_else(|| panic!("no option of kind {kind} in {}", ask.params));
    let outcome = json!({"outcome": "selected", "optionId": option["optionId"]});
    json!({"jsonrpc": "2.0", "id": ask.id, "result": {"outcome": outcome}})
}

/// A request on its way; other things can be done until its answer is asked for.
pub struct Pending {
    pub id: Value,
    method: String,
    session: String,
    /// Position in the log before the request.
    start: usize,
    shared: Arc<Shared>,
    deadline: Duration,
}

impl Pending {
    pub fn is_answered(&self) -> bool {
        self.shared.state.lock().unwrap().answers.contains_key(&self.id.to_string())
    }

    /// The answer.
    pub async fn answer(&self) -> Result<Value, RpcError> {
        self.answered().await.1
    }

    async fn answered(&self) -> (usize, Result<Value, RpcError>) {
        let id = self.id.to_string();
        let what = format!("the answer to {} (id {id})", self.method);
        wait_until(&self.shared, self.deadline, &what, |state| state.answers.get(&id).cloned()).await
    }

    /// The result of a prompt with the updates that came before it.
    pub async fn turn(&self) -> Turn {
        let (end, answer) = self.answered().await;
        let result = answer.unwrap_or_else(|error| panic!("{} failed: {error:?}", self.method));
        let state = self.shared.state.lock().unwrap();
        let updates = updates(&state.lines[self.start..end], &self.session);
        Turn { stop: result["stopReason"].as_str().unwrap_or_default().to_owned(), updates }
    }

    /// The updates that came before the answer, also when that is an error.
    pub async fn updates(&self) -> Vec<Value> {
        let (end, _) = self.answered().await;
        updates(&self.shared.state.lock().unwrap().lines[self.start..end], &self.session)
    }
}

fn updates(lines: &[Line], session: &str) -> Vec<Value> {
    lines
        .iter()
        .filter(|line| line.from_agent && line.message["method"] == "session/update")
        .filter(|line| line.message["params"]["sessionId"] == session)
        .map(|line| line.message["params"]["update"].clone())
        .collect()
}

async fn wait_until<T>(
    shared: &Shared,
    deadline: Duration,
    what: &str,
    mut find: impl FnMut(&mut State) -> Option<T>,
) -> T {
    let mut version = shared.version.subscribe();
    let search = async {
        loop {
            version.mark_unchanged();
            {
                let mut state = shared.state.lock().unwrap();
                if let Some(found) = find(&mut state) {
                    return Some(found);
                }
                if state.is_closed {
                    return None;
                }
            }
            version.changed().await.unwrap();
        }
    };
    match timeout(deadline, search).await {
        Ok(Some(found)) => found,
        Ok(None) => panic!("stdout ended while the test waited for {what}"),
        Err(_) => panic!("waited {deadline:?} in vain for {what}"),
    }
}

/// The process under test and the client's side of its pipes.
pub struct Agent {
    pub llm: Llm,
    pub scratch: Arc<Scratch>,
    pub pid: i32,
    child: Child,
    shared: Arc<Shared>,
    reading: watch::Sender<bool>,
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
    stderr: JoinHandle<()>,
    next_id: AtomicI64,
    deadline: Duration,
    exit: Option<ExitStatus>,
    is_finished: bool,
}

impl Agent {
    pub fn builder() -> Builder {
        Builder {
            wrapper: Vec::new(),
            arguments: vec!["acp".to_owned()],
            config: Vec::new(),
            env: Vec::new(),
            wire: Some(Wire::OpenAi),
            scratch: None,
            llm: None,
            policy: None,
            deadline: DEADLINE,
        }
    }

    /// A running agent that has been initialized.
    pub async fn start() -> Self {
        Self::builder().spawn().await.initialized().await
    }

    pub async fn initialized(self) -> Self {
        self.initialize().await;
        self
    }

    /// Initializes as a client without capabilities.
    pub async fn initialize(&self) -> Value {
        self.initialize_with(json!({})).await
    }

    pub async fn initialize_with(&self, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": 1,
            "clientCapabilities": capabilities,
            "clientInfo": {"name": "e2e", "version": "1"},
        });
        self.request("initialize", params).await.unwrap()
    }

    /// A new session in the scratch repository.
    pub async fn new_session(&self) -> String {
        let answer = self.request("session/new", self.session_params()).await.unwrap();
        answer["sessionId"].as_str().unwrap().to_owned()
    }

    pub fn session_params(&self) -> Value {
        json!({"cwd": self.scratch.cwd(), "mcpServers": []})
    }

    pub async fn prompt(&self, session: &str, text: &str) -> Turn {
        self.send_prompt(session, text).turn().await
    }

    pub fn send_prompt(&self, session: &str, text: &str) -> Pending {
        self.send_request("session/prompt", prompt_params(session, text))
    }

    pub fn cancel(&self, session: &str) {
        self.notify("session/cancel", json!({"sessionId": session}));
    }

    /// Loads a session; the replayed updates.
    pub async fn load(&self, session: &str) -> Vec<Value> {
        let params = json!({"sessionId": session, "cwd": self.scratch.cwd(), "mcpServers": []});
        let pending = self.send_request("session/load", params);
        pending.answer().await.unwrap();
        pending.updates().await
    }

    pub async fn request(&self, method: &str, params: Value) -> Result<Value, RpcError> {
        self.send_request(method, params).answer().await
    }

    pub fn send_request(&self, method: &str, params: Value) -> Pending {
        self.send_request_with_id(json!(self.next_id.fetch_add(1, Ordering::Relaxed)), method, params)
    }

    pub fn send_request_with_id(&self, id: Value, method: &str, params: Value) -> Pending {
        let pending = self.expect_answer(id.clone(), method, params.clone());
        self.shared.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        pending
    }

    /// Registers a request that the test writes by itself, with `raw_line`.
    pub fn expect_answer(&self, id: Value, method: &str, params: Value) -> Pending {
        let mut state = self.shared.state.lock().unwrap();
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        state.open.insert(id.to_string(), Open { method: method.to_owned(), params });
        Pending {
            id,
            method: method.to_owned(),
            session,
            start: state.lines.len(),
            shared: self.shared.clone(),
            deadline: self.deadline,
        }
    }

    pub fn notify(&self, method: &str, params: Value) {
        self.shared.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Writes bytes as they are; a newline is not added.
    pub fn raw(&self, bytes: impl Into<Vec<u8>>) {
        let _ = self.shared.input.send(Input::Bytes(bytes.into()));
    }

    /// Writes a line that is answered with a null id; the error.
    pub async fn malformed(&self, line: impl Into<Vec<u8>>) -> (i64, String) {
        self.raw(line);
        let answer = self
            .wait_for("an error with a null id", |message| {
                message["id"].is_null() && message.get("error").is_some()
            })
            .await;
        (answer["error"]["code"].as_i64().unwrap(), answer["error"]["message"].as_str().unwrap().to_owned())
    }

    /// The next message from the agent for which `is_wanted` holds; earlier ones are passed over.
    pub async fn wait_for(&self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        wait_until(&self.shared, self.deadline, what, |state| {
            while state.cursor < state.lines.len() {
                let line = &state.lines[state.cursor];
                state.cursor += 1;
                if line.from_agent && is_wanted(&line.message) {
                    return Some(line.message.clone());
                }
            }
            None
        })
        .await
    }

    /// The next update with this tag, of any session.
    pub async fn wait_update(&self, wanted: &str) -> Value {
        let message = self
            .wait_for(&format!("an update `{wanted}`"), |message| {
                message["method"] == "session/update" && tag(&message["params"]["update"]) == wanted
            })
            .await;
        message["params"]["update"].clone()
    }

    /// Ends when the agent has said `wanted` in this session, in however many chunks.
    pub async fn wait_text(&self, session: &str, wanted: &str) {
        wait_until(&self.shared, self.deadline, &format!("the text `{wanted}`"), |state| {
            let said = super::message::text(&updates(&state.lines, session), "agent_message_chunk");
            said.contains(wanted).then_some(())
        })
        .await;
    }

    /// Ends when stderr holds `wanted`.
    pub async fn wait_stderr(&self, wanted: &str) {
        wait_until(&self.shared, self.deadline, &format!("`{wanted}` on stderr"), |state| {
            state.stderr.contains(wanted).then_some(())
        })
        .await;
    }

    /// The next permission request that the test has not read.
    pub async fn permission(&self) -> Ask {
        wait_until(&self.shared, self.deadline, "a permission request", |state| {
            let asked = state.asks.iter_mut().find(|state| !state.is_taken)?;
            asked.is_taken = true;
            Some(asked.ask.clone())
        })
        .await
    }

    pub fn answer(&self, ask: &Ask, answer: Answer) {
        self.answer_with(ask, permission_reply(ask, answer));
    }

    /// Answers with the option that has this name.
    pub fn choose(&self, ask: &Ask, name: &str) {
        let options = ask.params["options"].as_array().unwrap();
        let option = options.iter().find(|option| option["name"] == name);
        let option = option.unwrap_or_else(|| panic!("no option `{name}` in {}", ask.params));
        let outcome = json!({"outcome": "selected", "optionId": option["optionId"]});
        self.answer_with(ask, json!({"jsonrpc": "2.0", "id": ask.id, "result": {"outcome": outcome}}));
    }

    /// Answers a form.
    pub fn fill_in(&self, ask: &Ask, result: Value) {
        self.answer_with(ask, json!({"jsonrpc": "2.0", "id": ask.id, "result": result}));
    }

    /// Answers with an error.
    pub fn fail(&self, ask: &Ask, code: i64) {
        let error = json!({"code": code, "message": "scripted failure"});
        self.answer_with(ask, json!({"jsonrpc": "2.0", "id": ask.id, "error": error}));
    }

    fn answer_with(&self, ask: &Ask, reply: Value) {
        let mut state = self.shared.state.lock().unwrap();
        let asked = state.asks.iter_mut().find(|state| state.ask.id == ask.id).unwrap();
        asked.is_answered = true;
        drop(state);
        self.shared.send(&reply);
    }

    /// Ends when the agent has sent `$/cancel_request` for this request; answers it as a client does.
    pub async fn withdrawn(&self, ask: &Ask) {
        wait_until(&self.shared, self.deadline, "the agent to withdraw its request", |state| {
            let asked = state.asks.iter_mut().find(|state| state.ask.id == ask.id).unwrap();
            asked.is_withdrawn.then(|| asked.is_answered = true)
        })
        .await;
        self.shared.send(&permission_reply(ask, Answer::Cancelled));
    }

    /// How many permission requests there were.
    pub fn n_asked(&self) -> usize {
        self.shared.state.lock().unwrap().asks.len()
    }

    /// The permission requests so far.
    pub fn asks(&self) -> Vec<Ask> {
        self.shared.state.lock().unwrap().asks.iter().map(|state| state.ask.clone()).collect()
    }

    /// Everything on both pipes so far.
    pub fn lines(&self) -> Vec<Line> {
        self.shared.state.lock().unwrap().lines.clone()
    }

    /// Every update of a session so far.
    pub fn updates(&self, session: &str) -> Vec<Value> {
        updates(&self.shared.state.lock().unwrap().lines, session)
    }

    pub fn stderr(&self) -> String {
        self.shared.state.lock().unwrap().stderr.clone()
    }

    pub fn stop_reading(&self) {
        self.reading.send_replace(false);
    }

    pub fn go_on_reading(&self) {
        self.reading.send_replace(true);
    }

    /// Closes the client's end of stdout.
    pub async fn close_stdout(&mut self) {
        self.reader.abort();
        let _ = (&mut self.reader).await;
        self.shared.state.lock().unwrap().is_closed = true;
        self.shared.changed();
    }

    pub fn close_stdin(&self) {
        let _ = self.shared.input.send(Input::Close);
    }

    /// Ends when everything has been written to stdin and, after `close_stdin`, the pipe is closed.
    pub async fn input_written(&mut self) {
        timeout(DEADLINE, &mut self.writer).await.expect("the agent does not read its stdin").unwrap();
    }

    /// For tests that end the output in the middle: requests may stay open and the last line may be cut.
    pub fn allow_cut_output(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.may_be_cut = true;
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn signal(&self, signal: Signal) {
        process::send(self.pid, signal);
    }

    /// Waits for the process to end by itself.
    pub async fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        if let Some(exit) = self.exit {
            return exit;
        }
        let start = Instant::now();
        let waited = timeout(deadline, self.child.wait()).await;
        let exit =
            waited.unwrap_or_else(|_| panic!("the agent still runs after {:?}", start.elapsed())).unwrap();
        self.exit = Some(exit);
        exit
    }

    /// The agent's descendants.
    pub fn descendants(&self) -> Vec<i32> {
        process::living(&self.scratch.home).into_iter().filter(|pid| *pid != self.pid).collect()
    }

    /// Ends the agent as a client does, by closing its stdin, and fails on everything it did wrong.
    pub async fn finish(mut self) {
        self.end().await;
        let left = process::gone(&self.scratch.home, Duration::from_secs(2)).await;
        assert!(left.is_empty(), "processes outlive the agent: {}", process::describe(&left));
    }

    /// Like `finish`, while another agent lives on the same scratch machine.
    pub async fn finish_beside(mut self, other: &Agent) {
        self.end().await;
        assert!(process::living(&other.scratch.home).contains(&other.pid));
    }

    async fn end(&mut self) {
        if self.exit.is_none() {
            self.close_stdin();
            let exit = self.wait_exit(Duration::from_secs(5)).await;
            assert!(exit.success(), "the agent ended with {exit}");
        }
        let was_killed = self.exit.is_some_and(|exit| exit.code().is_none());
        if !self.reader.is_finished() {
            self.go_on_reading();
            timeout(DEADLINE, &mut self.reader).await.expect("stdout stays open after the exit").unwrap();
        }
        let mut failures = self.llm.problems();
        {
            let mut state = self.shared.state.lock().unwrap();
            if state.may_be_cut {
                state.failures.retain(|failure| !failure.starts_with(NOT_JSON));
            }
            failures.append(&mut state.failures);
            for asked in &state.asks {
                if !asked.is_taken {
                    failures.push(format!("the test did not read the request {}", asked.ask.params));
                } else if !asked.is_answered && !asked.is_withdrawn && !was_killed {
                    failures
                        .push(format!("a request was neither answered nor withdrawn: {}", asked.ask.params));
                }
            }
            for (id, open) in &state.open {
                if !was_killed && !state.may_be_cut && id != "null" {
                    failures.push(format!("{} (id {id}) was never answered", open.method));
                }
            }
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        self.is_finished = true;
    }
}

/// The parameters of a prompt that is one text.
pub fn prompt_params(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.writer.abort();
        self.stderr.abort();
        self.reader.abort();
        if !self.is_finished {
            process::kill_all(&self.scratch.home);
        }
        if std::thread::panicking() {
            // A poisoned lock means that the reader failed; its message has been printed already.
            let Ok(state) = self.shared.state.lock() else { return };
            let skipped = state.lines.len().saturating_sub(60);
            eprintln!("--- wire ({skipped} lines not shown)");
            for line in &state.lines[skipped..] {
                let text: String = line.message.to_string().chars().take(600).collect();
                eprintln!("{} {text}", if line.from_agent { "<-" } else { "->" });
            }
            eprintln!("--- stderr\n{}", state.stderr);
            for failure in &state.failures {
                eprintln!("--- {failure}");
            }
        } else {
            assert!(self.is_finished, "the test did not call `finish`");
        }
    }
}
