//! Process manners: the end of input, signals, broken and slow readers, sudden death.

use std::{
    io::Write,
    process::{Command, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Builder, binary, requests::prompt_params},
    llm::{Gate, Llm, Reply, Wire, provider_config},
    message::text,
    process,
    scratch::Scratch,
};

/// Time that an idle agent may take to end when its input does.
const END_LIMIT: Duration = Duration::from_millis(500);
/// Time that a signalled agent may take to end.
const SIGNAL_LIMIT: Duration = Duration::from_secs(2);
/// Copies of an answer that an agent may hold once its client reads again: it keeps the text, and a debug build is
/// lavish.
const MAX_COPIES: u64 = 12;

/// Clients on Node and libuv give their children sockets, others pipes.
fn by_pipes_and_by_sockets() -> [Builder; 2] {
    [Agent::builder(), Agent::builder().on_sockets()]
}

#[tokio::test]
async fn the_end_of_input_ends_an_idle_agent_at_once() {
    for builder in by_pipes_and_by_sockets() {
        let mut agent = builder.start().await;
        agent.new_session().await;
        agent.close_stdin();
        assert_eq!(agent.wait_exit_within(END_LIMIT).await.code(), Some(0));
        agent.finish().await;
    }
}

#[tokio::test]
async fn the_end_of_input_lets_the_running_turn_finish() {
    let mut agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("working ").and_gate(&gate).and_call(
        "call_1",
        "bash",
        json!({"command": "echo ran > ran.txt"}),
    ));
    agent.llm.reply(Reply::text("and done"));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    agent.close_stdin();
    gate.open();
    let turn = prompt.turn().await;
    assert_eq!((turn.text().as_str(), turn.stop.as_str()), ("working and done", "end_turn"));
    assert_eq!(agent.scratch.read("ran.txt"), "ran\n");
    assert_eq!(agent.wait_exit().await.code(), Some(0));
    agent.finish().await;
}

#[tokio::test]
async fn the_end_of_input_refuses_what_nobody_can_allow_any_more() {
    let config = json!({"permission": {"bash": "ask"}});
    let mut agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.close_stdin();
    let turn = prompt.turn().await;
    assert_eq!(turn.tool("call_1")["status"], "failed");
    assert_eq!(agent.wait_exit().await.code(), Some(0));
    assert!(!agent.scratch.exists("made"));
    agent.withdrawn(&ask).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_question_that_comes_after_the_end_of_input_is_refused_too() {
    let config = json!({"permission": {"bash": "ask"}});
    let mut agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("wait ").and_gate(&gate).and_call(
        "call_1",
        "bash",
        json!({"command": "touch made"}),
    ));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    agent.close_stdin();
    agent.input_written().await;
    gate.open();
    let turn = prompt.turn().await;
    assert_eq!(turn.tool("call_1")["status"], "failed");
    assert_eq!(agent.wait_exit().await.code(), Some(0));
    assert!(!agent.scratch.exists("made"));
    for ask in agent.asks() {
        agent.permission().await;
        agent.withdrawn(&ask).await;
    }
    agent.finish().await;
}

/// Runs the binary with a whole file on its stdin, as a shell pipe does; its exit code, messages and stderr.
async fn pipe(
    scratch: &Scratch,
    arguments: &[&str],
    config: &Value,
    input: String,
) -> (Option<i32>, Vec<Value>, String) {
    let mut command = Command::new(binary());
    command
        .args(arguments)
        .current_dir(&scratch.work)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("WINDLASS_TRUST", "1")
        .env("HOME", &scratch.home)
        .env("OPENCODE_CONFIG_CONTENT", config.to_string())
        .env("OPENCODE_PERMISSION", r#"{"*":"allow"}"#)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        output
    })
    .await
    .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let messages = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output.status.code(), messages, String::from_utf8(output.stderr).unwrap())
}

/// Returns a conversation of one edit, as somebody would write it into a file.
fn conversation(scratch: &Scratch) -> String {
    let session =
        json!({"cwd": scratch.cwd(), "mcpServers": [], "_meta": {"windlass/sessionId": "ses_pipe"}});
    let requests = [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": session}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": prompt_params("ses_pipe", "edit")}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt_params("ses_pipe", "more")}),
    ];
    requests.iter().map(|request| format!("{request}\n")).collect()
}

