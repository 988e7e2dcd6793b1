//! Questions to the person at the terminal, key by key.

use std::time::UNIX_EPOCH;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    cli::Machine,
    support::{
        agent::binary,
        llm::{Gate, Reply},
        process,
        terminal::Terminal,
    },
};

const KEYS: &str = "[f] no, and say why";

async fn asking() -> Machine {
    Machine::new().await.with("permission", json!({"bash": "ask", "edit": "ask"}))
}

fn terminal(machine: &Machine, arguments: &[&str]) -> Terminal {
    Terminal::builder(&machine.scratch, &machine.config).size(100, 40).arguments(arguments).start()
}

fn touch(id: &str, file: &str) -> Reply {
    Reply::call(id, "bash", json!({"command": format!("touch {file}")}))
}

#[tokio::test]
async fn one_key_allows_a_command_once_or_always() {
    let machine = asking().await;
    machine.llm.reply(touch("call_1", "one"));
    machine.llm.reply(touch("call_2", "two"));
    machine.llm.reply(touch("call_3", "three"));
    machine.llm.reply(Reply::text("All made."));
    let mut terminal = terminal(&machine, &["run", "go"]);
    let screen = terminal.shows_text(KEYS).await;
    assert!(screen.contains("  $ touch one"), "{screen}");
    assert!(screen.contains("[y] once  [a] always: touch *  [n] no"), "{screen}");
    assert!(!machine.scratch.exists("one"));
    terminal.types("y");
    terminal.shows_text("? bash").await;
    terminal
        .shows("the second question", |screen| screen.contains("  $ touch two") && screen.contains(KEYS))
        .await;
    terminal.types("a");
    terminal.ends_with(0).await;
    let screen = terminal.screen();
    assert!(screen.contains("All made.") && screen.contains("always"), "{screen}");
    assert!(
        ["one", "two", "three"].iter().all(|file| machine.scratch.exists(file)),
        "the third was not asked about"
    );
    machine.finish().await;
}

#[tokio::test]
async fn a_no_ends_the_turn_and_a_reason_reaches_the_model() {
    let machine = asking().await;
    machine.llm.reply(touch("call_1", "one"));
    let mut refused = terminal(&machine, &["run", "go"]);
    refused.shows_text(KEYS).await;
    refused.types("\x1b");
    refused.ends_with(0).await;
    assert!(!machine.scratch.exists("one"));

    machine.llm.reply(touch("call_2", "one"));
    machine.llm.reply(Reply::text("As you wish."));
    let mut reasoned = terminal(&machine, &["run", "go"]);
    reasoned.shows_text(KEYS).await;
    reasoned.types("f");
    reasoned.shows_text("Why:").await;
    reasoned.types("use jjx\x7f instead\r");
    reasoned.shows_text("As you wish.").await;
    reasoned.ends_with(0).await;
    let told = machine.llm.last_request().tool_result("call_2");
    assert!(told.contains("use jj instead"), "{told}");
    machine.finish().await;
}

#[tokio::test]
async fn a_change_is_shown_before_it_is_made() {
    let machine = asking().await;
    let path = machine.scratch.path("a.txt");
    machine.llm.reply(Reply::call("call_1", "read", json!({"filePath": path})));
    let edit = json!({"filePath": path, "oldString": "two", "newString": "zw\u{202e}ei"});
    machine.llm.reply(Reply::call("call_2", "edit", edit));
    machine.llm.reply(Reply::text("Done."));
    let mut terminal = terminal(&machine, &["run", "go"]);
    let screen = terminal.shows_text(KEYS).await;
    assert!(screen.contains("  2 - two") && screen.contains("  2 + zw\\u{202e}ei"), "{screen}");
    assert!(!screen.contains("Index:"), "{screen}");
    assert_eq!((screen.style_of("two"), screen.style_of("zw\\u{202e}ei")), ("red", "green"));
    terminal.types("y");
    terminal.ends_with(0).await;
    assert!(machine.scratch.read("a.txt").contains("zw\u{202e}ei"));
    machine.finish().await;
}

#[tokio::test]
async fn calls_at_once_are_asked_about_one_after_another() {
    let machine = asking().await;
    machine.llm.reply(touch("call_1", "one").and_call("call_2", "bash", json!({"command": "mkdir two"})));
    machine.llm.reply(Reply::text("Both."));
    let mut terminal = terminal(&machine, &["run", "go"]);
    let first = terminal.shows_text(KEYS).await;
    let (is_touch_first, is_mkdir_first) = (first.contains("$ touch one"), first.contains("$ mkdir two"));
    assert!(is_touch_first != is_mkdir_first, "{first}");
    terminal.types("y");
    let other = if is_touch_first { "$ mkdir two" } else { "$ touch one" };
    terminal
        .shows("the second", |screen| {
            screen.contains(other) && screen.lines().iter().filter(|line| line.contains(KEYS)).count() == 2
        })
        .await;
    terminal.types("y");
    terminal.ends_with(0).await;
    assert!(machine.scratch.exists("one") && machine.scratch.exists("two"));
    machine.finish().await;
}

