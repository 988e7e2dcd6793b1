//! Files that decide what a session may do are asked for where some command would be.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::Reply,
};

#[tokio::test]
async fn what_rules_are_read_from_or_git_obeys_counts_as_any_command() {
    let files =
        ["opencode.json", ".opencode/agent/build.md", ".git/config.worktree", ".git/hooks/pre-commit"];
    let asked_about = async |permission: Value| {
        let agent = Agent::start_with(json!({"permission": permission})).await;
        let session = agent.new_session().await;
        let mut calls = Reply::call("bash", "bash", json!({"command": "echo {} > sub/opencode.json"}))
            .and_call("command", "write", json!({"filePath": ".opencode/command/a.md", "content": "x"}))
            .and_call("plain", "write", json!({"filePath": "plain.json", "content": "x"}));
        for file in files {
            calls = calls.and_call(file, "write", json!({"filePath": file, "content": "x"}));
        }
        agent.llm.reply(calls);
        agent.llm.reply(Reply::text("done"));
        let prompt = agent.send_prompt(&session, "go");
        let mut asked = Vec::new();
        let mut turn = Box::pin(prompt.turn());
        let turn = loop {
            tokio::select! {
                turn = &mut turn => break turn,
                ask = agent.permission() => {
                    asked.push(ask.call()["toolCallId"].as_str().unwrap().to_owned());
                    let options = ask.params["options"].to_string();
                    assert!(!options.contains("allow_always"), "{options}");
                    agent.answer(&ask, Answer::AllowOnce);
                }
            }
        };
        assert_eq!(turn.text(), "done");
        agent.finish().await;
        asked.sort();
        asked
    };
    let mut all: Vec<String> = files.into_iter().chain(["bash"]).map(str::to_owned).collect();
    all.sort();
    assert_eq!(asked_about(json!({"bash": {"*": "deny", "echo *": "allow", "git *": "allow"}})).await, all);
    assert_eq!(asked_about(json!({})).await, [""; 0], "a command could write them anyway");
    let asking = json!({"bash": {"*": "deny", "echo *": "allow"}, "edit": {".opencode/agent/*": "ask"}});
    assert_eq!(asked_about(asking).await, all, "a rule that asks about them offers no more than none");
    let named = json!({
        "bash": {"*": "ask", "echo {}": "allow"},
        "edit": {"*": "allow", "*.opencode/*": "allow", "opencode.json": "allow", ".git/*": "allow"},
    });
    assert_eq!(asked_about(named).await, ["bash"]);
}
