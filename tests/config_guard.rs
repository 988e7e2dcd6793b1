//! Changes of the configuration that loosen it while a session is open: asked about once, and the old rules hold.

use std::fs;

use serde_json::{Value, json};

use crate::{
    cli::Machine,
    reload::{builder, options, read_again, watching, with_model, write},
    support::{
        agent::{Agent, Answer, asks::Ask},
        llm::{Gate, Reply},
        message::content_text,
        scratch::Scratch,
        terminal::{Terminal, screen::Screen},
    },
};

fn rule(action: &str) -> String {
    json!({"permission": {"bash": {"*": "allow", "touch *": action}}}).to_string()
}

/// Returns the lines that a question shows.
fn shown(ask: &Ask) -> String {
    let call = ask.call();
    assert_eq!(call["title"], "apply the changed configuration", "{call}");
    content_text(call)
}

/// Has the model run a command; its state.
async fn runs(agent: &Agent, session: &str, id: &str, command: &str) -> Value {
    agent.llm.reply(Reply::call(id, "bash", json!({"command": command})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(session, "go").await.tool(id)["status"].clone()
}

#[tokio::test]
async fn rules_that_a_command_loosens_are_asked_about_and_hold_after_a_yes() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", rule("deny"));
    scratch.write("loose", rule("allow"));
    let agent = watching(builder(&scratch)).await;
    let session = agent.new_session().await;
    // Reading the line would not find it.
    scratch.write("loosen.sh", "cp loose opencode.json");
    assert_eq!(runs(&agent, &session, "call_1", "sh loosen.sh").await, "completed");
    let ask = agent.permission().await;
    assert!(
        shown(&ask).starts_with("rule `bash` for `touch *`: deny → allow (agent build"),
        "{}",
        shown(&ask)
    );
    let options: Vec<&Value> =
        ask.params["options"].as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert_eq!(options, ["allow_once", "reject_once"]);
    // The question blocks nothing, and the old rules hold.
    assert_eq!(runs(&agent, &session, "call_2", "touch made").await, "failed");
    assert!(!scratch.exists("made"));
    agent.answer(&ask, Answer::AllowOnce);
    read_again(&agent).await;
    assert_eq!(runs(&agent, &session, "call_3", "touch made").await, "completed");
    assert_eq!(agent.n_asked(), 1);
    agent.finish().await;
}

#[tokio::test]
async fn after_a_no_the_old_rules_hold_until_the_files_change_again() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", rule("deny"));
    let agent = watching(builder(&scratch)).await;
    let session = agent.new_session().await;
    scratch.write("opencode.json", rule("allow"));
    let ask = agent.permission().await;
    agent.answer(&ask, Answer::RejectOnce);
    for id in ["call_1", "call_2"] {
        assert_eq!(runs(&agent, &session, id, "touch made").await, "failed");
    }
    // Nor for sessions that come later.
    let other = agent.new_session().await;
    assert_eq!(runs(&agent, &other, "call_3", "touch made").await, "failed");
    assert_eq!(agent.n_asked(), 1);
    scratch.write("opencode.json", rule("ask"));
    let ask = agent.permission().await;
    assert!(shown(&ask).starts_with("rule `bash` for `touch *`: deny → ask"));
    // A change that is taken back needs no answer.
    scratch.write("opencode.json", rule("deny"));
    agent.withdrawn(&ask).await;
    assert_eq!(agent.n_asked(), 2);
    agent.finish().await;
}

#[tokio::test]
async fn what_tightens_holds_at_once() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", rule("allow"));
    let agent = watching(builder(&scratch)).await;
    let session = agent.new_session().await;
    scratch.write("opencode.json", rule("deny"));
    read_again(&agent).await;
    assert_eq!(runs(&agent, &session, "call_1", "touch made").await, "failed");
    scratch.write(".opencode/opencode.json", with_model("other"));
    read_again(&agent).await;
    assert_eq!(agent.n_asked(), 0);
    agent.finish().await;
}

#[tokio::test]
async fn a_second_change_takes_the_place_of_the_first_in_one_question() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", rule("deny"));
    let agent = watching(builder(&scratch)).await;
    agent.new_session().await;
    scratch.write("opencode.json", rule("ask"));
    let first = agent.permission().await;
    scratch.write("opencode.json", rule("allow"));
    agent.withdrawn(&first).await;
    let second = agent.permission().await;
    assert!(shown(&second).starts_with("rule `bash` for `touch *`: deny → allow"));
    agent.answer(&second, Answer::AllowOnce);
    read_again(&agent).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_server_is_started_after_the_question() {
    let scratch = Scratch::new();
    let agent = watching(builder(&scratch)).await;
    agent.new_session().await;
    let server = json!({"type": "local", "command": ["sh", "-c", "touch started; cat"]});
    scratch.write("opencode.json", json!({"mcp": {"shop": server}}).to_string());
    let ask = agent.permission().await;
    assert_eq!(shown(&ask), "MCP server shop: sh -c touch started; cat");
    assert!(!scratch.exists("started"));
    agent.answer(&ask, Answer::RejectOnce);
    assert!(!scratch.exists("started"));
    agent.finish().await;
}

