//! The check by which the registry of ACP agents lists an agent.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::Command,
};

use crate::support::{agent::binary, scratch::Scratch};

#[tokio::test]
async fn the_first_line_of_a_bare_environment_is_the_answer_with_a_way_to_log_in() {
    let scratch = Scratch::new();
    let mut agent = Command::new(binary())
        .arg("acp")
        .env_clear()
        .env("WINDLASS_TRUST", "1")
        .env("HOME", &scratch.home)
        .env("TERM", "dumb")
        .current_dir(scratch.cwd())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": 1,
        "clientInfo": {"name": "Validator", "version": "1.0.0"},
        "clientCapabilities": {
            "terminal": true,
            "fs": {"readTextFile": true, "writeTextFile": true},
            "_meta": {"terminal_output": true, "terminal-auth": true},
        },
    }});
    let mut stdin = agent.stdin.take().unwrap();
    stdin.write_all(format!("{request}\n").as_bytes()).await.unwrap();
    let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines();
    let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(1), &json!(1)));
    let methods = answer["result"]["authMethods"].as_array().unwrap();
    // A method without a type is the agent's own.
    assert!(methods.iter().any(|method| method["type"].as_str().unwrap_or("agent") == "agent"), "{answer}");
    drop(stdin);
    assert_eq!(lines.next_line().await.unwrap(), None);
    assert_eq!(agent.wait().await.unwrap().code(), Some(0));
}
