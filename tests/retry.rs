//! Provider failures: those that are tried again, those that are not, and the messages that the user sees.

use std::{
    net::{SocketAddr, ToSocketAddrs, UdpSocket},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    cli::Machine,
    support::{
        agent::Agent,
        llm::{Gate, Reply, Wire},
        message::tag,
    },
};

/// Returns a quick retry, so that the tests do not wait for the backoff.
fn soon(status: u16) -> Reply {
    Reply::status(status).header("retry-after-ms", "10")
}

/// Returns names and addresses that lead to this machine.
fn hosts_of_this_machine() -> Vec<String> {
    let mut hosts = ["127.0.0.1", "0.0.0.0", "localhost"].map(str::to_owned).to_vec();
    let name = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let is_own = |address: SocketAddr| UdpSocket::bind((address.ip(), 0)).is_ok();
    // A machine need not know its own name.
    if (name.as_str(), 0).to_socket_addrs().is_ok_and(|mut found| found.all(is_own)) {
        hosts.push(name);
    }
    hosts
}

#[tokio::test]
async fn a_server_on_this_machine_that_is_off_is_tried_once_more_and_told() {
    let told = "nothing listens there (Connection refused); is the server running?";
    for host in hosts_of_this_machine() {
        let mut machine = Machine::new().await;
        let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        machine.config["provider"]["mock"]["options"]["baseURL"] = json!(format!("http://{host}:{port}/v1"));
        let ended = machine.run(&["run", "go"]).await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let said = ended.said();
        let lines: Vec<&str> = said.lines().collect();
        assert!(
            lines[0].contains(told) && lines[0].contains("; again in ") && lines[0].ends_with(", 1 of 1"),
            "{host}: {said}"
        );
        assert!(lines[1].starts_with("Error: ") && lines[1].ends_with(told), "{host}: {said}");
        assert_eq!(lines.len(), 2, "{said}");
        machine.finish().await;
    }
}

#[tokio::test]
async fn a_run_in_json_tells_of_a_retry_on_standard_error() {
    let machine = Machine::new().await;
    machine.llm.reply(soon(529));
    machine.llm.reply(Reply::text("at last"));
    let ended = machine.run(&["run", "--format", "json", "go"]).await;
    assert_eq!((ended.code, ended.of_type("text").len()), (Some(0), 1), "{ended:?}");
    assert!(ended.stderr.contains("; again in ") && ended.stderr.contains(", 1 of 5"), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_rate_limit_is_waited_out_as_long_as_it_says() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::status(429).header("retry-after", "1"));
    agent.llm.reply(Reply::text("at last"));
    let start = Instant::now();
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.text(), "at last");
    assert!(start.elapsed() >= Duration::from_secs(1), "the provider asked for a second");
    agent.finish().await;
}

