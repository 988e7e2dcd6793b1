//! Configuration that changes while the agent runs: it holds from the next turn on, and the client is told.

use std::{fs, os::unix::fs::symlink, path::Path, sync::Arc};

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer, Builder},
    llm::{Gate, Reply},
    message::tag,
    scratch::Scratch,
};

/// Without a model of its own, so that files may name one; `mock/other` answers when none does.
fn builder(scratch: &Arc<Scratch>) -> Builder {
    Agent::builder().scratch(scratch).config(json!({"model": null}))
}

/// Initialized as a client that is told of each reading that brought something new, and shows notices.
async fn watching(builder: Builder) -> Agent {
    let agent = builder.spawn().await;
    let capabilities = json!({"session": {"notices": {}}, "_meta": {"windlass/events": ["config.updated", "mcp.tools.changed"]}});
    agent.initialize_with(capabilities).await;
    agent
}

/// Ends when the agent has read something new.
async fn read_again(agent: &Agent) {
    event(agent, "config.updated").await;
}

async fn event(agent: &Agent, name: &str) {
    agent
        .wait_for(name, |message| {
            message["method"] == "_windlass/event" && message["params"]["event"]["type"] == name
        })
        .await;
}

/// The values of an option, and the current one, as the session's next update of the options says.
async fn options(agent: &Agent, option: &str) -> (Vec<String>, String) {
    let update = agent.wait_update("config_option_update").await;
    let options = update["configOptions"].as_array().unwrap();
    let option = options.iter().find(|it| it["id"] == option).unwrap();
    let values = option["options"].as_array().unwrap().iter();
    let values = values.map(|value| value["value"].as_str().unwrap().to_owned()).collect();
    (values, option["currentValue"].as_str().unwrap().to_owned())
}

/// The model that is asked next.
async fn asked_model(agent: &Agent, session: &str) -> String {
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(session, "go").await;
    agent.llm.last_request().body["model"].as_str().unwrap().to_owned()
}

fn with_model(model: &str) -> String {
    json!({"model": format!("mock/{model}")}).to_string()
}

/// As editors save: written beside, then put in the place of the old.
fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, path).unwrap();
}

#[tokio::test]
async fn a_changed_default_model_is_told_and_asked() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", with_model("mock"));
    let agent = builder(&scratch).spawn().await.initialized().await;
    let session = agent.new_session().await;
    scratch.write("opencode.json", with_model("other"));
    assert_eq!(options(&agent, "model").await.1, "mock/other");
    assert_eq!(asked_model(&agent, &session).await, "other");
    agent.finish().await;
}

#[tokio::test]
async fn a_model_the_user_chose_stays() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", with_model("other"));
    let agent = watching(builder(&scratch)).await;
    let session = agent.new_session().await;
    let choice = json!({"sessionId": session, "configId": "model", "value": "mock/other"});
    agent.request("session/set_config_option", choice).await.unwrap();
    scratch.write("opencode.json", with_model("mock"));
    read_again(&agent).await;
    assert_eq!(asked_model(&agent, &session).await, "other");
    agent.finish().await;
}

#[tokio::test]
async fn files_replaced_by_rename_deleted_and_made_again_are_followed() {
    let scratch = Scratch::new();
    let file = scratch.work.join("opencode.json");
    scratch.write("opencode.json", with_model("other"));
    let agent = builder(&scratch).spawn().await.initialized().await;
    let session = agent.new_session().await;
    for _ in 0..2 {
        replace(&file, &with_model("mock"));
        assert_eq!(options(&agent, "model").await.1, "mock/mock");
        fs::remove_file(&file).unwrap();
        assert_eq!(options(&agent, "model").await.1, "mock/other");
    }
    assert_eq!(asked_model(&agent, &session).await, "other");
    agent.finish().await;
}

#[tokio::test]
async fn directories_made_later_are_followed() {
    let scratch = Scratch::new();
    let agent = builder(&scratch).spawn().await.initialized().await;
    agent.new_session().await;
    scratch.write(".opencode/opencode.json", with_model("mock"));
    assert_eq!(options(&agent, "model").await.1, "mock/mock");
    scratch.write(".opencode/opencode.json", with_model("other"));
    assert_eq!(options(&agent, "model").await.1, "mock/other");
    // Neither `.config` nor anything in it exists yet.
    fs::remove_dir_all(scratch.work.join(".opencode")).unwrap();
    let global = scratch.home.join(".config/opencode");
    fs::create_dir_all(&global).unwrap();
    fs::write(global.join("opencode.json"), with_model("mock")).unwrap();
    assert_eq!(options(&agent, "model").await.1, "mock/mock");
    agent.finish().await;
}

