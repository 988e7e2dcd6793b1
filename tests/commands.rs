//! Slash commands: their list at the client, their text for the model, and those that the daemon runs by
//! itself.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer, Builder, binary},
    llm::{Gate, Reply},
    message::{Turn, text},
    scratch::Scratch,
};

/// Returns an agent with these commands.
pub fn with(commands: Value) -> Builder {
    Agent::builder().config(json!({ "command": commands }))
}

/// Returns an agent with one command `go` that says this.
pub fn saying(template: &str) -> Builder {
    with(json!({"go": {"template": template, "description": "Goes"}}))
}

async fn asked_commands(builder: Builder) -> Vec<Value> {
    let agent = builder.start().await;
    agent.new_session().await;
    let update = agent.wait_update("available_commands_update").await;
    agent.finish().await;
    update["availableCommands"].as_array().unwrap().clone()
}

/// Returns the bash calls of a turn, in order, as they ended.
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
    for name in [
        "init",
        "compact",
        "help",
        "undo",
        "redo",
        "fork",
        "status",
        "models",
        "mcp",
        "permissions",
        "share",
        "unshare",
    ] {
        assert!(!named(name)["description"].as_str().unwrap().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn the_model_reads_the_template_with_its_arguments() {
    let cases = [
        ("Fix $1 in $2.", "/go a \"b c\" d\ne", "Fix a in \"b c\" d\ne."),
        ("Say: $ARGUMENTS!", "/go  two  words ", "Say:  two  words !"),
        ("$ARGUMENTS", "/go\n    indented\n  more  ", "    indented\n  more  "),
        ("$1", "/go   a", "a"),
        ("No place", "/go a\n  b", "No place\n\na\n  b"),
        ("No place", "/go", "No place"),
    ];
    for (template, typed, wanted) in cases {
        let agent = saying(template).start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("done"));
        assert_eq!(agent.prompt(&session, typed).await.text(), "done");
        assert_eq!(agent.llm.last_request().last_user(), wanted);
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_load_shows_what_the_user_typed() {
    let agent = saying("A long template about $1").start().await;
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
    let agent = saying("x").start().await;
    let session = agent.new_session().await;
    for words in ["/usr/bin is full", " /unknown x", "/", "go /go"] {
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, words).await;
        assert_eq!(agent.llm.last_request().last_user(), words);
    }
    agent.finish().await;
}

#[tokio::test]
async fn attachments_of_the_prompt_and_files_of_the_template_are_read() {
    let agent = saying("Look at @a.txt, and mail me@a.txt about $1").start().await;
    agent.scratch.write("other.txt", "the other text");
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    let link = |name: &str| {
        let uri = format!("file://{}", agent.scratch.path(name));
        json!({"type": "resource_link", "name": name, "uri": uri})
    };
    let image = json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="});
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
    assert!(request.body.to_string().contains("iVBORw0KGgo="), "the image is missing");
    agent.finish().await;
}

#[tokio::test]
async fn a_file_among_the_words_is_an_argument_and_is_read() {
    let agent = saying("Fix <$1> <$2>").start().await;
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
    let agent = agent.start().await;
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
        (
            json!({"template": "x", "model": "mok/mock"}),
            "names mok/mock, which cannot be used: there is no provider `mok` (did you mean mock/mock?); add it",
        ),
    ] {
        let agent = with(json!({"go": command})).start().await;
        let session = agent.new_session().await;
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "/go"}]});
        let error = agent.request("session/prompt", params).await.unwrap_err();
        assert!(error.message.contains(wanted), "{}", error.message);
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_commands_variant_holds_for_whatever_model_answers_it() {
    let variants = json!({"provider": {"mock": {"models": {
        "mock": {"variants": {"deep": {"user": "deep mock"}}},
        "other": {"variants": {"deep": {"user": "deep other"}}},
    }}}});
    for (command, wanted) in [
        (json!({"template": "x", "variant": "deep"}), json!("deep mock")),
        (json!({"template": "x", "variant": "deep", "model": "mock/other"}), json!("deep other")),
        (json!({"template": "x", "variant": "deep", "agent": "sage"}), json!("deep other")),
        (json!({"template": "x", "variant": "deep", "subtask": true}), json!("deep mock")),
        (json!({"template": "x", "variant": "deep", "subtask": true, "agent": "sage"}), json!("deep other")),
        (json!({"template": "x", "variant": "unknown"}), Value::Null),
        (json!({"template": "x"}), Value::Null),
    ] {
        let builder = with(json!({"go": command})).config(variants.clone());
        let builder = builder.config(json!({"agent": {"sage": {"model": "mock/other"}}}));
        let agent = builder.start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("done"));
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "/go").await;
        assert_eq!(agent.llm.requests()[0].body["user"], wanted, "{command}");
        if command["subtask"].is_null() {
            agent.prompt(&session, "and now").await;
        }
        assert_eq!(agent.llm.last_request().body["user"], Value::Null, "the next prompt of {command}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_command_in_a_folder_is_called_by_its_path() {
    let agent = Agent::start().await;
    agent.scratch.write(".opencode/command/team/fix.md", "---\ndescription: Fixes\n---\nFix $1 now.\n");
    let session = agent.new_session().await;
    let listed = agent.wait_update("available_commands_update").await.to_string();
    assert!(listed.contains("team/fix"), "{listed}");
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/team/fix it").await;
    assert_eq!(agent.llm.last_request().last_user(), "Fix it now.");
    agent.finish().await;
}

