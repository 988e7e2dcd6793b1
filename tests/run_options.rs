//! Options of `windlass run` that OpenCode's users type, and mistakes that are told before a model is asked.

use serde_json::{Value, json};

use crate::{
    cli::{Machine, history},
    support::llm::{Gate, Reply},
};

/// Runs a command that must fail before the model is asked.
async fn check_refused(machine: &Machine, arguments: &[&str], code: i32, reason: &str) {
    let n_requests = machine.llm.requests().len();
    let ended = machine.run(arguments).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{arguments:?}: {ended:?}");
    assert!(ended.stderr.contains(reason), "{arguments:?}: {}", ended.stderr);
    assert_eq!(machine.llm.requests().len(), n_requests, "{arguments:?}: nothing is sent");
}

#[tokio::test]
async fn a_variant_is_chosen_for_the_model_that_answers() {
    let mut machine = Machine::new().await;
    machine.config["provider"]["mock"]["models"]["mock"]["variants"] =
        json!({"high": {"reasoning_effort": "high"}, "low": {"reasoning_effort": "low"}});
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "--variant", "high", "go"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(machine.llm.last_request().body["reasoning_effort"], "high");
    machine.llm.reply(Reply::text("ok"));
    machine.run(&["run", "-m", "mock/mock", "--variant", "low", "go"]).await;
    assert_eq!(machine.llm.last_request().body["reasoning_effort"], "low");
    let reason = "mock/mock has no variant `hihg`; it has high, low (did you mean high?).";
    check_refused(&machine, &["run", "--variant", "hihg", "go"], 2, reason).await;
    let reason =
        "mock/other has no variant `high`; it has none, unless `provider.mock.models.other.variants` in";
    check_refused(&machine, &["run", "-m", "mock/other", "--variant", "high", "go"], 2, reason).await;
    machine.finish().await;
}

#[tokio::test]
async fn instructions_from_a_file_are_the_sessions_from_then_on() {
    let machine = Machine::new().await;
    machine.scratch.write("pirate.md", "Speak like a pirate.");
    machine.scratch.write("empty.md", "\n");
    for (option, has_own) in [("--append-system-prompt", true), ("--system-prompt", false)] {
        machine.llm.reply(Reply::text("Arr."));
        machine.run(&["run", option, "pirate.md", "hello"]).await;
        machine.llm.reply(Reply::text("Arr again."));
        machine.run(&["run", "--continue", "hello again"]).await;
        let system = machine.llm.last_request().system();
        assert!(system.contains("Speak like a pirate."), "{option}: {system}");
        assert_eq!(system.contains("You are windlass"), has_own, "{option}: {system}");
    }
    check_refused(&machine, &["run", "--system-prompt", "lost.md", "go"], 2, "lost.md cannot be read").await;
    check_refused(&machine, &["run", "--system-prompt", "empty.md", "go"], 2, "the file is empty").await;
    let both = ["run", "--system-prompt", "pirate.md", "--append-system-prompt", "pirate.md", "go"];
    check_refused(&machine, &both, 2, "cannot be used with").await;
    machine.finish().await;
}

#[tokio::test]
async fn a_session_can_be_continued_in_a_copy() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("Hello Ada"));
    let ended = machine.run(&["run", "--format", "json", "I am Ada"]).await;
    let first = ended.lines()[0]["sessionID"].as_str().unwrap().to_owned();
    for chosen in [&["--continue"][..], &["--session", &first]] {
        machine.llm.reply(Reply::text("You are Ada"));
        let arguments = [&["run", "--format", "json", "--fork"], chosen, &["who am I"]].concat();
        let ended = machine.run(&arguments).await;
        let said = history(&machine.llm.last_request());
        assert!(said.contains("I am Ada") && said.contains("Hello Ada"), "{said}");
        assert_ne!(ended.lines()[0]["sessionID"], first.as_str());
    }
    machine.llm.reply(Reply::text("Still"));
    machine.run(&["run", "--session", &first, "and here"]).await;
    assert!(!history(&machine.llm.last_request()).contains("who am I"), "the session itself stays as it was");
    let titles: Vec<Value> = machine.sessions().await.iter().map(|it| it["title"].clone()).collect();
    assert_eq!(titles.len(), 3, "{titles:?}");
    check_refused(&machine, &["run", "--fork", "go"], 2, "`--fork` copies a session").await;
    machine.finish().await;
}

