//! Commands that run on behind the calls that started them.

use serde_json::{Value, json};

use crate::support::{
    agent::Agent,
    llm::{Gate, Reply},
    server::Server,
};

/// A command that runs until this file is there.
fn until(file: &str) -> Value {
    json!({"command": format!("echo begun; until [ -e {file} ]; do sleep 0.02; done; echo over"), "background": true})
}

/// Returns the words of the model's last request that stand in the user's place.
fn told(agent: &Agent) -> String {
    agent.llm.last_request().last_user()
}

#[tokio::test]
async fn the_call_returns_at_once_and_the_end_begins_a_turn_of_the_idle_session() {
    let agent = Agent::start().await;
    agent.allow_own_turns();
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", until("go")));
    agent.llm.reply(Reply::text("it runs"));
    let turn = agent.prompt(&session, "start it").await;
    assert_eq!((turn.text().as_str(), &turn.tool("call_1")["status"]), ("it runs", &json!("completed")));
    let begun = agent.llm.last_request().tool_result("call_1");
    assert!(begun.contains("in the background as job_1"), "{begun}");
    assert!(agent.llm.last_request().tools().contains(&"job".to_owned()));

    agent.llm.reply(Reply::text("it is over"));
    agent.scratch.write("go", "");
    agent.wait_text(&session, "it is over").await;
    let told = told(&agent);
    for wanted in ["<shell id=\"job_1\"", "begun", "over", "Command exited with code 0."] {
        assert!(told.contains(wanted), "{told}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_turn_that_runs_hears_of_the_end_with_its_next_step() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", until("go")));
    let (second, third) = (Gate::new(), Gate::new());
    let beside = json!({"command": "true"});
    agent.llm.reply(Reply::text("beside").and_gate(&second).and_call("call_2", "bash", beside));
    agent.llm.reply(Reply::text("done").and_gate(&third));
    let prompt = agent.send_prompt(&session, "start it");
    second.reached().await;
    agent.scratch.write("go", "");
    agent.has_descendants(0).await;
    let is_notice = |update: &Value| update.to_string().contains("(job_1): Command exited with code 0.");
    agent.has_update(&session, "the notice of the end", is_notice).await;
    second.open();
    third.reached().await;
    let told = told(&agent);
    assert!(told.contains("<shell id=\"job_1\"") && told.contains("over"), "{told}");
    third.open();
    assert_eq!(prompt.turn().await.stop, "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn an_end_that_the_model_has_read_is_not_told_again() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call(
        "call_1",
        "bash",
        json!({"command": "echo '</output>'", "background": true}),
    ));
    agent.llm.reply(Reply::call(
        "call_2",
        "job",
        json!({"id": "job_1", "action": "wait", "timeout": 20_000}),
    ));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "start it").await;
    assert_eq!(turn.stop, "end_turn");
    let request = agent.llm.last_request();
    let (waited, told) = (request.tool_result("call_2"), told(&agent));
    let n_told = usize::from(waited.contains("</output>")) + usize::from(told.contains("<\\/output>"));
    assert_eq!(n_told, 1, "{waited} {told}");
    assert!(waited.contains("Command exited with code 0."), "{waited}");
    agent.finish().await;
}

#[tokio::test]
async fn its_output_is_read_piece_by_piece_and_it_is_stopped() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let command = "echo one; until [ -e go ]; do sleep 0.02; done; echo two; touch said; sleep 600";
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": command, "background": true})));
    let first = Gate::new();
    agent.llm.reply(Reply::call(
        "call_2",
        "bash",
        json!({"command": "until [ -e said ]; do touch go; sleep 0.02; done"}),
    ));
    agent.llm.reply(Reply::call("call_3", "job", json!({"id": "job_1"})));
    agent.llm.reply(Reply::call("call_4", "job", json!({"id": "job_1"})));
    agent.llm.reply(Reply::call("call_5", "job", json!({"id": "job_1", "action": "stop"})));
    agent.llm.reply(Reply::text("stopped").and_gate(&first));
    let prompt = agent.send_prompt(&session, "start it");
    first.reached().await;
    agent.has_descendants(0).await;
    first.open();
    prompt.turn().await;
    let request = agent.llm.last_request();
    let result = |call: &str| request.tool_result(call);
    assert!(result("call_3").starts_with("one\ntwo\n"), "{}", result("call_3"));
    assert!(result("call_3").ends_with("The command is still running."), "{}", result("call_3"));
    assert!(result("call_4").starts_with("(no new output)"), "{}", result("call_4"));
    assert!(result("call_5").ends_with("Command was stopped."), "{}", result("call_5"));
    // The end of a stopped command is told to nobody.
    agent.llm.reply(Reply::text("nothing new"));
    agent.prompt(&session, "and?").await;
    assert!(!told(&agent).contains("<shell"));
    agent.finish().await;
}

