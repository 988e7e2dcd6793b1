//! Undo and redo of files: they follow the conversation back and forth, and the user's git stays as it is.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Builder, requests::Pending},
    llm::{Gate, Reply, task},
    process,
    scratch::Scratch,
};

async fn own(agent: &Agent, session: &str, command: &str) -> String {
    agent.prompt(session, command).await.text()
}

fn bash(id: &str, command: &str) -> Reply {
    Reply::call(id, "bash", json!({"command": command, "description": "change files"}))
}

/// Runs a turn of one shell command.
async fn run(agent: &Agent, session: &str, prompt: &str, command: &str) {
    agent.llm.reply(bash("call_1", command));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(session, prompt).await;
}

/// Returns git's view of the worktree, with the bytes of its index.
fn git_state(agent: &Agent) -> (String, Vec<u8>) {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(&agent.scratch.work).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let state = git(&["for-each-ref"]) + &git(&["count-objects"]) + &git(&["stash", "list"]);
    (state, fs::read(agent.scratch.work.join(".git/index")).unwrap())
}

#[tokio::test]
async fn what_the_user_changes_while_something_is_undone_stays_and_is_named() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let stays = "because you changed them since the last undo or redo:\n- `";
    // A redo does not take it away, nor does an undo of more.
    run(&agent, &session, "first", "echo A >> a.txt").await;
    run(&agent, &session, "second", "echo B >> other.txt").await;
    own(&agent, &session, "/undo").await;
    assert!(!agent.scratch.exists("other.txt"));
    agent.scratch.write("a.txt", "mine\n");
    let undone = own(&agent, &session, "/undo").await;
    assert!(undone.contains(&format!("{stays}{}`", agent.scratch.path("a.txt"))), "{undone}");
    for _ in 0..2 {
        own(&agent, &session, "/redo").await;
    }
    assert_eq!(
        (agent.scratch.read("a.txt"), agent.scratch.read("other.txt")),
        ("mine\n".into(), "B\n".into())
    );
    // A change that was made before an undo comes back with its redo.
    own(&agent, &session, "/undo 2").await;
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\n");
    own(&agent, &session, "/redo").await;
    assert_eq!(agent.scratch.read("a.txt"), "mine\n");
    agent.finish().await;
}

#[tokio::test]
async fn files_follow_undo_and_redo_whatever_changed_them() {
    let agent = Agent::start_with(json!({"windlass": {"file_time": false}})).await;
    let before = git_state(&agent);
    let session = agent.new_session().await;
    let edit = json!({"filePath": agent.scratch.path("a.txt"), "oldString": "two", "newString": "zwei"});
    agent.llm.reply(Reply::call("call_1", "edit", edit));
    agent
        .llm
        .reply(bash("call_2", "mkdir new; echo x > new/run.sh; chmod +x new/run.sh; ln -s run.sh new/link"));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "first").await;
    run(&agent, &session, "second", "rm README.md; echo more >> a.txt").await;

    let undone = own(&agent, &session, "/undo").await;
    let readme = agent.scratch.path("README.md");
    assert!(undone.contains("Restored files:") && undone.contains(&format!("- `{readme}`")), "{undone}");
    assert_eq!(agent.scratch.read("a.txt"), "one\nzwei\nthree\n");
    assert_eq!(agent.scratch.read("README.md"), "# Scratch\n");
    assert!(agent.scratch.exists("new/run.sh"));
    let undone = own(&agent, &session, "/undo").await;
    assert!(!undone.contains("not restored"), "{undone}");
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\n");
    assert!(!agent.scratch.exists("new"));
    assert_eq!(git_state(&agent), before);

    // Another process puts them back.
    let agent = agent.restarted().await;
    agent.load(&session).await;
    let redone = own(&agent, &session, "/redo").await;
    assert!(
        redone.starts_with("Put back: \"first\" with its answers. One more prompt is undone."),
        "{redone}"
    );
    assert_eq!(agent.scratch.read("a.txt"), "one\nzwei\nthree\n");
    let program = fs::metadata(agent.scratch.path("new/run.sh")).unwrap();
    assert_eq!(program.permissions().mode() & 0o111, 0o111);
    assert_eq!(fs::read_link(agent.scratch.path("new/link")).unwrap().to_str(), Some("run.sh"));
    assert!(agent.scratch.exists("README.md"));
    own(&agent, &session, "/redo").await;
    assert_eq!(agent.scratch.read("a.txt"), "one\nzwei\nthree\nmore\n");
    assert!(!agent.scratch.exists("README.md"));
    assert_eq!(git_state(&agent), before);
    agent.finish().await;
}

