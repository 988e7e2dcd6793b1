//! The agent under test: the real binary on its pipes, started on a scratch machine, and a client that accepts
//! no mistakes.
//!
//! Every line is checked as it arrives. `finish` ends the process and fails the test on everything that a
//! client must not see: a line that is no JSON object or violates the schema, two answers to one request, a
//! request that was not read, an update after its turn, a process left behind.

pub mod asks;
mod calls;
mod failure;
pub mod requests;
mod seen;
pub mod wire;

use std::{
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, atomic::AtomicI64},
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    process::{Child, Command},
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};

use self::wire::{Input, NOT_JSON, Shared};
use super::{
    llm::{Llm, Wire, provider_config},
    process,
    scratch::Scratch,
    stopwatch::Stopwatch,
};

/// The time after which a test gives up.
pub const DEADLINE: Duration = Duration::from_secs(20);
/// The time limit for the end of a cancelled turn.
pub const CANCEL_LIMIT: Duration = Duration::from_secs(1);

/// The client's answer to `session/request_permission`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
    /// The outcome `cancelled`.
    Cancelled,
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
    has_sockets: bool,
}

impl Builder {
    /// Merges `config` over the inline configuration (`OPENCODE_CONFIG_CONTENT`); a null removes a key.
    pub fn config(mut self, config: Value) -> Self {
        // Merged at the start only: a `null` must still find the key that it removes.
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

    /// Speaks by sockets, as clients on Node and libuv do, and not by pipes.
    pub fn on_sockets(mut self) -> Self {
        self.has_sockets = true;
        self
    }

    /// Starts the agent by this command, which must become the agent: its process is the one that is watched.
    pub fn started_by(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    pub fn wire(mut self, wire: Wire) -> Self {
        self.wire = Some(wire);
        self
    }

    /// Configures no provider, so that the demo model answers.
    pub fn without_provider(mut self) -> Self {
        self.wire = None;
        self
    }

    /// Uses the machine of another agent, to see which state outlives a process.
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

    /// Starts an agent and initializes it as a client without capabilities.
    pub async fn start(self) -> Agent {
        self.spawn().await.initialized().await
    }

    pub async fn spawn(self) -> Agent {
        failure::keep();
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
            .env("WINDLASS_TRUST", "1")
            .env("HOME", &scratch.home)
            .env("SHELL", "/bin/bash")
            .env("OPENCODE_CONFIG_CONTENT", config.to_string())
            .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
            .envs(self.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let sockets = self.has_sockets.then(|| {
            let [input, output] = [(); 2].map(|()| UnixStream::pair().unwrap());
            command.stdin(OwnedFd::from(input.1)).stdout(OwnedFd::from(output.1));
            [input.0, output.0].map(|socket| {
                socket.set_nonblocking(true).unwrap();
                tokio::net::UnixStream::from_std(socket).unwrap()
            })
        });
        let mut child = command.spawn().unwrap();
        // The parent's copies of the child's ends are closed with it.
        drop(command);
        let pid = i32::try_from(child.id().unwrap()).unwrap();

        let (queue, commands) = mpsc::unbounded_channel();
        let (state, version) = (Mutex::default(), watch::Sender::new(0));
        let shared = Arc::new(Shared { pid, state, version, input: queue });
        shared.state.lock().unwrap().policy = self.policy;
        let reading = watch::Sender::new(true);
        let stderr = child.stderr.take().unwrap();
        let (input, output): (Box<dyn AsyncWrite + Send + Unpin>, Box<dyn AsyncRead + Send + Unpin>) =
            match sockets {
                Some([input, output]) => (Box::new(input), Box::new(output)),
                None => (Box::new(child.stdin.take().unwrap()), Box::new(child.stdout.take().unwrap())),
            };
        let writer = tokio::spawn(wire::write_input(input, commands));
        let stderr = tokio::spawn(wire::collect_stderr(stderr, shared.clone()));
        let reader = tokio::spawn(wire::read_output(output, shared.clone(), reading.subscribe()));
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

/// Returns the path of the binary under test; `E2E_BINARY` names another, such as a release build.
pub fn binary() -> PathBuf {
    PathBuf::from(std::env::var("E2E_BINARY").unwrap_or(env!("CARGO_BIN_EXE_windlass").to_owned()))
}

/// Merges `over` over `base`; a null removes a key.
pub fn merge(base: &mut Value, over: Value) {
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
            has_sockets: false,
        }
    }

    /// Starts an agent and initializes it.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Starts an agent with its own configuration.
    pub async fn start_with(config: Value) -> Self {
        Self::builder().config(config).start().await
    }

    /// Starts an agent that asks its user before it uses this permission.
    pub async fn asking(permission: &str) -> Self {
        Self::start_with(json!({"permission": {permission: "ask"}})).await
    }

    /// Builds another agent on the same machine and with the same model.
    pub fn successor(&self) -> Builder {
        Self::builder().scratch(&self.scratch).llm(&self.llm)
    }

    /// Ends the agent and starts another in its place, to see which state outlives a process.
    pub async fn restarted(self) -> Self {
        let builder = self.successor();
        self.finish().await;
        builder.start().await
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

    /// Waits until everything has been written to stdin and, after `close_stdin`, the pipe is closed.
    pub async fn input_written(&mut self) {
        timeout(DEADLINE, &mut self.writer).await.expect("the agent does not read its stdin").unwrap();
    }

    /// Permits updates between the prompts, for tests of subagents in the background.
    pub fn allow_own_turns(&self) {
        self.shared.state.lock().unwrap().has_own_turns = true;
    }

    /// Permits open requests and a cut last line, for tests that end the output in the middle.
    pub fn allow_cut_output(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.may_be_cut = true;
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Starts a stopwatch on this agent.
    pub fn stopwatch(&self) -> Stopwatch {
        Stopwatch::start(self.pid)
    }

    pub fn signal(&self, signal: Signal) {
        process::send(self.pid, signal);
    }

    /// Waits for the process to end by itself.
    pub async fn wait_exit(&mut self) -> ExitStatus {
        self.wait_exit_within(DEADLINE).await
    }

    /// Waits for the process to end by itself in time, where the time is a claim.
    pub async fn wait_exit_within(&mut self, limit: Duration) -> ExitStatus {
        if let Some(exit) = self.exit {
            return exit;
        }
        let exit = self.stopwatch().within(limit, "the agent's end", self.child.wait()).await.unwrap();
        self.exit = Some(exit);
        exit
    }

    /// Returns the agent's descendants, without its reaper, and without git, which comes and goes by itself.
    pub fn descendants(&self) -> Vec<i32> {
        let living = process::living(&self.scratch.home).into_iter();
        let is_passed_over = |pid| pid == self.pid || process::is_reaper(pid) || process::is_git(pid);
        living.filter(|pid| !is_passed_over(*pid)).collect()
    }

    /// Returns the process that kills the agent's children if the agent is killed. It belongs to one agent
    /// only.
    pub fn reaper(&self) -> Option<i32> {
        process::children(self.pid).into_iter().find(|pid| process::is_reaper(*pid))
    }

    /// Waits until the agent has some number of descendants.
    pub async fn has_descendants(&self, n_descendants: usize) {
        self.until(DEADLINE, |descendants| descendants.len() >= n_descendants).await;
    }

    /// Waits until all processes that the agent started have ended; fails after `limit`.
    pub async fn childless(&self, limit: Duration) {
        self.until(limit, <[i32]>::is_empty).await;
    }

    async fn until(&self, limit: Duration, is_wanted: impl Fn(&[i32]) -> bool) {
        let watch = self.stopwatch();
        loop {
            let descendants = self.descendants();
            if is_wanted(&descendants) {
                return;
            }
            assert!(watch.elapsed() < limit, "alive: {}", process::describe(&descendants));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends the agent as a client does, by closing its stdin, and fails on everything it did wrong.
    pub async fn finish(mut self) {
        self.end().await;
        let left = process::gone(&self.scratch.home).await;
        assert!(left.is_empty(), "processes outlive the agent: {}", process::describe(&left));
    }

    /// Waits until everything that an ended agent has written is read.
    pub async fn output_read(&mut self) {
        timeout(DEADLINE, &mut self.reader).await.expect("stdout stays open after the exit").unwrap();
    }

    /// Drops an agent that was killed; fails on everything that it did wrong before.
    pub async fn forget(mut self) {
        let mut state = self.shared.state.lock().unwrap();
        state.failures.retain(|failure| !failure.starts_with(NOT_JSON));
        let failures = std::mem::take(&mut state.failures);
        drop(state);
        assert!(failures.is_empty(), "{}", failures.join("\n"));
        self.is_finished = true;
    }

    /// Like `finish`, while another agent lives on the same scratch machine.
    pub async fn finish_beside(mut self, other: &Agent) {
        self.end().await;
        // Not by its environment, which it hides from its own user.
        assert!(process::runs(other.pid));
    }

    async fn end(&mut self) {
        if self.exit.is_none() {
            self.close_stdin();
            let exit = self.wait_exit().await;
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
            // Once more: a log of many lines is often shown from its end.
            eprintln!("--- {}", failure::kept());
        } else {
            assert!(self.is_finished, "the test did not call `finish`");
        }
    }
}
