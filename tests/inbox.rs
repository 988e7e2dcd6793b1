//! Prompts that wait for their turn over HTTP: listed, changed, withdrawn, parked by an abort, and kept over a sudden death.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    agent::Agent,
    llm::{Gate, Reply},
    server::Server,
};

/// A session whose turn works until the gate opens.
async fn at_work(server: &Server) -> (String, Gate) {
    let id = server.session().await;
    let gate = Gate::new();
    let call = json!({"command": "true"});
    server.llm.reply(Reply::text("working").and_gate(&gate).and_call("call_1", "bash", call));
    admit(server, &id, "work", "queue").await;
    gate.reached().await;
    (id, gate)
}

async fn admit(server: &Server, id: &str, text: &str, delivery: &str) -> Value {
    let body = json!({"prompt": {"text": text}, "delivery": delivery});
    server.post(&format!("/api/session/{id}/prompt"), body).await.ok()["data"].clone()
}

async fn inbox(server: &Server, id: &str) -> Vec<Value> {
    server.get(&format!("/api/session/{id}/inbox")).await.ok()["data"].as_array().unwrap().clone()
}

fn texts(inbox: &[Value]) -> Vec<&str> {
    inbox.iter().map(|item| item["payload"]["text"].as_str().unwrap()).collect()
}

