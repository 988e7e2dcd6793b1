//! Subagents: their work, their questions and their end are seen under the task call of the session that started them.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::{Gate, Reply, task},
    message::tag,
};

/// Returns the id of the child session in a task's result.
fn child_of(result: &str) -> String {
    result.split('"').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn a_subagent_answers_its_task_and_its_calls_are_seen() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_1", "bash", json!({"command": "echo inside"})));
    agent.llm.reply_to("CHILD", Reply::text("found it"));
    agent.llm.reply_to("go", Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.text(), "done");
    let result = agent.llm.last_request().tool_result("call_1");
    assert!(result.contains("state=\"completed\"") && result.contains("found it"), "{result}");
    let child = child_of(&result);
    let call = turn.tool("call_1");
    assert_eq!((&call["kind"], &call["status"]), (&json!("think"), &json!("completed")));
    assert_eq!(call["rawOutput"]["metadata"]["sessionId"], child.as_str());
    let inside = turn.tool(&format!("{child}/call_1"));
    let nesting = json!({"toolName": "bash", "parentToolUseId": "call_1"});
    assert_eq!(inside["_meta"]["claudeCode"], nesting);
    assert_eq!((&inside["title"], &inside["status"]), (&json!("general: echo inside"), &json!("completed")));
    agent.finish().await;
}

#[tokio::test]
async fn a_subagents_question_reaches_the_client() {
    for (answer, status) in [(Answer::AllowOnce, "completed"), (Answer::RejectOnce, "failed")] {
        let agent = Agent::asking("bash").await;
        let session = agent.new_session().await;
        agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
        agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "touch made"})));
        if status == "completed" {
            agent.llm.reply_to("CHILD", Reply::text("made it"));
        }
        agent.llm.reply_to("go", Reply::text("done"));
        let prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        assert_eq!(ask.params["sessionId"], session.as_str());
        assert_eq!(ask.call()["title"], "general: touch made");
        assert!(ask.call()["toolCallId"].as_str().unwrap().ends_with("/call_9"));
        agent.answer(&ask, answer);
        let turn = prompt.turn().await;
        assert_eq!(turn.text(), "done");
        assert_eq!(turn.tool("call_1")["status"], status);
        assert_eq!(agent.scratch.exists("made"), status == "completed");
        agent.finish().await;
    }
}

#[tokio::test]
async fn subagents_of_one_step_work_side_by_side_and_ask_one_by_one() {
    let agent = Agent::asking("bash").await;
    let session = agent.new_session().await;
    agent.llm.reply_to(
        "go",
        Reply::call("call_1", "task", task("FIRST", "general")).and_call(
            "call_2",
            "task",
            task("SECOND", "general"),
        ),
    );
    for name in ["FIRST", "SECOND"] {
        agent.llm.reply_to(name, Reply::call("call_9", "bash", json!({"command": format!("touch {name}")})));
        agent.llm.reply_to(name, Reply::text("made"));
    }
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    for _ in 0..2 {
        let ask = agent.permission().await;
        agent.answer(&ask, Answer::AllowOnce);
    }
    let turn = prompt.turn().await;
    assert_eq!(turn.text(), "done");
    assert!(agent.scratch.exists("FIRST") && agent.scratch.exists("SECOND"));
    agent.finish().await;
}

#[tokio::test]
async fn cancelling_the_turn_ends_its_subagents() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::hang(&gate));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    agent.cancel(&session);
    let turn = prompt.turn().await;
    assert_eq!(turn.stop, "cancelled");
    assert_eq!(turn.tool("call_1")["status"], "failed");
    gate.abandoned().await;
    agent.llm.reply_to("again", Reply::text("works"));
    assert_eq!(agent.prompt(&session, "again").await.text(), "works");
    agent.finish().await;
}

