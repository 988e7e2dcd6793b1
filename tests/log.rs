//! The log: its file, its lines, and `windlass log`.

use std::{path::PathBuf, process::Stdio};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use crate::{
    cli::Machine,
    config_layers::Shell,
    support::{
        agent::{Agent, binary},
        llm::Reply,
        scratch::Scratch,
    },
};

fn log_file(scratch: &Scratch) -> PathBuf {
    scratch.home.join(".local/share/windlass/log/windlass.log")
}

#[tokio::test]
async fn turns_steps_calls_and_requests_have_a_line_each_with_its_duration() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo hi"})));
    machine.llm.reply(Reply::text("done"));
    let ran = machine.run(&["run", "go"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let shown = machine.run(&["log", "--format", "json"]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let entries: Vec<Value> = shown.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let texts: Vec<&str> = entries.iter().map(|entry| entry["text"].as_str().unwrap()).collect();
    for (text, n_lines) in [
        ("a turn ended session=ses_", 1),
        ("a step ended session=ses_", 2),
        ("a tool call ended session=ses_", 1),
    ] {
        let found: Vec<_> = texts.iter().filter(|it| it.starts_with(text)).collect();
        assert_eq!(found.len(), n_lines, "{text}: {texts:#?}");
        assert!(found.iter().all(|it| it.contains(" duration=")), "{found:?}");
    }
    // One more than steps: a title may be asked for beside them.
    assert!(texts.iter().filter(|it| it.starts_with("a provider request ended model=")).count() >= 2);
    for entry in &entries {
        assert_eq!(entry["level"], "info");
        assert!(entry["time"].as_str().unwrap().ends_with('Z') && entry["process"].is_u64(), "{entry}");
    }
    let shown = machine.run(&["log", "-n", "1"]).await;
    assert_eq!(shown.stdout.lines().count(), 1);
    let shown = machine.run(&["log", "-n", "0"]).await;
    assert_eq!((shown.code, shown.stdout, shown.stderr), (Some(0), String::new(), String::new()));
    let shown = machine.run(&["log", "--level", "WARN"]).await;
    assert_eq!(shown.stdout, "");
    assert!(shown.stderr.starts_with("No line of the log in "), "{shown:?}");
    assert_eq!(shown.code, Some(0));
}

#[tokio::test]
async fn what_is_secret_is_not_in_the_file_which_only_its_owner_reads() {
    use std::os::unix::fs::PermissionsExt;

    let scratch = Scratch::new();
    let url = "https://u:hunter22@server.invalid/?token=hunter22";
    scratch.write("opencode.json", json!({"instructions": [url], "theme": 5, "$schema": 7}).to_string());
    let mut shell = Shell::new(&scratch);
    shell.variables.push(("OPENCODE_AUTH_CONTENT".to_owned(), "ghp_0123456789abcdefghij".to_owned()));
    shell.run(&["session", "list"]).await;
    shell.run(&["models"]).await;
    shell.run(&["run", "-m", "ghp_0123456789abcdefghij/https://u:hunter22@x", "hi"]).await;
    let file = log_file(&scratch);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(!text.contains("hunter22") && !text.contains("ghp_"), "{text}");
    assert!(!text.is_empty());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_one_warning_and_fails_nothing() {
    let scratch = Scratch::new();
    let data = scratch.home.join(".local/share/windlass");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("log"), "in the way").unwrap();
    let agent = Agent::builder().scratch(&scratch).start().await;
    let session = agent.new_session().await;
    for _ in 0..2 {
        agent.llm.reply(Reply::text("ok"));
        assert_eq!(agent.prompt(&session, "go").await.stop, "end_turn");
    }
    agent.wait_stderr("the log cannot be written to").await;
    assert_eq!(agent.stderr().matches("the log cannot be written").count(), 1, "{}", agent.stderr());
    agent.finish().await;
}

#[tokio::test]
async fn following_shows_what_is_added_until_it_is_interrupted() {
    let scratch = Scratch::new();
    let mut command = Command::new(binary());
    command
        .args(["log", "-f"])
        .current_dir(&scratch.work)
        .env_clear()
        .env("WINDLASS_TRUST", "1")
        .env("HOME", &scratch.home);
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    std::fs::create_dir_all(log_file(&scratch).parent().unwrap()).unwrap();
    let line = |text: &str| format!("2026-11-22T10:20:37.123Z INFO  1 {text}\n");
    std::fs::write(log_file(&scratch), line("one")).unwrap();
    assert!(lines.next_line().await.unwrap().unwrap().ends_with("INFO  one"));
    // As the rotation does it.
    std::fs::rename(log_file(&scratch), log_file(&scratch).with_file_name("windlass.1.log")).unwrap();
    std::fs::write(log_file(&scratch), line("two")).unwrap();
    assert!(lines.next_line().await.unwrap().unwrap().ends_with("INFO  two"));
    let id = nix::unistd::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn without_a_log_a_sentence_names_its_place() {
    let scratch = Scratch::new();
    let (stdout, stderr, code) = Shell::new(&scratch).run(&["log"]).await;
    assert_eq!((stdout.as_str(), code), ("", Some(0)));
    assert!(stderr.starts_with("The log in ") && stderr.ends_with(" is empty.\n"), "{stderr}");
    let (_, stderr, code) = Shell::new(&scratch).run(&["log", "--level", "loud"]).await;
    assert_eq!(code, Some(2), "{stderr}");
    std::fs::create_dir_all(log_file(&scratch)).unwrap();
    let (_, stderr, code) = Shell::new(&scratch).run(&["log"]).await;
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("cannot be read: Is a directory."), "{stderr}");
}
