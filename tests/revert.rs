//! Undo to any message or part, and forks at any message: from the shell, in a prompt, and over ACP.

use serde_json::{Value, json};

use crate::{
    cli::{Ended, Machine},
    support::{
        agent::Agent,
        llm::{Llm, Reply, request::Request},
        message::tag,
    },
};

fn bash(id: &str, command: &str) -> Reply {
    Reply::call(id, "bash", json!({"command": command, "description": "change files"}))
}

/// Scripts a turn of two steps with a command each, which makes a file.
fn two_steps(llm: &Llm, first: &str, second: &str) {
    let make = |name: &str| format!("echo {name} > {name}.txt");
    let arguments = json!({"command": make(first), "description": "change files"});
    llm.reply(Reply::text(&format!("{first} is made")).and_call(&format!("call_{first}"), "bash", arguments));
    llm.reply(bash(&format!("call_{second}"), &make(second)));
    llm.reply(Reply::text(&format!("{first} and {second}")));
}

async fn export(machine: &Machine, session: &str) -> Value {
    let exported = machine.run(&["session", "export", session, "--format", "json", "-o", "-"]).await;
    serde_json::from_str(&exported.stdout).unwrap_or_else(|error| panic!("{error}: {exported:?}"))
}

/// Returns the id of the part of a tool call, and its message's.
fn call(record: &Value, call_id: &str) -> (String, String) {
    let messages = record["messages"].as_array().unwrap();
    let parts = messages.iter().flat_map(|message| message["parts"].as_array().unwrap());
    let part = parts.into_iter().find(|part| part["callID"] == call_id).expect("the call");
    let id = |key: &str| part[key].as_str().unwrap().to_owned();
    (id("messageID"), id("id"))
}

/// Returns the ids of the user's messages.
fn prompts(record: &Value) -> Vec<String> {
    let messages = record["messages"].as_array().unwrap().iter().map(|message| &message["info"]);
    messages.filter(|it| it["role"] == "user").map(|it| it["id"].as_str().unwrap().to_owned()).collect()
}

fn said(request: &Request) -> String {
    request.body["messages"].to_string()
}

fn session_of(ended: &Ended) -> String {
    ended.lines()[0]["sessionID"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_session_goes_back_to_a_part_and_the_next_prompt_goes_on_from_there() {
    let machine = Machine::new().await;
    two_steps(&machine.llm, "one", "two");
    let session = session_of(&machine.run(&["run", "--format", "json", "make two"]).await);
    two_steps(&machine.llm, "three", "four");
    machine.run(&["run", "--session", &session, "and two more"]).await;
    let before = export(&machine, &session).await;
    let (message, part) = call(&before, "call_two");

    // The step has said nothing before its call, so all of the prompt is meant.
    let arguments = ["session", "revert", &session, "-m", &message, "-p", &part];
    let reverted = machine.run(&arguments).await;
    assert!(reverted.stdout.starts_with("Taken back: \"make two\" and what followed."), "{reverted:?}");
    let exists = |names: [&str; 4]| names.map(|name| machine.scratch.exists(&format!("{name}.txt")));
    assert_eq!(exists(["one", "two", "three", "four"]), [false; 4]);
    // Only the first step's call is taken back now: with its step's files, and with all that came behind.
    let (message, part) = call(&before, "call_one");
    let arguments = ["session", "revert", &session, "-m", &message, "-p", &part];
    let reverted = machine.run(&arguments).await;
    assert_eq!(reverted.code, Some(0), "{reverted:?}");
    let record = export(&machine, &session).await;
    let revert = &record["info"]["revert"];
    assert_eq!((&revert["messageID"], &revert["partID"]), (&json!(message), &json!(part)));
    let diff = revert["diff"].as_str().expect("a diff");
    assert!(diff.contains("a/three.txt") && diff.contains("\n-three\n"), "{diff}");
    assert_eq!(record["messages"], before["messages"], "nothing is removed yet");
    let shown = machine.run(&["session", "show", &session]).await.stdout;
    assert!(shown.contains("one is made") && !shown.contains("one.txt"), "{shown}");
    let shown = machine.run(&["session", "show", &session, "--ids"]).await.stdout;
    assert!(shown.contains(&prompts(&record)[0]) && shown.contains(&message), "{shown}");
    let unreverted = machine.run(&["session", "unrevert", &session]).await;
    assert!(unreverted.stdout.starts_with("Put back: \"make two\""), "{unreverted:?}");
    assert_eq!(exists(["one", "two", "three", "four"]), [true; 4]);
    assert_eq!(export(&machine, &session).await["messages"], before["messages"]);

    machine.run(&arguments).await;
    machine.llm.reply(Reply::text("gone on"));
    machine.run(&["run", "--session", &session, "go on"]).await;
    let asked = said(&machine.llm.last_request());
    assert!(asked.contains("one is made") && !asked.contains("call_one"), "{asked}");
    assert!(!asked.contains("and two more"), "{asked}");
    let record = export(&machine, &session).await;
    assert_eq!((prompts(&record).len(), record["info"].get("revert")), (2, None));
    assert!(!record.to_string().contains("call_one"), "{record}");
    machine.finish().await;
}

#[tokio::test]
async fn what_cannot_be_taken_back_is_told() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("hello"));
    let session = session_of(&machine.run(&["run", "--format", "json", "hi"]).await);
    let record = export(&machine, &session).await;
    let message = prompts(&record).remove(0);
    for (arguments, reason) in [
        (&["-m", "msg_none"][..], "the session has no message msg_none"),
        (&["-m", &message, "-p", "prt_none"], "the session has no part prt_none in the message"),
    ] {
        let refused = machine.run(&[&["session", "revert", &session], arguments].concat()).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains(reason), "{refused:?}");
    }
    let forked = machine.run(&["session", "fork", &session, "-m", "msg_none"]).await;
    assert!(forked.code == Some(1) && forked.stderr.contains("has no message msg_none"), "{forked:?}");
    let unreverted = machine.run(&["session", "unrevert", &session]).await;
    assert_eq!(unreverted.stdout, "There is nothing to put back.\n");
    assert_eq!(export(&machine, &session).await, record);
    // Without a message it is the last prompt.
    let reverted = machine.run(&["session", "revert", &session]).await;
    assert!(reverted.stdout.starts_with("Taken back: \"hi\""), "{reverted:?}");
    let again = machine.run(&["session", "revert", &session]).await;
    assert_eq!(again.stdout, "There is nothing to take back.\n");
    machine.finish().await;
}

