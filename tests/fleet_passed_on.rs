//! Sessions at another node's server, by the Agent Client Protocol: they are used there, and go on here when that is gone.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::{Gate, Llm, Reply},
    nodes::{node, server},
    postgres::Postgres,
    process,
    server::Server,
};

/// Has a server begin a turn that waits at a gate behind its first words.
async fn at_work(one: &Server, llm: &Llm, gate: &Gate, then: &str) -> String {
    let id = one.session().await;
    llm.reply(Reply::text("begun").and_gate(gate).and_text(then));
    let body = json!({"parts": [{"type": "text", "text": "work"}]});
    one.post(&format!("/session/{id}/prompt_async"), body).await;
    gate.reached().await;
    id
}

fn words(updates: &[Value]) -> String {
    let chunks = updates.iter().filter(|it| it["sessionUpdate"] == "agent_message_chunk");
    chunks.map(|it| it["content"]["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_editor_uses_a_session_at_work_where_it_is() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let one = server(&postgres, &llm, "one", "ask").await;
    let two = node(&postgres, &llm, "two", "shared").start().await;
    let gate = Gate::new();
    let id = at_work(&one, &llm, &gate, " and ended").await;
    two.allow_own_turns();
    assert_eq!(words(&two.load(&id).await), "begun");
    gate.open();
    two.wait_text(&id, "begun and ended").await;

    // The prompt, its question and its call are the other node's, and the paths in them are turned.
    let call =
        json!({"command": "touch asked", "description": "Leaves a trace", "workdir": one.scratch.cwd()});
    llm.reply(Reply::call("call_1", "bash", call));
    llm.reply(Reply::text("done"));
    let prompt = two.send_prompt(&id, "leave a trace");
    let ask = two.permission().await;
    assert_eq!(ask.params["sessionId"], id.as_str());
    let shown = two.updates(&id);
    let is_turned = |it: &&Value| it["rawInput"]["workdir"] == two.scratch.cwd();
    assert!(shown.iter().any(|it| is_turned(&it)), "{shown:?}");
    two.answer(&ask, Answer::AllowOnce);
    assert_eq!(prompt.turn().await.text(), "done");
    assert!(one.scratch.exists("asked") && !two.scratch.exists("asked"));

    // A turn there is cancelled from here, and a mode chosen.
    let endless = Gate::new();
    llm.reply(Reply::text("long").and_gate(&endless));
    let prompt = two.send_prompt(&id, "take your time");
    two.wait_text(&id, "long").await;
    two.cancel(&id);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    two.request("session/set_mode", json!({"sessionId": id, "modeId": "plan"})).await.unwrap();
    assert_eq!(one.get(&format!("/session/{id}")).await.ok()["agent"], "plan");
    two.request("session/close", json!({"sessionId": id})).await.unwrap();
    let closed = two.request("session/prompt", json!({"sessionId": id, "prompt": []})).await.unwrap_err();
    assert!(closed.message.contains("Session not open"), "{closed:?}");
    two.finish().await;
    one.finish().await;
}

#[tokio::test]
async fn a_session_goes_on_here_when_the_node_that_had_it_is_gone() {
    let Some(postgres) = Postgres::start().await else { return };
    for is_killed in [true, false] {
        let llm = Llm::start().await;
        let one = server(&postgres, &llm, "one", "allow").await;
        let two = node(&postgres, &llm, "two", "shared").start().await;
        let gate = Gate::new();
        let id = at_work(&one, &llm, &gate, "").await;
        two.load(&id).await;
        let waiting = two.send_prompt(&id, "and then?");
        let one = if is_killed {
            one.killed().await
        } else {
            process::send(one.pid(), Signal::SIGSTOP);
            one
        };
        let failure = waiting.answer().await.unwrap_err();
        assert!(failure.message.contains("is gone, or has the session no more"), "{failure:?}");
        // Where its node has kept the prompt that waited, that is answered first.
        llm.answer_with(|_| Reply::text("still here"));
        assert!(two.prompt(&id, "go on").await.text().ends_with("still here"));
        let said = format!("{:?}", llm.last_request().messages());
        assert!(said.contains("begun"), "{said}");
        two.finish().await;
        process::send(one.pid(), Signal::SIGCONT);
        one.finish().await;
    }
}

#[tokio::test]
async fn a_session_that_went_to_another_node_is_followed_there_with_the_next_prompt() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let one = server(&postgres, &llm, "one", "allow").await;
    let two = node(&postgres, &llm, "two", "shared").start().await;
    let id = two.new_session().await;
    llm.reply(Reply::text("here"));
    two.prompt(&id, "where?").await;
    let gate = Gate::new();
    llm.reply(Reply::text("there").and_gate(&gate));
    let body = json!({"parts": [{"type": "text", "text": "and now?"}]});
    one.post(&format!("/session/{id}/prompt_async"), body).await;
    gate.reached().await;
    llm.reply(Reply::text("followed"));
    let prompt = two.send_prompt(&id, "wait for me");
    // Said of the session that is open here, then of the one there.
    two.wait_update("available_commands_update").await;
    two.wait_update("available_commands_update").await;
    gate.open();
    assert!(prompt.turn().await.text().ends_with("followed"));
    let said = one.get(&format!("/session/{id}/message")).await.ok().to_string();
    assert!(said.contains("followed"), "{said}");
    two.finish().await;
    one.finish().await;
}

#[tokio::test]
async fn a_client_of_version_2_at_another_server_sees_the_turn_and_hears_of_the_death_of_its_node() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let one = server(&postgres, &llm, "one", "allow").await;
    let two = server(&postgres, &llm, "two", "allow").await;
    let editor = Agent::builder().llm(&llm).arguments(&["acp", "--attach", &two.url]).spawn().await;
    let params = json!({"protocolVersion": 2, "info": {"name": "e2e", "version": "1"}, "capabilities": {}});
    editor.request("initialize", params).await.unwrap();
    let gate = Gate::new();
    let id = at_work(&one, &llm, &gate, " and ended").await;
    let replay =
        json!({"sessionId": id, "cwd": editor.session_params()["cwd"], "replayFrom": {"type": "start"}});
    editor.request("session/resume", replay).await.unwrap();
    editor.wait_text(&id, "begun").await;
    gate.open();
    let state = |wanted: &'static str| move |it: &Value| it["params"]["update"]["state"] == wanted;
    editor.wait_for("the end of the turn", state("idle")).await;

    let gate = Gate::new();
    llm.reply(Reply::text("again").and_gate(&gate));
    let prompt = json!({"sessionId": id, "prompt": [{"type": "text", "text": "again"}]});
    editor.request("session/prompt", prompt.clone()).await.unwrap();
    editor.wait_for("a turn", state("running")).await;
    gate.reached().await;
    let again = one.killed().await;
    let notice = editor.wait_update("notice").await;
    assert!(notice.to_string().contains("is gone, or has the session no more"), "{notice}");
    editor.wait_for("the end of the turn", state("idle")).await;
    llm.reply(Reply::text("still here"));
    editor.request("session/prompt", prompt).await.unwrap();
    editor.wait_text(&id, "still here").await;
    editor.wait_for("the end of the turn", state("idle")).await;
    editor.finish().await;
    two.finish().await;
    again.finish().await;
}