#[tokio::test]
async fn files_outside_the_project_are_followed() {
    let scratch = Scratch::new();
    let named = scratch.root().join("elsewhere/named.json");
    let key = scratch.root().join("keys/mock");
    let linked = scratch.root().join("dotfiles/opencode.json");
    for (file, text) in [(&named, "{}".to_owned()), (&key, "one\n".to_owned()), (&linked, with_model("mock"))]
    {
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    symlink(&linked, scratch.work.join("opencode.json")).unwrap();
    let secret =
        json!({"provider": {"mock": {"options": {"apiKey": format!("{{file:{}}}", key.display())}}}});
    let agent = watching(
        builder(&scratch)
            .config(json!({"provider": {"mock": {"options": {"apiKey": null}}}}))
            .env("OPENCODE_CONFIG", named.to_str().unwrap()),
    )
    .await;
    let session = agent.new_session().await;

    fs::write(&named, secret.to_string()).unwrap();
    read_again(&agent).await;
    fs::write(&key, "two\n").unwrap();
    read_again(&agent).await;
    assert_eq!(asked_model(&agent, &session).await, "mock");
    assert_eq!(agent.llm.last_request().header("authorization"), Some("Bearer two"));

    fs::write(&linked, with_model("other")).unwrap();
    read_again(&agent).await;
    assert_eq!(asked_model(&agent, &session).await, "other");
    agent.finish().await;
}

#[tokio::test]
async fn a_running_turn_keeps_the_rules_it_began_with() {
    let scratch = Scratch::new();
    let rule = |action: &str| json!({"permission": {"bash": action}}).to_string();
    scratch.write("opencode.json", rule("allow"));
    let agent = watching(builder(&scratch).answering(Answer::RejectOnce)).await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    let touch = |name: &str| Reply::call(name, "bash", json!({"command": format!("touch {name}")}));
    agent.llm.reply(Reply::text("wait").and_gate(&gate).and_call(
        "one",
        "bash",
        json!({"command": "touch one"}),
    ));
    agent.llm.reply(touch("two"));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.send_prompt(&session, "go");
    gate.reached().await;
    scratch.write("opencode.json", rule("ask"));
    read_again(&agent).await;
    gate.open();
    turn.turn().await;
    assert!(scratch.exists("one") && scratch.exists("two"));
    assert_eq!(agent.n_asked(), 0);

    agent.llm.reply(touch("three"));
    agent.prompt(&session, "again").await;
    assert_eq!(agent.n_asked(), 1);
    assert!(!scratch.exists("three"));
    agent.finish().await;
}

#[tokio::test]
async fn an_agent_comes_and_goes_as_a_mode() {
    let scratch = Scratch::new();
    let poet = json!({"agent": {"poet": {"mode": "primary", "prompt": "Speak in rhyme."}}}).to_string();
    let agent = builder(&scratch).spawn().await.initialized().await;
    let session = agent.new_session().await;
    scratch.write("opencode.json", &poet);
    let (modes, current) = options(&agent, "mode").await;
    assert!(modes.contains(&"poet".to_owned()), "{modes:?}");
    assert_eq!(current, "build");
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "poet"})).await.unwrap();
    assert_eq!(agent.wait_update("current_mode_update").await["currentModeId"], "poet");
    assert_eq!(options(&agent, "mode").await.1, "poet");

    fs::remove_file(scratch.work.join("opencode.json")).unwrap();
    assert_eq!(agent.wait_update("current_mode_update").await["currentModeId"], "build");
    let (modes, current) = options(&agent, "mode").await;
    assert!(!modes.contains(&"poet".to_owned()), "{modes:?}");
    assert_eq!(current, "build");
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    assert!(!agent.llm.last_request().system().contains("Speak in rhyme."));
    agent.finish().await;
}

#[tokio::test]
async fn a_broken_file_is_told_once_and_its_mending_too() {
    let scratch = Scratch::new();
    let agent = watching(builder(&scratch)).await;
    let session = agent.new_session().await;
    scratch.write("opencode.json", "{\n  \"permission\": {oops}\n}\n");
    let notice = agent.wait_update("notice").await;
    assert_eq!(notice["severity"], "warning");
    assert!(notice["description"].as_str().unwrap().contains("opencode.json:2:"), "{notice}");
    // Still broken, a line further down, and something else has changed.
    scratch.write("opencode.json", "{\n\n  \"permission\": {oops}\n}\n");
    scratch.write(".opencode/opencode.json", with_model("mock"));
    assert_eq!(options(&agent, "model").await.1, "mock/mock");
    scratch.write("opencode.json", "{}");
    assert_eq!(agent.wait_update("notice").await["severity"], "info");
    let notices = agent.updates(&session);
    assert_eq!(notices.iter().filter(|update| tag(update) == "notice").count(), 2);
    assert_eq!(agent.stderr().matches("opencode.json:2:").count(), 1, "{}", agent.stderr());
    agent.finish().await;
}

#[tokio::test]
async fn a_client_without_notices_is_told_of_a_broken_file_with_the_next_turn() {
    let scratch = Scratch::new();
    let agent = builder(&scratch).spawn().await.initialized().await;
    let session = agent.new_session().await;
    scratch.write("opencode.json", "{\n  \"permission\": {oops}\n}\n");
    agent.wait_stderr("opencode.json:2:").await;
    let told = |updates: &[Value]| {
        updates.iter().filter(|update| update.to_string().contains("opencode.json:2:")).count()
    };
    agent.llm.reply(Reply::text("one"));
    agent.llm.reply(Reply::text("two"));
    assert_eq!(told(&agent.prompt(&session, "go").await.updates), 1);
    assert_eq!(told(&agent.prompt(&session, "again").await.updates), 0);
    agent.finish().await;
}

