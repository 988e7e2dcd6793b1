//! Tools without JavaScript: programs that a manifest names. No test of these starts a runtime.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::example;
use crate::{
    cli::Machine,
    sandbox::lacks,
    support::{
        agent::{Agent, Answer, Builder},
        llm::Reply,
        outside::outside,
        scratch::Scratch,
        server::Server,
    },
};

/// Puts both examples into a project, one in a directory of its own.
fn with_examples(config: Value) -> Builder {
    let scratch = Scratch::new();
    let tools = scratch.work.join(".opencode/tool");
    fs::create_dir_all(tools.join("word_count")).unwrap();
    for (from, to) in [
        ("python-tool/tool.json", "word_count/tool.json"),
        ("python-tool/word_count.py", "word_count/word_count.py"),
        ("shell-tool/commits.json", "commits.json"),
        ("shell-tool/commits.sh", "commits.sh"),
    ] {
        fs::copy(example(from), tools.join(to)).unwrap();
    }
    scratch.write("poem.txt", "roses are red");
    Agent::builder().scratch(&scratch).config(without_runtime(config))
}

/// Makes a start of a runtime an error.
fn without_runtime(mut config: Value) -> Value {
    config["windlass"]["plugin"]["runtime"] = "no-such-runtime".into();
    config
}

