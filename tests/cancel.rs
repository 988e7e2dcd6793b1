//! Cancelling in every state: the turn ends in `cancelled` within a second and leaves nothing running.

use serde_json::json;

use crate::support::{
    agent::{Agent, CANCEL_LIMIT, requests::Pending},
    llm::{Gate, Reply},
    message::Turn,
    skip::sees_no_descriptors,
};

/// Cancels and waits for the end of the turn, which must come in time.
async fn cancelled(agent: &Agent, session: &str, prompt: &Pending) -> Turn {
    let watch = agent.stopwatch();
    agent.cancel(session);
    let turn = prompt.turn().await;
    assert_eq!(turn.stop, "cancelled");
    let took = watch.elapsed();
    assert!(took < CANCEL_LIMIT, "the turn took {took:?} to end");
    turn
}

/// Checks that the session works as before.
async fn works(agent: &Agent, session: &str) {
    agent.llm.reply_to("are you there", Reply::text("still here"));
    let turn = agent.prompt(session, "are you there").await;
    assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "still here"));
}

#[tokio::test]
async fn a_stream_is_cut_and_what_was_said_is_kept() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("half a sent").and_gate(&gate));
    let prompt = agent.send_prompt(&session, "go");
    agent.wait_text(&session, "half a sent").await;
    cancelled(&agent, &session, &prompt).await;
    gate.abandoned().await;
    works(&agent, &session).await;
    let replayed = agent.load(&session).await;
    assert!(crate::support::message::text(&replayed, "agent_message_chunk").contains("half a sent"));
    agent.finish().await;
}

#[tokio::test]
async fn a_provider_that_sends_no_headers_is_dropped() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::hang(&gate));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    cancelled(&agent, &session, &prompt).await;
    gate.abandoned().await;
    works(&agent, &session).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_provider_that_hangs_after_its_headers_is_dropped() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::deltas(Vec::<String>::new()).and_gate(&gate));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    cancelled(&agent, &session, &prompt).await;
    gate.abandoned().await;
    works(&agent, &session).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_half_sent_tool_call_is_never_run() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})).and_gate(&gate));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    cancelled(&agent, &session, &prompt).await;
    assert!(!agent.scratch.exists("made"));
    works(&agent, &session).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_command_dies_with_all_its_processes() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    // A child, a grandchild in the background, and one that does not listen to SIGTERM.
    let command = "(trap '' TERM; sleep 600) & bash -c 'sleep 600 & sleep 600' & touch started; wait";
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": command})));
    let prompt = agent.send_prompt(&session, "go");
    agent.scratch.appears("started").await;
    agent.has_descendants(3).await;
    let turn = cancelled(&agent, &session, &prompt).await;
    assert_eq!(turn.tool("call_1")["status"], "failed");
    agent.childless(CANCEL_LIMIT).await;
    works(&agent, &session).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_pending_question_is_withdrawn() {
    let agent = Agent::asking("bash").await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    let turn = cancelled(&agent, &session, &prompt).await;
    agent.withdrawn(&ask).await;
    assert_eq!(turn.tool("call_1")["status"], "failed");
    works(&agent, &session).await;
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_queued_prompt_is_cancelled_with_the_one_before_it() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("busy").and_gate(&gate));
    let prompt_1 = agent.send_prompt(&session, "first");
    gate.reached().await;
    let prompt_2 = agent.send_prompt(&session, "second");
    cancelled(&agent, &session, &prompt_1).await;
    assert_eq!(prompt_2.turn().await.stop, "cancelled");
    works(&agent, &session).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_wait_for_a_retry_ends_at_once() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::status(429).header("retry-after", "600"));
    let prompt = agent.send_prompt(&session, "go");
    agent.llm.asked(1).await;
    cancelled(&agent, &session, &prompt).await;
    works(&agent, &session).await;
    agent.finish().await;
}

#[tokio::test]
async fn cancelling_the_request_cancels_the_turn() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("busy").and_gate(&gate));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    agent.notify("$/cancel_request", json!({"requestId": prompt.id}));
    assert_eq!(prompt.turn().await.stop, "cancelled");
    works(&agent, &session).await;
    agent.finish().await;
}

#[tokio::test]
async fn cancelling_a_queued_request_leaves_the_running_turn_alone() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("busy ").and_gate(&gate).and_text("done"));
    let prompt_1 = agent.send_prompt(&session, "first");
    gate.reached().await;
    let prompt_2 = agent.send_prompt(&session, "second");
    agent.notify("$/cancel_request", json!({"requestId": prompt_2.id}));
    assert_eq!(prompt_2.turn().await.stop, "cancelled");
    assert!(!prompt_1.is_answered());
    gate.open();
    let turn = prompt_1.turn().await;
    assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "busy done"));
    agent.finish().await;
}