#[tokio::test]
async fn a_template_names_subagents_and_only_the_user_names_others() {
    let agent = saying("Have @explore look at $1: !`echo @general`").start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/go bees").await;
    let said = agent.llm.last_request().last_user();
    assert!(said.starts_with("Have @explore look at bees: @general"), "{said}");
    assert!(said.contains("subagent_type \"explore\""), "{said}");
    assert!(!said.contains("subagent_type \"general\""), "{said}");
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/go @explore").await;
    let said = agent.llm.last_request().last_user();
    assert_eq!(said.matches("call the task tool").count(), 1, "{said}");
    agent.finish().await;
}

#[tokio::test]
async fn a_file_wins_over_a_subagent_of_its_name_in_a_template_and_in_what_is_typed() {
    let scratch = Scratch::new();
    scratch.write("explore", "A file of that name.");
    let agent = saying("Look at @explore.").scratch(&scratch).start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/go").await;
    let said = agent.llm.last_request().last_user();
    assert!(said.contains("A file of that name.") && !said.contains("call the task tool"), "{said}");
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "have @explore and @general look").await;
    let said = agent.llm.last_request().last_user();
    assert!(
        !said.contains("subagent_type \"explore\"") && said.contains("subagent_type \"general\""),
        "{said}"
    );
    agent.finish().await;
}

#[tokio::test]
async fn the_administrators_rules_hold_for_commands() {
    let scratch = Scratch::new();
    let managed = scratch.root().join("managed");
    std::fs::create_dir(&managed).unwrap();
    let rules = json!({"permission": {"task": {"explore": "deny"}, "bash": {"touch *": "deny"}}});
    std::fs::write(managed.join("opencode.json"), rules.to_string()).unwrap();
    let commands = json!({
        "look": {"template": "x", "agent": "explore"},
        "make": {"template": "!`touch made`", "agent": "free"},
    });
    let builder = with(commands).config(json!({"agent": {"free": {"permission": {"bash": "allow"}}}}));
    let builder = builder.scratch(&scratch).env("WINDLASS_MANAGED_CONFIG", managed.to_str().unwrap());
    let agent = builder.start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("sorry"));
    let turn = agent.prompt(&session, "/look").await;
    assert_eq!(calls(&turn)[0]["status"], "failed");
    assert_eq!(agent.llm.requests().len(), 1, "the subagent was asked");
    let turn = agent.prompt(&session, "/make").await;
    assert!(turn.text().contains("prevents you from using"), "{}", turn.text());
    assert!(!scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_subtask_that_fails_is_told_to_the_agent_and_the_session_goes_on() {
    let agent = with(json!({"go": {"template": "CHILD", "subtask": true}})).start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::status(400).body(json!({"error": {"message": "no such thing"}})));
    agent.llm.reply(Reply::text("it failed"));
    let turn = agent.prompt(&session, "/go").await;
    assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "it failed"));
    let call = &calls(&turn)[0];
    assert_eq!(call["status"], "failed");
    let told = agent.llm.last_request().messages().iter().map(Value::to_string).collect::<String>();
    assert!(told.contains("Subagent failed (task_id: ses_") && told.contains("no such thing"), "{told}");
    agent.llm.reply(Reply::text("fine"));
    assert_eq!(agent.prompt(&session, "hello").await.text(), "fine");
    agent.finish().await;
}

