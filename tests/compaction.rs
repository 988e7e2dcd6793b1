//! A context that is full: automatic summaries, how they end, and old outputs that are taken out.

use serde_json::{Value, json};

use crate::{
    cli::Machine,
    support::{
        agent::Agent,
        llm::{Gate, Reply, request::Request},
        message::{Turn, tag, text},
        terminal::Terminal,
    },
};

/// More than the mock model's context holds beside an answer.
const FULL: u64 = 195_000;
const SUMMARY: &str = "## Objective\nbees";

fn refusal() -> Reply {
    Reply::status(400).body(json!({"error": {"message": "prompt is too long"}}))
}

fn call(n: usize) -> Reply {
    Reply::call(&format!("call_{n}"), "bash", json!({"command": format!("echo inside {n}")}))
}

/// Returns the role and text of each message behind the system prompt.
fn said(request: &Request) -> Vec<(String, String)> {
    let text = |message: &Value| {
        let role = message["role"].as_str().unwrap().to_owned();
        (role, message["content"].as_str().unwrap_or_default().trim().to_owned())
    };
    request.messages()[1..].iter().map(text).collect()
}

fn is_summary(request: &Request) -> bool {
    request.system().contains("You condense a conversation")
}

/// Returns an agent and a session with one answered prompt.
async fn begun(config: Value) -> (Agent, String) {
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text(&"one ".repeat(100)));
    agent.prompt(&session, "first").await;
    (agent, session)
}

async fn failed(agent: &Agent, session: &str, prompt: &str) -> String {
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": prompt}]});
    agent.request("session/prompt", params).await.unwrap_err().message
}

#[tokio::test]
async fn a_refused_prompt_is_said_again_behind_a_summary() {
    let (agent, session) = begun(json!({})).await;
    for reply in [refusal(), Reply::text(SUMMARY), Reply::text("two")] {
        agent.llm.reply(reply);
    }
    let turn = agent.prompt(&session, "second").await;
    assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "two"));
    assert_eq!(turn.thoughts(), SUMMARY);
    let requests = agent.llm.requests();
    assert_eq!(requests.len(), 4);
    assert!(is_summary(&requests[2]) && requests[2].tools().is_empty());
    let asked = requests[2].last_user();
    assert!(asked.contains("[User]: first") && !asked.contains("second"), "{asked}");
    let told = [("user", "What did we do so far?"), ("assistant", SUMMARY), ("user", "second")];
    let told = told.map(|(role, text)| (role.to_owned(), text.to_owned()));
    assert_eq!(said(&requests[3]), told);

    let agent = agent.restarted().await;
    let shown = agent.load(&session).await;
    assert_eq!(text(&shown, "user_message_chunk"), "firstsecond");
    assert_eq!(text(&shown, "agent_message_chunk").trim_end_matches("two"), "one ".repeat(100));
    assert_eq!(text(&shown, "agent_thought_chunk"), SUMMARY);
    // An undo takes out the prompt, and with it the summary that was made for it.
    let undone = agent.prompt(&session, "/undo").await;
    assert!(undone.text().starts_with("Undone: \"second\""), "{}", undone.text());
    agent.llm.reply(Reply::text("three"));
    agent.prompt(&session, "third").await;
    let told = said(&agent.llm.last_request());
    assert_eq!(told.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["user", "assistant", "user"]);
    assert_eq!(told[0].1, "first");
    agent.finish().await;
}

#[tokio::test]
async fn clients_that_show_compactions_hear_how_far_one_is() {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"session": {"compaction": {}}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text(&"one ".repeat(100)));
    agent.prompt(&session, "first").await;
    let updates = |turn: &Turn| -> Vec<Value> {
        let of_one = turn
            .all("compaction_update")
            .into_iter()
            .map(|it| json!([it["status"], it["summary"][0]["text"]]));
        of_one.collect()
    };
    for reply in [refusal(), Reply::text(SUMMARY), Reply::text("two")] {
        agent.llm.reply(reply);
    }
    let turn = agent.prompt(&session, "second").await;
    assert_eq!(updates(&turn), [json!(["in_progress", null]), json!(["completed", SUMMARY])]);
    let ids: Vec<&Value> = turn.all("compaction_update").iter().map(|it| &it["compactionId"]).collect();
    assert_eq!(ids[0], ids[1]);
    for end in ["cancelled", "failed"] {
        let gate = Gate::new();
        let reply = if end == "failed" { Reply::status(400) } else { Reply::text("half").and_gate(&gate) };
        agent.llm.reply(reply);
        let prompt = agent.send_prompt(&session, "/compact");
        if end == "cancelled" {
            gate.reached().await;
            agent.cancel(&session);
        }
        let updates = prompt.updates().await;
        let statuses: Vec<&Value> =
            updates.iter().filter(|it| tag(it) == "compaction_update").map(|it| &it["status"]).collect();
        assert_eq!(statuses, ["in_progress", end]);
    }
    agent.finish().await;
}

