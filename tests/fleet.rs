//! Sessions that several machines share: each node has a home and a checkout of its own, and all one Postgres.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer, CANCEL_LIMIT, DEADLINE, merge},
    llm::{Gate, Llm, Reply},
    nodes::{cli, node, server},
    postgres::Postgres,
    scratch::Scratch,
    server::answer,
};

/// A lease that no test outlasts.
fn long_lease() -> Value {
    json!({"windlass": {"shared": {"lease": 600_000}}})
}

fn load(node: &Agent, session: &str) -> Value {
    json!({"sessionId": session, "cwd": node.scratch.cwd(), "mcpServers": []})
}

fn texts(updates: &[Value], kind: &str) -> String {
    let of_kind = updates.iter().filter(|update| update["sessionUpdate"] == kind);
    of_kind.map(|update| update["content"]["text"].as_str().unwrap_or_default()).collect()
}

#[tokio::test]
async fn a_session_goes_on_at_another_node_with_everything_that_was_said() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    for ack in ["shared", "local"] {
        let one = node(&postgres, &llm, "one", ack).start().await;
        let session = one.new_session().await;
        llm.reply(Reply::text("noted: ").and_text("blue"));
        assert_eq!(one.prompt(&session, "my colour is blue").await.text(), "noted: blue");
        one.finish().await;

        let two = node(&postgres, &llm, "two", ack).start().await;
        let seen = two.load(&session).await;
        assert_eq!(texts(&seen, "user_message_chunk"), "my colour is blue");
        assert_eq!(texts(&seen, "agent_message_chunk"), "noted: blue");
        llm.reply(Reply::text("it is blue"));
        assert_eq!(two.prompt(&session, "which one?").await.text(), "it is blue");
        let said = llm.last_request().messages();
        assert!(said.iter().any(|it| it["content"].to_string().contains("my colour is blue")), "{said:?}");
        two.finish().await;
    }
}

#[tokio::test]
async fn a_node_that_is_killed_loses_nothing_that_it_has_shown() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let mut one = node(&postgres, &llm, "one", "shared").start().await;
    let session = one.new_session().await;
    let gate = Gate::new();
    llm.reply(Reply::text("half of ").and_text("an answer").and_gate(&gate));
    let _prompt = one.send_prompt(&session, "say it");
    one.wait_text(&session, "half of an answer").await;
    one.signal(Signal::SIGKILL);
    one.wait_exit().await;
    one.forget().await;

    let two = node(&postgres, &llm, "two", "shared").start().await;
    let seen = two.load(&session).await;
    assert_eq!(texts(&seen, "agent_message_chunk"), "half of an answer");
    llm.reply(Reply::text("the other half"));
    assert_eq!(two.prompt(&session, "go on").await.text(), "the other half");
    two.finish().await;
}

#[tokio::test]
async fn a_node_that_was_stopped_for_longer_than_its_lease_shows_writes_and_runs_nothing_more() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    for ack in ["shared", "local"] {
        let one = node(&postgres, &llm, "one", ack).start().await;
        let session = one.new_session().await;
        let gate = Gate::new();
        let call = json!({"command": "touch ran", "description": "Leaves a trace"});
        llm.reply(Reply::text("before").and_gate(&gate).and_text("after").and_call("call_1", "bash", call));
        let prompt = one.send_prompt(&session, "work");
        one.wait_text(&session, "before").await;
        one.signal(Signal::SIGSTOP);

        let two = node(&postgres, &llm, "two", ack).start().await;
        // The owner lives until its lease has ended, and is asked in vain.
        let taken = async { while two.request("session/load", load(&two, &session)).await.is_err() {} };
        tokio::time::timeout(DEADLINE, taken).await.expect("the session is taken over");
        llm.reply(Reply::text("mine now"));
        assert_eq!(two.prompt(&session, "go on").await.text(), "mine now");
        let rows = "SELECT count(*), max(seq) FROM windlass.event";
        let before = postgres.query(rows);

        one.signal(Signal::SIGCONT);
        gate.open();
        let refused = prompt.answer().await.expect_err("the session is another node's");
        let reasons = ["taken over by two", "lease has run out"];
        assert!(reasons.iter().any(|it| refused.message.contains(it)), "{refused:?}");
        assert_eq!(postgres.query(rows), before);
        assert!(!one.scratch.exists("ran"));
        let shown = texts(&one.updates(&session), "agent_message_chunk");
        assert!(!shown.contains("after"), "{shown}");
        one.finish().await;
        two.finish().await;
    }
}

