//! Configuration that changes while the agent runs: it holds from the next turn on, and the client is told.

use std::{collections::BTreeMap, fs, os::unix::fs::symlink, path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer, Builder},
    llm::{Gate, Reply},
    message::tag,
    process,
    scratch::Scratch,
    skip::sees_no_descriptors,
    web::{Page, Web},
};

/// Makes an agent without a model of its own, so that files may name one; `mock/other` answers when none does.
pub fn builder(scratch: &Arc<Scratch>) -> Builder {
    Agent::builder().scratch(scratch).config(json!({"model": null}))
}

/// Starts an agent for a client that hears of each reading with changes, and shows notices.
pub async fn watching(builder: Builder) -> Agent {
    let agent = builder.spawn().await;
    let capabilities = json!({"session": {"notices": {}}, "_meta": {"windlass/events": ["config.updated", "mcp.tools.changed"]}});
    agent.initialize_with(capabilities).await;
    agent
}

/// Ends when the agent has read something new.
pub async fn read_again(agent: &Agent) {
    event(agent, "config.updated").await;
}

async fn event(agent: &Agent, name: &str) {
    agent
        .wait_for(name, |message| {
            message["method"] == "_windlass/event" && message["params"]["event"]["type"] == name
        })
        .await;
}

/// Returns the values of an option, and the current one, as the session's next update of the options says.
pub async fn options(agent: &Agent, option: &str) -> (Vec<String>, String) {
    let update = agent.wait_update("config_option_update").await;
    let options = update["configOptions"].as_array().unwrap();
    let option = options.iter().find(|it| it["id"] == option).unwrap();
    let values = option["options"].as_array().unwrap().iter();
    let values = values.map(|value| value["value"].as_str().unwrap().to_owned()).collect();
    (values, option["currentValue"].as_str().unwrap().to_owned())
}

/// Returns the model that is asked next.
pub async fn asked_model(agent: &Agent, session: &str) -> String {
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(session, "go").await;
    agent.llm.last_request().body["model"].as_str().unwrap().to_owned()
}

pub fn with_model(model: &str) -> String {
    json!({"model": format!("mock/{model}")}).to_string()
}

/// As editors save: written beside, then put in the place of the old.
pub fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, path).unwrap();
}

/// Ends when the client is told of the wanted commands.
pub async fn told_commands(agent: &Agent, is_wanted: impl Fn(&[String]) -> bool) {
    loop {
        let update = agent.wait_update("available_commands_update").await;
        let commands = update["availableCommands"].as_array().unwrap().iter();
        let names: Vec<String> =
            commands.map(|command| command["name"].as_str().unwrap().to_owned()).collect();
        if is_wanted(&names) {
            return;
        }
    }
}

pub async fn told_command(agent: &Agent, name: &str) {
    told_commands(agent, |names| names.iter().any(|it| it == name)).await;
}

pub fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
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
async fn another_default_agent_is_for_sessions_that_begin_with_it() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", with_model("mock"));
    let agent = watching(builder(&scratch)).await;
    let session = agent.new_session().await;
    asked_model(&agent, &session).await;
    scratch.write("opencode.json", json!({"model": "mock/other", "default_agent": "plan"}).to_string());
    read_again(&agent).await;
    let later = agent.request("session/new", json!({"cwd": scratch.work, "mcpServers": []})).await.unwrap();
    assert_eq!(later["modes"]["currentModeId"], "plan");
    asked_model(&agent, &session).await;
    let request = agent.llm.last_request();
    assert!(request.tools().contains(&"write".to_owned()), "{:?}", request.tools());
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
    replace(&key, "two\n");
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
    let agent = watching(builder(&scratch).config(json!({"small_model": "mock/mock"}))).await;
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
async fn what_is_mended_is_told_with_what_is_left() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", json!({"share": "loud", "shell": 5}).to_string());
    let agent = watching(builder(&scratch)).await;
    agent.new_session().await;
    for _ in 0..2 {
        assert_eq!(agent.wait_update("notice").await["severity"], "warning");
    }
    scratch.write("opencode.json", json!({"shell": 5}).to_string());
    let left = agent.wait_update("notice").await;
    assert_eq!(
        (&left["severity"], &left["title"]),
        (&json!("info"), &json!("Some problems of the configuration are fixed."))
    );
    let text = left["description"].as_str().unwrap();
    assert!(
        text.starts_with("Still ignored:\n") && text.contains("shell: ") && !text.contains("share"),
        "{text}"
    );
    // One is mended and another made: both are told.
    scratch.write("opencode.json", json!({"logLevel": "LOUD"}).to_string());
    let told = agent.wait_update("notice").await;
    assert!(
        told["severity"] == "warning" && told["description"].as_str().unwrap().contains("logLevel"),
        "{told}"
    );
    let left = agent.wait_update("notice").await;
    assert!(
        left["severity"] == "info" && left["description"].as_str().unwrap().contains("logLevel"),
        "{left}"
    );
    scratch.write("opencode.json", "{}");
    assert_eq!(agent.wait_update("notice").await["title"], "The configuration has no more problems.");
    agent.finish().await;
}