#[tokio::test]
async fn a_file_of_requests_can_be_piped_through() {
    for arguments in [&[][..], &["acp"], &["acp", "--pure"]] {
        let (scratch, llm) = (Scratch::new(), Llm::start().await);
        let path = scratch.path("a.txt");
        llm.reply(Reply::call(
            "call_1",
            "edit",
            json!({"filePath": path, "oldString": "two", "newString": "zwei"}),
        ));
        llm.reply(Reply::text("edited"));
        llm.reply(Reply::text("nothing more"));
        let mut config = provider_config(&llm, Wire::OpenAi);
        config["windlass"] = json!({"file_time": false});
        let (code, messages, stderr) = pipe(&scratch, arguments, &config, conversation(&scratch)).await;
        assert_eq!(code, Some(0), "{stderr}");
        assert_eq!(scratch.read("a.txt"), "one\nzwei\nthree\n");
        let ids: Vec<&Value> =
            messages.iter().map(|message| &message["id"]).filter(|id| !id.is_null()).collect();
        assert_eq!(
            ids,
            [&json!(0), &json!(1), &json!(2), &json!(3)],
            "each request is answered once and in order"
        );
        assert!(messages.iter().all(|message| message.get("error").is_none()), "{messages:?}");
        assert_eq!(llm.problems(), Vec::<String>::new());
        assert!(process::gone(&scratch.home).await.is_empty());
    }
}

#[tokio::test]
async fn a_signal_cancels_flushes_and_ends() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut agent = Agent::start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call(
            "call_1",
            "bash",
            json!({"command": "sleep 600 & touch begun; sleep 600"}),
        ));
        let prompt = agent.send_prompt(&session, "go");
        agent
            .wait_for("the command to run", |message| message["params"]["update"]["status"] == "in_progress")
            .await;
        agent.signal(signal);
        let (turn, _) = tokio::join!(prompt.turn(), agent.wait_exit_within(SIGNAL_LIMIT));
        assert_eq!(turn.stop, "cancelled");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_signal_ends_an_agent_whose_provider_hangs() {
    let mut agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::hang(&gate));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    agent.signal(Signal::SIGTERM);
    agent.wait_exit_within(SIGNAL_LIMIT).await;
    assert_eq!(prompt.turn().await.stop, "cancelled");
    agent.finish().await;
}

#[test]
fn a_pipeline_that_ends_says_nothing_but_its_answers() {
    let scratch = Scratch::new();
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
    std::fs::write(scratch.root().join("requests"), format!("{request}\n")).unwrap();
    let output = Command::new(binary())
        .arg("acp")
        .current_dir(&scratch.work)
        .env_clear()
        .env("WINDLASS_TRUST", "1")
        .env("HOME", &scratch.home)
        .stdin(std::fs::File::open(scratch.root().join("requests")).unwrap())
        .stdout(std::fs::File::create(scratch.root().join("answers")).unwrap())
        .output()
        .unwrap();
    let answers = std::fs::read_to_string(scratch.root().join("answers")).unwrap();
    assert!(output.status.success() && answers.lines().count() == 1, "{output:?} {answers}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_end_of_a_named_pipe_is_seen_whose_writer_has_gone_before() {
    let scratch = Scratch::new();
    let pipe = scratch.root().join("requests");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nothing\"}\n").unwrap()
    });
    let requests = std::fs::File::open(&pipe).unwrap();
    writer.join().unwrap();
    let output = Command::new(binary())
        .arg("acp")
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("HOME", &scratch.home)
        .stdin(requests)
        .output()
        .unwrap();
    let answers = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && answers.lines().count() == 1, "{output:?} {answers}");
}

