//! Permission: the calls that ask, the effect of each answer, the rules that decide by themselves.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer, binary},
    llm::{Gate, Reply},
    message::{diff, tag},
};

async fn asking() -> Agent {
    let config = json!({"permission": {"bash": "ask", "edit": "ask"}, "windlass": {"file_time": false}});
    Agent::start_with(config).await
}

fn edit(agent: &Agent) -> Value {
    json!({"filePath": agent.scratch.path("a.txt"), "oldString": "two", "newString": "zwei"})
}

#[tokio::test]
async fn a_command_is_asked_for_by_its_exact_text() {
    let agent = asking().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call(
        "call_1",
        "bash",
        json!({"command": "touch made", "description": "harmless"}),
    ));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert!(!agent.scratch.exists("made"), "the command ran before it was allowed");
    let call = ask.call();
    assert_eq!((&call["toolCallId"], &call["title"]), (&json!("call_1"), &json!("touch made")));
    assert_eq!((&call["kind"], &call["status"]), (&json!("execute"), &json!("pending")));
    assert_eq!(call["rawInput"]["command"], "touch made");
    let options: Vec<(&Value, &Value)> = ask.params["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| (&option["optionId"], &option["kind"]))
        .collect();
    assert_eq!(
        options,
        [
            (&json!("once"), &json!("allow_once")),
            (&json!("always"), &json!("allow_always")),
            (&json!("reject"), &json!("reject_once")),
            (&json!("reject_always"), &json!("reject_always")),
        ]
    );
    agent.answer(&ask, Answer::AllowOnce);
    assert_eq!(prompt.turn().await.stop, "end_turn");
    assert!(agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn an_edit_is_asked_for_with_the_whole_diff() {
    let agent = asking().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "edit", edit(&agent)));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    let path = agent.scratch.path("a.txt");
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(ask.call()["locations"][0]["path"], path.as_str());
    assert_eq!(ask.call()["kind"], "edit");
    let shown = diff(ask.call());
    assert_eq!(
        (&shown["path"], &shown["oldText"], &shown["newText"]),
        (&json!(path), &json!("one\ntwo\nthree\n"), &json!("one\nzwei\nthree\n"))
    );
    agent.answer(&ask, Answer::AllowOnce);
    prompt.turn().await;
    assert_eq!(agent.scratch.read("a.txt"), "one\nzwei\nthree\n");
    agent.finish().await;
}

#[tokio::test]
async fn the_call_is_announced_before_it_is_asked_for() {
    let agent = asking().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "true"})));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    let announced = agent.updates(&session).iter().any(|update| tag(update) == "tool_call");
    assert!(announced);
    agent.answer(&ask, Answer::AllowOnce);
    prompt.turn().await;
    agent.finish().await;
}

#[tokio::test]
async fn allowed_once_is_asked_again_and_always_is_not() {
    let agent = asking().await;
    let session = agent.new_session().await;
    for (id, command) in [("call_1", "git status"), ("call_2", "git status"), ("call_3", "git status -s")] {
        agent.llm.reply(Reply::call(id, "bash", json!({"command": command})));
    }
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::AllowOnce);
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::AllowAlways);
    prompt.turn().await;
    assert_eq!(agent.n_asked(), 2);
    agent.finish().await;
}

#[tokio::test]
async fn always_covers_the_same_command_with_other_arguments_only() {
    let agent = asking().await;
    let session = agent.new_session().await;
    for (id, command) in [("call_1", "git log -1"), ("call_2", "git log -2"), ("call_3", "git branch")] {
        agent.llm.reply(Reply::call(id, "bash", json!({"command": command})));
    }
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::AllowAlways);
    let ask = agent.permission().await;
    assert_eq!(ask.call()["title"], "git branch");
    agent.answer(&ask, Answer::AllowOnce);
    prompt.turn().await;
    agent.finish().await;
}

