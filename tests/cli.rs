//! The commands beside `acp`: `run`, `models`, `session`, and the bare call.

use std::{process::Stdio, sync::Arc, time::Duration};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::support::{
    agent::{DEADLINE, binary},
    llm::{Finish, Gate, Llm, Reply, Wire, provider_config, request::Request, task},
    process,
    scratch::Scratch,
    stopwatch::Stopwatch,
};

/// Time that a signalled command may take to end.
const SIGNAL_LIMIT: Duration = Duration::from_secs(2);

/// A scratch machine with a scripted model, on which commands are run.
pub struct Machine {
    pub scratch: Arc<Scratch>,
    pub llm: Llm,
    pub config: Value,
}

/// End of a command.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Returns the JSON objects of stdout.
    pub fn lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the lines of stderr beside the session's.
    pub fn said(&self) -> String {
        self.stderr
            .lines()
            .filter(|line| !line.starts_with("Session: ses_"))
            .map(|line| format!("{line}\n"))
            .collect()
    }

    pub fn of_type(&self, wanted: &str) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["type"] == wanted).collect()
    }
}

impl Machine {
    pub async fn new() -> Self {
        let llm = Llm::start().await;
        let config = provider_config(&llm, Wire::OpenAi);
        Self { scratch: Scratch::new(), llm, config }
    }

    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.config[key] = value;
        self
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(arguments)
            .current_dir(&self.scratch.work)
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("WINDLASS_TRUST", "1")
            .env("HOME", &self.scratch.home)
            .env("SHELL", "/bin/bash")
            .env("OPENCODE_CONFIG_CONTENT", self.config.to_string())
            .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    pub async fn run(&self, arguments: &[&str]) -> Ended {
        ended(self.command(arguments).spawn().unwrap()).await
    }

    pub async fn pipe(&self, arguments: &[&str], input: impl AsRef<[u8]>) -> Ended {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_ref()).await.unwrap();
        ended(child).await
    }

    /// Returns a command that the test ends by itself.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// Interrupts a command as a terminal does.
    pub async fn interrupt(&self, child: Child) -> Ended {
        signal(&child, Signal::SIGINT);
        ended(child).await
    }

    /// Checks that the script was followed and nothing lives on.
    pub async fn finish(self) {
        assert_eq!(self.llm.problems(), Vec::<String>::new());
        let left = process::gone(&self.scratch.home).await;
        assert!(left.is_empty(), "processes outlive the command: {}", process::describe(&left));
    }

    /// Returns the sessions of every directory.
    pub async fn sessions(&self) -> Vec<Value> {
        let list = self.run(&["session", "list", "--all", "--format", "json"]).await;
        assert_eq!(list.code, Some(0), "{list:?}");
        serde_json::from_str(&list.stdout).unwrap()
    }
}

pub async fn ended(child: Child) -> Ended {
    let output =
        timeout(DEADLINE, child.wait_with_output()).await.expect("the command does not end").unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Starts a stopwatch on a command.
fn watch(child: &Child) -> Stopwatch {
    Stopwatch::start(child.id().unwrap().try_into().unwrap())
}

pub fn signal(child: &Child, signal: Signal) {
    process::send(i32::try_from(child.id().unwrap()).unwrap(), signal);
}

/// Returns everything users and the model said before the last prompt, as the model was told.
pub fn history(request: &Request) -> String {
    json!(request.messages()).to_string()
}

#[tokio::test]
async fn run_writes_the_text_to_stdout_and_the_calls_to_stderr() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("I look. ").and_call("call_1", "bash", json!({"command": "echo hi"})));
    machine.llm.reply(Reply::deltas(["All ", "is ", "well."]));
    let ended = machine.run(&["run", "look", "around"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "I look. \nAll is well.\n"));
    assert_eq!(ended.said(), "| bash  echo hi\n");
    assert_eq!(machine.llm.last_request().last_user(), "look around");
    let id = ended.stderr.lines().last().unwrap().strip_prefix("Session: ").unwrap();
    assert_eq!(machine.sessions().await[0]["id"], id);
    machine.finish().await;
}

