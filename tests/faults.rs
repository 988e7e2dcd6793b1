//! Disks that fail under the store: the turn ends with a sentence, the daemon serves on, and nothing shown is lost.

use std::{fs, path::PathBuf, process::Command};

use serde_json::json;

use crate::{
    cli::Machine,
    disks::mounted,
    support::{
        agent::{Agent, binary},
        llm::{Gate, Reply},
        message::text,
        skip::skipped,
    },
};

const DATA: &str = ".local/share/windlass";

/// Returns a path in the data directory as the agent sees it.
fn seen(agent: &Agent, name: &str) -> PathBuf {
    let home = agent.scratch.home.strip_prefix("/").unwrap();
    PathBuf::from(format!("/proc/{}/root", agent.pid())).join(home).join(DATA).join(name)
}

/// Sends a prompt that fails, and returns the sentence.
async fn failed(agent: &Agent, session: &str, prompt: &str) -> String {
    let error = agent.send_prompt(session, prompt).answer().await.unwrap_err();
    assert_eq!(error.code, -32603, "{error:?}");
    error.message
}

/// Checks that everything is there that was said, and that the session goes on.
async fn goes_on(agent: &Agent, session: &str, said: &str) {
    agent.llm.reply(Reply::text("back"));
    assert_eq!(agent.prompt(session, "again").await.text(), "back");
    let shown = agent.load(session).await;
    let shown = text(&shown, "agent_message_chunk");
    assert!(shown.starts_with(said) && shown.ends_with("back"), "{} bytes", shown.len());
}

#[tokio::test]
async fn a_full_disk_ends_the_turn_and_nothing_shown_is_lost() {
    let script = "mkdir -p $HOME/.local/share/windlass; mount -t tmpfs -o size=3m,mode=700 tmpfs $HOME/.local/share/windlass";
    let Some((agent, session)) = mounted(script, json!({"snapshot": false})).await else { return };
    agent.llm.reply(Reply::text("before "));
    agent.prompt(&session, "first").await;
    let filler = seen(&agent, "filler");
    let fill = || {
        let full = fs::write(&filler, vec![0; 4 << 20]).unwrap_err();
        assert_eq!(full.raw_os_error(), Some(28), "{full}");
    };
    // In the middle of an answer.
    let gate = Gate::new();
    let more: String = "more ".repeat(20_000);
    agent.llm.reply(Reply::text("begun ").and_gate(&gate).and_text(&more));
    let prompt = agent.send_prompt(&session, "second");
    agent.wait_text(&session, "begun ").await;
    fill();
    gate.open();
    let error = prompt.answer().await.unwrap_err();
    let path = agent.scratch.home.join(DATA).join("windlass.db");
    let told = format!("the disk with the store {} is full; free some space and repeat", path.display());
    assert_eq!(error.message, told);
    let live = text(&agent.updates(&session), "agent_message_chunk");
    // At the beginning of a turn.
    assert_eq!(failed(&agent, &session, "third").await, told);
    fs::remove_file(&filler).unwrap();
    goes_on(&agent, &session, &live).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_full_disk_under_a_store_that_is_opened_is_named_and_doctor_sees_it() {
    if !Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success()) {
        return skipped("this machine gives users no mount namespaces");
    }
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("before"));
    let script = "D=$HOME/.local/share/windlass; mkdir -p \"$D\"; mount -t tmpfs -o size=3m,mode=700 tmpfs \"$D\"; \
                  \"$1\" run first; dd if=/dev/zero of=\"$D/filler\" bs=4k 2>/dev/null; \
                  \"$1\" run second; \"$1\" session list; \"$1\" doctor";
    let command = machine.command(&[]);
    let output = tokio::process::Command::new("unshare")
        .args(["-Urm", "sh", "-c", script, "sh"])
        .arg(binary())
        .current_dir(&machine.scratch.work)
        .env_clear()
        .envs(command.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))))
        .output()
        .await
        .unwrap();
    let (printed, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(printed.starts_with("before\n"), "{printed}{told}");
    assert!(!told.contains("disk I/O error") && !printed.contains("disk I/O error"), "{printed}{told}");
    let full = told.lines().filter(|line| line.contains("full") && line.contains("free some space"));
    assert!(full.count() >= 1, "{printed}{told}");
    // Where a file of SQLite's is left over, the store can still be read.
    assert!(printed.contains("0 bytes are free") && !printed.contains("is damaged"), "{printed}{told}");
    machine.finish().await;
}

#[tokio::test]
async fn a_disk_that_fails_is_named_and_used_again() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("before "));
    agent.prompt(&session, "first").await;
    let limit = |bytes: &str| {
        let pid = agent.pid().to_string();
        let status = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}:")]).status();
        assert!(status.unwrap().success());
    };
    // Writes behind this byte of any file fail.
    limit("8192");
    let path = agent.scratch.home.join(DATA).join("windlass.db");
    let error = failed(&agent, &session, "second").await;
    let named = format!("the disk with the store {} failed", path.display());
    assert!(error.starts_with(&named) && error.contains("check the disk"), "{error}");
    limit("unlimited");
    goes_on(&agent, &session, "before ").await;
    agent.finish().await;
}