/// Returns every file of the worktree with its mode, its target if it is a link, and its content.
fn files(agent: &Agent) -> Vec<String> {
    let script = "find . -path ./.git -prune -o -printf '%P %m %y %l ' \\( -type f -exec sha256sum {} \\; -o -printf '\\n' \\)";
    let output = Command::new("sh").args(["-c", script]).current_dir(&agent.scratch.work).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn moved_linked_and_private_files_go_back_and_forth() {
    let agent = Agent::start().await;
    fs::create_dir(agent.scratch.path("dir")).unwrap();
    agent.scratch.write("dir/private", "mine\n");
    fs::set_permissions(agent.scratch.path("dir/private"), fs::Permissions::from_mode(0o600)).unwrap();
    agent.scratch.write("open", "ours\n");
    let session = agent.new_session().await;
    let before = files(&agent);
    let command = "mv a.txt b.txt; mv dir moved; ln b.txt hard; ln -s b.txt soft; cp README.md new.sh; \
                   chmod 700 new.sh; chmod 640 open; mkdir -m 700 own; echo x > own/file; mv README.md own/; \
                   echo more >> own/README.md";
    run(&agent, &session, "move", command).await;
    let after = files(&agent);
    let undone = own(&agent, &session, "/undo").await;
    assert!(!undone.contains("not restored") && !undone.contains("stay"), "{undone}");
    assert_eq!(files(&agent), before);
    own(&agent, &session, "/redo").await;
    assert_eq!(files(&agent), after);
    agent.finish().await;
}

/// Kills the daemon, and returns the builder of another in its place.
async fn killed(mut agent: Agent) -> Builder {
    let builder = agent.successor();
    agent.signal(Signal::SIGKILL);
    agent.wait_exit().await;
    agent.allow_cut_output();
    agent.output_read().await;
    let left = process::gone(&agent.scratch.home).await;
    assert!(left.is_empty(), "processes outlive a killed daemon: {}", process::describe(&left));
    agent.forget().await;
    builder
}

#[tokio::test]
async fn a_step_that_was_killed_is_undone() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let before = files(&agent);
    agent.llm.reply(bash(
        "call_1",
        "echo half > half.txt; echo more >> a.txt; mv README.md moved; touch begun; sleep 600",
    ));
    agent.send_prompt(&session, "long");
    agent.scratch.appears("begun").await;
    let agent = killed(agent).await.start().await;
    agent.load(&session).await;
    let undone = own(&agent, &session, "/undo").await;
    assert!(undone.contains("Restored files:") && !undone.contains("stay"), "{undone}");
    assert_eq!(files(&agent), before);
    own(&agent, &session, "/redo").await;
    assert!(agent.scratch.exists("half.txt") && agent.scratch.exists("moved"));
    agent.finish().await;
}