#[tokio::test]
async fn what_was_allowed_for_ever_still_asks_before_it_leaves_the_project() {
    let agent = asking().await;
    let outside = agent.scratch.root().join("log.txt");
    let session = agent.new_session().await;
    let commands = ["git log -1".to_owned(), format!("git log --output={}", outside.display())];
    for (idx, command) in commands.iter().enumerate() {
        agent.llm.reply(Reply::call(&format!("call_{idx}"), "bash", json!({"command": command})));
    }
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::AllowAlways);
    let ask = agent.permission().await;
    let directory = agent.scratch.root().canonicalize().unwrap();
    assert!(ask.params.to_string().contains(&format!("{}/*", directory.display())), "{}", ask.params);
    agent.answer(&ask, Answer::RejectOnce);
    let turn = prompt.turn().await;
    assert_eq!(turn.tool("call_1")["status"], "failed");
    assert!(!outside.exists());
    agent.finish().await;
}

#[tokio::test]
async fn a_refusal_ends_the_turn_and_nothing_runs() {
    let agent = asking().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "edit", edit(&agent)));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::RejectOnce);
    let turn = prompt.turn().await;
    assert_eq!(turn.stop, "end_turn");
    assert_eq!(turn.tool("call_1")["status"], "failed");
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(agent.llm.requests().len(), 1, "the model was asked again after a refusal");
    agent.finish().await;
}

#[tokio::test]
async fn a_cancelled_question_is_no_permission() {
    let agent = asking().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::Cancelled);
    let turn = prompt.turn().await;
    assert_eq!(turn.tool("call_1")["status"], "failed");
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_refusal_takes_the_other_questions_of_the_step_with_it() {
    let agent = asking().await;
    let session = agent.new_session().await;
    let touch = |name: &str| json!({"command": format!("touch {name}")});
    agent.llm.reply(Reply::call("call_1", "bash", touch("one")).and_call("call_2", "bash", touch("two")));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::RejectOnce);
    let turn = prompt.turn().await;
    for other in agent.asks().into_iter().filter(|other| other.id != ask.id) {
        // Either it was never asked, or it was asked at once and then withdrawn.
        agent.permission().await;
        agent.withdrawn(&other).await;
    }
    assert_eq!(turn.tool("call_1")["status"], "failed");
    assert_eq!(turn.tool("call_2")["status"], "failed");
    assert!(!agent.scratch.exists("one") && !agent.scratch.exists("two"));
    agent.finish().await;
}

