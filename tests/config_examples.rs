//! The examples that OpenCode's users begin with: a turn's request to the model shows everything that each says.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::{Llm, Reply, request::Request},
    scratch::Scratch,
};

/// Returns an agent in a repository with the files of `fixtures/config/examples`; every vendor is the scripted
/// model.
async fn example(name: &str) -> Agent {
    let scratch = Scratch::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/config/examples");
    copy(&fixtures.join(name), &scratch.work);
    let llm = Llm::start().await;
    let vendor = json!({"options": {"baseURL": llm.url(), "apiKey": "test"}});
    let config = json!({"provider": {"anthropic": vendor, "openai": vendor}});
    let builder = Agent::builder().scratch(&scratch).llm(&llm).without_provider().config(config);
    builder.answering(Answer::RejectOnce).spawn().await.initialized().await
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

async fn opened(agent: &Agent) -> (String, Value) {
    let answer = agent.request("session/new", agent.session_params()).await.unwrap();
    (answer["sessionId"].as_str().unwrap().to_owned(), answer)
}

/// Returns the request of a session's turn, with another mode where one is named.
async fn turn(agent: &Agent, session: &str, mode: Option<&str>) -> Request {
    if let Some(mode) = mode {
        agent.request("session/set_mode", json!({"sessionId": session, "modeId": mode})).await.unwrap();
    }
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(session, "go").await;
    agent.llm.last_request()
}

/// Returns the request of a subagent's turn.
async fn task(agent: &Agent, session: &str, subagent: &str) -> Request {
    let arguments = json!({"description": "look", "prompt": "CHILD", "subagent_type": subagent});
    agent.llm.reply(Reply::call("call_1", "task", arguments));
    agent.llm.reply_to("CHILD", Reply::text("found"));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(session, "delegate").await;
    let requests = agent.llm.requests();
    requests.into_iter().rev().find(|request| request.last_user().contains("CHILD")).unwrap()
}

/// Returns those tools with rules that the model is offered.
fn offered(request: &Request) -> Vec<&'static str> {
    let tools = request.tools();
    let of_interest = ["bash", "edit", "read", "task", "webfetch", "write"];
    of_interest.into_iter().filter(|tool| tools.iter().any(|offered| offered == tool)).collect()
}

