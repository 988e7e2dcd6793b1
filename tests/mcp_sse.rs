//! Remote MCP servers of the older transport: a stream of events, and a POST for each message.

use std::{path::Path, process::Stdio};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    mcp::{session_with, until_offered},
    mcp_http::{call, check_long_result},
    support::{agent::Agent, llm::Reply},
};

/// Starts `tests/mcp/sse_server.py`; returns its address.
async fn server(arguments: &[&str]) -> (Child, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/sse_server.py");
    let mut command = Command::new("python3");
    command.arg(script).args(arguments).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = lines.next_line().await.unwrap().unwrap();
    (child, format!("http://127.0.0.1:{port}/sse"))
}

#[tokio::test]
async fn a_server_of_the_older_kind_is_used_like_any_other() {
    let (_server, url) = server(&["secret"]).await;
    // A busy machine may need longer than the usual limit for a long result.
    let agent = Agent::start_with(json!({"experimental": {"mcp_timeout": 600_000}})).await;
    let headers = json!([{"name": "Authorization", "value": "Bearer secret"}]);
    let session =
        session_with(&agent, json!([{"type": "http", "name": "old", "url": url, "headers": headers}])).await;
    until_offered(&agent, &session, "old_price").await;
    agent.llm.reply(Reply::call("call_1", "old_price", json!({"item": "tea"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.llm.last_request().tool_result("call_1"), "tea costs 4");
    check_long_result(&agent, &session, "old").await;
    for tool in ["old_refused", "old_excused"] {
        assert_eq!(call(&agent, &session, tool).await, "there is no tea", "{tool}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn one_that_wants_a_login_says_so_and_one_that_ends_is_named() {
    let (mut server, url) = server(&["secret"]).await;
    let remote = json!({"type": "remote", "url": url});
    let agent = Agent::start_with(json!({"mcp": {"old": remote}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let told = agent.prompt(&session, "/old:x").await.text();
    assert!(told.contains("MCP server old needs a login"), "{told}");
    server.kill().await.unwrap();
    agent.finish().await;
}