#[tokio::test]
async fn a_home_that_becomes_read_only_is_named_and_used_again() {
    let script = "mkdir -p $HOME/.local/share/windlass";
    let Some((agent, session)) = mounted(script, json!({"snapshot": false})).await else { return };
    agent.llm.reply(Reply::text("before "));
    agent.prompt(&session, "first").await;
    let directory = agent.scratch.home.join(DATA);
    let pid = agent.pid().to_string();
    let inside = |script: &str| {
        let namespaces = ["-U", "--preserve-credentials", "-m", "-t", &pid, "sh", "-ec", script, "sh"];
        let status = Command::new("nsenter").args(namespaces).arg(&directory).status();
        assert!(status.unwrap().success(), "{script}");
    };
    // A disk that its system has made read-only fails for open files too; a mount over them cannot show that.
    let limit = |bytes: &str| {
        let status = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}:")]).status();
        assert!(status.unwrap().success());
    };
    inside("mount --bind \"$1\" \"$1\"; mount -o remount,ro,bind \"$1\"");
    limit("8192");
    let told = format!("the store {} cannot be written", directory.join("windlass.db").display());
    let error = failed(&agent, &session, "second").await;
    assert!(error.starts_with(&told) && error.contains("WINDLASS_HOME"), "{error}");
    // Reading goes on.
    assert_eq!(text(&agent.load(&session).await, "agent_message_chunk"), "before ");
    limit("unlimited");
    inside("umount \"$1\"");
    goes_on(&agent, &session, "before ").await;
    agent.finish().await;
}

#[tokio::test]
async fn a_home_that_cannot_be_written_is_named() {
    let script = "mkdir -p $HOME/.local/share/windlass; mount -t tmpfs -o ro,mode=700 tmpfs $HOME/.local/share/windlass; \
        mkdir $WORK/free";
    let Some(agent) = crate::disks::mounted_agent(script, json!({})).await else { return };
    let error = agent.request("session/new", agent.session_params()).await.unwrap_err();
    let path = agent.scratch.home.join(DATA).join("windlass.db");
    let told = format!("the store {} cannot be opened: Read-only file system", path.display());
    assert!(error.message.starts_with(&told) && error.message.contains("WINDLASS_HOME"), "{error:?}");
    // The daemon serves on.
    assert_eq!(agent.request("session/list", json!({})).await.unwrap_err().message, error.message);
    agent.finish().await;
}

#[tokio::test]
async fn a_lock_in_the_middle_of_an_answer_ends_the_turn_and_nothing_shown_is_lost() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("begun ").and_gate(&gate).and_text("and done"));
    let prompt = agent.send_prompt(&session, "go");
    agent.wait_text(&session, "begun ").await;
    let other = rusqlite::Connection::open(agent.scratch.home.join(DATA).join("windlass.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    gate.open();
    let error = prompt.answer().await.unwrap_err();
    assert!(error.message.contains("windlass.db locked; end it and repeat"), "{error:?}");
    let live = text(&agent.updates(&session), "agent_message_chunk");
    other.execute_batch("ROLLBACK").unwrap();
    goes_on(&agent, &session, &live).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_hundred_writers_in_two_daemons_share_one_store() {
    let agent_1 = Agent::start().await;
    let agent_2 = agent_1.successor().start().await;
    let mut turns = Vec::new();
    for n in 0..100 {
        let agent = if n % 2 == 0 { &agent_1 } else { &agent_2 };
        let session = agent.new_session().await;
        let call = json!({"filePath": agent.scratch.path("a.txt")});
        agent_1.llm.reply_to(
            &format!("<{n}>"),
            Reply::deltas([format!("begun {n} "), "on ".into()]).and_call("call_1", "read", call),
        );
        agent_1.llm.reply_to(&format!("<{n}>"), Reply::text(&format!("done {n}")));
        turns.push((n, agent, session));
    }
    let prompts: Vec<_> =
        turns.iter().map(|(n, agent, session)| agent.send_prompt(session, &format!("<{n}>"))).collect();
    for (prompt, (n, ..)) in prompts.iter().zip(&turns) {
        let turn = prompt.turn().await;
        assert_eq!((turn.stop.as_str(), turn.text()), ("end_turn", format!("begun {n} on done {n}")));
    }
    // Each is read in the daemon that did not write it.
    for (n, agent, session) in &turns {
        let other = if agent.pid() == agent_1.pid() { &agent_2 } else { &agent_1 };
        let shown = other.load(session).await;
        assert_eq!(text(&shown, "agent_message_chunk"), format!("begun {n} on done {n}"));
    }
    drop(turns);
    agent_1.finish_beside(&agent_2).await;
    agent_2.finish().await;
}
