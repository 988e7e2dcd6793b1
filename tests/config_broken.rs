//! Configuration that is broken in every way we could think of: the daemon serves, and names the places it ignored.

use std::{os::unix::fs::symlink, sync::Arc};

use serde_json::json;

use crate::support::{agent::Agent, llm::Reply, scratch::Scratch};

/// Returns everything that is wrong at once, and one agent that is right.
fn broken() -> Arc<Scratch> {
    let scratch = Scratch::new();
    scratch
        .write("opencode.json", "{\n  // a comment\n  \"model\": \"mock/mock\",\n  \"share\": manual\n}\n");
    scratch.write("opencode.jsonc", [0x7f, b'E', b'L', b'F', 0, 0xff, 0xfe]);
    scratch.write("AGENTS.md", "Keep it short.\n".repeat(10 * 1024 * 1024 / 15));
    let own = json!({
        "username": "{file:circle.txt}",
        "agent": {
            "good": {"mode": "primary", "prompt": "I am{env:NOT_SET_ANYWHERE} good."},
            "../up": {"mode": "primary", "prompt": "Out of here."},
            "": {"mode": "primary"},
        },
        "command": {"a/../b": {"template": "x"}},
        "instructions": ["../../../../etc/hostname"],
    });
    scratch.write(".opencode/opencode.json", format!("{own:#}"));
    scratch.write(".opencode/circle.txt", "round {file:circle.txt} and {file:opencode.json}");
    scratch.write(".opencode/opencode.jsonc", format!("{{\"a\": {}1{}}}", "[".repeat(500), "]".repeat(500)));
    scratch.write(".opencode/agent/yaml.md", "---\nmode: primary\ndescription: [open\n---\nText.");
    scratch.write(".opencode/agent/unclosed.md", "---\nmode: primary\nText.");
    scratch.write(".opencode/agent/binary.md", [b'-', b'-', b'-', b'\n', 0, 0xff]);
    scratch.write(".opencode/agent/...md", "Up.");
    scratch.write(".opencode/agent/large.md", "x".repeat(2 << 20));
    scratch.write(".opencode/skill/up/SKILL.md", "---\nname: \"a\\nb\"\ndescription: d\n---\nText.");
    // A directory that no user may read, root included.
    symlink("commands", scratch.work.join(".opencode/commands")).unwrap();
    symlink(".", scratch.work.join(".opencode/agent/round")).unwrap();
    std::fs::create_dir_all(scratch.home.join(".config/opencode/opencode.json")).unwrap();
    scratch
}

const TOLD: &[&str] = &[
    "work/opencode.json:4:12: is not valid JSON",
    "work/opencode.jsonc:1:6: cannot be read: it is not text in UTF-8",
    ".opencode/opencode.json:12:5: agent.``: is left out: its name is empty",
    ".opencode/opencode.json:8:5: agent.../up: is left out: a part of its name is `..`",
    ".opencode/opencode.json:17:5: command.a/../b: is left out: a part of its name is `..`",
    ".opencode/opencode.jsonc:1:1: is nested deeper than 100 levels",
    "agent/yaml.md:4:1: is not valid YAML",
    "agent/unclosed.md:1:1: the front matter that begins here has no closing `---`",
    "agent/binary.md:2:2: cannot be read: it is not text in UTF-8; the file is left out",
    "agent/...md: its path is not a name; the file is left out",
    "agent/large.md: cannot be read: it is larger than 1 MiB; the file is left out",
    "agent/round: is a link back to a directory that was read; it is left out",
    "skill/up/SKILL.md:2:1: the skill is ignored",
    ".opencode/commands: cannot be read",
    ".config/opencode/opencode.json: cannot be read: it is not a regular file",
    "missing.json: cannot be read",
];

#[tokio::test]
async fn whatever_is_broken_the_daemon_serves_and_tells() {
    for notices in [true, false] {
        let scratch = broken();
        let missing = scratch.root().join("missing.json");
        let small = json!({"small_model": "mock/mock"});
        let builder = Agent::builder()
            .scratch(&scratch)
            .config(small)
            .env("OPENCODE_CONFIG", missing.to_str().unwrap());
        let agent = builder.spawn().await;
        let capabilities = if notices { json!({"session": {"notices": {}}}) } else { json!({}) };
        agent.initialize_with(capabilities).await;
        let answer = agent.request("session/new", agent.session_params()).await.unwrap();
        let modes = answer["modes"]["availableModes"].to_string();
        assert!(modes.contains("\"good\"") && !modes.contains(".."), "{modes}");
        let session = answer["sessionId"].as_str().unwrap();
        agent.request("session/set_mode", json!({"sessionId": session, "modeId": "good"})).await.unwrap();
        agent.llm.reply(Reply::text("still serving"));
        let turn = agent.prompt(session, "go").await;
        assert_eq!(turn.text(), "still serving");
        let request = agent.llm.last_request();
        assert!(request.system().contains("I am good."));
        // All of the instructions together are bounded.
        let n_bytes = request.system().len();
        assert!(request.system().contains("[The file is cut here: ") && n_bytes < 600 * 1024, "{n_bytes}");
        let shown: Vec<String> = if notices {
            let is_notice =
                |message: &serde_json::Value| message["params"]["update"]["sessionUpdate"] == "notice";
            let lines = agent.lines();
            lines
                .iter()
                .filter(|line| line.from_agent && is_notice(&line.message))
                .map(|line| line.message.to_string())
                .collect()
        } else {
            turn.updates.iter().map(ToString::to_string).collect()
        };
        for told in TOLD {
            let in_json = serde_json::Value::from(*told).to_string();
            let in_json = in_json.trim_matches('"');
            assert_eq!(shown.iter().filter(|it| it.contains(in_json)).count(), 1, "{told}: {shown:#?}");
            assert!(agent.stderr().contains(told), "{told}: {}", agent.stderr());
        }
        assert!(shown.iter().any(|it| it.contains("AGENTS.md") && it.contains("is cut")), "{shown:#?}");
        agent.finish().await;
    }
}