#[tokio::test]
async fn the_text_comes_while_the_model_speaks() {
    let machine = Machine::new().await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("begun").and_gate(&gate).and_text(" and done"));
    let mut child = machine.command(&["run", "go"]).spawn().unwrap();
    let mut begun = [0; 5];
    let stdout = child.stdout.as_mut().unwrap();
    timeout(DEADLINE, stdout.read_exact(&mut begun)).await.unwrap().unwrap();
    assert_eq!(&begun, b"begun");
    gate.open();
    assert_eq!(ended(child).await.stdout, " and done\n");
    machine.finish().await;
}

#[tokio::test]
async fn a_pipe_shows_the_end_of_a_failed_command_and_what_rules_refused() {
    let rules = json!({"bash": {"*": "allow", "rm *": "deny"}});
    let machine = Machine::new().await.with("permission", rules);
    let failing = json!({"command": "for i in $(seq 12); do echo line $i; done; exit 7"});
    let calls = Reply::call("c1", "bash", json!({"command": "false"})).and_call("c2", "bash", failing);
    machine.llm.reply(calls.and_call("c3", "bash", json!({"command": "rm a.txt"})));
    machine.llm.reply(Reply::text("Done."));
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Done.\n"), "{ended:?}");
    let said = ended.said();
    assert!(said.contains("| bash  false: exit code 1\n"), "{said}");
    let shown: String = (3..=12).map(|n| format!("  line {n}\n")).collect();
    assert!(said.contains(&format!("exit 7: exit code 7\n{shown}")) && !said.contains("line 2\n"), "{said}");
    assert!(said.ends_with("Rules refused 1 call; --strict ends a run at the first.\n"), "{said}");
    machine.finish().await;
}

#[tokio::test]
async fn run_writes_opencodes_json_lines() {
    let machine = Machine::new().await;
    let call = Reply::reasoning("hm").and_text("I look.");
    machine.llm.reply(call.and_call("call_1", "bash", json!({"command": "echo hi"})));
    machine.llm.reply(Reply::deltas(["All ", "well."]));
    let ended = machine.run(&["run", "--format", "json", "look"]).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let lines = ended.lines();
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    let parts = ["step_start", "text", "tool_use", "step_finish", "step_start", "text", "step_finish"];
    assert_eq!(kinds.split_last(), Some((&"result", &parts[..])));
    let session = &lines[0]["sessionID"];
    for line in &lines[..parts.len()] {
        assert!(line["timestamp"].is_i64() && line["sessionID"] == *session, "{line}");
        assert!(session.as_str().is_some_and(|id| id.starts_with("ses_")));
        assert_eq!(line["part"]["sessionID"], *session);
    }
    assert_eq!(lines[1]["part"]["text"], "I look.");
    assert_eq!(lines[2]["part"]["state"]["output"], "hi\n");
    assert_eq!(lines[5]["part"]["text"], "All well.");
    assert_eq!(lines[6]["part"]["reason"], "stop");
    machine.finish().await;
}

#[tokio::test]
async fn thoughts_are_shown_on_request() {
    let machine = Machine::new().await;
    for _ in 0..2 {
        machine.llm.reply(Reply::reasoning("hm").and_text("42"));
    }
    let ended = machine.run(&["run", "--thinking", "why"]).await;
    assert_eq!((ended.stdout.as_str(), ended.said().as_str()), ("42\n", "Thinking: hm\n"));
    let ended = machine.run(&["run", "--thinking", "--format", "json", "why"]).await;
    assert_eq!(ended.of_type("reasoning")[0]["part"]["text"], "hm");
    machine.finish().await;
}

#[tokio::test]
async fn what_is_piped_belongs_to_the_prompt() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("ok"));
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.pipe(&["run", "explain", "this"], "a log\n  of two lines\n").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(machine.llm.last_request().last_user(), "explain this\n\na log\n  of two lines");
    machine.pipe(&["run"], "only this\n").await;
    assert_eq!(machine.llm.last_request().last_user(), "only this");
    machine.finish().await;
}

#[tokio::test]
async fn nothing_to_say_is_a_mistake_of_the_call() {
    let machine = Machine::new().await;
    let ended = machine.pipe(&["run"], " \n").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains("No prompt: give one"), "{ended:?}");
    assert_eq!(machine.sessions().await, Vec::<Value>::new());
    machine.finish().await;
}

#[tokio::test]
async fn model_and_agent_can_be_chosen() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "-m", "mock/other", "--agent", "plan", "go"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let request = machine.llm.last_request();
    assert_eq!(request.body["model"], "other");
    assert!(history(&request).contains("Plan mode"), "{:#}", request.body["messages"]);
    machine.finish().await;
}

