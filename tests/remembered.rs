//! Remembered answers where a tool judges by itself: the files `grep` searches and the instruction files `read` shows.

use serde_json::json;

use crate::support::{
    agent::{Agent, Answer, binary},
    llm::Reply,
    scratch::Scratch,
};

async fn revoke(agent: &Agent, permission: &str, pattern: &str) {
    let revoked = tokio::process::Command::new(binary())
        .args(["permission", "revoke", permission, pattern])
        .current_dir(agent.scratch.cwd())
        .env_clear()
        .env("HOME", &agent.scratch.home)
        .status()
        .await
        .unwrap();
    assert!(revoked.success());
}

/// Has the user allow reading a file for ever.
async fn allow(agent: &Agent, session: &str, path: &str) {
    agent.llm.reply(Reply::call("call_allow", "read", json!({"filePath": path})));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(session, "go");
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::AllowAlways);
    prompt.turn().await;
}

#[tokio::test]
async fn grep_knows_at_once_what_was_revoked_and_after_a_restart_what_was_allowed() {
    let agent = Agent::start().await;
    agent.scratch.write(".env", "KEY=secret\n");
    let session = agent.new_session().await;
    let grep = json!({"pattern": "KEY"});
    assert!(!agent.told(&session, "grep", grep.clone()).await.contains("secret"));
    allow(&agent, &session, &agent.scratch.path(".env")).await;
    assert!(agent.told(&session, "grep", grep.clone()).await.contains("secret"));

    let agent = agent.restarted().await;
    let session = agent.new_session().await;
    let found = agent.told(&session, "grep", grep.clone()).await;
    assert!(found.contains("secret"), "{found}");

    revoke(&agent, "read", "*").await;
    let found = agent.told(&session, "grep", grep).await;
    assert!(!found.contains("secret"), "{found}");
    assert!(found.contains("reading needs permission"), "{found}");
    agent.finish().await;
}

#[tokio::test]
async fn instruction_files_on_the_way_follow_the_answers_as_they_are_now() {
    let scratch = Scratch::new();
    let part = |name: &str, file: &str| scratch.path(&format!("{name}/{file}"));
    for name in ["one", "two"] {
        scratch.write(&format!("{name}/AGENTS.md"), format!("Rules of {name}.\n"));
        scratch.write(&format!("{name}/a.txt"), "text\n");
    }
    let config = json!({"permission": {"read": {"*": "allow", "*AGENTS.md": "ask"}}});
    let agent = Agent::builder().scratch(&scratch).config(config).start().await;
    let session = agent.new_session().await;
    scratch.write("AGENTS.md", "Rules.\n");
    allow(&agent, &session, &scratch.path("AGENTS.md")).await;
    let read = agent.told(&session, "read", json!({"filePath": part("one", "a.txt")})).await;
    assert!(read.contains("Rules of one."), "{read}");
    revoke(&agent, "read", "*").await;
    let read = agent.told(&session, "read", json!({"filePath": part("two", "a.txt")})).await;
    assert!(!read.contains("Rules of two."), "{read}");
    agent.finish().await;
}

#[tokio::test]
async fn a_rejection_for_ever_may_come_by_request_and_is_remembered() {
    let agent = Agent::builder().config(json!({"permission": {"bash": "ask"}})).spawn().await;
    agent.initialize_with(json!({"_meta": {"windlass/events": ["permission.asked"]}})).await;
    let session = agent.new_session().await;
    let call = |id: &str| Reply::call(id, "bash", json!({"command": "touch made"}));
    agent.llm.reply(call("call_1"));
    let prompt = agent.send_prompt(&session, "go");
    let is_asked = |message: &serde_json::Value| message["params"]["event"]["type"] == "permission.asked";
    let asked = agent.wait_for("permission.asked", is_asked).await;
    let ask = agent.permission().await;
    let request = &asked["params"]["event"]["properties"]["id"];
    let reply = json!({"sessionId": session, "requestId": request, "reply": "reject_always"});
    agent.request("_windlass/permission/reply", reply).await.unwrap();
    agent.withdrawn(&ask).await;
    prompt.turn().await;
    agent.llm.reply(call("call_2"));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "again").await;
    assert_eq!((turn.tool("call_2")["status"].as_str(), agent.n_asked()), (Some("failed"), 1));
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}
