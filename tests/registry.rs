//! The registry of ACP agents: the entry that `make dist` writes, and the check by which the registry lists an agent.

use std::{path::Path, process::Stdio};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::Command,
};

use crate::support::{agent::binary, scratch::Scratch, skip::lacks_program};

async fn packed(scratch: &Scratch, addresses: [&str; 2]) -> std::process::Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    scratch.write("windlass", "the program");
    Command::new(root.join(".ci/dist"))
        .args([scratch.path("windlass"), scratch.path("dist")])
        .args(addresses)
        .output()
        .await
        .unwrap()
}

#[tokio::test]
async fn the_entry_names_the_archives_that_are_there_by_their_version() {
    if lacks_program("cargo") {
        return;
    }
    let scratch = Scratch::new();
    let version = env!("CARGO_PKG_VERSION");
    // From another machine, and of another version.
    scratch.write(&format!("dist/windlass-{version}-darwin-aarch64.tar.gz"), "");
    scratch.write("dist/windlass-0.0.9-linux-x86_64.tar.gz", "");
    let done = packed(&scratch, ["https://h.example/download/", "https://h.example/windlass"]).await;
    assert!(done.status.success(), "{done:?}");
    let entry: Value = serde_json::from_str(&scratch.read("dist/registry/windlass/agent.json")).unwrap();
    assert_eq!((&entry["id"], &entry["version"]), (&json!("windlass"), &json!(version)));
    for field in ["name", "description", "repository", "website", "license", "license_url"] {
        assert!(entry[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {entry}");
    }
    assert!(entry["authors"].as_array().is_some_and(|authors| !authors.is_empty()), "{entry}");
    let binaries = entry["distribution"]["binary"].as_object().unwrap();
    assert_eq!(binaries.len(), 2, "{entry}");
    for (platform, target) in binaries {
        let archive = format!("windlass-{version}-{platform}.tar.gz");
        assert!(scratch.exists(&format!("dist/{archive}")), "{platform}");
        let url = format!("https://h.example/download/v{version}/{archive}");
        let digest = Sha256::digest(std::fs::read(scratch.path(&format!("dist/{archive}"))).unwrap());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(*target, json!({"archive": url, "cmd": "./windlass", "args": ["acp"], "sha256": digest}));
    }
    let icon = scratch.read("dist/registry/windlass/icon.svg");
    assert!(icon.contains(r#"width="16" height="16""#) && icon.contains("currentColor"), "{icon}");
    assert!(!icon.contains('#') && !icon.contains("rgb"), "{icon}");

    let refused = packed(&scratch, ["h.example", "https://h.example/windlass"]).await;
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Usage: dist BINARY DIST RELEASES REPOSITORY"));
}

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
