//! The chat in a terminal, key by key.

use std::os::unix::fs::PermissionsExt;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::{
    cli::{Machine, history},
    support::{
        agent::binary,
        llm::{Gate, Reply},
        terminal::{Terminal, screen::Screen},
    },
};

pub fn start(machine: &Machine, arguments: &[&str]) -> Terminal {
    Terminal::builder(&machine.scratch, &machine.config).size(90, 40).arguments(arguments).start()
}

/// Returns true if the prompt is on the last row that is not empty, with this text behind it.
pub fn is_at_prompt(screen: &Screen, typed: &str) -> bool {
    let lines = screen.lines();
    let last = lines.iter().rev().find(|line| !line.trim().is_empty());
    last.is_some_and(|line| line.contains('›') && line.trim_end().ends_with(typed))
}

pub async fn prompt(terminal: &Terminal) {
    terminal.shows("the prompt", |screen| is_at_prompt(screen, "›")).await;
}

#[tokio::test]
async fn prompts_are_answered_one_after_another_in_one_session() {
    for arguments in [&["chat"][..], &["run", "-i"], &[]] {
        let machine = Machine::new().await;
        let mut terminal = start(&machine, arguments);
        terminal.shows_text("/help lists the commands").await;
        prompt(&terminal).await;
        machine.llm.reply(Reply::text("Hello Ada."));
        terminal.types("I am Ada\r");
        terminal.shows_text("Hello Ada.").await;
        prompt(&terminal).await;
        machine.llm.reply(Reply::text("You are Ada."));
        terminal.types("who am I\r");
        terminal.shows_text("You are Ada.").await;
        assert!(history(&machine.llm.last_request()).contains("I am Ada"));
        prompt(&terminal).await;
        terminal.types("\x04");
        let screen = terminal.ends_with(0).await;
        assert!(screen.contains("Continue with: windlass chat -s ses_"), "{screen}");
        assert_eq!(machine.sessions().await.len(), 1);
        machine.finish().await;
    }
}

