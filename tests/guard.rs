//! Limits of the guard: cancels, reloads and the rules from above.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::{Reply, task},
    message::content_text,
};

/// Has a session give a task that ends at once; the id of the child session.
async fn gave_task(agent: &Agent, session: &str) -> String {
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::text("ready"));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(session, "go").await;
    agent.llm.last_request().tool_result("call_1").split('"').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn a_cancel_by_request_shows_none_of_the_questions_that_wait() {
    let agent = Agent::asking("bash").await;
    let session = agent.new_session().await;
    let question = json!({"questions": [{"question": "Tea?", "header": "Tea", "options": [
        {"label": "Yes", "description": "Tea."}, {"label": "No", "description": "None."},
    ]}]});
    let touch = json!({"command": "touch one"});
    agent.llm.reply(Reply::call("call_1", "bash", touch).and_call("call_2", "question", question));
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    let prompt = agent.send_request_with_id(json!("the prompt"), "session/prompt", params);
    let ask = agent.permission().await;
    agent.wait_made(&session, &["call_1", "call_2"]).await;
    agent.notify("$/cancel_request", json!({"requestId": "the prompt"}));
    agent.withdrawn(&ask).await;
    assert_eq!((prompt.turn().await.stop.as_str(), agent.n_asked()), ("cancelled", 1));
    assert!(!agent.scratch.exists("one"));
    agent.finish().await;
}

#[tokio::test]
async fn a_cancel_of_a_waiting_prompt_leaves_the_questions_of_the_running_one() {
    let agent = Agent::asking("bash").await;
    let session = agent.new_session().await;
    let touch = |name: &str| json!({"command": format!("touch {name}")});
    agent.llm.reply(Reply::call("call_1", "bash", touch("one")).and_call("call_2", "bash", touch("two")));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let first = agent.permission().await;
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "later"}]});
    let later = agent.send_request_with_id(json!("later"), "session/prompt", params);
    agent.notify("$/cancel_request", json!({"requestId": "later"}));
    assert_eq!(later.turn().await.stop, "cancelled");
    agent.answer(&first, Answer::AllowOnce);
    let second = agent.permission().await;
    agent.answer(&second, Answer::AllowOnce);
    assert_eq!(prompt.turn().await.text(), "done");
    assert!(agent.scratch.exists("one") && agent.scratch.exists("two"));
    agent.finish().await;
}