#[tokio::test]
async fn files_of_agents_and_commands_are_asked_about_as_well() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", json!({"permission": {"bash": "ask"}}).to_string());
    let agent = watching(builder(&scratch)).await;
    agent.new_session().await;
    let poet = scratch.work.join(".opencode/agents/poet.md");
    write(&poet, "---\nmode: primary\npermission:\n  bash: allow\n---\nRhyme.\n");
    let ask = agent.permission().await;
    assert_eq!(shown(&ask), "rule `bash` for `*`: ask → allow (agent poet)");
    write(&poet, "---\nmode: primary\npermission:\n  bash: deny\n---\nRhyme.\n");
    agent.withdrawn(&ask).await;
    assert!(options(&agent, "mode").await.0.contains(&"poet".to_owned()));
    write(&scratch.work.join(".opencode/command/look.md"), "Look at !`git status`.");
    let ask = agent.permission().await;
    assert_eq!(shown(&ask), "shell lines of the command /look: git status");
    fs::remove_dir_all(scratch.work.join(".opencode/command")).unwrap();
    agent.withdrawn(&ask).await;
    // Its sessions would go on with an agent that may do more.
    fs::remove_dir_all(scratch.work.join(".opencode/agents")).unwrap();
    let ask = agent.permission().await;
    assert_eq!(shown(&ask), "rule `bash` for `*`: deny → ask (agent build for poet)");
    agent.answer(&ask, Answer::AllowOnce);
    read_again(&agent).await;
    agent.finish().await;
}

#[tokio::test]
async fn the_question_moves_to_a_session_that_is_open_and_goes_with_the_last() {
    let scratch = Scratch::new();
    scratch.write("opencode.json", rule("deny"));
    let agent = watching(builder(&scratch)).await;
    let one = agent.new_session().await;
    let two = agent.new_session().await;
    scratch.write("opencode.json", rule("allow"));
    let first = agent.permission().await;
    assert_eq!(first.params["sessionId"], two);
    agent.request("session/close", json!({"sessionId": two})).await.unwrap();
    agent.withdrawn(&first).await;
    let second = agent.permission().await;
    assert_eq!(second.params["sessionId"], one);
    agent.request("session/close", json!({"sessionId": one})).await.unwrap();
    agent.withdrawn(&second).await;
    // Without an open session no rules in use change.
    let later = agent.new_session().await;
    assert_eq!(runs(&agent, &later, "call_1", "touch made").await, "completed");
    assert_eq!(agent.n_asked(), 2);
    agent.finish().await;
}

#[tokio::test]
async fn no_rule_and_no_other_answer_settles_the_question() {
    let scratch = Scratch::new();
    let rules =
        |bash: &str| json!({"permission": {"*": "allow", "config": "allow", "bash": bash}}).to_string();
    scratch.write("opencode.json", rules("ask"));
    let agent = watching(builder(&scratch)).await;
    let session = agent.new_session().await;
    scratch.write("opencode.json", rules("allow"));
    let question = agent.permission().await;
    agent.answer(&question, Answer::RejectOnce);
    scratch.write("opencode.json", json!({"permission": "allow"}).to_string());
    let question = agent.permission().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch one"})));
    let prompt = agent.send_prompt(&session, "go");
    agent.wait_made(&session, &["call_1"]).await;
    // One thing at a time; the answer to a call's question is not one to this.
    agent.answer(&question, Answer::AllowOnce);
    let call = agent.permission().await;
    agent.answer(&call, Answer::RejectOnce);
    prompt.turn().await;
    assert!(!scratch.exists("one"));
    agent.finish().await;
}

/// Returns a machine with a model that loosens the rules by a script, and then goes on once the gate is open.
async fn loosening(gate: &Gate) -> Machine {
    let machine = Machine::new().await;
    machine.scratch.write("opencode.json", rule("deny"));
    machine.scratch.write("loose", rule("allow"));
    machine.scratch.write("loosen.sh", "cp loose opencode.json");
    machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "sh loosen.sh"})));
    machine.llm.reply(Reply::text("Working.").and_gate(gate).and_text(" Done."));
    machine
}

fn terminal(machine: &Machine, arguments: &[&str]) -> Terminal {
    Terminal::builder(&machine.scratch, &machine.config).size(120, 40).arguments(arguments).start()
}