#[tokio::test]
async fn an_unknown_model_agent_or_session_is_told_before_anything_is_made() {
    let machine = Machine::new().await;
    for (code, arguments, hint) in [
        (1, &["run", "--model", "mok/other", "go"][..], "did you mean mock/other?"),
        (1, &["run", "--model", "mok/other", "go"], "\"provider\": {\"mok\": {\"npm\": "),
        (2, &["run", "--model", "other", "go"], "provider/model"),
        (2, &["run", "--agent", "plann", "go"], "build, plan (did you mean plan?)"),
        (1, &["run", "--session", "ses_none", "go"], "windlass session list"),
        (1, &["run", "--session", "none", "go"], "windlass session list"),
        (2, &["run", "--file", "none.txt", "go"], "none.txt cannot be attached"),
        (2, &["run", "--dir", "none", "go"], "none cannot be used"),
    ] {
        let ended = machine.run(arguments).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{arguments:?}");
        assert!(ended.stderr.contains(hint), "{arguments:?}: {}", ended.stderr);
    }
    assert_eq!(machine.sessions().await, Vec::<Value>::new());
    machine.finish().await;
}

#[tokio::test]
async fn a_session_can_be_continued() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("Hello Ada"));
    machine.run(&["run", "-m", "mock/other", "--continue", "I am Ada"]).await;
    machine.llm.reply(Reply::text("You are Ada"));
    let ended = machine.run(&["run", "-c", "--format", "json", "who am I"]).await;
    let request = machine.llm.last_request();
    assert!(history(&request).contains("I am Ada") && history(&request).contains("Hello Ada"));
    assert_eq!(request.body["model"], "other", "a session keeps its model");
    let id = ended.lines()[0]["sessionID"].as_str().unwrap().to_owned();

    // Another session is newer now; the first is still reached by its id.
    machine.llm.reply(Reply::text("ok"));
    machine.run(&["run", "something else"]).await;
    assert!(!history(&machine.llm.last_request()).contains("Ada"));
    machine.llm.reply(Reply::text("Ada again"));
    machine.run(&["run", "-s", &id, "-m", "mock/mock", "and now"]).await;
    let request = machine.llm.last_request();
    assert!(history(&request).contains("You are Ada") && request.body["model"] == "mock");
    assert_eq!(machine.sessions().await.len(), 2);
    machine.finish().await;
}

#[tokio::test]
async fn a_title_can_be_given_or_taken_from_the_prompt() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("ok"));
    machine.run(&["run", "--title", "Nightly", "go"]).await;
    machine.llm.reply(Reply::text("ok"));
    machine.run(&["run", "--title", "", "fix the parser"]).await;
    machine.llm.reply(Reply::text("ok"));
    machine.run(&["run", "go"]).await;
    let sessions = machine.sessions().await;
    let titles: Vec<&str> = sessions.iter().map(|session| session["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["Scripted title", "fix the parser", "Nightly"]);
    assert_eq!(machine.llm.title_requests().len(), 1);
    machine.finish().await;
}

#[tokio::test]
async fn files_are_attached() {
    let machine = Machine::new().await;
    machine.scratch.write("sub dir/b?.txt", "content of b");
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "-f", "a.txt", "--file", "sub dir/b?.txt", "compare"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let said = history(&machine.llm.last_request());
    assert!(said.contains("three") && said.contains("content of b") && said.contains("compare"), "{said}");
    machine.finish().await;
}

#[tokio::test]
async fn the_directory_can_be_chosen() {
    let machine = Machine::new().await;
    machine.scratch.write("sub/c.txt", "");
    machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "pwd"})));
    machine.llm.reply(Reply::text("ok"));
    machine.run(&["run", "--dir", "sub", "where"]).await;
    assert_eq!(machine.llm.last_request().tool_result("call_1").trim(), machine.scratch.path("sub"));
    assert_eq!(machine.sessions().await[0]["directory"], machine.scratch.path("sub"));
    machine.finish().await;
}

