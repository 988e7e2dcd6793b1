//! Instructions that a client gives a session (`systemPrompt`).

use serde_json::{Value, json};

use crate::support::{agent::Agent, llm::Reply};

/// Returns the texts of the system prompt of the last request.
fn system(agent: &Agent) -> String {
    let body = agent.llm.last_request().body;
    let messages = body["messages"].as_array().unwrap();
    messages.iter().filter(|it| it["role"] == "system").map(|it| it["content"].to_string()).collect()
}

fn params(agent: &Agent, mode: &str, text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    json!({
        "cwd": agent.scratch.cwd(), "mcpServers": [], "systemPrompt": {"mode": mode, "content": content},
    })
}

#[tokio::test]
async fn a_clients_instructions_are_added_or_take_the_place_of_the_agents_own() {
    let agent = Agent::start().await;
    let mut sessions = Vec::new();
    for mode in ["append", "override"] {
        let opened =
            agent.request("session/new", params(&agent, mode, "Speak like a pirate.")).await.unwrap();
        let session = opened["sessionId"].as_str().unwrap().to_owned();
        agent.llm.reply(Reply::text("Arr."));
        agent.prompt(&session, "hello").await;
        let system = system(&agent);
        assert!(system.contains("Speak like a pirate."), "{system}");
        assert_eq!(system.contains("You are windlass"), mode == "append", "{system}");
        // The description of the session stays.
        assert!(system.contains(agent.scratch.cwd()), "{system}");
        sessions.push(session);
    }
    // They are stored with the session, and a copy has them too, until others are given.
    let agent = agent.restarted().await;
    let mut open = agent.session_params();
    open["sessionId"] = json!(sessions[1]);
    let forked = agent.request("session/fork", open.clone()).await.unwrap();
    let forked = forked["sessionId"].as_str().unwrap();
    agent.request("session/load", open).await.unwrap();
    for session in [&sessions[1], forked] {
        agent.llm.reply(Reply::text("Arr."));
        agent.prompt(session, "hello").await;
        let system = system(&agent);
        assert!(system.contains("pirate") && !system.contains("You are windlass"), "{system}");
    }
    let mut again = params(&agent, "append", "Speak like a poet.");
    again["sessionId"] = json!(sessions[1]);
    agent.request("session/resume", again).await.unwrap();
    agent.llm.reply(Reply::text("O!"));
    agent.prompt(&sessions[1], "hello").await;
    let poet = system(&agent);
    assert!(poet.contains("poet") && poet.contains("You are windlass") && !poet.contains("pirate"));
    // An empty text takes them away.
    let mut none = params(&agent, "append", "");
    none["sessionId"] = json!(sessions[1]);
    agent.request("session/resume", none).await.unwrap();
    agent.llm.reply(Reply::text("Well."));
    agent.prompt(&sessions[1], "hello").await;
    assert!(!system(&agent).contains("poet"));
    agent.finish().await;
}

#[tokio::test]
async fn instructions_that_cannot_be_followed_are_refused() {
    let agent = Agent::start().await;
    let image = json!([{"type": "image", "data": "", "mimeType": "image/png"}]);
    for (mode, content, wanted) in [
        ("prepend", json!([{"type": "text", "text": "x"}]), "`systemPrompt.mode`"),
        ("append", image, "`systemPrompt.content`"),
        ("append", json!([]), "`systemPrompt.content`"),
    ] {
        let mut params = params(&agent, mode, "");
        params["systemPrompt"]["content"] = content;
        let refused = agent.request("session/new", params).await.unwrap_err();
        assert_eq!(refused.code, -32602);
        assert!(refused.message.contains(wanted), "{}", refused.message);
    }
    let listed = agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(listed["sessions"], json!([]), "a refused one makes no session");
    agent.finish().await;
}
