//! Lines that are typed in the chat while a turn runs, and the keys and commands of the chat itself.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::{
    chat::{is_at_prompt, prompt, start},
    cli::{Machine, history},
    support::{
        llm::{Gate, Reply},
        terminal::{Terminal, screen::Screen},
    },
};

/// A chat in which a turn works until the gate opens, and then calls a tool.
async fn at_work(machine: &Machine) -> (Terminal, Gate) {
    let terminal = start(machine, &["chat"]);
    prompt(&terminal).await;
    let gate = Gate::new();
    machine.llm.reply(Reply::text("Working").and_gate(&gate).and_call(
        "call_1",
        "bash",
        json!({"command": "true"}),
    ));
    terminal.types("go\r");
    terminal.shows_text("Working").await;
    terminal.shows_text("Enter: said at the next step").await;
    (terminal, gate)
}

/// Returns true if a row has all of these texts.
fn has_row(screen: &Screen, texts: &[&str]) -> bool {
    screen.lines().iter().any(|line| texts.iter().all(|text| line.contains(text)))
}

fn row_of(screen: &Screen, text: &str) -> usize {
    screen.lines().iter().position(|line| line.contains(text)).unwrap_or(usize::MAX)
}

async fn leave(mut terminal: Terminal, machine: Machine) {
    prompt(&terminal).await;
    terminal.types("\x04");
    terminal.ends_with(0).await;
    machine.finish().await;
}

#[tokio::test]
async fn a_line_that_is_typed_during_a_turn_is_said_at_the_next_step() {
    let machine = Machine::new().await;
    let (terminal, gate) = at_work(&machine).await;
    terminal.types("and mind the tests\r");
    terminal.shows("what waits", |screen| has_row(screen, &["next step", "and mind the tests"])).await;
    terminal.types("half");
    terminal.shows("the line", |screen| is_at_prompt(screen, "› half")).await;
    machine.llm.reply(Reply::text("I mind them."));
    gate.open();
    let screen = terminal.shows_text("I mind them.").await;
    assert!(history(&machine.llm.last_request()).contains("and mind the tests"));
    assert!(row_of(&screen, "› and mind the tests") < row_of(&screen, "I mind them."), "{screen}");
    assert_eq!(machine.llm.requests().len(), 2, "no turn of its own");
    terminal
        .shows("the line behind it", |screen| is_at_prompt(screen, "› half") && !screen_has_hint(screen))
        .await;
    terminal.types("\x15");
    leave(terminal, machine).await;
}

fn screen_has_hint(screen: &Screen) -> bool {
    screen.lines().iter().any(|line| line.contains("Writing") || line.contains("Waiting for the model"))
}

#[tokio::test]
async fn alt_enter_asks_afterwards_and_up_takes_the_last_back() {
    let machine = Machine::new().await;
    let (terminal, gate) = at_work(&machine).await;
    terminal.types("later one\x1b\r");
    terminal.types("later two\x1b\r");
    terminal.shows("what waits", |screen| has_row(screen, &["queued", "later two"])).await;
    terminal.types("\x1b[A");
    let is_back =
        |screen: &Screen| is_at_prompt(screen, "› later two") && !has_row(screen, &["queued", "later two"]);
    terminal.shows("the line", is_back).await;
    terminal.types("\x15");
    machine.llm.reply(Reply::text("The first is done."));
    machine.llm.reply(Reply::text("Later is now."));
    gate.open();
    let screen = terminal.shows_text("Later is now.").await;
    assert!(row_of(&screen, "The first is done.") < row_of(&screen, "› later one"), "{screen}");
    assert_eq!(machine.llm.last_request().last_user(), "later one");
    leave(terminal, machine).await;
}