#[tokio::test]
async fn what_would_have_to_be_asked_is_rejected() {
    let machine = Machine::new().await.with("permission", json!({"bash": "ask"}));
    for arguments in [&["run", "go"][..], &["run", "--format", "json", "go"]] {
        machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
        let ended = machine.run(arguments).await;
        assert_eq!(ended.code, Some(3), "somebody should have been asked: {ended:?}");
        let asked = ended.stderr.lines().next().unwrap();
        assert!(asked.contains("bash (touch made)") && asked.contains("--auto"), "{asked}");
        assert!(asked.contains("opencode.json"), "{asked}");
        assert!(!machine.scratch.exists("made"));
    }
    machine.finish().await;
}

#[tokio::test]
async fn a_failed_command_of_a_subagent_is_shown_in_a_pipe() {
    let machine = Machine::new().await;
    machine.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    let commands = Reply::call("call_2", "bash", json!({"command": "echo why; exit 4"}));
    machine.llm.reply_to("CHILD", commands.and_call("call_3", "bash", json!({"command": "echo fine"})));
    machine.llm.reply_to("CHILD", Reply::text("found"));
    machine.llm.reply_to("go", Reply::text("done"));
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "done\n"), "{ended:?}");
    let said = ended.said();
    assert!(said.contains("  | bash  echo why; exit 4: exit code 4\n    why\n| task  "), "{said}");
    assert!(!said.contains("fine"), "{said}");
    machine.finish().await;
}

#[tokio::test]
async fn a_command_whose_input_says_nothing_tells_what_it_waits_for() {
    let machine = Machine::new().await;
    let calls = [
        (&["run"][..], "waits for the end of standard input, which becomes a part of the prompt"),
        (&["run", "hi"], "`</dev/null`"),
        (&["run", "--format", "json", "hi"], "`</dev/null`"),
        (
            &["auth", "login", "--provider", "openai", "--no-verify"],
            "waits for a line on standard input: \"Key",
        ),
        (&["import", "-"], "`windlass import FILE` reads a file"),
    ];
    // All at once, because each takes its patience.
    let start = |arguments| machine.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let started: Vec<_> =
        calls.into_iter().map(|(arguments, told)| (arguments, told, start(arguments))).collect();
    for (arguments, told, mut child) in started {
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = timeout(DEADLINE, stderr.next_line()).await.unwrap().unwrap().unwrap();
        assert!(said.contains(told), "{arguments:?}: {said}");
        child.kill().await.unwrap();
    }
    machine.finish().await;
}

#[tokio::test]
async fn a_pipe_without_a_command_says_how_to_send_a_prompt() {
    let machine = Machine::new().await;
    for words in ["fix the bug", "fix the bug\nin a.txt\n", "{fix it}\n", "7\n"] {
        let mut child = machine.command(&[]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(words.as_bytes()).await.unwrap();
        let ended = ended(child).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{words}: {ended:?}");
        assert!(ended.stderr.contains("for a prompt: `windlass run`"), "{words}: {ended:?}");
    }
    // An input that says nothing is told of; a client that comes late is served.
    let mut child = machine.command(&[]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let said = timeout(DEADLINE, stderr.next_line()).await.unwrap().unwrap().unwrap();
    assert!(
        said.contains("waits for the Agent Client Protocol") && said.contains("`windlass run`"),
        "{said}"
    );
    let params = json!({"protocolVersion": 1});
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    drop(stdin);
    let ended = ended(child).await;
    assert_eq!(
        (ended.code, &ended.lines()[0]["result"]["protocolVersion"]),
        (Some(0), &json!(1)),
        "{ended:?}"
    );
    machine.finish().await;
}

#[tokio::test]
async fn auto_allows_what_is_not_denied() {
    let rules = json!({"bash": {"*": "ask", "rm *": "deny"}});
    let machine = Machine::new().await.with("permission", rules);
    machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})).and_call(
        "call_2",
        "bash",
        json!({"command": "rm a.txt"}),
    ));
    machine.llm.reply(Reply::text("done"));
    let ended = machine.run(&["run", "--auto", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "done\n"), "{ended:?}");
    assert!(machine.scratch.exists("made") && machine.scratch.exists("a.txt"));
    assert!(!ended.stderr.contains("rejected"), "{}", ended.stderr);
    machine.finish().await;
}

