//! The agent's pipes: every line is kept, and each of the agent's is checked as it arrives.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    process::ChildStderr,
    sync::{mpsc, watch},
};

use super::{
    Answer,
    asks::{Ask, permission_reply},
};
use crate::support::{message::tag, schema, stopwatch::Stopwatch};

pub(super) const NOT_JSON: &str = "stdout holds a line that is no JSON object";

/// Updates that belong to a session rather than to a turn, and so may come at any time.
const TIMELESS: &[&str] = &[
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "notice",
];

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Value,
}

#[derive(Debug)]
pub(super) struct AskState {
    pub ask: Ask,
    pub is_taken: bool,
    pub is_answered: bool,
    pub is_withdrawn: bool,
}

#[derive(Debug)]
pub(super) struct Open {
    pub method: String,
    pub params: Value,
}

/// A line on either pipe.
#[derive(Debug, Clone)]
pub struct Line {
    pub from_agent: bool,
    pub message: Value,
}

#[derive(Default)]
pub(super) struct State {
    /// The agent has answered `initialize` with version 2.
    is_second_version: bool,
    pub lines: Vec<Line>,
    /// The position from which `wait_for` continues.
    pub cursor: usize,
    pub open: HashMap<String, Open>,
    pub answers: HashMap<String, (usize, Result<Value, RpcError>)>,
    answered: HashSet<String>,
    pub asks: Vec<AskState>,
    pub policy: Option<Answer>,
    known_sessions: HashSet<String>,
    /// Those that were announced as subagents', with updates that belong to a turn above.
    subagents: HashSet<String>,
    /// Results of subagents in the background begin turns that no prompt asked for.
    pub has_own_turns: bool,
    pub failures: Vec<String>,
    pub stderr: String,
    pub is_closed: bool,
    /// Set if the output may end in the middle, so that requests may stay open.
    pub may_be_cut: bool,
}

pub(super) struct Shared {
    pub pid: i32,
    pub state: Mutex<State>,
    pub version: watch::Sender<u64>,
    pub input: mpsc::UnboundedSender<Input>,
}

pub(super) enum Input {
    Bytes(Vec<u8>),
    Close,
}