#[tokio::test]
async fn escape_stops_the_turn_and_again_takes_the_prompt_back() {
    let machine = Machine::new().await;
    let (terminal, gate) = at_work(&machine).await;
    terminal.types("afterwards\x1b\r");
    terminal.shows("what waits", |screen| has_row(screen, &["queued", "afterwards"])).await;
    terminal.types("\x1b");
    terminal.shows_text("Cancelled.").await;
    gate.abandoned().await;
    // The prompt that did not begin is in the line again.
    terminal.shows("the line", |screen| is_at_prompt(screen, "› afterwards")).await;
    assert_eq!(machine.llm.requests().len(), 1);
    terminal.types("\x15");
    prompt(&terminal).await;
    terminal.types("\x1b");
    terminal.shows_text("Undone:").await;
    terminal.shows("the prompt in the line", |screen| is_at_prompt(screen, "› go")).await;
    terminal.types("\x15");
    leave(terminal, machine).await;
}

#[tokio::test]
async fn escape_again_takes_back_what_the_stopped_turn_took_in_too() {
    let machine = Machine::new().await;
    let (terminal, gate) = at_work(&machine).await;
    let stopped = Gate::new();
    machine.llm.reply(Reply::hang(&stopped));
    terminal.types("mind the tests\r");
    terminal.shows("what waits", |screen| has_row(screen, &["next step", "mind the tests"])).await;
    gate.open();
    stopped.reached().await;
    terminal.types("\x1b");
    terminal.shows_text("Cancelled.").await;
    prompt(&terminal).await;
    terminal.types("\x1b");
    terminal.shows_text("Undone:").await;
    terminal.shows("the first prompt in the line", |screen| is_at_prompt(screen, "› go")).await;
    terminal.types("\x15");
    leave(terminal, machine).await;
}

#[tokio::test]
async fn a_refusal_gives_back_what_waits() {
    let machine = Machine::new().await.with("permission", json!({"bash": "ask"}));
    let (terminal, gate) = at_work(&machine).await;
    terminal.types("afterwards\x1b\r");
    terminal.shows("what waits", |screen| has_row(screen, &["queued", "afterwards"])).await;
    gate.open();
    terminal.shows_text("[y] once").await;
    terminal.types("n");
    terminal.shows("the line", |screen| is_at_prompt(screen, "› afterwards")).await;
    assert_eq!(machine.llm.requests().len(), 1);
    terminal.shows_text("of its context").await;
    terminal.shows("the line", |screen| is_at_prompt(screen, "› afterwards")).await;
    // A command of the chat would lose the lines behind it.
    terminal.types("\x15/exit\\\r");
    terminal.types("more\r");
    terminal.shows_text("/exit stands on a line of its own").await;
    let are_back = |screen: &Screen| screen.lines().iter().filter(|line| line.trim() == "more").count() == 2;
    terminal.shows("the lines", are_back).await;
    terminal.types("\x03");
    prompt(&terminal).await;
    leave(terminal, machine).await;
}

#[tokio::test]
async fn commands_wait_for_the_end_of_the_turn_and_unknown_ones_stay_in_the_line() {
    let machine = Machine::new().await;
    let (terminal, gate) = at_work(&machine).await;
    terminal.types("/gret\r");
    terminal.shows_text("There is no command `/gret`").await;
    terminal.shows("the line", |screen| is_at_prompt(screen, "› /gret")).await;
    terminal.types("\x15/model other\r");
    terminal.shows("what waits", |screen| has_row(screen, &["queued", "/model other"])).await;
    machine.llm.reply(Reply::text("Done."));
    gate.open();
    terminal.shows_text("Done.").await;
    terminal.shows_text("Model: mock/other.").await;
    leave(terminal, machine).await;
}

#[tokio::test]
async fn the_chat_says_where_it_is_and_what_answered() {
    let machine = Machine::new().await;
    let terminal = start(&machine, &["chat"]);
    let version = format!("windlass {} · Mock · ", env!("CARGO_PKG_VERSION"));
    terminal.shows("the first row", |screen| has_row(screen, &[&version])).await;
    prompt(&terminal).await;
    machine.llm.reply(Reply::text("Hello."));
    terminal.types("hi\r");
    terminal.shows("the last row", |screen| has_row(screen, &["Mock · build · ", "% of its context"])).await;
    prompt(&terminal).await;
    terminal.types("\x1b[Z");
    terminal.shows("the next agent", |screen| is_at_prompt(screen, "plan ›")).await;
    terminal.types("\x1b[Z");
    terminal.shows("the first again", |screen| is_at_prompt(screen, "build ›")).await;
    leave(terminal, machine).await;
}