#[tokio::test]
async fn a_client_that_leaves_answers_nothing_and_one_that_has_asked_waits_for_its_answer() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let one = server(&postgres, &llm, "one", "ask").await;
    let two = node(&postgres, &llm, "two", "shared").start().await;
    let gate = Gate::new();
    let id = at_work(&one, &llm, &gate, "").await;
    two.allow_own_turns();
    two.load(&id).await;
    let call = json!({"command": "touch asked", "description": "Leaves a trace"});
    llm.reply(Reply::call("call_1", "bash", call));
    llm.reply(Reply::text("done"));
    let waiting = json!({"prompt": {"text": "leave a trace"}, "delivery": "queue"});
    one.post(&format!("/api/session/{id}/prompt"), waiting).await.ok();
    gate.open();
    let ask = two.permission().await;
    let mut two = two;
    two.close_stdin();
    two.wait_exit().await;
    drop(ask);
    two.forget().await;

    // Somebody else answers; and the next client waits for the end of its turn.
    let mut events = one.events("/event").await;
    let asked = one.get("/permission").await.ok();
    let request = asked[0]["id"].as_str().expect("the question waits").to_owned();
    one.post(&format!("/permission/{request}/reply"), json!({"reply": "once"})).await.ok();
    events.until("session.idle").await;
    assert!(one.scratch.exists("asked"));

    let gate = Gate::new();
    llm.reply(Reply::text("begun").and_gate(&gate));
    let body = json!({"parts": [{"type": "text", "text": "work"}]});
    one.post(&format!("/session/{id}/prompt_async"), body).await;
    gate.reached().await;
    let three = node(&postgres, &llm, "three", "shared").start().await;
    three.allow_own_turns();
    three.load(&id).await;
    llm.reply(Reply::text("answered"));
    let prompt = three.send_prompt(&id, "and then?");
    three.close_stdin();
    gate.open();
    assert!(prompt.turn().await.text().ends_with("answered"));
    three.finish().await;

    // A question of its own turn is left to others, and the client does not wait for them.
    let gate = Gate::new();
    let id = at_work(&one, &llm, &gate, "").await;
    let four = node(&postgres, &llm, "four", "shared").start().await;
    four.allow_own_turns();
    four.load(&id).await;
    llm.reply(Reply::call(
        "call_1",
        "bash",
        json!({"command": "touch left", "description": "Leaves a trace"}),
    ));
    llm.reply(Reply::text("done"));
    let prompt = four.send_prompt(&id, "leave another trace");
    gate.open();
    let ask = four.permission().await;
    let mut four = four;
    four.close_stdin();
    four.wait_exit().await;
    let failure = prompt.answer().await.unwrap_err();
    assert!(failure.message.contains("where its turn goes on"), "{failure:?}");
    drop(ask);
    four.forget().await;
    let asked = one.get("/permission").await.ok();
    let request = asked[0]["id"].as_str().expect("the question waits").to_owned();
    let mut events = one.events("/event").await;
    one.post(&format!("/permission/{request}/reply"), json!({"reply": "once"})).await.ok();
    events.until("session.idle").await;
    assert!(one.scratch.exists("left"));
    one.finish().await;
}