#[tokio::test]
async fn pictures_are_left_out_of_a_prompt_that_is_said_again() {
    let (agent, session) = begun(json!({})).await;
    for reply in [refusal(), Reply::text(SUMMARY), Reply::text("two")] {
        agent.llm.reply(reply);
    }
    let image = json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="});
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "look"}, image]});
    agent.request("session/prompt", params).await.unwrap();
    let told = agent.llm.last_request().body["messages"].to_string();
    assert!(told.contains("was left out to make room") && !told.contains("iVBOR"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn a_turn_that_fills_the_context_goes_on_behind_a_summary() {
    let (agent, session) = begun(json!({"compaction": {"preserve_recent_tokens": 60}})).await;
    for reply in [call(1).tokens(FULL, 10), Reply::text(SUMMARY), Reply::text("done")] {
        agent.llm.reply(reply);
    }
    let turn = agent.prompt(&session, "go").await;
    assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "done"));
    let requests = agent.llm.requests();
    assert!(is_summary(&requests[2]));
    let told = [
        ("user", "What did we do so far?"),
        ("assistant", SUMMARY),
        ("user", "go"),
        ("assistant", ""),
        ("tool", "inside 1"),
    ];
    assert_eq!(said(&requests[3]), told.map(|(role, text)| (role.to_owned(), text.to_owned())));
    agent.finish().await;
}

#[tokio::test]
async fn a_new_prompt_to_a_full_context_is_answered_behind_a_summary() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("one").tokens(FULL, 10));
    agent.prompt(&session, "first").await;
    agent.llm.reply(Reply::text(SUMMARY));
    agent.llm.reply(Reply::text("two"));
    assert_eq!(agent.prompt(&session, "second").await.text(), "two");
    let told = said(&agent.llm.last_request());
    assert_eq!(told[1].1, SUMMARY);
    assert_eq!(told[2], ("user".to_owned(), "second".to_owned()));
    assert_eq!(told.len(), 3);
    agent.finish().await;
}

#[tokio::test]
async fn a_summary_that_does_not_help_ends_the_turn() {
    let (agent, session) = begun(json!({})).await;
    for reply in [refusal(), Reply::text(SUMMARY), refusal()] {
        agent.llm.reply(reply);
    }
    let error = failed(&agent, &session, "second").await;
    for wanted in ["mock/mock", "did not make enough room", "Begin a new session", "prompt is too long"] {
        assert!(error.contains(wanted), "{wanted} is missing in {error}");
    }
    assert_eq!(agent.llm.requests().len(), 4);
    // The next prompt may try again.
    agent.llm.reply(Reply::text("three"));
    assert_eq!(agent.prompt(&session, "third").await.text(), "three");
    agent.finish().await;
}

#[tokio::test]
async fn figures_that_stay_high_bring_no_second_summary() {
    let (agent, session) = begun(json!({})).await;
    for reply in [call(1).tokens(FULL, 10), Reply::text(SUMMARY)] {
        agent.llm.reply(reply);
    }
    for n in 2..5 {
        agent.llm.reply(call(n).tokens(FULL, 10));
    }
    agent.llm.reply(Reply::text("done").tokens(FULL, 10));
    assert_eq!(agent.prompt(&session, "go").await.text(), "done");
    assert_eq!(agent.llm.requests().iter().filter(|it| is_summary(it)).count(), 1);
    let go_on = agent.llm.requests()[3].last_user();
    assert!(go_on.contains("Go on with the next step"), "{go_on}");
    agent.llm.reply(call(5).tokens(250_000, 10));
    let error = failed(&agent, &session, "more").await;
    assert!(error.contains("did not make enough room"), "{error}");
    agent.finish().await;
}

#[tokio::test]
async fn a_first_prompt_that_is_too_large_is_refused_in_words() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(refusal());
    let error = failed(&agent, &session, "first").await;
    assert!(error.contains("nothing before it to summarise"), "{error}");
    agent.finish().await;
}

