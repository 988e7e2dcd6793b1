//! Version 2 of the protocol, a draft, on the pipes of the real binary; every line is checked by its schema.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::Reply,
    transcript,
};

/// Initializes an agent as a client of version 2.
async fn greeted(agent: &Agent) -> Value {
    let params = json!({"protocolVersion": 2, "info": {"name": "e2e", "version": "1"}, "capabilities": {}});
    agent.request("initialize", params).await.unwrap()
}

async fn new_session(agent: &Agent) -> String {
    let opened = agent.request("session/new", agent.session_params()).await.unwrap();
    opened["sessionId"].as_str().unwrap().to_owned()
}

fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

/// Starts an agent and a session in it, with the rule for commands.
async fn start(bash: &str) -> (Agent, String) {
    let agent = Agent::builder().config(json!({"permission": {"bash": bash, "edit": "ask"}})).spawn().await;
    greeted(&agent).await;
    let session = new_session(&agent).await;
    (agent, session)
}

/// Has the session run a command for a minute.
async fn keep_busy(agent: &Agent, session: &str) {
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "sleep 60", "description": "Wait"})));
    agent.request("session/prompt", prompt(session, "wait")).await.unwrap();
    agent.wait_running(session, &["call_1"]).await;
}

/// Waits for the end of a session's work.
async fn idle(agent: &Agent) -> Value {
    let message = agent.wait_for("the end of the work", |message| {
        let update = &message["params"]["update"];
        update["sessionUpdate"] == "state_update" && update["state"] == "idle"
    });
    message.await["params"]["update"].clone()
}

/// Waits for a state of a session.
async fn state(agent: &Agent, wanted: &str) {
    let is_wanted = |message: &Value| message["params"]["update"]["state"] == wanted;
    agent.wait_for(wanted, is_wanted).await;
}

#[tokio::test]
async fn a_turn_looks_like_this_on_the_wire() {
    let config = json!({"permission": {"edit": "ask"}, "windlass": {"file_time": false}});
    let agent = Agent::builder().config(config).answering(Answer::AllowOnce).spawn().await;
    greeted(&agent).await;
    let session = new_session(&agent).await;
    agent.scratch.write("a.txt", "one\ntwo\n");
    let edit = json!({"filePath": agent.scratch.path("a.txt"), "oldString": "two", "newString": "zwei"});
    let todos = json!({"todos": [{"content": "edit it", "status": "completed", "priority": "high"}]});
    agent.llm.reply(Reply::text("First I edit.").and_call("call_1", "edit", edit));
    agent.llm.reply(Reply::call("call_2", "bash", json!({"command": "echo done", "description": "Say it"})));
    agent.llm.reply(Reply::call("call_3", "todowrite", todos));
    agent.llm.reply(Reply::text("All is done."));
    let answer = agent.request("session/prompt", prompt(&session, "edit it")).await.unwrap();
    let end = idle(&agent).await;
    assert_eq!(end["stopReason"], "end_turn");
    let inserted =
        agent.updates(&session).into_iter().find(|it| it["sessionUpdate"] == "user_message").unwrap();
    assert_eq!(inserted["messageId"], answer["messageId"]);
    let replay =
        json!({"sessionId": session, "cwd": agent.session_params()["cwd"], "replayFrom": {"type": "start"}});
    agent.request("session/resume", replay).await.unwrap();
    let n_marks =
        agent.updates(&session).iter().filter(|it| it["sessionUpdate"] == "replay_complete").count();
    assert_eq!(n_marks, 1);
    agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    assert_eq!(agent.scratch.read("a.txt"), "one\nzwei\n");
    transcript::check("second_version", &agent.lines(), &agent.scratch);
    agent.finish().await;
}

#[tokio::test]
async fn a_list_shows_what_was_given_up() {
    let (agent, session) = start("allow").await;
    let todo = json!({"content": "never mind", "status": "cancelled", "priority": "low"});
    agent.llm.reply(Reply::call("call_1", "todowrite", json!({ "todos": [todo] })));
    agent.llm.reply(Reply::text("done"));
    agent.request("session/prompt", prompt(&session, "go")).await.unwrap();
    idle(&agent).await;
    let updates = agent.updates(&session);
    let plan = updates.iter().find(|update| update["sessionUpdate"] == "plan_update").unwrap();
    assert_eq!(plan["plan"]["entries"], json!([todo]));
    agent.finish().await;
}

#[tokio::test]
async fn work_is_cancelled_after_its_prompt_was_answered() {
    let (agent, session) = start("allow").await;
    keep_busy(&agent, &session).await;
    agent.cancel(&session);
    assert_eq!(idle(&agent).await["stopReason"], "cancelled");
    let updates = agent.updates(&session);
    let last = updates.iter().rfind(|it| it["toolCallId"] == "call_1").unwrap();
    assert_eq!(last["status"], "cancelled");
    agent.finish().await;
}

#[tokio::test]
async fn a_failure_after_the_message_is_there_is_told_by_the_state() {
    let (agent, session) = start("allow").await;
    agent.llm.reply(Reply::status(401).body(json!({"error": {"message": "no such key"}})));
    agent.request("session/prompt", prompt(&session, "hello")).await.unwrap();
    let end = idle(&agent).await;
    assert_eq!(end["stopReason"], "error");
    assert!(end["error"]["message"].as_str().unwrap().contains("no such key"), "{end}");
    agent.finish().await;
}