pub(super) async fn write_input(
    mut stdin: impl AsyncWrite + Unpin,
    mut commands: mpsc::UnboundedReceiver<Input>,
) {
    while let Some(Input::Bytes(bytes)) = commands.recv().await {
        // Some tests write to an agent that has exited.
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

pub(super) async fn collect_stderr(mut stderr: ChildStderr, shared: Arc<Shared>) {
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

pub(super) async fn read_output(
    stdout: impl AsyncRead + Unpin,
    shared: Arc<Shared>,
    mut reading: watch::Receiver<bool>,
) {
    // The smallest buffer, so that a paused client takes no more than one line off the pipe.
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
    pub fn changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }

    pub fn send(&self, message: &Value) {
        let mut bytes = message.to_string().into_bytes();
        bytes.push(b'\n');
        self.state.lock().unwrap().lines.push(Line { from_agent: false, message: message.clone() });
        let _ = self.input.send(Input::Bytes(bytes));
    }

    /// Processes one line of the agent's.
    fn receive(&self, line: &[u8]) {
        let mut state = self.state.lock().unwrap();
        let message = match serde_json::from_slice::<Value>(line) {
            Ok(message @ Value::Object(_)) if line.ends_with(b"\n") => message,
            _ => {
                let failure = format!("{NOT_JSON}: {:?}", String::from_utf8_lossy(line));
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

    /// Waits until `find` returns a value for the lines so far.
    pub async fn wait<T>(
        &self,
        deadline: Duration,
        what: &str,
        mut find: impl FnMut(&mut State) -> Option<T>,
    ) -> T {
        let mut version = self.version.subscribe();
        let search = async {
            loop {
                version.mark_unchanged();
                {
                    let mut state = self.state.lock().unwrap();
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
        match Stopwatch::start(self.pid).within(deadline, what, search).await {
            Some(found) => found,
            None => panic!("stdout ended while the test waited for {what}"),
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
            self.is_second_version |= open.method == "initialize" && result["protocolVersion"] == 2;
            let checked = if self.is_second_version {
                schema::second::check_result(&open.method, result)
            } else {
                schema::check_result(&open.method, result)
            };
            if let Err(problem) = checked {
                self.failures.push(problem);
            }
            let named = result["sessionId"].as_str().or(open.params["sessionId"].as_str());
            self.known_sessions.extend(named.map(str::to_owned));
        }
        self.answered.insert(id.clone());
        self.answers.insert(id, (self.lines.len() - 1, answer));
    }

    fn check_call(&self, method: &str, params: &Value, is_request: bool) -> Result<(), String> {
        if self.is_second_version {
            schema::second::check_call(method, params, is_request)
        } else {
            schema::check_call(method, params, is_request)
        }
    }

    fn take_notification(&mut self, method: &str, params: &Value) {
        if let Err(problem) = self.check_call(method, params, false) {
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
                if update == "subagent_update" {
                    let announced = params["update"]["sessionId"].as_str().unwrap_or_default();
                    self.known_sessions.insert(announced.to_owned());
                    self.subagents.insert(announced.to_owned());
                }
                if !self.known_sessions.contains(session) && !busy(&["session/load", "session/resume"]) {
                    self.failures.push(format!("an update came before its session was known: {params}"));
                } else if !self.is_second_version
                    && !TIMELESS.contains(&update)
                    && !self.subagents.contains(session)
                    && !self.has_own_turns
                    && !busy(&["session/prompt", "session/load"])
                {
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

    /// Returns true if the client has declared that it shows the wishes of servers and tools in this mode.
    fn takes(&self, mode: &str) -> bool {
        let place = format!("/params/clientCapabilities/elicitation/{mode}");
        self.lines.iter().any(|line| line.message.pointer(&place).is_some_and(Value::is_object))
    }

    /// Returns true if the client has declared that its editor reads, or writes.
    fn takes_files(&self, capability: &str) -> bool {
        let place = format!("/params/clientCapabilities/fs/{capability}");
        self.lines.iter().any(|line| line.message.pointer(&place) == Some(&Value::Bool(true)))
    }

    /// Returns true if a session was opened with this server of the client.
    fn declares(&self, server_id: &Value) -> bool {
        let servers =
            self.lines.iter().filter_map(|line| line.message.pointer("/params/mcpServers")?.as_array());
        servers.flatten().any(|server| server["serverId"] == *server_id)
    }

    fn take_request(&mut self, method: &str, id: &Value, params: &Value) -> Option<Value> {
        if let Err(problem) = self.check_call(method, params, true) {
            self.failures.push(problem);
            return Some(
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "method not found"}}),
            );
        }
        if self.asks.iter().any(|state| state.ask.id == *id) {
            self.failures.push(format!("the agent used the request id {id} twice"));
        }
        if method == "elicitation/create" && !self.takes(params["mode"].as_str().unwrap_or_default()) {
            self.failures.push(format!("a form or a page for a client that shows none: {params}"));
        }
        let page = &params["elicitationId"];
        if !page.is_null() && self.asks.iter().any(|state| state.ask.params["elicitationId"] == *page) {
            self.failures.push(format!("two pages with one id: {params}"));
        }
        let of_files = [("fs/read_text_file", "readTextFile"), ("fs/write_text_file", "writeTextFile")];
        if of_files.iter().any(|(known, capability)| method == *known && !self.takes_files(capability)) {
            self.failures.push(format!("{method} for a client that did not offer it: {params}"));
        }
        if method == "mcp/message" && !self.declares(&params["serverId"]) {
            self.failures.push(format!("a message for a server that was not declared: {params}"));
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

/// Returns the updates of one session.
pub(super) fn updates(lines: &[Line], session: &str) -> Vec<Value> {
    lines
        .iter()
        .filter(|line| line.from_agent && line.message["method"] == "session/update")
        .filter(|line| line.message["params"]["sessionId"] == session)
        .map(|line| line.message["params"]["update"].clone())
        .collect()
}
