//! Prompts of MCP servers as slash commands.

use serde_json::{Value, json};

use crate::{
    mcp::{named, session_with},
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
    assert!(
        agent.prompt(&session, "/help").await.text().contains("`/shop:greet_me who [style]` (MCP server)")
    );
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_of_the_clients_own_server_can_be_called_at_once_and_is_listed() {
    let agent = Agent::start().await;
    let session = session_with(&agent, json!([named("shop", "prompts"), named("lamp", "crash")])).await;
    agent.llm.reply(Reply::text("Hello."));
    assert_eq!(agent.prompt(&session, "/shop:greet_me Ann").await.text(), "Hello.");
    assert!(agent.llm.last_request().body.to_string().contains("Greet Ann in a usual way."));
    let is_listed = |update: &Value| update["availableCommands"].to_string().contains("shop:plain");
    agent.has_update(&session, "the prompt among the commands", is_listed).await;
    // Words that no argument takes are not lost.
    agent.llm.reply(Reply::text("Yes."));
    agent.prompt(&session, "/shop:plain and say it loud").await;
    assert!(agent.llm.last_request().body.to_string().contains("and say it loud"));
    let turn = agent.prompt(&session, "/lamp:on").await;
    assert!(turn.text().contains("MCP server lamp"), "{}", turn.text());
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

#[tokio::test]
async fn a_prompt_that_a_server_learns_is_told_to_the_client() {
    let agent = Agent::start().await;
    let session = session_with(&agent, json!([named("shop", "prompts")])).await;
    agent.told(&session, "shop_learn", json!({})).await;
    let is_listed = |update: &Value| {
        let commands = update["availableCommands"].as_array().into_iter().flatten();
        commands.into_iter().any(|it| it["name"] == "shop:learnt" && it["description"] == "A new one.")
    };
    agent.has_update(&session, "the list with the new prompt", is_listed).await;
    agent.finish().await;
}

#[tokio::test]
async fn pictures_links_and_sides_of_a_prompt_are_kept_and_a_malformed_message_costs_no_other() {
    let agent = Agent::start_with(config()).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("A picture."));
    assert_eq!(agent.prompt(&session, "/shop:rich").await.text(), "A picture.");
    let messages = agent.llm.last_request().messages();
    let sent = messages.last().unwrap()["content"].to_string();
    for wanted in
        ["User: Look at this.", "Assistant: I see it.", "User: [resource guide: docs://guide]", "image_url"]
    {
        assert!(sent.contains(wanted), "{wanted}: {sent}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_command_of_a_file_and_a_prompt_of_one_name_are_both_there() {
    let mut config = config();
    config["command"] = json!({"shop:plain": {"template": "The file's words."}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    let is_listed = |update: &Value| update["availableCommands"].to_string().contains("\"mcp:shop:plain\"");
    agent.has_update(&session, "the prompt among the commands", is_listed).await;
    for (name, words) in [("shop:plain", "The file's words."), ("mcp:shop:plain", "in a usual way")] {
        agent.llm.reply(Reply::text("Yes."));
        agent.prompt(&session, &format!("/{name}")).await;
        let sent = agent.llm.last_request().last_user();
        assert!(sent.contains(words), "{name}: {sent}");
    }
    agent.finish().await;
}
