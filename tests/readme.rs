//! The commands of the README, taken from its text and run.

use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;

use crate::{
    cli::{Ended, ended},
    support::{
        agent::binary,
        llm::{Llm, Reply, Wire, provider_config},
        scratch::Scratch,
    },
};

/// Returns the code behind a line of the README.
fn code_behind(line: &str) -> String {
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let (_, behind) = readme.split_once(&format!("\n{line}\n\n```sh\n")).expect(line);
    behind.split_once("\n```\n").unwrap().0.to_owned()
}

/// Runs a script as its first line says, where `windlass` is on the `PATH` and nothing else is set.
async fn run(scratch: &Scratch, script: &str, variables: &[(&str, &str)]) -> Ended {
    let programs = scratch.home.join("programs");
    if !programs.exists() {
        std::fs::create_dir(&programs).unwrap();
        std::os::unix::fs::symlink(binary(), programs.join("windlass")).unwrap();
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", script])
        .current_dir(&scratch.work)
        .env_clear()
        .env("PATH", path)
        .env("HOME", &scratch.home)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    ended(command.spawn().unwrap()).await
}

#[tokio::test]
async fn the_ci_job_fails_visibly_without_its_secret_and_works_with_it() {
    let job = code_behind("A complete job:");
    let scratch = Scratch::new();
    let failed = run(&scratch, &job, &[]).await;
    assert!(failed.code.is_some_and(|code| code != 0), "{failed:?}");
    assert!(failed.stderr.contains("there is no key for anthropic; set ANTHROPIC_API_KEY"), "{failed:?}");
    assert_eq!(failed.stdout, "");

    // With another model configured, too.
    let scratch = Scratch::new();
    let llm = with_a_model(&scratch).await;
    let config = json!({"provider": {"anthropic": {"options": {"baseURL": llm.url()}}}});
    std::fs::write(scratch.home.join(".config/opencode/config.json"), config.to_string()).unwrap();
    llm.reply(Reply::text("All tests pass."));
    let worked = run(&scratch, &job, &[("ANTHROPIC_API_KEY", "k")]).await;
    assert_eq!((worked.code, worked.stdout.as_str()), (Some(0), "All tests pass."), "{worked:?}");
    assert_eq!(llm.problems(), Vec::<String>::new());
}

/// Configures a model for the user, as someone may have before trying the examples.
async fn with_a_model(scratch: &Scratch) -> Llm {
    let llm = Llm::start().await;
    let directory = scratch.home.join(".config/opencode");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("opencode.json"), provider_config(&llm, Wire::OpenAi).to_string()).unwrap();
    llm
}

#[tokio::test]
async fn the_tour_by_hand_does_what_the_readme_shows() {
    let scratch = Scratch::new();
    check_tour_by_hand(&scratch).await;
    let scratch = Scratch::new();
    let llm = with_a_model(&scratch).await;
    check_tour_by_hand(&scratch).await;
    assert!(llm.requests().is_empty());
    // Regardless of the rest of the user's configuration.
    for config in [
        json!({"agent": {"build": {"model": "mock/mock"}}}),
        json!({"agent": {"build": {"disable": true}, "title": {"model": "nobody/m"}}}),
        json!({"default_agent": "plan"}),
        json!({"permission": {"edit": "deny"}, "agent": {"build": {"permission": {"edit": "ask"}}}}),
        json!({"small_model": "nobody/m", "enabled_providers": ["mock"]}),
        json!({"command": {"demo": {"template": "Say hello."}}}),
    ] {
        let scratch = Scratch::new();
        let llm = with_a_model(&scratch).await;
        std::fs::write(scratch.home.join(".config/opencode/config.json"), config.to_string()).unwrap();
        check_tour_by_hand(&scratch).await;
        assert!(llm.requests().is_empty(), "{config}");
    }
}

async fn check_tour_by_hand(scratch: &Scratch) {
    let tour = code_behind(
        "With the demo model, and so without a key; `env -i` and a home of its own keep your configuration out:",
    );
    let ended = run(scratch, &tour, &[]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for shown in [
        "\"currentValue\":\"windlass/demo\"",
        "I read `README.md` ",
        "\"newText\":\"# Scratch\\nEdited by the windlass demo.\\n\"",
        "\"stopReason\":\"end_turn\"",
        "\"title\":\"/demo edit README.md\"",
    ] {
        assert!(ended.stdout.contains(shown), "{shown}: {}", ended.stdout);
    }
    assert!(ended.stdout.ends_with("# Scratch\nEdited by the windlass demo.\n"), "{}", ended.stdout);
}

#[tokio::test]
async fn the_tour_of_the_terminal_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let temporary = scratch.home.join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let variables = [
        ("TMPDIR", temporary.to_str().unwrap()),
        // Nothing is asked of it, and in the scratch directory nothing has to be.
        ("ANTHROPIC_API_KEY", "k"),
        ("OPENCODE_PERMISSION", "{\"edit\": \"ask\"}"),
    ];
    let ended = run(&scratch, "windlass demo </dev/null", &variables).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("That was the tour"), "{ended:?}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    // The log of every command stays, no session does.
    assert!(!scratch.home.join(".local/share/windlass/windlass.db").exists());
    let ended = run(&scratch, "windlass demo --dir . </dev/null", &[]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(scratch.read("windlass-demo.txt"), "The windlass demo was here.\nThe rope is taut.\n");
}

#[tokio::test]
async fn the_commands_from_a_shell_run() {
    let script = code_behind("## From a shell");
    let scratch = Scratch::new();
    let llm = Llm::start().await;
    let config = provider_config(&llm, Wire::OpenAi).to_string();
    let n_prompts = script.lines().filter(|line| line.contains("windlass run")).count();
    assert!(n_prompts >= 3, "{script}");
    for n_prompt in 1..=n_prompts {
        llm.reply(Reply::text(&format!("answer {n_prompt}")));
    }
    let script = format!("set -e\ngit init -q\n{script}");
    let ended = run(&scratch, &script, &[("OPENCODE_CONFIG_CONTENT", &config)]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for n_prompt in 1..=n_prompts {
        assert!(ended.stdout.contains(&format!("answer {n_prompt}\n")), "{ended:?}");
    }
    assert!(ended.stdout.contains("ses_") && ended.stdout.contains("mock/mock"), "{ended:?}");
    assert_eq!(llm.problems(), Vec::<String>::new());
}