#[tokio::test]
async fn a_prompt_goes_on_in_the_persons_editor() {
    let machine = Machine::new().await;
    let editor = machine.scratch.home.join("editor.sh");
    std::fs::write(&editor, "#!/bin/sh\nprintf ' and\\nmore' >> \"$1\"\n").unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let builder = Terminal::builder(&machine.scratch, &machine.config).size(90, 40);
    let terminal = builder.env("EDITOR", &editor.display().to_string()).arguments(&["chat"]).start();
    for keys in ["\x07", "\x18\x05"] {
        prompt(&terminal).await;
        terminal.types("one");
        terminal.shows("the line", |screen| is_at_prompt(screen, "› one")).await;
        terminal.types(keys);
        let is_edited = |screen: &Screen| {
            screen
                .lines()
                .iter()
                .rfind(|line| !line.trim().is_empty())
                .is_some_and(|line| line.trim() == "more")
        };
        terminal.shows("the edited line", is_edited).await;
        machine.llm.reply(Reply::text(&format!("Read {}.", keys.len())));
        terminal.types("\r");
        terminal.shows_text(&format!("Read {}.", keys.len())).await;
        assert_eq!(machine.llm.last_request().last_user(), "one and\nmore");
        prompt(&terminal).await;
        if keys.len() == 1 {
            terminal.types("/clear\r");
            terminal.shows_text("A new session").await;
        }
    }
    leave(terminal, machine).await;
}

#[tokio::test]
async fn the_chats_own_commands_show_and_change_the_session() {
    let machine = Machine::new().await;
    let terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    machine.llm.reply(Reply::call("call_1", "write", json!({"filePath": "new.txt", "content": "one\n"})));
    machine.llm.reply(Reply::text("Written."));
    terminal.types("write\r");
    terminal.shows_text("Written.").await;
    for (command, shown) in [
        ("/diff", "new.txt"),
        ("/cost", "tokens: "),
        ("/rename  A better  title", "Title: A better title."),
        ("/sessions", "A better title"),
        ("/jobs", "Nothing runs in the background."),
        ("/copy", "Copied 8 characters"),
        ("/thinking", "Thoughts are shown from now on."),
        ("/export talk.pdf", "names no form"),
        ("/export talk.md", "talk.md."),
        ("/export talk.md", "talk.md is there already; name another file."),
        ("/export ~/talk.md", "Written to"),
        ("/rename", "Give the title behind it"),
    ] {
        prompt(&terminal).await;
        let rows = |screen: &Screen| screen.lines().iter().filter(|line| line.contains(" ›")).count();
        let n_before = rows(&terminal.shows("a screen", |_| true).await);
        terminal.types(&format!("{command}\r"));
        terminal.shows("the next prompt", |screen| rows(screen) > n_before).await;
        terminal.shows_text(shown).await;
    }
    assert!(machine.scratch.read("talk.md").contains("# A better title"));
    assert!(machine.scratch.home.join("talk.md").exists());
    prompt(&terminal).await;
    terminal.types("/undo\r");
    terminal.shows("the prompt in the line", |screen| is_at_prompt(screen, "› write")).await;
    assert!(!machine.scratch.exists("new.txt"));
    terminal.types("\x15");
    leave(terminal, machine).await;
}

