//! Names and texts of commands: names with spaces, templates that are empty, missing or a built-in's.

use serde_json::{Value, json};

use crate::{
    commands::with,
    support::{agent::Agent, llm::Reply, message::tag, scratch::Scratch},
};

/// Returns the names of the commands that the client was told of last.
fn offered(updates: &[Value]) -> Vec<&str> {
    let update = updates.iter().rfind(|update| tag(update) == "available_commands_update").unwrap();
    let commands = update["availableCommands"].as_array().unwrap().iter();
    commands.map(|command| command["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_empty_template_says_what_was_typed() {
    let scratch = Scratch::new();
    scratch.write(".opencode/command/file.md", "---\ndescription: Says\nmodel: mock/other\n---\n");
    let agent = with(json!({"inline": {"template": ""}})).scratch(&scratch).start().await;
    let session = agent.new_session().await;
    let update = agent.wait_update("available_commands_update").await;
    let commands = update["availableCommands"].as_array().unwrap().iter();
    let hints: Vec<&Value> = commands
        .filter(|it| it["name"] == "inline" || it["name"] == "file")
        .map(|it| &it["input"]["hint"])
        .collect();
    assert_eq!(hints, ["message", "message"], "an editor must let the user type something");
    let cases = [("/inline  two  words", " two  words", "mock"), ("/file two  words", "two  words", "other")];
    for (typed, wanted, model) in cases {
        agent.llm.reply(Reply::text("ok"));
        assert_eq!(agent.prompt(&session, typed).await.text(), "ok");
        let request = agent.llm.last_request();
        assert_eq!((request.last_user().as_str(), &request.body["model"]), (wanted, &json!(model)));
    }
    // A file is something to say, too.
    let image = json!({"type": "resource", "resource": {"uri": "file:///n.txt", "text": "a note"}});
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "/inline"}, image]});
    agent.llm.reply(Reply::text("ok"));
    agent.request("session/prompt", params).await.unwrap();
    assert!(agent.llm.last_request().last_user().contains("a note"));
    agent.finish().await;
}

#[tokio::test]
async fn a_command_that_says_nothing_asks_no_model_and_tells_the_user() {
    let commands = json!({"empty": {"template": " "}, "quiet": {"template": "!`true`"}});
    let agent = with(commands).start().await;
    let session = agent.new_session().await;
    for name in ["empty", "quiet"] {
        let turn = agent.prompt(&session, &format!("/{name}")).await;
        let wanted = format!(
            "/{name} comes to an empty message, so the model was not asked. Type behind it what it is to say."
        );
        assert_eq!((turn.text(), turn.stop.as_str()), (wanted, "end_turn"));
    }
    assert_eq!(agent.llm.requests().len(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn a_command_without_a_template_is_left_out_and_named() {
    let scratch = Scratch::new();
    let commands = json!({"command": {
        "bare": {"description": "Nothing"}, "nothing": {"template": null}, "compact": {"model": "mock/other"},
    }});
    scratch.write("opencode.json", format!("{commands:#}"));
    let agent = Agent::builder().scratch(&scratch).start().await;
    let session = agent.new_session().await;
    for (line, name, rest) in
        [(3, "bare", ""), (6, "nothing", ""), (9, "compact", "; the built-in command stays")]
    {
        let told = format!(
            "opencode.json:{line}:5: command.{name}: is left out: it has no `template`, which is what it says to the model{rest}"
        );
        agent.wait_stderr(&told).await;
    }
    let turn = agent.prompt(&session, "/bare words").await;
    assert!(turn.text().starts_with("There is no command `/bare`"), "{}", turn.text());
    let updates = agent.updates(&session);
    let offered = offered(&updates);
    assert!(offered.contains(&"compact"), "{offered:?}");
    assert!(!offered.contains(&"bare") && !offered.contains(&"nothing"), "{offered:?}");
    agent.finish().await;
}

#[tokio::test]
async fn a_built_in_prompt_is_carried_out_as_the_configuration_says() {
    let commands =
        json!({"init": {"model": "mock/other", "description": "Mine"}, "review": {"subtask": false}});
    let agent = with(commands).start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "/init").await;
    let request = agent.llm.last_request();
    assert!(request.last_user().contains("AGENTS.md") && request.body["model"] == "other");
    agent.llm.reply(Reply::text("two findings"));
    assert_eq!(agent.prompt(&session, "/review").await.text(), "two findings");
    assert!(agent.llm.last_request().messages().len() > 2, "it is answered in the session itself");
    agent.finish().await;
}

#[tokio::test]
async fn the_longest_name_that_the_words_begin_with_is_called() {
    let scratch = Scratch::new();
    for (name, text) in
        [("my cmd", "Two: $1."), ("my", "One: $ARGUMENTS."), ("team/my cmd now", "Three: $1.")]
    {
        scratch.write(&format!(".opencode/command/{name}.md"), text);
    }
    let agent = Agent::builder().scratch(&scratch).start().await;
    let session = agent.new_session().await;
    for (typed, wanted) in [
        ("/my cmd bees and more", "Two: bees and more."),
        ("/my cmd", "Two: ."),
        ("/my cmdlet", "One: cmdlet."),
        ("/my\nown", "One: own."),
        ("/team/my cmd now bees", "Three: bees."),
        ("/team/my cmd bees", "/team/my cmd bees"),
    ] {
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, typed).await;
        assert_eq!(agent.llm.last_request().last_user(), wanted, "{typed}");
    }
    let updates = agent.updates(&session);
    assert!(offered(&updates).contains(&"my cmd"));
    agent.finish().await;
}

#[tokio::test]
async fn a_mistyped_command_asks_no_model_and_names_the_one_that_was_meant() {
    let agent = with(json!({"review": {"template": "Look at $ARGUMENTS"}})).start().await;
    let session = agent.new_session().await;
    for (typed, start) in [
        ("/reviw src", "There is no command `/reviw`; did you mean `/review`? No model was asked."),
        ("/zzz", "There is no command `/zzz`. No model was asked."),
    ] {
        let turn = agent.prompt(&session, typed).await;
        assert!(turn.text().starts_with(start) && turn.stop == "end_turn", "{}", turn.text());
    }
    assert_eq!(agent.llm.requests().len(), 0);
    // Paths, comments and words behind a space are for the model, which is told nothing of the mistakes.
    for words in ["/etc/none is missing", "/tmp is full", "// why", " /reviw src"] {
        agent.llm.reply(Reply::text("ok"));
        assert_eq!(agent.prompt(&session, words).await.text(), "ok");
        let request = agent.llm.last_request();
        assert_eq!(request.last_user(), words);
        assert!(!request.body.to_string().contains("No model was asked"), "{}", request.body);
    }
    agent.finish().await;
}
