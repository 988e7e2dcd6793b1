//! Formatters behind the changes of files: their own and known ones, switched off, failing and slow.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, DEADLINE},
    llm::Reply,
    message::diff,
    scratch::Scratch,
};

/// Writes its file's letters in capitals.
const CAPITALS: &str = "tr a-z A-Z < \"$0\" > \"$0.new\" && cat \"$0.new\" > \"$0\" && rm \"$0.new\"";

fn capitals() -> Value {
    json!({"command": ["sh", "-c", CAPITALS, "$FILE"], "extensions": [".txt"]})
}

fn write(content: &str) -> Value {
    json!({"filePath": "a file.txt", "content": content})
}

/// Puts a program into the project that writes in capitals, for files given as its last argument.
fn program(scratch: &Scratch, name: &str) {
    scratch.write(name, "#!/bin/sh\nfor file; do :; done\nsed -i 's/.*/\\U&/' \"$file\"\n");
    let file = scratch.work.join(name);
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_change_is_shown_and_known_as_its_formatter_left_it() {
    let agent = Agent::start_with(json!({"formatter": {"capitals": capitals()}})).await;
    let session = agent.new_session().await;
    let (turn, told) = agent.call(&session, "call_1", "write", write("one\n")).await;
    assert_eq!(told, "Wrote file successfully.");
    assert_eq!(agent.scratch.read("a file.txt"), "ONE\n");
    assert_eq!(diff(&turn.tool("call_1"))["newText"], "ONE\n");
    // The model may go on without reading it again.
    let edit = json!({"filePath": "a file.txt", "oldString": "ONE", "newString": "two"});
    let (turn, told) = agent.call(&session, "call_2", "edit", edit).await;
    assert_eq!(told, "Edit applied successfully.");
    let shown = diff(&turn.tool("call_2"));
    assert_eq!((&shown["oldText"], &shown["newText"]), (&json!("ONE\n"), &json!("TWO\n")));
    agent.finish().await;
}

#[tokio::test]
async fn a_files_name_is_never_a_part_of_a_shells_text() {
    let command = json!(["sh", "-c", "tr a-z A-Z < \"$FILE\" > new && cat new > \"$FILE\"; echo $FILE"]);
    let agent =
        Agent::start_with(json!({"formatter": {"mine": {"command": command, "extensions": [".c"]}}})).await;
    let session = agent.new_session().await;
    let name = "a;touch made;$(touch made);.c";
    agent.told(&session, "write", json!({"filePath": name, "content": "one\n"})).await;
    assert_eq!(agent.scratch.read(name), "ONE\n");
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn files_of_a_patch_are_formatted_too() {
    let models = json!({"mock": {"models": {"gpt-5": {"name": "GPT"}}}});
    let config = json!({"model": "mock/gpt-5", "provider": models, "formatter": {"capitals": capitals()}});
    let agent = Agent::start_with(config).await;
    let patch = "*** Begin Patch\n*** Add File: b.txt\n+new\n*** Add File: c.md\n+plain\n*** End Patch";
    let (turn, told) = agent.run("apply_patch", json!({"patchText": patch})).await;
    assert_eq!(told, "Success. Updated the following files:\nA b.txt\nA c.md");
    assert_eq!((agent.scratch.read("b.txt"), agent.scratch.read("c.md")), ("NEW\n".into(), "plain\n".into()));
    assert_eq!(diff(&turn.tool("call_1"))["newText"], "NEW\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_known_formatter_runs_where_its_program_and_its_project_are() {
    let scratch = Scratch::new();
    program(&scratch, "node_modules/.bin/prettier");
    let agent = Agent::builder().scratch(&scratch).config(json!({"formatter": true})).start().await;
    let session = agent.new_session().await;
    let page = |content: &str| json!({"filePath": "page.md", "content": content});
    agent.told(&session, "write", page("first\n")).await;
    assert_eq!(scratch.read("page.md"), "first\n");
    scratch.write("package.json", r#"{"devDependencies": {"prettier": "3"}}"#);
    agent.told(&session, "write", page("second\n")).await;
    assert_eq!(scratch.read("page.md"), "SECOND\n");
    agent.finish().await;
}

#[tokio::test]
async fn formatters_are_off_unless_they_are_asked_for() {
    for formatter in [json!(null), json!(false), json!({"capitals": {"disabled": true}})] {
        let scratch = Scratch::new();
        program(&scratch, "node_modules/.bin/prettier");
        scratch.write("package.json", r#"{"prettier": {}}"#);
        let mut config = json!({"formatter": formatter});
        if let Some(formatters) = config["formatter"].as_object_mut() {
            formatters.insert("prettier".to_owned(), json!({"disabled": true}));
        }
        let agent = Agent::builder().scratch(&scratch).config(config).start().await;
        let (_, told) = agent.run("write", json!({"filePath": "page.md", "content": "as is\n"})).await;
        assert_eq!(
            (told.as_str(), scratch.read("page.md").as_str()),
            ("Wrote file successfully.", "as is\n")
        );
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_formatter_that_fails_is_told_once_and_the_change_stays() {
    // It says something else each time.
    let words = "cat said >&2 2>/dev/null || echo it is broken >&2; echo broken otherwise > said; exit 3";
    let failing = json!({"command": ["sh", "-c", words], "extensions": ["txt"]});
    let agent = Agent::builder().config(json!({"formatter": {"bad": failing}})).spawn().await;
    agent.initialize_with(json!({"session": {"notices": {}}})).await;
    let session = agent.new_session().await;
    let mut notices = Vec::new();
    for (n, id) in ["call_1", "call_2"].into_iter().enumerate() {
        agent.llm.reply(Reply::call(id, "write", write(&format!("text {n}\n"))));
        agent.llm.reply(Reply::text("done"));
        let turn = agent.prompt(&session, "go").await;
        notices.extend(turn.all("notice").into_iter().cloned());
        assert_eq!(agent.scratch.read("a file.txt"), format!("text {n}\n"));
    }
    let told: Vec<&str> = notices.iter().filter_map(|notice| notice["title"].as_str()).collect();
    let expected =
        "The formatter bad failed: it is broken. `formatter.bad.disabled` set to true does without it.";
    assert_eq!(told, [expected]);
    agent.finish().await;
}

#[tokio::test]
async fn a_formatter_of_ones_own_without_its_program_is_told_once() {
    let missing = json!({"command": ["no-such-formatter", "$FILE"], "extensions": ["txt"]});
    let agent = Agent::builder().config(json!({"formatter": {"own": missing}})).spawn().await;
    agent.initialize_with(json!({"session": {"notices": {}}})).await;
    let session = agent.new_session().await;
    for id in ["call_1", "call_2"] {
        agent.llm.reply(Reply::call(id, "write", write(id)));
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
    }
    let notices = agent.updates(&session);
    let told: Vec<&str> = notices.iter().filter_map(|notice| notice["title"].as_str()).collect();
    let of_formatter: Vec<_> = told.iter().filter(|title| title.contains("formatter own")).collect();
    assert_eq!(of_formatter.len(), 1, "{told:?}");
    assert!(of_formatter[0].contains("there is no program no-such-formatter"), "{told:?}");
    agent.finish().await;
}

#[tokio::test]
async fn a_formatter_gets_its_variables_and_ends_with_the_turn() {
    let slow = json!({
        "command": ["sh", "-c", "echo \"$STYLE\" > \"$0\"; touch started; sleep 600", "$FILE"],
        "extensions": [".txt"], "environment": {"STYLE": "of the house"},
    });
    let agent = Agent::start_with(json!({"formatter": {"slow": slow}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "write", write("text\n")));
    let prompt = agent.send_prompt(&session, "go");
    agent.scratch.appears("started").await;
    agent.cancel(&session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    assert_eq!(agent.scratch.read("a file.txt"), "of the house\n");
    agent.childless(DEADLINE).await;
    agent.finish().await;
}
