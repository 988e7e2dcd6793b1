//! Nodes of a fleet: each on a machine of its own, with one Postgres and one model for all.

use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    agent::{Agent, Builder, binary, merge},
    llm::{Llm, Wire, provider_config},
    postgres::Postgres,
    scratch::Scratch,
    server::{Server, own_port},
};

/// Returns a node on a machine of its own, which speaks with the same model as the others.
pub fn node(postgres: &Postgres, llm: &Llm, name: &str, ack: &str) -> Builder {
    Agent::builder().llm(llm).config(json!({"windlass": {"shared": postgres.shared(name, ack)}}))
}

/// A server that is a node under an address of its own.
pub async fn server(postgres: &Postgres, llm: &Llm, name: &str, bash: &str) -> Server {
    let port = own_port();
    let mut shared = postgres.shared(name, "shared");
    shared["address"] = format!("http://127.0.0.1:{port}").into();
    Server::builder()
        .llm(llm)
        .arguments(&["--port", &port.to_string()])
        .config("windlass", json!({"shared": shared}))
        .config("permission", json!({"bash": bash}))
        .start()
        .await
}

/// Runs a command of the terminal and returns what it printed.
pub async fn cli(scratch: &Scratch, llm: &Llm, config: &Value, arguments: &[&str]) -> String {
    let mut whole = provider_config(llm, Wire::OpenAi);
    merge(&mut whole, config.clone());
    let output = Command::new(binary())
        .args(arguments)
        .current_dir(&scratch.work)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("HOME", &scratch.home)
        .env("OPENCODE_CONFIG_CONTENT", whole.to_string())
        .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
        .output()
        .await
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || arguments == ["doctor"], "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}