#[tokio::test]
async fn a_pending_question_of_a_subagent_is_taken_back_with_the_turn() {
    let agent = Agent::asking("bash").await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "touch made"})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.cancel(&session);
    agent.withdrawn(&ask).await;
    assert_eq!(prompt.turn().await.stop, "cancelled");
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_subagent_may_start_another_only_as_deep_as_configured() {
    for depth in [1, 2] {
        let config = json!({
            "subagent_depth": depth,
            "agent": {"digger": {"mode": "subagent", "permission": {"task": "allow"}}},
        });
        let agent = Agent::start_with(config).await;
        let session = agent.new_session().await;
        agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "digger")));
        agent.llm.reply_to("CHILD", Reply::call("call_2", "task", task("GRANDCHILD", "general")));
        if depth == 2 {
            agent.llm.reply_to("GRANDCHILD", Reply::text("deep"));
        }
        agent.llm.reply_to("CHILD", Reply::text("back"));
        agent.llm.reply_to("go", Reply::text("done"));
        assert_eq!(agent.prompt(&session, "go").await.text(), "done");
        let results: Vec<String> =
            agent.llm.requests().iter().map(|request| request.body["messages"].to_string()).collect();
        let wanted = if depth == 2 { "deep" } else { "Subagent depth limit reached (1)" };
        assert!(results.iter().any(|result| result.contains(wanted)), "{results:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn what_a_mode_may_not_do_its_subagents_may_not_either() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    let config = json!({"filePath": agent.scratch.path("new.txt"), "content": "x"});
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "explore")));
    agent.llm.reply_to("CHILD", Reply::call("call_2", "write", config));
    agent.llm.reply_to("CHILD", Reply::text("could not"));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert!(!agent.scratch.exists("new.txt"));
    agent.finish().await;
}

#[tokio::test]
async fn a_task_goes_on_with_its_memory() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD one", "general")));
    agent.llm.reply_to("CHILD one", Reply::text("remembered"));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    let child = child_of(&agent.llm.last_request().tool_result("call_1"));
    let mut more = task("CHILD two", "general");
    more["task_id"] = json!(child);
    agent.llm.reply_to("more", Reply::call("call_2", "task", more));
    agent.llm.reply_to("CHILD two", Reply::text("went on"));
    agent.llm.reply_to("more", Reply::text("done"));
    agent.prompt(&session, "more").await;
    assert_eq!(child_of(&agent.llm.last_request().tool_result("call_2")), child);
    let asked: Vec<String> =
        agent.llm.requests().iter().map(|request| request.body["messages"].to_string()).collect();
    assert!(asked.iter().any(|it| it.contains("CHILD two") && it.contains("remembered")));
    agent.finish().await;
}

#[tokio::test]
async fn a_load_shows_the_subagents_calls_again() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "echo inside"})));
    agent.llm.reply_to("CHILD", Reply::text("found it"));
    agent.llm.reply_to("go", Reply::text("done"));
    let live = agent.prompt(&session, "go").await.updates;
    let replayed = agent.load(&session).await;
    let calls = |updates: &[Value]| -> Vec<Value> {
        let calls = updates.iter().filter(|update| tag(update) == "tool_call");
        calls.map(|update| update["toolCallId"].clone()).collect()
    };
    assert_eq!(calls(&live), calls(&replayed));
    assert_eq!(calls(&live).len(), 2);
    // Subagents' sessions are not conversations of the user's.
    let listed = agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    agent.finish().await;
}

#[tokio::test]
async fn an_unknown_subagent_is_named_to_the_model() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "nobody")));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    let result = agent.llm.last_request().tool_result("call_1");
    assert!(result.contains("Unknown agent type: nobody is not a valid agent type"), "{result}");
    agent.finish().await;
}

/// Agents two levels deep: `digger` may start others.
async fn deep(permission: Value) -> Agent {
    let config = json!({
        "subagent_depth": 2,
        "permission": permission,
        "agent": {"digger": {"mode": "subagent", "permission": {"task": "allow"}}},
    });
    Agent::start_with(config).await
}

/// Scripts a session with a grandchild that is about to run a command.
fn script_two_levels(agent: &Agent, command: &str) {
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "digger")));
    agent.llm.reply_to("CHILD", Reply::call("call_2", "task", task("DEEPER", "general")));
    agent.llm.reply_to("DEEPER", Reply::call("call_3", "bash", json!({"command": command})));
}