/// Returns the words of the user in the last request, in order.
fn said(server: &Server) -> String {
    let messages = server.llm.last_request().messages();
    let users = messages.iter().filter(|message| message["role"] == "user");
    users.map(|message| message["content"].to_string()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn prompts_that_wait_are_listed_changed_and_withdrawn() {
    let server = Server::start().await;
    let (id, gate) = at_work(&server).await;
    let steer = admit(&server, &id, "mind the tests", "steer").await;
    assert_eq!(steer["delivery"], "steer");
    for text in ["one", "two", "three"] {
        admit(&server, &id, text, "queue").await;
    }
    let waiting = inbox(&server, &id).await;
    assert_eq!(texts(&waiting), ["mind the tests", "one", "two", "three"]);
    assert_eq!(
        (&waiting[0]["delivery"], &waiting[1]["delivery"], &waiting[1]["parked"], &waiting[0]["id"]),
        (&json!("steer"), &json!("queue"), &json!(false), &steer["id"])
    );
    let path = |at: usize| format!("/api/session/{id}/inbox/{}", waiting[at]["id"].as_str().unwrap());
    let done = server.send("PATCH", &path(1), json!({"text": "ONE, better"})).await;
    assert_eq!(done.status, 204, "{}", done.text);
    assert_eq!(server.send("PATCH", &path(2), json!({"delivery": "steer"})).await.status, 204);
    assert_eq!(server.send("DELETE", &path(3), Value::Null).await.status, 204);
    server.send("DELETE", &path(3), Value::Null).await.refused(409);
    server.send("PATCH", &path(2), json!({"delivery": "now"})).await.refused(400);
    server.send("PATCH", &path(2), json!({"when": "now"})).await.refused(400);
    server.send("PATCH", &path(2), json!({"text": " "})).await.refused(400);
    server.post(&format!("/api/session/{id}/prompt"), json!({"prompt": {"text": " "}})).await.refused(400);
    server.get("/api/session/ses_none/inbox").await.refused(404);
    assert_eq!(texts(&inbox(&server, &id).await), ["mind the tests", "ONE, better", "two"]);

    let mut events = server.events("/event").await;
    server.llm.reply(Reply::text("with both"));
    server.llm.reply(Reply::text("the first"));
    gate.open();
    events.until("session.idle").await;
    events.until("session.idle").await;
    let said = said(&server);
    let order = ["work", "mind the tests", "two", "ONE, better"].map(|words| said.find(words).unwrap());
    assert!(order.is_sorted() && !said.contains("three"), "{said}");
    assert!(inbox(&server, &id).await.is_empty());
    server.finish().await;
}

#[tokio::test]
async fn prompts_that_wait_are_put_in_another_order_which_outlives_the_process() {
    let server = Server::start().await;
    let (id, gate) = at_work(&server).await;
    let mut waiting = Vec::new();
    for text in ["one", "two", "three", "four"] {
        waiting.push(admit(&server, &id, text, "queue").await["id"].as_str().unwrap().to_owned());
    }
    let path = |at: usize| format!("/api/session/{id}/inbox/{}", waiting[at]);
    for (at, position, order) in [
        (2, 0, ["three", "one", "two", "four"]),
        (0, 9, ["three", "two", "four", "one"]),
        (1, 1, ["three", "two", "four", "one"]),
    ] {
        assert_eq!(server.send("PATCH", &path(at), json!({"position": position})).await.status, 204);
        assert_eq!(texts(&inbox(&server, &id).await), order);
    }
    server.send("PATCH", &path(0), json!({"position": -1})).await.refused(400);
    let server = server.killed().await;
    drop(gate);
    assert_eq!(texts(&inbox(&server, &id).await), ["three", "two", "four", "one"]);
    assert_eq!(server.send("PATCH", &path(3), json!({"position": 0})).await.status, 204);
    for _ in 0..4 {
        server.llm.reply(Reply::text("answered"));
    }
    let mut events = server.events("/event").await;
    server.post(&format!("/api/session/{id}/wake"), json!({})).await;
    for _ in 0..4 {
        events.until("session.idle").await;
    }
    let said = said(&server);
    let order = ["four", "three", "two", "one"].map(|words| said.find(words).unwrap());
    assert!(order.is_sorted(), "{said}");
    server.finish().await;
}

#[tokio::test]
async fn events_tell_of_each_change_of_what_waits() {
    let server = Server::start().await;
    let (id, gate) = at_work(&server).await;
    let mut events = server.events("/event").await;
    let one = admit(&server, &id, "one", "queue").await;
    let two = admit(&server, &id, "two", "queue").await;
    let path = |item: &Value| format!("/api/session/{id}/inbox/{}", item["id"].as_str().unwrap());
    server.send("PATCH", &path(&two), json!({"position": 0})).await;
    server.send("PATCH", &path(&one), json!({"delivery": "steer"})).await;
    server.send("PATCH", &path(&two), json!({"text": "2"})).await;
    server.send("DELETE", &path(&two), Value::Null).await;
    server.llm.reply(Reply::text("with it"));
    gate.open();
    let told = events.until("session.idle").await;
    let told = told.iter().filter(|event| event["type"].as_str().unwrap().starts_with("session.inbox."));
    let told: Vec<Value> = told.map(|event| json!([event["type"], event["properties"]])).collect();
    let (a, b) = (&one["id"], &two["id"]);
    let item = |id: &Value, text: &str, delivery: &str, time: &Value| {
        json!({"id": id, "sessionID": one["sessionID"], "time": time, "type": "user",
            "payload": {"text": text}, "delivery": delivery, "parked": false})
    };
    let (at_one, at_two) = (&told[0][1]["item"]["time"], &told[1][1]["item"]["time"]);
    let (first, second) = (item(a, "one", "queue", at_one), item(b, "two", "queue", at_two));
    let expected = [
        json!(["session.inbox.enqueued", {"sessionID": id, "inboxID": a, "item": first}]),
        json!(["session.inbox.enqueued", {"sessionID": id, "inboxID": b, "item": second}]),
        json!(["session.inbox.updated", {"sessionID": id, "inbox": [second, first]}]),
        json!(["session.inbox.delivery.changed", {"sessionID": id, "inboxID": a, "delivery": "steer"}]),
        json!(["session.inbox.updated", {"sessionID": id,
            "inbox": [item(b, "2", "queue", at_two), item(a, "one", "steer", at_one)]}]),
        json!(["session.inbox.cancelled", {"sessionID": id, "inboxID": b}]),
        json!(["session.inbox.delivered", {"sessionID": id, "inboxID": a}]),
    ];
    assert_eq!(told, expected);
    server.finish().await;
}

#[tokio::test]
async fn an_abort_parks_what_waits_until_the_next_prompt() {
    let server = Server::start().await;
    let (id, gate) = at_work(&server).await;
    admit(&server, &id, "first", "queue").await;
    admit(&server, &id, "second", "steer").await;
    let mut events = server.events("/event").await;
    server.post(&format!("/session/{id}/abort"), json!({})).await.ok();
    events.until("session.idle").await;
    gate.abandoned().await;
    let parked = inbox(&server, &id).await;
    assert!(texts(&parked) == ["first", "second"] && parked.iter().all(|item| item["parked"] == true));
    assert_eq!(server.llm.requests().len(), 1, "nothing goes on by itself");
    let status = server.get("/session/status").await.ok();
    assert!(status[&id].is_null() || status[&id]["type"] == "idle", "{status}");

    for text in ["answer one", "answer two", "answer three"] {
        server.llm.reply(Reply::text(text));
    }
    server.prompt(&id, "third").await;
    let said = said(&server);
    let order = ["first", "second", "third"].map(|words| said.find(words).unwrap());
    assert!(order.is_sorted(), "{said}");
    assert!(inbox(&server, &id).await.is_empty());
    server.finish().await;
}

#[tokio::test]
async fn what_waits_survives_a_restart_and_a_wake_lets_it_go_on() {
    let server = Server::start().await;
    let (id, gate) = at_work(&server).await;
    admit(&server, &id, "kept words", "queue").await;
    let before = inbox(&server, &id).await;
    let server = server.killed().await;
    drop(gate);
    let parked = inbox(&server, &id).await;
    assert_eq!(texts(&parked), ["kept words"]);
    assert_eq!((&parked[0]["id"], &parked[0]["parked"]), (&before[0]["id"], &json!(true)));
    server.llm.reply(Reply::text("at last"));
    let mut events = server.events("/event").await;
    let woken = server.post(&format!("/api/session/{id}/wake"), json!({})).await;
    assert_eq!(woken.status, 204, "{}", woken.text);
    events.until("session.idle").await;
    assert!(said(&server).contains("kept words"));

    // It is carried out once.
    let server = server.killed().await;
    assert!(inbox(&server, &id).await.is_empty());
    server.finish().await;
}

#[tokio::test]
async fn a_retry_of_a_prompt_that_waits_since_a_death_lets_it_go_on_once() {
    let server = Server::start().await;
    let (id, gate) = at_work(&server).await;
    let body =
        json!({"messageID": "msg_000000000000000000000002", "parts": [{"type": "text", "text": "once"}]});
    let path = format!("/session/{id}/prompt_async");
    assert_eq!(server.post(&path, body.clone()).await.status, 204);
    let server = server.killed().await;
    drop(gate);
    assert_eq!(texts(&inbox(&server, &id).await), ["once"]);
    server.llm.reply(Reply::text("answered"));
    let mut events = server.events("/event").await;
    assert_eq!(server.post(&path, body.clone()).await.status, 204);
    events.until("session.idle").await;
    let answered = server.post(&format!("/session/{id}/message"), body).await.ok();
    assert_eq!((&answered["parts"][1]["text"], server.llm.requests().len()), (&json!("answered"), 2));
    server.finish().await;
}

#[tokio::test]
async fn a_command_that_has_begun_is_not_carried_out_again_behind_a_death() {
    let server = Server::start().await;
    let (id, gate) = at_work(&server).await;
    let command = json!({"command": "init", "arguments": ""}).to_string();
    let path = format!("/session/{id}/command");
    let waiting = tokio::spawn(server.request("POST", &path).body(command).send());
    while inbox(&server, &id).await.is_empty() {
        tokio::task::yield_now().await;
    }
    let begun = Gate::new();
    server.llm.reply(Reply::text("done"));
    server.llm.reply(Reply::text("looking").and_gate(&begun));
    gate.open();
    begun.reached().await;
    let server = server.killed().await;
    assert!(inbox(&server, &id).await.is_empty());
    waiting.abort();
    server.finish().await;
}

#[tokio::test]
async fn sessions_keep_their_prompts_apart_whatever_their_ids() {
    let server = Server::start().await;
    let works = [at_work(&server).await, at_work(&server).await];
    for (id, _) in &works {
        let body = json!({"id": "msg_000000000000000000000003", "prompt": {"text": id}});
        server.post(&format!("/api/session/{id}/prompt"), body).await.ok();
    }
    let path = format!("/api/session/{}/inbox/msg_000000000000000000000003", works[0].0);
    assert_eq!(server.send("DELETE", &path, Value::Null).await.status, 204);
    let server = server.killed().await;
    assert!(inbox(&server, &works[0].0).await.is_empty());
    assert_eq!(texts(&inbox(&server, &works[1].0).await), [works[1].0.as_str()]);
    server.finish().await;
}

#[tokio::test]
async fn an_editors_prompts_are_kept_when_the_program_is_killed_or_told_to_end() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        keeps_a_prompt_behind(signal).await;
    }
}

