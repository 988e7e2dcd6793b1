//! A store that cannot be used is a clear error; the daemon serves on and uses it again when it can.

use serde_json::json;

use crate::support::agent::Agent;
use crate::support::llm::Reply;

const DATABASE: &str = ".local/share/windlass/windlass.db";

fn database(agent: &Agent) -> std::path::PathBuf {
    agent.scratch.home.join(DATABASE)
}

#[tokio::test]
async fn a_damaged_store_is_named_and_used_again_once_it_is_out_of_the_way() {
    let agent = Agent::start().await;
    let path = database(&agent);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "no database at all, ".repeat(1000)).unwrap();
    let new = json!({"cwd": agent.scratch.cwd(), "mcpServers": []});
    let error = agent.request("session/new", new).await.unwrap_err();
    assert_eq!(error.code, -32603);
    assert!(error.message.contains("windlass.db"), "{error:?}");
    assert!(error.message.contains("move"), "{error:?}");
    std::fs::remove_file(&path).unwrap();
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("back"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "back");
    agent.finish().await;
}

#[tokio::test]
async fn a_store_that_another_process_holds_is_said_and_waited_for() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let other = rusqlite::Connection::open(database(&agent)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    agent.llm.reply(Reply::text("never stored"));
    let error = agent.send_prompt(&session, "go").answer().await.unwrap_err();
    assert!(error.message.contains("locked"), "{error:?}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(agent.prompt(&session, "again").await.text(), "never stored");
    agent.finish().await;
}

#[tokio::test]
async fn a_failed_load_leaves_the_open_session_as_it_was() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let load = json!({"sessionId": session, "cwd": "/no/such/place", "mcpServers": []});
    let error = agent.request("session/load", load).await.unwrap_err();
    assert!(error.message.contains("/no/such/place"), "{error:?}");
    agent.llm.reply(Reply::text("still here"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "still here");
    agent.finish().await;
}