#[tokio::test]
async fn a_failure_of_the_provider_is_a_failure_of_the_command() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::status(400));
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(
        ended.stderr.starts_with("Error: ") && ended.stderr.contains("scripted failure 400"),
        "{ended:?}"
    );

    machine.llm.reply(Reply::text("half").and_cut());
    let ended = machine.run(&["run", "--format", "json", "go"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let error = &ended.of_type("error")[..];
    assert_eq!(error.len(), 1, "{}", ended.stdout);
    assert_eq!(error[0]["error"]["name"], "APIError");
    assert!(error[0]["error"]["data"]["message"].is_string());
    assert_eq!(ended.of_type("text")[0]["part"]["text"], "half");

    machine.llm.reply(Reply::text("no").finish(Finish::Filter));
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), "no\n"));
    assert!(ended.stderr.contains("refused"), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_signal_ends_the_command_and_what_it_started() {
    for (number, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let machine = Machine::new().await;
        let fifo = machine.scratch.path("begun");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let command = format!("sleep 600 & echo begun > {fifo}; sleep 600");
        machine.llm.reply(Reply::text("I start").and_call("call_1", "bash", json!({"command": command})));
        let child = machine.command(&["run", "--format", "json", "go"]).spawn().unwrap();
        let begun = timeout(DEADLINE, tokio::fs::read(&fifo)).await.unwrap().unwrap();
        assert_eq!(begun, b"begun\n");
        let watch = watch(&child);
        signal(&child, number);
        let ended = watch.within(SIGNAL_LIMIT, "the command's end", ended(child)).await;
        assert_eq!(ended.code, Some(code));
        assert_eq!(ended.of_type("text")[0]["part"]["text"], "I start");
        assert_eq!(ended.of_type("tool_use")[0]["part"]["state"]["status"], "error");
        machine.finish().await;
    }
}

#[tokio::test]
async fn a_signal_ends_a_command_that_waits() {
    let machine = Machine::new().await;
    // For the rest of its input,
    let mut child = machine.command(&["run"]).stdin(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    // for the model,
    let gate = Gate::new();
    machine.llm.reply(Reply::hang(&gate));
    let asking = machine.command(&["run", "go"]).spawn().unwrap();
    gate.reached().await;
    // or for a reader.
    let spoken = Gate::new();
    machine.llm.reply(Reply::deltas((0..20_000).map(|n| format!("delta {n} "))).and_gate(&spoken));
    let mut unread = machine.command(&["run", "go"]).spawn().unwrap();
    spoken.reached().await;
    for child in [&mut child, &mut unread] {
        let watch = watch(child);
        signal(child, Signal::SIGTERM);
        let exit = watch.within(SIGNAL_LIMIT, "the command's end", child.wait()).await.unwrap();
        assert_eq!(exit.code(), Some(143));
    }
    signal(&asking, Signal::SIGTERM);
    assert_eq!(ended(asking).await.code, Some(143));
    drop(input);
    machine.finish().await;
}

#[tokio::test]
async fn a_closed_stdout_ends_the_command_quietly() {
    let machine = Machine::new().await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("x").and_gate(&gate).and_text("y").and_call(
        "call_1",
        "bash",
        json!({"command": "sleep 600"}),
    ));
    let mut child = machine.command(&["run", "go"]).spawn().unwrap();
    gate.reached().await;
    drop(child.stdout.take());
    gate.open();
    let ended = ended(child).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(141), ""));

    let mut child = machine.command(&["models"]).spawn().unwrap();
    drop(child.stdout.take());
    let ended = self::ended(child).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    machine.finish().await;
}

