//! Remote MCP servers over streamable HTTP: results of any length, sessions that end, servers that come up later.

use std::{path::Path, process::Stdio};

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    cli::Machine,
    mcp::{session_with, until_offered},
    support::{
        agent::Agent,
        llm::Reply,
        web::{Page, Web},
    },
};

/// Starts `tests/mcp/http_server.py` on this port, or a free one for 0; returns its address.
async fn server(port: u16, form: &str) -> (Child, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/http_server.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(port.to_string()).arg(form).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = lines.next_line().await.unwrap().unwrap();
    (child, format!("http://127.0.0.1:{port}/mcp"))
}

async fn opened(url: &str) -> (Agent, String) {
    // A busy machine may need longer than the usual limit for a long result.
    let agent = Agent::start_with(json!({"experimental": {"mcp_timeout": 600_000}})).await;
    let servers = json!([{"type": "http", "name": "far", "url": url, "headers": []}]);
    let session = session_with(&agent, servers).await;
    until_offered(&agent, &session, "far_price").await;
    (agent, session)
}

/// Has the model call a tool, and returns its result.
pub async fn call(agent: &Agent, session: &str, tool: &str) -> String {
    let call_id = format!("call_{}", agent.llm.requests().len());
    agent.llm.reply(Reply::call(&call_id, tool, json!({})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(session, "go").await;
    agent.llm.last_request().tool_result(&call_id)
}

/// Calls the tool with a long result, which is saved.
pub async fn check_long_result(agent: &Agent, session: &str, server: &str) {
    let result = call(agent, session, &format!("{server}_long")).await;
    assert!(result.starts_with("first line\nxxx") && result.len() < 3000, "{} bytes", result.len());
    let path = result.lines().find_map(|line| Some(line.split_once("Its text is saved to: ")?.1)).unwrap();
    assert_eq!(std::fs::metadata(path).unwrap().len(), 20_000_000 + "first line\n".len() as u64);
}

#[tokio::test]
async fn a_result_of_20_mb_over_http_is_saved_and_the_server_goes_on() {
    for form in ["json", "sse"] {
        let (_server, url) = server(0, form).await;
        let (agent, session) = opened(&url).await;
        check_long_result(&agent, &session, "far").await;
        assert_eq!(call(&agent, &session, "far_price").await, "tea costs 5");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_session_that_the_server_has_ended_is_begun_again() {
    let (_server, url) = server(0, "json").await;
    let (agent, session) = opened(&url).await;
    assert_eq!(call(&agent, &session, "far_forget").await, "forgotten");
    assert_eq!(call(&agent, &session, "far_price").await, "tea costs 5");
    agent.finish().await;
}

#[tokio::test]
async fn a_session_that_is_refused_by_400_is_begun_again() {
    let (_server, url) = server(0, "json").await;
    let (agent, session) = opened(&url).await;
    assert_eq!(call(&agent, &session, "far_forget_400").await, "forgotten");
    assert_eq!(call(&agent, &session, "far_price").await, "tea costs 5");
    agent.finish().await;
}

#[tokio::test]
async fn a_call_that_is_answered_by_something_else_fails_at_once_with_the_servers_words() {
    let (_server, url) = server(0, "json").await;
    let (agent, session) = opened(&url).await;
    let could_not = |tool: &str, why: &str| format!("MCP server far could not run {tool}: it answered {why}");
    for (tool, expected) in [
        ("status_400", "there is no tea".to_owned()),
        ("status_500", "there is no tea".to_owned()),
        ("status_200", "there is no tea".to_owned()),
        ("no_type", "there is no tea".to_owned()),
        ("event", "there is no tea".to_owned()),
        ("cut_event", "there is no tea".to_owned()),
        ("no_event", "MCP server far closed the connection before no_event was done".to_owned()),
        ("words_500", could_not("words_500", "HTTP 500 Internal Server Error: the kettle broke")),
        ("page", could_not("page", "HTTP 200 OK: a page, Log in")),
        ("accepted", could_not("accepted", "HTTP 202 Accepted and nothing more")),
        ("nothing", could_not("nothing", "HTTP 200 OK and nothing more")),
    ] {
        assert_eq!(call(&agent, &session, &format!("far_{tool}")).await, expected, "{tool}");
    }
    assert_eq!(call(&agent, &session, "far_price").await, "tea costs 5");
    agent.finish().await;
}

#[tokio::test]
async fn a_tool_with_a_long_name_is_offered_by_a_short_one_and_called_by_its_own() {
    let (_server, url) = server(0, "json").await;
    let (agent, session) = opened(&url).await;
    let tools = agent.llm.last_request().tools();
    let name = tools.iter().find(|name| name.starts_with("far_price_price_")).unwrap().clone();
    assert_eq!(name.len(), 64);
    assert_eq!(call(&agent, &session, &name).await, "tea costs 5");
    agent.finish().await;
    // A rule names it by its own name.
    let own = format!("far_{}", "price_".repeat(12));
    let agent = Agent::start_with(json!({"permission": {own: "deny"}})).await;
    let servers = json!([{"type": "http", "name": "far", "url": url, "headers": []}]);
    let session = session_with(&agent, servers).await;
    until_offered(&agent, &session, "far_price").await;
    let tools = agent.llm.last_request().tools();
    assert!(!tools.contains(&name), "{tools:?}");
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_comes_up_later_is_found() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let agent = Agent::start().await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    let servers = json!([{"type": "http", "name": "far", "url": url, "headers": []}]);
    let session = session_with(&agent, servers).await;
    agent.wait_stderr("Connection refused").await;
    let (_server, _) = server(port, "json").await;
    until_offered(&agent, &session, "far_price").await;
    assert_eq!(call(&agent, &session, "far_price").await, "tea costs 5");
    agent.finish().await;
}

#[tokio::test]
async fn headers_follow_no_redirect_to_another_origin() {
    for status in [301, 302, 303, 307, 308] {
        let (near, far) = (Web::start().await, Web::start().await);
        let moved = |target: &str| Page::status(status).header("location", target);
        near.page("/mcp", moved("/other"));
        near.page("/other", moved(&far.url("/mcp?token=hunter22")));
        let headers = json!({"Authorization": "Bearer hunter22hunter22", "X-Api-Key": "hunter22hunter22"});
        let server = json!({"type": "remote", "url": near.url("/mcp"), "headers": headers});
        let machine = Machine::new().await.with("mcp", json!({"far": server}));
        let listed = machine.run(&["mcp", "list"]).await;
        let told = format!("it redirects to {}, which is not sent your headers and logins", far.url("/mcp"));
        assert!(listed.stdout.contains(&told) && !listed.stdout.contains("hunter22"), "{listed:?}");
        assert!(far.asked().is_empty(), "{status}: {:?}", far.asked());
        let within = near.asked().into_iter().find(|asked| asked.path() == "/other").unwrap();
        assert_eq!(within.headers["x-api-key"], "hunter22hunter22", "{status}");
        machine.finish().await;
    }
}

#[tokio::test]
async fn a_projects_address_gets_no_headers_of_the_user() {
    let far = Web::start().await;
    let server =
        json!({"type": "remote", "url": "https://tracker.example/mcp", "headers": {"X-Api-Key": "hunter22"}});
    let machine = Machine::new().await;
    machine
        .scratch
        .write("../home/.config/opencode/opencode.json", json!({"mcp": {"far": server}}).to_string());
    machine.scratch.write("opencode.json", json!({"mcp": {"far": {"url": far.url("/mcp")}}}).to_string());
    let listed = machine.run(&["mcp", "list"]).await;
    assert!(listed.stdout.contains("far: failed"), "{listed:?}");
    let asked = far.asked();
    assert!(!asked.is_empty() && asked.iter().all(|it| !it.headers.contains_key("x-api-key")), "{asked:?}");
    let checked = machine.run(&["config", "check"]).await;
    let told = format!("mcp.far.headers: is not sent to {}, the address in ", far.url(""));
    assert!(checked.stdout.contains(&told), "{checked:?}");
    machine.finish().await;
}