#[tokio::test]
async fn a_client_without_notices_is_told_of_a_broken_file_with_the_next_turn() {
    let scratch = Scratch::new();
    let agent =
        builder(&scratch).config(json!({"small_model": "mock/mock"})).spawn().await.initialized().await;
    let session = agent.new_session().await;
    scratch.write("opencode.json", "{\n  \"permission\": {oops}\n}\n");
    agent.wait_stderr("opencode.json:2:").await;
    // The file might have named another model.
    let choice = json!({"sessionId": session, "configId": "model", "value": "mock/mock"});
    agent.request("session/set_config_option", choice).await.unwrap();
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
    // Updates of the other sessions come before the answer.
    asked_model(&agent, &one).await;
    let others = agent.updates(other["sessionId"].as_str().unwrap());
    assert!(others.iter().all(|update| tag(update) == "available_commands_update"), "{others:?}");
    agent.finish().await;
}

#[tokio::test]
async fn mcp_servers_follow_their_configuration() {
    let scratch = Scratch::new();
    let agent = watching(builder(&scratch).answering(Answer::AllowOnce)).await;
    let session = agent.new_session().await;
    // The second time one server ends and another begins.
    for (shop, n_changes) in [("open", 1), ("closed", 2)] {
        scratch.write("opencode.json", with_shop(shop));
        for _ in 0..n_changes {
            event(&agent, "mcp.tools.changed").await;
        }
        agent.llm.reply(Reply::call(shop, "shop_price", json!({"item": "tea"})));
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        let result = agent.llm.last_request().tool_result(shop);
        assert_eq!(result, format!("tea costs 3, shop is {shop}"));
    }
    // A change that does not concern a server leaves it running.
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

fn with_shop(shop: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp/server.py");
    let command = json!(["python3", script, "good"]);
    let server = json!({"type": "local", "command": command, "environment": {"SHOP": shop}});
    json!({"mcp": {"shop": server}}).to_string()
}

#[tokio::test]
async fn a_running_turn_keeps_its_mcp_servers() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", with_shop("open"));
    let agent = watching(builder(&scratch).answering(Answer::AllowOnce)).await;
    let session = agent.new_session().await;
    event(&agent, "mcp.tools.changed").await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("wait").and_gate(&gate).and_call(
        "one",
        "shop_price",
        json!({"item": "tea"}),
    ));
    agent.llm.reply(Reply::call("two", "shop_price", json!({"item": "tea"})));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.send_prompt(&session, "go");
    gate.reached().await;
    let old = agent.descendants();
    scratch.write("opencode.json", with_shop("closed"));
    // The new one is ready.
    event(&agent, "mcp.tools.changed").await;
    gate.open();
    turn.turn().await;
    let request = agent.llm.last_request();
    for call in ["one", "two"] {
        assert_eq!(request.tool_result(call), "tea costs 3, shop is open");
    }
    // The old one ends with the turn.
    event(&agent, "mcp.tools.changed").await;
    assert_eq!(process::ended(&old).await, Vec::<i32>::new());
    agent.llm.reply(Reply::call("three", "shop_price", json!({"item": "tea"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "again").await;
    assert_eq!(agent.llm.last_request().tool_result("three"), "tea costs 3, shop is closed");
    agent.finish().await;
}

#[tokio::test]
async fn a_file_that_breaks_says_what_it_said_before() {
    let scratch = Scratch::new();
    let rules = json!({"permission": {"bash": "deny"}}).to_string();
    scratch.write("opencode.json", &rules);
    let agent = watching(builder(&scratch).answering(Answer::AllowOnce)).await;
    let session = agent.new_session().await;
    let offers_bash = async || {
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        agent.llm.last_request().tools().contains(&"bash".to_owned())
    };
    scratch.write("opencode.json", &rules[..rules.len() / 2]);
    let notice = agent.wait_update("notice").await;
    let told = notice["description"].as_str().unwrap();
    assert!(told.contains("opencode.json:1:") && told.ends_with("what it said before still holds"), "{told}");
    assert!(!offers_bash().await);
    // Other files go on being followed, and the broken one goes on holding.
    scratch.write(".opencode/opencode.json", with_model("mock"));
    assert_eq!(options(&agent, "model").await.1, "mock/mock");
    assert!(!offers_bash().await);
    // Nothing but its end ends it.
    fs::remove_file(scratch.work.join("opencode.json")).unwrap();
    assert_eq!(agent.wait_update("notice").await["severity"], "info");
    assert!(offers_bash().await);
    agent.finish().await;
}

#[tokio::test]
async fn an_organisation_whose_key_is_added_is_asked_at_once() {
    let web = Web::start().await;
    let first = json!({"config": {"command": {"corporate": {"template": "Do it."}}}});
    web.page("/.well-known/opencode", Page::new("application/json", first.to_string()));
    let scratch = Scratch::new();
    let agent = builder(&scratch).spawn().await.initialized().await;
    agent.new_session().await;
    let entry = json!({"type": "wellknown", "key": "CORP_TOKEN", "token": "secret"});
    let keys = scratch.home.join(".local/share/opencode/auth.json");
    write(&keys, &json!({ (web.url("/")): entry }).to_string());
    told_command(&agent, "corporate").await;
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_that_waited_is_answered_though_its_agent_is_gone() {
    let scratch = Scratch::new();
    let poet = json!({"agent": {"poet": {"mode": "primary", "prompt": "Speak in rhyme."}}}).to_string();
    scratch.write("opencode.json", &poet);
    let agent = watching(builder(&scratch)).await;
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "poet"})).await.unwrap();
    let gate = Gate::new();
    agent.llm.reply(Reply::text("wait").and_gate(&gate));
    agent.llm.reply(Reply::text("done"));
    let first = agent.send_prompt(&session, "one");
    gate.reached().await;
    let second = agent.send_prompt(&session, "two");
    fs::remove_file(scratch.work.join("opencode.json")).unwrap();
    read_again(&agent).await;
    gate.open();
    first.turn().await;
    second.turn().await;
    let requests = agent.llm.requests();
    let is_poet: Vec<bool> =
        requests.iter().map(|request| request.system().contains("Speak in rhyme.")).collect();
    assert_eq!(is_poet, [true, false]);
    agent.finish().await;
}