#[tokio::test]
async fn models_are_listed() {
    let machine = Machine::new().await;
    let ended = machine.run(&["models"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "mock/other\nmock/mock\nwindlass/demo\n"));
    let ended = machine.run(&["models", "windlass"]).await;
    assert_eq!(ended.stdout, "windlass/demo\n");
    let ended = machine.run(&["models", "mock", "--verbose"]).await;
    let (first, details) = ended.stdout.split_once('\n').unwrap();
    let details = serde_json::Deserializer::from_str(details).into_iter::<Value>().next().unwrap().unwrap();
    assert_eq!((first, &details["limit"]), ("mock/other", &json!({"context": 100_000, "output": 4096})));
    assert_eq!(details["cost"]["input"], 0.0);
    let ended = machine.run(&["models", "none"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("mock, windlass"), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn sessions_are_listed_and_deleted() {
    let machine = Machine::new().await;
    std::fs::create_dir(machine.scratch.root().join("elsewhere")).unwrap();
    machine.scratch.write("sub/c.txt", "");
    let ended = machine.run(&["session", "list"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""));
    for (title, dir) in [("first", "."), ("second", "sub"), ("third", "../elsewhere")] {
        machine.llm.reply(Reply::text("ok"));
        machine.run(&["run", "--title", title, "--dir", dir, "go"]).await;
    }
    let titles = async |arguments: &[&str]| {
        let arguments = [&["session", "list", "--format", "json"], arguments].concat();
        let rows: Vec<Value> = serde_json::from_str(&machine.run(&arguments).await.stdout).unwrap();
        rows.iter().map(|row| row["title"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(titles(&[]).await, ["second", "first"]);
    assert_eq!(titles(&["-n", "1"]).await, ["second"]);
    assert_eq!(titles(&["--all"]).await, ["third", "second", "first"]);

    let rows = machine.sessions().await;
    let id = rows[1]["id"].as_str().unwrap();
    let table = machine.run(&["session", "list"]).await.stdout;
    assert!(table.lines().count() == 3 && table.contains(id), "{table}");
    let ended = machine.run(&["session", "delete", id]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(titles(&["--all"]).await, ["third", "first"]);
    for unknown in [id, "none"] {
        let ended = machine.run(&["session", "delete", unknown]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
        assert!(ended.stderr.contains("not deleted"), "{ended:?}");
    }
    machine.finish().await;
}

#[tokio::test]
async fn help_and_version_are_told() {
    let machine = Machine::new().await;
    for flag in ["--version", "-v"] {
        let ended = machine.run(&[flag]).await;
        let version = format!("windlass {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!((ended.code, ended.stdout), (Some(0), version));
    }
    let ended = machine.run(&["--version", "--verbose"]).await;
    for words in ["windlass ", "\ncommit: ", "\nsystem: ", "\nbuild: "] {
        assert!(ended.code == Some(0) && ended.stdout.contains(words), "{ended:?}");
    }
    assert_eq!(machine.run(&["--verbose"]).await.code, Some(2));
    let ended = machine.run(&["--help"]).await;
    assert_eq!(ended.code, Some(0));
    for command in ["acp", "run", "models", "session", "auth", "demo"] {
        assert!(ended.stdout.contains(command), "{}", ended.stdout);
    }
    for words in ["Work:", "Look into:", "git diff | windlass run \"review this\"", "--continue"] {
        assert!(ended.stdout.contains(words), "{}", ended.stdout);
    }
    assert!(!ended.stdout.contains('\x1b'), "{}", ended.stdout);
    let ended = machine.run(&["man"]).await;
    for heading in ["EXAMPLES", "\"EXIT STATUS\"", "\"FILES\"", "\"ENVIRONMENT\""] {
        assert!(ended.stdout.contains(&format!(".SH {heading}\n")), "{heading}");
    }
    let ended = machine.run(&["run", "--help"]).await;
    for option in ["--format", "--model", "--agent", "--continue", "--session", "--auto", "--file"] {
        assert!(ended.stdout.contains(option), "{}", ended.stdout);
    }
    let ended = machine.run(&["nonsense"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains("nonsense"), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn run_has_nobody_to_ask_and_says_so_to_the_model() {
    for switch in [None, Some("0"), Some("1")] {
        let told = "Nobody can be asked: there is no user who could answer in this run. Decide by yourself";
        let machine = Machine::new().await;
        let questions = json!({"questions": [{"question": "Which?", "header": "h", "options": []}]});
        machine.llm.reply(Reply::call("call_1", "question", questions));
        machine.llm.reply(Reply::text("decided"));
        let mut command = machine.command(&["run", "go"]);
        if let Some(switch) = switch {
            command.env("OPENCODE_ENABLE_QUESTION_TOOL", switch);
        }
        let ended = ended(command.spawn().unwrap()).await;
        assert_eq!((ended.code, ended.stdout.trim()), (Some(0), "decided"), "{ended:?}");
        let request = machine.llm.last_request();
        assert!(request.tool_result("call_1").contains(told), "{}", request.tool_result("call_1"));
        let tools = request.tools();
        assert_eq!(tools.contains(&"question".to_owned()), switch == Some("1"), "{tools:?}");
        assert!(!tools.iter().any(|tool| tool.starts_with("plan_")), "{tools:?}");
        machine.finish().await;
    }
}