#[tokio::test]
async fn a_question_that_waited_is_asked_again_where_the_session_goes_on() {
    let Some(postgres) = Postgres::start().await else { return };
    let asks = json!({"permission": {"bash": "ask"}});
    for answer in [Answer::AllowOnce, Answer::RejectOnce] {
        let llm = Llm::start().await;
        let mut one = node(&postgres, &llm, "one", "shared").config(asks.clone()).start().await;
        let session = one.new_session().await;
        llm.reply(Reply::call(
            "call_1",
            "bash",
            json!({"command": "touch ran", "description": "Leaves a trace"}),
        ));
        let _prompt = one.send_prompt(&session, "work");
        one.permission().await;
        one.signal(Signal::SIGKILL);
        one.wait_exit().await;

        let two = node(&postgres, &llm, "two", "shared").config(asks.clone()).start().await;
        two.allow_own_turns();
        two.load(&session).await;
        let ask = two.permission().await;
        assert_eq!(ask.call()["title"], "touch ran");
        assert!(!two.scratch.exists("ran"));
        let is_allowed = answer == Answer::AllowOnce;
        if is_allowed {
            llm.reply(Reply::text("it ran"));
        }
        two.answer(&ask, answer);
        if is_allowed {
            two.wait_text(&session, "it ran").await;
            assert!(llm.last_request().tool_result("call_1").contains("Not run"));
        }
        llm.reply(Reply::text("still here"));
        two.prompt(&session, "and?").await;
        assert_eq!(two.scratch.exists("ran"), is_allowed);
        two.finish().await;
        one.forget().await;
    }
}

#[tokio::test]
async fn remembered_answers_hold_on_every_node_where_the_setting_says_so_and_so_does_taking_them_back() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let shares = json!({"permission": {"bash": "ask"}, "windlass": {"shared": {"answers": true}}});
    let call = || Reply::call("call_1", "bash", json!({"command": "echo x", "description": "Prints"}));
    let one = node(&postgres, &llm, "one", "shared").config(shares.clone()).start().await;
    let session = one.new_session().await;
    llm.reply(call());
    llm.reply(Reply::text("done"));
    let prompt = one.send_prompt(&session, "work");
    one.answer(&one.permission().await, Answer::AllowAlways);
    prompt.turn().await;
    // The next turn exchanges them.
    llm.reply(Reply::text("again"));
    one.prompt(&session, "and?").await;

    let two = node(&postgres, &llm, "two", "shared").config(shares.clone()).start().await;
    let session = two.new_session().await;
    llm.reply(call());
    llm.reply(Reply::text("done"));
    two.prompt(&session, "work").await;
    assert_eq!(two.n_asked(), 0, "the answer was given at one");
    let alone =
        node(&postgres, &llm, "alone", "shared").config(json!({"permission": {"bash": "ask"}})).start().await;
    let other = alone.new_session().await;
    llm.reply(call());
    let prompt = alone.send_prompt(&other, "work");
    alone.answer(&alone.permission().await, Answer::RejectOnce);
    prompt.turn().await;

    let mut config = shares.clone();
    merge(&mut config, json!({"windlass": {"shared": postgres.shared("one", "shared")}}));
    let listed = cli(&one.scratch, &llm, &config, &["permission", "list"]).await;
    assert!(listed.contains("echo"), "{listed}");
    cli(&one.scratch, &llm, &config, &["permission", "revoke", "1"]).await;
    llm.reply(call());
    llm.reply(Reply::text("done"));
    let prompt = two.send_prompt(&session, "work");
    two.answer(&two.permission().await, Answer::AllowOnce);
    prompt.turn().await;
    // It does not come back.
    llm.reply(Reply::text("again"));
    one.prompt(&one.new_session().await, "and?").await;
    let listed = cli(&one.scratch, &llm, &config, &["permission", "list"]).await;
    assert!(listed.contains("Nothing is remembered"), "{listed}");
    for node in [one, two, alone] {
        node.finish().await;
    }
}

