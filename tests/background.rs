//! Subagents in the background: the call does not wait, and the result comes to the session by itself.

use serde_json::{Value, json};

use crate::{
    cli::Machine,
    support::{
        agent::{Agent, Answer},
        llm::{Gate, Reply, task},
        server::{Events, Server},
    },
};

/// Part of the message by which a result comes.
const CAME: &str = "in the background has ended";

async fn start(config: Value) -> Agent {
    let on = json!({"windlass": {"background_subagents": true}});
    let agent = Agent::builder().config(on).config(config).start().await;
    agent.allow_own_turns();
    agent
}

fn in_background(prompt: &str) -> Value {
    let mut input = task(prompt, "general");
    input["background"] = json!(true);
    input
}

/// Has the model begin a task in the background, and ends that turn; returns the subagent's session.
async fn begin(agent: &Agent, session: &str) -> String {
    agent.llm.reply_to("go", Reply::call("call_1", "task", in_background("CHILD")));
    agent.llm.reply_to("go", Reply::text("begun"));
    let turn = agent.prompt(session, "go").await;
    assert_eq!((turn.text(), turn.stop.as_str()), ("begun".to_owned(), "end_turn"));
    let call = turn.tool("call_1");
    let metadata = &call["rawOutput"]["metadata"];
    assert_eq!((&call["status"], &metadata["background"]), (&json!("completed"), &json!(true)), "{call}");
    metadata["sessionId"].as_str().unwrap().to_owned()
}

/// Waits for the end of a turn of the session, and not of one of its subagents'.
async fn until_idle(events: &mut Events, session: &str) {
    while events.until("session.idle").await.last().unwrap()["properties"]["sessionID"] != session {}
}

#[tokio::test]
async fn it_is_offered_by_our_setting_or_else_by_opencodes_variables() {
    for (setting, variable, expected) in [
        (json!({}), None, false),
        (json!({}), Some("OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS"), true),
        (json!({}), Some("OPENCODE_EXPERIMENTAL"), true),
        (json!({"background_subagents": false}), Some("OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS"), false),
        (json!({"background_subagents": true}), None, true),
    ] {
        let mut builder = Agent::builder().config(json!({"windlass": setting}));
        if let Some(name) = variable {
            builder = builder.env(name, "1");
        }
        let agent = builder.start().await;
        agent.llm.reply(Reply::call("call_1", "task", in_background("CHILD")));
        let gate = Gate::new();
        let found = if expected { Reply::hang(&gate) } else { Reply::text("found").and_gate(&gate) };
        if !expected {
            gate.open();
        }
        agent.llm.reply_to("CHILD", found);
        agent.llm.reply(Reply::text("done"));
        let session = agent.new_session().await;
        agent.prompt(&session, "go").await;
        let parent = agent.llm.requests().into_iter().next().unwrap().body["tools"].to_string();
        let names_it = parent.contains("In the background") && parent.contains("\"background\":");
        assert_eq!(names_it, expected, "{setting} {variable:?}");
        gate.reached().await;
        agent.request("session/close", json!({"sessionId": session})).await.unwrap();
        agent.finish().await;
    }
}

#[tokio::test]
async fn the_call_returns_at_once_and_the_result_begins_a_turn_of_the_idle_session() {
    let agent = start(json!({})).await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent
        .llm
        .reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "echo inside"})).and_gate(&gate));
    agent.llm.reply_to("CHILD", Reply::text("found it"));
    let child = begin(&agent, &session).await;
    let requests = agent.llm.requests();
    let told = requests.iter().rfind(|request| request.last_user() == "go").unwrap().tool_result("call_1");
    assert!(told.starts_with(&format!("<task id=\"{child}\" state=\"running\">")), "{told}");
    agent.llm.reply_to(CAME, Reply::text("I have seen it"));
    gate.open();
    agent.wait_text(&session, "I have seen it").await;
    let last = agent.llm.last_request().last_user();
    assert!(last.contains(&format!("<task id=\"{child}\" state=\"completed\">")), "{last}");
    assert!(last.contains("<task_result>\nfound it\n</task_result>"), "{last}");
    let is_seen =
        |update: &Value| update["toolCallId"] == format!("{child}/call_9") && update["status"] == "completed";
    agent.has_update(&session, "the subagent's call", is_seen).await;
    // The conversation goes on with it, and so does the task.
    agent.llm.reply_to(
        "more",
        Reply::call("call_2", "task", {
            let mut input = in_background("AGAIN");
            input["task_id"] = json!(child);
            input
        }),
    );
    agent.llm.reply_to("more", Reply::text("begun again"));
    let gate = Gate::new();
    agent.llm.reply_to("AGAIN", Reply::text("found more").and_gate(&gate));
    agent.llm.reply_to("found more", Reply::text("seen again"));
    agent.prompt(&session, "more").await;
    gate.open();
    agent.wait_text(&session, "seen again").await;
    agent.finish().await;
}

