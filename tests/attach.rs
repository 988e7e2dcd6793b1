//! Commands that work at a running server: prompts, the chat, and an editor's pipe.

use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::{
    chat,
    cli::{Ended, Machine, ended, history, signal},
    support::{
        agent::{DEADLINE, binary},
        llm::{Gate, Llm, Reply},
        scratch::Scratch,
        server::Server,
        terminal::{Terminal, screen::Screen},
    },
};

fn command(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .args(arguments)
        .current_dir(&server.scratch.work)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        // Another machine: nothing of the server's files is used.
        .env("HOME", server.scratch.work.join("elsewhere"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn run(server: &Server, arguments: &[&str]) -> Ended {
    let arguments = [&["run", "--attach", &server.url], arguments].concat();
    ended(command(server, &arguments).spawn().unwrap()).await
}

#[tokio::test]
async fn a_prompt_is_answered_by_the_server() {
    let server = Server::start().await;
    server.llm.reply(Reply::call("call_1", "read", json!({"filePath": server.scratch.path("a.txt")})));
    server.llm.reply(Reply::deltas(["Hello ", "Ada."]));
    let first = run(&server, &["I am Ada"]).await;
    assert_eq!((first.code, first.stdout.as_str()), (Some(0), "Hello Ada.\n"), "{first:?}");
    assert!(first.stderr.contains("| read"), "{}", first.stderr);
    server.llm.reply(Reply::text("You are Ada."));
    let second = run(&server, &["-c", "--format", "json", "who am I"]).await;
    assert_eq!(second.code, Some(0), "{second:?}");
    assert_eq!(second.of_type("text")[0]["part"]["text"], "You are Ada.");
    let sessions = server.get("/session").await.ok();
    assert_eq!(sessions.as_array().unwrap().len(), 1);
    server.finish().await;
}

#[tokio::test]
async fn a_permission_is_refused_or_given_by_the_options() {
    let server = Server::asking("bash").await;
    let call = || Reply::call("call_1", "bash", json!({"command": "echo out", "description": "x"}));
    for arguments in [&["go"][..], &["--strict", "go"]] {
        server.llm.reply(call());
        let refused = run(&server, arguments).await;
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.stderr.contains("Permission rejected, since nobody can be asked: bash"));
    }
    server.llm.reply(call());
    server.llm.reply(Reply::text("done"));
    let allowed = run(&server, &["--auto", "go"]).await;
    assert_eq!((allowed.code, allowed.stdout.as_str()), (Some(0), "done\n"), "{allowed:?}");
    server.finish().await;
}

#[tokio::test]
async fn what_keeps_a_prompt_from_its_server_is_a_sentence() {
    let server = Server::builder().env("OPENCODE_SERVER_PASSWORD", "secret").start().await;
    let refused = run(&server, &["hello"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("wants a password: give it by --password"), "{}", refused.stderr);
    server.llm.reply(Reply::text("yes"));
    assert_eq!(run(&server, &["-p", "secret", "hello"]).await.stdout, "yes\n");
    let unknown = run(&server, &["-p", "secret", "-s", "ses_none", "hello"]).await;
    assert!(unknown.stderr.contains("ses_none"), "{}", unknown.stderr);
    let nobody = ["run", "--attach", "http://127.0.0.1:9", "hello"];
    let nobody = ended(command(&server, &nobody).spawn().unwrap()).await;
    assert_eq!(nobody.code, Some(1));
    assert!(nobody.stderr.contains("No server answers at http://127.0.0.1:9"), "{}", nobody.stderr);
    let wrong = ended(command(&server, &["run", "--attach", "port", "hello"]).spawn().unwrap()).await;
    assert_eq!(wrong.code, Some(2));
    server.finish().await;
}

#[tokio::test]
async fn an_interrupt_cancels_the_turn_at_the_server() {
    let server = Server::start().await;
    let gate = Gate::new();
    server.llm.reply(Reply::hang(&gate));
    let mut events = server.events("/event").await;
    let child = command(&server, &["run", "--attach", &server.url, "hello"]).spawn().unwrap();
    server.llm.asked(1).await;
    signal(&child, Signal::SIGINT);
    assert_eq!(ended(child).await.code, Some(130));
    events.until("session.idle").await;
    gate.open();
    server.finish().await;
}

#[tokio::test]
async fn a_terminal_chats_with_the_servers_sessions() {
    let server = Server::asking("bash").await;
    let id = server.session().await;
    server.llm.reply(Reply::text("Hello Ada."));
    server.prompt(&id, "I am Ada").await;
    let arguments = ["attach", &server.url, "--session", &id];
    let elsewhere = Scratch::new();
    let terminal = Terminal::builder(&elsewhere, &json!({})).size(90, 40);
    let mut terminal = terminal.arguments(&arguments).start();
    terminal.shows_text("Hello Ada.").await;
    chat::prompt(&terminal).await;
    server.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo out", "description": "prints"})));
    server.llm.reply(Reply::text("All done."));
    terminal.types("run it\r");
    terminal.shows_text("echo out").await;
    // The call is shown before it is asked about.
    terminal.shows_text("[y] once").await;
    // The same permission is on the page of a phone.
    let waiting = server.get("/permission").await.ok();
    assert_eq!(waiting.as_array().unwrap().len(), 1);
    terminal.types("y");
    terminal.shows_text("All done.").await;
    chat::prompt(&terminal).await;
    terminal.types("\x04");
    let screen = terminal.ends_with(0).await;
    assert!(screen.contains("Continue with: windlass attach"), "{screen}");
    server.finish().await;
}

fn attached(server: &Server, id: &str) -> Terminal {
    let terminal = Terminal::builder(&Scratch::new(), &json!({})).size(90, 40);
    terminal.arguments(&["attach", &server.url, "--session", id]).start()
}

#[tokio::test]
async fn lines_typed_in_an_attached_chat_reach_the_turn_that_runs_or_wait_at_the_server() {
    let server = Server::start().await;
    let id = server.session().await;
    let mut terminal = attached(&server, &id);
    chat::prompt(&terminal).await;
    let gate = Gate::new();
    let call = json!({"command": "true", "description": "nothing"});
    server.llm.reply(Reply::text("Working").and_gate(&gate).and_call("call_1", "bash", call));
    terminal.types("go\r");
    terminal.shows_text("Enter: said at the next step").await;
    terminal.shows_text("Working").await;
    let mut events = server.events("/event").await;
    let waiting = async |wanted: &[&str]| {
        let inbox = server.get(&format!("/api/session/{id}/inbox")).await.ok();
        let items = inbox["data"].as_array().unwrap().iter();
        let texts: Vec<String> =
            items.map(|item| item["payload"]["text"].as_str().unwrap().to_owned()).collect();
        assert_eq!(texts, wanted);
    };
    terminal.types("mind the tests\r");
    terminal.shows_text("next step  mind the tests").await;
    events.until("session.inbox.enqueued").await;
    waiting(&["mind the tests"]).await;
    terminal.types("later one\x1b\r");
    terminal.types("later two\x1b\r\x1b[A");
    for kind in ["enqueued", "enqueued", "cancelled"] {
        events.until(&format!("session.inbox.{kind}")).await;
    }
    waiting(&["mind the tests", "later one"]).await;
    terminal.shows("the line", |screen| chat::is_at_prompt(screen, "› later two")).await;
    terminal.types("\x15");
    server.llm.reply(Reply::text("I mind them."));
    server.llm.reply(Reply::text("Later is now."));
    gate.open();
    let screen = terminal.shows_text("Later is now.").await;
    let row = |text: &str| screen.lines().iter().position(|line| line.contains(text)).unwrap();
    let rows = ["› mind the tests", "I mind them.", "› later one", "Later is now."].map(row);
    assert!(rows.is_sorted(), "{screen}");
    assert_eq!(server.llm.requests().len(), 3, "what was steered has no turn of its own");
    chat::prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    server.finish().await;
}

#[tokio::test]
async fn a_turn_that_is_stopped_in_an_attached_chat_gives_back_what_waits() {
    let server = Server::start().await;
    let id = server.session().await;
    let mut terminal = attached(&server, &id);
    chat::prompt(&terminal).await;
    let gate = Gate::new();
    server.llm.reply(Reply::text("Working").and_gate(&gate));
    terminal.types("go\r");
    terminal.shows_text("Enter: said at the next step").await;
    let mut events = server.events("/event").await;
    terminal.types("mind the tests\rafterwards\x1b\r");
    for _ in 0..2 {
        events.until("session.inbox.enqueued").await;
    }
    terminal.shows_text("queued     afterwards").await;
    terminal.types("\x1b");
    gate.abandoned().await;
    let is_last = |line: &String| line.trim_end().ends_with("afterwards");
    let ends =
        |screen: &Screen| screen.lines().iter().rfind(|line| !line.trim().is_empty()).is_some_and(is_last);
    terminal.shows("the line", ends).await;
    terminal.shows_text("Mock · build").await;
    terminal.shows_text("› mind the tests").await;
    assert_eq!(server.get(&format!("/api/session/{id}/inbox")).await.ok()["data"], json!([]));
    terminal.types("\x03");
    chat::prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    server.finish().await;
}

/// Has another client prompt a session, and waits until the model is at the gate of its answer.
async fn prompted_elsewhere(server: &Server, id: &str, words: &str, gate: &Gate) {
    let body = json!({"parts": [{"type": "text", "text": words}]});
    server.post(&format!("/session/{id}/prompt_async"), body).await;
    gate.reached().await;
}

#[tokio::test]
async fn a_chat_that_comes_in_mid_answer_shows_all_of_it_once() {
    let server = Server::start().await;
    let id = server.session().await;
    server.llm.reply(Reply::text("Before."));
    server.prompt(&id, "first").await;
    let (gate, last) = (Gate::new(), Gate::new());
    let reply = Reply::text("| a | b |\n|-")
        .and_gate(&gate)
        .and_text("--|---|\n| left cell | right cell |\n\nThree ");
    server.llm.reply(reply.and_gate(&last).and_text("four.\n\nFive."));
    prompted_elsewhere(&server, &id, "go on", &gate).await;
    let mut terminal = attached(&server, &id);
    terminal.shows_text("| a | b |").await;
    gate.open();
    terminal.shows_text("Three").await;
    last.open();
    terminal.shows_text("Five.").await;
    chat::prompt(&terminal).await;
    terminal.types("\x04");
    let screen = terminal.ends_with(0).await;
    let text = screen.all_lines().join("\n");
    for once in ["Before.", "› go on", "left cell", "right cell", "Three four.", "Five."] {
        assert_eq!(text.matches(once).count(), 1, "{once}: {screen}");
    }
    server.finish().await;
}

#[tokio::test]
async fn a_chat_that_comes_in_mid_answer_can_cancel_the_turn() {
    let server = Server::start().await;
    let id = server.session().await;
    let gate = Gate::new();
    server.llm.reply(Reply::text("Begun").and_gate(&gate));
    prompted_elsewhere(&server, &id, "go", &gate).await;
    let mut terminal = attached(&server, &id);
    terminal.shows_text("Begun").await;
    terminal.types("\x03");
    terminal.shows_text("Cancelled.").await;
    gate.abandoned().await;
    chat::prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    server.finish().await;
}

#[tokio::test]
async fn a_chat_shows_the_turns_of_other_clients_when_they_end_or_with_enter() {
    let server = Server::start().await;
    let id = server.session().await;
    server.llm.reply(Reply::text("Hello Ada."));
    server.prompt(&id, "I am Ada").await;
    let mut terminal = attached(&server, &id);
    terminal.shows_text("Hello Ada.").await;
    chat::prompt(&terminal).await;
    let gate = Gate::new();
    server.llm.reply(Reply::text("To the ").and_gate(&gate).and_text("phone."));
    prompted_elsewhere(&server, &id, "from the phone", &gate).await;
    terminal.shows_text("Another client prompts this session.").await;
    gate.open();
    let screen = terminal.shows_text("To the phone.").await;
    assert!(screen.contains("› from the phone"), "{screen}");
    chat::prompt(&terminal).await;

    let gate = Gate::new();
    server.llm.reply(Reply::text("Half ").and_gate(&gate).and_text("and whole."));
    prompted_elsewhere(&server, &id, "once more", &gate).await;
    let is_told = |screen: &Screen| screen.all_lines().join("\n").matches("Another client").count() == 2;
    terminal.shows("the notice", is_told).await;
    terminal.types("\r");
    terminal.shows_text("Half").await;
    gate.open();
    terminal.shows_text("Half and whole.").await;
    chat::prompt(&terminal).await;
    terminal.types("\x04");
    let screen = terminal.ends_with(0).await;
    let text = screen.all_lines().join("\n");
    for once in ["Hello Ada.", "› from the phone", "To the phone.", "› once more", "and whole."] {
        assert_eq!(text.matches(once).count(), 1, "{once}: {screen}");
    }
    server.finish().await;
}

/// Scripts two steps of many pieces.
fn in_pieces(llm: &Llm) {
    let echo = json!({"command": "echo hi"});
    llm.reply(
        Reply::deltas(["One ", "t", "wo ", "**th", "ree**, 你", "好 ", "and\n\n- fo", "ur"])
            .and_call("c1", "bash", echo),
    );
    llm.reply(Reply::deltas(["fi", "ve ", "six"]));
}

#[tokio::test]
async fn an_attached_terminal_shows_what_a_local_one_shows_cell_by_cell() {
    let machine = Machine::new().await;
    in_pieces(&machine.llm);
    let local = Terminal::builder(&machine.scratch, &machine.config).arguments(&["run", "count"]);
    let local = local.start().ends_with(0).await;

    let server = Server::start().await;
    in_pieces(&server.llm);
    let arguments = ["run", "--attach", &server.url, "count"];
    let elsewhere = Scratch::new();
    let attached = Terminal::builder(&elsewhere, &json!({})).arguments(&arguments);
    let attached = attached.start().ends_with(0).await;

    assert!(attached.contains("One two three, 你好 and") && attached.contains("five six"), "{attached}");
    assert_eq!(without_ids_and_times(&attached.styled()), without_ids_and_times(&local.styled()));
    machine.finish().await;
    server.finish().await;
}

/// Returns a screen without ids and times, which differ.
fn without_ids_and_times(text: &str) -> String {
    let mut pieces = text.split("ses_");
    let mut settled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        settled += "ses";
        settled += piece.trim_start_matches(|char: char| char.is_ascii_alphanumeric());
    }
    settled.replace(|char: char| char.is_ascii_digit(), "0")
}

/// Types commands into a chat, and returns its screen without ids.
async fn scripted(mut terminal: Terminal) -> String {
    terminal.shows_text("/help lists the commands").await;
    let typed = [
        "/nwe",
        "/help",
        "/agent",
        "/agent bild",
        "/model",
        "/model mock",
        "/model none/other",
        "/model mock/other",
        "/new",
        "/sessions",
        "!echo out",
        "hello",
    ];
    for (idx, typed) in typed.iter().enumerate() {
        chat::prompt(&terminal).await;
        terminal.types(&format!("{typed}\r"));
        let n_prompts = |screen: &Screen| screen.lines().iter().filter(|line| line.contains(" ›")).count();
        terminal.shows("the next prompt", |screen| n_prompts(screen) == idx + 2).await;
    }
    chat::prompt(&terminal).await;
    terminal.types("\x04");
    let screen = terminal.ends_with(0).await.styled();
    // The way back is another command.
    let (screen, _) = screen.split_once("Continue with: ").expect("the way back");
    // So is the place, in the first row.
    let (_, screen) = screen.split_once('\n').expect("more than one row");
    without_ids_and_times(screen)
}

#[tokio::test]
async fn an_attached_chat_shows_what_a_local_one_shows_cell_by_cell() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::deltas(["Hello ", "**Ada**."]));
    let local = Terminal::builder(&machine.scratch, &machine.config).size(110, 90).arguments(&["chat"]);
    let local = scripted(local.start()).await;

    let server = Server::start().await;
    server.llm.reply(Reply::deltas(["Hello ", "**Ada**."]));
    let elsewhere = Scratch::new();
    let attached = Terminal::builder(&elsewhere, &json!({})).size(110, 90);
    let attached = scripted(attached.arguments(&["attach", &server.url]).start()).await;

    assert!(local.contains("did you mean `/new`? Put a space before it"), "{local}");
    assert!(local.contains("cannot be used") && local.contains("Model: mock/other."), "{local}");
    assert_eq!(attached, local);
    machine.finish().await;
    server.finish().await;
}

