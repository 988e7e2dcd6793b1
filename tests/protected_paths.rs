//! Files that decide the rights of a session are asked for where some command would be.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::Reply,
    scratch::Scratch,
};

#[tokio::test]
async fn what_rules_are_read_from_or_git_obeys_counts_as_any_command() {
    let files = [
        "opencode.json",
        ".opencode/agent/build.md",
        ".opencode/command/a.md",
        ".git/config.worktree",
        ".git/hooks/pre-commit",
    ];
    let asked_about = async |permission: Value| {
        let agent = Agent::start_with(json!({"permission": permission})).await;
        let session = agent.new_session().await;
        let skill = json!({"filePath": ".opencode/skill/a/b.md", "content": "x"});
        let mut calls = Reply::call("skill", "write", skill).and_call(
            "plain",
            "write",
            json!({"filePath": "plain.json", "content": "x"}),
        );
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
    let mut all: Vec<String> = files.into_iter().map(str::to_owned).collect();
    all.sort();
    assert_eq!(asked_about(json!({"bash": {"*": "deny", "echo *": "allow", "git *": "allow"}})).await, all);
    assert_eq!(asked_about(json!({})).await, [""; 0], "a command could write them anyway");
    let asking = json!({"bash": {"*": "deny", "echo *": "allow"}, "edit": {".opencode/agent/*": "ask"}});
    assert_eq!(asked_about(asking).await, all, "a rule that asks about them offers no more than none");
    let named = json!({
        "bash": {"*": "ask", "echo *": "allow"},
        "edit": {"*": "allow", "*.opencode/*": "allow", "opencode.json": "allow", ".git/*": "allow"},
    });
    assert_eq!(asked_about(named).await, [""; 0]);
}

#[tokio::test]
async fn what_the_configuration_was_read_from_counts_under_any_name() {
    let scratch = Scratch::new();
    for (name, text) in [
        (
            "conf/rules.json",
            r#"{"permission": {"bash": "{file:./bash.txt}"}, "username": "{file:linked.txt}", "windlass": {"agents": {"paths": ["../market"]}}}"#,
        ),
        ("conf/bash.txt", "ask"),
        ("conf/linked.txt", "me"),
        ("market/a.md", "---\ndescription: a\n---\nx"),
        ("conf/other.json", "{}"),
    ] {
        scratch.write(name, text);
    }
    std::os::unix::fs::symlink("conf/linked.txt", scratch.work.join("link")).unwrap();
    let agent = Agent::builder()
        .scratch(&scratch)
        .env("OPENCODE_CONFIG", scratch.work.join("conf/rules.json").to_str().unwrap())
        .config(json!({"permission": {"edit": {"*": "allow", "market/b.md": "allow"}}, "windlass": {"file_time": false}}))
        .start()
        .await;
    let session = agent.new_session().await;
    let files = ["link", "market/a.md", "market/b.md", "conf/other.json"];
    let mut calls = Reply::call(
        "edit",
        "edit",
        // A change that loosens would ask once more when it is read.
        json!({"filePath": "conf/bash.txt", "oldString": "ask", "newString": "deny"}),
    );
    calls = calls.and_call(
        "multiedit",
        "multiedit",
        json!({"filePath": "conf/rules.json", "edits": [{"oldString": "linked.txt}", "newString": "./linked.txt}"}]}),
    );
    for file in files {
        calls = calls.and_call(file, "write", json!({"filePath": file, "content": "{}"}));
    }
    agent.llm.reply(calls);
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let mut asked = Vec::new();
    let mut turn = Box::pin(prompt.turn());
    loop {
        tokio::select! {
            _ = &mut turn => break,
            ask = agent.permission() => {
                asked.push(ask.call()["toolCallId"].as_str().unwrap().to_owned());
                agent.answer(&ask, Answer::AllowOnce);
            }
        }
    }
    agent.finish().await;
    asked.sort();
    assert_eq!(asked, ["edit", "link", "market/a.md", "multiedit"]);
}