#[tokio::test]
async fn text_that_was_typed_during_a_turn_is_in_the_line_behind_it() {
    let machine = Machine::new().await.with("permission", json!({"bash": "ask"}));
    let mut terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("Working").and_gate(&gate));
    terminal.types("go\r");
    terminal.shows_text("Working").await;
    terminal.types_ahead("\x1b[200~first\rsecond\r\x1b[201~third half").await;
    gate.open();
    let is_last = |screen: &Screen| {
        let lines = screen.lines();
        lines.iter().rfind(|line| !line.trim().is_empty()).is_some_and(|line| line.trim() == "third half")
    };
    let screen = terminal.shows("the line", is_last).await;
    assert!(screen.contains("› first") && screen.contains("second"), "{screen}");
    machine.llm.reply(Reply::text("Read all three."));
    terminal.types("\r");
    terminal.shows_text("Read all three.").await;
    assert!(history(&machine.llm.last_request()).contains(r"first\nsecond\nthird half"));

    // Neither a question nor Ctrl-C takes it away, and it answers no question.
    prompt(&terminal).await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("Before").and_gate(&gate).and_call(
        "c1",
        "bash",
        json!({"command": "touch made"}),
    ));
    terminal.types("go on\r");
    terminal.shows_text("Before").await;
    terminal.types_ahead("yes, later").await;
    gate.open();
    terminal.shows_text("[y] once").await;
    assert!(!machine.scratch.exists("made"));
    terminal.types("\x03");
    terminal.shows("the line", |screen| is_at_prompt(screen, "› yes, later")).await;
    terminal.types("\x15");
    prompt(&terminal).await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("Again").and_gate(&gate));
    terminal.types("more\r");
    terminal.shows_text("Again").await;
    terminal.types_ahead("kept\x03").await;
    terminal.shows("the line", |screen| is_at_prompt(screen, "› kept")).await;
    terminal.types("\x15");
    prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn a_letter_of_words_answers_no_permission_and_the_words_are_in_the_line() {
    let machine = Machine::new().await.with("permission", json!({"bash": "ask"}));
    let mut terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    machine.llm.reply(Reply::text("Before").and_call("c1", "bash", json!({"command": "touch made"})));
    terminal.types("go on\r");
    terminal.shows_text("[y] once").await;
    terminal.types("why not");
    terminal.types("\x03");
    let screen = terminal.shows("the line", |screen| is_at_prompt(screen, "› why not")).await;
    assert!(!machine.scratch.exists("made"), "{screen}");
    terminal.types("\x15");
    prompt(&terminal).await;

    // An answer that stands alone is one.
    machine.llm.reply(Reply::call("c2", "bash", json!({"command": "touch made"})));
    machine.llm.reply(Reply::text("Done."));
    terminal.types("again\r");
    let is_asked_twice =
        |screen: &Screen| screen.lines().iter().filter(|line| line.contains("[y] once")).count() == 2;
    terminal.shows("the question", is_asked_twice).await;
    terminal.types("y");
    terminal.shows_text("Done.").await;
    assert!(machine.scratch.exists("made"));
    prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn a_session_is_picked_up_and_its_last_words_are_shown() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("Hello Ada."));
    machine.run(&["run", "I am Ada"]).await;
    let mut terminal = start(&machine, &["-c", "--prompt", "who am I"]);
    machine.llm.reply(Reply::text("You are Ada."));
    let screen = terminal.shows_text("You are Ada.").await;
    assert!(screen.contains("I am Ada") && screen.contains("Hello Ada."), "{screen}");
    prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn several_lines_are_typed_and_pasted() {
    let machine = Machine::new().await;
    let mut terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    machine.llm.reply(Reply::text("Read."));
    terminal.types("one\x1b\rtwo\\\rthree \x1b[200~four\rfive\x1b[201~");
    terminal.shows("all lines", |screen| screen.contains("five")).await;
    terminal.types("\r");
    terminal.shows_text("Read.").await;
    assert_eq!(machine.llm.last_request().last_user(), "one\ntwo\nthree four\nfive");
    prompt(&terminal).await;
    // It is remembered as one entry, in a file of the user's own.
    terminal.types("\x1b[A");
    terminal
        .shows("the entry", |screen| screen.lines().iter().filter(|line| line.trim() == "five").count() == 2)
        .await;
    let file = machine.scratch.home.join(".local/share/windlass/chat-history");
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    terminal.types("\x03");
    prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn ctrl_c_cancels_the_turn_and_twice_leaves() {
    let machine = Machine::new().await;
    let mut terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    terminal.types("half a line");
    terminal.shows("the line", |screen| is_at_prompt(screen, "half a line")).await;
    terminal.types("\x03");
    prompt(&terminal).await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("Begun").and_gate(&gate));
    terminal.types("work\r");
    terminal.shows_text("Begun").await;
    terminal.types("\x03");
    terminal.shows_text("Cancelled.").await;
    prompt(&terminal).await;
    gate.abandoned().await;
    // The key that cancelled the turn does not count.
    terminal.types("\x03");
    terminal.shows_text("Ctrl-C again, or Ctrl-D, leaves.").await;
    prompt(&terminal).await;
    machine.llm.reply(Reply::text("Still here."));
    terminal.types("again\r");
    terminal.shows_text("Still here.").await;
    prompt(&terminal).await;
    terminal.types("\x03");
    let is_said = |screen: &Screen| screen.lines().join("\n").matches("Ctrl-C again, or Ctrl-D").count() == 2;
    terminal.shows("the way out again", is_said).await;
    prompt(&terminal).await;
    terminal.types("\x03");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn commands_are_completed_and_mode_and_model_switched() {
    let machine = Machine::new()
        .await
        .with("command", json!({"greet": {"template": "Greet $1", "description": "Greets"}}));
    let mut terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    terminal.types("/model mock/o\t\r");
    terminal.shows_text("Model: mock/other.").await;
    prompt(&terminal).await;
    terminal.types("/mode pl\t\r");
    terminal.shows("the plan agent", |screen| is_at_prompt(screen, "plan ›")).await;
    machine.llm.reply(Reply::text("Hello Bo."));
    terminal.types("/gre\tBo\r");
    terminal.shows_text("Hello Bo.").await;
    let request = machine.llm.last_request();
    assert_eq!(request.body["model"], "other");
    assert!(history(&request).contains("Greet Bo") && history(&request).contains("Plan mode"));
    prompt(&terminal).await;
    terminal.types("/gret Bo\r");
    terminal.shows_text("There is no command `/gret`; did you mean `/greet`?").await;
    prompt(&terminal).await;
    terminal.types("/undo\r");
    terminal.shows_text("Undone:").await;
    terminal.shows("the prompt in the line", |screen| is_at_prompt(screen, "› /greet Bo")).await;
    terminal.types("\x15/new\r");
    terminal.shows_text("A new session, ses_").await;
    prompt(&terminal).await;
    terminal.types("/exit\r");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn files_are_completed_and_attached() {
    let machine = Machine::new().await;
    let mut terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    machine.llm.reply(Reply::text("Read."));
    terminal.types("look at @a.t\tplease\r");
    terminal.shows_text("Read.").await;
    let said = history(&machine.llm.last_request());
    assert!(said.contains("look at @a.txt please") && said.contains("three"), "{said}");
    prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn a_chat_asks_the_person() {
    let machine = Machine::new().await.with("permission", json!({"bash": "ask"}));
    let mut terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "touch one"})));
    machine.llm.reply(Reply::text("Made."));
    terminal.types("make it\r");
    terminal.shows_text("[f] no, and say why").await;
    terminal.types("y");
    terminal.shows_text("Made.").await;
    assert!(machine.scratch.exists("one"));
    prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn words_stay_whole_in_a_narrow_terminal() {
    let machine = Machine::new().await;
    let builder = Terminal::builder(&machine.scratch, &machine.config).size(30, 100);
    let mut terminal = builder.arguments(&["chat"]).start();
    let shows_row = async |terminal: &Terminal, row: &str| {
        terminal.shows(row, |screen| screen.lines().iter().any(|line| line.trim_end() == row)).await
    };
    prompt(&terminal).await;
    terminal.types("/help\r");
    shows_row(&terminal, "line continues on the next,").await;
    shows_row(&terminal, "    agent; without a name,").await;
    prompt(&terminal).await;
    terminal.types("/model no/such\r");
    shows_row(&terminal, "The model no/such cannot be").await;
    prompt(&terminal).await;
    let question = json!({"questions": [{
        "question": "Shall the considerable rearrangement begin immediately?", "header": "plan",
        "options": [{"label": "Certainly", "description": "begin the considerable rearrangement"}],
    }]});
    machine.llm.reply(Reply::call("call_1", "question", question));
    machine.llm.reply(Reply::text("Good."));
    terminal.types("go\r");
    terminal.shows_text("dismiss").await;
    for row in
        ["? Shall the considerable", "rearrangement begin", "immediately?", "    considerable rearrangement"]
    {
        shows_row(&terminal, row).await;
    }
    terminal.types("1");
    terminal.shows_text("Good.").await;
    // The line of input is there during the turn as well.
    terminal.shows_text("220 tokens").await;
    prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn a_chat_ends_with_its_terminal() {
    let machine = Machine::new().await;
    let mut terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    terminal.hang_up().await;
    assert_eq!(terminal.ended().await.code(), Some(128 + Signal::SIGHUP as i32));
    let ended = machine.run(&["chat"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("A chat needs a terminal"), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn ctrl_z_stops_the_chat_and_fg_takes_the_line_up_again() {
    let machine = Machine::new().await;
    let builder = Terminal::builder(&machine.scratch, &machine.config).size(90, 40).env("PS1", "shell> ");
    let mut terminal = builder.program("/bin/bash").arguments(&["--norc", "-i"]).start();
    terminal.shows_text("shell>").await;
    terminal.types(&format!("'{}' chat\r", binary().display()));
    prompt(&terminal).await;
    terminal.types("half");
    terminal.shows("the line", |screen| is_at_prompt(screen, "half")).await;
    terminal.types("\x1a");
    terminal.shows_text("Stopped").await;
    terminal.types("fg\r");
    terminal.shows("the line again", |screen| is_at_prompt(screen, "half")).await;
    // The editor gets the keys as they are typed.
    terminal.types("X\x1b[D\x1b[DY");
    terminal.shows("the edited line", |screen| is_at_prompt(screen, "halYfX")).await;
    terminal.types("\x03");
    prompt(&terminal).await;
    terminal.types("\x04");
    terminal
        .shows("the shell", |screen| {
            screen.lines().iter().rfind(|line| !line.is_empty()).is_some_and(|line| line == "shell>")
        })
        .await;
    terminal.types("exit\r");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn a_line_of_any_length_that_was_typed_during_a_turn_is_whole_behind_it() {
    let machine = Machine::new().await;
    let mut terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("Working").and_gate(&gate));
    terminal.types("go\r");
    terminal.shows_text("Working").await;
    // A terminal's own lines end at 4095 characters.
    let line = format!("{}\tthe end", "0123456789".repeat(1_800));
    terminal.types_ahead(&format!("\x1b[200~{line}\x1b[201~")).await;
    gate.open();
    terminal.shows_text("of its context").await;
    terminal.shows("the end of the line", |screen| is_wrapped(screen, "the end")).await;
    machine.llm.reply(Reply::text("Read it."));
    terminal.types("\r");
    terminal.shows_text("Read it.").await;
    assert_eq!(machine.llm.last_request().last_user(), line);
    prompt(&terminal).await;

    // A key behind more than a terminal holds is seen as well.
    let gate = Gate::new();
    machine.llm.reply(Reply::text("Again").and_gate(&gate));
    terminal.types("more\r");
    terminal.shows_text("Again").await;
    terminal.types_ahead(&format!("\x1b[200~{line}\x1b[201~\x03")).await;
    terminal.shows_text("Cancelled.").await;
    terminal.shows("the end of the line", |screen| is_wrapped(screen, "the end")).await;
    terminal.types("\x03");
    prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn lines_that_were_typed_before_ctrl_z_are_the_chats_and_never_the_shells() {
    let machine = Machine::new().await;
    let builder = Terminal::builder(&machine.scratch, &machine.config).size(90, 40).env("PS1", "shell> ");
    let mut terminal = builder.program("/bin/bash").arguments(&["--norc", "-i"]).start();
    terminal.shows_text("shell>").await;
    terminal.types(&format!("'{}' chat\r", binary().display()));
    prompt(&terminal).await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("Working").and_gate(&gate));
    terminal.types("go\r");
    terminal.shows_text("Working").await;
    terminal.types_ahead("\x1b[200~touch pwned\r\x1b[201~and ha").await;
    terminal.types("\x1a");
    terminal.shows_text("Stopped").await;
    // The shell reads in order, edits its own line and shows it.
    terminal.types("echo the''shell\r");
    terminal.shows_text("theshell").await;
    assert!(!machine.scratch.exists("pwned"));
    terminal.types("fg\r");
    let is_drawn = |screen: &Screen| {
        screen
            .lines()
            .iter()
            .rev()
            .filter(|line| !line.trim().is_empty())
            .take(2)
            .any(|it| it.contains("Writing"))
    };
    terminal.shows("the turn again", is_drawn).await;
    terminal.types_ahead("lf").await;
    gate.open();
    // The lines stand below the turn too; an Enter is theirs once the turn is closed.
    let is_asked = |screen: &Screen| screen.contains("of its context") && is_wrapped(screen, "and half");
    let screen = terminal.shows("the lines", is_asked).await;
    assert!(screen.contains("› touch pwned"), "{screen}");
    machine.llm.reply(Reply::text("Read both."));
    terminal.types("\r");
    terminal.shows_text("Read both.").await;
    assert_eq!(machine.llm.last_request().last_user(), "touch pwned\nand half");
    prompt(&terminal).await;
    terminal.types("\x04");
    terminal
        .shows("the shell", |screen| {
            screen.lines().iter().rfind(|line| !line.is_empty()).is_some_and(|line| line == "shell>")
        })
        .await;
    terminal.types("exit\r");
    terminal.ends_with(0).await;
    assert!(!machine.scratch.exists("pwned"));
    machine.finish().await;
}

#[tokio::test]
async fn a_cancelled_prompt_can_be_undone_redone_and_found_again() {
    let machine = Machine::new().await;
    let mut terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    let gate = Gate::new();
    machine.llm.title(Reply::hang(&gate));
    machine.llm.reply(Reply::hang(&gate));
    terminal.types("rename the parser\r");
    terminal.shows_text("Waiting for the model").await;
    terminal.types("\x03");
    let screen = terminal.shows_text("Cancelled.").await;
    assert!(!screen.contains("Error:"), "{screen}");
    prompt(&terminal).await;
    terminal.types("/undo\r");
    terminal.shows_text("Undone:").await;
    terminal.shows("the prompt in the line", |screen| is_at_prompt(screen, "› rename the parser")).await;
    terminal.types("\x15/redo\r");
    terminal.shows_text("Put back:").await;
    prompt(&terminal).await;
    terminal.types("/new\r");
    terminal.shows_text("A new session, ses_").await;
    prompt(&terminal).await;
    terminal.types("/sessions\r");
    let screen = terminal
        .shows("the title", |screen| {
            screen
                .lines()
                .iter()
                .any(|line| line.starts_with("1  today") && line.contains("rename the parser  ses_"))
        })
        .await;
    assert!(screen.contains("/sessions NUMBER chooses."), "{screen}");
    prompt(&terminal).await;
    terminal.types("/sessions 1\r");
    // The session is drawn anew to its end before the next line is read.
    let is_drawn = |screen: &Screen| screen.lines().iter().any(|line| line.starts_with("› /redo"));
    terminal.shows("the session", is_drawn).await;
    prompt(&terminal).await;
    terminal.types("/help\r");
    let screen = terminal.shows_text("Alt-Enter or").await;
    for command in ["/agent ", "/model ", "/redo ", "/sessions ", "/compact "] {
        assert!(screen.contains(&format!("  {command}")), "{command}: {screen}");
    }
    prompt(&terminal).await;
    terminal.types("/exit\r");
    terminal.ends_with(0).await;
    let titles: Vec<_> = machine.sessions().await.iter().map(|it| it["title"].clone()).collect();
    assert_eq!(titles, ["rename the parser"], "a session in which nothing was said does not stay");
    // The title may not have been asked for by then.
    drop(machine);
}

#[tokio::test]
async fn a_narrower_terminal_shows_the_line_once() {
    let machine = Machine::new().await;
    let mut terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    terminal.types("a line that is long enough to be wrapped at forty columns");
    terminal.shows("the line", |screen| is_at_prompt(screen, "forty columns")).await;
    let n_drawn = terminal.raw().len();
    terminal.resize(40, 40);
    terminal.shows("the line drawn anew", |_| terminal.raw().len() > n_drawn).await;
    terminal.types("!");
    let screen = terminal.shows("the line with the key", |screen| is_wrapped(screen, "columns!")).await;
    assert_eq!(screen.all_lines().iter().filter(|line| line.contains("› a line")).count(), 1, "{screen}");
    terminal.types("\x03");
    terminal
        .shows("the prompt", |screen| {
            screen.lines().iter().rfind(|line| !line.is_empty()).is_some_and(|line| line.ends_with('›'))
        })
        .await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}

/// Returns true if the last rows, put together again, end with this text.
fn is_wrapped(screen: &Screen, typed: &str) -> bool {
    let text: String = screen.rows.iter().flatten().map(|cell| cell.text.as_str()).collect();
    text.trim_end().ends_with(typed)
}

#[tokio::test]
async fn a_line_behind_an_exclamation_mark_is_a_command_that_the_model_sees_later() {
    // The user's rules are for the model; a command that the user types is asked for by the user.
    let machine = Machine::new().await.with("permission", json!({"bash": {"*": "allow", "echo *": "deny"}}));
    let mut terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    terminal.types("!echo from the $((40 + 2)) && touch made.txt\r");
    terminal.shows_text("from the 42").await;
    prompt(&terminal).await;
    assert!(machine.scratch.exists("made.txt") && machine.llm.requests().is_empty());
    machine.llm.reply(Reply::text("I saw it."));
    terminal.types("what did it say\r");
    terminal.shows_text("I saw it.").await;
    prompt(&terminal).await;
    let asked = machine.llm.last_request();
    let messages = asked.messages();
    let said = asked.body["messages"].to_string();
    assert!(said.contains("The following tool was executed by the user"), "{said}");
    assert!(said.contains("from the 42") && !said.contains("!echo"), "{said}");
    assert_eq!(messages.iter().filter(|it| it["role"] == "tool").count(), 1, "{said}");
    assert_eq!(machine.llm.title_requests().len(), 1, "the first prompt gets the session its title");
    terminal.types("/undo 2\r");
    terminal.shows_text("Undone: \"!echo from the").await;
    terminal.shows("the command in the line", |screen| is_at_prompt(screen, "&& touch made.txt")).await;
    assert!(!machine.scratch.exists("made.txt"));
    terminal.types("\x15 !echo words\r");
    machine.llm.reply(Reply::text("Only words."));
    terminal.shows_text("Only words.").await;
    prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn a_command_that_is_typed_is_ended_by_an_interrupt() {
    let machine = Machine::new().await;
    let mut terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    // Shown by its output alone, not by the line that was typed.
    terminal.types("!echo be''gun; sleep 600\r");
    terminal.shows_text("begun").await;
    terminal.types("\x03");
    terminal.shows_text("Cancelled.").await;
    prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn a_command_that_is_typed_is_held_by_the_administrators_rules() {
    let machine = Machine::new().await;
    let managed = machine.scratch.root().join("managed");
    std::fs::create_dir(&managed).unwrap();
    std::fs::write(managed.join("opencode.json"), r#"{"permission": {"bash": {"rm *": "deny"}}}"#).unwrap();
    let mut terminal = Terminal::builder(&machine.scratch, &machine.config)
        .size(90, 40)
        .env("WINDLASS_MANAGED_CONFIG", managed.to_str().unwrap())
        .arguments(&["chat"])
        .start();
    prompt(&terminal).await;
    terminal.types("!rm a.txt\r");
    terminal.shows_text("!rm a.txt").await;
    prompt(&terminal).await;
    assert!(machine.scratch.exists("a.txt"));
    terminal.types("!touch made.txt\r");
    terminal.shows_text("!touch made.txt").await;
    prompt(&terminal).await;
    assert!(machine.scratch.exists("made.txt"));
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}
