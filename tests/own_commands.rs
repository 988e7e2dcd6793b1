//! Commands that the daemon runs by itself: answers, undo, forks and summaries.

use serde_json::json;

use crate::{
    commands::saying,
    support::{
        agent::{Agent, Answer},
        llm::{Gate, Reply},
        message::text,
    },
};

/// Returns the daemon's own answer to a command, without a model.
async fn own(agent: &Agent, session: &str, command: &str) -> String {
    let n_before = agent.llm.requests().len();
    let turn = agent.prompt(session, command).await;
    assert_eq!(turn.stop, "end_turn");
    assert_eq!(agent.llm.requests().len(), n_before, "{command} asked a model");
    turn.text()
}

#[tokio::test]
async fn the_daemon_answers_its_own_commands_and_tells_no_model() {
    let agent = saying("x").config(json!({"agent": {"build": {"steps": "many"}}})).start().await;
    let session = agent.new_session().await;
    let help = own(&agent, &session, "/help").await;
    assert!(
        help.contains("`/go` (configured) Goes") && help.contains("`/undo number or message id`"),
        "{help}"
    );
    let status = own(&agent, &session, "/status").await;
    for wanted in [session.as_str(), "mock/mock", "Agent: build", "Cost: $0.0000", "agent.build.steps"] {
        assert!(status.contains(wanted), "{wanted} is missing in {status}");
    }
    assert!(own(&agent, &session, "/models").await.contains("`mock/mock` Mock/Mock (answers now)"));
    let permissions = own(&agent, &session, "/permissions").await;
    assert!(
        permissions.contains("- ask `read` `*.env`") && permissions.contains("No answers"),
        "{permissions}"
    );
    agent.llm.reply(Reply::text("hello to you"));
    agent.prompt(&session, "hello").await;
    assert_eq!(agent.llm.last_request().messages().len(), 2, "the answers were told to the model");
    assert_eq!(agent.llm.title_requests().len(), 1, "the first prompt makes the title");

    let updates = agent.load(&session).await;
    let typed = text(&updates, "user_message_chunk");
    assert_eq!(typed, "/help/status/models/permissionshello");
    assert!(text(&updates, "agent_message_chunk").starts_with(&help));
    agent.finish().await;
}

#[tokio::test]
async fn remembered_answers_are_among_the_permissions() {
    let agent =
        Agent::builder().config(json!({"permission": {"bash": "ask"}})).answering(Answer::AllowAlways);
    let agent = agent.start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "git status"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    let permissions = own(&agent, &session, "/permissions").await;
    assert!(permissions.contains("- allow `bash` `git status *`"), "{permissions}");
    agent.finish().await;
}

