//! Configuration as the user writes it: files, variables, mistakes.

use serde_json::json;

use crate::support::{
    agent::{Agent, Answer},
    llm::Reply,
    scratch::Scratch,
};

#[tokio::test]
async fn a_broken_file_is_named_to_the_line_and_the_agent_serves() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", "{\n  \"model\": \"mock/mock\",\n  \"permission\": {oops}\n}\n");
    // Named here, because the file might have named it too.
    let small = json!({"small_model": "mock/mock"});
    let agent = Agent::builder().scratch(&scratch).config(small).spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("still serving"));
    assert!(agent.prompt(&session, "go").await.text().contains("still serving"));
    agent.wait_stderr("opencode.json:3:").await;
    agent.finish().await;
}

#[tokio::test]
async fn a_wrong_value_is_a_warning_and_the_rest_of_the_file_holds() {
    let scratch = Scratch::new();
    scratch
        .write("opencode.json", r#"{"agent": {"build": {"steps": "many"}}, "permission": {"bash": "ask"}}"#);
    let agent =
        Agent::builder().scratch(&scratch).answering(Answer::RejectOnce).spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "true"})));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.n_asked(), 1);
    agent.wait_stderr("opencode.json").await;
    agent.finish().await;
}

#[tokio::test]
async fn comments_and_trailing_commas_are_fine() {
    let scratch = Scratch::new();
    scratch.write("opencode.jsonc", "{\n  // a comment\n  \"model\": \"mock/other\", /* another */\n}\n");
    // The inline configuration outranks project files, so it must not name a model here.
    let agent =
        Agent::builder().scratch(&scratch).config(json!({"model": null})).spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.llm.last_request().body["model"], "other");
    assert!(!agent.stderr().contains("opencode.jsonc:"), "{}", agent.stderr());
    agent.finish().await;
}

#[tokio::test]
async fn the_nearest_file_wins_and_the_global_one_is_below() {
    let scratch = Scratch::new();
    let global = scratch.home.join(".config/opencode");
    std::fs::create_dir_all(&global).unwrap();
    std::fs::write(global.join("opencode.json"), r#"{"permission": {"bash": "deny", "edit": "ask"}}"#)
        .unwrap();
    scratch.write("opencode.json", r#"{"permission": {"bash": "allow"}}"#);
    let agent =
        Agent::builder().scratch(&scratch).answering(Answer::RejectOnce).spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
    agent.llm.reply(Reply::call("call_2", "write", json!({"filePath": scratch.path("x"), "content": ""})));
    agent.prompt(&session, "go").await;
    assert!(scratch.exists("made"));
    assert_eq!(agent.n_asked(), 1);
    agent.finish().await;
}

#[tokio::test]
async fn the_permission_variable_outranks_the_files() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", r#"{"permission": {"bash": "ask"}}"#);
    let agent = Agent::builder()
        .scratch(&scratch)
        .env("OPENCODE_PERMISSION", r#"{"bash": "allow"}"#)
        .spawn()
        .await
        .initialized()
        .await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert!(scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_file_named_by_variable_is_read() {
    let scratch = Scratch::new();
    let path = scratch.root().join("named.json");
    std::fs::write(&path, r#"{"permission": {"bash": "deny"}}"#).unwrap();
    let agent = Agent::builder()
        .scratch(&scratch)
        .env("OPENCODE_CONFIG", path.to_str().unwrap())
        .spawn()
        .await
        .initialized()
        .await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert!(!agent.llm.last_request().tools().contains(&"bash".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn an_agent_of_the_users_is_a_mode() {
    let scratch = Scratch::new();
    let config = json!({
        "default_agent": "poet",
        "agent": {"poet": {"mode": "primary", "prompt": "Speak in rhyme.", "permission": {"edit": "deny"}}},
    });
    scratch.write("opencode.json", config.to_string());
    let agent = Agent::builder().scratch(&scratch).spawn().await.initialized().await;
    let answer = agent.request("session/new", agent.session_params()).await.unwrap();
    assert_eq!(answer["modes"]["currentModeId"], "poet");
    let session = answer["sessionId"].as_str().unwrap();
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(session, "go").await;
    let request = agent.llm.last_request();
    assert!(request.system().contains("Speak in rhyme."));
    assert!(!request.tools().contains(&"edit".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn instructions_named_in_the_file_reach_the_model() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", r#"{"instructions": ["docs/*.md"]}"#);
    scratch.write("docs/rules.md", "Prefer tabs.");
    let agent = Agent::builder().scratch(&scratch).spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert!(agent.llm.last_request().system().contains("Prefer tabs."));
    agent.finish().await;
}

#[tokio::test]
async fn variables_in_the_file_are_filled_in() {
    let config = json!({"provider": {"mock": {"options": {"apiKey": "{env:SCRATCH_KEY}"}}}});
    let agent =
        Agent::builder().config(config).env("SCRATCH_KEY", "from-env").spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.llm.last_request().header("authorization"), Some("Bearer from-env"));
    agent.finish().await;
}

#[tokio::test]
async fn a_key_stored_by_opencode_is_used() {
    let scratch = Scratch::new();
    let data = scratch.home.join(".local/share/opencode");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("auth.json"), r#"{"mock": {"type": "api", "key": "stored"}}"#).unwrap();
    let config = json!({"provider": {"mock": {"options": {"apiKey": null}}}});
    let agent = Agent::builder().scratch(&scratch).config(config).spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.llm.last_request().header("authorization"), Some("Bearer stored"));
    agent.finish().await;
}

#[tokio::test]
async fn own_state_lives_where_the_variable_says() {
    let scratch = Scratch::new();
    let own = scratch.root().join("own");
    let agent = Agent::builder()
        .scratch(&scratch)
        .env("WINDLASS_HOME", own.to_str().unwrap())
        .spawn()
        .await
        .initialized()
        .await;
    agent.new_session().await;
    agent.finish().await;
    assert!(own.join("windlass.db").exists());
    assert!(!scratch.home.join(".local/share/windlass").exists());
}

#[tokio::test]
async fn what_is_ignored_is_told_once_to_a_user_whose_client_knows_no_notices() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", "{\n  \"permission\": {oops}\n}\n");
    let small = json!({"small_model": "mock/mock"});
    let agent = Agent::builder().scratch(&scratch).config(small).spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("one"));
    agent.llm.reply(Reply::text("two"));
    let told = |updates: &[serde_json::Value]| {
        updates.iter().filter(|update| update.to_string().contains("opencode.json:2:")).count()
    };
    assert_eq!(told(&agent.prompt(&session, "go").await.updates), 1);
    assert_eq!(told(&agent.prompt(&session, "again").await.updates), 0);
    agent.finish().await;
}
