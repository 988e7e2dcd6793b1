//! Directories that a client names beside the project.

use serde_json::json;

use crate::support::{
    agent::{Agent, Answer},
    llm::Reply,
};

#[tokio::test]
async fn directories_that_the_client_names_beside_the_project_are_reached_without_a_question() {
    let agent = Agent::builder().spawn().await;
    let answer = agent.initialize_with(json!({})).await;
    assert_eq!(answer["agentCapabilities"]["sessionCapabilities"]["additionalDirectories"], json!({}));
    for name in ["beside", "other"] {
        std::fs::create_dir_all(agent.scratch.home.join(name).join("deep")).unwrap();
        std::fs::write(agent.scratch.home.join(name).join("deep/a.txt"), "outside text\n").unwrap();
    }
    let beside = agent.scratch.home.join("beside");
    let params = json!({"cwd": agent.scratch.cwd(), "mcpServers": [], "additionalDirectories": [beside]});
    let session =
        agent.request("session/new", params.clone()).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    let read = |name: &str| json!({"filePath": agent.scratch.home.join(name).join("deep/a.txt")});
    agent.llm.reply(Reply::call("call_1", "read", read("beside")));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "read").await;
    assert_eq!(agent.n_asked(), 0);
    assert!(agent.llm.last_request().body.to_string().contains("outside text"));
    // Others are asked about, and a load without the list has none.
    agent.llm.reply(Reply::call("call_2", "read", read("other")));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "read the other");
    agent.answer(&agent.permission().await, Answer::AllowOnce);
    prompt.turn().await;
    let params = json!({"sessionId": session, "cwd": agent.scratch.cwd(), "mcpServers": []});
    agent.request("session/load", params).await.unwrap();
    agent.llm.reply(Reply::call("call_3", "read", read("beside")));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "again");
    agent.answer(&agent.permission().await, Answer::AllowOnce);
    prompt.turn().await;
    for wrong in [json!("/x"), json!(["relative"]), json!([1])] {
        let params = json!({"cwd": agent.scratch.cwd(), "mcpServers": [], "additionalDirectories": wrong});
        assert_eq!(agent.request("session/new", params).await.unwrap_err().code, -32602, "{wrong}");
    }
    agent.finish().await;
}
