//! `windlass mcp serve`: programs give it tasks by the tools of an MCP server.

use std::{process::Stdio, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
    time::timeout,
};

use crate::{
    cli::{Machine, ended},
    support::{
        agent::DEADLINE,
        llm::{Gate, Reply},
        process,
        server::{Server, answer},
        stopwatch::Stopwatch,
    },
};

/// Time that it may take to end once its client has gone.
const END_LIMIT: Duration = Duration::from_secs(2);

/// A client that speaks MCP on the pipes of a server.
struct Client {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    last_id: u64,
    /// Notifications that came while something else was waited for.
    notes: Vec<Value>,
}

impl Client {
    async fn start(machine: &Machine) -> Self {
        Self::start_with(machine, json!({})).await
    }

    async fn start_with(machine: &Machine, capabilities: Value) -> Self {
        let mut child = machine.command(&["mcp", "serve"]).stdin(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let lines = BufReader::new(output).lines();
        let mut client = Self { child, input, lines, last_id: 0, notes: Vec::new() };
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = client.request("initialize", params).await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "windlass");
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
        client.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()).await;
        client
    }

    async fn write(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.write(&request.to_string()).await;
        self.last_id
    }

    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let line = timeout(DEADLINE, self.lines.next_line()).await.expect("no answer").unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
            self.notes.push(message);
        }
    }

    /// Waits for a request of the server.
    async fn asked(&mut self, method: &str) -> Value {
        loop {
            let line = timeout(DEADLINE, self.lines.next_line()).await.expect("no request").unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] == method {
                return message;
            }
            self.notes.push(message);
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    async fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.send("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Calls a tool and returns its result, which both forms must agree on.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments).await;
        self.result(id).await
    }

    async fn result(&mut self, id: u64) -> Value {
        let answer = self.answer(id).await;
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"));
        let told: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("no object: {answer}"));
        assert_eq!(result["structuredContent"], told);
        assert_eq!(result["isError"] == true, told["state"] == "failed");
        told
    }

    /// Calls a tool that refuses, and returns the sentence.
    async fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let id = self.begin(tool, arguments).await;
        let answer = self.answer(id).await;
        if let Some(reason) = answer["error"]["message"].as_str() {
            return reason.to_owned();
        }
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    async fn finish(self) {
        drop(self.input);
        let ended = ended(self.child).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    }
}

#[tokio::test]
async fn a_program_gives_a_task_and_goes_on_with_it() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("It is 42."));
    let mut client = Client::start(&machine).await;
    let done = client.call("start_session", json!({"prompt": "What is it?", "title": "Sums"})).await;
    assert_eq!((done["state"].as_str(), done["answer"].as_str()), (Some("done"), Some("It is 42.")));
    assert_eq!(done["stop_reason"], "end_turn");
    assert!(done["tokens"]["input"].as_u64() > Some(0), "{done}");
    let session = done["session_id"].as_str().unwrap().to_owned();

    machine.llm.reply(Reply::text("And 43."));
    let more = client.call("prompt_session", json!({"session_id": session, "prompt": "And then?"})).await;
    assert_eq!(more["answer"], "And 43.");
    let listed = client.call("list_sessions", json!({})).await;
    assert_eq!(listed["sessions"][0]["session_id"], session);
    assert_eq!(listed["sessions"][0]["title"], "Sums");
    assert_eq!(listed["sessions"][0]["state"], "done");
    client.finish().await;

    // Another process goes on with it.
    let mut client = Client::start(&machine).await;
    assert_eq!(client.call("read_session", json!({"session_id": session})).await["state"], "idle");
    machine.llm.reply(Reply::text("44."));
    let last = client.call("prompt_session", json!({"session_id": session, "prompt": "Next?"})).await;
    assert_eq!(last["answer"], "44.");
    assert!(machine.llm.last_request().body.to_string().contains("It is 42."));
    client.finish().await;
    machine.finish().await;
}