#[tokio::test]
async fn a_turn_that_runs_takes_the_result_in() {
    let agent = start(json!({})).await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", in_background("CHILD")));
    agent.llm.reply_to("CHILD", Reply::text("found it"));
    agent.llm.answer_with(|request| {
        let n_calls = request.body["messages"].as_array().unwrap().len();
        if request.last_user().contains(CAME) {
            Reply::text("taken in")
        } else {
            Reply::call(&format!("call_{n_calls}"), "bash", json!({"command": format!("echo {n_calls}")}))
        }
    });
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.text(), "taken in");
    let n_requests = agent.llm.requests().len();
    agent.llm.reply_to("next", Reply::text("next"));
    agent.prompt(&session, "next").await;
    assert_eq!(agent.llm.requests().len(), n_requests + 1, "no other turn was begun");
    agent.finish().await;
}

#[tokio::test]
async fn its_questions_reach_the_user_when_the_turn_is_over() {
    let agent = start(json!({"permission": {"bash": "ask"}})).await;
    let session = agent.new_session().await;
    agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "touch made"})));
    agent.llm.reply_to("CHILD", Reply::text("made it"));
    agent.llm.reply_to(CAME, Reply::text("seen"));
    let child = begin(&agent, &session).await;
    let ask = agent.permission().await;
    assert_eq!(ask.params["sessionId"], session.as_str());
    assert_eq!(ask.call()["toolCallId"], format!("{child}/call_9"));
    agent.answer(&ask, Answer::AllowOnce);
    agent.wait_text(&session, "seen").await;
    assert!(agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn it_ends_with_the_session_and_with_a_cancel_and_nothing_runs_behind_that() {
    for method in ["session/close", "session/cancel", "session/delete"] {
        let agent = start(json!({})).await;
        let session = agent.new_session().await;
        let gate = Gate::new();
        agent.llm.reply_to("CHILD", Reply::hang(&gate));
        begin(&agent, &session).await;
        gate.reached().await;
        if method == "session/cancel" {
            agent.cancel(&session);
        } else {
            agent.request(method, json!({"sessionId": session})).await.unwrap();
        }
        gate.abandoned().await;
        let other = agent.new_session().await;
        agent.llm.reply_to("works", Reply::text("works"));
        assert_eq!(agent.prompt(&other, "works").await.text(), "works");
        assert_eq!(agent.llm.requests().len(), 4, "{method}: nothing came of it");
        agent.finish().await;
    }
}

#[tokio::test]
async fn only_some_work_in_the_background_at_a_time() {
    let agent = start(json!({})).await;
    let session = agent.new_session().await;
    let mut calls = Reply::call("call_0", "task", in_background("CHILD 0"));
    for n in 1..9 {
        calls = calls.and_call(&format!("call_{n}"), "task", in_background(&format!("CHILD {n}")));
    }
    let gate = Gate::new();
    let late = gate.clone();
    agent.llm.reply_to("go", calls);
    agent.llm.reply_to("go", Reply::text("begun"));
    agent.llm.answer_with(move |_| Reply::hang(&late));
    let turn = agent.prompt(&session, "go").await;
    let statuses = (0..9).map(|n| turn.tool(&format!("call_{n}"))["status"].clone());
    assert_eq!(statuses.filter(|status| *status == "failed").count(), 1);
    let messages = agent.llm.requests().iter().map(|it| it.body.to_string()).collect::<String>();
    assert!(messages.contains("8 subagents work in the background already."));
    // Two of the session above, and one of each subagent that had room.
    agent.llm.asked(10).await;
    agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    gate.abandoned().await;
    agent.finish().await;
}

#[tokio::test]
async fn one_that_works_is_given_more_to_do_in_the_background_only() {
    let agent = start(json!({})).await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply_to("CHILD", Reply::text("first").and_gate(&gate));
    let child = begin(&agent, &session).await;
    // Else its first request has both prompts.
    gate.reached().await;
    let more = |input: Value| {
        let mut input = input;
        input["task_id"] = json!(child);
        input
    };
    let waiting = more(task("MORE", "general"));
    agent.llm.reply_to("wait", Reply::call("call_2", "task", waiting));
    agent.llm.reply_to("wait", Reply::call("call_3", "task", more(in_background("MORE"))));
    agent.llm.reply_to("wait", Reply::text("given"));
    let turn = agent.prompt(&session, "wait").await;
    assert_eq!(turn.tool("call_2")["status"], "failed");
    assert_eq!(turn.tool("call_3")["status"], "completed");
    // Results that come together are told together.
    let later = Gate::new();
    agent.llm.reply_to("MORE", Reply::text("second").and_gate(&later));
    agent.llm.reply_to("<task_result>\nfirst", Reply::text("seen one"));
    agent.llm.reply_to("<task_result>\nsecond", Reply::text("seen two"));
    gate.open();
    agent.wait_text(&session, "seen one").await;
    later.open();
    agent.wait_text(&session, "seen two").await;
    agent.finish().await;
}

#[tokio::test]
async fn a_failure_comes_as_one() {
    let agent = start(json!({})).await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply_to("CHILD", Reply::status(400).behind(&gate));
    agent.llm.reply_to(CAME, Reply::text("a pity"));
    let child = begin(&agent, &session).await;
    gate.open();
    agent.wait_text(&session, "a pity").await;
    let last = agent.llm.last_request().last_user();
    assert!(last.contains(&format!("<task id=\"{child}\" state=\"error\">")), "{last}");
    agent.finish().await;
}

#[tokio::test]
async fn a_daemon_whose_input_has_ended_waits_for_the_result_and_for_its_answer() {
    let agent = start(json!({})).await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply_to("CHILD", Reply::text("found it").and_gate(&gate));
    begin(&agent, &session).await;
    gate.reached().await;
    agent.close_stdin();
    agent.llm.reply_to(CAME, Reply::text("seen at last"));
    gate.open();
    agent.wait_text(&session, "seen at last").await;
    agent.finish().await;
}

#[tokio::test]
async fn a_run_of_one_turn_waits_for_its_subagents_as_for_others() {
    let machine = Machine::new().await;
    let on = json!({"windlass": {"background_subagents": true}});
    machine.scratch.write("opencode.json", on.to_string());
    machine.llm.reply_to("go", Reply::call("call_1", "task", in_background("CHILD")));
    machine.llm.reply_to("CHILD", Reply::text("found it"));
    machine.llm.reply_to("go", Reply::text("all done"));
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = machine.llm.last_request().tool_result("call_1");
    assert!(told.contains("state=\"completed\"") && told.contains("found it"), "{told}");
    machine.finish().await;
}

#[tokio::test]
async fn a_client_of_the_server_is_told_that_it_is_offered_and_sees_the_turn_of_the_result() {
    let server = Server::builder().config("windlass", json!({"background_subagents": true})).start().await;
    assert_eq!(server.get("/experimental/capabilities").await.ok(), json!({"backgroundSubagents": true}));
    let id = server.session().await;
    let gate = Gate::new();
    server.llm.reply_to("go", Reply::call("call_1", "task", in_background("CHILD")));
    server.llm.reply_to("go", Reply::text("begun"));
    server.llm.reply_to("CHILD", Reply::text("found it").and_gate(&gate));
    server.llm.reply_to(CAME, Reply::text("seen"));
    server.prompt(&id, "go").await;
    let mut events = server.events("/event").await;
    gate.open();
    until_idle(&mut events, &id).await;
    let messages = server.get(&format!("/session/{id}/message")).await.ok();
    let last = messages.as_array().unwrap().last().unwrap()["parts"].to_string();
    assert!(last.contains("seen"), "{last}");
    drop(events);
    server.finish().await;
}

#[tokio::test]
async fn a_client_moves_a_subagent_to_the_background_while_its_call_waits() {
    let server = Server::builder().config("windlass", json!({"background_subagents": true})).start().await;
    let id = server.session().await;
    let move_route = format!("/experimental/session/{id}/background");
    assert_eq!(server.post(&move_route, json!({})).await.ok(), json!(false));
    let gate = Gate::new();
    server.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    server.llm.reply_to("go", Reply::text("gone on"));
    server.llm.reply_to("CHILD", Reply::text("found it").and_gate(&gate));
    server.llm.reply_to(CAME, Reply::text("seen"));
    let moved = async {
        gate.reached().await;
        server.post(&move_route, json!({})).await.ok()
    };
    let (answer, moved) = tokio::join!(server.prompt(&id, "go"), moved);
    assert_eq!(moved, json!(true));
    assert!(answer["parts"].to_string().contains("gone on"), "{answer}");
    assert_eq!(server.post(&move_route, json!({})).await.ok(), json!(false), "it is there already");
    let messages = server.get(&format!("/session/{id}/message")).await.ok();
    let call = messages[1]["parts"].as_array().unwrap().iter().find(|part| part["type"] == "tool").unwrap();
    assert_eq!(call["state"]["metadata"]["background"], true, "{call}");
    assert!(call["state"]["output"].as_str().unwrap().contains("state=\"running\""), "{call}");
    let mut events = server.events("/event").await;
    gate.open();
    until_idle(&mut events, &id).await;
    let last = server.llm.last_request().last_user();
    assert!(last.contains("<task_result>\nfound it\n</task_result>"), "{last}");
    drop(events);
    server.finish().await;
}

#[tokio::test]
async fn a_subagent_stays_where_it_is_unless_the_background_is_offered() {
    let server = Server::start().await;
    let id = server.session().await;
    let gate = Gate::new();
    server.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    server.llm.reply_to("go", Reply::text("all done"));
    server.llm.reply_to("CHILD", Reply::text("found it").and_gate(&gate));
    let moved = async {
        gate.reached().await;
        let moved = server.post(&format!("/experimental/session/{id}/background"), json!({})).await.ok();
        gate.open();
        moved
    };
    let (answer, moved) = tokio::join!(server.prompt(&id, "go"), moved);
    assert_eq!(moved, json!(false));
    assert!(answer["parts"].to_string().contains("all done"), "{answer}");
    assert!(server.llm.last_request().tool_result("call_1").contains("found it"));
    server.finish().await;
}