#[tokio::test]
async fn programs_and_custom_tools_are_among_the_tools_of_the_server() {
    let builder = Server::builder().config("windlass", json!({"plugin": {"runtime": "node"}}));
    let program = json!({
        "description": "Says the word.", "command": ["sh", "-c", "cat"],
        "parameters": {"type": "object", "properties": {"word": {"type": "string", "default": "yes"}}},
    });
    builder.scratch.write(".opencode/tool/say.json", program.to_string());
    let custom = "export default { description: 'mine', args: {}, execute: async () => '' }";
    builder.scratch.write(".opencode/tool/read.js", custom);
    let server = builder.start().await;
    let ids = server.get("/experimental/tool/ids").await.ok();
    let ids: Vec<&str> = ids.as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert!(ids.contains(&"say") && ids.contains(&"bash"), "{ids:?}");
    let listed = server.get("/experimental/tool?provider=mock&model=mock").await.ok();
    let read: Vec<&Value> = listed.as_array().unwrap().iter().filter(|tool| tool["id"] == "read").collect();
    assert_eq!((read.len(), &read[0]["description"]), (1, &json!("mine")));
    // A default of the schema is filled in.
    let id = server.session().await;
    server.llm.reply(Reply::call("call_1", "say", json!({})));
    server.llm.reply(Reply::text("done"));
    server.prompt(&id, "go").await;
    assert_eq!(server.llm.last_request().tool_result("call_1"), r#"{"word":"yes"}"#);
    server.finish().await;
}

#[tokio::test]
async fn a_python_and_a_shell_program_are_tools_without_a_runtime() {
    let agent = with_examples(json!({})).start().await;
    let session = agent.new_session().await;
    let (turn, counted) = agent.call(&session, "call_1", "word_count", json!({"files": ["poem.txt"]})).await;
    assert_eq!(counted, "3 poem.txt");
    assert_eq!(turn.tool("call_1")["title"], "1 files");
    let tools = agent.llm.last_request().body["tools"].as_array().unwrap().clone();
    let tool =
        |name: &str| tools.iter().find(|tool| tool["function"]["name"] == name).unwrap()["function"].clone();
    assert_eq!(tool("word_count")["parameters"]["required"], json!(["files"]));
    assert_eq!(tool("commits")["description"], "Shows the last commits of the project, one a line.");
    let commits = agent.told(&session, "commits", json!({"number": 1})).await;
    assert_eq!(commits.lines().count(), 1, "{commits}");
    let failed = agent.told(&session, "word_count", json!({"files": ["none.txt"]})).await;
    assert_eq!(failed, "none.txt cannot be read: No such file or directory");
    for (arguments, place) in [(json!({}), "'files'"), (json!({"files": "poem.txt"}), "/files")] {
        let unfit = agent.told(&session, "word_count", arguments).await;
        assert!(unfit.starts_with("The arguments do not fit the schema of word_count:\n"), "{unfit}");
        assert!(unfit.contains(place), "{unfit}");
    }
    assert!(!agent.stderr().contains("Plugins and custom tools are off"), "{}", agent.stderr());
    agent.finish().await;
}

#[tokio::test]
async fn rules_of_its_name_decide_about_a_program() {
    let config = json!({"permission": {"word_count": "ask", "commits": "deny"}});
    let agent = with_examples(config).answering(Answer::RejectOnce).start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "word_count", json!({"files": ["poem.txt"]})));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!((turn.tool("call_1")["status"].as_str(), agent.n_asked()), (Some("failed"), 1));
    assert!(!agent.llm.last_request().tools().contains(&"commits".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn a_program_that_is_slow_or_says_too_much_is_bounded() {
    let scratch = Scratch::new();
    let program = |line: &str, timeout: u64| {
        json!({"description": "d", "command": ["sh", "-c", line], "timeout": timeout}).to_string()
    };
    scratch.write(".opencode/tool/slow.json", program("echo begun; sleep 600", 2000));
    scratch.write(".opencode/tools/wordy.json", program("seq 100000", 60_000));
    scratch
        .write(".opencode/tool/told.json", program("echo $WINDLASS_TOOL_AGENT $WINDLASS_TOOL_CALL", 60_000));
    scratch.write(".opencode/tool/broken.json", r#"{"description": "no command"}"#);
    scratch.write(".opencode/tool/data.json", r#"{"which": "a tool reads"}"#);
    let agent = Agent::builder().scratch(&scratch).config(without_runtime(json!({}))).start().await;
    let session = agent.new_session().await;
    let slow = agent.told(&session, "slow", json!({})).await;
    assert_eq!(slow, "begun\n\nthe program was ended after 2000 ms");
    let wordy = agent.told(&session, "wordy", json!({})).await;
    assert!(wordy.starts_with("1\n2\n") && wordy.contains("lines truncated"), "{wordy:.200}");
    let (_, told) = agent.call(&session, "call_7", "told", json!({})).await;
    assert_eq!(told, "build call_7\n");
    agent.wait_stderr("broken.json").await;
    assert!(!agent.stderr().contains("data.json"), "{}", agent.stderr());
    agent.finish().await;
}

#[tokio::test]
async fn a_cancel_ends_a_program() {
    let scratch = Scratch::new();
    let line = "echo > begun; exec sleep 600";
    scratch.write(
        ".opencode/tool/slow.json",
        json!({"description": "d", "command": ["sh", "-c", line]}).to_string(),
    );
    let agent = Agent::builder().scratch(&scratch).config(without_runtime(json!({}))).start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "slow", json!({})));
    let pending = agent.send_prompt(&session, "go");
    scratch.appears("begun").await;
    agent.cancel(&session);
    assert_eq!(pending.answer().await.unwrap()["stopReason"], "cancelled");
    agent.finish().await;
}

#[tokio::test]
async fn a_program_runs_in_the_sandbox_of_commands() {
    if lacks("full") {
        return;
    }
    let outside = outside();
    let target = outside.path().join("escaped");
    let scratch = Scratch::new();
    let line = format!("echo > inside; echo > '{}'", target.display());
    scratch.write(
        ".opencode/tool/writer.json",
        json!({"description": "d", "command": ["sh", "-c", line]}).to_string(),
    );
    let sandbox = json!({"windlass": {"sandbox": {"mode": "workspace-write"}}});
    let agent = Agent::builder().scratch(&scratch).config(without_runtime(sandbox));
    let agent = agent.answering(Answer::RejectOnce).start().await;
    let session = agent.new_session().await;
    let told = agent.told(&session, "writer", json!({})).await;
    assert!(told.contains("Read-only file system") && told.contains("failed in a sandbox"), "{told}");
    assert!(scratch.exists("inside") && !Path::new(&target).exists());
    agent.finish().await;
}

#[tokio::test]
async fn a_program_is_listed_with_the_plugins() {
    let mut machine = Machine::new().await;
    machine.config = without_runtime(machine.config);
    machine.scratch.write(".opencode/tool/own.json", r#"{"description": "d", "command": "true"}"#);
    let listed = machine.run(&["plugin", "list", "--format", "json"]).await;
    assert_eq!((listed.code, listed.stderr.as_str()), (Some(0), ""), "{listed:?}");
    let rows: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(rows[0]["tools"], json!(["own"]), "{rows:?}");
    machine.finish().await;
}