#[tokio::test]
async fn an_idle_owner_gives_a_session_and_takes_it_again_with_what_came_since() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let one = node(&postgres, &llm, "one", "shared").start().await;
    let session = one.new_session().await;
    llm.reply(Reply::text("first"));
    one.prompt(&session, "one").await;
    let two = node(&postgres, &llm, "two", "shared").start().await;
    two.load(&session).await;
    llm.reply(Reply::text("second"));
    assert_eq!(two.prompt(&session, "two").await.text(), "second");
    llm.reply(Reply::text("third"));
    assert_eq!(one.prompt(&session, "three").await.text(), "third");
    let said = format!("{:?}", llm.last_request().messages());
    for word in ["first", "second", "two"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    one.finish().await;
    two.finish().await;
}

#[tokio::test]
async fn a_session_at_work_is_not_taken_and_the_refusal_names_its_node() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let one = node(&postgres, &llm, "one", "shared").start().await;
    let session = one.new_session().await;
    let gate = Gate::new();
    llm.reply(Reply::text("slow").behind(&gate));
    let prompt = one.send_prompt(&session, "work");
    gate.reached().await;
    let two = node(&postgres, &llm, "two", "shared").start().await;
    let refused = two.request("session/load", load(&two, &session)).await.expect_err("one works in it");
    assert!(refused.message.contains("is open at one"), "{refused:?}");
    gate.open();
    assert_eq!(prompt.turn().await.text(), "slow");
    two.load(&session).await;
    one.finish().await;
    two.finish().await;
}

#[tokio::test]
async fn a_call_that_ran_when_its_machine_died_is_shown_as_unknown_and_not_run_again() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let mut one = node(&postgres, &llm, "one", "shared").start().await;
    let session = one.new_session().await;
    let call = json!({"command": "echo once >> count; sleep 600", "description": "Counts"});
    llm.reply(Reply::call("call_1", "bash", call));
    let _prompt = one.send_prompt(&session, "count");
    one.scratch.appears("count").await;
    one.signal(Signal::SIGKILL);
    one.wait_exit().await;
    let two = node(&postgres, &llm, "two", "shared").start().await;
    two.load(&session).await;
    llm.reply(Reply::text("I see"));
    two.prompt(&session, "and?").await;
    let result = llm.last_request().tool_result("call_1");
    assert!(result.contains("result is unknown"), "{result}");
    assert!(!two.scratch.exists("count"));
    let config = json!({"windlass": {"shared": postgres.shared("three", "shared")}});
    let shown = cli(&Scratch::new(), &llm, &config, &["session", "show", &session]).await;
    assert!(shown.contains("its result is unknown"), "{shown}");
    one.forget().await;
    two.finish().await;
}

#[tokio::test]
async fn any_server_lists_all_sessions_and_passes_requests_and_events_of_one_at_work() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let one = server(&postgres, &llm, "one", "allow").await;
    let two = server(&postgres, &llm, "two", "allow").await;
    let id = one.session().await;
    let gate = Gate::new();
    llm.reply(Reply::text("begun").and_gate(&gate).and_text(" and ended"));
    let body = json!({"parts": [{"type": "text", "text": "work"}]});
    one.post(&format!("/session/{id}/prompt_async"), body).await;
    gate.reached().await;

    let listed = two.get("/session").await.ok();
    assert_eq!(listed[0]["id"], id.as_str(), "{listed}");
    assert_eq!(listed[0]["directory"], two.scratch.cwd(), "the checkout there is another one");
    assert_eq!(two.get("/session/status").await.ok(), json!({ &id: {"type": "busy"} }));
    let mut events = two.events("/global/event").await;
    let said = two.get(&format!("/session/{id}/message")).await.ok();
    assert_eq!(said[1]["parts"][1]["text"], "begun", "{said}");
    let waiting = json!({"prompt": {"text": "and then?"}, "delivery": "queue"});
    two.post(&format!("/api/session/{id}/prompt"), waiting).await.ok();
    llm.reply(Reply::text("that"));
    gate.open();
    events.until("session.idle").await;
    events.until("session.idle").await;
    let said = two.get(&format!("/session/{id}/message")).await.ok().to_string();
    assert!(said.contains("begun and ended") && said.contains("that"), "{said}");

    // No password of a server is worth anything at another one, but its own token is.
    answer(two.request("GET", "/session").header("x-windlass-fleet", "1.00")).await.refused(401);
    one.finish().await;
    llm.reply(Reply::text("still here"));
    let body = json!({"parts": [{"type": "text", "text": "hello"}]});
    let ended = two.post(&format!("/session/{id}/message"), body).await.ok();
    assert_eq!(ended["parts"][1]["text"], "still here", "{ended}");
    two.finish().await;
}