#[tokio::test]
async fn without_automatic_compaction_the_way_out_is_named() {
    let (agent, session) = begun(json!({"compaction": {"auto": false}})).await;
    agent.llm.reply(refusal());
    let error = failed(&agent, &session, "second").await;
    assert!(error.contains("prompt is too long") && error.contains("`/compact`"), "{error}");
    agent.llm.reply(call(1).tokens(FULL, 10));
    agent.llm.reply(Reply::text("done"));
    assert_eq!(agent.prompt(&session, "third").await.text(), "done");
    assert_eq!(agent.llm.requests().len(), 4);
    agent.finish().await;
}

#[tokio::test]
async fn a_cancelled_summary_ends_the_turn_and_leaves_the_conversation() {
    let (agent, session) = begun(json!({})).await;
    let gate = Gate::new();
    agent.llm.reply(refusal());
    agent.llm.reply(Reply::text("## Obj").and_gate(&gate));
    let prompt = agent.send_prompt(&session, "second");
    gate.reached().await;
    agent.cancel(&session);
    let turn = prompt.turn().await;
    assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("cancelled", ""));
    agent.llm.reply(Reply::text("three"));
    agent.prompt(&session, "third").await;
    let told: Vec<String> = said(&agent.llm.last_request()).into_iter().map(|it| it.1).collect();
    assert_eq!((told[0].as_str(), told[2].as_str(), told[3].as_str()), ("first", "second", "third"));
    agent.finish().await;
}

#[tokio::test]
async fn run_prints_the_answer_without_the_summary() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("one"));
    machine.run(&["run", "first"]).await;
    let script = || {
        for reply in [refusal(), Reply::text(SUMMARY), Reply::text("two")] {
            machine.llm.reply(reply);
        }
    };
    script();
    let ended = machine.run(&["run", "-c", "second"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "two\n"), "{}", ended.stderr);
    assert_eq!(ended.said(), "The conversation was summarised to make room.\n");
    script();
    let ended = machine.run(&["run", "-c", "--format", "json", "third"]).await;
    let texts = ended.of_type("text");
    let texts: Vec<&str> = texts.iter().filter_map(|line| line["part"]["text"].as_str()).collect();
    assert_eq!((ended.code, texts), (Some(0), vec!["two"]), "{ended:?}");
    script();
    let mut terminal =
        Terminal::builder(&machine.scratch, &machine.config).arguments(&["run", "-c", "fourth"]).start();
    terminal.shows_text("The conversation was summed up to save room.").await;
    let screen = terminal.ends_with(0).await;
    assert!(screen.contains("two") && !screen.contains("bees"), "{screen}");
    for reply in [refusal(), Reply::text(SUMMARY), refusal()] {
        machine.llm.reply(reply);
    }
    let ended = machine.run(&["run", "-c", "fifth"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("did not make enough room"), "{}", ended.stderr);
    machine.finish().await;
}

#[tokio::test]
async fn old_outputs_are_taken_out_of_what_the_model_reads() {
    let config = json!({"compaction": {"prune": true}, "tool_output": {"max_bytes": 1_000_000}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    let command = json!({"command": "yes xxxxxxxxx | head -c 200000 | tr -d '\\n'"});
    agent.llm.reply(Reply::call("call_1", "bash", command));
    for (said, answer) in [("first", "one"), ("second", "two"), ("third", "three"), ("fourth", "four")] {
        agent.llm.reply(Reply::text(answer));
        let turn = agent.prompt(&session, said).await;
        assert_eq!(turn.text(), answer);
        assert_eq!(turn.all("tool_call").len(), usize::from(said == "first"), "an old call was shown again");
    }
    let results: Vec<String> =
        agent.llm.requests()[1..].iter().map(|request| request.tool_result("call_1")).collect();
    assert!(results[..3].iter().all(|result| result.contains("xxxxxxxxx")));
    assert_eq!(results[3..], ["[Old tool result content cleared]"]);
    // A client loads the whole history.
    let agent = agent.restarted().await;
    let shown = json!(agent.load(&session).await).to_string();
    assert!(shown.contains("xxxxxxxxx"));
    agent.llm.reply(Reply::text("five"));
    agent.prompt(&session, "fifth").await;
    assert_eq!(agent.llm.last_request().tool_result("call_1"), "[Old tool result content cleared]");
    agent.finish().await;
}