#[tokio::test]
async fn prompts_at_once_follow_a_session_by_one_connection_and_in_their_order() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let one = server(&postgres, &llm, "one", "allow").await;
    let two = node(&postgres, &llm, "two", "shared").start().await;
    two.allow_own_turns();
    let id = two.new_session().await;
    llm.reply(Reply::text("here"));
    two.prompt(&id, "where?").await;
    let gate = Gate::new();
    llm.reply(Reply::text("there").and_gate(&gate));
    let body = json!({"parts": [{"type": "text", "text": "and now?"}]});
    one.post(&format!("/session/{id}/prompt_async"), body).await;
    gate.reached().await;
    let prompts = ["first", "second", "third"].map(|words| {
        llm.reply(Reply::text(&format!("{words} answer; ")));
        two.send_prompt(&id, words)
    });
    two.wait_update("available_commands_update").await;
    two.wait_update("available_commands_update").await;
    // The history is shown once more, and the prompts that wait are answered all the same.
    two.load(&id).await;
    gate.open();
    for prompt in prompts {
        assert_eq!(prompt.turn().await.stop, "end_turn");
    }
    let shown = words(&two.updates(&id));
    let (_, shown) = shown.split_once("first").unwrap();
    assert_eq!(format!("first{shown}"), "first answer; second answer; third answer; ");
    // The mode that was chosen there holds when the session comes back.
    two.request("session/set_mode", json!({"sessionId": id, "modeId": "plan"})).await.unwrap();
    let again = one.killed().await;
    llm.reply(Reply::text("planned"));
    assert_eq!(two.prompt(&id, "go on").await.text(), "planned");
    let said = format!("{:?}", llm.last_request().messages());
    assert!(said.contains("Plan mode"), "{said}");
    two.finish().await;
    again.finish().await;
}
