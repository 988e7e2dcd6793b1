//! Sessions that are shared with people: a page in a directory, which follows the session and goes when it is taken back.

use std::{fs, path::PathBuf, process::Stdio};

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{
    agent::{Agent, Answer, DEADLINE, binary, merge},
    llm::{Gate, Reply, Wire, provider_config},
    server::Server,
};

/// Runs a command of the terminal beside an agent; returns its output, or its error.
async fn cli(agent: &Agent, settings: &Value, arguments: &[&str]) -> Result<String, String> {
    let mut config = provider_config(&agent.llm, Wire::OpenAi);
    merge(&mut config, settings.clone());
    let output = Command::new(binary())
        .args(arguments)
        .current_dir(&agent.scratch.work)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("HOME", &agent.scratch.home)
        .env("MY_API_KEY", "a very secret word")
        .env("OPENCODE_CONFIG_CONTENT", config.to_string())
        .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap().trim().to_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn pages(agent: &Agent) -> PathBuf {
    agent.scratch.home.join("pages")
}

fn settings(pages: &std::path::Path) -> Value {
    json!({"windlass": {"share": {"directory": pages, "url": "https://share.example.com/s/"}}})
}

/// Waits until a page has some words.
async fn shows(page: &std::path::Path, words: &str) -> String {
    let look = async {
        loop {
            match fs::read_to_string(page) {
                Ok(text) if text.contains(words) => return text,
                Ok(_) | Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(DEADLINE, look).await.expect(words)
}

#[tokio::test]
async fn a_page_follows_its_session_without_secrets_and_goes_when_it_is_taken_back() {
    let agent = Agent::builder().answering(Answer::AllowOnce).spawn().await;
    let settings = settings(&pages(&agent));
    let asked = cli(&agent, &settings, &["session", "share", "latest"]).await.unwrap_err();
    assert!(asked.contains("not shared"), "{asked}");
    agent.initialize().await;
    let session = agent.new_session().await;
    agent.scratch.write("own.txt", "own words\n");
    fs::write(agent.scratch.home.join("private.txt"), "words of elsewhere\n").unwrap();
    let own = json!({"filePath": agent.scratch.path("own.txt")});
    let private = json!({"filePath": agent.scratch.home.join("private.txt")});
    agent.llm.reply(Reply::text("a very secret word").and_call("call_1", "read", own));
    agent.llm.reply(Reply::call("call_2", "read", private));
    agent.llm.reply(Reply::text("all is read"));
    agent.prompt(&session, "read both").await;

    let unasked = cli(&agent, &settings, &["session", "share", &session]).await.unwrap_err();
    assert!(unasked.contains("`--yes`"), "{unasked}");
    assert!(!pages(&agent).exists());
    let link = cli(&agent, &settings, &["session", "share", "--yes", &session]).await.unwrap();
    let key = link.strip_prefix("https://share.example.com/s/").unwrap().trim_end_matches('/').to_owned();
    assert_eq!(key.len(), 32, "{link}");
    let page = pages(&agent).join(&key).join("index.html");
    let text = shows(&page, "all is read").await;
    assert!(text.contains("own words"), "{text}");
    assert!(!text.contains("very secret") && !text.contains("words of elsewhere"), "{text}");
    assert!(
        text.contains("a file outside of the project") && !text.contains("http-equiv=\"refresh\""),
        "{text}"
    );

    // Once more is the same link, and no link is no page.
    assert_eq!(cli(&agent, &settings, &["session", "share", &session]).await.unwrap(), link);
    assert_eq!(cli(&agent, &settings, &["session", "unshare", &session]).await.unwrap(), "Its page is gone.");
    assert!(!pages(&agent).join(&key).exists());
    assert_eq!(
        cli(&agent, &settings, &["session", "unshare", &session]).await.unwrap(),
        "It was not shared."
    );

    // With the session goes its page.
    let link = cli(&agent, &settings, &["session", "share", "--yes", &session]).await.unwrap();
    assert!(!link.contains(&key), "{link}");
    cli(&agent, &settings, &["session", "delete", &session]).await.unwrap();
    assert_eq!(fs::read_dir(pages(&agent)).unwrap().count(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn a_page_is_live_while_a_server_works_and_bad_settings_are_said() {
    let pages = tempfile::tempdir().unwrap();
    let share = json!({"directory": pages.path().join("shared")});
    let server = Server::builder().config("windlass", json!({"share": share})).start().await;
    let id = server.session().await;
    let shared = server.post(&format!("/session/{id}/share"), json!({})).await.ok();
    let url = shared["share"]["url"].as_str().unwrap().to_owned();
    let page = PathBuf::from(url.strip_prefix("file://").unwrap());
    shows(&page, "Nothing has been said").await;
    let gate = Gate::new();
    server.llm.reply(Reply::text("half an answer").and_gate(&gate).and_text(" and the rest"));
    let body = json!({"parts": [{"type": "text", "text": "work"}]});
    server.post(&format!("/session/{id}/prompt_async"), body).await;
    let text = shows(&page, "half an answer").await;
    assert!(text.contains("http-equiv=\"refresh\""), "{text}");
    gate.open();
    shows(&page, "and the rest").await;
    let gone = server.send("DELETE", &format!("/session/{id}/share"), json!({})).await.ok();
    assert_eq!(gone["share"], Value::Null);
    assert!(!page.exists());
    server.finish().await;

    for (key, value, reason) in [
        ("windlass", json!({}), "windlass.share.directory"),
        ("windlass", json!({"share": {"directory": "here"}}), "absolute"),
        ("share", json!("disabled"), "Sharing is off"),
    ] {
        let server = Server::builder().config(key, value).start().await;
        let id = server.session().await;
        let refused = server.post(&format!("/session/{id}/share"), json!({})).await.refused(400);
        assert!(refused.to_string().contains(reason), "{refused}");
        server.finish().await;
    }
}

#[tokio::test]
async fn each_new_session_is_shared_where_the_user_wants_that() {
    let pages = tempfile::tempdir().unwrap();
    let windlass = json!({"share": {"directory": pages.path()}});
    let server = Server::builder().config("windlass", windlass).config("share", json!("auto")).start().await;
    let id = server.session().await;
    let mut events = server.events("/event").await;
    server.llm.reply(Reply::text("for all"));
    let body = json!({"parts": [{"type": "text", "text": "work"}]});
    server.post(&format!("/session/{id}/prompt_async"), body).await;
    events.until("session.idle").await;
    // It is shared beside its first turn.
    let shared = async {
        loop {
            if let Some(url) = server.get(&format!("/session/{id}")).await.ok()["share"]["url"].as_str() {
                return url.to_owned();
            }
        }
    };
    let url = tokio::time::timeout(DEADLINE, shared).await.expect("it is shared");
    shows(&PathBuf::from(url.strip_prefix("file://").unwrap()), "for all").await;
    server.finish().await;
}

#[tokio::test]
async fn a_command_shares_a_session_behind_a_look_at_the_things_that_are_left_out() {
    let scratch = crate::support::scratch::Scratch::new();
    let pages = scratch.home.join("pages");
    let agent = Agent::builder().scratch(&scratch).config(settings(&pages)).start().await;
    let session = agent.new_session().await;
    let said = agent.prompt(&session, "/share").await.text();
    assert!(said.contains("environment variables") && said.contains("`/share yes`"), "{said}");
    assert!(!pages.exists(), "nothing is shared yet");
    let said = agent.prompt(&session, "/share yes").await.text();
    let link = said.split_whitespace().last().unwrap().to_owned();
    assert!(link.starts_with("https://share.example.com/s/"), "{said}");
    let told = |updates: &[Value]| -> Vec<Value> {
        let metas = updates.iter().filter(|it| it["sessionUpdate"] == "session_info_update");
        metas.filter_map(|it| it["_meta"].get("windlass/share").cloned()).collect()
    };
    assert_eq!(told(&agent.updates(&session)), [json!(link)]);
    let listed = agent.request("session/list", json!({"cwd": agent.scratch.cwd()})).await.unwrap();
    assert_eq!(listed["sessions"][0]["_meta"]["windlass/share"], json!(link));
    assert!(agent.prompt(&session, "/share").await.text().contains(&link), "the link is said again");
    assert_eq!(agent.prompt(&session, "/unshare").await.text(), "Its page is gone.");
    assert_eq!(told(&agent.updates(&session)), [json!(link), Value::Null]);
    assert_eq!(fs::read_dir(&pages).unwrap().count(), 0);
    assert_eq!(agent.prompt(&session, "/unshare").await.text(), "It was not shared.");
    agent.finish().await;
}