#[tokio::test]
async fn questions_come_back_and_wait_for_their_answers() {
    let machine = Machine::new().await.with("permission", json!({"bash": "ask"}));
    let mut client = Client::start(&machine).await;
    machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo done > made.txt"})));
    let asked = client.call("start_session", json!({"prompt": "go"})).await;
    assert_eq!(asked["state"], "waiting");
    let question = &asked["questions"][0];
    assert_eq!((&question["kind"], &question["permission"]), (&json!("permission"), &json!("bash")));
    assert_eq!(question["patterns"], json!(["echo done > made.txt"]));
    let named = |answer: Value| json!({"session_id": asked["session_id"], "question_id": question["id"], "answer": answer});
    let refused = client.refused("answer_question", named(json!("yes"))).await;
    assert_eq!(refused, "A permission is answered by one of once, always, reject, reject_always.");
    assert!(!machine.scratch.exists("made.txt"));
    let choices = json!([{"question": "Which?", "header": "Colour", "options": [
        {"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]}]);
    machine.llm.reply(Reply::call("call_2", "question", json!({"questions": choices})));
    let asked_again = client.call("answer_question", named(json!("once"))).await;
    assert!(machine.scratch.exists("made.txt"));
    assert_eq!(asked_again["state"], "waiting");
    assert_eq!(asked_again["questions"][0]["questions"][0]["header"], "Colour");
    let gone = client.refused("answer_question", named(json!("once"))).await;
    assert!(gone.starts_with("No question ") && gone.contains("; there are "), "{gone}");
    machine.llm.reply(Reply::text("Blue it is."));
    let answer = json!({
        "session_id": asked["session_id"], "question_id": asked_again["questions"][0]["id"], "answer": "blue",
    });
    let done = client.call("answer_question", answer).await;
    assert_eq!((done["state"].as_str(), done["answer"].as_str()), (Some("done"), Some("Blue it is.")));
    assert!(machine.llm.last_request().body.to_string().contains("blue"));
    client.finish().await;
    machine.finish().await;
}

#[tokio::test]
async fn a_session_that_waits_for_answers_is_cancelled_with_its_questions() {
    let machine = Machine::new().await.with("permission", json!({"bash": "ask"}));
    let mut client = Client::start(&machine).await;
    let calls = Reply::call("call_1", "bash", json!({"command": "touch one"}));
    machine.llm.reply(calls.and_call("call_2", "bash", json!({"command": "touch two"})));
    let asked = client.call("start_session", json!({"prompt": "go"})).await;
    assert_eq!(asked["state"], "waiting");
    let cancelled = client.call("cancel_session", json!({"session_id": asked["session_id"]})).await;
    assert_eq!((&cancelled["state"], &cancelled["questions"]), (&json!("cancelled"), &json!([])));
    assert!(!machine.scratch.exists("one"));
    client.finish().await;
    machine.finish().await;
}

#[tokio::test]
async fn work_is_cancelled_by_a_tool_and_with_its_call() {
    let machine = Machine::new().await;
    let mut client = Client::start(&machine).await;
    let gate = Gate::new();
    machine.llm.reply(Reply::hang(&gate));
    let running = client.call("start_session", json!({"prompt": "go", "wait_seconds": 0})).await;
    assert_eq!(running["state"], "running");
    gate.reached().await;
    let session = &running["session_id"];
    let cancelled = client.call("cancel_session", json!({"session_id": session})).await;
    assert_eq!(cancelled["state"], "cancelled");
    gate.abandoned().await;

    let gate = Gate::new();
    machine.llm.reply(Reply::hang(&gate));
    let call = client.begin("prompt_session", json!({"session_id": session, "prompt": "again"})).await;
    gate.reached().await;
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}});
    client.write(&cancel.to_string()).await;
    gate.abandoned().await;
    assert_eq!(client.call("read_session", json!({"session_id": session})).await["state"], "cancelled");
    client.finish().await;
    machine.finish().await;
}

#[tokio::test]
async fn a_call_shows_what_the_agent_does() {
    let machine = Machine::new().await;
    let mut client = Client::start(&machine).await;
    machine.llm.reply(Reply::call(
        "call_1",
        "bash",
        json!({"command": "echo one", "description": "Says one"}),
    ));
    machine.llm.reply(Reply::text("done"));
    let params = json!({
        "name": "start_session", "arguments": {"prompt": "go"}, "_meta": {"progressToken": "p1"},
    });
    let id = client.send("tools/call", params).await;
    assert_eq!(client.result(id).await["state"], "done");
    let notes: Vec<&Value> =
        client.notes.iter().filter(|note| note["method"] == "notifications/progress").collect();
    assert!(!notes.is_empty());
    assert_eq!(notes[0]["params"]["progressToken"], "p1");
    assert!(notes[0]["params"]["message"].as_str().unwrap().starts_with("bash"), "{notes:?}");
    client.finish().await;
    machine.finish().await;
}

#[tokio::test]
async fn what_cannot_be_done_is_said_and_the_server_goes_on() {
    let machine = Machine::new().await;
    let mut client = Client::start(&machine).await;
    for (tool, arguments, reason) in [
        ("fly", json!({}), "there is no tool fly"),
        ("start_session", json!({}), "arguments of start_session: missing field `prompt`"),
        (
            "start_session",
            json!({"prompt": "x", "dir": "y"}),
            "arguments of start_session: unknown field `dir`",
        ),
        ("start_session", json!({"prompt": "x", "directory": "nowhere"}), "There is no directory "),
        (
            "start_session",
            json!({"prompt": "x", "agent": "nobody"}),
            "There is no agent nobody; there are build",
        ),
        (
            "start_session",
            json!({"prompt": "x", "model": "gpt"}),
            "`gpt` is no model: write `provider/model`.",
        ),
        ("read_session", json!({"session_id": "ses_unknown"}), "no such session: ses_unknown"),
        ("cancel_session", json!({"session_id": "ses_unknown"}), "ses_unknown is not open here"),
    ] {
        let refused = client.refused(tool, arguments).await;
        assert!(refused.starts_with(reason), "{tool}: {refused}");
    }
    machine.llm.reply(Reply::status(400));
    let failed = client.call("start_session", json!({"prompt": "x"})).await;
    assert_eq!(failed["state"], "failed");
    assert!(!failed["error"].as_str().unwrap().is_empty(), "{failed}");
    client.write("this is no JSON").await;
    machine.llm.reply(Reply::text("still here"));
    let done = client.call("start_session", json!({"prompt": "x"})).await;
    assert_eq!(done["answer"], "still here");
    client.finish().await;
    machine.finish().await;
}

#[tokio::test]
async fn it_ends_with_its_client_and_leaves_nothing_running() {
    let machine = Machine::new().await;
    let mut client = Client::start(&machine).await;
    machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch began; sleep 600"})));
    let running = client.begin("start_session", json!({"prompt": "go"})).await;
    machine.scratch.appears("began").await;
    assert_eq!(running, client.last_id);
    let watch = Stopwatch::start(client.child.id().unwrap().try_into().unwrap());
    drop(client.input);
    let ended = watch.within(END_LIMIT, "the server's end", client.child.wait()).await.unwrap();
    assert!(ended.success(), "{ended}");
    let left = process::gone(&machine.scratch.home).await;
    assert!(left.is_empty(), "{}", process::describe(&left));
}

/// Sends a message to the server's address; returns the session that the answer names, and the message that answers.
async fn post(server: &Server, session: Option<&str>, message: Value) -> (Option<String>, Value) {
    let request =
        server.request("POST", "/mcp-server").header("accept", "application/json, text/event-stream");
    let request = request.header("content-type", "application/json").body(message.to_string());
    let request = session.into_iter().fold(request, |request, id| request.header("mcp-session-id", id));
    let answer = answer(request).await;
    let named = answer.headers.get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    let lines = answer.text.lines().filter_map(|line| line.strip_prefix("data:"));
    let messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    (named, messages.into_iter().find(|it| it["id"] == message["id"]).unwrap_or_default())
}

#[tokio::test]
async fn programs_reach_it_at_an_address_of_the_server_too() {
    let server = Server::start().await;
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let (session, hello) = post(&server, None, hello).await;
    assert_eq!(hello["result"]["serverInfo"]["name"], "windlass");
    let session = session.as_deref();
    post(&server, session, json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    server.llm.reply(Reply::text("done it"));
    let params = json!({"name": "start_session", "arguments": {"prompt": "do it"}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
    let (_, told) = post(&server, session, call).await;
    let told = &told["result"]["structuredContent"];
    assert_eq!((&told["state"], &told["answer"]), (&json!("done"), &json!("done it")));
    // It is a session as any other of the server.
    let path = format!("/session/{}/message", told["session_id"].as_str().unwrap());
    assert_eq!(server.get(&path).await.ok().as_array().unwrap().len(), 2);
    server.finish().await;
}

#[tokio::test]
async fn a_call_that_says_nothing_is_refused() {
    let machine = Machine::new().await;
    let mut client = Client::start(&machine).await;
    assert!(client.refused("start_session", json!({"prompt": " "})).await.contains("`prompt` is empty"));
    let hasty = json!({"prompt": "go", "wait_seconds": -1});
    assert!(client.refused("start_session", hasty).await.contains("wait_seconds"));
    client.finish().await;
    machine.finish().await;
}

#[tokio::test]
async fn a_client_that_shows_forms_has_its_person_answer() {
    let machine = Machine::new().await.with("permission", json!({"bash": "ask"}));
    let mut client = Client::start_with(&machine, json!({"elicitation": {}})).await;
    for (action, content, is_run) in
        [("accept", json!({"answer": "once"}), true), ("decline", Value::Null, false)]
    {
        machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo ran"})));
        // A refusal ends the turn.
        if is_run {
            machine.llm.reply(Reply::text("done"));
        }
        let id = client.begin("start_session", json!({"prompt": "go"})).await;
        let asked = client.asked("elicitation/create").await;
        assert!(asked["params"]["message"].as_str().unwrap().contains("echo ran"), "{asked}");
        let allowed = &asked["params"]["requestedSchema"]["properties"]["answer"]["enum"];
        assert_eq!(allowed, &json!(["once", "always", "reject", "reject_always"]));
        let result = json!({"action": action, "content": content});
        client.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string()).await;
        let told = client.result(id).await;
        assert_eq!(told["questions"], json!([]));
        if is_run {
            assert_eq!(machine.llm.last_request().tool_result("call_1").trim(), "ran");
        }
    }
    // One that closes the form leaves the question to the caller.
    machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo ran"})));
    let id = client.begin("start_session", json!({"prompt": "go"})).await;
    let asked = client.asked("elicitation/create").await;
    let result = json!({"action": "cancel"});
    client.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string()).await;
    assert_eq!(client.result(id).await["state"], "waiting");
    client.finish().await;
    machine.finish().await;
}