#[tokio::test]
async fn a_session_whose_close_is_taken_back_is_closed_all_the_same() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let command = "trap 'touch asked' TERM; touch begun; while :; do sleep 1; done";
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": command})));
    let prompt = agent.send_prompt(&session, "go");
    agent.scratch.appears("begun").await;
    let close = agent.send_request("session/close", json!({"sessionId": session}));
    // The command does not end at once, and the close waits for it.
    agent.scratch.appears("asked").await;
    agent.notify("$/cancel_request", json!({"requestId": close.id}));
    close.answer().await.unwrap();
    assert_eq!(prompt.turn().await.stop, "cancelled");
    let refused = agent.send_prompt(&session, "again").answer().await.unwrap_err();
    assert!(refused.message.contains("not open"), "{refused:?}");
    agent.finish().await;
}

#[tokio::test]
async fn a_session_whose_making_is_taken_back_leaves_no_server_running() {
    let agent = Agent::start().await;
    let source = agent.new_session().await;
    agent.childless(CANCEL_LIMIT).await;
    // They are resolved once the server runs, which takes a while.
    let root = agent.scratch.root().join("links");
    std::fs::create_dir(&root).unwrap();
    (0..38).for_each(|n| std::os::unix::fs::symlink(format!("{}", n + 1), root.join(n.to_string())).unwrap());
    let directories = |n| (0..n).map(|n| format!("{}/0/{n}", root.display())).collect::<Vec<String>>();
    let server = json!({"name": "mute", "command": "sleep", "args": ["600"], "env": []});
    for method in ["session/new", "session/fork"] {
        let mut is_taken_back = false;
        for n_directories in [1000, 4000, 16_000] {
            let request = agent.send_request(
                method,
                json!({"cwd": agent.scratch.cwd(), "sessionId": (method == "session/fork").then_some(&source),
                    "mcpServers": [server], "additionalDirectories": directories(n_directories)}),
            );
            agent.has_descendants(1).await;
            agent.notify("$/cancel_request", json!({"requestId": request.id}));
            match request.answer().await {
                Ok(made) => {
                    agent.request("session/close", json!({"sessionId": made["sessionId"]})).await.unwrap();
                }
                Err(error) => {
                    assert_eq!(error.code, -32800, "{error:?}");
                    is_taken_back = true;
                }
            }
            agent.childless(CANCEL_LIMIT).await;
            if is_taken_back {
                break;
            }
        }
        assert!(is_taken_back, "{method} was made each time");
    }
    agent.finish().await;
}

#[tokio::test]
async fn cancelled_requests_that_are_no_prompts_get_one_answer_each() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("hello"));
    agent.prompt(&session, "go").await;
    let mut load = agent.session_params();
    load["sessionId"] = json!(session);
    let of_session = json!({"sessionId": session});
    let titled = json!({"sessionId": session, "title": "another"});
    // The later ones wait for the load, and are cancelled behind it or answered.
    let pending = [
        agent.send_request("session/list", json!({})),
        agent.send_request("session/new", agent.session_params()),
        agent.send_request("session/load", load),
        agent.send_request("session/set_title", titled),
        agent.send_request("session/status", of_session.clone()),
        agent.send_request("session/close", of_session),
        agent.send_request_with_id(json!("an id of text"), "session/list", json!({})),
        agent.send_request("_no/such", json!({})),
    ];
    for request in &pending {
        agent.notify("$/cancel_request", json!({"requestId": request.id}));
        agent.notify("$/cancel_request", json!({"requestId": request.id}));
    }
    for request in &pending {
        if let Err(error) = request.answer().await {
            assert!([-32800, -32601].contains(&error.code), "{}: {error:?}", request.id);
        }
    }
    agent.request("session/list", json!({})).await.unwrap();
    let answers = agent.lines().into_iter().filter(|it| it.from_agent && it.message.get("method").is_none());
    let mut ids: Vec<String> = answers.map(|it| it.message["id"].to_string()).collect();
    let n_answers = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), n_answers, "a request was answered twice");
    let reopened = agent.new_session().await;
    works(&agent, &reopened).await;
    agent.finish().await;
}

