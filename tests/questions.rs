//! Questions of tools: a form where the client shows forms, else choices one after another; without a client
//! that can answer nothing waits.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer, asks::Ask},
    llm::Reply,
};

fn question(text: &str, labels: &[&str]) -> Value {
    let option = |label: &&str| json!({"label": label, "description": format!("about {label}")});
    let options: Vec<Value> = labels.iter().map(option).collect();
    json!({"question": text, "header": "Header", "options": options})
}

fn several(text: &str, labels: &[&str]) -> Value {
    let mut question = question(text, labels);
    question["multiple"] = json!(true);
    question
}

fn asking(questions: &[Value]) -> Reply {
    Reply::call("call_1", "question", json!({"questions": questions}))
}

async fn with_forms() -> Agent {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"elicitation": {"form": {}}})).await;
    agent
}

fn names(ask: &Ask) -> Vec<&str> {
    ask.params["options"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_form_holds_every_question_and_its_answers_reach_the_model() {
    let agent = with_forms().await;
    let session = agent.new_session().await;
    agent.llm.reply(asking(&[
        question("Which way?", &["Left", "Right"]),
        several("Which colours?", &["Red", "Blue"]),
        question("Name?", &[]),
    ]));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.method, "elicitation/create");
    assert_eq!(
        (&ask.params["mode"], &ask.params["sessionId"], &ask.params["toolCallId"]),
        (&json!("form"), &json!(session), &json!("call_1"))
    );
    let fields = &ask.params["requestedSchema"]["properties"];
    assert_eq!(
        fields["question_1"]["oneOf"],
        json!([
            {"const": "Left", "title": "Left", "description": "about Left"},
            {"const": "Right", "title": "Right", "description": "about Right"},
        ])
    );
    assert_eq!(fields["question_1"]["description"], "Which way?");
    assert_eq!(fields["question_2"]["items"]["anyOf"][1]["const"], "Blue");
    assert_eq!(
        (&fields["question_2"]["type"], &fields["question_3"]["type"]),
        (&json!("array"), &json!("string"))
    );
    let content = json!({
        "question_1": "Left", "question_1_other": " back ",
        "question_2": ["Blue"], "question_2_other": "green", "question_3": "",
    });
    agent.fill_in(&ask, json!({"action": "accept", "content": content}));
    let turn = prompt.turn().await;
    assert_eq!(turn.text(), "done");
    let told = agent.llm.last_request().tool_result("call_1");
    assert!(
        told.starts_with(
            "User has answered your questions: \"Which way?\"=\"back\", \"Which colours?\"=\"Blue, green\", \
             \"Name?\"=\"Unanswered\""
        ),
        "{told}"
    );
    let call = turn.tool("call_1");
    assert_eq!((&call["title"], &call["status"]), (&json!("Asked 3 questions"), &json!("completed")));
    agent.finish().await;
}

#[tokio::test]
async fn a_form_that_is_declined_or_closed_ends_the_turn() {
    for result in [json!({"action": "decline"}), json!({"action": "cancel"}), json!({"action": "later"})] {
        let agent = with_forms().await;
        let session = agent.new_session().await;
        agent.llm.reply(asking(&[question("Which way?", &["Left"])]));
        let prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        assert_eq!(ask.params["message"], "Which way?");
        agent.fill_in(&ask, result);
        let turn = prompt.turn().await;
        assert_eq!(turn.stop, "end_turn");
        let call = turn.tool("call_1");
        assert_eq!(call["status"], "failed");
        assert_eq!(call["rawOutput"]["error"], "The user dismissed this question");
        assert_eq!(agent.llm.requests().len(), 1, "the model was asked again after a refusal");
        // The model learns of it with the next prompt.
        agent.llm.reply(Reply::text("fine"));
        agent.prompt(&session, "again").await;
        assert_eq!(agent.llm.last_request().tool_result("call_1"), "The user dismissed this question");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_form_the_client_cannot_show_after_all_becomes_choices() {
    let agent = with_forms().await;
    let session = agent.new_session().await;
    agent.llm.reply(asking(&[question("Which way?", &["Left", "Right"])]));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.fail(&ask, -32601);
    let ask = agent.permission().await;
    assert_eq!(ask.method, "session/request_permission");
    agent.choose(&ask, "Right");
    prompt.turn().await;
    assert!(agent.llm.last_request().tool_result("call_1").contains("\"Which way?\"=\"Right\""));
    agent.finish().await;
}

#[tokio::test]
async fn a_form_with_an_answer_that_was_not_offered_becomes_choices() {
    let agent = with_forms().await;
    let session = agent.new_session().await;
    agent.llm.reply(asking(&[question("Which way?", &["Left", "Right"])]));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.fill_in(&ask, json!({"action": "accept", "content": {"question_1": "bogus"}}));
    let ask = agent.permission().await;
    assert_eq!(ask.method, "session/request_permission");
    agent.choose(&ask, "Right");
    prompt.turn().await;
    assert!(agent.llm.last_request().tool_result("call_1").contains("\"Which way?\"=\"Right\""));
    agent.finish().await;
}

#[tokio::test]
async fn without_forms_the_questions_come_one_after_another() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(asking(&[
        question("Which way?", &["Left", "Right"]),
        several("Which colours?", &["Red", "Blue", "Green"]),
        question("Name?", &[]),
    ]));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["title"], "Which way? (1 of 3)");
    assert_eq!(ask.call()["toolCallId"], "call_1");
    assert_eq!(names(&ask), ["Left", "Right", "Dismiss"]);
    let text = ask.call()["content"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("**Right**: about Right"), "{text}");
    agent.choose(&ask, "Right");
    let ask = agent.permission().await;
    assert_eq!(names(&ask), ["☐ Red", "☐ Blue", "☐ Green", "None of these", "Dismiss"]);
    for choice in ["☐ Green", "☐ Red", "☐ Blue", "☑ Blue"] {
        let ask = if choice == "☐ Green" { ask.clone() } else { agent.permission().await };
        agent.choose(&ask, choice);
    }
    let ask = agent.permission().await;
    assert_eq!(names(&ask), ["Done (2 chosen)", "☑ Red", "☐ Blue", "☑ Green", "Dismiss"]);
    agent.choose(&ask, "Done (2 chosen)");
    let ask = agent.permission().await;
    assert_eq!(names(&ask), ["Continue without an answer", "Dismiss"]);
    agent.choose(&ask, "Continue without an answer");
    prompt.turn().await;
    let told = agent.llm.last_request().tool_result("call_1");
    assert!(
        told.contains(
            "\"Which way?\"=\"Right\", \"Which colours?\"=\"Red, Green\", \"Name?\"=\"Unanswered\""
        ),
        "{told}"
    );
    agent.finish().await;
}

#[tokio::test]
async fn a_client_that_always_says_yes_comes_to_an_end() {
    let agent = Agent::builder().answering(Answer::AllowOnce).start().await;
    let session = agent.new_session().await;
    agent.llm.reply(asking(&[several("Which colours?", &["Red", "Blue"]), question("Name?", &[])]));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert!(agent.llm.last_request().tool_result("call_1").contains("\"Which colours?\"=\"Red\""));
    agent.finish().await;
}

#[tokio::test]
async fn a_dismissed_or_cancelled_choice_ends_the_turn() {
    for answer in [Answer::RejectOnce, Answer::Cancelled] {
        let agent = Agent::start().await;
        let session = agent.new_session().await;
        agent.llm.reply(asking(&[question("Which way?", &["Left"]), question("And then?", &["Right"])]));
        let prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        agent.answer(&ask, answer);
        let turn = prompt.turn().await;
        assert_eq!((turn.stop.as_str(), &turn.tool("call_1")["status"]), ("end_turn", &json!("failed")));
        assert_eq!(agent.n_asked(), 1);
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_cancelled_turn_takes_its_question_back_and_a_late_answer_is_about_nothing() {
    for capabilities in [json!({}), json!({"elicitation": {"form": {}}})] {
        let agent = Agent::builder().spawn().await;
        agent.initialize_with(capabilities).await;
        let session = agent.new_session().await;
        agent.llm.reply(asking(&[question("Which way?", &["Left"])]));
        let prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        agent.cancel(&session);
        // Answers with `cancelled`, as a client does, after the turn is over.
        agent.withdrawn(&ask).await;
        let turn = prompt.turn().await;
        assert_eq!((turn.stop.as_str(), &turn.tool("call_1")["status"]), ("cancelled", &json!("failed")));
        agent.llm.reply(Reply::text("works"));
        assert_eq!(agent.prompt(&session, "again").await.text(), "works");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_client_that_goes_leaves_the_model_to_decide_by_itself() {
    let mut agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(asking(&[question("Which way?", &["Left"])]));
    agent.llm.reply(Reply::text("decided"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.close_stdin();
    let turn = prompt.turn().await;
    assert_eq!(turn.text(), "decided");
    let told = agent.llm.last_request().tool_result("call_1");
    assert!(told.contains("Nobody can be asked") && told.contains("Decide by yourself"), "{told}");
    assert_eq!(ask.call()["toolCallId"], "call_1");
    assert!(agent.wait_exit().await.success());
    agent.finish().await;
}

#[tokio::test]
async fn two_questions_of_a_step_and_a_permission_stand_one_at_a_time() {
    let agent = Agent::asking("bash").await;
    let session = agent.new_session().await;
    let questions = json!({"questions": [question("Second?", &["B"])]});
    agent.llm.reply(
        asking(&[question("First?", &["A"])])
            .and_call("call_2", "bash", json!({"command": "touch made"}))
            .and_call("call_3", "question", questions),
    );
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let mut asked = Vec::new();
    for n_answered in 0..3 {
        let ask = agent.permission().await;
        assert_eq!(agent.n_asked(), n_answered + 1, "one stands there while another is not answered");
        let call = ask.call()["toolCallId"].as_str().unwrap().to_owned();
        let name = match call.as_str() {
            "call_1" => "A",
            "call_2" => "Allow once",
            _ => "B",
        };
        asked.push(call);
        agent.choose(&ask, name);
    }
    asked.sort();
    assert_eq!(asked, ["call_1", "call_2", "call_3"]);
    prompt.turn().await;
    assert!(agent.scratch.exists("made"));
    assert!(agent.llm.last_request().tool_result("call_3").contains("\"Second?\"=\"B\""));
    agent.finish().await;
}

#[tokio::test]
async fn a_question_is_answered_by_its_id_in_words_of_ones_own() {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"_meta": {"windlass/events": true}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(asking(&[question("Which way?", &["Left"])]));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let event = |name: &'static str| {
        move |message: &Value| {
            message["method"] == "_windlass/event" && message["params"]["event"]["type"] == name
        }
    };
    let asked = agent.wait_for("question.asked", event("question.asked")).await;
    let asked = &asked["params"]["event"]["properties"];
    assert_eq!(
        (&asked["sessionID"], &asked["tool"]["callID"], &asked["questions"][0]["options"][0]["label"]),
        (&json!(session), &json!("call_1"), &json!("Left"))
    );
    let ask = agent.permission().await;
    let reply = |answers: Value| json!({"sessionId": session, "requestId": asked["id"], "answers": answers});
    let error = agent.request("_windlass/question/reply", reply(json!([]))).await.unwrap_err();
    assert_eq!(error.code, -32602, "{error:?}");
    agent.request("_windlass/question/reply", reply(json!([["straight on"]]))).await.unwrap();
    agent.withdrawn(&ask).await;
    let replied = agent.wait_for("question.replied", event("question.replied")).await;
    let properties = &replied["params"]["event"]["properties"];
    assert_eq!(
        *properties,
        json!({"sessionID": session, "requestID": asked["id"], "answers": [["straight on"]]})
    );
    prompt.turn().await;
    assert!(agent.llm.last_request().tool_result("call_1").contains("\"Which way?\"=\"straight on\""));
    let error = agent.request("_windlass/question/reject", reply(json!([]))).await.unwrap_err();
    assert_eq!(error.code, -32002, "{error:?}");
    agent.finish().await;
}

#[tokio::test]
async fn a_question_is_dismissed_by_its_id() {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"_meta": {"windlass/events": ["question.asked"]}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(asking(&[question("Which way?", &["Left"])]));
    let prompt = agent.send_prompt(&session, "go");
    let asked = agent.wait_for("the question", |message| message["method"] == "_windlass/event").await;
    let id = &asked["params"]["event"]["properties"]["id"];
    let ask = agent.permission().await;
    agent.request("_windlass/question/reject", json!({"sessionId": session, "requestId": id})).await.unwrap();
    agent.withdrawn(&ask).await;
    assert_eq!(prompt.turn().await.tool("call_1")["status"], "failed");
    agent.finish().await;
}

#[tokio::test]
async fn a_subagents_question_stands_in_the_session_it_works_for() {
    let config = json!({"agent": {"general": {"permission": {"question": "allow"}}}});
    let agent = Agent::builder().config(config).spawn().await;
    agent.initialize_with(json!({"elicitation": {"form": {}}})).await;
    let session = agent.new_session().await;
    let task = json!({"description": "look", "prompt": "CHILD", "subagent_type": "general"});
    agent.llm.reply_to("go", Reply::call("call_1", "task", task));
    agent.llm.reply_to("CHILD", asking(&[question("Which way?", &["Left"])]));
    agent.llm.reply_to("CHILD", Reply::text("went left"));
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.params["sessionId"], session.as_str());
    let call = ask.params["toolCallId"].as_str().unwrap().to_owned();
    assert!(call.starts_with("ses_") && call.ends_with("/call_1"), "{call}");
    agent.fill_in(&ask, json!({"action": "accept", "content": {"question_1": "Left"}}));
    let turn = prompt.turn().await;
    assert_eq!((turn.text(), &turn.tool(&call)["status"]), ("done".to_owned(), &json!("completed")));
    agent.finish().await;
}

#[tokio::test]
async fn who_may_not_ask_is_not_offered_the_tool() {
    let cases = [
        (json!({}), None, true),
        (json!({"permission": {"question": "deny"}}), None, false),
        (json!({}), Some("false"), false),
        (json!({}), Some("1"), true),
    ];
    for (config, switch, is_offered) in cases {
        let mut agent = Agent::builder().config(config.clone());
        if let Some(switch) = switch {
            agent = agent.env("OPENCODE_ENABLE_QUESTION_TOOL", switch);
        }
        let agent = agent.start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("hi"));
        agent.prompt(&session, "go").await;
        let tools = agent.llm.last_request().tools();
        assert_eq!(tools.contains(&"question".to_owned()), is_offered, "{config} {switch:?}: {tools:?}");
        assert!(!tools.contains(&"batch".to_owned()) && !tools.contains(&"plan_exit".to_owned()));
        agent.finish().await;
    }
}

/// `question`, `plan_enter` and `plan_exit` are questions already, `batch` does nothing but call others, and `invalid`
/// only names the mistake: none of them asks for a permission of its own, under any rule.
#[tokio::test]
async fn tools_that_never_ask_for_a_permission() {
    let asked = json!({"questions": [{"question": "Tea?", "header": "Tea", "options": [
        {"label": "Yes", "description": ""}, {"label": "No", "description": ""},
    ]}]});
    let config = json!({
        "permission": {"question": "ask", "plan_enter": "ask", "plan_exit": "ask", "batch": "ask", "invalid": "ask",
                       "read": "allow"},
        "experimental": {"batch_tool": true},
    });
    // The questions of each, with the answer that lets it succeed.
    for (mode, tool, input, answer) in [
        ("build", "question", asked, Some("Yes")),
        ("build", "plan_enter", json!({}), Some("Yes")),
        ("plan", "plan_exit", json!({}), Some("Yes")),
        (
            "build",
            "batch",
            json!({"tool_calls": [{"tool": "read", "parameters": {"filePath": "a.txt"}}]}),
            None,
        ),
        ("build", "invalid", json!({"tool": "x", "error": "y"}), None),
    ] {
        let agent = Agent::builder().config(config.clone()).spawn().await;
        agent
            .initialize_with(json!({"_meta": {"windlass/events": ["permission.asked", "question.asked"]}}))
            .await;
        let session = agent.new_session().await;
        agent.request("session/set_mode", json!({"sessionId": session, "modeId": mode})).await.unwrap();
        agent.llm.reply(Reply::call("call_1", tool, input.clone()));
        agent.llm.reply(Reply::text("done"));
        let prompt = agent.send_prompt(&session, "go");
        if let Some(answer) = answer {
            let ask = agent.permission().await;
            agent.choose(&ask, answer);
        }
        let turn = prompt.turn().await;
        assert_eq!(
            (turn.text().as_str(), &turn.tool("call_1")["status"]),
            ("done", &json!("completed")),
            "{tool}"
        );
        assert_eq!(agent.n_asked(), usize::from(answer.is_some()), "{tool}");
        // Refused and cancelled, for those that ask something.
        let endings = [("call_2", false), ("call_3", true)];
        for (call_id, is_cancelled) in endings.into_iter().filter(|_| answer.is_some()) {
            agent.request("session/set_mode", json!({"sessionId": session, "modeId": mode})).await.unwrap();
            agent.llm.reply(Reply::call(call_id, tool, input.clone()));
            let prompt = agent.send_prompt(&session, "again");
            let ask = agent.permission().await;
            if is_cancelled {
                agent.cancel(&session);
                agent.withdrawn(&ask).await;
            } else {
                agent.answer(&ask, Answer::RejectOnce)
            }
            let turn = prompt.turn().await;
            assert_eq!(turn.stop, if is_cancelled { "cancelled" } else { "end_turn" }, "{tool}");
            assert_eq!(turn.tool(call_id)["status"], "failed", "{tool}");
        }
        let is_permission = |line: &Value| line["params"]["event"]["type"] == "permission.asked";
        assert!(
            !agent.lines().iter().any(|line| is_permission(&line.message)),
            "{tool} asked for a permission"
        );
        agent.finish().await;
    }
}