#[tokio::test]
async fn undo_takes_prompts_out_and_redo_puts_them_back() {
    let config = json!({"windlass": {"file_time": false}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    assert_eq!(own(&agent, &session, "/undo").await, "There is nothing to undo.");
    assert_eq!(own(&agent, &session, "/redo").await, "There is nothing to redo.");
    agent.llm.reply(Reply::text("one"));
    agent.prompt(&session, "first").await;
    let edit = json!({"filePath": agent.scratch.path("a.txt"), "oldString": "two", "newString": "zwei"});
    agent.llm.reply(Reply::call("call_1", "edit", edit));
    agent.llm.reply(Reply::text("two"));
    agent.prompt(&session, "second").await;
    agent.llm.reply(Reply::text("three"));
    agent.prompt(&session, "third").await;

    assert!(own(&agent, &session, "/undo").await.starts_with("Undone: \"third\""));
    let undone = own(&agent, &session, "/undo").await;
    assert!(undone.starts_with("Undone: \"second\"") && undone.contains("Restored files:"), "{undone}");
    assert!(undone.contains(&agent.scratch.path("a.txt")), "{undone}");
    assert!(agent.scratch.read("a.txt").contains("two"));
    let shown = agent.load(&session).await;
    let typed = text(&shown, "user_message_chunk");
    assert!(typed.contains("first") && !typed.contains("second") && !typed.contains("third"), "{typed}");

    let redone = own(&agent, &session, "/redo").await;
    let expected = "Put back: \"second\" with its answers. One more prompt is undone.";
    assert!(redone.starts_with(expected), "{redone}");
    agent.llm.reply(Reply::text("four"));
    agent.prompt(&session, "fourth").await;
    let request = agent.llm.last_request().body["messages"].to_string();
    for (word, is_told) in [("first", true), ("second", true), ("third", false), ("three", false)] {
        assert_eq!(request.contains(word), is_told, "{word} in {request}");
    }
    assert_eq!(own(&agent, &session, "/redo").await, "There is nothing to redo.");
    let shown = text(&agent.load(&session).await, "agent_message_chunk");
    assert!(!shown.contains("three") && shown.contains("four"), "{shown}");
    agent.finish().await;
}

#[tokio::test]
async fn an_undo_outlives_the_process() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("one"));
    agent.prompt(&session, "first").await;
    own(&agent, &session, "/undo").await;
    let agent = agent.restarted().await;
    assert!(!text(&agent.load(&session).await, "agent_message_chunk").starts_with("one"));
    assert!(own(&agent, &session, "/redo").await.starts_with("Put back: \"first\""));
    assert!(text(&agent.load(&session).await, "agent_message_chunk").starts_with("one"));
    agent.finish().await;
}

#[tokio::test]
async fn a_fork_begins_with_the_conversation_and_goes_its_own_way() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo inside"})));
    agent.llm.reply(Reply::text("one"));
    agent.prompt(&session, "first").await;
    agent.llm.reply(Reply::text("two"));
    agent.prompt(&session, "second").await;
    own(&agent, &session, "/undo").await;
    let said = own(&agent, &session, "/fork").await;
    let fork = said.split('`').nth(1).unwrap().to_owned();
    assert!(fork.starts_with("ses_") && fork != session, "{said}");
    let updates = agent.load(&fork).await;
    assert!(text(&updates, "agent_message_chunk").starts_with("one"), "{updates:#?}");
    assert!(!text(&updates, "user_message_chunk").contains("second"));
    agent.llm.reply(Reply::text("three"));
    agent.prompt(&fork, "third").await;
    let request = agent.llm.last_request();
    assert_eq!(request.tool_result("call_1").trim(), "inside");
    assert!(!request.body["messages"].to_string().contains("second"));
    let listed = agent.request("session/list", json!({})).await.unwrap();
    let titles: Vec<&str> =
        listed["sessions"].as_array().unwrap().iter().filter_map(|it| it["title"].as_str()).collect();
    assert!(titles.iter().any(|title| title.ends_with("(fork #1)")), "{titles:?}");
    agent.finish().await;
}

#[tokio::test]
async fn after_a_compaction_the_model_reads_the_summary() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    assert_eq!(own(&agent, &session, "/compact").await, "There is nothing to summarise yet.");
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo inside"})));
    agent.llm.reply(Reply::text("one"));
    agent.prompt(&session, "first").await;
    agent.llm.reply(Reply::text("## Objective\nbees"));
    let turn = agent.prompt(&session, "/compact keep the bees").await;
    assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "## Objective\nbees"));
    let request = agent.llm.last_request();
    assert!(request.system().contains("You condense a conversation"), "{}", request.system());
    assert!(request.tools().is_empty());
    let asked = request.last_user();
    for wanted in ["[User]: first", "[Assistant tool call]: bash(", "[Tool result]: inside", "keep the bees"]
    {
        assert!(asked.contains(wanted), "{wanted} is missing in {asked}");
    }
    agent.llm.reply(Reply::text("two"));
    agent.prompt(&session, "second").await;
    let said = agent.llm.last_request().messages();
    let said: Vec<(&str, &str)> = said[1..]
        .iter()
        .map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap()))
        .collect();
    assert_eq!(
        said,
        [("user", "What did we do so far?"), ("assistant", "## Objective\nbees"), ("user", "second")]
    );
    // The next summary is made from this one, and undo brings back the messages before it.
    agent.llm.reply(Reply::text("## Objective\nmore bees"));
    agent.prompt(&session, "/compact").await;
    let asked = agent.llm.last_request().last_user();
    assert!(asked.contains("<prior-summary>\n## Objective\nbees\n</prior-summary>"), "{asked}");
    assert!(!asked.contains("first"), "{asked}");
    own(&agent, &session, "/undo").await;
    own(&agent, &session, "/undo").await;
    own(&agent, &session, "/undo").await;
    agent.llm.reply(Reply::text("three"));
    agent.prompt(&session, "third").await;
    assert!(agent.llm.last_request().body["messages"].to_string().contains("first"));
    agent.finish().await;
}