#[tokio::test]
async fn a_question_two_levels_down_reaches_the_client_and_every_answer_reaches_the_tool() {
    for (answer, runs) in [
        (Answer::AllowOnce, true),
        (Answer::AllowAlways, true),
        (Answer::RejectOnce, false),
        (Answer::RejectAlways, false),
        (Answer::Cancelled, false),
    ] {
        let agent = deep(json!({"bash": "ask"})).await;
        let session = agent.new_session().await;
        script_two_levels(&agent, "touch made");
        if runs {
            agent.llm.reply_to("DEEPER", Reply::text("made it"));
        }
        agent.llm.reply_to("CHILD", Reply::text("back"));
        agent.llm.reply_to("go", Reply::text("done"));
        let prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        assert_eq!(
            (&ask.params["sessionId"], &ask.call()["title"]),
            (&json!(session), &json!("general: touch made"))
        );
        let call_id = ask.call()["toolCallId"].as_str().unwrap().to_owned();
        assert!(call_id.starts_with("ses_") && call_id.ends_with("/call_3"), "{call_id}");
        assert!(!agent.scratch.exists("made"));
        agent.answer(&ask, answer);
        let turn = prompt.turn().await;
        assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "done"), "{answer:?}");
        assert_eq!(agent.scratch.exists("made"), runs, "{answer:?}");
        let status = if runs { "completed" } else { "failed" };
        assert_eq!(turn.tool(&call_id)["status"], status, "{answer:?}");
        // The level above was told that its subagent failed and why, and went on by itself.
        let middle = turn.updates.iter().find_map(|update| {
            let id = update["toolCallId"].as_str()?;
            id.ends_with("/call_2").then(|| turn.tool(id))
        });
        assert_eq!(middle.unwrap()["status"], status, "{answer:?}");
        assert_eq!(turn.tool("call_1")["status"], "completed", "{answer:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_refusal_ends_the_subagent_it_was_given_to_and_those_above_are_told_and_go_on() {
    const REFUSED: &str = "The user rejected permission to use this specific tool call.";
    for n_levels in [1, 2] {
        let agent = deep(json!({"bash": "ask"})).await;
        let session = agent.new_session().await;
        match n_levels {
            1 => {
                agent.llm.reply_to("go", Reply::call("call_1", "task", task("DEEPER", "general")));
                agent.llm.reply_to("DEEPER", Reply::call("call_3", "bash", json!({"command": "touch made"})));
            }
            _two => {
                script_two_levels(&agent, "touch made");
                agent.llm.reply_to("CHILD", Reply::text("my helper was refused"));
            }
        }
        agent.llm.reply_to("go", Reply::text("went on"));
        let prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        agent.answer(&ask, Answer::RejectOnce);
        let turn = prompt.turn().await;
        assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "went on"));
        // The refused one was not asked again; its parent reads the reason of the failure.
        let requests = agent.llm.requests();
        let of =
            |name: &str| requests.iter().filter(|it| it.last_user().starts_with(name)).collect::<Vec<_>>();
        assert_eq!(of("DEEPER").len(), 1);
        let told = match n_levels {
            1 => of("go")[1].tool_result("call_1"),
            _two => of("CHILD")[1].tool_result("call_2"),
        };
        assert!(told.starts_with("Subagent failed (task_id: ses_") && told.ends_with(REFUSED), "{told}");
        if n_levels == 2 {
            let told = of("go")[1].tool_result("call_1");
            assert!(told.contains("state=\"completed\"") && told.contains("my helper was refused"), "{told}");
        }
        assert!(!agent.scratch.exists("made"));
        agent.finish().await;
    }
}

#[tokio::test]
async fn always_given_two_levels_down_holds_at_the_top() {
    let agent = deep(json!({"bash": "ask"})).await;
    let session = agent.new_session().await;
    script_two_levels(&agent, "touch one");
    agent.llm.reply_to("DEEPER", Reply::text("made it"));
    agent.llm.reply_to("CHILD", Reply::text("back"));
    agent.llm.reply_to("go", Reply::call("call_4", "bash", json!({"command": "touch two"})));
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::AllowAlways);
    assert_eq!(prompt.turn().await.text(), "done");
    assert!(agent.scratch.exists("one") && agent.scratch.exists("two"));
    agent.finish().await;
}