#[tokio::test]
async fn a_signal_ends_an_agent_whose_client_does_not_read() {
    for builder in by_pipes_and_by_sockets() {
        let mut agent = builder.start().await;
        let session = agent.new_session().await;
        let stalled = Gate::new();
        agent.llm.reply(Reply::deltas((0..100_000).map(|n| format!("delta {n} "))).reporting_stall(&stalled));
        agent.stop_reading();
        let _prompt = agent.send_prompt(&session, "go");
        stalled.reached().await;
        process::rests(agent.pid).await;
        agent.signal(Signal::SIGTERM);
        agent.wait_exit_within(SIGNAL_LIMIT).await;
        agent.allow_cut_output();
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_client_that_neither_reads_nor_closes_after_its_input_does_not_keep_the_agent() {
    for builder in by_pipes_and_by_sockets() {
        let mut agent = builder.start().await;
        let session = agent.new_session().await;
        let stalled = Gate::new();
        agent.llm.reply(Reply::deltas((0..100_000).map(|n| format!("delta {n} "))).reporting_stall(&stalled));
        agent.stop_reading();
        let _prompt = agent.send_prompt(&session, "go");
        stalled.reached().await;
        process::rests(agent.pid).await;
        agent.close_stdin();
        agent.wait_exit().await;
        agent.allow_cut_output();
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_broken_stdout_cancels_everything_and_ends() {
    for builder in by_pipes_and_by_sockets() {
        let mut agent = builder.start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch begun; sleep 600"})));
        let other = agent.new_session().await;
        let gate = Gate::new();
        agent.llm.reply_to("other", Reply::text("x ").and_gate(&gate).and_text("y").and_text("z"));
        let _other = agent.send_prompt(&other, "other");
        gate.reached().await;
        let _prompt = agent.send_prompt(&session, "go");
        agent
            .wait_for("the command to run", |message| message["params"]["update"]["status"] == "in_progress")
            .await;
        agent.close_stdout().await;
        gate.open();
        agent.wait_exit().await;
        agent.allow_cut_output();
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_command_that_says_nothing_ends_with_a_client_that_is_gone() {
    for builder in by_pipes_and_by_sockets() {
        let mut agent = builder.start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "sleep 600"})));
        let _prompt = agent.send_prompt(&session, "go");
        agent.wait_running(&session, &["call_1"]).await;
        agent.close_stdin();
        agent.close_stdout().await;
        agent.wait_exit().await;
        agent.allow_cut_output();
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_client_that_stops_reading_makes_the_agent_wait_not_grow() {
    for builder in by_pipes_and_by_sockets() {
        let agent = builder.start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("warm"));
        agent.prompt(&session, "go").await;
        let before = process::memory(agent.pid, "VmRSS");
        let stalled = Gate::new();
        let deltas: Vec<String> = (0..1500).map(|n| format!("{n} {}", "x".repeat(10_000))).collect();
        let whole = deltas.concat();
        let n_unread = whole.len() as u64;
        agent.llm.reply(Reply::deltas(deltas).reporting_stall(&stalled));
        agent.stop_reading();
        let prompt = agent.send_prompt(&session, "go");
        stalled.reached().await;
        process::rests(agent.pid).await;
        let held = process::memory(agent.pid, "VmRSS");
        assert!(held < before + n_unread / 2, "{} MB, {} MB before", held >> 20, before >> 20);
        agent.go_on_reading();
        let turn = prompt.turn().await;
        assert!(turn.text() == whole, "{} of {} bytes arrived", turn.text().len(), whole.len());
        let peak = process::memory(agent.pid, "VmHWM");
        assert!(peak < before + MAX_COPIES * n_unread, "{} MB, {} MB before", peak >> 20, before >> 20);
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_stuck_client_can_still_cancel() {
    for builder in by_pipes_and_by_sockets() {
        let agent = builder.start().await;
        let session = agent.new_session().await;
        let stalled = Gate::new();
        agent.llm.reply(Reply::deltas((0..100_000).map(|n| format!("delta {n} "))).reporting_stall(&stalled));
        agent.stop_reading();
        let prompt = agent.send_prompt(&session, "go");
        stalled.reached().await;
        process::rests(agent.pid).await;
        agent.cancel(&session);
        agent.go_on_reading();
        assert_eq!(prompt.turn().await.stop, "cancelled");
        agent.finish().await;
    }
}

#[tokio::test]
async fn commands_do_not_get_the_servers_password() {
    let agent = Agent::builder().env("OPENCODE_SERVER_PASSWORD", "hidden-password").start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "env; echo listed"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    let requests = format!("{:?}", agent.llm.requests());
    assert!(requests.contains("listed") && !requests.contains("hidden-password"), "{requests}");
    agent.finish().await;
}

#[tokio::test]
async fn logs_go_to_stderr_only() {
    for arguments in [&["acp", "--print-logs", "--log-level", "DEBUG"][..], &["acp"]] {
        let agent = Agent::builder().arguments(arguments).env("WINDLASS_LOG", "debug").spawn().await;
        agent.initialize().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        assert!(!agent.stderr().is_empty(), "nothing was logged at debug level");
        assert!(!agent.stderr().contains("Bearer test"), "a credential was logged");
        agent.finish().await;
    }
}

#[tokio::test]
async fn opencodes_variables_say_how_much_is_logged() {
    let logged = async |name: &str, value: &str| {
        let agent = Agent::builder().env(name, value).start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        let stderr = agent.stderr();
        agent.finish().await;
        stderr.contains(" INFO ")
    };
    assert!(!logged("NOTHING", "1").await);
    assert!(logged("OPENCODE_PRINT_LOGS", "1").await);
    assert!(!logged("OPENCODE_PRINT_LOGS", "0").await);
    assert!(logged("OPENCODE_LOG_LEVEL", "DEBUG").await && logged("OPENCODE_LOG_LEVEL", "info").await);
    assert!(!logged("OPENCODE_LOG_LEVEL", "ERROR").await);
}

#[tokio::test]
async fn what_was_shown_survives_a_sudden_death() {
    let mut agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo kept"})));
    agent.llm.reply(Reply::deltas((0..50).map(|n| format!("word{n} "))).and_gate(&gate));
    let _prompt = agent.send_prompt(&session, "tell me");
    agent.wait_text(&session, "word49 ").await;
    let live = agent.updates(&session);
    agent.signal(Signal::SIGKILL);
    agent.wait_exit().await;
    let agent = agent.restarted().await;
    let replayed = agent.load(&session).await;
    assert_eq!(text(&replayed, "agent_message_chunk"), text(&live, "agent_message_chunk"));
    assert_eq!(text(&replayed, "user_message_chunk"), "tell me");
    let call = crate::support::message::tool(&replayed, "call_1").unwrap();
    assert_eq!(call["status"], "completed");
    agent.llm.reply(Reply::text("back"));
    assert_eq!(agent.prompt(&session, "go on").await.text(), "back");
    agent.finish().await;
}

#[tokio::test]
async fn a_call_that_ran_at_a_sudden_death_is_settled_after_it() {
    let mut agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "sleep 600"})));
    let _prompt = agent.send_prompt(&session, "go");
    agent
        .wait_for("the command to run", |message| message["params"]["update"]["status"] == "in_progress")
        .await;
    agent.signal(Signal::SIGKILL);
    agent.wait_exit().await;
    let agent = agent.restarted().await;
    let replayed = agent.load(&session).await;
    assert_eq!(crate::support::message::tool(&replayed, "call_1").unwrap()["status"], "failed");
    agent.llm.reply(Reply::text("back"));
    agent.prompt(&session, "go on").await;
    assert!(agent.llm.last_request().tool_result("call_1").contains("interrupted"));
    agent.finish().await;
}

#[tokio::test]
async fn two_agents_share_one_store() {
    let agent_1 = Agent::start().await;
    let agent_2 = agent_1.successor().start().await;
    let (first, second) = (agent_1.new_session().await, agent_2.new_session().await);
    agent_1.llm.reply_to("alpha", Reply::deltas((0..300).map(|n| format!("a{n} "))));
    agent_1.llm.reply_to("beta", Reply::deltas((0..300).map(|n| format!("b{n} "))));
    let (prompt_1, prompt_2) = (agent_1.send_prompt(&first, "alpha"), agent_2.send_prompt(&second, "beta"));
    assert_eq!(prompt_1.turn().await.stop, "end_turn");
    assert_eq!(prompt_2.turn().await.stop, "end_turn");
    let list = agent_1.request("session/list", json!({})).await.unwrap();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 2);
    agent_1.finish_beside(&agent_2).await;
    agent_2.finish().await;
}