#[tokio::test]
async fn what_the_user_changes_after_a_cancelled_step_is_not_undone_with_it() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(bash("call_1", "echo started; sleep 600"));
    let prompt = agent.send_prompt(&session, "long");
    let has_started = |update: &Value| update["content"].to_string().contains("started");
    agent.has_update(&session, "the command to print", has_started).await;
    agent.cancel(&session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    agent.scratch.write("README.md", "the user's\n");
    agent.llm.reply(Reply::text("on"));
    agent.prompt(&session, "on").await;
    let undone = own(&agent, &session, "/undo 2").await;
    assert!(undone.starts_with("Undone: \"long\"") && !undone.contains("files"), "{undone}");
    assert_eq!(agent.scratch.read("README.md"), "the user's\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_step_of_which_no_snapshot_is_left_is_said_to_be_unknown() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(bash("call_1", "echo more >> a.txt; touch begun; sleep 600"));
    agent.send_prompt(&session, "long");
    agent.scratch.appears("begun").await;
    let scratch = agent.scratch.clone();
    let builder = killed(agent).await;
    fs::remove_dir_all(scratch.home.join(".local/share/windlass/snapshot")).unwrap();
    let agent = builder.start().await;
    agent.load(&session).await;
    let undone = own(&agent, &session, "/undo").await;
    let told = "A step was interrupted, and the files that it changed are not known; they stay changed.";
    assert!(undone.ends_with(told), "{undone}");
    agent.finish().await;
}

#[tokio::test]
async fn only_what_the_undone_prompts_changed_is_restored_and_redo_brings_later_edits_back() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    run(&agent, &session, "change", "echo more >> a.txt").await;
    agent.scratch.write("README.md", "the user's\n");
    agent.scratch.write("a.txt", "one\ntwo\nthree\nmore\nof the user\n");
    own(&agent, &session, "/undo").await;
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(agent.scratch.read("README.md"), "the user's\n");
    own(&agent, &session, "/redo").await;
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\nmore\nof the user\n");
    // A change that is undone and then left behind stays undone.
    own(&agent, &session, "/undo").await;
    agent.llm.reply(Reply::text("on"));
    agent.prompt(&session, "on").await;
    assert_eq!(own(&agent, &session, "/redo").await, "There is nothing to redo.");
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\n");
    agent.finish().await;
}

#[tokio::test]
async fn the_work_of_subagents_and_of_cancelled_turns_is_undone_too() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", bash("call_2", "echo child > child.txt"));
    agent.llm.reply_to("CHILD", Reply::text("over"));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert!(agent.scratch.exists("child.txt"));
    agent.llm.reply(bash("call_3", "echo half > half.txt; touch begun; sleep 600"));
    let prompt = agent.send_prompt(&session, "long");
    agent.scratch.appears("begun").await;
    agent.cancel(&session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    own(&agent, &session, "/undo").await;
    assert!(!agent.scratch.exists("half.txt") && agent.scratch.exists("child.txt"));
    own(&agent, &session, "/undo").await;
    assert!(!agent.scratch.exists("child.txt"));
    agent.finish().await;
}

#[tokio::test]
async fn steps_have_patches_and_a_turn_ends_with_the_sessions_diff() {
    let agent = Agent::builder().spawn().await;
    agent
        .initialize_with(json!({"_meta": {"windlass/events": ["session.diff", "message.part.updated"]}}))
        .await;
    let session = agent.new_session().await;
    run(&agent, &session, "change", "echo four >> a.txt").await;
    let lines = agent.lines();
    let events = lines.iter().filter(|line| line.message["method"] == "_windlass/event");
    let events: Vec<Value> = events.map(|line| line.message["params"]["event"].clone()).collect();
    let parts = events.iter().map(|event| &event["properties"]["part"]);
    let patch = parts.clone().find(|part| part["type"] == "patch").expect("a patch part");
    assert_eq!(patch["files"], json!([agent.scratch.path("a.txt")]));
    let start = parts.clone().rfind(|part| part["type"] == "step-start" && part["snapshot"] == patch["hash"]);
    assert!(start.is_some(), "the tree before the step");
    let diff = events.iter().find(|event| event["type"] == "session.diff").expect("a diff");
    let file = &diff["properties"]["diff"][0];
    assert_eq!(
        json!([file["file"], file["additions"], file["deletions"], file["status"]]),
        json!(["a.txt", 1, 0, "modified"])
    );
    assert!(file["patch"].as_str().unwrap().ends_with("+four\n"), "{file}");
    agent.finish().await;
}

#[tokio::test]
async fn an_answer_is_shown_while_its_snapshot_is_taken() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    run(&agent, &session, "first", "echo more >> a.txt").await;
    let root = agent.scratch.home.join(".local/share/windlass/snapshot");
    let directory = fs::read_dir(root).unwrap().next().unwrap().unwrap().path();
    let lock = fs::File::open(directory.join("windlass.lock")).unwrap();
    lock.lock().unwrap();
    let gate = Gate::new();
    agent.llm.reply(bash("call_1", "rm a.txt").and_text("behind the call ").and_gate(&gate));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "second");
    agent.wait_text(&session, "behind the call ").await;
    gate.open();
    assert!(agent.scratch.exists("a.txt"), "the call waits for the snapshot");
    lock.unlock().unwrap();
    assert_eq!(prompt.turn().await.stop, "end_turn");
    assert!(!agent.scratch.exists("a.txt"));
    own(&agent, &session, "/undo").await;
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\nmore\n");
    agent.finish().await;
}

