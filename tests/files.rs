//! Tools on files, through the whole loop: instruction files on the way, calls put right, disks that are full.

use std::{
    fs,
    process::Command,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, requests::prompt_params},
    llm::Reply,
    scratch::Scratch,
};

fn count(text: &str) -> usize {
    text.matches("Rules of the part.").count()
}

#[tokio::test]
async fn instruction_files_on_the_way_are_shown_once_in_a_session() {
    let scratch = Scratch::new();
    scratch.write("AGENTS.md", "Rules of the whole.\n");
    scratch.write("part/AGENTS.md", "Rules of the part.\n");
    for n in 0..4 {
        scratch.write(&format!("part/{n}.txt"), "text\n");
    }
    let agent = Agent::builder().scratch(&scratch).start().await;
    let session = agent.new_session().await;
    let read = |n: usize| json!({"filePath": scratch.path(&format!("part/{n}.txt"))});
    // Two at once, then another step, then another turn.
    agent.llm.reply(Reply::call("call_0", "read", read(0)).and_call("call_1", "read", read(1)));
    agent.llm.reply(Reply::call("call_2", "read", read(2)));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    let request = agent.llm.last_request();
    let results = ["call_0", "call_1", "call_2"].map(|id| count(&request.tool_result(id)));
    assert_eq!((results[0] + results[1], results[2]), (1, 0));
    let shown = request.tool_result(if results[0] == 1 { "call_0" } else { "call_1" });
    let path = scratch.path("part/AGENTS.md");
    let reminder = format!(
        "</content>\n\n<system-reminder>\nInstructions from: {path}\nRules of the part.\n</system-reminder>"
    );
    assert!(shown.ends_with(&reminder), "{shown}");
    assert!(request.system().contains("Rules of the whole."));
    assert!(!request.system().contains("Rules of the part."));
    assert_eq!(count(&agent.told(&session, "read", read(3)).await), 0);
    // Another session's model has not seen it.
    let other = agent.new_session().await;
    assert_eq!(count(&agent.told(&other, "read", read(3)).await), 1);
    agent.finish().await;

    let agent = Agent::builder().scratch(&scratch).start().await;
    agent.load(&session).await;
    assert_eq!(count(&agent.told(&session, "read", read(0)).await), 0);
    agent.finish().await;
}

#[tokio::test]
async fn an_attached_file_brings_its_instructions_along() {
    let agent = Agent::start().await;
    agent.scratch.write("part/AGENTS.md", "Rules of the part.\n");
    agent.scratch.write("part/a.txt", "text\n");
    let session = agent.new_session().await;
    let mut params = prompt_params(&session, "look");
    let uri = format!("file://{}", agent.scratch.path("part/a.txt"));
    let link = json!({"type": "resource_link", "name": "a.txt", "uri": uri});
    params["prompt"].as_array_mut().unwrap().push(link);
    agent.llm.reply(Reply::text("seen"));
    agent.request("session/prompt", params).await.unwrap();
    assert_eq!(count(&agent.llm.last_request().last_user()), 1);
    let read = json!({"filePath": agent.scratch.path("part/a.txt")});
    assert_eq!(count(&agent.told(&session, "read", read).await), 0);
    agent.finish().await;
}

#[tokio::test]
async fn calls_are_put_right_where_that_is_harmless() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let path = agent.scratch.path("a.txt");
    let arguments = json!({"filePath": path, "offset": "2", "limit": 1.0});
    for (id, name, raw) in [
        ("call_1", "Read", arguments.to_string()),
        ("call_2", "READ", Value::String(arguments.to_string()).to_string()),
    ] {
        agent.llm.reply(Reply::raw_call(id, name, &raw));
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        let told = agent.llm.last_request().tool_result(id);
        assert!(told.contains("\n2: two\n\n(Showing lines 2-2 of 3."), "{name}: {told}");
    }
    let told = agent.told(&session, "read", json!({"path": path})).await;
    let expected = "The read tool was called with invalid arguments: `filePath` is missing.\n\
        Please rewrite the input so it satisfies the expected schema.\nExpected schema: {\"type\":\"object\",";
    assert!(told.contains(expected), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn saved_outputs_are_readable_for_a_week() {
    let scratch = Scratch::new();
    let directory = scratch.home.join(".local/share/windlass/tool-output");
    fs::create_dir_all(&directory).unwrap();
    let day = Duration::from_secs(24 * 60 * 60);
    for (name, days) in [("tool_old", 8), ("tool_young", 6)] {
        fs::write(directory.join(name), "full\n").unwrap();
        let file = fs::File::options().append(true).open(directory.join(name)).unwrap();
        file.set_modified(SystemTime::now() - days * day).unwrap();
    }
    // An ask for the directory outside the project would fail the test.
    let config = json!({"permission": {"*": "ask", "bash": "allow", "read": "allow"}});
    let agent = Agent::builder().scratch(&scratch).config(config).start().await;
    let session = agent.new_session().await;
    let told_of_bash =
        agent.told(&session, "bash", json!({"command": "seq 1 3000", "description": "n"})).await;
    let saved =
        told_of_bash.split("Full output saved to: ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    let read = json!({"filePath": saved, "offset": 7, "limit": 1});
    let told_of_read = agent.told(&session, "read", read).await;
    assert!(told_of_read.contains("\n7: 7\n"), "{told_of_read}");
    agent.finish().await;
    assert!(!directory.join("tool_old").exists());
    assert!(directory.join("tool_young").exists());
}

#[tokio::test]
async fn a_write_that_finds_no_room_leaves_the_file_as_it_was() {
    let agent = Agent::builder().config(json!({"windlass": {"file_time": false}})).spawn().await;
    let agent = agent.initialized().await;
    let line = "a line of an ordinary text file\n";
    let text = format!("first\n{}", line.repeat(200_000));
    agent.scratch.write("large.txt", &text);
    agent.scratch.write("linked.txt", &text);
    fs::hard_link(agent.scratch.path("linked.txt"), agent.scratch.path("other.txt")).unwrap();
    // No file may become larger than this; for the writer that is a full disk.
    let limit = ["--pid".to_owned(), agent.pid().to_string(), "--fsize=5000000".to_owned()];
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    let session = agent.new_session().await;
    for name in ["large.txt", "linked.txt"] {
        let path = agent.scratch.path(name);
        let input = json!({"filePath": path, "oldString": "first", "newString": "second"});
        let told = agent.told(&session, "edit", input).await;
        assert!(told.contains(&format!("Cannot write {path}: File too large (os error 27)")), "{told}");
        assert!(agent.scratch.read(name) == text, "{name} has changed");
    }
    let entries = fs::read_dir(&agent.scratch.work).unwrap();
    let names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert!(!names.iter().any(|name| name.ends_with(".tmp")), "{names:?}");
    agent.finish().await;
}