#[tokio::test]
async fn a_rule_that_denies_is_told_to_the_model_and_the_turn_goes_on() {
    let config = json!({"permission": {"bash": {"*": "allow", "git push *": "deny"}}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "git push origin main"})));
    agent.llm.reply(Reply::text("understood"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.text(), "understood");
    assert_eq!(turn.tool("call_1")["status"], "failed");
    let told = agent.llm.last_request().tool_result("call_1");
    assert!(
        told.contains("The user has specified a rule which prevents you from using this specific tool call"),
        "{told}"
    );
    assert_eq!(agent.n_asked(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn a_tool_that_is_denied_altogether_is_not_offered() {
    let config = json!({"permission": {"edit": "deny"}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let tools = agent.llm.last_request().tools();
    assert!(tools.contains(&"read".to_owned()), "{tools:?}");
    assert!(!tools.contains(&"edit".to_owned()) && !tools.contains(&"write".to_owned()), "{tools:?}");
    agent.finish().await;
}

#[tokio::test]
async fn each_command_of_a_line_needs_its_own_permission() {
    let config = json!({"permission": {"bash": {"*": "ask", "echo *": "allow"}}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo fine"})));
    agent.llm.reply(Reply::call("call_2", "bash", json!({"command": "echo fine && touch made"})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["title"], "echo fine && touch made");
    agent.answer(&ask, Answer::RejectOnce);
    prompt.turn().await;
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn plan_mode_cannot_edit() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    agent.llm.reply(Reply::call("call_1", "edit", edit(&agent)));
    agent.llm.reply(Reply::text("I only planned"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.text(), "I only planned");
    assert_eq!(turn.tool("call_1")["status"], "failed");
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_file_outside_the_project_is_asked_for_by_its_path() {
    let agent = Agent::start().await;
    let outside = agent.scratch.root().join("outside.txt");
    std::fs::write(&outside, "secret\n").unwrap();
    let outside = outside.to_str().unwrap();
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "read", json!({"filePath": outside})));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert!(ask.call().to_string().contains(outside), "{}", ask.params);
    agent.answer(&ask, Answer::AllowOnce);
    prompt.turn().await;
    assert!(agent.llm.last_request().tool_result("call_1").contains("secret"));
    agent.finish().await;
}

#[tokio::test]
async fn a_command_that_touches_the_outside_is_asked_for() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let outside = agent.scratch.root().join("outside-dir");
    let command = format!("mkdir {}", outside.display());
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": command})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["rawInput"]["command"], command.as_str(), "the user must see what will run");
    agent.answer(&ask, Answer::RejectOnce);
    prompt.turn().await;
    assert!(!outside.exists());
    agent.finish().await;
}

#[tokio::test]
async fn an_env_file_is_asked_for_and_its_example_is_not() {
    let agent = Agent::start().await;
    agent.scratch.write(".env", "KEY=secret\n");
    agent.scratch.write(".env.example", "KEY=\n");
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "read", json!({"filePath": agent.scratch.path(".env.example")})));
    agent.llm.reply(Reply::call("call_2", "read", json!({"filePath": agent.scratch.path(".env")})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!((&ask.call()["toolCallId"], &ask.call()["kind"]), (&json!("call_2"), &json!("read")));
    assert_eq!(ask.call()["locations"][0]["path"], agent.scratch.path(".env"));
    agent.answer(&ask, Answer::RejectOnce);
    prompt.turn().await;
    assert!(
        !agent.lines().iter().any(|line| line.from_agent && line.message.to_string().contains("KEY=secret"))
    );
    agent.finish().await;
}

/// Returns a session on a connection that receives the permission events, and a scripted call that asks.
async fn session_with_events(agent: &Agent) -> String {
    agent
        .initialize_with(json!({"_meta": {"windlass/events": ["permission.asked", "permission.replied"]}}))
        .await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
    session
}

async fn request_id(agent: &Agent) -> String {
    let asked = agent
        .wait_for("permission.asked", |message| message["params"]["event"]["type"] == "permission.asked")
        .await;
    asked["params"]["event"]["properties"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_permission_may_be_answered_by_request_too() {
    let config = json!({"permission": {"bash": "ask"}});
    let agent = Agent::builder().config(config).spawn().await;
    let session = session_with_events(&agent).await;
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let request = request_id(&agent).await;
    let ask = agent.permission().await;
    let params = json!({"sessionId": session, "requestId": request, "reply": "once"});
    agent.request("_windlass/permission/reply", params.clone()).await.unwrap();
    agent.withdrawn(&ask).await;
    assert_eq!(prompt.turn().await.stop, "end_turn");
    assert!(agent.scratch.exists("made"));
    let error = agent.request("_windlass/permission/reply", params).await.unwrap_err();
    assert_eq!(error.code, -32002, "a second answer finds nothing to answer: {error:?}");
    agent.finish().await;
}

#[tokio::test]
async fn a_refusal_with_a_message_reaches_the_model_and_the_turn_goes_on() {
    let config = json!({"permission": {"bash": "ask"}});
    let agent = Agent::builder().config(config).spawn().await;
    let session = session_with_events(&agent).await;
    agent.llm.reply(Reply::text("as you wish"));
    let prompt = agent.send_prompt(&session, "go");
    let request = request_id(&agent).await;
    let ask = agent.permission().await;
    let params =
        json!({"sessionId": session, "requestId": request, "reply": "reject", "message": "use make instead"});
    agent.request("_windlass/permission/reply", params).await.unwrap();
    agent.withdrawn(&ask).await;
    let turn = prompt.turn().await;
    assert_eq!(turn.text(), "as you wish");
    let told = agent.llm.last_request().tool_result("call_1");
    assert!(told.contains("use make instead"), "{told}");
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_question_in_one_session_does_not_hold_up_another() {
    let agent = asking().await;
    let (first, second) = (agent.new_session().await, agent.new_session().await);
    agent.llm.reply_to("alpha", Reply::call("call_1", "bash", json!({"command": "true"})));
    agent.llm.reply_to("beta", Reply::text("free"));
    let prompt_1 = agent.send_prompt(&first, "alpha");
    let ask = agent.permission().await;
    assert_eq!(agent.prompt(&second, "beta").await.text(), "free");
    agent.llm.reply_to("alpha", Reply::text("done"));
    agent.answer(&ask, Answer::AllowOnce);
    assert_eq!(prompt_1.turn().await.text(), "done");
    agent.finish().await;
}

#[tokio::test]
async fn a_mode_chosen_during_a_turn_holds_for_its_next_step() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("looking ").and_gate(&gate).and_call(
        "call_1",
        "read",
        json!({"filePath": agent.scratch.path("a.txt")}),
    ));
    agent.llm.reply(Reply::call("call_2", "edit", edit(&agent)));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    gate.open();
    let turn = prompt.turn().await;
    assert_eq!(turn.tool("call_2")["status"], "failed");
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_mode_chosen_while_a_prompt_waits_holds_for_that_prompt() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("first ").and_gate(&gate).and_text("done"));
    agent.llm.reply(Reply::call("call_1", "edit", edit(&agent)));
    agent.llm.reply(Reply::text("planned"));
    let first = agent.send_prompt(&session, "go");
    gate.reached().await;
    let second = agent.send_prompt(&session, "edit it");
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    gate.open();
    first.turn().await;
    assert_eq!(second.turn().await.tool("call_1")["status"], "failed");
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\n");
    agent.finish().await;
}

/// Runs `windlass permission …` beside the agent and returns its output.
async fn permission_command(agent: &Agent, arguments: &[&str]) -> (bool, String) {
    let output = tokio::process::Command::new(binary())
        .arg("permission")
        .args(arguments)
        .current_dir(agent.scratch.cwd())
        .env_clear()
        .env("WINDLASS_TRUST", "1")
        .env("HOME", &agent.scratch.home)
        .output()
        .await
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn script(agent: &Agent, call_id: &str, command: &str) {
    agent.llm.reply(Reply::call(call_id, "bash", json!({"command": command})));
    agent.llm.reply(Reply::text("done"));
}

#[tokio::test]
async fn always_outlives_the_daemon_and_is_listed_and_revoked() {
    let first = asking().await;
    let session = first.new_session().await;
    script(&first, "call_1", "git log -1");
    let prompt = first.send_prompt(&session, "go");
    let ask = first.permission().await;
    first.answer(&ask, Answer::AllowAlways);
    prompt.turn().await;
    let second = first.successor().config(json!({"permission": {"bash": "ask"}}));
    first.finish().await;

    let second = second.start().await;
    let session = second.new_session().await;
    script(&second, "call_2", "git log -2");
    second.prompt(&session, "go").await;
    assert_eq!(second.n_asked(), 0);

    let (is_done, listed) = permission_command(&second, &["list"]).await;
    assert!(is_done && listed.starts_with("1\tallow\tbash\tgit log *\t"), "{listed}");
    script(&second, "call_3", "git log -3 && true");
    let prompt = second.send_prompt(&session, "go");
    let ask = second.permission().await;
    assert_eq!(ask.call()["rawInput"]["approved"], json!(["git log -3"]));
    second.answer(&ask, Answer::AllowOnce);
    prompt.turn().await;

    assert!(!permission_command(&second, &["revoke", "2"]).await.0);
    assert!(!permission_command(&second, &["revoke", "bash", "git *"]).await.0);
    let (is_done, revoked) = permission_command(&second, &["revoke", "bash", "git log *"]).await;
    assert!(is_done, "{revoked}");
    assert_eq!(permission_command(&second, &["list"]).await.1, "Nothing is remembered for this project.\n");
    script(&second, "call_4", "git log -4");
    let prompt = second.send_prompt(&session, "go");
    let ask = second.permission().await;
    second.answer(&ask, Answer::AllowOnce);
    prompt.turn().await;
    second.finish().await;
}

#[tokio::test]
async fn always_rejected_is_told_to_the_model_from_then_on() {
    let agent = asking().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::RejectAlways);
    assert_eq!(prompt.turn().await.tool("call_1")["status"], "failed");
    script(&agent, "call_2", "/usr/bin/touch made");
    let turn = agent.prompt(&session, "go").await;
    assert_eq!((turn.text(), agent.n_asked()), ("done".to_owned(), 1));
    let told = agent.llm.last_request().tool_result("call_2");
    assert!(told.contains("\"touch *\""), "{told}");
    let (_, listed) = permission_command(&agent, &["list"]).await;
    assert!(listed.starts_with("1\tdeny\tbash\ttouch *\t"), "{listed}");
    assert!(permission_command(&agent, &["revoke", "1"]).await.0);
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn what_may_be_any_command_asks_where_some_rule_would() {
    let config = json!({"permission": {"bash": {"*": "allow", "rm *": "deny"}}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "$(cat b.txt) a.txt"})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    let kinds: Vec<&Value> = ask.params["options"].as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["allow_once", "reject_once"], "it cannot be allowed for ever");
    agent.answer(&ask, Answer::RejectOnce);
    prompt.turn().await;
    assert!(agent.scratch.exists("a.txt"));
    agent.finish().await;
}

#[tokio::test]
async fn the_third_identical_call_waits_for_an_answer() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    for id in ["call_1", "call_2", "call_3"] {
        agent.llm.reply(Reply::call(id, "bash", json!({"command": "echo x >> made"})));
    }
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["toolCallId"], "call_3");
    assert_eq!(ask.call()["title"], "repeat bash, the 3rd time with the same input: echo x >> made");
    let input = json!({"tool": "bash", "input": {"command": "echo x >> made"}, "times": 3});
    assert_eq!(ask.call()["rawInput"], input);
    assert_eq!(agent.scratch.read("made"), "x\nx\n");
    agent.answer(&ask, Answer::RejectOnce);
    let turn = prompt.turn().await;
    assert_eq!((turn.stop.as_str(), &turn.tool("call_3")["status"]), ("end_turn", &json!("failed")));
    assert_eq!(agent.scratch.read("made"), "x\nx\n");

    // A turn of its own begins anew; once allowed, the third call runs, and the next one is asked about again.
    for id in ["call_4", "call_5", "call_6", "call_7"] {
        agent.llm.reply(Reply::call(id, "bash", json!({"command": "echo x >> made"})));
    }
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["toolCallId"], "call_6");
    agent.answer(&ask, Answer::AllowOnce);
    let ask = agent.permission().await;
    assert_eq!(ask.call()["title"], "repeat bash, the 4th time with the same input: echo x >> made");
    agent.answer(&ask, Answer::AllowOnce);
    prompt.turn().await;
    assert_eq!(agent.scratch.read("made").lines().count(), 6);
    agent.finish().await;
}

#[tokio::test]
async fn a_rule_decides_about_repeated_calls_as_well() {
    for (action, n_runs) in [("allow", 3), ("deny", 2)] {
        let config = json!({"permission": {"doom_loop": action}});
        let agent = Agent::start_with(config).await;
        let session = agent.new_session().await;
        for id in ["call_1", "call_2", "call_3"] {
            agent.llm.reply(Reply::call(id, "bash", json!({"command": "echo x >> made"})));
        }
        agent.llm.reply(Reply::text("done"));
        assert_eq!(agent.prompt(&session, "go").await.text(), "done");
        assert_eq!((agent.n_asked(), agent.scratch.read("made").lines().count()), (0, n_runs), "{action}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn an_answer_after_a_cancel_allows_nothing() {
    for (tool, input) in
        [("bash", json!({"command": "touch made"})), ("write", json!({"filePath": "made", "content": "x"}))]
    {
        let agent = asking().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call("call_1", tool, input));
        let prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        agent.cancel(&session);
        agent.answer(&ask, Answer::AllowAlways);
        let turn = prompt.turn().await;
        assert_eq!((turn.stop.as_str(), &turn.tool("call_1")["status"]), ("cancelled", &json!("failed")));
        assert_eq!(
            permission_command(&agent, &["list"]).await.1,
            "Nothing is remembered for this project.\n"
        );
        assert!(!agent.scratch.exists("made"), "{tool}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn nothing_runs_when_the_client_is_gone() {
    for dies in [false, true] {
        let mut agent = asking().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
        let _prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        agent.allow_cut_output();
        if dies {
            agent.close_stdout().await;
        }
        agent.close_stdin();
        agent.wait_exit().await;
        assert!(!agent.scratch.exists("made"), "dies: {dies}");
        // Too late for anybody to read.
        agent.answer(&ask, Answer::Cancelled);
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_refusal_need_not_end_the_turn() {
    let config = json!({"permission": {"bash": "ask"}, "experimental": {"continue_loop_on_deny": true}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    script(&agent, "call_1", "touch made");
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::RejectOnce);
    assert_eq!(prompt.turn().await.text(), "done");
    let told = agent.llm.last_request().tool_result("call_1");
    assert_eq!(told, "The user rejected permission to use this specific tool call.");
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn one_answer_for_ever_settles_every_call_it_covers_and_none_is_shown_in_vain() {
    let agent = asking().await;
    let session = agent.new_session().await;
    let log = |n: usize| json!({"command": format!("git log -{n} >> made")});
    let mut reply = Reply::call("call_0", "bash", json!({"command": "git log -9"}));
    for n in 1..8 {
        reply = reply.and_call(&format!("call_{n}"), "bash", log(n));
    }
    agent.llm.reply(reply.and_call("call_8", "bash", json!({"command": "touch other"})));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    // The calls run side by side: any of them may ask first. One that is judged behind the answer shows no line of its
    // own, so that its redirection is asked about.
    let mut asked = Vec::new();
    let turn = loop {
        tokio::select! {
            biased;
            ask = agent.permission() => {
                let is_other = ask.call()["title"] == "touch other";
                agent.answer(&ask, if is_other { Answer::AllowOnce } else { Answer::AllowAlways });
                asked.push((is_other, ask.call()["kind"] == "edit"));
            }
            turn = prompt.turn() => break turn,
        }
    };
    for n in 0..9 {
        assert_eq!(turn.tool(&format!("call_{n}"))["status"], "completed");
    }
    asked.sort_unstable();
    assert!(
        [vec![(false, false), (true, false)], vec![(false, false), (false, true), (true, false)]]
            .contains(&asked)
    );
    agent.finish().await;
}

#[tokio::test]
async fn a_cancel_shows_none_of_the_questions_that_wait() {
    let agent = asking().await;
    let session = agent.new_session().await;
    let touch = |name: &str| json!({"command": format!("touch {name}")});
    agent.llm.reply(Reply::call("call_1", "bash", touch("one")).and_call("call_2", "bash", touch("two")));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    let is_second = |message: &Value| message["params"]["update"]["title"] == "touch two";
    agent.wait_for("the second command", is_second).await;
    agent.cancel(&session);
    agent.withdrawn(&ask).await;
    assert_eq!((prompt.turn().await.stop.as_str(), agent.n_asked()), ("cancelled", 1));
    assert!(!agent.scratch.exists("one") && !agent.scratch.exists("two"));
    agent.finish().await;
}