#[tokio::test]
async fn many_quick_changes_are_few_readings() {
    let scratch = Scratch::new();
    let agent = builder(&scratch).spawn().await.initialized().await;
    let session = agent.new_session().await;
    let n_changes = 200;
    for idx in 1..=n_changes {
        let model = json!({"name": "Numbered"});
        let config = json!({"provider": {"mock": {"models": {format!("m{idx}"): model}}}});
        scratch.write("opencode.json", config.to_string());
    }
    let last = format!("mock/m{n_changes}");
    while !options(&agent, "model").await.0.contains(&last) {}
    let updates = agent.updates(&session);
    let n_told = updates.iter().filter(|update| tag(update) == "config_option_update").count();
    assert!(n_told <= n_changes / 20, "{n_told} readings for {n_changes} changes");
    agent.finish().await;
}

#[tokio::test]
async fn every_session_of_the_directory_is_told_and_no_other() {
    let scratch = Scratch::new();
    let agent = watching(builder(&scratch)).await;
    let elsewhere = scratch.root().join("other");
    fs::create_dir(&elsewhere).unwrap();
    let params = json!({"cwd": elsewhere, "mcpServers": []});
    let other = agent.request("session/new", params).await.unwrap();
    let (one, two) = (agent.new_session().await, agent.new_session().await);
    scratch.write("opencode.json", with_model("mock"));
    let mut told = Vec::new();
    for _ in 0..2 {
        let update = agent
            .wait_for("an update of the options", |message| {
                tag(&message["params"]["update"]) == "config_option_update"
            })
            .await;
        told.push(update["params"]["sessionId"].as_str().unwrap().to_owned());
    }
    told.sort();
    let mut both = [one.clone(), two];
    both.sort();
    assert_eq!(told, both);
    // What was told to the others stands before the answer.
    asked_model(&agent, &one).await;
    let others = agent.updates(other["sessionId"].as_str().unwrap());
    assert!(others.iter().all(|update| tag(update) == "available_commands_update"), "{others:?}");
    agent.finish().await;
}

#[tokio::test]
async fn mcp_servers_follow_their_configuration() {
    let scratch = Scratch::new();
    let agent = watching(builder(&scratch)).await;
    let session = agent.new_session().await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
    // The second time one server ends and another begins.
    for (shop, n_changes) in [("open", 1), ("closed", 2)] {
        let command = json!(["python3", script, "good"]);
        let server = json!({"type": "local", "command": command, "environment": {"SHOP": shop}});
        scratch.write("opencode.json", json!({"mcp": {"shop": server}}).to_string());
        for _ in 0..n_changes {
            event(&agent, "mcp.tools.changed").await;
        }
        agent.llm.reply(Reply::call(shop, "shop_price", json!({"item": "tea"})));
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        let result = agent.llm.last_request().tool_result(shop);
        assert_eq!(result, format!("tea costs 3, shop is {shop}"));
    }
    // What has nothing to do with a server leaves it alone.
    let before = agent.descendants();
    scratch.write(".opencode/opencode.json", with_model("mock"));
    read_again(&agent).await;
    assert_eq!(agent.descendants(), before);

    fs::remove_file(scratch.work.join("opencode.json")).unwrap();
    event(&agent, "mcp.tools.changed").await;
    asked_model(&agent, &session).await;
    assert!(!agent.llm.last_request().tools().contains(&"shop_price".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn a_changed_instruction_file_holds_in_the_next_turn() {
    let scratch = Scratch::new();
    scratch.write("AGENTS.md", "Prefer tabs.");
    let agent = Agent::builder().scratch(&scratch).spawn().await.initialized().await;
    let session = agent.new_session().await;
    for rule in ["Prefer tabs.", "Prefer spaces."] {
        scratch.write("AGENTS.md", rule);
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        assert!(agent.llm.last_request().system().contains(rule));
    }
    agent.finish().await;
}

#[tokio::test]
async fn watching_begins_with_a_session_and_ends_with_the_last() {
    let scratch = Scratch::new();
    let agent = watching(builder(&scratch)).await;
    assert_eq!(n_watchers(&agent), 0);
    let (one, two) = (agent.new_session().await, agent.new_session().await);
    scratch.write("opencode.json", with_model("mock"));
    read_again(&agent).await;
    assert_eq!(n_watchers(&agent), 1);
    agent.request("session/close", json!({"sessionId": one})).await.unwrap();
    assert_eq!(n_watchers(&agent), 1);
    agent.request("session/close", json!({"sessionId": two})).await.unwrap();
    assert_eq!(n_watchers(&agent), 0);
    agent.finish().await;
}

/// Inotify descriptors of the process.
fn n_watchers(agent: &Agent) -> usize {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", agent.pid)).unwrap();
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    targets.filter(|target| target.as_os_str() == "anon_inode:inotify").count()
}