#[tokio::test]
async fn it_outlives_a_cancel_and_a_load_and_ends_with_its_session() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "sleep 600", "background": true})));
    let gate = Gate::new();
    agent.llm.reply(Reply::hang(&gate));
    let prompt = agent.send_prompt(&session, "start it");
    gate.reached().await;
    agent.cancel(&session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    agent.load(&session).await;
    let listed = agent.prompt(&session, "/jobs").await.text();
    assert_eq!(listed, "- `job_1` (runs) sleep 600");
    assert!(!agent.descendants().is_empty());
    agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    agent.has_descendants(0).await;
    agent.finish().await;
}

#[tokio::test]
async fn commands_are_listed_and_stopped_by_a_slash_command() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    assert_eq!(agent.prompt(&session, "/jobs").await.text(), "Nothing runs in the background.");
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "sleep 600", "background": true})));
    agent.llm.reply(Reply::text("it runs"));
    agent.prompt(&session, "start it").await;
    assert!(agent.prompt(&session, "/jobs stop job_7").await.text().contains("No command"));
    assert_eq!(agent.prompt(&session, "/jobs stop job_1").await.text(), "`job_1` is stopped.");
    agent.has_descendants(0).await;
    assert!(agent.prompt(&session, "/jobs").await.text().contains("Command was stopped."));
    agent.finish().await;
}

#[tokio::test]
async fn only_some_run_at_a_time_and_a_time_limit_ends_one() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    // The same command again and again would be asked about.
    let call = |idx: usize| {
        let command = format!("touch begun{idx}; sleep 60{idx}");
        (format!("call_{idx}"), json!({"command": command, "background": true}))
    };
    let mut reply = Reply::text("many");
    for (id, input) in (0..9).map(call) {
        reply = reply.and_call(&id, "bash", input);
    }
    agent.llm.reply(reply);
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "start them").await;
    let request = agent.llm.last_request();
    let results: Vec<String> = (0..9).map(|idx| request.tool_result(&format!("call_{idx}"))).collect();
    let n_refused =
        results.iter().filter(|it| it.contains("8 commands run in the background already")).count();
    assert_eq!(n_refused, 1, "{results:?}");
    let refused = results.iter().position(|it| it.contains("8 commands")).unwrap();
    assert!(!agent.scratch.exists(&format!("begun{refused}")), "what is refused is never begun");

    let other = agent.new_session().await;
    let short = json!({"command": "sleep 600", "background": true, "timeout": 100});
    agent.llm.reply(Reply::call("call_1", "bash", short));
    agent.llm.reply(Reply::call("call_2", "job", json!({"id": "job_1", "action": "wait"})));
    agent.llm.reply(Reply::text("over"));
    agent.prompt(&other, "start it").await;
    let waited = agent.llm.last_request().tool_result("call_2");
    assert!(waited.contains("Command timed out before completion."), "{waited}");
    agent.finish().await;
}

#[tokio::test]
async fn programs_list_and_stop_them_over_http() {
    let server = Server::start().await;
    let id = server.session().await;
    server.llm.reply(Reply::call(
        "call_1",
        "bash",
        json!({"command": "sleep 600", "description": "Nap", "background": true}),
    ));
    server.llm.reply(Reply::text("it runs"));
    server.prompt(&id, "start it").await;
    let jobs = format!("/experimental/session/{id}/job");
    let listed = server.get(&jobs).await.ok();
    assert_eq!(
        (&listed[0]["id"], &listed[0]["description"], &listed[0]["end"]),
        (&json!("job_1"), &json!("Nap"), &Value::Null)
    );
    assert_eq!(server.send("DELETE", &format!("{jobs}/job_1"), Value::Null).await.ok(), json!(true));
    server.send("DELETE", &format!("{jobs}/job_9"), Value::Null).await.refused(404);
    server.finish().await;
}