#[tokio::test]
async fn always_for_a_shell_command_holds_for_the_next_and_a_command_that_hides_one_is_asked_for() {
    let commands = json!({
        "one": {"template": "!`git status`"},
        "two": {"template": "See !`git status --short`"},
        "sly": {"template": "!`sudo git push`"},
    });
    let rules = json!({"permission": {"bash": {"*": "allow", "git *": "ask"}}});
    let agent = with(commands).config(rules).start().await;
    let session = agent.new_session().await;
    for (typed, is_asked) in [("/one", true), ("/two", false), ("/sly", true)] {
        if typed != "/sly" {
            agent.llm.reply(Reply::text("done"));
        }
        let n_asked = agent.n_asked();
        let prompt = agent.send_prompt(&session, typed);
        if is_asked {
            let ask = agent.permission().await;
            let answer = if typed == "/sly" { Answer::RejectOnce } else { Answer::AllowAlways };
            agent.answer(&ask, answer);
        }
        prompt.turn().await;
        assert_eq!(agent.n_asked() - n_asked, usize::from(is_asked), "{typed}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn shell_commands_are_replaced_by_what_they_print() {
    let template =
        "Here: [!`printf 'a\\nb\\n'; echo no >&2`] [!`echo $1`] [!`true`] [!`echo why >&2; false`]";
    let agent = saying(template).start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "/go bees").await;
    assert_eq!(agent.llm.last_request().last_user(), "Here: [a\nb] [bees] [] [why]");
    let calls = calls(&turn);
    assert_eq!(calls.len(), 4);
    assert_eq!((&calls[1]["title"], &calls[1]["kind"]), (&json!("echo bees"), &json!("execute")));
    let statuses: Vec<&Value> = calls.iter().map(|call| &call["status"]).collect();
    assert_eq!(statuses, ["completed", "completed", "completed", "failed"], "{calls:#?}");
    agent.finish().await;
}

#[tokio::test]
async fn what_the_user_types_or_a_command_prints_is_not_run() {
    let agent = saying("!`echo '!`touch printed`'`: $ARGUMENTS").start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/go !`touch typed`").await;
    assert!(!agent.scratch.exists("typed") && !agent.scratch.exists("printed"));
    agent.finish().await;
}

#[tokio::test]
async fn a_shell_command_asks_as_the_tool_would() {
    let builder = saying("Made: !`echo first; touch made` and !`touch second`");
    let agent = builder.config(json!({"permission": {"bash": "ask"}})).start().await;
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
    let agent = builder.config(rules).start().await;
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
    let agent = builder.start().await;
    let session = agent.new_session().await;
    let turn = agent.prompt(&session, "/go").await;
    assert!(turn.text().contains("prevents you from using"), "{}", turn.text());
    assert!(agent.scratch.exists("a.txt"));
    agent.finish().await;
}

#[tokio::test]
async fn a_cancelled_shell_command_leaves_nothing_running() {
    let builder = saying("!`touch begun; sleep 100 & sleep 100`");
    let agent = builder.start().await;
    let session = agent.new_session().await;
    let prompt = agent.send_prompt(&session, "/go");
    agent.wait_update("tool_call").await;
    agent.scratch.appears("begun").await;
    agent.cancel(&session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    // `finish` fails when a process is left behind.
    agent.finish().await;
}

#[tokio::test]
async fn a_cancel_takes_the_question_of_a_shell_command_back() {
    let builder = saying("!`touch made`").config(json!({"permission": {"bash": "ask"}}));
    let agent = builder.start().await;
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
        .env("OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS", "2000")
        .start()
        .await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/go").await;
    assert_eq!(agent.llm.last_request().last_user(), "<begun\n(ended after 2000 ms)>");
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
        let agent = builder.start().await;
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
    let agent = agent.start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/go").await;
    assert_eq!(agent.llm.last_request().last_user(), "x");
    assert!(!agent.llm.last_request().tools().contains(&"edit".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn cancelling_a_subtask_ends_the_turn() {
    let agent = with(json!({"go": {"template": "CHILD", "subtask": true}})).start().await;
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
    let agent = saying("Fix $1").start().await;
    let config = json!({"command": {"go": {"template": "Fix $1"}}});
    let mut provider = crate::support::llm::provider_config(&agent.llm, crate::support::llm::Wire::OpenAi);
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
                .env("WINDLASS_TRUST", "1")
                .env("HOME", home)
                .env("OPENCODE_CONFIG_CONTENT", provider)
                .stdin(std::process::Stdio::null())
                .output()
                .unwrap()
        })
    };
    agent.llm.reply(Reply::text("done"));
    let output = run(&["--command", "/go", "the", "bees"]).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "done");
    assert_eq!(agent.llm.last_request().last_user(), "Fix the bees");
    let output = run(&["--command", "gone", "x"]).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.starts_with("There is no command `/gone`; ") && said.contains("review"), "{said}");
    assert_eq!(output.status.code(), Some(2));
    // Without the option words are words, as in OpenCode.
    agent.llm.reply(Reply::text("done"));
    run(&["--", "/go", "x"]).await.unwrap();
    assert_eq!(agent.llm.last_request().last_user(), "/go x");
    let output = run(&["--command", "status"]).await.unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("mock/mock"));
    agent.finish().await;
}