#[tokio::test]
async fn a_signal_after_the_end_of_input_cancels_the_turn_that_still_runs() {
    let mut agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::hang(&gate));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    agent.close_stdin();
    agent.input_written().await;
    agent.signal(Signal::SIGTERM);
    agent.wait_exit_within(SIGNAL_LIMIT).await;
    assert_eq!(prompt.turn().await.stop, "cancelled");
    agent.finish().await;
}

#[tokio::test]
async fn a_hangup_is_noticed_while_nothing_is_said() {
    let mut agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::hang(&gate));
    let _prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    agent.close_stdout().await;
    agent.wait_exit_within(SIGNAL_LIMIT).await;
    agent.allow_cut_output();
    agent.finish().await;
}

#[tokio::test]
async fn a_hangup_of_both_pipes_ends_a_silent_command_within_a_second() {
    let mut agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "sleep 40"})));
    let _prompt = agent.send_prompt(&session, "go");
    agent.wait_running(&session, &["call_1"]).await;
    agent.close_stdin();
    agent.input_written().await;
    agent.close_stdout().await;
    agent.wait_exit_within(SIGNAL_LIMIT).await;
    agent.allow_cut_output();
    agent.finish().await;
}

#[tokio::test]
async fn a_client_that_closes_with_megabytes_unread_is_noticed() {
    let mut agent = Agent::start().await;
    let session = agent.new_session().await;
    let stalled = Gate::new();
    agent.llm.reply(Reply::deltas((0..100_000).map(|n| format!("delta {n} "))).reporting_stall(&stalled));
    agent.stop_reading();
    let _prompt = agent.send_prompt(&session, "go");
    stalled.reached().await;
    process::rests(agent.pid).await;
    // Refusals of 4 MiB pile up; the last lines are not read any more and stay in the pipe.
    let request = |n: usize| {
        let method = "x".repeat(4000);
        format!("{{\"jsonrpc\":\"2.0\",\"id\":\"r{n}\",\"method\":\"{method}\"}}\n")
    };
    agent.raw((0..1012).map(request).collect::<String>());
    agent.close_stdin();
    agent.wait_exit().await;
    agent.allow_cut_output();
    agent.finish().await;
}