#[tokio::test]
async fn who_opens_the_session_again_is_asked_again() {
    for method in ["session/load", "session/resume"] {
        let agent = Agent::asking("bash").await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
        agent.llm.reply(Reply::text("done"));
        let prompt = agent.send_prompt(&session, "go");
        let first = agent.permission().await;
        let params = json!({"sessionId": session, "cwd": agent.scratch.cwd(), "mcpServers": []});
        agent.request(method, params).await.unwrap();
        agent.withdrawn(&first).await;
        let second = agent.permission().await;
        assert_eq!((first.call(), first.id == second.id), (second.call(), false), "{method}");
        // The first request is answered by then, as cancelled, and that means nothing any more.
        assert!(!agent.scratch.exists("made"));
        agent.answer(&second, Answer::AllowOnce);
        assert_eq!(prompt.turn().await.text(), "done");
        assert!(agent.scratch.exists("made"));
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_command_that_runs_elsewhere_is_asked_for_with_the_place() {
    let agent = Agent::asking("bash").await;
    let session = agent.new_session().await;
    agent.scratch.write("sub/a.txt", "a");
    let call = json!({"command": "touch made", "workdir": "sub"});
    agent.llm.reply(Reply::call("call_1", "bash", call));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    let place = agent.scratch.path("sub");
    assert_eq!(ask.call()["title"], format!("touch made (in {place})"));
    assert_eq!(ask.call()["rawInput"], json!({"command": "touch made", "workdir": place}));
    assert_eq!(ask.call()["locations"][0]["path"], place);
    agent.answer(&ask, Answer::RejectOnce);
    prompt.turn().await;
    assert!(!agent.scratch.exists("sub/made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_load_asks_a_subagents_question_again() {
    let agent = Agent::asking("bash").await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "touch made"})));
    agent.llm.reply_to("CHILD", Reply::text("made it"));
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let first = agent.permission().await;
    agent.load(&session).await;
    agent.withdrawn(&first).await;
    let second = agent.permission().await;
    assert_eq!(first.params, second.params);
    agent.answer(&second, Answer::AllowOnce);
    assert_eq!(prompt.turn().await.text(), "done");
    assert!(agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_tools_question_is_asked_again_where_the_user_had_come() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let options = json!([{"label": "Yes", "description": ""}, {"label": "No", "description": ""}]);
    let question = |text: &str| json!({"question": text, "header": text, "options": options});
    let questions = json!({"questions": [question("Tea?"), question("Milk?")]});
    agent.llm.reply(Reply::call("call_1", "question", questions));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let first = agent.permission().await;
    agent.choose(&first, "Yes");
    let second = agent.permission().await;
    agent.load(&session).await;
    agent.withdrawn(&second).await;
    let again = agent.permission().await;
    assert_eq!(again.params, second.params);
    agent.choose(&again, "No");
    assert_eq!(prompt.turn().await.text(), "done");
    let told = agent.llm.last_request().tool_result("call_1");
    assert!(told.contains("\"Tea?\"=\"Yes\"") && told.contains("\"Milk?\"=\"No\""), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn a_subagents_session_opened_by_itself_keeps_the_limits_from_above() {
    let config = json!({"agent": {"reader": {
        "mode": "primary", "permission": {"*": "deny", "read": "allow", "task": "allow"},
    }}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    let child = gave_task(&agent, &session).await;
    // The parent's present permissions count, not those at the time of the task.
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "reader"})).await.unwrap();
    agent.load(&child).await;
    agent.llm.reply(Reply::call("call_2", "bash", json!({"command": "touch made"})));
    agent.llm.reply(Reply::text("could not"));
    let turn = agent.prompt(&child, "make it").await;
    assert_eq!(turn.text(), "could not");
    assert!(!agent.scratch.exists("made"));
    let tools = agent.llm.last_request().tools();
    assert!(tools.contains(&"read".to_owned()) && !tools.contains(&"write".to_owned()), "{tools:?}");
    // And the other way round: the parent may again.
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "build"})).await.unwrap();
    agent.llm.reply(Reply::call("call_3", "bash", json!({"command": "touch made"})));
    agent.llm.reply(Reply::text("made it"));
    agent.prompt(&child, "make it now").await;
    assert!(agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_resumed_task_may_what_its_parent_may_today_and_no_more() {
    let config = json!({"agent": {"reviewer": {"mode": "primary", "permission": {"edit": "deny"}}}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "reviewer"})).await.unwrap();
    let child = gave_task(&agent, &session).await;
    let resume = |prompt: &str| {
        let mut more = task(prompt, "general");
        more["task_id"] = json!(child);
        more
    };
    let write = |name: &str| json!({"filePath": agent.scratch.path(name), "content": "x"});
    for (mode, name) in [("reviewer", "one"), ("build", "two"), ("reviewer", "three")] {
        let now = format!("now {name}");
        agent.request("session/set_mode", json!({"sessionId": session, "modeId": mode})).await.unwrap();
        agent.llm.reply_to(&now, Reply::call("call_2", "task", resume(&format!("CHILD {name}"))));
        let make = format!("CHILD {name}");
        agent.llm.reply_to(&make, Reply::call("call_3", "write", write(name)));
        agent.llm.reply_to(&make, Reply::text("over"));
        agent.llm.reply_to(&now, Reply::text("done"));
        assert_eq!(agent.prompt(&session, &now).await.text(), "done");
        assert_eq!(agent.scratch.exists(name), mode == "build", "{mode}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_task_whose_session_the_user_has_opened_is_refused_at_once() {
    let agent = Agent::asking("bash").await;
    let session = agent.new_session().await;
    let child = gave_task(&agent, &session).await;
    agent.load(&child).await;
    let mut more = task("MORE", "general");
    more["task_id"] = json!(child);
    agent.llm.reply_to("again", Reply::call("call_2", "task", more.clone()));
    agent.llm.reply_to("again", Reply::text("understood"));
    assert_eq!(agent.prompt(&session, "again").await.text(), "understood");
    let told = agent.llm.last_request().tool_result("call_2");
    assert!(told.starts_with(&format!("The user has opened the session of the task {child}")), "{told}");
    // The user's turn there goes on as before, and once they close it the task can be continued.
    agent.llm.reply_to("mine", Reply::text("still here"));
    assert_eq!(agent.prompt(&child, "mine").await.text(), "still here");
    agent.request("session/close", json!({"sessionId": child})).await.unwrap();
    agent.llm.reply_to("once more", Reply::call("call_3", "task", more));
    agent.llm.reply_to("MORE", Reply::text("did more"));
    agent.llm.reply_to("once more", Reply::text("done"));
    assert_eq!(agent.prompt(&session, "once more").await.text(), "done");
    assert!(agent.llm.last_request().tool_result("call_3").contains("did more"));
    agent.finish().await;
}

#[tokio::test]
async fn a_copy_of_a_subagents_session_keeps_the_limits_from_above() {
    let config = json!({"agent": {"reader": {
        "mode": "primary", "permission": {"*": "deny", "read": "allow", "task": "allow"},
    }}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "reader"})).await.unwrap();
    let child = gave_task(&agent, &session).await;
    agent.load(&child).await;
    let fork = |said: String| said.split('`').nth(1).unwrap().to_owned();
    let first = fork(agent.prompt(&child, "/fork").await.text());
    agent.load(&first).await;
    // A copy of the copy as well.
    let second = fork(agent.prompt(&first, "/fork").await.text());
    agent.load(&second).await;
    for copy in [first, second] {
        agent.llm.reply(Reply::call("call_2", "bash", json!({"command": "touch made"})));
        agent.llm.reply(Reply::text("could not"));
        assert_eq!(agent.prompt(&copy, "make it").await.text(), "could not");
        let tools = agent.llm.last_request().tools();
        assert!(tools.contains(&"read".to_owned()) && !tools.contains(&"write".to_owned()), "{tools:?}");
        // Its own subagents are limited too.
        agent.llm.reply_to("delegate", Reply::call("call_3", "task", task("BELOW", "general")));
        agent.llm.reply_to("BELOW", Reply::call("call_4", "bash", json!({"command": "touch made"})));
        agent.llm.reply_to("BELOW", Reply::text("could not either"));
        agent.llm.reply_to("delegate", Reply::text("done"));
        assert_eq!(agent.prompt(&copy, "delegate").await.text(), "done");
        assert!(!agent.scratch.exists("made"));
    }
    agent.finish().await;
}

#[tokio::test]
async fn what_the_administrator_denies_no_remembered_answer_allows() {
    let first = Agent::asking("bash").await;
    let session = first.new_session().await;
    first.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch one"})));
    first.llm.reply(Reply::text("done"));
    let prompt = first.send_prompt(&session, "go");
    let ask = first.permission().await;
    first.answer(&ask, Answer::AllowAlways);
    prompt.turn().await;
    let (scratch, llm) = (first.scratch.clone(), first.llm.clone());
    first.finish().await;

    let managed = scratch.root().join("managed");
    std::fs::create_dir(&managed).unwrap();
    for (rules, is_allowed) in [("{}", true), (r#"{"permission": {"bash": {"touch *": "deny"}}}"#, false)] {
        std::fs::write(managed.join("opencode.json"), rules).unwrap();
        let second = Agent::builder()
            .config(json!({"permission": {"bash": "ask"}}))
            .scratch(&scratch)
            .llm(&llm)
            .env("WINDLASS_MANAGED_CONFIG", managed.to_str().unwrap())
            .start()
            .await;
        let session = second.new_session().await;
        second.llm.reply(Reply::call("call_2", "bash", json!({"command": "touch two"})));
        second.llm.reply(Reply::text("done"));
        let turn = second.prompt(&session, "go").await;
        let status = if is_allowed { "completed" } else { "failed" };
        assert_eq!((&turn.tool("call_2")["status"], second.n_asked()), (&json!(status), 0));
        assert_eq!(scratch.exists("two"), is_allowed);
        if is_allowed {
            std::fs::remove_file(scratch.path("two")).unwrap();
        } else {
            let told = second.llm.last_request().tool_result("call_2");
            assert!(told.contains("The user has specified a rule which prevents you"), "{told}");
        }
        second.finish().await;
    }
}

#[tokio::test]
async fn nothing_hidden_stands_in_what_the_user_is_asked() {
    let agent = Agent::start_with(json!({"permission": {"*": "ask"}})).await;
    let session = agent.new_session().await;
    let hidden = "a\u{202e}b\u{200b}*";
    agent.llm.reply(Reply::call("call_1", "glob", json!({"pattern": hidden})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["title"], "a\\u{202e}b\\u{200b}*");
    assert_eq!(ask.call()["rawInput"]["pattern"], hidden);
    assert_eq!(ask.call()["locations"], json!([{"path": agent.scratch.cwd()}]));
    agent.answer(&ask, Answer::RejectOnce);
    let call = prompt.turn().await.tool("call_1");
    let title = json!("find \"a\\u{202e}b\\u{200b}*\"");
    assert_eq!((&call["title"], &call["rawInput"]["pattern"]), (&title, &json!(hidden)));
    // A command with such characters is refused before anyone has to read it.
    agent.llm.reply(Reply::call("call_2", "bash", json!({"command": "echo \u{202e}x"})));
    agent.llm.reply(Reply::text("understood"));
    let call = agent.prompt(&session, "again").await.tool("call_2");
    assert_eq!((&call["title"], &call["status"]), (&json!("echo \\u{202e}x"), &json!("failed")));
    agent.finish().await;
}

#[tokio::test]
async fn what_was_approved_before_is_said_beside_what_is_asked() {
    let agent = Agent::builder().config(json!({"permission": {"bash": "ask"}})).spawn().await;
    agent.initialize_with(json!({"_meta": {"windlass/events": ["permission.asked"]}})).await;
    let session = agent.new_session().await;
    for (command, answer) in
        [("touch one", Answer::AllowAlways), ("touch two && mkdir three", Answer::AllowOnce)]
    {
        agent.llm.reply(Reply::call("call_1", "bash", json!({"command": command})));
        agent.llm.reply(Reply::text("done"));
        let prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        let is_asked = |message: &Value| {
            let event = &message["params"]["event"];
            event["type"] == "permission.asked" && event["properties"]["metadata"]["command"] == command
        };
        let event = agent.wait_for("permission.asked", is_asked).await;
        let properties = &event["params"]["event"]["properties"];
        match answer {
            Answer::AllowAlways => assert_eq!(properties.get("approved"), None),
            _later => {
                assert_eq!(properties["approved"], json!(["touch two"]));
                assert_eq!(properties["always"], json!(["touch *", "mkdir *"]));
                assert_eq!(properties["metadata"], json!({"command": command}));
                assert_eq!(ask.call()["rawInput"]["approved"], json!(["touch two"]));
            }
        }
        agent.answer(&ask, answer);
        prompt.turn().await;
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_command_that_fails_silently_shows_its_exit_code() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "exit 3"})));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    for text in [content_text(&turn.tool("call_1")), agent.llm.last_request().tool_result("call_1")] {
        assert!(text.contains("(no output)") && text.contains("exit code 3"), "{text}");
    }
    agent.finish().await;
}