#[tokio::test]
async fn what_is_typed_behind_a_command_never_becomes_shell() {
    let agent = saying("[!`echo $1`] [!`echo \"$1\"`]").start().await;
    let session = agent.new_session().await;
    for typed in ["x; touch pwned", "'x; touch pwned'", "$(touch pwned)", "\"x$(touch pwned)\""] {
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, &format!("/go {typed}")).await;
        let said = agent.llm.last_request().last_user();
        assert!(said.contains("touch pwned"), "{said}");
        assert!(!agent.scratch.work.join("pwned").exists(), "{typed} ran");
    }
    agent.finish().await;
}

#[tokio::test]
async fn typed_words_that_cannot_be_quoted_for_certain_end_the_command() {
    let agent = saying("!`echo $(cat $1)`").start().await;
    let session = agent.new_session().await;
    let turn = agent.prompt(&session, "/go a;touch${IFS}pwned").await;
    assert!(turn.text().contains("`echo $(cat $1)`"), "{}", turn.text());
    assert!(agent.llm.requests().is_empty() && !agent.scratch.work.join("pwned").exists());
    agent.finish().await;
}

#[tokio::test]
async fn a_template_attaches_no_file_that_the_rules_would_ask_for() {
    let agent = saying("See @.env @a.txt @../outside.txt @~/secret.txt").start().await;
    agent.scratch.write(".env", "KEY=hidden-one");
    std::fs::write(agent.scratch.home.join("secret.txt"), "hidden-two").unwrap();
    std::fs::write(agent.scratch.root().join("outside.txt"), "hidden-three").unwrap();
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "/go").await;
    let request = agent.llm.last_request().body.to_string();
    assert!(request.contains("1: one") && !request.contains("hidden-"), "{request}");
    agent.finish().await;
}

#[tokio::test]
async fn a_subtasks_shell_runs_nothing_that_its_agent_may_not() {
    let commands = json!({"go": {"template": "X !`touch pwned`", "agent": "reader", "subtask": true}});
    let reader = json!({"agent": {"reader": {"mode": "subagent", "permission": {"bash": "deny"}}}});
    let agent = with(commands).config(reader).start().await;
    let session = agent.new_session().await;
    let turn = agent.prompt(&session, "/go").await;
    assert!(turn.text().contains("`touch pwned` is not allowed"), "{}", turn.text());
    assert!(agent.llm.requests().is_empty() && !agent.scratch.work.join("pwned").exists());
    agent.finish().await;
}
