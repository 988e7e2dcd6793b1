//! Failures around `windlass run`: one sentence, the right exit code, nothing left running.

use std::{os::unix::fs::PermissionsExt, process::Stdio};

use serde_json::json;

use crate::{
    cli::{Machine, ended, signal},
    support::llm::{Gate, Reply},
};
use nix::sys::signal::Signal;

#[tokio::test]
async fn a_dead_mcp_server_is_told_and_the_run_goes_on() {
    let server = json!({"dead": {"type": "local", "command": ["/bin/sh", "-c", "exit 3"]}});
    let machine = Machine::new().await.with("mcp", server);
    machine.llm.reply(Reply::text("Without it."));
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Without it.\n"), "{ended:?}");
    let told: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("dead")).collect();
    assert_eq!(told.len(), 1, "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_hanging_provider_is_interrupted() {
    let machine = Machine::new().await;
    let gate = Gate::new();
    machine.llm.reply(Reply::hang(&gate));
    let child = machine.start(&["run", "go"]);
    gate.reached().await;
    signal(&child, Signal::SIGHUP);
    let ended = ended(child).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(129), ""), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_store_that_cannot_be_written_is_told_in_a_sentence() {
    let machine = Machine::new().await;
    let home = machine.scratch.root().join("locked");
    std::fs::create_dir(&home).unwrap();
    // A file in the store's place cannot be written by anybody, root included.
    std::fs::create_dir(home.join("windlass.db")).unwrap();
    std::fs::set_permissions(&home, PermissionsExt::from_mode(0o500)).unwrap();
    let mut command = machine.command(&["run", "go"]);
    let child = command.env("WINDLASS_HOME", &home).stdin(Stdio::null()).spawn().unwrap();
    let ended = ended(child).await;
    std::fs::set_permissions(&home, PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    let told: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("the store ")).collect();
    assert!(told.len() == 1 && told[0].contains("windlass.db"), "{ended:?}");
    assert_eq!(machine.llm.requests().len(), 0);
    machine.finish().await;
}