async fn keeps_a_prompt_behind(signal: Signal) {
    let mut agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("working").and_gate(&gate));
    let _work = agent.send_prompt(&session, "work");
    gate.reached().await;
    let _queued = agent.send_prompt(&session, "later");
    let list = json!({"sessionId": session});
    // It is stored behind the prompt.
    let title = json!({"sessionId": session, "title": "Kept"});
    agent.request("_session/rename", title).await.unwrap();
    agent.signal(signal);
    agent.wait_exit().await;
    drop(gate);
    let agent = agent.restarted().await;
    agent.load(&session).await;
    let waiting = agent.request("_windlass/queue/list", list).await.unwrap();
    let kept: Vec<_> =
        waiting["prompts"].as_array().unwrap().iter().map(|it| (&it["text"], &it["parked"])).collect();
    assert_eq!(kept, [(&json!("later"), &json!(true))], "behind {signal}");
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_that_is_sent_again_under_its_id_is_carried_out_once() {
    let server = Server::start().await;
    let id = server.session().await;
    server.llm.reply(Reply::text("once"));
    let body =
        json!({"messageID": "msg_zzretry0000000000000001", "parts": [{"type": "text", "text": "hello"}]});
    let path = format!("/session/{id}/message");
    let first = server.post(&path, body.clone()).await.ok();
    assert_eq!(server.post(&path, body.clone()).await.ok(), first);
    let again = server.post(&format!("/session/{id}/prompt_async"), body).await;
    assert_eq!((again.status.as_u16(), server.llm.requests().len()), (204, 1));
    for id in ["", "zz", "prt_1", "msg_", "msg_a/b"] {
        let body = json!({"messageID": id, "parts": [{"type": "text", "text": "hello"}]});
        server.post(&path, body).await.refused(400);
    }

    // So it is while it waits, and behind an older id than those of the turn before it.
    let gate = Gate::new();
    server.llm.reply(Reply::text("working").and_gate(&gate));
    let queued = json!({"id": "msg_000000000000000000000001", "prompt": {"text": "queued"}});
    let admitted = format!("/api/session/{id}/prompt");
    server.post(&admitted, json!({"prompt": {"text": "work"}})).await.ok();
    gate.reached().await;
    for _ in 0..2 {
        assert_eq!(server.post(&admitted, queued.clone()).await.ok()["data"]["id"], queued["id"]);
    }
    assert_eq!(texts(&inbox(&server, &id).await), ["queued"]);
    server.llm.reply(Reply::text("done"));
    let mut events = server.events("/event").await;
    gate.open();
    events.until("session.idle").await;
    events.until("session.idle").await;
    server.post(&admitted, queued.clone()).await.ok();
    assert_eq!(server.llm.requests().len(), 3);
    server.finish().await;
}