#[tokio::test]
async fn a_cancel_ends_two_levels_at_once_and_no_late_answer_counts() {
    for is_late in [false, true] {
        let agent = deep(json!({"bash": "ask"})).await;
        let session = agent.new_session().await;
        script_two_levels(&agent, "touch made");
        let prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        agent.cancel(&session);
        if is_late {
            agent.answer(&ask, Answer::AllowAlways)
        } else {
            agent.withdrawn(&ask).await
        }
        let turn = prompt.turn().await;
        assert_eq!((turn.stop.as_str(), &turn.tool("call_1")["status"]), ("cancelled", &json!("failed")));
        assert_eq!(turn.tool(ask.call()["toolCallId"].as_str().unwrap())["status"], "failed");
        // Nothing was remembered either.
        agent.llm.reply_to("again", Reply::call("call_5", "bash", json!({"command": "touch made"})));
        let prompt = agent.send_prompt(&session, "again");
        let ask = agent.permission().await;
        agent.answer(&ask, Answer::RejectOnce);
        prompt.turn().await;
        assert!(!agent.scratch.exists("made"));
        agent.finish().await;
    }
}

#[tokio::test]
async fn one_always_settles_the_same_question_of_a_subagent_beside_it_unseen() {
    let agent = Agent::asking("bash").await;
    let session = agent.new_session().await;
    let first = Reply::call("call_1", "task", task("FIRST", "general"));
    agent.llm.reply_to("go", first.and_call("call_2", "task", task("SECOND", "general")));
    let (one, two) = (Gate::new(), Gate::new());
    for (name, gate) in [("FIRST", &one), ("SECOND", &two)] {
        let call = json!({"command": format!("touch {name}")});
        agent.llm.reply_to(name, Reply::text("now").and_gate(gate).and_call("call_9", "bash", call));
        agent.llm.reply_to(name, Reply::text("made"));
    }
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    one.reached().await;
    two.reached().await;
    one.open();
    let ask = agent.permission().await;
    two.open();
    let is_second = |message: &Value| message["params"]["update"]["title"] == "general: touch SECOND";
    agent.wait_for("the second command", is_second).await;
    agent.answer(&ask, Answer::AllowAlways);
    assert_eq!(prompt.turn().await.text(), "done");
    assert!(agent.scratch.exists("FIRST") && agent.scratch.exists("SECOND"));
    assert_eq!(agent.n_asked(), 1, "a question was shown that nobody had to answer");
    agent.finish().await;
}