#[tokio::test]
async fn undo_takes_several_prompts_or_goes_to_a_message() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    for name in ["one", "two", "three"] {
        two_steps(&agent.llm, name, &format!("{name}_b"));
        agent.prompt(&session, name).await;
    }
    let own = |words: &'static str| agent.prompt(&session, words);
    let undone = own("/undo 2").await.text();
    assert!(undone.starts_with("Undone: \"two\" and what followed."), "{undone}");
    assert!(agent.scratch.exists("one.txt") && !agent.scratch.exists("two.txt"));
    let redone = own("/redo").await.text();
    assert!(redone.starts_with("Put back: \"two\" with its answers. One more prompt"), "{redone}");
    assert!(agent.scratch.exists("two.txt") && !agent.scratch.exists("three.txt"));
    let refused = own("/undo three").await.text();
    assert_eq!(
        refused,
        "`three` is neither a number of prompts nor the id of a message, so nothing is undone."
    );
    assert_eq!(own("/undo msg_none").await.text(), "Nothing is undone: the session has no message msg_none.");
    let undone = own("/undo 9").await.text();
    assert!(undone.starts_with("Undone: \"one\""), "{undone}");
    assert!(!agent.scratch.exists("one.txt"));
    agent.finish().await;
}

#[tokio::test]
async fn a_fork_ends_before_a_message_and_the_session_stays_as_it_is() {
    let machine = Machine::new().await;
    let todo = |content: &str| json!({"content": content, "status": "pending", "priority": "low"});
    machine.llm.reply(Reply::call("call_1", "todowrite", json!({"todos": [todo("early")]})));
    machine.llm.reply(Reply::text("first answer"));
    let session = session_of(&machine.run(&["run", "--format", "json", "first"]).await);
    machine.llm.reply(Reply::call("call_2", "todowrite", json!({"todos": [todo("late")]})));
    machine.llm.reply(Reply::text("second answer"));
    machine.run(&["run", "--session", &session, "second"]).await;
    let second = machine.llm.requests().into_iter().rev().nth(1).expect("the second prompt's request");
    let before = export(&machine, &session).await;

    let at = prompts(&before).remove(1);
    let forked = machine.run(&["session", "fork", &session, "--message", &at]).await;
    let (id, name) = forked.stdout.trim().split_once(" is called ").expect("its name");
    assert!(name.ends_with("(fork #1)."), "{forked:?}");
    let fork = id.strip_prefix("Session ").unwrap().to_owned();
    let copy = export(&machine, &fork).await;
    assert_eq!(copy["messages"].as_array().unwrap().len(), before["messages"].as_array().unwrap().len() - 3);
    machine.llm.reply(Reply::call("call_3", "todoread", json!({})));
    machine.llm.reply(Reply::text("forked answer"));
    machine.run(&["run", "--session", &fork, "second"]).await;
    let requests = machine.llm.requests();
    let asked = &requests[requests.len() - 2];
    assert_eq!(asked.messages(), second.messages(), "the model sees what it would have seen");
    let list = machine.llm.last_request().tool_result("call_3");
    assert!(list.contains("early") && !list.contains("late"), "{list}");
    assert_eq!(export(&machine, &session).await, before);
    machine.finish().await;
}

