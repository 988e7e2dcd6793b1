//! A plain ACP client on an agent's pipes with next to no cost: lines of updates are not decoded.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::{
    Result,
    usage::{self, Memory},
};

/// The beginning of an update's line in most agents' output; other lines are decoded.
const UPDATE: &[u8] = br#"{"jsonrpc":"2.0","method":"session/update""#;

pub struct Agent {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    next_id: u64,
    pub started: Instant,
    /// The file with the agent's standard error.
    log: PathBuf,
    /// Dropping it ends the thread that kills an agent after its time limit.
    _deadline: mpsc::Sender<()>,
}

/// The messages before the answers.
#[derive(Debug, Default)]
pub struct Seen {
    pub n_lines: usize,
    pub n_bytes: usize,
    pub first_chunk: Option<Instant>,
    /// The raw lines, if requested.
    pub lines: Vec<u8>,
    pub results: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    Lines,
    Counts,
}

impl Agent {
    /// Starts the agent, which is killed if it still runs after `limit`.
    pub fn start(mut command: Command, log: PathBuf, limit: Duration) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let started = Instant::now();
        let mut child =
            command.spawn().map_err(|error| format!("start {}: {error}", command.get_program().display()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the agent has no pipes".into());
        };
        let pid = Pid::from_raw(child.id() as i32);
        let (deadline, ended) = mpsc::channel::<()>();
        thread::spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                // The reader then reaches the end of the output.
                let _ = kill(pid, Signal::SIGKILL);
            }
        });
        let output = BufReader::with_capacity(256 << 10, output);
        Ok(Self { child, input, output, line: Vec::new(), next_id: 0, started, log, _deadline: deadline })
    }

    pub fn initialize(&mut self) -> Result<()> {
        self.initialize_as(json!({}))
    }

    /// Initializes the agent as a client with these extensions.
    pub fn initialize_as(&mut self, extensions: Value) -> Result<()> {
        let fs = json!({"readTextFile": false, "writeTextFile": false});
        let capabilities = json!({"fs": fs, "terminal": false, "_meta": extensions});
        let info = json!({"name": "bench", "version": "1"});
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info});
        self.call("initialize", params).map(drop)
    }

    pub fn new_session(&mut self, cwd: &str) -> Result<String> {
        let seen = self.call("session/new", json!({"cwd": cwd, "mcpServers": []}))?;
        let id = seen.results.first().and_then(|result| result["sessionId"].as_str());
        Ok(id.ok_or("session/new gave no id")?.to_owned())
    }

    pub fn prompt(&mut self, session: &str, text: &str) -> Result<Seen> {
        self.prompts(&[session], text, Keep::Counts)
    }

    /// Sends the same prompt to all these sessions and reads until every one is answered.
    pub fn prompts<T: AsRef<str>>(&mut self, sessions: &[T], text: &str, keep: Keep) -> Result<Seen> {
        for session in sessions {
            let prompt = json!([{"type": "text", "text": text}]);
            self.send("session/prompt", json!({"sessionId": session.as_ref(), "prompt": prompt}))?;
        }
        let seen = self.answers(sessions.len(), keep)?;
        match seen.results.iter().find(|result| result["stopReason"] != "end_turn") {
            None => Ok(seen),
            Some(result) => Err(format!("the turn ended with {result}").into()),
        }
    }

    /// Sends a prompt, cancels its turn behind the first update of a text or of a running call, and reads its answer.
    pub fn cancelled(&mut self, session: &str, text: &str) -> Result<()> {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send("session/prompt", json!({"sessionId": session, "prompt": prompt}))?;
        let is_begun = |line: &[u8]| {
            [&br#""agent_message_chunk""#[..], br#""in_progress""#].iter().any(|it| contains(line, it))
        };
        loop {
            self.line.clear();
            if self.output.read_until(b'\n', &mut self.line)? == 0 {
                return Err(self.failure("it ended").into());
            }
            if self.line.starts_with(UPDATE) && is_begun(&self.line) {
                break;
            }
        }
        self.write(&json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}))?;
        let seen = self.answers(1, Keep::Counts)?;
        match seen.results.first() {
            Some(result) if result["stopReason"] == "cancelled" => Ok(()),
            result => Err(format!("a cancelled turn ended with {result:?}").into()),
        }
    }

    pub fn call(&mut self, method: &str, params: Value) -> Result<Seen> {
        self.send(method, params)?;
        self.answers(1, Keep::Counts)
    }

    fn send(&mut self, method: &str, params: Value) -> Result<()> {
        let id = self.next_id;
        self.next_id += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    fn write(&mut self, message: &Value) -> Result<()> {
        let sent = self.input.write_all(format!("{message}\n").as_bytes());
        sent.map_err(|error| self.failure(&error.to_string()).into())
    }

    fn answers(&mut self, count: usize, keep: Keep) -> Result<Seen> {
        let mut seen = Seen::default();
        while seen.results.len() < count {
            self.line.clear();
            if self.output.read_until(b'\n', &mut self.line)? == 0 {
                return Err(self.failure("it ended, or was too slow and was killed").into());
            }
            seen.n_lines += 1;
            seen.n_bytes += self.line.len();
            if keep == Keep::Lines {
                seen.lines.extend_from_slice(&self.line);
            }
            if self.line.starts_with(UPDATE) {
                if seen.first_chunk.is_none() && contains(&self.line, br#""agent_message_chunk""#) {
                    seen.first_chunk = Some(Instant::now());
                }
                continue;
            }
            let message: Value = serde_json::from_slice(&self.line)?;
            match (message.get("method"), message.get("id")) {
                (Some(method), Some(id)) => {
                    let answer = self.answer(method, id, &message["params"]);
                    self.write(&answer)?;
                }
                (Some(_), None) => {
                    if message["params"]["update"]["sessionUpdate"] == "agent_message_chunk" {
                        seen.first_chunk.get_or_insert_with(Instant::now);
                    }
                }
                (None, _) => match message.get("result") {
                    Some(result) => seen.results.push(result.clone()),
                    None => return Err(self.failure(&message.to_string()).into()),
                },
            }
        }
        Ok(seen)
    }

    fn answer(&self, method: &Value, id: &Value, params: &Value) -> Value {
        if method == "session/request_permission" {
            let mut options = params["options"].as_array().into_iter().flatten();
            let allow = options.find(|option| option["kind"] == "allow_once");
            let outcome = json!({"outcome": "selected", "optionId": allow.map(|option| &option["optionId"])});
            return json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}});
        }
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}})
    }

    fn failure(&self, what: &str) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let start = log.floor_char_boundary(log.len().saturating_sub(500));
        format!("{what} {}", &log[start..])
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn memory(&self) -> Result<Memory> {
        usage::memory(self.child.id())
    }

    /// Returns the memory of the agent without its descendants.
    pub fn own_memory(&self) -> Result<Memory> {
        usage::own_memory(self.child.id())
    }

    pub fn n_descendants(&self) -> usize {
        usage::n_descendants(self.child.id())
    }

    pub fn cpu(&self) -> Result<Duration> {
        usage::cpu(self.child.id())
    }

    /// Returns how often the agent's threads were given the processor.
    pub fn switches(&self) -> Result<u64> {
        usage::switches(self.child.id())
    }

    pub fn own_cpu(&self) -> Result<Duration> {
        usage::own_cpu(self.child.id())
    }

    pub fn forget_peak(&self) -> Result<()> {
        usage::forget_peak(self.child.id())
    }

    /// Hangs up as a client does; returns the time until the agent ended.
    pub fn stop(self) -> Result<Duration> {
        let Self { mut child, input, mut output, _deadline, .. } = self;
        let start = Instant::now();
        drop(input);
        std::io::copy(&mut output, &mut std::io::sink())?;
        let exit = child.wait()?;
        if exit.success() { Ok(start.elapsed()) } else { Err(format!("it ended with {exit}").into()) }
    }
}

fn contains(line: &[u8], wanted: &[u8]) -> bool {
    line.windows(wanted.len()).any(|window| window == wanted)
}
