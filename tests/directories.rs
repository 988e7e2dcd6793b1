//! Directories that a client names beside the project.

use serde_json::{Value, json};

use crate::{
    mcp::named,
    support::{
        agent::{Agent, Answer},
        llm::Reply,
    },
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
    let template = format!("Look: !`cat {}`", beside.join("deep/a.txt").display());
    agent.scratch.write(".opencode/command/peek.md", template);
    let params = json!({"cwd": agent.scratch.cwd(), "mcpServers": [], "additionalDirectories": [beside]});
    let session =
        agent.request("session/new", params.clone()).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    let read = |name: &str| json!({"filePath": agent.scratch.home.join(name).join("deep/a.txt")});
    agent.llm.reply(Reply::call("call_1", "read", read("beside")));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "read").await;
    assert_eq!(agent.n_asked(), 0);
    let listed = agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(listed["sessions"][0]["additionalDirectories"], json!([beside]));
    assert!(agent.llm.last_request().body.to_string().contains("outside text"));
    // Shell lines of a template read there as well.
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/peek").await;
    assert_eq!(agent.n_asked(), 0);
    assert!(agent.llm.last_request().last_user().contains("Look: outside text"));
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

#[tokio::test]
async fn a_sessions_own_servers_are_told_them_as_roots() {
    let agent = Agent::start().await;
    let (cwd, servers) = (agent.scratch.cwd(), json!([named("shop", "wishes")]));
    let params = json!({"cwd": cwd, "mcpServers": servers, "additionalDirectories": ["/srv/beside"]});
    let session =
        agent.request("session/new", params).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    agent.llm.reply(Reply::call("call_1", "shop_roots", json!({})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    let told: Value = serde_json::from_str(&agent.llm.last_request().tool_result("call_1")).unwrap();
    let roots = [format!("file://{}", cwd), "file:///srv/beside".to_owned()];
    assert_eq!(told, json!({"roots": roots.map(|uri| json!({"uri": uri}))}));
    agent.finish().await;
}
