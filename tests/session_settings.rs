//! Settings of a session: once the client has the answer they hold, through anything that happens to the agent.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, requests::Pending},
    llm::{Gate, Reply, task},
};

fn set_mode(agent: &Agent, session: &str, mode: &str) -> Pending {
    agent.send_request("session/set_mode", json!({"sessionId": session, "modeId": mode}))
}

fn database(agent: &Agent) -> PathBuf {
    agent.scratch.home.join(".local/share/windlass/windlass.db")
}

/// Loads a session and returns its mode and model.
async fn stored(agent: &Agent, session: &str) -> (Value, Value) {
    let params = json!({"sessionId": session, "cwd": agent.scratch.cwd(), "mcpServers": []});
    let answer = agent.request("session/load", params).await.unwrap();
    let options = answer["configOptions"].as_array().unwrap();
    let model = options.iter().find(|option| option["id"] == "model").unwrap();
    (answer["modes"]["currentModeId"].clone(), model["currentValue"].clone())
}

async fn killed(mut agent: Agent) -> Agent {
    agent.signal(Signal::SIGKILL);
    agent.wait_exit().await;
    agent.restarted().await
}

#[tokio::test]
async fn an_answered_setting_survives_a_sudden_death() {
    let models = json!({"provider": {"mock": {"models": {"other": {"name": "Other"}}}}});
    let agent = Agent::start_with(models.clone()).await;
    let idle = agent.new_session().await;
    let busy = agent.new_session().await;
    // The turn takes its settings between two steps; this step does not end.
    let gate = Gate::new();
    agent.llm.reply(Reply::text("begun ").and_gate(&gate));
    let _prompt = agent.send_prompt(&busy, "go");
    agent.wait_text(&busy, "begun ").await;
    for session in [&idle, &busy] {
        set_mode(&agent, session, "plan").answer().await.unwrap();
        let option = json!({"sessionId": session, "configId": "model", "value": "mock/other"});
        agent.request("session/set_config_option", option).await.unwrap();
    }
    let agent = killed(agent).await;
    for session in [&idle, &busy] {
        assert_eq!(stored(&agent, session).await, (json!("plan"), json!("mock/other")));
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_sent_right_behind_a_setting_follows_it() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let modes: Vec<&str> = ["plan", "build"].into_iter().cycle().take(10).collect();
    for mode in &modes {
        agent.llm.reply(Reply::text("ok"));
        let setting = set_mode(&agent, &session, mode);
        assert_eq!(agent.prompt(&session, "go").await.stop, "end_turn");
        setting.answer().await.unwrap();
    }
    let store = rusqlite::Connection::open(database(&agent)).unwrap();
    let sql = "SELECT data ->> 'agent' FROM message WHERE data ->> 'role' = 'user' ORDER BY id";
    let mut rows = store.prepare(sql).unwrap();
    let agents = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let agents: Vec<String> = agents.map(Result::unwrap).collect();
    assert_eq!(agents, modes);
    assert_eq!(stored(&agent, &session).await.0, "build");
    agent.finish().await;
}

#[tokio::test]
async fn a_setting_that_cannot_be_stored_is_refused_and_changes_nothing() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let other = rusqlite::Connection::open(database(&agent)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = set_mode(&agent, &session, "plan").answer().await.unwrap_err();
    assert!(error.message.contains("windlass.db locked; end it and repeat"), "{error:?}");
    other.execute_batch("ROLLBACK").unwrap();
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert_eq!(stored(&agent, &session).await.0, "build");
    agent.finish().await;
}

#[tokio::test]
async fn a_subagent_prompted_when_the_mode_is_answered_has_its_limits() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::text("hello"));
    agent.llm.reply_to("go", Reply::text("begun ").and_gate(&gate));
    let prompt = agent.send_prompt(&session, "go");
    agent.wait_text(&session, "begun ").await;
    let result = agent.llm.last_request().tool_result("call_1");
    let child = result.split('"').nth(1).unwrap().to_owned();
    agent.load(&child).await;
    let write = json!({"filePath": agent.scratch.path("made"), "content": "x"});
    agent.llm.reply_to("again", Reply::call("call_2", "write", write));
    agent.llm.reply_to("again", Reply::text("done"));
    set_mode(&agent, &session, "plan").answer().await.unwrap();
    agent.prompt(&child, "again").await;
    gate.open();
    assert_eq!(prompt.turn().await.stop, "end_turn");
    assert!(!agent.scratch.exists("made"), "a mode that changes nothing let its subagent change a file");
    agent.finish().await;
}