#[tokio::test]
async fn a_model_and_an_agent_chosen_in_an_attached_chat_outlive_it() {
    let server = Server::start().await;
    let id = server.session().await;
    let mut terminal = attached(&server, &id);
    chat::prompt(&terminal).await;
    terminal.types("/model mock/other\r");
    terminal.shows_text("Model: mock/other.").await;
    chat::prompt(&terminal).await;
    terminal.types("/agent plan\r");
    terminal.shows_text("plan ›").await;
    terminal.types("\x04");
    terminal.ends_with(0).await;

    let mut terminal = attached(&server, &id);
    terminal.shows_text("plan ›").await;
    server.llm.reply(Reply::text("Still here."));
    terminal.types("hello\r");
    terminal.shows_text("Still here.").await;
    let request = server.llm.last_request();
    assert_eq!(request.body["model"], "other");
    assert!(history(&request).contains("Plan mode"), "{}", history(&request));
    chat::prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    server.finish().await;
}

#[tokio::test]
async fn a_model_that_the_server_refuses_is_not_chosen() {
    let server = Server::start().await;
    let id = server.session().await;
    let mut terminal = attached(&server, &id);
    chat::prompt(&terminal).await;
    terminal.types("/model none/other\r");
    terminal.shows_text("cannot be used").await;
    chat::prompt(&terminal).await;
    server.llm.reply(Reply::text("Hello."));
    terminal.types("hello\r");
    let screen = terminal.shows_text("Hello.").await;
    assert!(!screen.contains("Model: none/other."), "{screen}");
    assert_eq!(server.llm.last_request().body["model"], "mock");
    chat::prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    server.finish().await;
}