#[tokio::test]
async fn the_command_line_shows_nodes_and_owners_and_goes_on_with_the_latest_session() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let one = node(&postgres, &llm, "one", "shared").start().await;
    let session = one.new_session().await;
    llm.reply(Reply::text("noted"));
    one.prompt(&session, "remember the milk").await;
    let scratch = Scratch::new();
    let config = json!({"windlass": {"shared": postgres.shared("two", "shared")}});
    let run = async |arguments: &[&str]| cli(&scratch, &llm, &config, arguments).await;
    let fleet = run(&["fleet", "--format", "json"]).await;
    let fleet: Value = serde_json::from_str(&fleet).unwrap();
    assert_eq!((&fleet["nodes"][0]["name"], &fleet["open"]), (&json!("one"), &json!(1)), "{fleet}");
    let listed = run(&["session", "list"]).await;
    assert!(listed.contains(&session) && listed.contains("(open at one)"), "{listed}");
    llm.reply(Reply::text("the milk"));
    let said = run(&["run", "--continue", "what was it?"]).await;
    assert!(said.contains("the milk"), "{said}");
    assert!(llm.last_request().messages().iter().any(|it| it.to_string().contains("remember the milk")));
    // Given back with the end of the process, so nobody waits.
    llm.reply(Reply::text("yes"));
    assert_eq!(one.prompt(&session, "did you?").await.text(), "yes");
    assert!(run(&["doctor"]).await.contains("Postgres 1"));
    one.finish().await;
}

#[tokio::test]
async fn a_session_that_was_deleted_stays_so_on_every_node() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let one = node(&postgres, &llm, "one", "shared").start().await;
    let session = one.new_session().await;
    llm.reply(Reply::text("first"));
    one.prompt(&session, "one").await;
    let two = node(&postgres, &llm, "two", "shared").start().await;
    two.load(&session).await;
    two.request("session/delete", json!({"sessionId": session})).await.unwrap();
    let listed = one.request("session/list", json!({"cwd": one.scratch.cwd()})).await.unwrap();
    assert_eq!(listed["sessions"], json!([]), "{listed}");
    one.request("session/load", load(&one, &session)).await.expect_err("it is gone");
    assert_eq!(postgres.query("SELECT count(*) FROM windlass.event"), ["0"]);
    one.finish().await;
    two.finish().await;
}

#[tokio::test]
async fn no_command_sees_the_address_of_the_database() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let mut shared = postgres.shared("one", "shared");
    shared["url"] = "{env:OUR_DATABASE}".into();
    let one = Agent::builder()
        .llm(&llm)
        .env("OUR_DATABASE", &postgres.url())
        .env("WINDLASS_SHARED_KEY", "a key that is not used")
        .config(json!({"windlass": {"shared": shared}}))
        .start()
        .await;
    let session = one.new_session().await;
    let call = json!({"command": "env", "description": "Lists variables"});
    let printed = one.told(&session, "bash", call).await;
    assert!(printed.contains("HOME=") && !printed.contains("postgres://"), "{printed}");
    assert!(!printed.contains("WINDLASS_SHARED_KEY"), "{printed}");
    assert_eq!(postgres.query("SELECT count(*) FROM windlass.session"), ["1"]);
    one.finish().await;
}

