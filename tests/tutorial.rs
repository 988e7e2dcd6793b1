//! `docs/tutorial.md`: each of its lines runs, and prints the lines that stand behind it.

use std::{env, process::Stdio};

use tokio::process::Command;

use crate::{
    cli::{Machine, ended},
    support::agent::binary,
};

/// The blocks of a page: whether it is a shell's, and its text.
fn blocks(page: &str) -> Vec<(bool, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(bool, Vec<&str>)> = None;
    for line in page.lines() {
        match (&mut open, line) {
            (None, "```sh") => open = Some((true, Vec::new())),
            (None, "```text") => open = Some((false, Vec::new())),
            (Some(_), "```") => {
                let (is_shell, lines) = open.take().unwrap();
                blocks.push((is_shell, lines.join("\n")));
            }
            (Some((_, lines)), line) => lines.push(line),
            (None, _) => {}
        }
    }
    blocks
}

#[tokio::test]
async fn every_line_of_the_tutorial_runs_and_prints_what_it_says() {
    let page = include_str!("../docs/tutorial.md");
    let blocks = blocks(page);
    let scripts: Vec<&str> =
        blocks.iter().filter(|(is_shell, _)| *is_shell).map(|(_, text)| text.as_str()).collect();
    assert!(scripts.len() > 6, "{blocks:#?}");
    let machine = Machine::new().await;
    let binary = binary();
    let directory = binary.parent().unwrap();
    let path = format!("{}:{}", directory.display(), env::var("PATH").unwrap());
    let script = scripts.join("\necho '--- next ---'\n");
    let child = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &format!("exec 2>&1\n{script}")])
        .current_dir(&machine.scratch.home)
        .env_clear()
        .env("PATH", path)
        .env("HOME", &machine.scratch.home)
        .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let ended = ended(child).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    let mut printed = ended.stdout.split("--- next ---\n");
    let mut now = "";
    for (is_shell, text) in &blocks {
        if *is_shell {
            now = printed.next().unwrap();
            continue;
        }
        for line in text.lines() {
            assert!(now.lines().any(|it| it == line), "{line}\nis not in\n{now}");
        }
    }
    machine.finish().await;
}
