//! Slash commands: what the client is told of them, what the model reads of them, and what the daemon does by itself.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer, Builder, binary},
    llm::{Gate, Reply},
    message::{Turn, text},
};

/// An agent with these commands.
fn with(commands: Value) -> Builder {
    Agent::builder().config(json!({ "command": commands }))
}

/// An agent with one command `go` that says this.
fn saying(template: &str) -> Builder {
    with(json!({"go": {"template": template, "description": "Goes"}}))
}

async fn asked_commands(builder: Builder) -> Vec<Value> {
    let agent = builder.spawn().await.initialized().await;
    agent.new_session().await;
    let update = agent.wait_update("available_commands_update").await;
    agent.finish().await;
    update["availableCommands"].as_array().unwrap().clone()
}

/// The bash calls of a turn, in order, as they ended.
fn calls(turn: &Turn) -> Vec<Value> {
    let ids = turn.all("tool_call").into_iter().map(|call| call["toolCallId"].as_str().unwrap().to_owned());
    ids.map(|id| turn.tool(&id)).collect()
}

#[tokio::test]
async fn the_client_is_told_of_every_command_with_a_hint_where_one_takes_arguments() {
    let commands = asked_commands(with(json!({
        "plain": {"template": "Do it", "description": "Does it"},
        "placed": {"template": "Fix $1 in $2"},
        "whole": {"template": "Say $ARGUMENTS"},
        "review": {"template": "My own review"},
    })))
    .await;
    let named = |name: &str| commands.iter().find(|command| command["name"] == name).unwrap();
    assert_eq!(named("plain"), &json!({"name": "plain", "description": "Does it"}));
    assert_eq!(named("placed")["input"]["hint"], "<1> <2>");
    assert_eq!(named("whole")["input"]["hint"], "arguments");
    assert_eq!(named("review")["description"], "", "the user's command takes the place of the built-in one");
    for name in ["init", "compact", "help", "undo", "redo", "fork", "status", "models", "permissions"] {
        assert!(!named(name)["description"].as_str().unwrap().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn the_model_reads_the_template_with_its_arguments() {
    let cases = [
        ("Fix $1 in $2.", "/go a \"b c\" d\ne", "Fix a in b c d\ne."),
        ("Say: $ARGUMENTS!", "/go  two  words ", "Say: two  words!"),
        ("No place", "/go a\n  b", "No place\n\na\n  b"),
        ("No place", "/go", "No place"),
    ];
    for (template, typed, wanted) in cases {
        let agent = saying(template).spawn().await.initialized().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("done"));
        assert_eq!(agent.prompt(&session, typed).await.text(), "done");
        assert_eq!(agent.llm.last_request().last_user(), wanted);
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_load_shows_what_the_user_typed() {
    let agent = saying("A long template about $1").spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/go bees").await;
    let updates = agent.load(&session).await;
    assert_eq!(text(&updates, "user_message_chunk"), "/go bees");
    assert_eq!(text(&updates, "agent_message_chunk"), "done");
    agent.finish().await;
}

#[tokio::test]
async fn words_that_name_no_command_are_words() {
    let agent = saying("x").spawn().await.initialized().await;
    let session = agent.new_session().await;
    for words in ["/usr/bin is full", "/unknown x", "/", "go /go", "/Go"] {
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, words).await;
        assert_eq!(agent.llm.last_request().last_user(), words);
    }
    agent.finish().await;
}

#[tokio::test]
async fn attachments_of_the_prompt_and_files_of_the_template_are_read() {
    let agent = saying("Look at @a.txt, and mail me@a.txt about $1").spawn().await.initialized().await;
    agent.scratch.write("other.txt", "the other text");
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    let link = |name: &str| {
        let uri = format!("file://{}", agent.scratch.path(name));
        json!({"type": "resource_link", "name": name, "uri": uri})
    };
    let image = json!({"type": "image", "mimeType": "image/png", "data": "aGk="});
    let resource = json!({"type": "resource", "resource": {"uri": "file:///notes.md", "text": "my notes"}});
    let prompt = json!([{"type": "text", "text": "/go bees"}, link("other.txt"), image, resource]);
    let params = json!({"sessionId": session, "prompt": prompt});
    agent.request("session/prompt", params).await.unwrap();
    let request = agent.llm.last_request();
    let said = request.last_user();
    assert!(said.starts_with("Look at @a.txt, and mail me@a.txt about bees"), "{said}");
    for wanted in ["one", "the other text", "my notes"] {
        assert!(said.contains(wanted), "{wanted} is missing in {said}");
    }
    assert!(request.body.to_string().contains("aGk="), "the image is missing");
    agent.finish().await;
}

#[tokio::test]
async fn a_file_among_the_words_is_an_argument_and_is_read() {
    let agent = saying("Fix <$1> <$2>").spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    let uri = format!("file://{}", agent.scratch.path("a.txt"));
    let prompt = json!([
        {"type": "text", "text": "/go "},
        {"type": "resource_link", "name": "a.txt", "uri": uri},
        {"type": "text", "text": " now"},
    ]);
    agent.request("session/prompt", json!({"sessionId": session, "prompt": prompt})).await.unwrap();
    let said = agent.llm.last_request().last_user();
    assert!(said.starts_with("Fix <a.txt> <now>") && said.contains("two"), "{said}");
    agent.finish().await;
}

#[tokio::test]
async fn a_command_is_answered_by_its_agent_and_model_and_the_session_keeps_its_own() {
    let agent = with(json!({"go": {"template": "x", "agent": "sage", "model": "mock/other"}}));
    let agent = agent.config(json!({"agent": {"sage": {"prompt": "You are SAGE."}}}));
    let agent = agent.spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "true"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/go").await;
    for request in agent.llm.requests() {
        assert_eq!(request.body["model"], "other");
        assert!(request.system().contains("You are SAGE."));
    }
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "and now").await;
    assert_eq!(agent.llm.last_request().body["model"], "mock");
    assert!(!agent.llm.last_request().system().contains("You are SAGE."));
    agent.finish().await;
}

#[tokio::test]
async fn a_command_with_an_unknown_agent_or_model_says_what_there_is() {
    for (command, wanted) in [
        (json!({"template": "x", "agent": "nobody"}), "Agent not found: \"nobody\". Available agents: build"),
        (json!({"template": "x", "model": "mock/mok"}), "Model not found: mock/mok. Did you mean: mock/mock"),
    ] {
        let agent = with(json!({"go": command})).spawn().await.initialized().await;
        let session = agent.new_session().await;
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "/go"}]});
        let error = agent.request("session/prompt", params).await.unwrap_err();
        assert!(error.message.contains(wanted), "{}", error.message);
        agent.finish().await;
    }
}