#[tokio::test]
async fn overload_and_server_errors_are_tried_again() {
    for wire in [Wire::OpenAi, Wire::Responses, Wire::Anthropic, Wire::Google] {
        let agent = Agent::builder().wire(wire).start().await;
        let session = agent.new_session().await;
        agent.llm.reply(soon(529));
        agent.llm.reply(soon(500));
        agent.llm.reply(soon(503));
        agent.llm.reply(Reply::text("at last"));
        assert_eq!(agent.prompt(&session, "go").await.text(), "at last");
        assert_eq!(agent.llm.requests().len(), 4);
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_client_that_shows_notices_is_told_of_a_retry() {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"session": {"notices": {}}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(soon(529));
    agent.llm.reply(Reply::text("at last"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.text(), "at last");
    let titles: Vec<_> = turn.all("notice").iter().map(|notice| notice["title"].clone()).collect();
    assert_eq!(titles, ["The provider did not answer; trying again (attempt 2)."]);
    agent.finish().await;
}

#[tokio::test]
async fn a_client_without_notices_is_told_of_a_retry_by_a_thought() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(soon(529));
    agent.llm.reply(Reply::text("at last"));
    let turn = agent.prompt(&session, "go").await;
    let thoughts = turn.all("agent_thought_chunk");
    let text = thoughts[0]["content"]["text"].as_str().unwrap();
    let (first, reason) = text.split_once('\n').unwrap();
    assert_eq!(first, "The provider did not answer; trying again (attempt 2).");
    assert!(reason.contains("Mock"), "{reason}");
    assert_eq!((thoughts.len(), turn.text().as_str()), (1, "at last"));
    // It is no part of the conversation.
    assert!(agent.load(&session).await.iter().all(|update| tag(update) != "agent_thought_chunk"));
    agent.finish().await;
}

#[tokio::test]
async fn a_provider_that_stays_silent_is_asked_once_more_and_given_up() {
    let config = json!({"provider": {"mock": {"options": {"headerTimeout": 100}}}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    let gates = [Gate::new(), Gate::new()];
    gates.iter().for_each(|gate| agent.llm.reply(Reply::hang(gate)));
    let error = agent.send_prompt(&session, "go").answer().await.unwrap_err();
    assert!(error.message.contains("no answer within 100 ms"), "{error:?}");
    assert_eq!(agent.llm.requests().len(), 2);
    agent.llm.reply(Reply::text("back"));
    assert_eq!(agent.prompt(&session, "again").await.text(), "back");
    agent.finish().await;
}

#[tokio::test]
async fn a_connection_cut_before_any_output_is_tried_again() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::cut());
    agent.llm.reply(Reply::text("at last"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "at last");
    agent.finish().await;
}

#[tokio::test]
async fn a_stream_cut_before_any_output_is_tried_again() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::deltas(Vec::<String>::new()).and_cut());
    agent.llm.reply(Reply::text("at last"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "at last");
    agent.finish().await;
}

#[tokio::test]
async fn a_stream_cut_after_output_is_an_error_and_nothing_is_said_twice() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::deltas(["half ", "said"]).and_cut());
    let prompt = agent.send_prompt(&session, "go");
    let error = prompt.answer().await.unwrap_err();
    assert_eq!(error.code, -32603, "{error:?}");
    let said = crate::support::message::text(&prompt.updates().await, "agent_message_chunk");
    assert_eq!(said, "half said");
    agent.llm.reply(Reply::text("whole"));
    assert_eq!(agent.prompt(&session, "again").await.text(), "whole");
    agent.finish().await;
}

#[tokio::test]
async fn a_stream_cut_behind_a_thought_or_a_call_is_tried_again_and_what_it_left_is_not_sent() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let broken = Reply::reasoning("half a thought").and_call("c1", "bash", json!({"command": "touch ran"}));
    agent.llm.reply(broken.and_cut());
    agent.llm.reply(Reply::call("c2", "bash", json!({"command": "echo second"})));
    agent.llm.reply(Reply::text("at last"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.text(), "at last");
    let ended: Vec<_> = turn.all("tool_call_update").iter().map(|it| it["status"].clone()).collect();
    assert!(ended.contains(&json!("failed")), "{ended:?}");
    assert!(!agent.scratch.work.join("ran").exists(), "the call of the broken answer was run");
    let sent = agent.llm.last_request().body.to_string();
    assert!(sent.contains("echo second"), "{sent}");
    assert!(!sent.contains("half a thought") && !sent.contains("touch ran"), "{sent}");
    agent.finish().await;
}

#[tokio::test]
async fn a_failure_that_stays_ends_the_turn_with_its_reason() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    for _ in 0..6 {
        agent.llm.reply(soon(503).body(json!({"error": {"message": "gone fishing"}})));
    }
    let error = agent.send_prompt(&session, "go").answer().await.unwrap_err();
    assert!(error.message.contains("gone fishing"), "{error:?}");
    assert_eq!(agent.llm.requests().len(), 6, "five retries and no more");
    agent.finish().await;
}

#[tokio::test]
async fn a_mistake_of_ours_is_not_tried_again() {
    for status in [400, 403, 404, 422] {
        let agent = Agent::start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::status(status));
        agent.send_prompt(&session, "go").answer().await.unwrap_err();
        assert_eq!(agent.llm.requests().len(), 1, "{status}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_provider_nobody_listens_at_is_named() {
    let config = json!({"provider": {"mock": {"options": {"baseURL": "http://127.0.0.1:9/v1"}}}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    let prompt = agent.send_prompt(&session, "go");
    agent.cancel(&session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    agent.finish().await;
}