#[tokio::test]
async fn a_compaction_that_fails_changes_nothing() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("one"));
    agent.prompt(&session, "first").await;
    agent.llm.reply(Reply::status(400).body(json!({"error": {"message": "prompt is too long"}})));
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "/compact"}]});
    let error = agent.request("session/prompt", params).await.unwrap_err();
    assert!(error.message.contains("too large to compact"), "{}", error.message);
    let gate = Gate::new();
    agent.llm.reply(Reply::hang(&gate));
    let prompt = agent.send_prompt(&session, "/compact");
    gate.reached().await;
    agent.cancel(&session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    agent.llm.reply(Reply::text("two"));
    agent.prompt(&session, "second").await;
    assert_eq!(
        agent.llm.last_request().messages().len(),
        4,
        "{:#}",
        agent.llm.last_request().body["messages"]
    );
    agent.finish().await;
}

#[tokio::test]
async fn a_long_tail_stays_as_it_is() {
    let config = json!({"compaction": {"preserve_recent_tokens": 20}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    for (said, answer) in [("first", "x".repeat(200)), ("second", "short".to_owned())] {
        agent.llm.reply(Reply::text(&answer));
        agent.prompt(&session, said).await;
    }
    agent.llm.reply(Reply::text("the summary"));
    agent.prompt(&session, "/compact").await;
    let asked = agent.llm.last_request().last_user();
    assert!(asked.contains("first") && !asked.contains("second"), "{asked}");
    agent.llm.reply(Reply::text("three"));
    agent.prompt(&session, "third").await;
    let said = agent.llm.last_request().messages();
    let said: Vec<&str> = said[1..].iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["What did we do so far?", "the summary", "second", "short", "third"]);
    agent.finish().await;
}

#[tokio::test]
async fn a_command_waits_for_its_turn() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("one").and_gate(&gate));
    let first = agent.send_prompt(&session, "first");
    gate.reached().await;
    let help = agent.send_prompt(&session, "/undo");
    gate.open();
    first.turn().await;
    assert!(help.turn().await.text().contains("Undone: \"first\""), "the prompt was not undone");
    agent.finish().await;
}

#[tokio::test]
async fn commands_that_the_daemon_answers_wait_for_the_running_turn_and_may_be_cancelled() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("one").and_gate(&gate));
    let first = agent.send_prompt(&session, "first");
    gate.reached().await;
    let fork = agent.send_prompt(&session, "/fork");
    let compact = agent.send_prompt(&session, "/compact");
    agent.llm.reply(Reply::text("the summary"));
    gate.open();
    assert_eq!(first.turn().await.text(), "one");
    let forked = fork.turn().await.text();
    assert!(forked.contains("is copied into the session `ses_"), "{forked}");
    assert!(compact.turn().await.text().ends_with("the summary"));
    let fork = forked.split('`').nth(1).unwrap().to_owned();
    assert_eq!(text(&agent.load(&fork).await, "user_message_chunk"), "first", "what came later is not in it");

    let gate = Gate::new();
    agent.llm.reply(Reply::hang(&gate));
    let running = agent.send_prompt(&session, "second");
    gate.reached().await;
    let waiting = ["/undo", "/fork", "/compact"].map(|command| agent.send_prompt(&session, command));
    agent.cancel(&session);
    assert_eq!(running.turn().await.stop, "cancelled");
    for prompt in waiting {
        assert_eq!(prompt.turn().await.stop, "cancelled");
    }
    // The cancelled prompt is there, and an undo takes it out.
    assert!(own(&agent, &session, "/undo").await.starts_with("Undone: \"second\""));
    agent.finish().await;
}

