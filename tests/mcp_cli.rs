//! `windlass mcp list`: the state of each server, and the reason for it.

use serde_json::{Value, json};

use crate::{cli::Machine, mcp::named};

#[tokio::test]
async fn each_server_is_listed_with_its_tools_or_the_reason() {
    let machine = Machine::new().await;
    let shop = named("shop", "good");
    let command = json!(["python3", shop["args"][0], shop["args"][1]]);
    let servers = json!({
        "shop": {"type": "local", "command": command, "environment": {"SHOP": "open"}},
        "ghost": {"type": "local", "command": ["no-such-program", "--token", "hunter22hunter22"]},
        "gone": {"type": "remote", "url": "http://u:hunter22@127.0.0.1:9/mcp?token=hunter22"},
        "off": {"type": "local", "command": ["x"], "enabled": false},
    });
    let machine = machine.with("mcp", servers);
    let listed = machine.run(&["mcp", "list", "--format", "json"]).await;
    assert_eq!(listed.code, Some(1), "{listed:?}");
    assert_eq!(listed.stderr, "");
    assert!(!listed.stdout.contains("hunter22"), "{}", listed.stdout);
    let rows: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
    let status = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap();
    assert_eq!(status("shop")["status"], "connected");
    assert!(!status("shop")["tools"].as_array().unwrap().is_empty());
    assert_eq!(status("ghost")["status"], "failed");
    assert_eq!(
        status("ghost")["reason"],
        "MCP server ghost could not be started: install no-such-program or correct the command"
    );
    assert_eq!(status("gone")["status"], "failed");
    assert_eq!(status("off")["status"], "disabled");

    let listed = machine.run(&["mcp", "ls"]).await;
    for line in ["ghost: failed (no-such-program --token ********)", "off: disabled (x)"] {
        assert!(listed.stdout.lines().any(|it| it == line), "{line}: {}", listed.stdout);
    }
}

#[tokio::test]
async fn servers_that_cannot_be_read_are_not_none() {
    for (text, told) in [
        ("{\n  \"mcp\": {\"a\"", "opencode.json:2:14: is not valid JSON"),
        ("{\n  \"mcp\": {\"a\": {\"type\": \"locl\"}}\n}", "mcp.a.type: \"locl\" is not a kind of server"),
        ("{\n  \"mcp\": {\"a\": {\"type\": \"local\"}}\n}", "mcp.a: has no `command`"),
    ] {
        let machine = Machine::new().await;
        machine.scratch.write("opencode.json", text);
        let listed = machine.run(&["mcp", "list"]).await;
        assert_eq!((listed.code, listed.stdout.as_str()), (Some(1), ""), "{listed:?}");
        assert!(listed.stderr.contains(told) && listed.stderr.lines().count() == 1, "{listed:?}");
        let listed = machine.run(&["mcp", "list", "--format", "json"]).await;
        assert_eq!((listed.code, listed.stdout.as_str()), (Some(1), "[]\n"), "{listed:?}");
    }
    // Problems elsewhere are not reported here.
    let machine = Machine::new().await;
    machine.scratch.write("opencode.json", "{\"theem\": 1}");
    assert_eq!(machine.run(&["mcp", "list"]).await.code, Some(0));
}

#[tokio::test]
async fn without_servers_a_sentence_says_where_they_are_named() {
    let machine = Machine::new().await;
    let listed = machine.run(&["mcp", "list"]).await;
    assert_eq!((listed.code, listed.stdout.as_str()), (Some(0), ""));
    assert!(listed.stderr.contains("`mcp` in opencode.json names them"), "{}", listed.stderr);
    let listed = machine.run(&["mcp", "list", "--format", "json"]).await;
    assert_eq!((listed.code, listed.stdout.trim()), (Some(0), "[]"));
    for arguments in [&["mcp"][..], &["mcp", "list", "--timeout", "0"], &["mcp", "list", "--format", "xml"]] {
        assert_eq!(machine.run(arguments).await.code, Some(2), "{arguments:?}");
    }
    assert_eq!(machine.run(&["mcp", "list", "--cwd", "nowhere"]).await.code, Some(1));
}
