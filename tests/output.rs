//! Output of commands reaches the client while they run: in its terminals, or as the last lines.

use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, requests::Pending},
    llm::Reply,
    message::{Turn, content_text, tag},
    process,
};

/// Returns a client that shows output in terminals of its own.
async fn with_terminals(agent: Agent) -> Agent {
    agent.initialize_with(json!({"_meta": {"terminal_output": true}})).await;
    agent
}

fn data(update: &Value) -> Option<&str> {
    update["_meta"]["terminal_output"]["data"].as_str()
}

/// Returns everything written to the terminal of a call.
fn written(updates: &[Value], call_id: &str) -> String {
    let outputs = updates.iter().filter(|it| it["_meta"]["terminal_output"]["terminal_id"] == call_id);
    outputs.filter_map(data).collect()
}

async fn wait_written(agent: &Agent, wanted: &str) {
    agent
        .wait_for(&format!("`{wanted}` in a terminal"), |message| {
            data(&message["params"]["update"]).is_some_and(|data| data.contains(wanted))
        })
        .await;
}

fn start(agent: &Agent, session: &str, command: &str) -> Pending {
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": command})));
    agent.send_prompt(session, "go")
}

/// Runs a command and then says something.
async fn run(agent: &Agent, session: &str, command: &str) -> Turn {
    let prompt = start(agent, session, command);
    agent.llm.reply(Reply::text("done"));
    prompt.turn().await
}

/// Waits in the command for a file that the test makes.
fn until(file: &str) -> String {
    format!("until [ -e {file} ]; do sleep 0.01; done")
}

#[tokio::test]
async fn a_terminal_is_written_each_byte_once_while_the_command_runs() {
    let agent = with_terminals(Agent::builder().spawn().await).await;
    let session = agent.new_session().await;
    let command = format!(
        "echo one; {}; printf '\\033[31mtwo\\033[0m \\303'; sleep 0.2; printf '\\251\\0\\n'; exit 3",
        until("go")
    );
    let prompt = start(&agent, &session, &command);
    agent.llm.reply(Reply::text("done"));
    wait_written(&agent, "one\n").await;
    agent.scratch.write("go", "");
    let turn = prompt.turn().await;
    let printed = "one\n\u{1b}[31mtwo\u{1b}[0m é\u{0}\n";
    assert_eq!(written(&turn.updates, "call_1"), printed);

    let call = &turn.all("tool_call")[0];
    assert_eq!(call["content"], json!([{"type": "terminal", "terminalId": "call_1"}]));
    let info = json!({"terminal_id": "call_1", "cwd": agent.scratch.cwd()});
    assert_eq!(call["_meta"], json!({"terminal_info": info}));
    // Content would take the place of the terminal.
    assert!(turn.all("tool_call_update").iter().all(|update| update["content"].is_null()));
    let end = turn.all("tool_call_update").into_iter().next_back().unwrap();
    let exit = json!({"terminal_id": "call_1", "exit_code": 3, "signal": null});
    assert_eq!((&end["status"], &end["_meta"]), (&json!("failed"), &json!({"terminal_exit": exit})));
    assert_eq!(end["rawOutput"]["output"], printed);
    assert_eq!(agent.llm.last_request().tool_result("call_1"), printed);
    let successor = agent.successor();
    agent.finish().await;
    let agent = with_terminals(successor.spawn().await).await;
    let replayed = agent.load(&session).await;
    assert_eq!(written(&replayed, "call_1"), printed);
    let calls: Vec<&Value> = replayed.iter().filter(|it| it["toolCallId"] == "call_1").collect();
    assert_eq!(calls[0]["content"][0]["type"], "terminal");
    assert_eq!(calls[calls.len() - 1]["_meta"]["terminal_exit"]["exit_code"], 3);
    agent.finish().await;
}

#[tokio::test]
async fn a_signal_and_a_refusal_are_told_to_the_terminal() {
    let config = json!({"permission": {"bash": {"*": "allow", "rm *": "deny"}}});
    let agent = with_terminals(Agent::builder().config(config).spawn().await).await;
    let session = agent.new_session().await;
    let turn = run(&agent, &session, "kill -TERM $$").await;
    let exit = json!({"terminal_id": "call_1", "exit_code": null, "signal": "SIGTERM"});
    assert_eq!(turn.tool("call_1")["_meta"]["terminal_exit"], exit);
    let session = agent.new_session().await;
    let turn = run(&agent, &session, "rm a.txt").await;
    let call = turn.tool("call_1");
    assert_eq!(call["status"], "failed");
    // Nothing ran, so the reason is in the place of the output.
    assert!(content_text(&call).contains("rm *"), "{call}");
    agent.finish().await;
}