#[tokio::test]
async fn only_the_very_id_of_a_request_cancels_it() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("busy ").and_gate(&gate).and_text("done"));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    for id in
        [json!(prompt.id.to_string()), json!(-1), json!(1.5), json!(null), json!([prompt.id]), json!({})]
    {
        agent.notify("$/cancel_request", json!({"requestId": id}));
    }
    agent.notify("$/cancel_request", json!({"id": prompt.id}));
    agent.notify("$/cancel_request", json!([prompt.id]));
    agent.notify("$/cancel_request", json!(null));
    agent.raw("{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\"}\n");
    // Answered behind all of them.
    agent.request("session/list", json!({})).await.unwrap();
    assert!(!prompt.is_answered());
    gate.open();
    let turn = prompt.turn().await;
    assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "busy done"));
    // The cancel of an answered request does nothing.
    agent.notify("$/cancel_request", json!({"requestId": prompt.id}));
    works(&agent, &session).await;
    agent.finish().await;
}

#[tokio::test]
async fn an_idle_or_unknown_session_ignores_a_cancel() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.cancel(&session);
    agent.cancel("ses_unknown");
    agent.notify("session/cancel", json!({}));
    works(&agent, &session).await;
    assert!(agent.lines().iter().all(|line| line.message.get("error").is_none()));
    agent.finish().await;
}

#[tokio::test]
async fn a_cancel_touches_no_other_session() {
    let agent = Agent::start().await;
    let (first, second) = (agent.new_session().await, agent.new_session().await);
    let (gate_1, gate_2) = (Gate::new(), Gate::new());
    agent.llm.reply_to("alpha", Reply::text("a").and_gate(&gate_1));
    agent.llm.reply_to("beta", Reply::text("b").and_gate(&gate_2));
    let prompt_1 = agent.send_prompt(&first, "alpha");
    gate_1.reached().await;
    let prompt_2 = agent.send_prompt(&second, "beta");
    gate_2.reached().await;
    cancelled(&agent, &first, &prompt_1).await;
    assert!(!prompt_2.is_answered());
    gate_2.open();
    assert_eq!(prompt_2.turn().await.stop, "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn every_call_of_a_cancelled_turn_is_settled() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let wait = json!({"command": "sleep 600"});
    agent.llm.reply(Reply::call("call_1", "bash", wait.clone()).and_call("call_2", "bash", wait));
    let prompt = agent.send_prompt(&session, "go");
    agent.wait_running(&session, &["call_1", "call_2"]).await;
    let turn = cancelled(&agent, &session, &prompt).await;
    assert_eq!(turn.tool("call_1")["status"], "failed");
    assert_eq!(turn.tool("call_2")["status"], "failed");
    works(&agent, &session).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_hundred_cancels_wear_nothing_out() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    for _ in 0..100 {
        let gate = Gate::new();
        agent.llm.reply(Reply::text("x").and_gate(&gate));
        let prompt = agent.send_prompt(&session, "go");
        gate.reached().await;
        cancelled(&agent, &session, &prompt).await;
    }
    works(&agent, &session).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_that_waits_for_its_session_is_cancelled_at_once() {
    let agent = Agent::start().await;
    // The store is held by somebody else, so the session cannot open for a while.
    let other = agent.new_session().await;
    let database = agent.scratch.home.join(".local/share/windlass/windlass.db");
    let holder = rusqlite::Connection::open(database).unwrap();
    holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut params = agent.session_params();
    params["_meta"] = serde_json::json!({"windlass/sessionId": "ses_parked"});
    let opening = agent.send_request("session/new", params);
    let prompt = agent.send_prompt("ses_parked", "go");
    agent.cancel("ses_parked");
    assert_eq!(prompt.answer().await.unwrap()["stopReason"], "cancelled");
    assert!(!opening.is_answered());
    holder.execute_batch("ROLLBACK").unwrap();
    opening.answer().await.unwrap();
    works(&agent, &other).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_thousand_cancels_in_a_row_leave_nothing_behind() {
    if sees_no_descriptors() {
        return;
    }
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.answer_with(|request| match request.last_user().as_str() {
        "run" => Reply::call("call_1", "bash", json!({"command": "sleep 1000"})),
        _ => Reply::text("never read"),
    });
    let n_open = || std::fs::read_dir(format!("/proc/{}/fd", agent.pid())).unwrap().count();
    works(&agent, &session).await;
    let before = n_open();
    for _ in 0..100 {
        let prompts = (0..10).map(|place| {
            let prompt = agent.send_prompt(&session, if place == 0 { "run" } else { "talk" });
            agent.cancel(&session);
            prompt
        });
        for prompt in prompts.collect::<Vec<_>>() {
            let stop = prompt.answer().await.unwrap()["stopReason"].clone();
            // One that is over before the cancel comes has ended as usual.
            assert!(stop == "cancelled" || stop == "end_turn", "{stop}");
        }
    }
    works(&agent, &session).await;
    agent.childless(CANCEL_LIMIT).await;
    // Connections to the provider are kept for a while, a few of them.
    assert!(n_open() <= before + 8, "{} open files before, {} behind", before, n_open());
    agent.finish().await;
}
