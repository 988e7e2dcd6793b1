//! `windlass editor`: entries of editors, printed and put into their files.

use serde_json::{Value, json};

use crate::{
    config_layers::Shell,
    support::{agent::binary, scratch::Scratch},
};

#[tokio::test]
async fn entries_are_those_of_the_documentation_with_this_programs_path() {
    let page = include_str!("../docs/editors.md");
    let scratch = Scratch::new();
    let shell = Shell::new(&scratch);
    let program = binary().canonicalize().unwrap();
    for editor in ["zed", "jetbrains", "neovim", "emacs", "vscode"] {
        let (printed, hint, code) = shell.run(&["editor", editor]).await;
        assert_eq!(code, Some(0), "{hint}");
        let shown = printed.replace(program.to_str().unwrap(), "/path/to/windlass");
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let squeezed_page = squeezed(page).replace("[ ", "[").replace(" ]", "]");
        let squeezed_entry = squeezed(&shown).replace("[ ", "[").replace(" ]", "]");
        assert!(squeezed_page.contains(&squeezed_entry), "{editor}: {squeezed_entry}");
        assert!(hint.contains(&format!("`windlass editor {editor} --write`")), "{hint}");
    }
}

#[tokio::test]
async fn an_entry_is_merged_and_the_doctor_finds_it() {
    let scratch = Scratch::new();
    let shell = Shell::new(&scratch);
    let file = scratch.home.join(".config/zed/settings.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "// mine\n{\n  \"theme\": \"x\"\n}\n").unwrap();
    let (said, _, code) = shell.run(&["editor", "zed", "--write"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("settings.json.before-windlass"), "{said}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("// mine\n{\n  \"theme\": \"x\","), "{text}");
    let (said, _, code) = shell.run(&["editor", "zed", "--write"]).await;
    assert!(said.contains("already has the entry"), "{said}");
    assert_eq!(code, Some(0));

    let health = async || {
        let (printed, _, _) = shell.run(&["doctor", "--format", "json"]).await;
        let report: Value = serde_json::from_str(&printed).unwrap();
        let findings = report["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["topic"] == "editors").unwrap()
    };
    assert_eq!(health().await["health"], "ok");
    std::fs::write(&file, text.replace(binary().file_name().unwrap().to_str().unwrap(), "gone/windlass"))
        .unwrap();
    assert_eq!(health().await["health"], "wrong");
    std::fs::write(&file, "{").unwrap();
    assert_eq!(health().await["health"], "warning");
    let (_, errors, code) = shell.run(&["editor", "zed", "--write"]).await;
    assert_eq!(code, Some(1));
    assert!(errors.contains("was not changed: line 1, column 1 is no JSON"), "{errors}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{");
}

#[tokio::test]
async fn neovims_other_file_is_not_shadowed() {
    let scratch = Scratch::new();
    let shell = Shell::new(&scratch);
    let directory = scratch.home.join(".config/nvim");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("init.vim"), "set number\n").unwrap();
    let (_, errors, code) = shell.run(&["editor", "neovim", "--write"]).await;
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("init.vim") && !directory.join("init.lua").exists(), "{errors}");
}

#[tokio::test]
async fn another_file_may_be_named_and_nonsense_is_refused() {
    let scratch = Scratch::new();
    let shell = Shell::new(&scratch);
    let file = scratch.path("made/settings.json");
    let (_, errors, code) = shell.run(&["editor", "vscode", "--write", "--file", &file]).await;
    assert_eq!(code, Some(0), "{errors}");
    let made: Value = serde_json::from_str(&scratch.read("made/settings.json")).unwrap();
    assert_eq!(made["acp.agents"]["windlass"]["args"], json!(["acp"]));
    let (listed, _, code) = shell.run(&["editor"]).await;
    assert_eq!((code, listed.lines().count()), (Some(0), 5), "{listed}");
    for (arguments, status) in [
        (&["editor", "ed"][..], 2),
        (&["editor", "--write"], 2),
        (&["editor", "zed", "--file", "x"], 2),
        (&["editor", "zed", "--write", "--file", "."], 1),
        (&["editor", "zed", "--write", "--file", "a.txt/x"], 1),
        (&["editor", "zed", "--write", "--file", "a.txt"], 1),
    ] {
        let (_, errors, code) = shell.run(arguments).await;
        assert_eq!(code, Some(status), "{arguments:?}: {errors}");
    }
    assert_eq!(scratch.read("a.txt"), "one\ntwo\nthree\n");
}
