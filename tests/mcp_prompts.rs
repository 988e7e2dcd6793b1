//! Prompts of MCP servers as slash commands.

use serde_json::{Value, json};

use crate::{
    mcp::named,
    support::{agent::Agent, llm::Reply, server::Server},
};

fn config() -> Value {
    let shop = named("shop", "prompts");
    let command = json!(["python3", shop["args"][0], shop["args"][1]]);
    json!({"mcp": {"shop": {"type": "local", "command": command, "environment": {"SHOP": "open"}}}})
}

#[tokio::test]
async fn a_prompt_is_a_command_whose_text_the_server_gives() {
    let agent = Agent::start_with(config()).await;
    let session = agent.new_session().await;
    let greets = |update: &Value| {
        let commands = update["availableCommands"].as_array().into_iter().flatten();
        commands.into_iter().any(|it| it["name"] == "shop:greet_me" && it["input"]["hint"] == "who [style]")
    };
    agent.has_update(&session, "the prompt among the commands", greets).await;
    agent.llm.reply(Reply::text("Hello."));
    let turn = agent.prompt(&session, "/shop:greet_me Ann very formal").await;
    assert_eq!(turn.text(), "Hello.");
    let sent = agent.llm.last_request().body.to_string();
    assert!(sent.contains("Greet Ann in a very formal way."), "{sent}");
    // Its words are not carried out.
    assert!(sent.contains("!`touch ran` and @README.md"), "{sent}");
    assert!(!agent.scratch.work.join("ran").exists());
    let turn = agent.prompt(&session, "/shop:greet_me").await;
    assert_eq!(
        turn.text(),
        "/shop:greet_me was not carried out, and the model was not asked. Type `who` behind it."
    );
    let turn = agent.prompt(&session, "/shop:greet_mee").await;
    assert!(turn.text().contains("did you mean `/shop:greet_me`?"), "{}", turn.text());
    agent.finish().await;
}

#[tokio::test]
async fn programs_find_prompts_among_the_commands_and_carry_them_out() {
    let server = Server::builder().config("mcp", config()["mcp"].clone()).start().await;
    assert_eq!(server.get("/mcp").await.ok()["shop"]["status"], "connected");
    let greet = async || {
        let commands = server.get("/command").await.ok();
        commands.as_array().unwrap().iter().find(|it| it["name"] == "shop:greet_me").cloned()
    };
    let mut found = greet().await;
    while found.is_none() {
        found = greet().await;
    }
    assert_eq!(found.unwrap()["source"], "mcp");
    let id = server.session().await;
    server.llm.reply(Reply::text("Hello."));
    let body = json!({"command": "shop:greet_me", "arguments": "Ann"});
    let answer = server.post(&format!("/session/{id}/command"), body).await.ok();
    assert_eq!(answer["parts"][1]["text"], "Hello.", "{answer}");
    assert!(server.llm.last_request().body.to_string().contains("Greet Ann in a usual way."));
    server.finish().await;
}