/// Has a step change files whose snapshot cannot be taken yet, and returns once the model has begun its next answer.
async fn answered_beside_a_snapshot(agent: &Agent, session: &str, next: Reply) -> (Pending, fs::File) {
    run(agent, session, "first", "echo more >> a.txt").await;
    let root = agent.scratch.home.join(".local/share/windlass/snapshot");
    let directory = fs::read_dir(root).unwrap().next().unwrap().unwrap().path();
    let lock = fs::File::open(directory.join("windlass.lock")).unwrap();
    let command = "rm a.txt; echo new > new.txt; touch begun; until [ -e go ]; do sleep 0.01; done";
    agent.llm.reply(bash("call_1", command));
    agent.llm.reply(next);
    let prompt = agent.send_prompt(session, "second");
    agent.scratch.appears("begun").await;
    lock.lock().unwrap();
    agent.scratch.write("go", "");
    agent.wait_text(session, "and then ").await;
    (prompt, lock)
}

/// An answer behind a step's call.
fn next() -> Reply {
    bash("call_2", "touch later").and_text("and then ")
}

async fn undo_to_first(agent: &Agent, session: &str) {
    let undone = own(agent, session, "/undo").await;
    assert!(undone.contains("Restored files:") && !undone.contains("stay"), "{undone}");
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\nmore\n");
    assert!(!agent.scratch.exists("new.txt") && !agent.scratch.exists("later"));
}

#[tokio::test]
async fn the_next_answer_comes_beside_the_snapshot_behind_a_step_and_its_calls_wait_for_it() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    let (prompt, lock) = answered_beside_a_snapshot(&agent, &session, next().and_gate(&gate)).await;
    gate.open();
    agent.has_update(&session, "the call", |update| update["toolCallId"] == "call_2").await;
    assert!(!agent.scratch.exists("later"));
    agent.llm.reply(Reply::text("done"));
    lock.unlock().unwrap();
    assert_eq!(prompt.turn().await.stop, "end_turn");
    assert!(agent.scratch.exists("later"));
    undo_to_first(&agent, &session).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_step_whose_snapshot_was_not_taken_before_a_kill_is_undone() {
    for is_cut_in_text in [true, false] {
        let agent = Agent::start().await;
        let session = agent.new_session().await;
        let gate = Gate::new();
        let next = if is_cut_in_text { next().and_gate(&gate) } else { next() };
        let (_, lock) = answered_beside_a_snapshot(&agent, &session, next).await;
        if !is_cut_in_text {
            agent.has_update(&session, "the call", |update| update["toolCallId"] == "call_2").await;
        }
        let builder = killed(agent).await;
        lock.unlock().unwrap();
        let agent = builder.start().await;
        agent.load(&session).await;
        undo_to_first(&agent, &session).await;
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_step_whose_snapshot_was_not_taken_before_a_cancel_is_undone() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let (prompt, lock) = answered_beside_a_snapshot(&agent, &session, next()).await;
    agent.has_update(&session, "the call", |update| update["toolCallId"] == "call_2").await;
    agent.cancel(&session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    lock.unlock().unwrap();
    undo_to_first(&agent, &session).await;
    agent.finish().await;
}

#[tokio::test]
async fn changes_of_the_user_during_the_next_answer_survive_an_undo_after_a_kill() {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"_meta": {"windlass/events": ["message.part.updated"]}})).await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(bash("call_1", "rm a.txt"));
    agent.llm.reply(Reply::text("done").and_gate(&gate));
    agent.send_prompt(&session, "go");
    let is_patch = |message: &Value| message["params"]["event"]["properties"]["part"]["type"] == "patch";
    agent.wait_for("the step's patch", is_patch).await;
    agent.scratch.write("README.md", "the user's\n");
    let agent = killed(agent).await.start().await;
    agent.load(&session).await;
    own(&agent, &session, "/undo").await;
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(agent.scratch.read("README.md"), "the user's\n");
    agent.finish().await;
}