#[tokio::test]
async fn shell_commands_are_replaced_by_what_they_print() {
    let template =
        "Here: [!`printf 'a\\nb\\n'; echo no >&2`] [!`echo $1`] [!`true`] [!`echo why >&2; false`]";
    let agent = saying(template).spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "/go bees").await;
    assert_eq!(agent.llm.last_request().last_user(), "Here: [a\nb] [bees] [] [why]");
    let calls = calls(&turn);
    assert_eq!(calls.len(), 4);
    assert_eq!((&calls[1]["title"], &calls[1]["kind"]), (&json!("echo bees"), &json!("execute")));
    assert!(calls.iter().all(|call| call["status"] == "completed"), "{calls:#?}");
    agent.finish().await;
}

#[tokio::test]
async fn what_the_user_types_or_a_command_prints_is_not_run() {
    let agent = saying("!`echo '!`touch printed`'`: $ARGUMENTS").spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/go !`touch typed`").await;
    assert!(!agent.scratch.exists("typed") && !agent.scratch.exists("printed"));
    agent.finish().await;
}

#[tokio::test]
async fn a_shell_command_asks_as_the_tool_would() {
    let builder = saying("Made: !`echo first; touch made` and !`touch second`");
    let agent = builder.config(json!({"permission": {"bash": "ask"}})).spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "/go");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["title"], "echo first; touch made");
    agent.answer(&ask, Answer::AllowOnce);
    let ask = agent.permission().await;
    assert_eq!(ask.call()["rawInput"]["command"], "touch second");
    assert!(!agent.scratch.exists("made"), "a command ran before all were allowed");
    agent.answer(&ask, Answer::AllowAlways);
    assert_eq!(prompt.turn().await.text(), "done");
    assert!(agent.scratch.exists("made") && agent.scratch.exists("second"));
    assert_eq!(agent.llm.last_request().last_user(), "Made: first and ");
    agent.finish().await;
}

#[tokio::test]
async fn after_a_refusal_nothing_runs_and_the_model_is_not_asked() {
    let builder = saying("!`touch allowed` !`rm a.txt`");
    let rules = json!({"permission": {"bash": {"*": "allow", "rm *": "ask"}}});
    let agent = builder.config(rules).spawn().await.initialized().await;
    let session = agent.new_session().await;
    let prompt = agent.send_prompt(&session, "/go");
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::RejectOnce);
    let turn = prompt.turn().await;
    assert_eq!(turn.stop, "end_turn");
    assert!(
        turn.text().contains("/go was not carried out") && turn.text().contains("rm a.txt"),
        "{}",
        turn.text()
    );
    assert!(calls(&turn).iter().all(|call| call["status"] == "failed"));
    assert!(agent.scratch.exists("a.txt") && !agent.scratch.exists("allowed"));
    assert!(agent.llm.requests().is_empty());
    agent.llm.reply(Reply::text("fine"));
    agent.prompt(&session, "hello").await;
    assert_eq!(agent.llm.last_request().messages().len(), 2, "the refused command is not sent");
    agent.finish().await;
}