/// An editor's end of `windlass acp --attach`.
struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Editor {
    fn start(server: &Server) -> Self {
        let mut command = command(server, &["acp", "--attach", &server.url]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take(), output, child }
    }

    async fn send(&mut self, id: u64, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// Reads up to a line that satisfies this.
    async fn until(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line =
                tokio::time::timeout(DEADLINE, self.output.next_line()).await.unwrap().unwrap().unwrap();
            let line: Value = serde_json::from_str(&line).unwrap();
            if is_wanted(&line) {
                return line;
            }
        }
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(id, method, params).await;
        let answer = self.until(|line| line["id"] == id && line.get("method").is_none()).await;
        assert!(answer["result"].is_object(), "{answer}");
        answer["result"].clone()
    }

    async fn open(server: &Server) -> (Self, String) {
        let mut editor = Self::start(server);
        editor.ask(1, "initialize", json!({"protocolVersion": 1, "clientCapabilities": {}})).await;
        let new = json!({"cwd": server.scratch.cwd(), "mcpServers": []});
        let session = editor.ask(2, "session/new", new).await;
        (editor, session["sessionId"].as_str().unwrap().to_owned())
    }
}

fn words(id: &str, text: &str) -> Value {
    json!({"sessionId": id, "prompt": [{"type": "text", "text": text}]})
}