#[tokio::test]
async fn a_session_that_waits_for_its_user_says_so() {
    let (agent, session) = start("ask").await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "true", "description": "Do nothing"})));
    agent.llm.reply(Reply::text("done"));
    agent.request("session/prompt", prompt(&session, "go")).await.unwrap();
    state(&agent, "requires_action").await;
    let ask = agent.permission().await;
    assert_eq!(ask.params["subject"]["toolCall"]["toolCallId"], "call_1");
    agent.answer(&ask, Answer::AllowOnce);
    state(&agent, "running").await;
    assert_eq!(idle(&agent).await["stopReason"], "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_that_never_got_its_message_is_refused_as_cancelled() {
    let (agent, session) = start("allow").await;
    keep_busy(&agent, &session).await;
    let second = agent.send_request_with_id(json!("second"), "session/prompt", prompt(&session, "and then"));
    agent.notify("$/cancel_request", json!({"requestId": "second"}));
    assert_eq!(second.answer().await.unwrap_err().code, -32800);
    agent.cancel(&session);
    idle(&agent).await;
    agent.finish().await;
}

#[tokio::test]
async fn methods_and_parameters_of_the_other_version_are_refused_and_closing_twice_succeeds() {
    let (agent, session) = start("allow").await;
    let place = json!({"sessionId": session, "cwd": agent.session_params()["cwd"]});
    for gone in ["session/load", "session/set_mode", "session/set_model", "authenticate", "logout"] {
        assert_eq!(agent.request(gone, place.clone()).await.unwrap_err().code, -32601, "{gone}");
    }
    let mut wrong = place.clone();
    wrong["replayFrom"] = json!({"type": "message"});
    assert_eq!(agent.request("session/resume", wrong).await.unwrap_err().code, -32602);
    let lower = agent.request("initialize", json!({"protocolVersion": 1})).await.unwrap_err();
    assert_eq!((lower.code, lower.data["supported"].clone()), (-32022, json!([2])));
    for _ in 0..2 {
        agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    }
    agent.finish().await;
}

#[tokio::test]
async fn options_are_set_by_their_ids_and_edits_are_accepted_by_a_switch() {
    let (agent, session) = start("allow").await;
    let set = |id: &str, value: Value| {
        agent.request(
            "session/set_config_option",
            json!({"sessionId": session, "configId": id, "value": value}),
        )
    };
    let options = set("accept_edits", json!(true)).await.unwrap();
    let switch =
        options["configOptions"].as_array().unwrap().iter().find(|it| it["configId"] == "accept_edits");
    assert_eq!(switch.unwrap()["currentValue"], true);
    for (id, value) in [("accept_edits", json!("yes")), ("mode", json!(true)), ("colour", json!("red"))] {
        assert_eq!(set(id, value).await.unwrap_err().code, -32602, "{id}");
    }
    let write = json!({"filePath": agent.scratch.path("b.txt"), "content": "made\n"});
    agent.llm.reply(Reply::call("call_1", "write", write));
    agent.llm.reply(Reply::text("done"));
    agent.request("session/prompt", prompt(&session, "go")).await.unwrap();
    assert_eq!(idle(&agent).await["stopReason"], "end_turn");
    assert_eq!((agent.n_asked(), agent.scratch.read("b.txt").as_str()), (0, "made\n"));
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_that_is_sent_again_with_its_key_is_answered_with_the_first_ones_message() {
    let (agent, session) = start("allow").await;
    let keyed = |text: &str, key: &str| {
        let mut params = prompt(&session, text);
        params["idempotencyKey"] = key.into();
        params
    };
    for bad in [json!(""), json!(7), json!("k".repeat(256))] {
        let mut params = prompt(&session, "go");
        params["idempotencyKey"] = bad;
        assert_eq!(agent.request("session/prompt", params).await.unwrap_err().code, -32602);
    }
    agent.llm.reply(Reply::text("one"));
    let first = agent.request("session/prompt", keyed("go", "a")).await.unwrap();
    idle(&agent).await;
    assert_eq!(agent.request("session/prompt", keyed("go", "a")).await.unwrap(), first);
    agent.llm.reply(Reply::text("two"));
    let other = agent.request("session/prompt", keyed("go", "b")).await.unwrap();
    assert_ne!(other, first);
    idle(&agent).await;
    // A command that the daemon answers by itself leaves nothing that a retry would wait for.
    agent.request("session/prompt", keyed("/help", "c")).await.unwrap();
    idle(&agent).await;
    agent.request("session/prompt", keyed("/help", "c")).await.unwrap();
    // While another prompt is at work, a retry is answered at once.
    keep_busy(&agent, &session).await;
    assert_eq!(agent.request("session/prompt", keyed("go", "a")).await.unwrap(), first);
    agent.cancel(&session);
    idle(&agent).await;
    // The store knows it in the next process, too.
    let next = agent.successor();
    agent.finish().await;
    let agent = next.spawn().await;
    greeted(&agent).await;
    let params = json!({"sessionId": session, "cwd": agent.session_params()["cwd"]});
    agent.request("session/resume", params).await.unwrap();
    assert_eq!(agent.request("session/prompt", keyed("go", "a")).await.unwrap(), first);
    assert_eq!(agent.llm.requests().len(), 3);
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_that_is_sent_again_while_it_waits_gets_the_same_answer() {
    let (agent, session) = start("allow").await;
    keep_busy(&agent, &session).await;
    let mut params = prompt(&session, "next");
    params["idempotencyKey"] = "k".into();
    agent.llm.reply(Reply::text("next is done"));
    let first = agent.send_request("session/prompt", params.clone());
    let again = agent.send_request("session/prompt", params.clone());
    agent.cancel(&session);
    assert_eq!(first.answer().await.unwrap_err().code, -32800);
    assert_eq!(again.answer().await.unwrap_err().code, -32800);
    // It has never been in the conversation, so that it can come now.
    idle(&agent).await;
    let now = agent.send_request("session/prompt", params.clone());
    let again = agent.request("session/prompt", params).await.unwrap();
    assert_eq!(now.answer().await.unwrap(), again);
    agent.finish().await;
}
