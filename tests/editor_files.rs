//! Files as the client's editor has them: unsaved texts are read, and texts are written by the editor alone.

use std::fs;

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, asks::Ask},
    llm::Reply,
    message::content_text,
};

/// Returns an agent with a client that offers these, and a session of it.
async fn open(fs: Value) -> (Agent, String) {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({ "fs": fs })).await;
    let session = agent.new_session().await;
    (agent, session)
}

fn both() -> Value {
    json!({"readTextFile": true, "writeTextFile": true})
}

/// Has the model call a tool and then end.
fn script(agent: &Agent, tool: &str, input: Value) {
    agent.llm.reply(Reply::call("call_1", tool, input));
    agent.llm.reply(Reply::text("done"));
}

/// Answers the next request with an editor's text.
async fn give(agent: &Agent, text: &str) -> Ask {
    let ask = agent.permission().await;
    assert_eq!(ask.method, "fs/read_text_file");
    agent.fill_in(&ask, json!({ "content": text }));
    ask
}

/// Takes the next request, which is a write, and returns it.
async fn take(agent: &Agent) -> Ask {
    let ask = agent.permission().await;
    assert_eq!(ask.method, "fs/write_text_file", "{ask:?}");
    ask
}

#[tokio::test]
async fn an_unsaved_text_is_read_and_changed_in_the_editor_and_the_disk_is_left_alone() {
    let (agent, session) = open(both()).await;
    agent.scratch.write("a.txt", "one\ntwo\n");
    let path = agent.scratch.work.join("a.txt");
    script(&agent, "read", json!({"filePath": "a.txt"}));
    let prompt = agent.send_prompt(&session, "read it");
    let ask = give(&agent, "one\nTWO unsaved\n").await;
    assert_eq!((&ask.params["path"], &ask.params["sessionId"]), (&json!(path), &json!(session)));
    prompt.turn().await;
    assert!(agent.llm.last_request().body.to_string().contains("TWO unsaved"));

    script(&agent, "edit", json!({"filePath": "a.txt", "oldString": "TWO", "newString": "three"}));
    let prompt = agent.send_prompt(&session, "edit it");
    give(&agent, "one\nTWO unsaved\n").await;
    // Once more behind the question, so that nothing that was typed meanwhile is lost.
    give(&agent, "one\nTWO unsaved\n").await;
    let ask = take(&agent).await;
    assert_eq!((&ask.params["path"], &ask.params["content"]), (&json!(path), &json!("one\nthree unsaved\n")));
    agent.fill_in(&ask, Value::Null);
    let turn = prompt.turn().await;
    let edited = turn.all("tool_call_update").into_iter().rfind(|it| it["status"] == "completed").unwrap();
    let diff = edited["content"].as_array().unwrap().iter().find(|it| it["type"] == "diff").unwrap();
    assert_eq!(
        (&diff["oldText"], &diff["newText"]),
        (&json!("one\nTWO unsaved\n"), &json!("one\nthree unsaved\n"))
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_new_file_is_written_by_the_editor_and_a_refusal_is_told_to_the_model() {
    let (agent, session) = open(json!({"writeTextFile": true})).await;
    script(&agent, "write", json!({"filePath": "deep/new.txt", "content": "hello\n"}));
    let prompt = agent.send_prompt(&session, "write it");
    let ask = take(&agent).await;
    let path = agent.scratch.work.join("deep/new.txt");
    assert_eq!((&ask.params["path"], &ask.params["content"]), (&json!(path), &json!("hello\n")));
    assert!(!path.exists() && path.parent().unwrap().is_dir());
    agent.fail(&ask, -32603);
    prompt.turn().await;
    let told = agent.llm.last_request().body.to_string();
    assert!(told.contains("The editor did not write") && told.contains("scripted failure"), "{told}");
    assert!(!path.exists());
    agent.finish().await;
}

#[tokio::test]
async fn of_a_patch_that_the_editor_does_not_finish_nothing_stays() {
    let config = json!({"model": "mock/gpt-5", "provider": {"mock": {"models": {"gpt-5": {"name": "GPT"}}}}});
    let agent = Agent::builder().config(config).spawn().await;
    agent.initialize_with(json!({"fs": {"writeTextFile": true}})).await;
    let session = agent.new_session().await;
    for file in ["a.txt", "b.txt"] {
        agent.scratch.write(file, "old\n");
        script(&agent, "read", json!({"filePath": file}));
        agent.prompt(&session, "read").await;
    }
    // An editor saves the text that it is given.
    let save = |ask: &Ask| {
        fs::write(ask.params["path"].as_str().unwrap(), ask.params["content"].as_str().unwrap()).unwrap();
        agent.fill_in(ask, json!({}));
    };
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** Update File: b.txt\n@@\n-old\n+new\n*** End Patch";
    script(&agent, "apply_patch", json!({"patchText": patch}));
    let prompt = agent.send_prompt(&session, "patch");
    save(&take(&agent).await);
    agent.fail(&take(&agent).await, -32603);
    let undo = take(&agent).await;
    assert_eq!(undo.params["content"], "old\n");
    save(&undo);
    prompt.turn().await;
    assert!(agent.llm.last_request().body.to_string().contains("The editor did not write"));
    assert_eq!(agent.scratch.read("a.txt"), "old\n");
    script(&agent, "apply_patch", json!({"patchText": patch}));
    let prompt = agent.send_prompt(&session, "patch");
    save(&take(&agent).await);
    save(&take(&agent).await);
    prompt.turn().await;
    for file in ["a.txt", "b.txt"] {
        assert_eq!(fs::read_to_string(agent.scratch.work.join(file)).unwrap(), "new\n");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_patch_that_has_begun_is_written_whole_though_its_turn_is_cancelled() {
    let config = json!({
        "model": "mock/gpt-5", "provider": {"mock": {"models": {"gpt-5": {"name": "GPT"}}}},
        "windlass": {"file_time": false},
    });
    let agent = Agent::builder().config(config).spawn().await;
    agent.initialize_with(json!({"fs": {"writeTextFile": true}})).await;
    let session = agent.new_session().await;
    agent.scratch.write("a.txt", "old\n");
    agent.scratch.write("b.txt", "old\n");
    agent.scratch.write("c.bin", "gone\n");
    let patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+new\n*** Update File: b.txt\n@@\n-old\n+new\n\
                 *** Delete File: c.bin\n*** End Patch";
    agent.llm.reply(Reply::call("call_1", "apply_patch", json!({"patchText": patch})));
    let prompt = agent.send_prompt(&session, "patch");
    let first = take(&agent).await;
    agent.cancel(&session);
    assert_eq!(prompt.answer().await.unwrap()["stopReason"], "cancelled");
    agent.fill_in(&first, json!({}));
    let second = take(&agent).await;
    assert!(second.params["path"].as_str().unwrap().ends_with("b.txt"));
    agent.fill_in(&second, json!({}));
    script(&agent, "bash", json!({"command": "while [ -e c.bin ]; do sleep 0.01; done"}));
    agent.prompt(&session, "wait").await;
    agent.finish().await;
}

#[tokio::test]
async fn what_the_editor_does_not_tell_or_is_no_text_is_written_on_the_disk() {
    let config = json!({"windlass": {"file_time": false}});
    let agent = Agent::builder().config(config).spawn().await;
    agent.initialize_with(json!({ "fs": both() })).await;
    let session = agent.new_session().await;
    fs::write(agent.scratch.work.join("a.txt"), b"\xff\xfe bytes").unwrap();
    script(&agent, "write", json!({"filePath": "a.txt", "content": "text\n"}));
    agent.prompt(&session, "write it").await;
    assert_eq!(agent.scratch.read("a.txt"), "text\n");

    script(&agent, "edit", json!({"filePath": "a.txt", "oldString": "text", "newString": "more"}));
    let prompt = agent.send_prompt(&session, "edit it");
    for _ in 0..2 {
        agent.fail(&agent.permission().await, -32002);
    }
    prompt.turn().await;
    assert_eq!(agent.scratch.read("a.txt"), "more\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_file_with_unsaved_changes_is_left_alone_where_the_editor_does_not_write() {
    let (agent, session) = open(json!({"readTextFile": true})).await;
    agent.scratch.write("a.txt", "one\n");
    script(&agent, "edit", json!({"filePath": "a.txt", "oldString": "one", "newString": "two"}));
    let prompt = agent.send_prompt(&session, "edit it");
    give(&agent, "one unsaved\n").await;
    prompt.turn().await;
    assert!(agent.llm.last_request().body.to_string().contains("unsaved changes in the editor"));
    assert_eq!(agent.scratch.read("a.txt"), "one\n");
    agent.finish().await;
}

#[tokio::test]
async fn an_editor_that_fails_or_has_the_saved_text_leaves_the_disk_to_be_read() {
    let (agent, session) = open(json!({"readTextFile": true})).await;
    agent.scratch.write("a.txt", "\u{feff}one\r\ntwo\r\n");
    script(&agent, "read", json!({"filePath": "a.txt"}));
    let prompt = agent.send_prompt(&session, "read it");
    let ask = agent.permission().await;
    agent.fail(&ask, -32002);
    prompt.turn().await;
    assert!(agent.llm.last_request().body.to_string().contains("two"));
    // Marks and carriage returns are the editor's affair: they are no change.
    script(&agent, "edit", json!({"filePath": "a.txt", "oldString": "two", "newString": "2"}));
    let prompt = agent.send_prompt(&session, "edit it");
    give(&agent, "one\ntwo\n").await;
    prompt.turn().await;
    let path = agent.scratch.work.join("a.txt");
    assert_eq!(fs::read_to_string(path).unwrap(), "\u{feff}one\r\n2\r\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_cancelled_turn_takes_its_request_back() {
    let (agent, session) = open(both()).await;
    agent.scratch.write("a.txt", "one\n");
    agent.llm.reply(Reply::call("call_1", "read", json!({"filePath": "a.txt"})));
    let prompt = agent.send_prompt(&session, "read it");
    let ask = agent.permission().await;
    agent.cancel(&session);
    agent.withdrawn_by_code(&ask).await;
    assert_eq!(prompt.answer().await.unwrap()["stopReason"], "cancelled");
    agent.finish().await;
}

#[tokio::test]
async fn a_subagent_reads_by_the_editor_of_the_session_it_works_for() {
    let (agent, session) = open(json!({"readTextFile": true})).await;
    agent.scratch.write("a.txt", "one\n");
    let task = json!({"description": "look", "prompt": "subtask", "subagent_type": "general"});
    agent.llm.reply(Reply::call("call_1", "task", task));
    agent.llm.reply_to("subtask", Reply::call("call_2", "read", json!({"filePath": "a.txt"})));
    agent.llm.reply(Reply::text("seen"));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = give(&agent, "unsaved\n").await;
    assert_eq!(ask.params["sessionId"], json!(session));
    let turn = prompt.turn().await;
    let texts: Vec<String> = turn.all("tool_call_update").iter().map(|it| content_text(it)).collect();
    assert!(texts.iter().any(|text| text.contains("unsaved")), "{texts:?}");
    agent.finish().await;
}

/// Answers so many requests for files with the editor's texts, in any order; files without one are as on the disk.
async fn give_files(agent: &Agent, n: usize, texts: &[(&str, &str)]) {
    for _ in 0..n {
        let ask = agent.permission().await;
        let path = ask.params["path"].as_str().unwrap().to_owned();
        let text = texts.iter().find(|(name, _)| path.ends_with(name)).map(|(_, text)| (*text).to_owned());
        let text = text.unwrap_or_else(|| fs::read_to_string(&path).unwrap());
        agent.fill_in(&ask, json!({ "content": text }));
    }
}

#[tokio::test]
async fn grep_searches_unsaved_texts_of_files_that_the_session_knows_or_that_have_matches() {
    let (agent, session) = open(json!({"readTextFile": true})).await;
    for (name, text) in
        [("known.txt", "old\n"), ("gone.txt", "a needle\n"), ("saved.txt", "needle\n"), ("other.txt", "x\n")]
    {
        agent.scratch.write(name, text);
    }
    let texts = [
        ("known.txt", "one\na needle unsaved\n"),
        ("gone.txt", "nothing\n"),
        ("other.txt", "needle unseen\n"),
    ];
    script(&agent, "read", json!({"filePath": "known.txt"}));
    let prompt = agent.send_prompt(&session, "read it");
    give_files(&agent, 1, &texts).await;
    prompt.turn().await;
    script(&agent, "grep", json!({"pattern": "needle"}));
    let prompt = agent.send_prompt(&session, "search");
    give_files(&agent, 3, &texts).await;
    let turn = prompt.turn().await;
    let updates = turn.all("tool_call_update");
    let told = &updates.into_iter().rfind(|it| it["status"] == "completed").unwrap()["rawOutput"]["output"];
    let path = |name: &str| agent.scratch.path(name);
    let expected = format!(
        "Found 2 matches\n{}:\n  Line 2: a needle unsaved\n\n{}:\n  Line 1: needle",
        path("known.txt"),
        path("saved.txt")
    );
    assert_eq!(*told, expected);
    agent.finish().await;
}