#[tokio::test]
async fn questions_are_answered_by_number_and_in_own_words() {
    let machine = Machine::new().await;
    let options =
        json!([{"label": "Postgres", "description": "the usual"}, {"label": "SQLite", "description": ""}]);
    let questions: Value = json!({"questions": [
        {"question": "Which database?", "header": "db", "options": options},
        {"question": "And the name?", "header": "name", "options": []},
    ]});
    machine.llm.reply(Reply::call("call_1", "question", questions));
    machine.llm.reply(Reply::text("Noted."));
    let mut terminal = terminal(&machine, &["run", "go"]);
    let screen = terminal.shows_text("[1-2] choose").await;
    assert!(
        screen.contains("Which database? (1 of 2)") && screen.contains("1  Postgres  the usual"),
        "{screen}"
    );
    terminal.types("2");
    terminal.shows_text("Your words:").await;
    terminal.types("orders\r");
    terminal.ends_with(0).await;
    let told = machine.llm.last_request().tool_result("call_1");
    assert!(told.contains("SQLite") && told.contains("orders"), "{told}");
    machine.finish().await;
}

#[tokio::test]
async fn the_terminal_is_asked_where_the_prompt_is_piped_in() {
    let machine = asking().await;
    machine.llm.reply(touch("call_1", "one"));
    machine.llm.reply(Reply::text("ok"));
    let builder = Terminal::builder(&machine.scratch, &machine.config).arguments(&["run", "explain"]);
    let mut terminal = builder.piped("a log\n").start();
    terminal.shows_text(KEYS).await;
    terminal.types("y");
    terminal.ends_with(0).await;
    assert!(machine.scratch.exists("one"));
    machine.finish().await;
}

#[tokio::test]
async fn an_interrupt_in_a_dialogue_cancels_and_leaves_the_terminal_in_order() {
    for (keys, signal, code) in [(Some("\x03"), None, 130), (None, Some(Signal::SIGTERM), 143)] {
        let machine = asking().await;
        machine.llm.reply(touch("call_1", "one"));
        let run = binary().display().to_string();
        let shell = format!("stty -a > before; '{run}' run go; code=$?; stty -a > after; exit $code");
        let builder = Terminal::builder(&machine.scratch, &machine.config);
        let mut terminal = builder.program("/bin/bash").arguments(&["-c", &shell]).start();
        terminal.shows_text(KEYS).await;
        if let Some(keys) = keys {
            terminal.types(keys);
        }
        if let Some(signal) = signal {
            // Not by its environment, which it hides from its own user.
            let run = process::children(terminal.pid).into_iter().find(|pid| !process::is_reaper(*pid));
            process::send(run.unwrap(), signal);
        }
        terminal.ends_with(code).await;
        assert!(!machine.scratch.exists("one"));
        assert_eq!(machine.scratch.read("before"), machine.scratch.read("after"));
        machine.finish().await;
    }
}

#[tokio::test]
async fn where_nobody_is_asked_the_exit_code_tells_of_the_refusal() {
    let machine = asking().await;
    machine.llm.reply(touch("call_1", "one"));
    let mut unasked = terminal(&machine, &["run", "--no-ask", "go"]);
    let screen = unasked.ends_with(3).await;
    assert!(screen.contains("nobody can be asked"), "{screen}");
    machine.llm.reply(touch("call_2", "one"));
    assert_eq!(machine.run(&["run", "go"]).await.code, Some(3));
    assert!(!machine.scratch.exists("one"));
    machine.finish().await;
}

#[tokio::test]
async fn strict_ends_the_run_at_any_refusal() {
    let machine = Machine::new().await.with("permission", json!({"bash": {"rm *": "deny"}}));
    for (arguments, code) in [(&["run", "go"][..], 0), (&["run", "--strict", "go"], 3)] {
        machine.llm.reply(Reply::call("call_1", "bash", json!({"command": "rm a.txt"})));
        let gate = Gate::new();
        if code == 0 {
            machine.llm.reply(Reply::text("I may not."));
        } else {
            machine.llm.reply(Reply::hang(&gate));
        }
        let ended = machine.run(arguments).await;
        assert_eq!(ended.code, Some(code), "{ended:?}");
    }
    drop(machine);
}