#[tokio::test]
async fn a_database_that_restarts_delays_a_turn_and_breaks_none() {
    let Some(mut postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    for ack in ["shared", "local"] {
        let one = node(&postgres, &llm, "one", ack).config(long_lease()).start().await;
        let session = one.new_session().await;
        let gate = Gate::new();
        llm.reply(Reply::text("before ").and_gate(&gate).and_text("after"));
        let prompt = one.send_prompt(&session, "work");
        one.wait_text(&session, "before ").await;
        postgres.stop();
        gate.open();
        postgres.begin().await;
        assert_eq!(prompt.turn().await.text(), "before after", "{ack}");
        one.finish().await;
        let two = node(&postgres, &llm, "two", ack).start().await;
        assert_eq!(texts(&two.load(&session).await, "agent_message_chunk"), "before after", "{ack}");
        two.finish().await;
    }
}

#[tokio::test]
async fn without_its_database_a_node_refuses_in_words_or_goes_on_alone() {
    let Some(mut postgres) = Postgres::start().await else { return };
    postgres.stop();
    let llm = Llm::start().await;
    let one = node(&postgres, &llm, "one", "shared").start().await;
    let refused = one.request("session/new", one.session_params()).await.expect_err("it cannot be shared");
    assert!(refused.message.contains("the shared store cannot be reached"), "{refused:?}");
    one.finish().await;

    let two = node(&postgres, &llm, "two", "local").start().await;
    let session = two.new_session().await;
    llm.reply(Reply::text("alone"));
    assert_eq!(two.prompt(&session, "hello").await.text(), "alone");
    two.finish().await;
}

#[tokio::test]
async fn a_node_that_is_cut_off_ends_its_turns_and_their_commands_with_its_lease() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    for ack in ["shared", "local"] {
        let one = node(&postgres, &llm, "one", ack).start().await;
        let session = one.new_session().await;
        let call = json!({"command": "touch begun; sleep 600", "description": "Waits"});
        llm.reply(Reply::call("call_1", "bash", call));
        let prompt = one.send_prompt(&session, "wait");
        one.scratch.appears("begun").await;
        postgres.freeze(true);
        let refused = prompt.answer().await.expect_err("the lease is over");
        assert!(refused.message.contains("lease has run out"), "{refused:?}");
        one.childless(CANCEL_LIMIT).await;
        postgres.freeze(false);
        // Nobody took the session meanwhile, so it goes on here.
        llm.reply(Reply::text("again"));
        assert_eq!(one.prompt(&session, "go on").await.text(), "again", "{ack}");
        one.finish().await;
    }
}

#[tokio::test]
async fn a_question_at_one_node_is_answered_by_way_of_another() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let one = server(&postgres, &llm, "one", "ask").await;
    let two = server(&postgres, &llm, "two", "ask").await;
    let id = one.session().await;
    let mut events = one.events("/event").await;
    llm.reply(Reply::call(
        "call_1",
        "bash",
        json!({"command": "touch asked", "description": "Leaves a trace"}),
    ));
    llm.reply(Reply::text("done"));
    let body = json!({"parts": [{"type": "text", "text": "work"}]});
    one.post(&format!("/session/{id}/prompt_async"), body).await;
    let asked = events.until("permission.asked").await;
    let request = asked.last().unwrap()["properties"]["id"].as_str().unwrap().to_owned();
    let listed = two.get("/permission").await.ok();
    assert_eq!((&listed[0]["id"], &listed[0]["sessionID"]), (&json!(request), &json!(id)), "{listed}");
    assert_eq!(listed[0]["words"]["title"], "touch asked", "{listed}");
    two.post("/permission/per_none/reply", json!({"reply": "once"})).await.refused(404);
    two.post(&format!("/permission/{request}/reply"), json!({"reply": "once"})).await.ok();
    events.until("session.idle").await;
    assert!(one.scratch.exists("asked"));
    one.finish().await;
    two.finish().await;
}

#[tokio::test]
async fn readers_elsewhere_hear_of_the_death_of_a_node_and_its_session_goes_on() {
    let Some(postgres) = Postgres::start().await else { return };
    let llm = Llm::start().await;
    let one = server(&postgres, &llm, "one", "allow").await;
    let two = server(&postgres, &llm, "two", "allow").await;
    let id = one.session().await;
    let gate = Gate::new();
    llm.reply(Reply::text("begun").and_gate(&gate));
    let mut events = two.events("/event").await;
    let body = json!({"parts": [{"type": "text", "text": "work"}]});
    two.post(&format!("/session/{id}/prompt_async"), body).await;
    events.until("message.part.delta").await;
    let again = one.killed().await;
    events.until("session.error").await;
    events.until("session.idle").await;
    llm.reply(Reply::text("still here"));
    let prompt = json!({"parts": [{"type": "text", "text": "go on"}]});
    // The other machine cannot tell a death from a silence before the lease has ended, and waits for that.
    let ended = two.post(&format!("/session/{id}/message"), prompt).await.ok().to_string();
    assert!(ended.contains("still here"), "{ended}");
    again.finish().await;
    two.finish().await;
}
