//! `initialize`, authentication, and the messages that come before everything else.

use serde_json::{Value, json};

use crate::support::{agent::Agent, scratch::Scratch};

fn request(version: Value) -> Value {
    json!({"protocolVersion": version, "clientCapabilities": {}, "clientInfo": {"name": "e2e", "version": "1"}})
}

#[tokio::test]
async fn the_highest_version_that_both_know_is_spoken_and_at_least_the_first() {
    let texts = ["1", "2", "2024-11-05", ""].map(|asked| (json!(asked), 1));
    let numbers = [(1, 1), (0, 1), (2, 2), (65535, 2)].map(|(asked, answered)| (json!(asked), answered));
    for (asked, answered) in numbers.into_iter().chain(texts).chain([(Value::Null, 1)]) {
        let agent = Agent::builder().spawn().await;
        let answer = agent.request("initialize", request(asked.clone())).await.unwrap();
        assert_eq!(answer["protocolVersion"], answered, "asked for {asked}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn badly_typed_capabilities_count_as_absent() {
    let agent = Agent::builder().spawn().await;
    let answer =
        agent.initialize_with(json!({"fs": "yes", "terminal": 3, "auth": [], "elicitation": false})).await;
    assert_eq!(answer["protocolVersion"], 1);
    agent.finish().await;
}

#[tokio::test]
async fn a_request_before_initialize_is_refused() {
    let agent = Agent::builder().spawn().await;
    let error = agent.request("session/new", agent.session_params()).await.unwrap_err();
    assert_eq!(error.code, -32600);
    assert!(error.message.contains("initialize"), "{error:?}");
    agent.initialize().await;
    agent.new_session().await;
    agent.finish().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn nothing_is_read_or_made_before_initialize() {
    use nix::{
        errno::Errno,
        sys::inotify::{AddWatchFlags, InitFlags, Inotify},
    };

    let scratch = Scratch::new();
    let directories = [".config/opencode/agent", ".opencode", ".local/share/opencode", ".claude/skills/x"];
    let directories = directories.map(|name| scratch.home.join(name));
    directories.iter().for_each(|directory| std::fs::create_dir_all(directory).unwrap());
    std::fs::write(scratch.home.join(".config/opencode/opencode.json"), "{}").unwrap();
    scratch.write("opencode.json", "{}");
    let watch = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).unwrap();
    let everywhere = directories.iter().flat_map(|directory| directory.ancestors());
    let below = |directory: &&std::path::Path| directory.starts_with(scratch.root());
    for directory in everywhere.filter(below).chain([scratch.work.as_path()]) {
        let seen = AddWatchFlags::IN_OPEN | AddWatchFlags::IN_CREATE;
        watch.add_watch(directory, seen).unwrap();
    }
    let agent = Agent::builder().scratch(&scratch).spawn().await;
    // An answer shows that it runs and has read a line.
    agent.request("session/new", agent.session_params()).await.unwrap_err();
    let seen = watch.read_events().map(|events| events.into_iter().map(|it| it.name).collect::<Vec<_>>());
    assert_eq!(seen, Err(Errno::EAGAIN));
    agent.initialize().await;
    agent.new_session().await;
    assert!(!watch.read_events().unwrap().is_empty(), "the watch would have seen it");
    agent.finish().await;
}

#[tokio::test]
async fn a_second_initialize_is_answered_again() {
    let agent = Agent::builder().spawn().await;
    let first = agent.initialize().await;
    let second = agent.initialize().await;
    assert_eq!(first, second);
    agent.finish().await;
}

#[tokio::test]
async fn capabilities_name_what_works() {
    let agent = Agent::builder().spawn().await;
    let answer = agent.initialize().await;
    assert_eq!(answer["agentInfo"]["name"], "windlass");
    assert_eq!(answer["agentInfo"]["version"], env!("CARGO_PKG_VERSION"));
    let capabilities = &answer["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], true);
    let prompt = &capabilities["promptCapabilities"];
    assert_eq!((&prompt["image"], &prompt["embeddedContext"]), (&json!(true), &json!(true)));
    assert_ne!(prompt["audio"], true);
    assert_eq!(capabilities["mcpCapabilities"]["http"], true);
    assert_eq!(capabilities["mcpCapabilities"]["sse"], true);
    assert_eq!(capabilities["mcpCapabilities"]["acp"], true);
    assert_eq!(capabilities["auth"]["logout"], json!({}));
    for name in ["list", "resume", "close", "delete"] {
        assert_eq!(capabilities["sessionCapabilities"][name], json!({}), "{name}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn extensions_are_advertised() {
    let agent = Agent::builder().spawn().await;
    let answer = agent.initialize().await;
    let meta = &answer["agentCapabilities"]["_meta"];
    for name in ["windlass/events", "windlass/sessionId", "windlass/permissionReply"] {
        assert!(!meta[name].is_null(), "`{name}` is not in {meta}");
    }
    agent.finish().await;
}

fn methods(answer: &Value) -> Vec<(String, String)> {
    let text = |value: &Value, default: &str| value.as_str().unwrap_or(default).to_owned();
    let methods = answer["authMethods"].as_array().unwrap();
    methods.iter().map(|method| (text(&method["type"], "agent"), text(&method["id"], ""))).collect()
}

#[tokio::test]
async fn without_a_terminal_there_is_one_way_to_log_in() {
    let agent = Agent::builder().spawn().await;
    let methods = methods(&agent.initialize().await);
    assert_eq!(methods.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(), ["agent"]);
    agent.finish().await;
}

#[tokio::test]
async fn a_client_with_terminal_login_is_offered_it() {
    let agent = Agent::builder().spawn().await;
    let answer = agent.initialize_with(json!({"auth": {"terminal": true}})).await;
    let kinds: Vec<String> = methods(&answer).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["agent", "terminal"]);
    let terminal = &answer["authMethods"][1];
    assert!(terminal["args"].as_array().is_some_and(|args| !args.is_empty()), "{terminal}");
    agent.finish().await;
}

#[tokio::test]
async fn the_older_form_of_terminal_login_is_offered_too() {
    let agent = Agent::builder().spawn().await;
    let answer = agent.initialize_with(json!({"_meta": {"terminal-auth": true}})).await;
    let methods = answer["authMethods"].as_array().unwrap();
    let offered = methods.iter().find(|method| !method["_meta"]["terminal-auth"].is_null());
    let offered = offered.unwrap_or_else(|| panic!("no method with `terminal-auth`: {answer}"));
    let terminal = &offered["_meta"]["terminal-auth"];
    assert!(terminal["command"].is_string() && terminal["args"].is_array() && terminal["label"].is_string());
    agent.finish().await;
}

#[tokio::test]
async fn authenticate_accepts_the_agent_method_and_refuses_others() {
    let agent = Agent::builder().spawn().await;
    let answer = agent.initialize_with(json!({"auth": {"terminal": true}})).await;
    let methods = methods(&answer);
    agent.request("authenticate", json!({"methodId": methods[0].1})).await.unwrap();
    for wrong in [methods[1].1.as_str(), "no-such-method"] {
        let error = agent.request("authenticate", json!({"methodId": wrong})).await.unwrap_err();
        assert_eq!(error.code, -32602, "{error:?}");
    }
    agent.request("logout", json!({})).await.unwrap();
    agent.finish().await;
}

#[tokio::test]
async fn the_accounts_are_told_and_change_with_a_logout() {
    let scratch = Scratch::new();
    let file = scratch.home.join(".local/share/windlass/auth.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let login = json!({"type": "oauth", "refresh": "r-secret", "access": "a-secret", "expires": 0});
    let key = json!({"type": "api", "key": "k-secret"});
    std::fs::write(&file, json!({"github-copilot": login, "anthropic": key}).to_string()).unwrap();
    let agent = Agent::builder().scratch(&scratch).without_provider().start().await;
    let status = agent.request("auth/status", json!({})).await.unwrap();
    let accounts = json!([{"label": "Anthropic API key"}, {"label": "GitHub Copilot login"}]);
    assert_eq!(status, json!({"state": "authenticated", "accounts": accounts}));
    agent.request("logout", json!({})).await.unwrap();
    let told = agent.wait_for("an update", |line| line["method"] == "auth/status_update").await;
    assert_eq!(told["params"], json!({"state": "unauthenticated"}));
    assert!(!file.exists());
    let status = agent.request("auth/status", json!({})).await.unwrap();
    assert_eq!(status, json!({"state": "unauthenticated"}));
    let error = agent.request("session/new", agent.session_params()).await.unwrap_err();
    assert_eq!(error.code, -32000, "{error:?}");
    agent.request("authenticate", json!({"methodId": "windlass-key"})).await.unwrap();
    agent.new_session().await;
    assert!(agent.lines().iter().all(|line| !line.message.to_string().contains("-secret")));
    agent.finish().await;
}

#[tokio::test]
async fn initialize_and_session_new_may_arrive_together() {
    let agent = Agent::builder().spawn().await;
    let initialize = agent.send_request("initialize", request(json!(1)));
    let session = agent.send_request("session/new", agent.session_params());
    assert!(session.answer().await.unwrap()["sessionId"].as_str().unwrap().starts_with("ses_"));
    assert!(initialize.is_answered(), "the answers came in the wrong order");
    agent.finish().await;
}
