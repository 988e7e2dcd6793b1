//! MCP servers that live in the client, by `mcp/message`.

use serde_json::{Value, json};

use crate::{
    mcp::session_with,
    support::{
        agent::{Agent, asks::Ask},
        llm::{Gate, Reply},
        message::content_text,
    },
};

/// The declaration of such a server.
fn shop() -> Value {
    json!({"type": "acp", "name": "shop", "serverId": "shop-1"})
}

/// Takes the next request to the server, which must be this one.
async fn next(agent: &Agent, method: &str) -> Ask {
    let ask = agent.permission().await;
    assert_eq!((ask.method.as_str(), &ask.params["method"]), ("mcp/message", &json!(method)), "{ask:?}");
    assert_eq!(ask.params["serverId"], "shop-1");
    let meta = &ask.params["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{ask:?}");
    ask
}

fn answer(agent: &Agent, ask: &Ask, result: Value) {
    agent.fill_in(ask, json!({ "result": result }));
}

/// Says something about a request before it is answered.
fn notify(agent: &Agent, ask: &Ask, method: &str, params: Value) {
    let (server, request) = (&ask.params["serverId"], &ask.params["requestId"]);
    let notice = json!({"serverId": server, "requestId": request, "method": method, "params": params});
    agent.notify("mcp/message", notice);
}

fn found(capabilities: Value) -> Value {
    json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
        "instructions": "Prices are in pence.", "ttlMs": 0, "cacheScope": "private",
    })
}

fn listed(tools: &[&str]) -> Value {
    let tool =
        |name: &&str| json!({"name": name, "description": "A tool.", "inputSchema": {"type": "object"}});
    let tools: Vec<Value> = tools.iter().map(tool).collect();
    json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"})
}

fn said(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}

/// Opens a session with the server, which has started with one tool.
async fn open(agent: &Agent) -> String {
    let session = session_with(agent, json!([shop()])).await;
    answer(agent, &next(agent, "server/discover").await, found(json!({"tools": {}})));
    answer(agent, &next(agent, "tools/list").await, listed(&["price"]));
    session
}

/// Opens a session with the same, which tells of changed lists; returns its subscription and the mark of that.
async fn open_listened(agent: &Agent) -> (String, Ask, Value) {
    let session = session_with(agent, json!([shop()])).await;
    answer(agent, &next(agent, "server/discover").await, found(json!({"tools": {"listChanged": true}})));
    answer(agent, &next(agent, "tools/list").await, listed(&["price"]));
    let listening = next(agent, "subscriptions/listen").await;
    let meta = json!({"io.modelcontextprotocol/subscriptionId": listening.params["requestId"]});
    let wanted = &listening.params["params"]["notifications"];
    assert_eq!(wanted, &json!({"toolsListChanged": true}));
    let accepted = json!({"_meta": meta, "notifications": wanted});
    notify(agent, &listening, "notifications/subscriptions/acknowledged", accepted);
    (session, listening, meta)
}

/// Has the model call the tool; returns the prompt and the request to the server.
async fn call(agent: &Agent, session: &str) -> (crate::support::agent::requests::Pending, Ask) {
    agent.llm.reply(Reply::call("call_1", "shop_price", json!({"item": "tea"})));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(session, "go");
    let ask = next(agent, "tools/call").await;
    (prompt, ask)
}

/// Returns the request that told the model of the call.
fn told(agent: &Agent) -> String {
    agent.llm.last_request().body.to_string()
}

#[tokio::test]
async fn its_tool_is_offered_and_called() {
    let agent = Agent::start().await;
    let session = open(&agent).await;
    let (prompt, ask) = call(&agent, &session).await;
    assert_eq!(
        (&ask.params["params"]["name"], &ask.params["params"]["arguments"]),
        (&json!("price"), &json!({"item": "tea"}))
    );
    answer(&agent, &ask, said("ninety"));
    let turn = prompt.turn().await;
    let last = turn.all("tool_call_update").last().map(|it| content_text(it)).unwrap();
    assert_eq!(last, "ninety");
    assert!(told(&agent).contains("ninety") && told(&agent).contains("Prices are in pence."));
    agent.finish().await;
}

#[tokio::test]
async fn its_progress_is_shown_while_it_works() {
    let agent = Agent::start().await;
    let session = open(&agent).await;
    let (prompt, ask) = call(&agent, &session).await;
    let token = &ask.params["params"]["_meta"]["progressToken"];
    let progress = json!({"progressToken": token, "progress": 1, "total": 4, "message": "weighing"});
    notify(&agent, &ask, "notifications/progress", progress);
    agent.has_update(&session, "the progress", |update| update.to_string().contains("weighing")).await;
    answer(&agent, &ask, said("ninety"));
    prompt.turn().await;
    agent.finish().await;
}

#[tokio::test]
async fn its_error_and_the_clients_are_told_apart_and_both_reach_the_model() {
    let agent = Agent::start().await;
    let session = open(&agent).await;
    let (prompt, ask) = call(&agent, &session).await;
    agent.fill_in(&ask, json!({"error": {"code": -32602, "message": "no such tea"}}));
    prompt.turn().await;
    assert!(told(&agent).contains("no such tea"), "{}", told(&agent));

    let (prompt, ask) = call(&agent, &session).await;
    agent.fail(&ask, -32603);
    prompt.turn().await;
    assert!(told(&agent).contains("scripted failure"), "{}", told(&agent));

    let (prompt, ask) = call(&agent, &session).await;
    agent.fill_in(&ask, json!({"neither": true}));
    prompt.turn().await;
    assert!(told(&agent).contains("its answer holds neither `result` nor `error`"), "{}", told(&agent));
    agent.finish().await;
}

