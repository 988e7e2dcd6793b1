//! The sandbox that is drawn ahead of its command: it holds the same as one drawn for the command, or is not used.

use std::{fs, time::Duration};

use serde_json::{Value, json};

use crate::{
    sandbox::lacks,
    sandbox_levels::lesser,
    support::{
        agent::{Agent, Answer, DEADLINE},
        process,
        scratch::Scratch,
        skip::lacks_landlock,
    },
};

fn workspace_write() -> Value {
    json!({"mode": "workspace-write"})
}

/// The launcher that waits for a command.
async fn waiting(agent: &Agent) -> i32 {
    let find = async {
        loop {
            let pid = agent.pid();
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
            let mut pids = children.split_ascii_whitespace().map(|it| it.parse().unwrap());
            let is_launcher = |pid: &i32| {
                let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&arguments).contains("\0sandbox\0wait\0")
            };
            if let Some(pid) = pids.find(is_launcher) {
                return pid;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, find).await.expect("a launcher waits")
}

async fn bash(agent: &Agent, session: &str, command: &str) -> String {
    agent.told(session, "bash", json!({"command": command})).await
}

#[tokio::test]
async fn the_second_command_runs_in_what_was_prepared_as_the_first_did() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    let config = json!({"windlass": {"sandbox": workspace_write()}});
    let agent = Agent::builder().scratch(&scratch).config(config).env("SEEN", "a variable").start().await;
    let session = agent.new_session().await;
    let first = runs_as_outside(&agent, &session).await;
    let prepared = waiting(&agent).await;
    assert_eq!(runs_as_outside(&agent, &session).await, first);
    let left = process::ended(&[prepared]).await;
    assert_eq!(left, Vec::<i32>::new(), "it became the command, which has ended");
    let prepared = waiting(&agent).await;
    agent.finish().await;
    assert!(!process::runs(prepared), "it ends with the daemon");
}

#[tokio::test]
async fn landlock_alone_starts_each_command_as_the_first() {
    if lacks_landlock() {
        return;
    }
    let scratch = Scratch::new();
    let agent = lesser(&scratch, 1, workspace_write()).env("SEEN", "a variable").start().await;
    let session = agent.new_session().await;
    let first = runs_as_outside(&agent, &session).await;
    assert_eq!(runs_as_outside(&agent, &session).await, first);
    // A directory that was made again is another one.
    fs::remove_dir_all(scratch.work.join("below")).unwrap();
    fs::create_dir(scratch.work.join("below")).unwrap();
    assert_eq!(runs_as_outside(&agent, &session).await, first);
    agent.finish().await;
}

/// Has commands see their input, directory, variables and status, and returns the result of the first.
async fn runs_as_outside(agent: &Agent, session: &str) -> String {
    let told = bash(agent, session, "cat; pwd; echo \"$SEEN\"; mkdir -p below").await;
    assert!(told.contains("a variable"), "{told}");
    let workdir = json!({"command": "pwd; touch made && rm made", "workdir": "below"});
    let there = agent.told(session, "bash", workdir).await;
    assert!(there.ends_with("/below\n"), "{there}");
    told
}

#[tokio::test]
async fn what_a_command_left_behind_is_gone_when_its_end_is_told() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    let config = json!({"windlass": {"sandbox": workspace_write()}});
    let agent = Agent::builder().scratch(&scratch).config(config).start().await;
    let session = agent.new_session().await;
    let leave = "(while :; do echo x >> alive; done) & setsid sleep 100 & while [ ! -s alive ]; do :; done; kill -9 $$";
    let told = bash(&agent, &session, leave).await;
    assert!(told.contains("ended by SIGKILL"), "{told}");
    let n_written = scratch.read("alive").len();
    bash(&agent, &session, "true").await;
    assert_eq!(scratch.read("alive").len(), n_written);
    agent.finish().await;
}

#[tokio::test]
async fn files_that_decide_are_protected_however_they_changed_since() {
    if lacks("full") {
        return;
    }
    let scratch = Scratch::new();
    let config = json!({"windlass": {"sandbox": workspace_write()}});
    let agent = Agent::builder().scratch(&scratch).config(config).answering(Answer::RejectOnce).start().await;
    let session = agent.new_session().await;
    bash(&agent, &session, "true").await;
    for text in ["{}", r#"{"username": "a"}"#, r#"{"username": "b"}"#] {
        waiting(&agent).await;
        // As editors save, and as git does: the file is another one afterwards, with the same number if it was free.
        for name in ["saved", "saved again"] {
            scratch.write(name, text);
            fs::rename(scratch.work.join(name), scratch.work.join("opencode.json")).unwrap();
        }
        fs::remove_file(scratch.work.join("opencode.json")).unwrap();
        scratch.write("opencode.json", text);
        let told = bash(&agent, &session, "echo broken > opencode.json").await;
        assert!(told.contains("Read-only file system"), "{told}");
        assert_eq!(scratch.read("opencode.json"), text);
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_prepared_sandbox_that_nobody_needs_ends() {
    if lacks("full") {
        return;
    }
    let config = json!({"windlass": {"sandbox": workspace_write()}});
    let agent = Agent::builder().config(config).start().await;
    let session = agent.new_session().await;
    bash(&agent, &session, "true").await;
    let prepared = waiting(&agent).await;
    assert_eq!(process::ended(&[prepared]).await, Vec::<i32>::new());
    agent.finish().await;
}
