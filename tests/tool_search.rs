//! Many tools of MCP servers stand behind a search, which loads them into the next step.

use serde_json::{Value, json};

use crate::{
    mcp::{named, session_with},
    support::{agent::Agent, llm::Reply},
};

/// Opens a session with ten servers of forty tools, once all of them are there.
async fn open(agent: &Agent) -> String {
    let servers = (0..10).map(|n| named(&format!("team{n}"), "many")).collect();
    let session = session_with(agent, servers).await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "ready?").await;
    session
}

/// Returns the bytes of the tools' definitions in the last request.
fn n_bytes(agent: &Agent) -> usize {
    agent.llm.last_request().body["tools"].to_string().len()
}

fn config(settings: Value) -> Value {
    json!({"windlass": {"tool_search": settings, "mcp": {"start_wait": 20_000}}})
}

#[tokio::test]
async fn the_model_finds_a_tool_and_calls_it_in_the_next_step() {
    let agent = Agent::start_with(config(json!({}))).await;
    let session = open(&agent).await;
    let first = agent.llm.last_request();
    let at_first = first.tools();
    assert!(
        at_first.contains(&"tool_search".to_owned()) && at_first.iter().all(|it| !it.starts_with("team"))
    );
    let catalogue = first.body["tools"].to_string();
    assert!(catalogue.contains("- team3 (40 tools)"), "{catalogue}");

    agent.llm.reply(Reply::call("call_1", "tool_search", json!({"query": "share holiday", "limit": 2})));
    agent.llm.reply(Reply::call("call_2", "team0_share_holiday", json!({"account": "Ada"})));
    agent.llm.reply(Reply::text("shared"));
    let turn = agent.prompt(&session, "share my holiday").await;
    assert_eq!(turn.text(), "shared");
    let requests = agent.llm.requests();
    let found = requests[requests.len() - 2].tool_result("call_1");
    assert!(
        found.contains("- team0_share_holiday: Share a holiday") && found.contains("team1_share_holiday"),
        "{found}"
    );
    // Behind the others, which stay as they were: the provider's cache holds.
    let loaded =
        [&at_first[..], &["team0_share_holiday".to_owned(), "team1_share_holiday".to_owned()]].concat();
    assert_eq!(agent.llm.last_request().tools(), loaded);
    assert_eq!(agent.llm.last_request().tool_result("call_2"), "share_holiday is done for Ada");

    // They stay for the rest of the conversation, also for another daemon; one that was never searched can be called.
    let next = agent.successor().config(config(json!({})));
    agent.finish().await;
    let agent = next.start().await;
    let servers = (0..10).map(|n| named(&format!("team{n}"), "many")).collect::<Value>();
    let params = json!({"sessionId": session, "cwd": agent.scratch.cwd(), "mcpServers": servers});
    agent.request("session/load", params).await.unwrap();
    agent.llm.reply(Reply::call("call_3", "team7_find_ticket", json!({"account": "Bob"})));
    agent.llm.reply(Reply::text("found"));
    agent.prompt(&session, "find it").await;
    assert_eq!(agent.llm.last_request().tool_result("call_3"), "find_ticket is done for Bob");
    let more = [&loaded[..], &["team7_find_ticket".to_owned()]].concat();
    assert_eq!(agent.llm.last_request().tools(), more);
    agent.finish().await;
}

#[tokio::test]
async fn the_search_takes_a_small_part_of_the_tokens_and_a_setting_decides() {
    let mut sizes = Vec::new();
    for settings in [json!({"above": 10_000_000}), json!({}), json!({"direct": ["team4"]})] {
        let agent = Agent::start_with(config(settings)).await;
        open(&agent).await;
        let tools = agent.llm.last_request().tools();
        let n_direct = tools.iter().filter(|it| it.starts_with("team")).count();
        sizes.push((n_direct, n_bytes(&agent)));
        agent.finish().await;
    }
    let [(400, all), (0, behind), (40, one_direct)] = sizes[..] else { panic!("{sizes:?}") };
    assert!(behind * 5 < all && behind < one_direct && one_direct * 3 < all, "{sizes:?}");
}

#[tokio::test]
async fn what_the_rules_hide_is_not_found_and_what_they_ask_for_is_asked() {
    let mut config = config(json!({}));
    config["permission"] = json!({"*_create_*": "ask", "team0_*": "deny"});
    let agent = Agent::start_with(config).await;
    let session = open(&agent).await;
    let search = json!({"query": "create invoice team0_create_invoice", "limit": 3});
    agent.llm.reply(Reply::call("call_1", "tool_search", search));
    agent.llm.reply(Reply::call("call_2", "team1_create_invoice", json!({"account": "Ada"})));
    agent.llm.reply(Reply::text("made"));
    let prompt = agent.send_prompt(&session, "an invoice");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["toolCallId"], "call_2");
    agent.choose(&ask, "Allow once");
    prompt.turn().await;
    let requests = agent.llm.requests();
    let found = requests[requests.len() - 2].tool_result("call_1");
    assert!(found.contains("team1_create_invoice") && !found.contains("team0_"), "{found}");
    agent.finish().await;
}

#[tokio::test]
async fn a_search_without_a_hit_or_without_its_words_says_so() {
    let agent = Agent::start_with(config(json!({}))).await;
    let session = open(&agent).await;
    agent.llm.reply(Reply::call("call_1", "tool_search", json!({"query": "weather"})).and_call(
        "call_2",
        "tool_search",
        json!({}),
    ));
    agent.llm.reply(Reply::text("no"));
    agent.prompt(&session, "the weather").await;
    let request = agent.llm.last_request();
    assert!(request.tool_result("call_1").contains("No tool fits \"weather\""));
    assert!(request.tool_result("call_2").contains("query"), "{}", request.tool_result("call_2"));
    agent.finish().await;
}
