//! MCP servers: from the client and from configuration, healthy, hanging and broken.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    mcp_http::check_long_result,
    support::{
        agent::{Agent, Answer, DEADLINE},
        llm::Reply,
        message::content_text,
    },
};

/// Returns a server from `tests/mcp/server.py`, which is written against the protocol's text, without a
/// library.
fn server(mode: &str) -> Value {
    named("shop", mode)
}

/// Returns the same under another name.
pub fn named(name: &str, mode: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
    json!({"name": name, "command": "python3", "args": [script, mode], "env": [{"name": "SHOP", "value": "open"}]})
}

pub async fn session_with(agent: &Agent, servers: Value) -> String {
    let params = json!({"cwd": agent.scratch.cwd(), "mcpServers": servers});
    let answer = agent.request("session/new", params).await.unwrap();
    answer["sessionId"].as_str().unwrap().to_owned()
}

/// Prompts until the server's tool is offered: servers start in the background, and nothing announces them.
pub async fn until_offered(agent: &Agent, session: &str, tool: &str) {
    let offered = async {
        loop {
            agent.llm.reply_to("ready?", Reply::text("ok"));
            agent.prompt(session, "ready?").await;
            if agent.llm.last_request().tools().contains(&tool.to_owned()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(DEADLINE, offered).await;
    assert!(waited.is_ok(), "`{tool}` is never offered; stderr:\n{}", agent.stderr());
}

#[tokio::test]
async fn a_servers_tool_is_offered_asked_for_and_run() {
    let config = json!({"permission": {"shop_*": "ask"}});
    let agent = Agent::start_with(config).await;
    let session = session_with(&agent, json!([server("good")])).await;
    until_offered(&agent, &session, "shop_price").await;
    agent.llm.reply(Reply::call("call_1", "shop_price", json!({"item": "tea"})));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert!(ask.call().to_string().contains("shop_price"), "{}", ask.params);
    assert_eq!(ask.call()["rawInput"]["item"], "tea");
    agent.answer(&ask, Answer::AllowOnce);
    let turn = prompt.turn().await;
    assert_eq!(agent.llm.last_request().tool_result("call_1"), "tea costs 3, shop is open");
    assert_eq!(content_text(&turn.tool("call_1")), "tea costs 3, shop is open");
    agent.finish().await;
}

#[tokio::test]
async fn a_denied_server_tool_is_not_offered() {
    let config = json!({"permission": {"shop_price": "deny"}});
    let agent = Agent::start_with(config).await;
    let session = session_with(&agent, json!([server("good")])).await;
    until_offered(&agent, &session, "shop_fail").await;
    assert!(!agent.llm.last_request().tools().contains(&"shop_price".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn the_system_prompt_has_the_instructions_of_servers_whose_tools_may_be_used() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
    let server = |words: &str| json!({"type": "local", "command": ["python3", script, "good"], "environment": {"INSTRUCTIONS": words}});
    let long = "Words without end. ".repeat(2000);
    let servers =
        json!({"shop": server("Ask for prices first."), "lamp": server("Denied."), "talk": server(&long)});
    let agent = Agent::start_with(json!({"mcp": servers, "permission": {"lamp_*": "deny"}})).await;
    let session = agent.new_session().await;
    for tool in ["shop_price", "talk_price"] {
        until_offered(&agent, &session, tool).await;
    }
    let system = agent.llm.last_request().system();
    let (_, told) = system.split_once("<mcp_instructions>\n").unwrap();
    let (told, _) = told.split_once("</mcp_instructions>").unwrap();
    let own =
        "<server name=\"shop\">\nAsk for prices first.\n</server>\n<server name=\"talk\">\nWords without";
    assert!(told.starts_with(own) && told.ends_with("...\n</server>\n"), "{told}");
    assert!(told.len() < 9000 && !system.contains("Denied."), "{} bytes", told.len());
    agent.finish().await;
}

#[tokio::test]
async fn an_error_of_a_tool_is_told_to_the_model() {
    let agent = Agent::start().await;
    let session = session_with(&agent, json!([server("good")])).await;
    until_offered(&agent, &session, "shop_fail").await;
    agent.llm.reply(Reply::call("call_1", "shop_fail", json!({})));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.tool("call_1")["status"], "failed");
    assert!(agent.llm.last_request().tool_result("call_1").contains("out of stock"));
    agent.finish().await;
}

#[tokio::test]
async fn a_hanging_server_holds_up_nothing() {
    let agent = Agent::start().await;
    let session = session_with(&agent, json!([server("hang")])).await;
    agent.llm.reply(Reply::text("first word"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "first word");
    let status = agent.prompt(&session, "/status").await.text();
    assert!(status.contains("shop is connecting"), "{status}");
    agent.finish().await;
}

#[tokio::test]
async fn a_broken_server_holds_up_nothing_and_is_named() {
    let agent = Agent::start().await;
    let missing = json!({"name": "ghost", "command": "/no/such/program", "args": [], "env": []});
    let session = session_with(&agent, json!([server("crash"), missing])).await;
    agent.llm.reply(Reply::text("first word"));
    agent.prompt(&session, "go").await;
    agent.wait_stderr("ghost").await;
    agent.finish().await;
}

#[tokio::test]
async fn a_hanging_tool_can_be_cancelled() {
    let agent = Agent::start().await;
    let session = session_with(&agent, json!([server("good")])).await;
    until_offered(&agent, &session, "shop_wait").await;
    agent.llm.reply(Reply::call("call_1", "shop_wait", json!({})));
    let prompt = agent.send_prompt(&session, "go");
    agent.wait_for("the tool to run", |message| message["params"]["update"]["status"] == "in_progress").await;
    agent.cancel(&session);
    let turn = prompt.turn().await;
    assert_eq!((turn.stop.as_str(), &turn.tool("call_1")["status"]), ("cancelled", &json!("failed")));
    agent.finish().await;
}

#[tokio::test]
async fn a_session_that_is_closed_archived_or_deleted_takes_its_servers_with_it() {
    for method in ["session/close", "session/archive", "session/delete"] {
        let agent = Agent::start().await;
        let session = session_with(&agent, json!([server("good")])).await;
        until_offered(&agent, &session, "shop_price").await;
        assert!(!agent.descendants().is_empty());
        agent.request(method, json!({"sessionId": session})).await.unwrap();
        agent.childless(DEADLINE).await;
        agent.finish().await;
    }
}

#[tokio::test]
async fn servers_of_a_client_that_is_gone_end_with_it_whatever_they_do() {
    for mode in ["good", "hang"] {
        let mut agent = Agent::start().await;
        let session = session_with(&agent, json!([server(mode)])).await;
        if mode == "good" {
            until_offered(&agent, &session, "shop_price").await;
        }
        agent.close_stdin();
        agent.close_stdout().await;
        agent.wait_exit().await;
        agent.allow_cut_output();
        // It fails on every process that is left.
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_servers_tools_belong_to_the_session_that_brought_them() {
    let agent = Agent::start().await;
    let with = session_with(&agent, json!([server("good")])).await;
    let without = agent.new_session().await;
    until_offered(&agent, &with, "shop_price").await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&without, "go").await;
    assert!(!agent.llm.last_request().tools().contains(&"shop_price".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn a_server_from_configuration_serves_every_session() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
    let shop =
        json!({"type": "local", "command": ["python3", script, "good"], "environment": {"SHOP": "closed"}});
    let off = json!({"type": "local", "command": ["/no/such/program"], "enabled": false});
    let agent = Agent::start_with(json!({"mcp": {"shop": shop, "off": off}})).await;
    let session = agent.new_session().await;
    until_offered(&agent, &session, "shop_price").await;
    agent.llm.reply(Reply::call("call_1", "shop_price", json!({"item": "tea"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.llm.last_request().tool_result("call_1"), "tea costs 3, shop is closed");
    agent.finish().await;
}

#[tokio::test]
async fn the_first_prompt_has_the_tools_of_a_server_that_is_still_starting() {
    let agent = Agent::start_with(json!({"windlass": {"mcp": {"start_wait": 60_000}}})).await;
    let session = session_with(&agent, json!([server("slow")])).await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert!(agent.llm.last_request().tools().contains(&"shop_price".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn a_hanging_server_is_waited_for_once_and_no_longer_than_the_setting_says() {
    let config = json!({"windlass": {"mcp": {"start_wait": 300}}});
    let agent = Agent::start_with(config).await;
    let session = session_with(&agent, json!([server("hang"), named("lamp", "hang")])).await;
    let began = Instant::now();
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert!(agent.stderr().contains("a prompt goes on without the MCP server"), "{}", agent.stderr());
    let before = agent.stderr().matches("goes on without").count();
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "again").await;
    assert_eq!(agent.stderr().matches("goes on without").count(), before);
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_from_a_pipe_that_has_ended_waits_until_each_server_is_there() {
    let config = json!({"windlass": {"mcp": {"start_wait": 0}}, "mcp": {
        "stuck": {"type": "local", "command": ["sleep", "1000"], "timeout": 700},
    }});
    let mut agent = Agent::start_with(config).await;
    let session = session_with(&agent, json!([server("slow")])).await;
    agent.llm.reply(Reply::text("ok"));
    let prompt = agent.send_prompt(&session, "go");
    agent.close_stdin();
    assert_eq!(prompt.turn().await.text(), "ok");
    assert!(agent.llm.last_request().tools().contains(&"shop_price".to_owned()));
    assert!(agent.wait_exit().await.success());
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_died_is_started_again() {
    let agent = Agent::start().await;
    let session = session_with(&agent, json!([server("odd")])).await;
    for call in ["die_1", "die_2"] {
        agent.llm.reply(Reply::call(call, "shop_die", json!({})));
        agent.llm.reply(Reply::text("done"));
        let turn = agent.prompt(&session, "go").await;
        assert_eq!(turn.tool(call)["status"], "failed");
        until_offered(&agent, &session, "shop_price").await;
    }
    agent.llm.reply(Reply::call("call_1", "shop_price", json!({"item": "tea"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.llm.last_request().tool_result("call_1"), "tea costs 3, shop is open");
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_hangs_when_it_is_started_again_is_waited_for_once() {
    let agent = Agent::start_with(json!({"windlass": {"mcp": {"start_wait": 200}}})).await;
    let session = session_with(&agent, json!([server("once")])).await;
    until_offered(&agent, &session, "shop_die").await;
    agent.llm.reply(Reply::call("call_1", "shop_die", json!({})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    let before = agent.stderr().matches("goes on without").count();
    for _ in 0..3 {
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "again").await;
        assert!(!agent.llm.last_request().tools().contains(&"shop_price".to_owned()));
    }
    assert_eq!(agent.stderr().matches("goes on without").count(), before + 1, "{}", agent.stderr());
    agent.finish().await;
}

#[tokio::test]
async fn strange_ids_and_floods_of_notices_spoil_nothing() {
    let agent = Agent::start().await;
    let session = session_with(&agent, json!([server("odd")])).await;
    for call in ["call_1", "call_2", "call_3"] {
        agent.llm.reply(Reply::call(call, "shop_price", json!({"item": "tea"})));
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        assert_eq!(agent.llm.last_request().tool_result(call), "tea costs 3, shop is open");
        assert!(agent.llm.last_request().tools().contains(&"shop_price".to_owned()));
    }
    agent.llm.reply(Reply::call("wrong", "shop_wrong", json!({})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.llm.last_request().tool_result("wrong"), r#"{"content":7}"#);
    agent.finish().await;
}

#[tokio::test]
async fn a_result_of_20_mb_is_saved_and_the_server_goes_on() {
    // A busy machine may need longer than the usual limit.
    let agent = Agent::start_with(json!({"experimental": {"mcp_timeout": 600_000}})).await;
    let session = session_with(&agent, json!([server("odd")])).await;
    check_long_result(&agent, &session, "shop").await;
    agent.llm.reply(Reply::call("call_1", "shop_price", json!({"item": "tea"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.llm.last_request().tool_result("call_1"), "tea costs 3, shop is open");
    agent.finish().await;
}

#[tokio::test]
async fn the_progress_of_a_call_is_shown() {
    let agent = Agent::start().await;
    let session = session_with(&agent, json!([server("odd")])).await;
    agent.llm.reply(Reply::call("call_1", "shop_steps", json!({})));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let title = |message: &Value| message["params"]["update"]["title"].to_string();
    agent.wait_for("a sign of progress", |message| title(message).contains("shop steps: 1/3 wrapping")).await;
    assert_eq!(prompt.turn().await.tool("call_1")["title"], "shop steps");
    agent.finish().await;
}