#[tokio::test]
async fn a_load_shows_a_compaction_however_it_ended() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("one"));
    agent.prompt(&session, "first").await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("## Obj").and_gate(&gate).and_text("ective"));
    let prompt = agent.send_prompt(&session, "/compact");
    agent.wait_text(&session, "## Obj").await;
    agent.cancel(&session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    agent.llm.reply(Reply::status(400).body(json!({"error": {"message": "no"}})));
    let failed = json!({"sessionId": session, "prompt": [{"type": "text", "text": "/compact"}]});
    agent.request("session/prompt", failed).await.unwrap_err();
    // Half a summary is no summary: the next one is made from the messages.
    agent.llm.reply(Reply::text("## Whole"));
    agent.prompt(&session, "/compact").await;
    let asked = agent.llm.last_request().last_user();
    assert!(asked.contains("[User]: first") && !asked.contains("prior-summary"), "{asked}");

    let agent = agent.restarted().await;
    let shown = agent.load(&session).await;
    assert_eq!(text(&shown, "user_message_chunk"), "first/compact/compact/compact");
    assert_eq!(text(&shown, "agent_message_chunk"), "one## Obj## Whole");
    agent.llm.reply(Reply::text("two"));
    agent.prompt(&session, "second").await;
    let said = agent.llm.last_request().body["messages"].to_string();
    assert!(said.contains("## Whole") && !said.contains("## Obj") && !said.contains("first"), "{said}");
    agent.finish().await;
}

#[tokio::test]
async fn a_subagents_session_can_be_opened_and_knows_the_commands() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let task = json!({"description": "Look", "prompt": "CHILD", "subagent_type": "explore"});
    agent.llm.reply(Reply::call("call_1", "task", task));
    agent.llm.reply(Reply::text("found it"));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    let child = turn.tool("call_1")["rawOutput"]["metadata"]["sessionId"].as_str().unwrap().to_owned();
    assert!(text(&agent.load(&child).await, "agent_message_chunk").contains("found it"));

    let forked = own(&agent, &child, "/fork").await;
    let fork = forked.split('`').nth(1).unwrap().to_owned();
    for (command, wanted) in [("/undo", "Undone: \"CHILD\""), ("/redo", "Put back: \"CHILD\"")] {
        let said = own(&agent, &child, command).await;
        assert!(said.starts_with(wanted), "{said}");
    }
    agent.llm.reply(Reply::text("the summary"));
    assert_eq!(agent.prompt(&child, "/compact").await.text(), "the summary");

    // A fork is the user's own session, answered by an agent that users choose.
    agent.load(&fork).await;
    assert!(own(&agent, &fork, "/status").await.contains("Agent: build"));
    agent.llm.reply(Reply::text("on my own"));
    agent.prompt(&fork, "go on").await;
    assert!(agent.llm.last_request().tools().contains(&"edit".to_owned()));
    assert!(text(&agent.load(&session).await, "agent_message_chunk").contains("done"));
    agent.finish().await;
}

#[tokio::test]
async fn what_was_undone_stays_out_after_a_compaction_and_a_fork() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    for said in ["first", "second"] {
        agent.llm.reply(Reply::text(&format!("answer to {said}")));
        agent.prompt(&session, said).await;
    }
    own(&agent, &session, "/undo").await;
    // Asides do not end an undo.
    own(&agent, &session, "/help").await;
    own(&agent, &session, "/status").await;
    assert!(own(&agent, &session, "/redo").await.starts_with("Put back: \"second\""));
    own(&agent, &session, "/undo").await;
    agent.llm.reply(Reply::text("the summary"));
    agent.prompt(&session, "/compact").await;
    let asked = agent.llm.last_request().last_user();
    assert!(asked.contains("first") && !asked.contains("second"), "{asked}");
    assert_eq!(own(&agent, &session, "/redo").await, "There is nothing to redo.");
    agent.finish().await;
}