#[tokio::test]
async fn a_cancelled_turn_takes_the_call_back() {
    let agent = Agent::start().await;
    let session = open(&agent).await;
    agent.llm.reply(Reply::call("call_1", "shop_price", json!({"item": "tea"})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = next(&agent, "tools/call").await;
    agent.cancel(&session);
    agent.withdrawn_by_code(&ask).await;
    assert_eq!(prompt.answer().await.unwrap()["stopReason"], "cancelled");
    agent.finish().await;
}

#[tokio::test]
async fn a_changed_list_is_read_again() {
    let agent = Agent::start().await;
    let (session, listening, meta) = open_listened(&agent).await;
    notify(&agent, &listening, "notifications/tools/list_changed", json!({"_meta": meta}));
    answer(&agent, &next(&agent, "tools/list").await, listed(&["price", "stock"]));
    crate::mcp::until_offered(&agent, &session, "shop_stock").await;

    // One that the server ends is begun again, and nobody told of changes in between.
    answer(&agent, &listening, json!({"resultType": "complete", "_meta": meta}));
    let listening = next(&agent, "subscriptions/listen").await;
    answer(&agent, &next(&agent, "tools/list").await, listed(&["stock"]));

    // It ends with its session.
    let closed = agent.send_request("session/close", json!({"sessionId": session}));
    agent.withdrawn_by_code(&listening).await;
    closed.answer().await.unwrap();
    agent.finish().await;
}

#[tokio::test]
async fn calls_end_at_once_when_the_client_is_gone() {
    let agent = Agent::start_with(json!({"experimental": {"mcp_timeout": 600_000}})).await;
    let session = open(&agent).await;
    let gate = Gate::new();
    agent.llm.reply(Reply::call("call_1", "shop_price", json!({"item": "tea"})).behind(&gate));
    agent.llm.reply(Reply::call("call_2", "shop_price", json!({"item": "salt"})));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    agent.close_stdin();
    gate.open();
    assert_eq!(prompt.turn().await.text(), "done");
    agent.finish().await;
}

#[tokio::test]
async fn floods_of_progress_cost_no_word_of_a_changed_list() {
    let agent = Agent::start().await;
    let (session, listening, meta) = open_listened(&agent).await;
    let (prompt, ask) = call(&agent, &session).await;
    let token = &ask.params["params"]["_meta"]["progressToken"];
    for n in 0..2000 {
        notify(&agent, &ask, "notifications/progress", json!({"progressToken": token, "progress": n}));
    }
    notify(&agent, &listening, "notifications/tools/list_changed", json!({"_meta": meta}));
    answer(&agent, &next(&agent, "tools/list").await, listed(&["stock"]));
    answer(&agent, &ask, said("ninety"));
    prompt.turn().await;
    assert!(told(&agent).contains("ninety"));
    let closed = agent.send_request("session/close", json!({"sessionId": session}));
    agent.withdrawn_by_code(&listening).await;
    closed.answer().await.unwrap();
    agent.finish().await;
}

#[tokio::test]
async fn one_that_speaks_no_version_of_ours_is_left_out_and_a_silent_one_holds_no_prompt_up() {
    let agent = Agent::start().await;
    let silent = json!({"type": "acp", "name": "silent", "serverId": "silent-1"});
    let session = session_with(&agent, json!([shop(), silent])).await;
    let mut asks = [agent.permission().await, agent.permission().await];
    asks.sort_by_key(|ask| ask.params["serverId"].to_string());
    let mut older = found(json!({"tools": {}}));
    older["supportedVersions"] = json!(["2025-11-25"]);
    answer(&agent, &asks[0], older);
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert!(!agent.llm.last_request().tools().iter().any(|tool| tool.starts_with("shop_")));
    agent
        .wait_stderr("MCP server shop cannot be used: it speaks only versions of MCP that windlass does not")
        .await;
    let closed = agent.send_request("session/close", json!({"sessionId": session}));
    agent.withdrawn_by_code(&asks[1]).await;
    closed.answer().await.unwrap();
    agent.finish().await;
}

#[tokio::test]
async fn what_is_said_of_no_request_or_is_no_message_changes_nothing() {
    let agent = Agent::start().await;
    let session = open(&agent).await;
    agent.notify(
        "mcp/message",
        json!({"serverId": "shop-1", "requestId": "none", "method": "notifications/progress"}),
    );
    agent.notify("mcp/message", json!({"serverId": 7}));
    agent.notify("mcp/message", json!(null));
    let (prompt, ask) = call(&agent, &session).await;
    notify(&agent, &ask, "notifications/nothing_known", json!({"x": 1}));
    notify(&agent, &ask, "notifications/progress", json!("garbage"));
    answer(&agent, &ask, said("ninety"));
    prompt.turn().await;
    assert!(told(&agent).contains("ninety"));
    agent.finish().await;
}

#[tokio::test]
async fn a_declaration_without_its_id_is_left_out_with_a_word() {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"session": {"notices": {}}})).await;
    let session = session_with(&agent, json!([{"type": "acp", "name": "shop"}])).await;
    agent.wait_stderr("mcpServers[0] is ignored: `serverId` is missing").await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.n_asked(), 0);
    agent.finish().await;
}