#[tokio::test]
async fn a_fork_that_cannot_be_stored_leaves_nothing() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("answer"));
    let session = session_of(&machine.run(&["run", "--format", "json", "first"]).await);
    let store =
        rusqlite::Connection::open(machine.scratch.home.join(".local/share/windlass/windlass.db")).unwrap();
    let full = "CREATE TRIGGER full BEFORE INSERT ON message BEGIN SELECT RAISE(ABORT, 'no room'); END";
    store.execute_batch(full).unwrap();
    let forked = machine.run(&["session", "fork", &session]).await;
    assert!(forked.code == Some(1) && forked.stderr.contains("no room"), "{forked:?}");
    store.execute_batch("DROP TRIGGER full").unwrap();
    let list = machine.run(&["session", "list", "--format", "json"]).await.stdout;
    assert_eq!(serde_json::from_str::<Vec<Value>>(&list).unwrap().len(), 1, "{list}");
    machine.finish().await;
}

#[tokio::test]
async fn a_client_forks_a_session() {
    let agent = Agent::builder().spawn().await;
    let initialized = agent.initialize().await;
    assert_eq!(initialized["agentCapabilities"]["sessionCapabilities"]["fork"], json!({}));
    let session = agent.new_session().await;
    for word in ["first", "second"] {
        agent.llm.reply(Reply::text(&format!("answer to {word}")));
        agent.prompt(&session, word).await;
    }
    let params = |meta: Value| {
        let mut params = agent.session_params();
        params["sessionId"] = json!(session);
        params["_meta"] = meta;
        params
    };
    let whole = agent.request("session/fork", params(json!({}))).await.unwrap();
    let fork = whole["sessionId"].as_str().unwrap().to_owned();
    assert!(fork != session && whole["modes"]["currentModeId"] == "build", "{whole}");
    agent.llm.reply(Reply::text("third"));
    agent.prompt(&fork, "third").await;
    let asked = said(&agent.llm.last_request());
    assert!(asked.contains("answer to first") && asked.contains("answer to second"), "{asked}");
    let message =
        agent.updates(&session).iter().rev().find_map(|it| Some(it["messageId"].as_str()?.to_owned()));
    let part = agent.request("session/fork", params(json!({"windlass/forkMessage": message}))).await.unwrap();
    agent.llm.reply(Reply::text("other"));
    agent.prompt(part["sessionId"].as_str().unwrap(), "other").await;
    let asked = said(&agent.llm.last_request());
    assert!(asked.contains("second") && !asked.contains("answer to second"), "{asked}");
    let refused = agent.request("session/fork", params(json!({"windlass/forkMessage": "msg_none"}))).await;
    let refused = refused.expect_err("no such message");
    assert_eq!((refused.code, refused.message.as_str()), (-32602, "the session has no message msg_none"));
    agent.finish().await;
}

#[tokio::test]
async fn a_session_that_another_windlass_has_in_memory_is_not_changed_behind_its_back() {
    let agent = Agent::start().await;
    let machine = Machine { scratch: agent.scratch.clone(), llm: agent.llm.clone(), ..Machine::new().await };
    let session = agent.new_session().await;
    agent.llm.reply(bash("call_1", "echo new > new.txt"));
    agent.llm.reply(Reply::text("made"));
    agent.prompt(&session, "make it").await;
    let before = export(&machine, &session).await;
    let refused = machine.run(&["session", "revert", &session]).await;
    let told =
        format!("Nothing was taken back: another windlass has the session {session} open; undo it there");
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.starts_with(&told), "{refused:?}");
    assert!(agent.scratch.exists("new.txt"));
    assert_eq!(export(&machine, &session).await, before);
    // One that its editor closed is free, and the editor sees the revert.
    agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    let reverted = machine.run(&["session", "revert", &session]).await;
    assert!(reverted.stdout.starts_with("Taken back: \"make it\""), "{reverted:?}");
    assert!(!agent.scratch.exists("new.txt"));
    assert!(agent.load(&session).await.iter().all(|update| tag(update) != "user_message_chunk"));
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go on").await;
    assert!(!said(&agent.llm.last_request()).contains("make it"));
    agent.finish().await;
}