#[tokio::test]
async fn without_terminals_the_last_lines_are_content() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let prompt = start(&agent, &session, &format!("echo one; {}; seq 3000", until("go")));
    agent.llm.reply(Reply::text("done"));
    agent.wait_for("the first line", |message| content_text(&message["params"]["update"]) == "one\n").await;
    agent.scratch.write("go", "");
    let turn = prompt.turn().await;
    let updates = turn.all("tool_call_update");
    let (end, running) = updates.split_last().unwrap();
    assert!(content_text(end).ends_with("\n2999\n3000\n"));
    for update in running {
        assert!(content_text(update).len() <= 4096, "{update}");
        assert!(update["_meta"].is_null(), "{update}");
        // An unchanged text is sent once.
        assert!(update["content"].is_null() || update["rawInput"].is_null(), "{update}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_flood_costs_little_more_on_the_wire_than_what_is_shown() {
    for has_terminals in [false, true] {
        let agent = Agent::builder().spawn().await;
        let agent = if has_terminals { with_terminals(agent).await } else { agent.initialized().await };
        let session = agent.new_session().await;
        let command = "yes 'a line of an ordinary log' | head -c 20000000; echo end";
        let begun = Instant::now();
        let turn = run(&agent, &session, command).await;
        // Without terminals the last lines are shown anew, at most this often.
        let n_anew = if has_terminals { 0 } else { begun.elapsed().as_millis() as usize / 100 };
        let n_wire: usize = turn.updates.iter().map(|update| update.to_string().len()).sum();
        let shown =
            if has_terminals { written(&turn.updates, "call_1") } else { content_text(&turn.tool("call_1")) };
        assert!(shown.ends_with("end\n"), "{}", &shown[shown.len() - 100..]);
        let n_allowed = 3 * shown.len() + n_anew * 5000;
        assert!(n_wire <= n_allowed, "{n_wire} bytes for {} that are shown, {n_anew} times", shown.len());
        let path = turn.tool("call_1")["rawOutput"]["metadata"]["outputPath"].as_str().unwrap().to_owned();
        assert_eq!(std::fs::metadata(path).unwrap().len(), 20_000_004);
        agent.finish().await;
    }
}

#[tokio::test]
async fn thirty_five_thousand_lines_cost_at_most_three_times_their_bytes_live_and_on_load() {
    for has_terminals in [false, true] {
        let agent = Agent::builder().spawn().await;
        let agent = if has_terminals { with_terminals(agent).await } else { agent.initialized().await };
        let session = agent.new_session().await;
        let turn = run(&agent, &session, "seq 35000").await;
        let n_printed: usize = (1..=35_000).map(|line: u32| line.to_string().len() + 1).sum();
        let on_wire =
            |updates: &[Value]| updates.iter().map(|update| update.to_string().len()).sum::<usize>();
        let (live, loaded) = (on_wire(&turn.updates), on_wire(&agent.load(&session).await));
        assert!(live <= 3 * n_printed && loaded <= 3 * n_printed, "{live} and {loaded} for {n_printed}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn fifty_megabytes_pass_through_little_memory() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    run(&agent, &session, "seq 1000").await;
    let before = process::memory(agent.pid, "VmRSS");
    run(&agent, &session, "yes 'a line of an ordinary log' | head -c 50000000; echo end").await;
    let peak = process::memory(agent.pid, "VmHWM");
    assert!(peak < before + 30_000_000, "{} MB, {} MB before", peak >> 20, before >> 20);
    agent.finish().await;
}

#[tokio::test]
async fn what_a_command_printed_survives_a_sudden_death() {
    let mut agent = with_terminals(Agent::builder().spawn().await).await;
    let session = agent.new_session().await;
    let command = format!("echo one; {}; echo two; sleep 600", until("go"));
    let _prompt = start(&agent, &session, &command);
    wait_written(&agent, "one\n").await;
    agent.scratch.write("go", "");
    wait_written(&agent, "two\n").await;
    agent.signal(Signal::SIGKILL);
    agent.wait_exit().await;
    agent.allow_cut_output();
    let successor = agent.successor();
    agent.finish().await;
    let agent = with_terminals(successor.spawn().await).await;
    let replayed = agent.load(&session).await;
    assert_eq!(written(&replayed, "call_1"), "one\ntwo\n");
    let end = replayed.iter().rfind(|update| update["toolCallId"] == "call_1").unwrap();
    assert_eq!((tag(end), &end["status"]), ("tool_call_update", &json!("failed")));
    assert_eq!(end["rawOutput"]["metadata"], json!({"output": "one\ntwo\n", "interrupted": true}));
    agent.finish().await;
}

#[tokio::test]
async fn a_load_while_a_command_runs_meets_its_output_without_gap_or_repetition() {
    let agent = with_terminals(Agent::builder().spawn().await).await;
    let session = agent.new_session().await;
    let command = format!("echo one; {}; echo two; {}; echo three", until("go"), until("end"));
    let prompt = start(&agent, &session, &command);
    agent.llm.reply(Reply::text("done"));
    wait_written(&agent, "one\n").await;
    agent.scratch.write("go", "");
    wait_written(&agent, "two\n").await;
    let replayed = agent.load(&session).await;
    assert_eq!(written(&replayed, "call_1"), "one\ntwo\n");
    agent.scratch.write("end", "");
    wait_written(&agent, "three\n").await;
    let n_updates_before = agent.updates(&session).iter().filter(|it| data(it).is_some()).count();
    prompt.turn().await;
    let updates = agent.updates(&session);
    assert_eq!(written(&updates, "call_1"), "one\ntwo\none\ntwo\nthree\n");
    assert_eq!(updates.iter().filter(|it| data(it).is_some()).count(), n_updates_before);
    agent.finish().await;
}