#[tokio::test]
async fn help_leaves_out_what_is_denied_and_tells_what_undo_does() {
    let config = json!({"permission": {"skill": {"secret": "deny"}}});
    let agent = Agent::start_with(config).await;
    for name in ["secret", "open"] {
        let text = format!("---\nname: {name}\ndescription: Does {name} things.\n---\nDo it.\n");
        agent.scratch.write(&format!(".opencode/skills/{name}/SKILL.md"), text);
    }
    let session = agent.new_session().await;
    let help = own(&agent, &session, "/help").await;
    assert!(help.contains("`/open` (skill) Does open things.") && !help.contains("secret"), "{help}");
    assert!(help.contains("with the files that they changed"), "{help}");
    agent.finish().await;
}

#[tokio::test]
async fn without_snapshots_undo_names_every_file_that_the_undone_turns_changed_and_redo_leaves_them_too() {
    let config = json!({"windlass": {"file_time": false}, "snapshot": false});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    let path = |name: &str| agent.scratch.path(name);
    let edit = json!({"filePath": path("a.txt"), "oldString": "two", "newString": "zwei"});
    agent.llm.reply(Reply::call("call_1", "edit", edit).and_call(
        "call_2",
        "write",
        json!({"filePath": path("made/new.txt"), "content": "new"}),
    ));
    agent.llm.reply(Reply::call(
        "call_3",
        "edit",
        json!({"filePath": path("a.txt"), "oldString": "missing", "newString": "x"}),
    ));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "change it").await;
    let undone = own(&agent, &session, "/undo").await;
    let files: Vec<&str> = undone.lines().filter(|line| line.starts_with("- `")).collect();
    assert_eq!(
        files,
        [format!("- `{}`", path("a.txt")), format!("- `{}`", path("made/new.txt"))],
        "{undone}"
    );
    assert!(undone.contains("Files are not restored: "), "{undone}");
    assert!(agent.scratch.read("a.txt").contains("zwei") && agent.scratch.exists("made/new.txt"));
    assert_eq!(own(&agent, &session, "/redo").await, "Put back: \"change it\" with its answers.");
    assert!(agent.scratch.read("a.txt").contains("zwei"));
    agent.finish().await;
}

#[tokio::test]
async fn what_init_has_written_is_in_the_next_turn() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let file = agent.scratch.path("AGENTS.md");
    agent.llm.reply(Reply::call("call_1", "write", json!({"filePath": file, "content": "Prefer tabs."})));
    agent.llm.reply(Reply::text("written"));
    let turn = agent.prompt(&session, "/init").await;
    assert_eq!((turn.text().as_str(), turn.stop.as_str()), ("written", "end_turn"));
    assert_eq!(turn.tool("call_1")["status"], "completed");
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let system = agent.llm.last_request().system();
    assert!(system.contains(&format!("Instructions from: {file}\nPrefer tabs.")), "{system}");
    agent.finish().await;
}

#[tokio::test]
async fn a_review_reads_and_answers_in_a_session_of_its_own_and_the_agent_goes_on() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "git diff --stat"})));
    agent.llm.reply(Reply::text("two findings"));
    agent.llm.reply(Reply::text("I fix the first."));
    let turn = agent.prompt(&session, "/review").await;
    assert_eq!((turn.text().as_str(), turn.stop.as_str()), ("I fix the first.", "end_turn"));
    let requests = agent.llm.requests();
    assert!(!requests[0].tools().contains(&"task".to_owned()), "a reviewer starts nobody");
    assert!(requests[2].body["messages"].to_string().contains("two findings"));
    // A load shows the text as the user typed it.
    assert_eq!(text(&agent.load(&session).await, "user_message_chunk"), "/review");
    agent.finish().await;
}