#[tokio::test]
async fn a_rule_that_denies_a_shell_command_ends_the_command() {
    let builder = saying("!`rm a.txt`").config(json!({"permission": {"bash": {"rm *": "deny"}}}));
    let agent = builder.spawn().await.initialized().await;
    let session = agent.new_session().await;
    let turn = agent.prompt(&session, "/go").await;
    assert!(turn.text().contains("prevents you from using"), "{}", turn.text());
    assert!(agent.scratch.exists("a.txt"));
    agent.finish().await;
}

#[tokio::test]
async fn a_cancelled_shell_command_leaves_nothing_running() {
    let builder = saying("!`touch begun; sleep 100 & sleep 100`");
    let agent = builder.spawn().await.initialized().await;
    let session = agent.new_session().await;
    let prompt = agent.send_prompt(&session, "/go");
    agent.wait_update("tool_call").await;
    while !agent.scratch.exists("begun") {
        tokio::task::yield_now().await;
    }
    agent.cancel(&session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    // `finish` fails when a process is left behind.
    agent.finish().await;
}

#[tokio::test]
async fn a_cancel_takes_the_question_of_a_shell_command_back() {
    let builder = saying("!`touch made`").config(json!({"permission": {"bash": "ask"}}));
    let agent = builder.spawn().await.initialized().await;
    let session = agent.new_session().await;
    let prompt = agent.send_prompt(&session, "/go");
    let ask = agent.permission().await;
    agent.cancel(&session);
    agent.withdrawn(&ask).await;
    assert_eq!(prompt.turn().await.stop, "cancelled");
    agent.llm.reply(Reply::text("fine"));
    agent.prompt(&session, "hello").await;
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_shell_command_that_never_ends_is_ended() {
    let agent = saying("<!`echo begun; sleep 100`>")
        .env("OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS", "200")
        .spawn()
        .await
        .initialized()
        .await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/go").await;
    assert_eq!(agent.llm.last_request().last_user(), "<begun\n(ended after 200 ms)>");
    agent.finish().await;
}

#[tokio::test]
async fn a_subtask_works_in_a_session_of_its_own_and_the_agent_goes_on_from_its_answer() {
    let commands = json!({
        "flagged": {"template": "CHILD of $1", "subtask": true, "model": "mock/other", "description": "Looks"},
        "by_agent": {"template": "CHILD of $1", "agent": "explore"},
    });
    for (name, model) in [("flagged", "other"), ("by_agent", "mock")] {
        let builder = with(commands.clone()).config(json!({"permission": {"task": "ask"}}));
        let agent = builder.spawn().await.initialized().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("found it"));
        agent.llm.reply(Reply::text("all done"));
        let turn = agent.prompt(&session, &format!("/{name} bees @a.txt")).await;
        assert_eq!(turn.text(), "all done");
        let requests = agent.llm.requests();
        assert_eq!(requests[0].body["model"], model);
        assert!(requests[0].last_user().starts_with("CHILD of bees @a.txt"), "{}", requests[0].last_user());
        assert_eq!(requests[1].body["model"], "mock");
        let said = requests[1].messages();
        assert_eq!(said[1]["content"], "The following tool was executed by the user");
        assert_eq!(said[2]["tool_calls"][0]["function"]["name"], "task");
        assert!(said[3]["content"].to_string().contains("found it"), "{}", said[3]);
        let wanted = "Summarize the task tool output above and continue with your task.";
        assert_eq!(requests[1].last_user(), wanted);
        let call = &calls(&turn)[0];
        assert_eq!((&call["kind"], &call["status"]), (&json!("think"), &json!("completed")));
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_subagent_answers_itself_when_its_command_is_no_subtask() {
    let agent = with(json!({"go": {"template": "x", "agent": "explore", "subtask": false}}));
    let agent = agent.spawn().await.initialized().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/go").await;
    assert_eq!(agent.llm.last_request().last_user(), "x");
    assert!(!agent.llm.last_request().tools().contains(&"edit".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn cancelling_a_subtask_ends_the_turn() {
    let agent = with(json!({"go": {"template": "CHILD", "subtask": true}})).spawn().await.initialized().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::hang(&gate));
    let prompt = agent.send_prompt(&session, "/go");
    gate.reached().await;
    agent.cancel(&session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    gate.abandoned().await;
    agent.finish().await;
}

#[tokio::test]
async fn the_built_in_prompts_ask_for_what_their_names_say() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/init keep it short").await;
    let said = agent.llm.last_request().last_user();
    assert!(said.contains("AGENTS.md") && said.ends_with("keep it short"), "{said}");
    agent.llm.reply(Reply::text("two findings"));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/review main").await;
    let review = &agent.llm.requests()[1];
    assert!(review.last_user().contains("(may be empty): main"), "{}", review.last_user());
    assert_eq!(review.messages().len(), 2, "a subagent reviews, in a session of its own");
    agent.finish().await;
}

/// What the daemon answers to a command, without a model.
async fn own(agent: &Agent, session: &str, command: &str) -> String {
    let n_before = agent.llm.requests().len();
    let turn = agent.prompt(session, command).await;
    assert_eq!(turn.stop, "end_turn");
    assert_eq!(agent.llm.requests().len(), n_before, "{command} asked a model");
    turn.text()
}

#[tokio::test]
async fn the_daemon_answers_its_own_commands_and_tells_no_model() {
    let agent =
        saying("x").config(json!({"agent": {"build": {"steps": "many"}}})).spawn().await.initialized().await;
    let session = agent.new_session().await;
    let help = own(&agent, &session, "/help").await;
    assert!(help.contains("`/go` (configured) Goes") && help.contains("`/undo`"), "{help}");
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
    let agent = agent.spawn().await.initialized().await;
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
    let agent = Agent::start().await;
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
    assert!(
        undone.starts_with("Undone: \"second\"") && undone.contains("Files are not restored"),
        "{undone}"
    );
    assert!(undone.contains(&agent.scratch.path("a.txt")), "{undone}");
    assert!(agent.scratch.read("a.txt").contains("zwei"));
    let shown = agent.load(&session).await;
    let typed = text(&shown, "user_message_chunk");
    assert!(typed.contains("first") && !typed.contains("second") && !typed.contains("third"), "{typed}");

    assert_eq!(
        own(&agent, &session, "/redo").await,
        "Put back: \"second\" with its answers. One more prompt is undone."
    );
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
    let (scratch, llm) = (agent.scratch.clone(), agent.llm.clone());
    agent.finish().await;
    let agent = Agent::builder().scratch(&scratch).llm(&llm).spawn().await.initialized().await;
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
    // The next summary is made from this one, and undo brings back what was before it.
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
    let agent = Agent::builder().config(config).spawn().await.initialized().await;
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
async fn clients_that_want_events_hear_of_commands_and_compactions() {
    let agent = saying("x").spawn().await;
    let events = json!({"_meta": {"windlass/events": ["command.executed", "session.compacted"]}});
    agent.initialize_with(events).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("one"));
    agent.prompt(&session, "/go a b").await;
    agent.llm.reply(Reply::text("sum"));
    agent.prompt(&session, "/compact").await;
    let lines = agent.lines().into_iter().filter(|line| line.message["method"] == "_windlass/event");
    let events: Vec<Value> = lines.map(|line| line.message["params"]["event"].clone()).collect();
    assert_eq!(events[0]["type"], "command.executed");
    assert_eq!(
        (&events[0]["properties"]["name"], &events[0]["properties"]["arguments"]),
        (&json!("go"), &json!("a b"))
    );
    assert_eq!(events.last().unwrap()["type"], "session.compacted");
    agent.finish().await;
}

#[tokio::test]
async fn run_takes_a_command_by_its_option() {
    let agent = saying("Fix $1").spawn().await.initialized().await;
    let config = json!({"command": {"go": {"template": "Fix $1"}}});
    let mut provider =
        crate::support::agent::provider_config(&agent.llm, crate::support::agent::Wire::OpenAi);
    provider["command"] = config["command"].clone();
    let run = |arguments: &'static [&'static str]| {
        let (home, work) = (agent.scratch.home.clone(), agent.scratch.work.clone());
        let provider = provider.to_string();
        tokio::task::spawn_blocking(move || {
            std::process::Command::new(binary())
                .arg("run")
                .args(arguments)
                .current_dir(work)
                .env_clear()
                .env("PATH", std::env::var("PATH").unwrap())
                .env("HOME", home)
                .env("OPENCODE_CONFIG_CONTENT", provider)
                .stdin(std::process::Stdio::null())
                .output()
                .unwrap()
        })
    };
    agent.llm.reply(Reply::text("done"));
    let output = run(&["--command", "go", "the", "bees"]).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "done");
    assert_eq!(agent.llm.last_request().last_user(), "Fix the bees");
    let output = run(&["--command", "gone", "x"]).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("Command not found: \"gone\". Available commands: "), "{said}");
    assert_eq!(output.status.code(), Some(1));
    // Without the option words are words, as in OpenCode.
    agent.llm.reply(Reply::text("done"));
    run(&["/go", "x"]).await.unwrap();
    assert_eq!(agent.llm.last_request().last_user(), "/go x");
    let output = run(&["--command", "status"]).await.unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("mock/mock"));
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
    assert!(help.turn().await.text().ends_with("stays changed."), "the prompt was not undone");
    agent.finish().await;
}