fn modes(answer: &Value) -> Vec<(&str, &str)> {
    let modes = answer["modes"]["availableModes"].as_array().unwrap();
    modes.iter().map(|mode| (mode["id"].as_str().unwrap(), mode["name"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_whole_file_chooses_models_agents_and_rules() {
    let agent = example("first_file").await;
    let (session, answer) = opened(&agent).await;
    assert_eq!(answer["modes"]["currentModeId"], "build");
    let request = turn(&agent, &session, None).await;
    assert_eq!(request.body["model"], "claude-sonnet-4-20250514");
    assert_eq!(agent.llm.title_requests()[0].body["model"], "gpt-4o-mini");
    let request = turn(&agent, &session, Some("my-agent")).await;
    assert!(request.system().contains("You write code that others can read and change."));
    assert_eq!(offered(&request), ["bash", "edit", "read", "task", "webfetch", "write"]);
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
    agent.prompt(&session, "go").await;
    assert_eq!((agent.n_asked(), agent.scratch.exists("made")), (1, false));
    agent.finish().await;
}

#[tokio::test]
async fn an_agent_of_ones_own_brings_prompt_temperature_and_tools() {
    let agent = example("reviewer").await;
    let (session, answer) = opened(&agent).await;
    assert_eq!(answer["modes"]["currentModeId"], "my-reviewer");
    let request = turn(&agent, &session, None).await;
    assert_eq!(request.body["model"], "claude-sonnet-4-20250514");
    assert_eq!(request.body["temperature"], 0.3);
    assert!(request.system().contains("You look for mistakes, holes and slowness"));
    assert_eq!(offered(&request), ["read", "task", "webfetch"]);
    agent.finish().await;
}

#[tokio::test]
async fn a_list_of_agents_is_a_list_of_modes_and_subagents() {
    let agent = example("market").await;
    let (session, answer) = opened(&agent).await;
    let modes = modes(&answer);
    assert!(modes.contains(&("code-reviewer", "Code Reviewer")), "{modes:?}");
    assert!(modes.contains(&("doc-generator", "Doc Generator")), "{modes:?}");
    assert!(!modes.iter().any(|(id, _)| *id == "test-helper"), "{modes:?}");
    let request = turn(&agent, &session, None).await;
    assert!(request.system().contains("You review code for mistakes"));
    assert_eq!(offered(&request), ["read", "task", "webfetch"]);
    let request = turn(&agent, &session, Some("doc-generator")).await;
    assert_eq!(request.body["model"], "gpt-4o");
    assert!(request.system().contains("You turn code into documentation."));
    // `*` follows `*.md`, and the last match decides.
    assert_eq!(offered(&request), ["bash", "read", "task", "webfetch"]);
    turn(&agent, &session, Some("wildcard_first")).await;
    let write = |call: &str, file: &str| {
        Reply::call(call, "write", json!({"filePath": agent.scratch.path(file), "content": "x"}))
    };
    agent.llm.reply(write("call_1", "new.md"));
    agent.llm.reply(write("call_2", "new.txt"));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert_eq!((agent.scratch.exists("new.md"), agent.scratch.exists("new.txt")), (true, false));
    let request = task(&agent, &session, "test-helper").await;
    assert!(request.system().contains("You write tests."));
    agent.finish().await;
}

#[tokio::test]
async fn built_in_agents_that_are_only_named_stay_as_they_are() {
    let agent = example("mixed").await;
    let (session, answer) = opened(&agent).await;
    assert_eq!(answer["modes"]["currentModeId"], "build");
    let request = turn(&agent, &session, Some("plan")).await;
    assert!(request.last_user().contains("plan") || request.system().contains("plan"));
    let request = turn(&agent, &session, Some("company-agent")).await;
    assert!(request.system().contains("You know the company's rules for code."));
    agent.finish().await;
}

#[tokio::test]
async fn prompts_and_agents_come_from_files() {
    let agent = example("files").await;
    let (session, _) = opened(&agent).await;
    let request = turn(&agent, &session, None).await;
    assert_eq!(request.body["model"], "claude-sonnet-4-20250514");
    assert_eq!(request.body["temperature"], 0.3);
    assert!(request.system().contains("Build it, \"quoted\" and all."));
    assert_eq!(offered(&request), ["bash", "edit", "read", "task", "webfetch", "write"]);
    let request = task(&agent, &session, "docs").await;
    assert_eq!(request.body["temperature"], 0.1);
    assert!(request.system().contains("You write for people who use the program.\n\n- Say what it does."));
    assert_eq!(offered(&request), ["read", "webfetch"]);
    agent.finish().await;
}

#[tokio::test]
async fn rules_for_everyone_for_an_agent_and_for_patterns() {
    let agent = example("rules").await;
    let (session, _) = opened(&agent).await;
    let bash = |call: &str, command: &str| Reply::call(call, "bash", json!({"command": command}));
    agent.llm.reply(bash("call_1", "git status"));
    agent.llm.reply(bash("call_2", "git diff --stat"));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert_eq!(agent.n_asked(), 0);
    agent.llm.reply(bash("call_3", "touch made"));
    agent.prompt(&session, "go").await;
    assert_eq!((agent.n_asked(), agent.scratch.exists("made")), (1, false));
    let content = json!({"filePath": agent.scratch.path("made"), "content": ""});
    agent.llm.reply(Reply::call("call_4", "write", content));
    agent.prompt(&session, "go").await;
    assert_eq!((agent.n_asked(), agent.scratch.exists("made")), (2, false));
    let request = task(&agent, &session, "code-reviewer").await;
    assert_eq!(offered(&request), ["bash", "read", "webfetch"]);
    let request = turn(&agent, &session, Some("plan")).await;
    // Plan files stay writable unless the last rule denies everything, which `edit: deny` under its own name does.
    assert_eq!(offered(&request), ["bash", "read", "task", "webfetch"]);
    agent.finish().await;
}

#[tokio::test]
async fn an_agent_hands_work_to_those_it_may() {
    let agent = example("team").await;
    let (session, _) = opened(&agent).await;
    let request = turn(&agent, &session, None).await;
    assert!(request.system().contains("Hand out the work."));
    let tools = request.body["tools"].to_string();
    assert!(tools.contains("- security-auditor") && tools.contains("- docs-writer"), "{tools}");
    assert!(!tools.contains("- general"), "{tools}");
    let request = task(&agent, &session, "security-auditor").await;
    assert!(request.system().contains("Look for holes."));
    // Further subagents only where an agent's own rules say so; a subagent may do no more than its parent.
    assert_eq!(offered(&request), ["bash", "edit", "read", "task", "write"]);
    let request = task(&agent, &session, "docs-writer").await;
    assert_eq!(offered(&request), ["bash", "edit", "read", "write"]);
    agent.finish().await;
}

#[tokio::test]
async fn older_spellings_mean_what_they_meant() {
    let agent = example("older").await;
    let (session, answer) = opened(&agent).await;
    assert!(modes(&answer).contains(&("slow", "slow")));
    let request = turn(&agent, &session, None).await;
    assert!(request.system().contains("Rule one of the project."));
    assert_eq!(offered(&request), ["bash", "read", "task"]);
    let request = turn(&agent, &session, Some("slow")).await;
    assert_eq!((&request.body["model"], &request.body["top_k"]), (&json!("claude-sonnet-4-5"), &json!(5)));
    assert!(request.system().contains("Take your time."));
    assert_eq!(offered(&request), ["read", "task"]);
    turn(&agent, &session, Some("build")).await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "/greet Ada French").await;
    let request = agent.llm.last_request();
    assert!(request.last_user().contains("Greet Ada in French."), "{}", request.last_user());
    assert!(request.system().contains("Take your time."));
    agent.finish().await;
}
