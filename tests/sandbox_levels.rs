//! The sandbox on machines that hold less, and the daemon's protection without one.

use std::{process::Command, sync::Arc};

use serde_json::{Value, json};

use crate::{
    cli::Machine,
    sandbox::{NOBODY, lacks},
    support::{
        agent::{Agent, Answer, Builder, binary},
        llm::Reply,
        outside::{is_open_to_everybody, outside},
        scratch::Scratch,
        skip::{lacks_landlock, skipped},
    },
};

/// Returns an agent on a machine that holds less: each launcher around it is one layer of Landlock and takes
/// namespaces away, and the kernel holds sixteen layers.
pub fn lesser(scratch: &Arc<Scratch>, n_layers: usize, sandbox: Value) -> Builder {
    let program = binary();
    let work = scratch.work.to_str().unwrap();
    let layer = [program.to_str().unwrap(), "sandbox", "landlock", "allow", "w/", "--", work];
    let config = json!({"windlass": {"sandbox": sandbox}});
    Agent::builder().scratch(scratch).config(config).started_by(&layer.repeat(n_layers))
}

#[tokio::test]
async fn without_a_level_every_command_asks_where_a_mode_was_asked_for() {
    if lacks_landlock() {
        return;
    }
    let scratch = Scratch::new();
    let sandbox = json!({"mode": "workspace-write", "ask_less": true, "mcp": {"mode": "read-only"}});
    let builder = lesser(&scratch, 16, sandbox).answering(Answer::RejectOnce);
    let agent = builder.env("OPENCODE_EXPERIMENTAL_LSP_TOOL", "1").spawn().await;
    let answer = agent.initialize_with(json!({})).await;
    assert_eq!(answer["agentCapabilities"]["_meta"]["windlass/sandbox"]["level"], "none");
    let server = json!({"name": "shop", "command": "cat", "args": [], "env": []});
    let params = json!({"cwd": scratch.cwd(), "mcpServers": [server]});
    let session =
        agent.request("session/new", params).await.unwrap()["sessionId"].as_str().unwrap().to_owned();
    agent
        .wait_stderr("MCP server shop could not be started with cat: this machine cannot hold its sandbox")
        .await;
    // A refused question ends the turn.
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
    agent.prompt(&session, "go").await;
    assert!(agent.n_asked() == 1 && !scratch.exists("made"));
    assert_eq!(agent.asks()[0].call()["title"], "run outside the sandbox: touch made");
    // Nobody asked for an agent that only reads.
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    let told = agent.told(&session, "bash", json!({"command": "echo plain"})).await;
    assert!(told.contains("plain") && agent.n_asked() == 1, "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn landlock_alone_holds_commands_and_skips_no_question() {
    if lacks_landlock() {
        return;
    }
    let scratch = Scratch::new();
    let sandbox = json!({"mode": "workspace-write", "ask_less": true, "network": "loopback"});
    let data = scratch.home.join(".local/share/windlass");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("auth.json"), r#"{"x": {"type": "api", "key": "hidden-key"}}"#).unwrap();
    let outside = outside();
    let asking = json!({"permission": {"bash": {"touch *": "ask"}}});
    let agent =
        lesser(&scratch, 1, sandbox.clone()).config(asking).answering(Answer::RejectOnce).start().await;
    let session = agent.new_session().await;
    // A refused question ends the turn.
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
    agent.prompt(&session, "go").await;
    assert!(agent.n_asked() == 1 && !scratch.exists("made"), "a rule that asks is not skipped");
    agent.finish().await;

    let permission = json!({"permission": {"external_directory": "allow"}});
    let builder = lesser(&scratch, 1, sandbox).config(permission).env("SECRET_API_KEY", "very-secret");
    let agent = builder.answering(Answer::RejectOnce).spawn().await;
    let answer = agent.initialize_with(json!({})).await;
    assert_eq!(answer["agentCapabilities"]["_meta"]["windlass/sandbox"]["level"], "landlock");
    let session = agent.new_session().await;
    let look =
        format!("env; cat /proc/{}/environ {}/auth.json; echo y > inside", agent.pid(), data.display());
    let told = agent.told(&session, "bash", json!({"command": look})).await;
    assert!(!told.contains("very-secret") && !told.contains("hidden-key"), "{told}");
    assert!(scratch.exists("inside"));
    let (n_asked, wanted) = (agent.n_asked(), outside.path().join("wanted"));
    let write = json!({"command": format!("echo x > '{}'", wanted.display())});
    let told = agent.told(&session, "bash", write).await;
    assert!(told.contains("Permission denied") && told.contains("failed in a sandbox"), "{told}");
    assert!(agent.n_asked() == n_asked + 1 && !wanted.exists());
    let connect = json!({"command": "python3 -c 'import socket; socket.socket(socket.AF_INET)'"});
    let told = agent.told(&session, "bash", connect).await;
    assert!(told.contains("PermissionError"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn the_daemon_hides_its_memory_and_variables_from_its_own_user() {
    if !nix::unistd::geteuid().is_root() {
        return skipped("only root can be another user");
    }
    if !is_open_to_everybody(&binary()) {
        return skipped("another user cannot reach the program");
    }
    let scratch = Scratch::new();
    let owned = Command::new("chown").args(["-R", "65534:65534"]).arg(scratch.root()).status().unwrap();
    assert!(owned.success());
    let nobody = NOBODY.to_string();
    let drop = ["setpriv", "--reuid", &nobody, "--regid", &nobody, "--clear-groups"];
    let config = json!({"permission": {"external_directory": "allow"}});
    let agent = Agent::builder().scratch(&scratch).config(config).started_by(&drop).start().await;
    let session = agent.new_session().await;
    let pid = agent.pid();
    // On one pipe: output from two may share a line.
    let look = format!(
        "exec 2>&1; id -u; cat /proc/{pid}/environ > seen; wc -c < seen; head -c 1 /proc/{pid}/mem; ls /proc/{pid}/fd; true"
    );
    let told = agent.told(&session, "bash", json!({"command": look})).await;
    assert!(["65534", "0"].iter().all(|line| told.lines().any(|it| it == *line)), "{told}");
    for name in ["environ", "mem", "fd"] {
        let is_refused =
            |line: &str| line.contains(&format!("/{name}")) && line.ends_with("Permission denied");
        assert!(told.lines().any(is_refused), "{name}: {told}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_command_inherits_no_descriptor() {
    let scratch = Scratch::new();
    scratch.write("private", "x");
    let open = format!("exec 9<{}; exec \"$@\"", scratch.path("private"));
    for mode in ["off", "workspace-write"] {
        let config = json!({"windlass": {"sandbox": {"mode": mode}}});
        let builder = Agent::builder().scratch(&scratch).config(config);
        let agent =
            builder.started_by(&["bash", "-c", &open, "bash"]).answering(Answer::AllowOnce).start().await;
        let session = agent.new_session().await;
        let told = agent.told(&session, "bash", json!({"command": "echo /proc/$$/fd/*"})).await;
        let names: Vec<&str> = told.split_whitespace().filter_map(|path| path.rsplit('/').next()).collect();
        let inherited: Vec<&&str> =
            names.iter().filter(|name| !["0", "1", "2", "255"].contains(*name)).collect();
        // The shell itself holds the directory that it lists.
        assert!(inherited.len() <= 1 && !names.contains(&"9"), "{mode}: {told}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn auto_bounds_commands_unless_it_is_told_otherwise() {
    if lacks("full") {
        return;
    }
    let outside = outside();
    let wanted = outside.path().join("wanted");
    let machine = Machine::new().await;
    let write = json!({"command": format!("echo x > {}", wanted.display()), "description": "writes"});
    let run = async |machine: &Machine, options: &[&str]| {
        machine.llm.reply(Reply::call("call_1", "bash", write.clone()));
        machine.llm.reply(Reply::text("done"));
        machine.run(&[&["run"], options, &["go"]].concat()).await
    };
    let ended = run(&machine, &["--auto"]).await;
    assert!(ended.code == Some(3) && !wanted.exists(), "{ended:?}");
    assert!(ended.stderr.contains("Commands run in the sandbox workspace-write (level full)"), "{ended:?}");
    let ended = run(&machine, &["--auto", "--no-sandbox"]).await;
    assert!(ended.code == Some(0) && wanted.exists(), "{ended:?}");
    std::fs::remove_file(&wanted).unwrap();
    let machine = machine.with("windlass", json!({"sandbox": {"mode": "off"}}));
    let ended = run(&machine, &["--auto"]).await;
    assert!(ended.code == Some(0) && wanted.exists(), "{ended:?}");
    assert!(!ended.stderr.contains("sandbox"), "{ended:?}");
    std::fs::remove_file(&wanted).unwrap();
    let machine = machine.with("windlass", json!({"sandbox": {"required": true, "mode": "off"}}));
    let ended = run(&machine, &["--auto", "--no-sandbox"]).await;
    assert!(!wanted.exists(), "{ended:?}");
    machine.finish().await;
}
