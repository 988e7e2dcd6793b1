//! `windlass completions` and `windlass man`: made from the command line as it is.

use crate::{config_layers::Shell, support::scratch::Scratch};

#[tokio::test]
async fn every_shell_completes_every_command() {
    let scratch = Scratch::new();
    let shell = Shell::new(&scratch);
    for name in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (script, errors, code) = shell.run(&["completions", name]).await;
        assert_eq!(code, Some(0), "{errors}");
        for command in ["doctor", "session", "acp", "print-logs"] {
            assert!(script.contains(command), "{name} does not know {command}");
        }
    }
    for arguments in [&["completions"][..], &["completions", "cmd"]] {
        let (_, _, code) = shell.run(arguments).await;
        assert_eq!(code, Some(2), "{arguments:?}");
    }
}

#[tokio::test]
async fn the_script_of_bash_is_one_that_bash_can_read() {
    let scratch = Scratch::new();
    let mut shell = Shell::new(&scratch);
    let (script, _, _) = shell.run(&["completions", "bash"]).await;
    scratch.write("windlass.bash", script);
    shell.variables.push(("PATH".to_owned(), std::env::var("PATH").unwrap()));
    let check = "source windlass.bash && COMP_WORDS=(windlass doc) COMP_CWORD=1 && \
                 _windlass windlass doc windlass && test \"${COMPREPLY[*]}\" = doctor";
    let checked = tokio::process::Command::new("bash")
        .args(["-c", check])
        .current_dir(&scratch.work)
        .status()
        .await
        .unwrap();
    assert!(checked.success());
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
