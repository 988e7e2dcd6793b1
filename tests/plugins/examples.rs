//! The examples in `fixtures/plugins`: each does its work in a turn.

use serde_json::{Value, json};

use super::{example, runtimes};
use crate::{
    mcp::until_offered,
    support::{
        agent::{Agent, Answer},
        llm::Reply,
        message::mode_ids,
        scratch::Scratch,
        web::{Page, Web},
    },
};

const CODE: &str = "fn main() {}\n\n/// Opens the harbour gate.\nfn open_gate() {}\n";

fn page(value: Value) -> Page {
    Page::new("application/json", value.to_string())
}

#[tokio::test]
async fn agents_of_a_marketplace_are_modes_and_its_tools_install_more() {
    let web = Web::start().await;
    let agent = |id: &str, words: &str| {
        json!({
            "id": id, "name": id, "category": "review", "author": "ann", "description": words,
            "model": "mock/other", "systemPrompt": format!("You are the {id}."), "permissions": {"edit": "deny"},
        })
    };
    web.page("/user/installed", page(json!([agent("judge", "judges code")])));
    web.page("/agents", page(json!([agent("judge", "judges code"), agent("poet", "rhymes")])));
    web.page("/agents/poet/install", page(agent("poet", "rhymes")));
    let plugin = json!([[example("marketplace/plugin.ts"), {"url": web.url(""), "token": "secret"}]]);
    for mut config in runtimes() {
        config["plugin"] = plugin.clone();
        config["permission"] = json!({"marketplace": "ask"});
        let agent = Agent::builder().config(config).answering(Answer::AllowOnce).start().await;
        let (session, opened) = agent.open().await;
        assert!(mode_ids(&opened).contains(&"market-judge"), "{opened}");
        agent
            .request("session/set_mode", json!({"sessionId": session, "modeId": "market-judge"}))
            .await
            .unwrap();
        agent.llm.reply(Reply::call("call_1", "marketplace_browse", json!({"search": "rhyme"})));
        agent.llm.reply(Reply::call("call_2", "marketplace_install", json!({"id": "poet"})));
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "find a poet").await;
        let request = agent.llm.last_request();
        assert!(request.system().contains("You are the judge."), "{}", request.system());
        assert_eq!(request.body["model"], "other");
        assert!(!request.tools().contains(&"edit".to_owned()));
        let found: Value = serde_json::from_str(&request.tool_result("call_1")).unwrap();
        assert_eq!((&found["total"], &found["agents"][0]["id"]), (&json!(1), &json!("poet")));
        assert_eq!(request.tool_result("call_2"), "poet is installed as market-poet.");
        assert_eq!(agent.n_asked(), 1);
        agent.finish().await;
    }
}

#[tokio::test]
async fn an_index_of_the_code_is_built_and_asked_by_a_plugin() {
    for mut config in runtimes() {
        let scratch = Scratch::new();
        scratch.write("src/main.rs", CODE);
        config["plugin"] = json!([example("codebase-index/plugin.ts")]);
        let agent = Agent::builder().scratch(&scratch).config(config).start().await;
        let session = agent.new_session().await;
        let (turn, indexed) = agent.call(&session, "call_1", "index_codebase", json!({})).await;
        assert_eq!(indexed, "1 files and 6 words are indexed.");
        assert_eq!(turn.tool("call_1")["title"], "1 files");
        let found =
            agent.told(&session, "semantic_search", json!({"query": "the harbour", "limit": 1})).await;
        assert_eq!(found, "src/main.rs:3: /// Opens the harbour gate.");
        agent.finish().await;
    }
}

#[tokio::test]
async fn an_index_of_the_code_is_asked_by_mcp() {
    let scratch = Scratch::new();
    scratch.write("src/main.rs", CODE);
    let server = json!({"type": "local", "command": ["python3", example("codebase-mcp/server.py")]});
    let agent = Agent::builder().scratch(&scratch).config(json!({"mcp": {"codebase": server}})).start().await;
    let session = agent.new_session().await;
    until_offered(&agent, &session, "codebase_search").await;
    let found = agent.told(&session, "codebase_search", json!({"query": "harbour gate"})).await;
    assert_eq!(found, "src/main.rs:3: /// Opens the harbour gate.\nsrc/main.rs:4: fn open_gate() {}");
    agent.finish().await;
}

#[tokio::test]
async fn a_tool_that_a_plugin_registers_later_is_offered_from_the_next_step() {
    for mut config in runtimes() {
        config["plugin"] = json!([example("runtime-tool/plugin.ts")]);
        let agent = Agent::builder().config(config).start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call("call_1", "teach", json!({"name": "parrot", "text": "hello"})));
        agent.llm.reply(Reply::call("call_2", "parrot", json!({"times": 2})));
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "learn").await;
        let request = agent.llm.last_request();
        assert_eq!(request.tool_result("call_1"), "parrot can be called now.");
        assert!(request.tools().contains(&"parrot".to_owned()));
        assert_eq!(request.tool_result("call_2"), "hello hello");
        agent.finish().await;
    }
}