#[tokio::test]
async fn an_editor_and_a_phone_look_at_the_same_session() {
    let server = Server::asking("bash").await;
    let (mut editor, id) = Editor::open(&server).await;
    let mut events = server.events("/event").await;
    server.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo out", "description": "prints"})));
    server.llm.reply(Reply::text("done"));
    editor.send(3, "session/prompt", words(&id, "run it")).await;
    editor.until(|line| line["method"] == "session/request_permission").await;
    let asked = events.until("permission.asked").await;
    let asked = asked.last().unwrap()["properties"]["id"].as_str().unwrap().to_owned();
    server.post(&format!("/permission/{asked}/reply"), json!({"reply": "once"})).await.ok();
    let answer = editor.until(|line| line["id"] == 3).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    // What the phone says is shown to the editor.
    server.llm.reply(Reply::text("to the phone"));
    server.prompt(&id, "from the phone").await;
    let is_text = |line: &Value| line["params"]["update"]["content"]["text"] == "to the phone";
    editor.until(is_text).await;
    editor.input = None;
    assert_eq!(ended(editor.child).await.code, Some(0));
    server.finish().await;
}

#[tokio::test]
async fn a_turn_goes_on_when_its_editor_has_gone() {
    let server = Server::asking("bash").await;
    let (mut editor, id) = Editor::open(&server).await;
    let mut events = server.events("/event").await;
    let gate = Gate::new();
    let call = json!({"command": "echo out", "description": "prints"});
    server.llm.reply(Reply::text("I run it.").and_gate(&gate).and_call("call_1", "bash", call));
    server.llm.reply(Reply::text("done"));
    editor.send(3, "session/prompt", words(&id, "run it")).await;
    server.llm.asked(1).await;
    signal(&editor.child, Signal::SIGKILL);
    ended(editor.child).await;
    gate.open();
    let asked = events.until("permission.asked").await;
    let asked = asked.last().unwrap()["properties"]["id"].as_str().unwrap().to_owned();
    server.post(&format!("/permission/{asked}/reply"), json!({"reply": "once"})).await.ok();
    events.until("session.idle").await;
    let messages = server.get(&format!("/session/{id}/message")).await.ok();
    assert!(messages.to_string().contains("done"), "{messages}");
    server.finish().await;
}

#[tokio::test]
async fn what_was_asked_before_the_input_ended_is_answered() {
    let server = Server::start().await;
    let (mut editor, id) = Editor::open(&server).await;
    server.llm.reply(Reply::text("done"));
    editor.send(3, "session/prompt", words(&id, "hello")).await;
    editor.input = None;
    let answer = editor.until(|line| line["id"] == 3).await;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(ended(editor.child).await.code, Some(0));
    server.finish().await;
}