#[tokio::test]
async fn several_files_may_stand_behind_one_option() {
    let machine = Machine::new().await;
    machine.scratch.write("b.txt", "content of b");
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "-f", "a.txt", "b.txt", "--", "compare", "them"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let said = history(&machine.llm.last_request());
    assert!(
        said.contains("three") && said.contains("content of b") && said.contains("compare them"),
        "{said}"
    );
    check_refused(&machine, &["run", "-f", "a.txt", "c.txt", "--", "go"], 2, "c.txt cannot be attached")
        .await;
    machine.finish().await;
}

#[tokio::test]
async fn sharing_without_a_place_for_pages_is_refused_before_a_model_is_asked() {
    let machine = Machine::new().await;
    check_refused(&machine, &["run", "--share", "go"], 1, "windlass.share.directory").await;
    assert_eq!(machine.sessions().await, Vec::<Value>::new());
    machine.finish().await;
}

#[tokio::test]
async fn a_pure_run_leaves_plugins_out_wherever_the_option_stands() {
    let machine = Machine::new().await;
    machine.scratch.write(".opencode/plugin/p.js", "throw new Error('it was loaded')");
    for (arguments, is_loaded) in
        [(&["run", "go"][..], true), (&["run", "--pure", "go"], false), (&["--pure", "run", "go"], false)]
    {
        machine.llm.reply(Reply::text("ok"));
        let ended = machine.run(arguments).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.stderr.contains("it was loaded"), is_loaded, "{arguments:?}: {}", ended.stderr);
    }
    machine.finish().await;
}

#[tokio::test]
async fn a_misspelt_option_or_command_is_recognised() {
    let machine = Machine::new().await;
    check_refused(&machine, &["rnu", "go"], 2, "a similar subcommand exists: 'run'").await;
    check_refused(&machine, &["sesion", "list"], 2, "'session'").await;
    check_refused(&machine, &["explain this"], 2, "use 'windlass run PROMPT'").await;
    check_refused(&machine, &["run", "--modle", "mock/mock", "go"], 2, "'--model'").await;
    machine.finish().await;
}

#[tokio::test]
async fn words_that_look_like_a_command_are_not_sent_by_mistake() {
    let machine = Machine::new().await;
    let arguments = ["run", "/reveiw", "the", "parser"];
    check_refused(&machine, &arguments, 2, "There is no command `/reveiw`; did you mean `/review`?").await;
    check_refused(&machine, &["run", "/review the parser"], 2, "`--command review`").await;
    check_refused(&machine, &["run", "/zzz"], 2, "put `--` before the words").await;
    let reason = "There is no command `/reveiw`; did you mean `/review`?";
    check_refused(&machine, &["run", "--command", "reveiw", "it"], 2, reason).await;
    assert_eq!(machine.sessions().await, Vec::<Value>::new());
    for arguments in [&["run", "--", "/reveiw", "it"][..], &["run", "/etc", "is", "what?"]] {
        machine.llm.reply(Reply::text("ok"));
        let ended = machine.run(arguments).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let words = if arguments[1] == "--" { "/reveiw it" } else { "/etc is what?" };
        assert_eq!(machine.llm.last_request().last_user(), words);
    }
    machine.finish().await;
}