#[tokio::test]
async fn a_reason_is_edited_within_its_line() {
    let machine = asking().await;
    machine.llm.reply(touch("call_1", "one"));
    machine.llm.reply(Reply::text("As you wish."));
    let mut terminal =
        Terminal::builder(&machine.scratch, &machine.config).size(40, 24).arguments(&["run", "go"]).start();
    // Keys stay whole where the row is short.
    let screen = terminal.shows_text(KEYS).await;
    assert!(screen.lines().contains(&"[y] once  [a] always: touch *  [n] no".to_owned()), "{screen}");
    terminal.types("f");
    terminal.shows_text("Why:").await;
    terminal.types("jj instead\x1b[Huse \x1b[F of it\x1b[D\x1b[D\x17git ");
    terminal.shows_text("Why: use jj instead git it").await;
    terminal.types("\x1b[F, as the notes of this project say\r");
    terminal.ends_with(0).await;
    let told = machine.llm.last_request().tool_result("call_1");
    assert!(told.contains("use jj instead git it, as the notes of this project say"), "{told}");
    machine.finish().await;
}

#[tokio::test]
async fn an_answer_settles_what_else_it_allows() {
    let machine = asking().await;
    machine.llm.reply(touch("call_1", "one").and_call("call_2", "bash", json!({"command": "touch two"})));
    machine.llm.reply(Reply::text("Both."));
    let mut terminal = terminal(&machine, &["run", "go"]);
    terminal.shows_text(KEYS).await;
    terminal.types("a");
    let screen = terminal.ends_with(0).await;
    assert_eq!(screen.all_lines().iter().filter(|line| line.contains(KEYS)).count(), 1, "{screen}");
    assert!(machine.scratch.exists("one") && machine.scratch.exists("two"));
    machine.finish().await;
}

#[tokio::test]
async fn a_plan_is_approved_by_a_key_and_carried_out() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::call("call_1", "plan_exit", json!({})));
    machine.llm.reply(touch("call_2", "built"));
    machine.llm.reply(Reply::text("Built."));
    let mut terminal = terminal(&machine, &["run", "--agent", "plan", "plan it"]);
    let screen = terminal.shows_text("[1-2] choose").await;
    assert!(screen.contains("1  Yes") && screen.contains("2  No"), "{screen}");
    assert!(!machine.scratch.exists("built"));
    terminal.types("1");
    let screen = terminal.ends_with(0).await;
    assert!(screen.contains("The agent `build` goes on.") && screen.contains("Built."), "{screen}");
    assert!(machine.scratch.exists("built"));
    machine.finish().await;
}

/// People read why a call was not made, not the JSON that models read, and once.
#[tokio::test]
async fn a_denial_is_told_in_words_and_once() {
    let denied = json!({"bash": {"*": "allow", "rm *": "deny"}, "edit": "deny"});
    let write = json!({"filePath": "b.txt", "content": "x"});
    for (call, line) in [
        (
            Reply::call("call_1", "bash", json!({"command": "rm a.txt"})),
            "| bash  rm a.txt: denied by the rules: `bash` of `rm *`",
        ),
        (Reply::call("call_1", "write", write), "| write  b.txt: denied by the rules: `edit`"),
    ] {
        let gate = Gate::new();
        let machine = Machine::new().await.with("permission", denied.clone());
        machine.llm.reply(call);
        machine.llm.reply(Reply::hang(&gate));
        let ended = machine.run(&["run", "--strict", "go"]).await;
        let told = format!("{line}\nSomething was refused, which ends the run (--strict).\n");
        assert_eq!((ended.code, ended.said()), (Some(3), told));
    }
}

/// The time that a command shows is its own.
#[tokio::test]
async fn a_commands_time_is_without_the_wait_for_the_answer() {
    let machine = asking().await;
    machine.llm.reply(touch("call_1", "one"));
    machine.llm.reply(Reply::text("Made."));
    let mut terminal = terminal(&machine, &["run", "go"]);
    terminal.shows_text(KEYS).await;
    let answered = i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
    terminal.types("y");
    terminal.ends_with(0).await;
    let list = machine.sessions().await;
    let shown =
        machine.run(&["session", "export", list[0]["id"].as_str().unwrap(), "--format", "json"]).await;
    let exported: Value = serde_json::from_str(&shown.stdout).unwrap();
    let parts =
        exported["messages"].as_array().unwrap().iter().flat_map(|it| it["parts"].as_array().unwrap());
    let call = parts.into_iter().find(|part| part["type"] == "tool").unwrap();
    assert!(call["state"]["time"]["start"].as_i64().unwrap() >= answered, "{call}");
    machine.finish().await;
}