#[tokio::test]
async fn where_there_are_no_snapshots_undo_says_why() {
    let agent = Agent::start_with(json!({"snapshot": false})).await;
    let session = agent.new_session().await;
    run(&agent, &session, "change", "echo more >> a.txt").await;
    let undone = own(&agent, &session, "/undo").await;
    assert!(undone.contains("Files are not restored: `snapshot` is false in the configuration."), "{undone}");
    assert!(agent.scratch.read("a.txt").ends_with("more\n"));
    assert!(!agent.scratch.home.join(".local/share/windlass/snapshot").exists());
    agent.finish().await;

    let agent = Agent::start().await;
    fs::remove_dir_all(agent.scratch.work.join(".git")).unwrap();
    let session = agent.new_session().await;
    run(&agent, &session, "change", "echo more >> a.txt").await;
    let undone = own(&agent, &session, "/undo").await;
    assert!(undone.contains("Files are not restored: snapshots need a git repository."), "{undone}");
    agent.finish().await;
}

#[tokio::test]
async fn nothing_is_restored_while_git_cannot_say_what_the_user_changed() {
    let scratch = Scratch::new();
    let bin = scratch.home.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let path = std::env::var("PATH").unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *diff-tree*) [ -e '{}' ] && echo 'out of memory' >&2 && exit 128;; esac\n\
         PATH='{path}' exec git \"$@\"\n",
        scratch.path("faulty")
    );
    fs::write(bin.join("git"), script).unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let builder = Agent::builder().scratch(&scratch);
    let agent = builder.env("PATH", &format!("{}:{path}", bin.display())).start().await;
    let session = agent.new_session().await;
    run(&agent, &session, "first", "echo A >> a.txt").await;
    run(&agent, &session, "second", "echo B >> other.txt").await;
    own(&agent, &session, "/undo").await;
    agent.scratch.write("a.txt", "mine\n");
    agent.scratch.write("faulty", "");
    let undone = own(&agent, &session, "/undo").await;
    assert!(undone.contains("Files are not restored: git failed: out of memory"), "{undone}");
    assert_eq!(agent.scratch.read("a.txt"), "mine\n");
    agent.finish().await;
}

#[tokio::test]
async fn files_without_a_snapshot_are_named() {
    let agent = Agent::start_with(json!({"windlass": {"file_time": false}})).await;
    let session = agent.new_session().await;
    agent.scratch.write(".gitignore", "private.txt\n");
    let write = json!({"filePath": agent.scratch.path("private.txt"), "content": "new\n"});
    agent.llm.reply(Reply::call("call_1", "write", write));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "write").await;
    let undone = own(&agent, &session, "/undo").await;
    let named = format!(
        "These files are not restored, because no snapshot shows their changes:\n- `{}`",
        agent.scratch.path("private.txt")
    );
    assert!(undone.ends_with(&named), "{undone}");
    assert_eq!(own(&agent, &session, "/redo").await, "Put back: \"write\" with its answers.");
    agent.finish().await;
}

#[tokio::test]
async fn files_that_no_snapshot_held_are_named_by_undo() {
    let agent = Agent::start().await;
    agent.scratch.write("large.bin", "x".repeat(3 << 20));
    let session = agent.new_session().await;
    run(&agent, &session, "fill", "head -c 3000000 /dev/zero > large.bin; echo more >> a.txt").await;
    let undone = own(&agent, &session, "/undo").await;
    let (large, small) = (agent.scratch.path("large.bin"), agent.scratch.path("a.txt"));
    let (restored, left) = undone.split_once("These files are not restored").expect("a list of them");
    assert!(restored.contains(&small) && !restored.contains(&large), "{undone}");
    assert!(left.contains(&large) && !left.contains(&small), "{undone}");
    assert_eq!(agent.scratch.read("a.txt"), "one\ntwo\nthree\n");
    assert_eq!(fs::metadata(&large).unwrap().len(), 3_000_000);
    let redone = own(&agent, &session, "/redo").await;
    assert!(redone.contains(&small) && !redone.contains(&large), "{redone}");
    agent.finish().await;
}