#[tokio::test]
async fn an_idle_agent_that_watches_is_never_woken() {
    let scratch = Scratch::new();
    let agent = watching(builder(&scratch)).await;
    agent.new_session().await;
    scratch.write("opencode.json", with_model("mock"));
    read_again(&agent).await;
    // Not to order anything: time is measured here. Its last work may still be ending.
    let mut before = n_switches(&agent);
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = n_switches(&agent);
        if now == before {
            return agent.finish().await;
        }
        before = now;
    }
    panic!("it wakes without being asked: {before:?}");
}

/// Returns how often each thread of the process has gone to sleep.
fn n_switches(agent: &Agent) -> BTreeMap<String, String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", agent.pid)).unwrap();
    let counts = tasks.filter_map(|task| {
        let status = fs::read_to_string(task.unwrap().path().join("status")).ok()?;
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        Some((line("Pid:")?, line("voluntary_ctxt_switches:")?))
    });
    counts.collect()
}

#[tokio::test]
async fn watching_begins_with_a_session_and_ends_with_the_last() {
    if sees_no_descriptors() {
        return;
    }
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

/// Counts the inotify descriptors of the process.
fn n_watchers(agent: &Agent) -> usize {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", agent.pid)).unwrap();
    let targets = descriptors.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    targets.filter(|target| target.as_os_str() == "anon_inode:inotify").count()
}

#[tokio::test]
async fn what_is_wrong_is_logged_once_however_many_sessions_begin() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", json!({"model": 7}).to_string());
    let agent = builder(&scratch).spawn().await.initialized().await;
    agent.new_session().await;
    // Another reading, with nothing new in it that is wrong.
    scratch.write(".opencode/opencode.json", with_model("mock"));
    agent.new_session().await;
    agent.wait_stderr("opencode.json:1:").await;
    assert_eq!(agent.stderr().matches("opencode.json:1:").count(), 1, "{}", agent.stderr());
    agent.finish().await;
}