#[tokio::test]
async fn what_the_model_cannot_take_is_not_attached() {
    let mut machine = Machine::new().await;
    machine.config["provider"]["mock"]["models"]["text"] = json!({"limit": {"context": 9000, "output": 900}, "modalities": {"input": ["text"], "output": ["text"]}});
    machine.scratch.write("a.png", "GIF89a, whatever its name");
    machine.scratch.write("a.pdf", "%PDF-1.7");
    machine.scratch.write("b.png", "%PDF-1.7");
    machine.scratch.write("page.pdf", "<!DOCTYPE html>");
    for (file, kind) in [("a.png", "images"), ("a.pdf", "PDF files"), ("b.png", "PDF files")] {
        let reason = format!("mock/text takes no {kind}, such as {file}");
        check_refused(&machine, &["run", "-m", "mock/text", "-f", file, "--", "look"], 2, &reason).await;
    }
    machine.scratch.write("core", "\0\u{1}\u{2}");
    machine.scratch.write("data.bin", "looks like text");
    for file in ["core", "data.bin"] {
        let reason =
            format!("{file} cannot be attached: it is a binary file, neither an image nor a PDF file.");
        check_refused(&machine, &["run", "-f", file, "--", "look"], 2, &reason).await;
    }
    for arguments in [
        &["run", "-f", "a.png", "--", "look"][..],
        &["run", "-m", "mock/text", "-f", "page.pdf", "--", "look"],
    ] {
        machine.llm.reply(Reply::text("ok"));
        let ended = machine.run(arguments).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    assert!(machine.llm.last_request().body.to_string().contains("DOCTYPE"));
    machine.finish().await;
}

#[tokio::test]
async fn binary_input_is_refused() {
    let machine = Machine::new().await;
    let large: Vec<u8> = (0..3 << 20).map(|at: u32| (at * 31 % 251) as u8).collect();
    for input in [&large[..], b"a\0b", b"\xff\xfe"] {
        let ended = machine.pipe(&["run", "explain"], input).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert_eq!(
            ended.stderr,
            "Standard input is not UTF-8 text; attach a file of another kind by `--file PATH`.\n"
        );
    }
    assert_eq!(machine.llm.requests().len(), 0);
    machine.finish().await;
}

#[tokio::test]
async fn what_is_wrong_is_told_once() {
    let machine = Machine::new().await.with("model", json!("acme/m"));
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1), "{ended:?}");
    assert!(ended.stderr.starts_with("`model` in OPENCODE_CONFIG_CONTENT"), "{ended:?}");

    let machine = Machine::new().await;
    machine.scratch.write("opencode.json", "{\"permission\": {\"bash\": \"maybe\"}}");
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str(), ended.said().lines().count()), (Some(0), "ok\n", 1));
    assert!(ended.stderr.starts_with("warning: ") && ended.stderr.contains("opencode.json:1:"), "{ended:?}");
    // It may be why the model is not known.
    let ended = machine.run(&["run", "-m", "acme/m", "go"]).await;
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 2), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_provider_that_hangs_is_asked_again_in_time() {
    let mut machine = Machine::new().await;
    machine.config["provider"]["mock"]["options"]["headerTimeout"] = json!(200);
    let gate = Gate::new();
    machine.llm.reply(Reply::hang(&gate));
    machine.llm.reply(Reply::text("Here I am."));
    let ended = machine.run(&["run", "go"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Here I am.\n"), "{ended:?}");
    assert!(ended.stderr.contains("no answer within 200 ms"), "{ended:?}");
    gate.abandoned().await;
    machine.finish().await;
}

#[tokio::test]
async fn a_line_of_a_call_names_what_it_is_about() {
    let machine = Machine::new().await;
    std::fs::remove_dir_all(machine.scratch.path(".git")).unwrap();
    let question = json!({"questions": [{"question": "Which one?", "header": "one", "options": []}]});
    let calls = Reply::call("c1", "read", json!({"filePath": machine.scratch.path("a.txt")}));
    machine.llm.reply(calls.and_call("c2", "question", question));
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "go"]).await;
    let said = ended.said();
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    assert!(lines[0].starts_with("| question  Which one?: Nobody can be asked"), "{ended:?}");
    assert_eq!(lines[1..], ["| read  a.txt"], "{ended:?}");
    machine.finish().await;
}
