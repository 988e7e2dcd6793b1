//! Files that a session's model has read stay known: over a restart, in a fork, as a subagent; not those that were
//! undone since.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, requests::prompt_params},
    llm::Reply,
};

async fn read(agent: &Agent, session: &str) {
    let path = agent.scratch.path("a.txt");
    let content = agent.told(session, "read", json!({"filePath": path})).await;
    assert!(content.contains("1: "), "{content}");
}

fn edit(agent: &Agent, old: &str, new: &str) -> Value {
    json!({"filePath": agent.scratch.path("a.txt"), "oldString": old, "newString": new})
}

#[tokio::test]
async fn a_file_that_was_read_is_known_after_a_restart() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    read(&agent, &session).await;
    let agent = agent.restarted().await;
    agent.load(&session).await;
    let edited = agent.told(&session, "edit", edit(&agent, "two", "zwei")).await;
    assert_eq!(edited, "Edit applied successfully.");
    let agent = agent.restarted().await;
    agent.load(&session).await;
    let edited = agent.told(&session, "edit", edit(&agent, "zwei", "deux")).await;
    assert_eq!(edited, "Edit applied successfully.", "what the session wrote it knows too");
    agent.finish().await;
}

#[tokio::test]
async fn a_file_that_changed_while_nobody_ran_is_refused() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    read(&agent, &session).await;
    let agent = agent.restarted().await;
    agent.scratch.write("a.txt", "somebody else's two\n");
    agent.load(&session).await;
    let edited = agent.told(&session, "edit", edit(&agent, "two", "zwei")).await;
    assert!(edited.contains("has been modified since it was last read."), "{edited}");
    assert_eq!(agent.scratch.read("a.txt"), "somebody else's two\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_subagent_that_goes_on_knows_what_it_read() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let task = |prompt: &str, task_id: Option<&str>| json!({"description": "work", "prompt": prompt, "subagent_type": "general", "task_id": task_id});
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD one", None)));
    let path = agent.scratch.path("a.txt");
    agent.llm.reply_to("CHILD one", Reply::call("call_read", "read", json!({"filePath": path})));
    agent.llm.reply_to("CHILD one", Reply::text("read it"));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    let result = agent.llm.last_request().tool_result("call_1");
    let child = result.split('"').nth(1).unwrap().to_owned();
    agent.llm.reply_to("more", Reply::call("call_2", "task", task("CHILD two", Some(&child))));
    agent.llm.reply_to("CHILD two", Reply::call("call_edit", "edit", edit(&agent, "two", "zwei")));
    agent.llm.reply_to("CHILD two", Reply::text("edited it"));
    agent.llm.reply_to("more", Reply::text("done"));
    agent.prompt(&session, "more").await;
    let result = agent.llm.last_request().tool_result("call_2");
    assert!(result.contains("edited it"), "{result}");
    assert_eq!(agent.scratch.read("a.txt"), "one\nzwei\nthree\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_fork_knows_what_was_read_before_it_and_an_undone_reading_is_forgotten() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    read(&agent, &session).await;
    let forked = agent.prompt(&session, "/fork").await.text();
    let fork = forked.split(|it: char| !it.is_alphanumeric() && it != '_').find(|it| it.starts_with("ses_"));
    let fork = fork.unwrap_or_else(|| panic!("no session in {forked}")).to_owned();
    agent.prompt(&session, "/undo").await;
    let edited = agent.told(&session, "edit", edit(&agent, "two", "zwei")).await;
    assert!(edited.starts_with("You must read the file "), "{edited}");
    agent.load(&fork).await;
    let edited = agent.told(&fork, "edit", edit(&agent, "two", "zwei")).await;
    assert_eq!(edited, "Edit applied successfully.");
    agent.finish().await;
}

#[tokio::test]
async fn a_file_whose_whole_text_is_in_the_prompt_counts_as_read() {
    let whole = "one\ntwo\nthree\n";
    for (resource, is_known) in [
        (json!({"text": whole}), true),
        (json!({"text": "one\ntwo\n"}), false),
        (json!({"text": "one\ntwo\nsaved\n"}), false),
    ] {
        let agent = Agent::start().await;
        let session = agent.new_session().await;
        let mut resource = resource;
        resource["uri"] = json!(format!("file://{}", agent.scratch.path("a.txt")));
        let mut params = prompt_params(&session, "Mend it.");
        params["prompt"].as_array_mut().unwrap().push(json!({"type": "resource", "resource": resource}));
        agent.llm.reply(Reply::call("call_1", "edit", edit(&agent, "two", "zwei")));
        agent.llm.reply(Reply::text("done"));
        agent.send_request("session/prompt", params).turn().await;
        let edited = agent.llm.last_request().tool_result("call_1");
        assert_eq!(edited == "Edit applied successfully.", is_known, "{resource}: {edited}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_file_that_the_user_links_counts_as_read() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let mut params = prompt_params(&session, "Mend it.");
    let link = json!({"type": "resource_link", "name": "a.txt", "uri": format!("file://{}", agent.scratch.path("a.txt"))});
    params["prompt"].as_array_mut().unwrap().push(link);
    agent.llm.reply(Reply::text("seen"));
    agent.send_request("session/prompt", params).turn().await;
    let agent = agent.restarted().await;
    agent.load(&session).await;
    let edited = agent.told(&session, "edit", edit(&agent, "two", "zwei")).await;
    assert_eq!(edited, "Edit applied successfully.");
    agent.finish().await;
}