#[tokio::test]
async fn the_person_at_the_terminal_is_asked() {
    let gate = Gate::new();
    let machine = loosening(&gate).await;
    let mut terminal = terminal(&machine, &["run", "go"]);
    let screen = terminal.shows_text("[y] once  [n] no").await;
    assert!(screen.contains("? config: apply the changed configuration"), "{screen}");
    assert!(screen.contains("rule `bash` for `touch *`: deny → allow"), "{screen}");
    terminal.types("y");
    terminal.shows_text("[f] no, and say why › once").await;
    gate.open();
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn a_question_on_the_screen_goes_when_there_is_nothing_left_to_ask() {
    let gate = Gate::new();
    let machine = loosening(&gate).await;
    let mut terminal = terminal(&machine, &["run", "go"]);
    terminal.shows_text("[f] no, and say why ›").await;
    machine.scratch.write("opencode.json", rule("deny"));
    terminal.shows_text("[f] no, and say why › (settled)").await;
    gate.open();
    let screen = terminal.ends_with(0).await;
    assert!(screen.contains("Done."), "{screen}");
    machine.finish().await;
}

#[tokio::test]
async fn where_nobody_can_be_asked_a_notice_says_what_waits() {
    // In a sandbox no command changes the configuration.
    for options in [&["run", "--no-ask", "go"][..], &["run", "--auto", "--no-sandbox", "go"]] {
        let gate = Gate::new();
        let machine = loosening(&gate).await;
        let mut terminal = terminal(&machine, options);
        terminal.shows_text("The configuration was changed, and nobody can be asked").await;
        gate.open();
        let screen = terminal.ends_with(0).await;
        assert!(screen.contains("Start again to use: rule") && !screen.contains("? config"), "{screen}");
        machine.finish().await;
    }
}

/// Starts a chat and loosens the configuration; returns once the notice is above the prompt.
async fn chatting(machine: &Machine) -> Terminal {
    machine.scratch.write("opencode.json", rule("deny"));
    let terminal = terminal(machine, &["chat"]);
    terminal.shows("the prompt", |screen| is_last(screen, "build ›")).await;
    terminal.types("go");
    terminal.shows("the line", |screen| is_last(screen, "› go")).await;
    machine.scratch.write("opencode.json", rule("allow"));
    terminal.shows_text("A question waits for your answer: press Enter.").await;
    terminal.shows("the line again", |screen| is_last(screen, "› go")).await;
    terminal
}

/// Returns true if the last row that is not empty ends with this.
fn is_last(screen: &Screen, end: &str) -> bool {
    screen
        .lines()
        .iter()
        .rfind(|line| !line.trim().is_empty())
        .is_some_and(|line| line.trim_end().ends_with(end))
}

#[tokio::test]
async fn an_idle_chat_says_that_a_question_waits_and_asks_it_before_the_next_prompt() {
    for (key, status) in [("y", "completed"), ("\x03", "error")] {
        let machine = Machine::new().await;
        let mut terminal = chatting(&machine).await;
        machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch made"})));
        machine.llm.reply(Reply::text("Done."));
        terminal.types("\r");
        let screen = terminal.shows_text("[f] no, and say why ›").await;
        assert!(screen.contains("rule `bash` for `touch *`: deny → allow"), "{screen}");
        assert_eq!(machine.llm.requests().len(), 0, "the prompt waits");
        terminal.types(key);
        let screen = terminal.shows_text("Done.").await;
        assert_eq!(machine.scratch.exists("made"), status == "completed", "{screen}");
        terminal.shows("the prompt", |screen| is_last(screen, "build ›")).await;
        terminal.types("\x04");
        let screen = terminal.ends_with(0).await;
        assert_eq!(screen.lines().join("\n").matches("? config").count(), 1, "{screen}");
        machine.finish().await;
    }
}

#[tokio::test]
async fn a_question_outlives_the_turn_in_which_it_was_asked() {
    let gate = Gate::new();
    let machine = loosening(&gate).await;
    let mut terminal = terminal(&machine, &["chat", "go"]);
    terminal.shows_text("[f] no, and say why ›").await;
    gate.open();
    // Until the answer is stored, the turn may not have ended.
    let id = machine.sessions().await[0]["id"].as_str().unwrap().to_owned();
    while !machine.run(&["session", "export", &id, "--format", "md"]).await.stdout.contains("Working. Done.")
    {
    }
    terminal.types("y");
    let screen = terminal.shows_text("Done.").await;
    assert!(screen.contains("› once") && !screen.contains("(not answered)"), "{screen}");
    terminal.shows("the prompt", |screen| is_last(screen, "build ›")).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn a_question_that_a_cancelled_turn_leaves_is_asked_again() {
    let gate = Gate::new();
    let machine = loosening(&gate).await;
    let mut terminal = terminal(&machine, &["chat", "go"]);
    terminal.shows_text("[f] no, and say why ›").await;
    gate.reached().await;
    terminal.types("\x03");
    let is_asked_again =
        |screen: &Screen| screen.lines().join("\n").matches("[f] no, and say why ›").count() == 2;
    terminal.shows("the question again", is_asked_again).await;
    terminal.types("n");
    terminal.shows("the prompt", |screen| is_last(screen, "build ›")).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}