#[tokio::test]
async fn what_is_denied_above_is_denied_at_every_level_whatever_agents_allow() {
    let config = json!({
        "subagent_depth": 2,
        "agent": {
            "reader": {"mode": "primary", "permission": {"*": "deny", "read": "allow", "task": "allow"}},
            "digger": {"mode": "subagent", "permission": {"task": "allow", "bash": "allow"}},
        },
    });
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "reader"})).await.unwrap();
    script_two_levels(&agent, "touch made");
    let write = json!({"filePath": "made", "content": "x"});
    agent.llm.reply_to("DEEPER", Reply::call("call_4", "write", write));
    agent.llm.reply_to("DEEPER", Reply::text("could not"));
    agent.llm.reply_to("CHILD", Reply::text("back"));
    agent.llm.reply_to("go", Reply::text("done"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "done");
    assert!(!agent.scratch.exists("made"));
    for request in agent.llm.requests().iter().filter(|request| !request.last_user().contains("go")) {
        let tools = request.tools();
        assert!(tools.contains(&"read".to_owned()), "{tools:?}");
        assert!(!tools.contains(&"bash".to_owned()) && !tools.contains(&"write".to_owned()), "{tools:?}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn what_is_allowed_above_within_a_denial_is_allowed_below_as_far_as_its_own_rules_go() {
    let config = json!({
        "permission": {
            "bash": {"*": "deny", "echo *": "allow"},
            "edit": {"*": "deny", "src/*": "allow"},
        },
        "agent": {
            "build": {"permission": {"read": {"*": "deny", "src/*": "allow"}}},
            "general": {"permission": {"bash": {"echo no *": "deny"}, "read": "allow"}},
        },
    });
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    agent.scratch.write("src/a", "A");
    agent.scratch.write("b", "B");
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    let bash = |line: &str| json!({"command": line});
    let calls = Reply::call("c1", "bash", bash("echo fine"))
        .and_call("c2", "bash", bash("echo no thanks"))
        .and_call("c3", "bash", bash("touch made"))
        .and_call("c4", "read", json!({"filePath": "src/a"}))
        .and_call("c5", "read", json!({"filePath": "b"}))
        .and_call("c6", "write", json!({"filePath": "src/new", "content": "x"}))
        .and_call("c7", "write", json!({"filePath": "new", "content": "x"}))
        .and_call("c8", "grep", json!({"pattern": "[AB]"}));
    agent.llm.reply_to("CHILD", calls);
    agent.llm.reply_to("CHILD", Reply::text("back"));
    agent.llm.reply_to("go", Reply::text("done"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "done");
    let requests = agent.llm.requests();
    let last = requests.iter().rfind(|request| request.last_user().contains("CHILD")).unwrap();
    let is_denied = |id: &str| last.tool_result(id).contains("prevents you from using");
    assert_eq!(
        ["c1", "c2", "c3", "c4", "c5", "c6", "c7"].map(is_denied),
        [false, true, true, false, true, false, true]
    );
    assert!(
        last.tool_result("c8").contains("src/a") && !last.tool_result("c8").contains("\n/b"),
        "{}",
        last.tool_result("c8")
    );
    assert!(agent.scratch.exists("src/new") && !agent.scratch.exists("new") && !agent.scratch.exists("made"));
    assert_eq!(agent.n_asked(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn a_task_begun_with_every_right_goes_on_with_those_of_today() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let mut first = task("CHILD one", "digger");
    first["subagent_type"] = json!("general");
    agent.llm.reply_to("go", Reply::call("call_1", "task", first));
    agent.llm.reply_to("CHILD one", Reply::text("ready"));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    let child = child_of(&agent.llm.last_request().tool_result("call_1"));
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    let mut more = task("CHILD two", "explore");
    more["task_id"] = json!(child);
    agent.llm.reply_to("more", Reply::call("call_2", "task", more));
    let write = json!({"filePath": "made", "content": "x"});
    agent.llm.reply_to("CHILD two", Reply::call("call_3", "write", write));
    agent.llm.reply_to("CHILD two", Reply::text("could not"));
    agent.llm.reply_to("more", Reply::text("done"));
    agent.prompt(&session, "more").await;
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_task_is_not_given_more_while_it_is_worked_on() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD one", "general")));
    agent.llm.reply_to("CHILD one", Reply::text("ready"));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    let child = child_of(&agent.llm.last_request().tool_result("call_1"));
    let mut more = task("CHILD two", "general");
    more["task_id"] = json!(child);
    let both = Reply::call("call_2", "task", more.clone()).and_call("call_3", "task", more);
    agent.llm.reply_to("more", both);
    agent.llm.reply_to("CHILD two", Reply::text("went on"));
    agent.llm.reply_to("more", Reply::text("done"));
    let turn = agent.prompt(&session, "more").await;
    let mut statuses = ["call_2", "call_3"].map(|id| turn.tool(id)["status"].as_str().unwrap().to_owned());
    statuses.sort();
    assert_eq!(statuses, ["completed", "failed"]);
    let last = agent.llm.last_request();
    let told = ["call_2", "call_3"].map(|id| last.tool_result(id));
    assert!(told.iter().any(|it| it.contains("is still being worked on")), "{told:?}");
    agent.finish().await;
}

#[tokio::test]
async fn exploring_asks_for_secrets_and_cannot_edit_even_where_editing_is_asked() {
    let agent = Agent::builder().config(json!({"permission": {"edit": "ask"}})).spawn().await;
    let agent = agent.initialized().await;
    agent.scratch.write(".env", "KEY=secret\n");
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "explore")));
    let write = json!({"filePath": "made", "content": "x"});
    agent.llm.reply_to("CHILD", Reply::call("call_2", "write", write));
    agent.llm.reply_to("CHILD", Reply::call("call_3", "read", json!({"filePath": ".env"})));
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["locations"][0]["path"], agent.scratch.path(".env"));
    agent.answer(&ask, Answer::RejectOnce);
    assert_eq!(prompt.turn().await.text(), "done");
    assert!(!agent.scratch.exists("made"));
    let offered = agent.llm.requests()[1].tools();
    assert!(!offered.contains(&"edit".to_owned()) && offered.contains(&"grep".to_owned()), "{offered:?}");
    agent.finish().await;
}

#[tokio::test]
async fn what_two_levels_use_is_the_sessions_cost() {
    let prices =
        json!({"provider": {"mock": {"models": {"mock": {"cost": {"input": 1.0, "output": 10.0}}}}}});
    let config = json!({
        "subagent_depth": 2,
        "agent": {"digger": {"mode": "subagent", "permission": {"task": "allow"}}},
    });
    let agent = Agent::builder().config(config).config(prices).start().await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "digger")));
    agent.llm.reply_to("CHILD", Reply::call("call_2", "task", task("DEEPER", "general")));
    agent.llm.reply_to("DEEPER", Reply::text("deep"));
    agent.llm.reply_to("CHILD", Reply::text("back"));
    agent.llm.reply_to("go", Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    // Five requests of 100 tokens in and 10 out, at 1 and 10 dollars a million.
    let cost = turn.all("usage_update").last().unwrap()["cost"]["amount"].as_f64().unwrap();
    assert!((cost - 5.0 * 0.0002).abs() < 1e-9, "{cost}");
    assert_eq!(turn.usage, json!({"totalTokens": 550, "inputTokens": 500, "outputTokens": 50}));
    let replayed = agent.load(&session).await;
    let shown = replayed.iter().rev().find(|update| tag(update) == "usage_update").unwrap();
    assert!((shown["cost"]["amount"].as_f64().unwrap() - cost).abs() < 1e-9, "{shown}");
    agent.finish().await;
}

