//! `windlass completions` and `windlass man`: made from the command line as it is.

use serde_json::Value;

use crate::{
    cli::Machine,
    config_layers::Shell,
    support::{llm::Reply, scratch::Scratch},
};

/// Has bash complete the last of these words, in the directory of the machine.
async fn completed(machine: &Machine, script: &str, words: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let check = format!(
        "source '{script}' && COMP_WORDS=({}) COMP_CWORD={} COMP_TYPE=9 && \
         _clap_complete_windlass windlass '{}' && printf '%s\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1,
        words.last().unwrap(),
    );
    let programs = crate::support::agent::binary().parent().unwrap().display().to_string();
    let asked = machine.command(&[]);
    let mut command = tokio::process::Command::new("bash");
    for (name, value) in asked.as_std().get_envs() {
        command.envs(value.map(|value| (name, value)));
    }
    command.env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()));
    let output = command.args(["-c", &check]).current_dir(&machine.scratch.work).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn every_shell_has_a_script() {
    let machine = Machine::new().await;
    for name in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = machine.run(&["completions", name]).await;
        assert_eq!(script.code, Some(0), "{script:?}");
        assert!(script.stdout.contains("WINDLASS_COMPLETE"), "{name}: {script:?}");
    }
    for arguments in [&["completions"][..], &["completions", "cmd"]] {
        assert_eq!(machine.run(arguments).await.code, Some(2), "{arguments:?}");
    }
}

#[tokio::test]
async fn bash_completes_commands_options_models_agents_and_sessions() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("hello"));
    assert_eq!(machine.run(&["run", "hi"]).await.code, Some(0));
    machine.scratch.write(".opencode/agent/judge.md", "---\ndescription: Judges\n---\nJudge.");
    let script = machine.run(&["completions", "bash"]).await;
    machine.scratch.write("windlass.bash", &script.stdout);
    let file = machine.scratch.path("windlass.bash");
    let listed = machine.run(&["session", "list", "--format", "json"]).await;
    let sessions: Value = serde_json::from_str(&listed.stdout).unwrap();
    let id = sessions[0]["id"].as_str().unwrap();
    for (words, wanted) in [
        (&["windlass", "doc"][..], "doctor"),
        (&["windlass", "run", "--ephem"], "--ephemeral"),
        (&["windlass", "run", "--model", "mock/m"], "mock/mock"),
        (&["windlass", "run", "--agent", "ju"], "judge"),
        (&["windlass", "--session", "ses_"], id),
        (&["windlass", "session", "show", "ses_"], id),
        (&["windlass", "session", "show", "la"], "latest"),
    ] {
        let completed = completed(&machine, &file, words).await;
        assert_eq!(completed.iter().map(|it| it.trim_end()).collect::<Vec<_>>(), [wanted], "{words:?}");
    }
    // A configuration that cannot be read costs nothing of the line.
    machine.scratch.write("opencode.json", "{ broken");
    let completed = completed(&machine, &file, &["windlass", "sess"]).await;
    assert_eq!(completed[0].trim_end(), "session");
}

#[tokio::test]
async fn the_manual_has_a_page_for_each_command() {
    let scratch = Scratch::new();
    let shell = Shell::new(&scratch);
    let (page, _, code) = shell.run(&["man"]).await;
    assert_eq!(code, Some(0));
    assert!(page.contains(".TH windlass 1") && page.contains("windlass\\-doctor(1)"), "{page}");
    let (_, errors, code) = shell.run(&["man", "--out", "pages/man1"]).await;
    assert_eq!(code, Some(0), "{errors}");
    for name in ["windlass.1", "windlass-run.1", "windlass-doctor.1", "windlass-mcp-list.1"] {
        assert!(scratch.read(&format!("pages/man1/{name}")).starts_with(".ie"), "{name}");
    }
    let page = include_str!("../docs/commands.md");
    for entry in std::fs::read_dir(scratch.path("pages/man1")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let words: Vec<&str> = name.trim_end_matches(".1").split('-').skip(1).collect();
        let command = if words.len() == 1 { format!("windlass {}", words[0]) } else { words.join(" ") };
        let is_named = ["`", " "].iter().any(|end| page.contains(&format!("{command}{end}")));
        assert!(words.is_empty() || is_named, "docs/commands.md does not name `{command}`");
    }
    let (_, errors, code) = shell.run(&["man", "--out", "a.txt"]).await;
    assert_eq!(code, Some(1), "{errors}");
}
