//! `windlass auth login`: providers offered, a key typed unseen, tried and stored, or refused.

use std::{os::unix::fs::PermissionsExt, path::PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    cli::{Ended, Machine},
    support::{
        agent::binary,
        scratch::Scratch,
        terminal::Terminal,
        web::{Page, Web},
    },
};

const KEY: &str = "sk-secret-0123456789";

/// Returns a configuration with an OpenAI that answers from here.
fn served_by(url: &str) -> Value {
    json!({"provider": {"openai": {"options": {"baseURL": url}}}})
}

async fn machine(url: &str) -> Machine {
    Machine { config: served_by(url), ..Machine::new().await }
}

async fn log_in(machine: &Machine, more: &[&str]) -> Ended {
    let arguments = [&["auth", "login", "--provider", "openai"], more].concat();
    machine.pipe(&arguments, format!("{KEY}\n")).await
}

fn stored(scratch: &Scratch) -> (PathBuf, Option<Value>) {
    let file = scratch.home.join(".local/share/windlass/auth.json");
    let text = std::fs::read_to_string(&file).ok();
    (file, text.map(|text| serde_json::from_str(&text).unwrap()))
}

#[tokio::test]
async fn a_key_that_the_provider_takes_is_stored_and_says_what_it_gives() {
    let web = Web::start().await;
    web.page("/v1/models", Page::new("application/json", "{\"data\": []}"));
    let machine = machine(&web.url("/v1")).await;
    let ended = log_in(&machine, &[]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (file, entries) = stored(&machine.scratch);
    assert_eq!(entries, Some(json!({"openai": {"type": "api", "key": KEY}})));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let said = format!(
        "The key for openai is stored in {}.\nOpenAI accepted the key.\nIt gives access to ",
        file.display()
    );
    assert!(ended.stdout.starts_with(&said), "{ended:?}");
    assert!(!ended.stdout.contains(KEY) && !ended.stderr.contains(KEY), "{ended:?}");
    assert_eq!(web.asked()[0].headers["authorization"], format!("Bearer {KEY}"));
    machine.finish().await;
}

#[tokio::test]
async fn a_key_that_the_provider_refuses_is_not_stored() {
    for status in [401, 403] {
        let web = Web::start().await;
        web.page("/v1/models", Page::status(status));
        let machine = machine(&web.url("/v1")).await;
        let ended = log_in(&machine, &[]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        let told =
            format!("The key was not stored: OpenAI rejected the key ({} answered {status})", web.url("/v1"));
        assert!(ended.stderr.contains(&told), "{ended:?}");
        assert_eq!(stored(&machine.scratch).1, None);
        let ended = log_in(&machine, &["--no-verify"]).await;
        assert_eq!((ended.code, web.asked().len()), (Some(0), 1), "{ended:?}");
        machine.finish().await;
    }
}

#[tokio::test]
async fn a_provider_that_cannot_be_asked_is_no_refusal() {
    let web = Web::start().await;
    let machine_404 = machine(&web.url("/v1")).await;
    let ended = log_in(&machine_404, &[]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains(&format!("Not checked: {} answered 404.", web.url("/v1"))), "{ended:?}");
    machine_404.finish().await;
    let nobody = machine("http://127.0.0.1:1/v1").await;
    let ended = log_in(&nobody, &[]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("\nNot checked: "), "{ended:?}");
    assert!(stored(&nobody.scratch).1.is_some());
    nobody.finish().await;
}

#[tokio::test]
async fn a_provider_that_nothing_knows_is_refused_with_the_entry_that_adds_it() {
    let machine = machine("http://127.0.0.1:1/v1").await;
    let ended = machine.pipe(&["auth", "login", "--provider", "opnai"], "k\n").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    for told in ["no provider `opnai`", "did you mean openai?", "\"provider\": {\"opnai\": {\"npm\": "] {
        assert!(ended.stderr.contains(told), "{told}: {ended:?}");
    }
    assert_eq!(stored(&machine.scratch).1, None);
    // Provider and key may both be piped.
    for key in ["a b c", "clé-0123456789"] {
        let arguments = ["auth", "login", "--provider", "openai", "--no-verify"];
        let ended = machine.pipe(&arguments, format!("{key}\n")).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        let told = "The key was not stored: a key has no white space and no letters beyond ASCII; copy the key alone.\n";
        assert_eq!(ended.stderr, told);
        assert_eq!(stored(&machine.scratch).1, None);
    }
    let ended = machine.pipe(&["auth", "login"], format!("{KEY}\n")).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("say which with `--provider ID`"), "{ended:?}");
    assert!(!ended.stderr.contains(KEY), "a key that was piped alone is not shown: {ended:?}");
    let ended = machine.pipe(&["auth", "login", "--no-verify"], format!("anthropic\n{KEY}\n")).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(stored(&machine.scratch).1, Some(json!({"anthropic": {"type": "api", "key": KEY}})));
    machine.finish().await;
}

#[tokio::test]
async fn on_a_terminal_a_provider_is_chosen_by_number_and_the_key_is_not_shown() {
    let web = Web::start().await;
    web.page("/v1/models", Page::new("application/json", "{}"));
    let scratch = Scratch::new();
    let mut terminal = Terminal::builder(&scratch, &served_by(&web.url("/v1")))
        .size(120, 24)
        .arguments(&["auth", "login"])
        .start();
    terminal.shows_text("  1. openai (OpenAI; ").await;
    terminal.shows_text("  2. anthropic (Anthropic; ").await;
    terminal.shows_text("Provider (number or id):").await;
    // Enter alone is asked about again.
    terminal.types("\r1\r");
    terminal.shows_text("  1. ChatGPT Plus, Pro or Business, in the browser").await;
    terminal.shows_text("Log in by (number):").await;
    terminal.types("3\r");
    terminal.shows_text("A key for OpenAI gives access to ").await;
    terminal.shows_text("Key (not shown):").await;
    terminal.types(&format!("{KEY}\r"));
    let screen = terminal.ends_with(0).await;
    assert!(screen.contains("OpenAI accepted the key."), "{screen}");
    assert!(!String::from_utf8_lossy(&terminal.raw()).contains("secret"), "{screen}");
    assert_eq!(stored(&scratch).1, Some(json!({"openai": {"type": "api", "key": KEY}})));
}

#[tokio::test]
async fn a_signal_while_the_key_is_typed_gives_the_terminal_back() {
    for (keys, signal, code) in [(Some("\x03"), None, 130), (None, Some(Signal::SIGTERM), 143)] {
        let scratch = Scratch::new();
        // Windlass takes the shell's place, so that its id is known before it begins.
        let script = "trap : INT; sh -c 'echo $$ >pid; exec \"$WINDLASS\" auth login --provider openai --no-verify'; \
                      echo code $?; stty -a";
        let mut terminal = Terminal::builder(&scratch, &json!({}))
            .program("/bin/sh")
            .arguments(&["-c", script])
            .env("WINDLASS", binary().to_str().unwrap())
            .start();
        terminal.shows_text("Key (not shown):").await;
        if let Some(keys) = keys {
            terminal.types(keys);
        }
        if let Some(signal) = signal {
            let pid = scratch.read("pid").trim().parse().unwrap();
            crate::support::process::send(pid, signal);
        }
        let screen = terminal.ends_with(0).await;
        assert!(screen.contains(&format!("code {code}")), "{screen}");
        assert!(screen.contains(" echo ") && !screen.contains("-echo "), "{screen}");
        assert_eq!(stored(&scratch).1, None);
    }
}