#[tokio::test]
async fn a_subagent_has_no_list_and_none_of_the_tools_kept_for_primary_agents() {
    let config = json!({"experimental": {"primary_tools": ["glob", "write"]}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    // Models of OpenCode's older versions name the session, and some say more than they are asked.
    let mut input = task("CHILD", "general");
    input["session_id"] = json!("ses_unknown");
    input["background"] = json!(false);
    agent.llm.reply_to("go", Reply::call("call_1", "task", input));
    agent.llm.reply_to("CHILD", Reply::text("found it"));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    let result = agent.llm.last_request().tool_result("call_1");
    assert!(result.contains("found it"), "{result}");
    let requests = agent.llm.requests();
    let child = requests.iter().find(|request| !request.tools().contains(&"todowrite".to_owned())).unwrap();
    for tool in ["todowrite", "todoread", "task", "glob", "write", "edit"] {
        assert!(!child.tools().contains(&tool.to_owned()), "{tool}");
        assert!(requests[0].tools().contains(&tool.to_owned()), "{tool}");
    }
    assert!(child.tools().contains(&"read".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn the_switch_for_edits_reaches_a_subagent_that_works_when_it_is_set_and_taken_back() {
    let agent = Agent::builder().config(json!({"permission": {"edit": "ask"}})).spawn().await;
    agent.initialize_with(json!({"session": {"configOptions": {"boolean": {}}}})).await;
    let session = agent.new_session().await;
    let switch = async |value: bool| {
        let params =
            json!({"sessionId": session, "configId": "accept_edits", "type": "boolean", "value": value});
        agent.request("session/set_config_option", params).await.unwrap();
    };
    let write = |id: &str, name: &str| Reply::call(id, "write", json!({"filePath": name, "content": name}));
    let task = json!({"description": "write", "prompt": "write files", "subagent_type": "general"});
    agent.llm.reply(Reply::call("call_1", "task", task));
    let gate = Gate::new();
    agent.llm.reply_to("write files", write("call_2", "a.txt"));
    agent.llm.reply_to("write files", write("call_3", "b.txt"));
    agent.llm.reply_to("write files", write("call_4", "c.txt").and_gate(&gate));
    agent.llm.reply_to("write files", Reply::text("written"));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let first = agent.permission().await;
    switch(true).await;
    agent.answer(&first, Answer::AllowOnce);
    gate.reached().await;
    assert_eq!(agent.scratch.read("b.txt"), "b.txt");
    assert_eq!(agent.n_asked(), 1);
    switch(false).await;
    gate.open();
    let second = agent.permission().await;
    agent.answer(&second, Answer::AllowOnce);
    prompt.turn().await;
    assert_eq!(agent.scratch.read("c.txt"), "c.txt");
    agent.finish().await;
}
