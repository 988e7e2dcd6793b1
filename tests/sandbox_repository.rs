//! Files that commands in a sandbox may leave in the repository that they work in.

use serde_json::{Value, json};

use crate::{
    sandbox::lacks,
    support::{
        agent::{Agent, Answer},
        llm::Reply,
        scratch::Scratch,
    },
};

async fn open(scratch: &std::sync::Arc<Scratch>) -> (Agent, String) {
    let config = json!({"windlass": {"sandbox": {"mode": "workspace-write"}}});
    let agent = Agent::builder().scratch(scratch).config(config).answering(Answer::RejectOnce).start().await;
    let session = agent.new_session().await;
    (agent, session)
}

fn bash(lines: &[&str]) -> Value {
    json!({"command": lines.join(" && ")})
}

#[tokio::test]
async fn a_command_leaves_nothing_in_the_repository_that_git_would_run() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::write(scratch.home.join(".gitconfig"), "[core]\nhooksPath = .githooks\n").unwrap();
    let (agent, session) = open(&scratch).await;
    let planted = [
        ".git/rebase-merge/git-rebase-todo",
        ".git/worktrees/new/commondir",
        ".git/remotes",
        ".githooks",
        ".git/modules/sub/config",
    ];
    let lines = [
        "mkdir -p .git/rebase-merge .git/worktrees/new .git/remotes .git/modules/sub .githooks",
        "echo 'exec touch made' > .git/rebase-merge/git-rebase-todo",
        "echo ../../../evil > .git/worktrees/new/commondir",
        "echo 'URL: ext::touch made' > .git/remotes/origin",
        "echo 'touch made' > .githooks/pre-commit",
        "echo 'ref: refs/heads/main' > .git/modules/sub/HEAD",
        "echo '[core] fsmonitor = touch made' > .git/modules/sub/config",
        "echo done",
    ];
    let told = agent.told(&session, "bash", bash(&lines)).await;
    assert!(told.contains("done"), "{told}");
    for name in planted {
        assert!(!scratch.exists(name) && scratch.exists(&format!("{name}.refused")), "{name}: {told}");
        assert!(told.contains(&format!("{name}.refused")), "{name}: {told}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_command_in_the_background_leaves_nothing_either_once_it_has_ended() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    let (agent, session) = open(&scratch).await;
    let line = "mkdir -p .git/remotes; echo 'URL: ext::touch made' > .git/remotes/origin; echo planted";
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": line, "background": true})));
    agent.llm.reply(Reply::call("call_2", "job", json!({"id": "job_1", "action": "wait"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "start it").await;
    let told = agent.llm.last_request().tool_result("call_2");
    // The planted files are gone before the command's end, too.
    assert!(told.contains(".git/remotes.refused"), "{told}");
    assert!(!scratch.exists(".git/remotes") && scratch.exists(".git/remotes.refused"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn hooks_that_the_users_settings_name_in_the_project_cannot_be_changed() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::write(scratch.home.join(".gitconfig"), "[core]\nhooksPath = .githooks\n").unwrap();
    scratch.write(".githooks/pre-commit", "true");
    let (agent, session) = open(&scratch).await;
    let told = agent.told(&session, "bash", bash(&["echo 'touch made' > .githooks/pre-commit"])).await;
    assert!(told.contains("Read-only file system"), "{told}");
    assert_eq!(scratch.read(".githooks/pre-commit"), "true");
    agent.finish().await;
}

#[tokio::test]
async fn everyday_work_with_git_leaves_all_that_it_made() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    let (agent, session) = open(&scratch).await;
    let lines = [
        "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a",
        "echo 1 > a; git add a; git commit -qm one",
        "git switch -qc side; echo 2 > a; git commit -qam two; git switch -q -",
        "echo 3 > a; git commit -qam three; echo 4 > b; git add b; git commit -qm four",
        "git stash list; git tag -am t t; git notes add -m n; git bisect start; git gc -q",
        "git worktree add -q linked side",
        "git -C linked rebase -q main master 2>/dev/null; ! git rebase -q side 2>/dev/null",
        "git status; echo done",
    ];
    let told = agent.told(&session, "bash", bash(&lines)).await;
    assert!(told.contains("rebase in progress") && told.contains("done"), "{told}");
    assert!(!told.contains("refused") && scratch.exists(".git/worktrees/linked/HEAD"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn a_file_that_decides_and_comes_during_the_question_is_protected() {
    if lacks("full") {
        return;
    }
    let config = json!({
        "permission": {"bash": "ask"},
        "windlass": {"sandbox": {"mode": "workspace-write"}},
    });
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", bash(&["echo spoilt > opencode.json"])));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.send_prompt(&session, "go");
    let mut question = agent.permission().await;
    agent.scratch.write("opencode.json", "{}\n");
    // The command may not write it, and asks to run outside.
    while !question.params.to_string().contains("it failed in the sandbox") {
        agent.answer(&question, Answer::AllowOnce);
        question = agent.permission().await;
    }
    agent.answer(&question, Answer::RejectOnce);
    turn.turn().await;
    assert_eq!(agent.scratch.read("opencode.json"), "{}\n");
    assert!(!agent.scratch.exists("opencode.json.refused"));
    agent.finish().await;
}