#[tokio::test]
async fn without_a_model_the_chat_offers_a_server_of_this_machine_and_the_demo() {
    let mut machine = Machine::new().await;
    machine.config = json!({});
    let builder = Terminal::builder(&machine.scratch, &machine.config).size(90, 40);
    let terminal =
        builder.env("OLLAMA_HOST", machine.llm.url().trim_end_matches("/v1")).arguments(&["chat"]).start();
    let screen = terminal.shows_text("Type its number.").await;
    assert!(has_row(&screen, &["1  log in at a provider"]), "{screen}");
    assert!(has_row(&screen, &["2  use Ollama, which runs on this machine: mock, other"]), "{screen}");
    assert!(has_row(&screen, &["3  look at the demo"]), "{screen}");
    prompt(&terminal).await;
    // Words wait for the choice.
    terminal.types("hi there\r");
    terminal
        .shows("the words in the line, below the offers again", |screen| {
            is_at_prompt(screen, "› hi there")
                && screen.lines().iter().filter(|line| line.contains("Type its number.")).count() == 2
        })
        .await;
    terminal.types("\x15");
    prompt(&terminal).await;
    terminal.types("2\r");
    terminal.shows_text("Model: ollama/mock, from now on in your settings.").await;
    prompt(&terminal).await;
    machine.llm.reply(Reply::text("Hello from here."));
    terminal.types("hi\r");
    terminal.shows_text("Hello from here.").await;
    leave(terminal, machine).await;
}

#[tokio::test]
async fn the_clipboards_picture_is_attached_by_a_key() {
    let machine = Machine::new().await;
    let programs = machine.scratch.home.join("bin");
    std::fs::create_dir(&programs).unwrap();
    let printer = programs.join("wl-paste");
    std::fs::write(&printer, "#!/bin/sh\nprintf '\\211PNG\\r\\n\\032\\n\\0\\0\\0\\rIHDR'\n").unwrap();
    std::fs::set_permissions(&printer, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let builder = Terminal::builder(&machine.scratch, &machine.config).size(200, 40);
    let builder = builder.env("PATH", &path).env("WAYLAND_DISPLAY", "wayland-0");
    let terminal = builder.arguments(&["chat"]).start();
    prompt(&terminal).await;
    terminal.types("look at\x16");
    terminal
        .shows("the path", |screen| has_row(screen, &["› look at '/", "/tool_clipboard-", ".png'"]))
        .await;
    terminal.types("\x15");
    leave(terminal, machine).await;
}

#[tokio::test]
async fn lines_that_come_in_one_burst_are_prompts_one_after_another() {
    let machine = Machine::new().await;
    let terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    machine.llm.reply(Reply::text("The first."));
    machine.llm.reply(Reply::text("The second."));
    terminal.types("one\rtwo\rthree");
    terminal.shows_text("The second.").await;
    terminal.shows("the rest in the line", |screen| is_at_prompt(screen, "› three")).await;
    assert_eq!(machine.llm.last_request().last_user(), "two");
    terminal.types("\x15");
    leave(terminal, machine).await;
}

#[tokio::test]
async fn a_new_session_keeps_the_agent() {
    let machine = Machine::new().await;
    let terminal = start(&machine, &["chat"]);
    prompt(&terminal).await;
    terminal.types("\x1b[Z");
    terminal.shows("the next agent", |screen| is_at_prompt(screen, "plan ›")).await;
    terminal.types("/new\r");
    terminal.shows_text("A new session").await;
    terminal.shows("the agent of before", |screen| is_at_prompt(screen, "plan ›")).await;
    leave(terminal, machine).await;
}

#[tokio::test]
async fn a_prompt_is_picked_for_undo_by_its_words() {
    let machine = Machine::new().await;
    let terminal = start(&machine, &["chat"]);
    for (words, answer) in [("alpha one", "First."), ("beta two", "Second."), ("gamma two", "Third.")] {
        prompt(&terminal).await;
        machine.llm.reply(Reply::text(answer));
        terminal.types(&format!("{words}\r"));
        terminal.shows_text(answer).await;
    }
    prompt(&terminal).await;
    terminal.types("/undo two\r");
    terminal.shows("the two that have the word", |screen| has_row(screen, &["1  ", "gamma two"])).await;
    terminal.shows_text("/undo NUMBER chooses.").await;
    prompt(&terminal).await;
    terminal.types("/undo beta\r");
    terminal.shows("the prompt in the line", |screen| is_at_prompt(screen, "› beta two")).await;
    terminal.types("\x15");
    leave(terminal, machine).await;
}
