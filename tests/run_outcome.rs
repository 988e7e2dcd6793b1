//! `windlass run` in a pipe: the parts of the answer that are printed, the outcome for programs, and limits of a run.

use serde_json::{Value, json};

use crate::{
    cli::Machine,
    support::llm::{Gate, Reply},
};

/// A machine where a command is let through, another is denied, and a request costs a dollar.
async fn machine() -> Machine {
    let mut machine =
        Machine::new().await.with("permission", json!({"bash": {"*": "allow", "rm *": "deny"}}));
    machine.config["provider"]["mock"]["models"]["mock"]["cost"] = json!({"input": 100_000, "output": 0});
    machine
}

fn command(id: &str, command: &str) -> Reply {
    Reply::text("Let me see.").and_call(id, "bash", json!({"command": command}))
}

#[tokio::test]
async fn only_the_last_message_is_printed_where_that_is_wanted() {
    let machine = machine().await;
    machine.llm.reply(command("call_1", "true"));
    machine.llm.reply(Reply::text("All is well."));
    let ended = machine.run(&["run", "--output", "final", "look"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "All is well.\n"), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn the_outcome_is_one_object_with_the_answer_the_costs_the_files_and_the_refusals() {
    let machine = machine().await;
    machine.llm.reply(command("call_1", "echo new > made.txt"));
    machine.llm.reply(command("call_2", "rm made.txt"));
    machine.llm.reply(Reply::text("It stays."));
    let ended = machine.run(&["run", "--output", "json", "do it"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines = ended.lines();
    let [outcome] = lines.as_slice() else { panic!("{ended:?}") };
    assert_eq!((&outcome["answer"], &outcome["reason"]), (&json!("It stays."), &json!("end_turn")));
    assert_eq!(outcome["refusals"][0]["input"]["command"], "rm made.txt");
    assert_eq!(
        (&outcome["files"][0]["file"], &outcome["files"][0]["additions"]),
        (&json!("made.txt"), &json!(1)),
        "{outcome}"
    );
    assert!(outcome["cost"].as_f64().unwrap() > 0.0 && outcome["tokens"]["input"].as_u64().unwrap() > 0);
    let sessions = machine.sessions().await;
    assert_eq!(outcome["sessionID"], sessions[0]["id"]);
    // The stream for programs ends with it, too.
    machine.llm.reply(Reply::text("Hello."));
    let ended = machine.run(&["run", "--format", "json", "hello"]).await;
    let last = ended.lines().pop().unwrap();
    assert_eq!((&last["type"], &last["answer"]), (&json!("result"), &json!("Hello.")));
    machine.finish().await;
}

#[tokio::test]
async fn a_run_ends_with_its_time_its_steps_or_its_money_and_says_which() {
    let machine = machine().await;
    let outcome = async |options: &[&str]| {
        let arguments: Vec<&str> =
            ["run", "--output", "json"].into_iter().chain(options.iter().copied()).collect();
        let ended = machine.run(&arguments).await;
        (ended.code, ended.lines().pop().unwrap()["reason"].clone())
    };
    machine.llm.reply(Reply::hang(&Gate::new()));
    assert_eq!(outcome(&["--timeout", "0.3s", "go"]).await, (Some(124), json!("timeout")));
    machine.llm.reply(command("call_1", "true"));
    machine.llm.reply(command("call_2", "true"));
    assert_eq!(outcome(&["--max-steps", "2", "go"]).await, (Some(0), json!("max_steps")));
    machine.llm.reply(command("call_1", "true"));
    assert_eq!(outcome(&["--max-cost", "0.01", "go"]).await, (Some(0), json!("max_cost")));
    for (bad, reason) in [
        (["--timeout", "soon"], "seconds"),
        (["--max-steps", "0"], "max-steps"),
        (["--max-cost", "-1"], "amount"),
        (["--output", "some"], "final, stream, json"),
    ] {
        let ended = machine.run(&["run", bad[0], bad[1], "go"]).await;
        assert!(ended.code == Some(2) && ended.stderr.contains(reason), "{ended:?}");
    }
    machine.finish().await;
}

#[tokio::test]
async fn nothing_is_kept_of_an_ephemeral_run() {
    let machine = machine().await;
    machine.llm.reply(command("call_1", "echo hello"));
    machine.llm.reply(Reply::text("Done."));
    let ended = machine.run(&["run", "--ephemeral", "look"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(machine.sessions().await, Vec::<Value>::new());
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let ours = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("windlass-run-");
    assert_eq!(left.filter(ours).count(), 0);
    machine.finish().await;
}

#[tokio::test]
async fn a_prompt_stands_without_the_commands_name_as_in_other_agents() {
    let machine = machine().await;
    machine.llm.reply(Reply::text("Hello."));
    let ended = machine.pipe(&["-p", "what is it?"], "a log").await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "Hello.\n"), "{ended:?}");
    let asked = machine.llm.last_request().last_user();
    assert!(asked.contains("what is it?") && asked.contains("a log"), "{asked}");
    machine.finish().await;
}

#[tokio::test]
async fn standard_input_is_a_file_where_it_is_named_as_one() {
    let machine = machine().await;
    machine.llm.reply(Reply::text("I see."));
    let ended = machine.pipe(&["run", "read it", "--file", "-"], "line one\n").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let sent = machine.llm.last_request().body["messages"].to_string();
    assert!(sent.contains("standard input") && sent.contains("line one"), "{sent}");
    assert_eq!(machine.llm.last_request().last_user().matches("line one").count(), 1);
    machine.finish().await;
}

#[tokio::test]
async fn a_session_is_named_by_a_piece_of_its_id_or_as_the_latest() {
    let machine = machine().await;
    machine.llm.reply(Reply::text("First."));
    machine.run(&["run", "one"]).await;
    let id = machine.sessions().await[0]["id"].as_str().unwrap().to_owned();
    for named in [&id[..12], "latest"] {
        machine.llm.reply(Reply::text("More."));
        let ended = machine.run(&["run", "--session", named, "two"]).await;
        assert!(ended.code == Some(0) && ended.stderr.contains(&id), "{named}: {ended:?}");
    }
    let shown = machine.run(&["session", "show", "latest"]).await;
    assert!(shown.stdout.contains("First."), "{shown:?}");
    let unknown = machine.run(&["run", "--session", "ses_nowhere", "two"]).await;
    assert!(unknown.stderr.contains("There is no session `ses_nowhere`"), "{unknown:?}");
    machine.finish().await;
}

#[tokio::test]
async fn the_latest_session_is_the_projects_and_not_the_machines() {
    let machine = machine().await;
    machine.llm.reply(Reply::text("Here."));
    machine.run(&["run", "one"]).await;
    let elsewhere = machine.scratch.home.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    machine.llm.reply(Reply::text("There."));
    let ended = machine.run(&["run", "--dir", elsewhere.to_str().unwrap(), "two"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "There.\n"), "{ended:?}");
    let shown = machine.run(&["session", "show", "latest"]).await;
    assert!(shown.stdout.contains("Here.") && !shown.stdout.contains("There."), "{shown:?}");
    machine.finish().await;
}

#[tokio::test]
async fn words_of_other_agents_get_a_tip_and_help_is_a_command() {
    let machine = machine().await;
    for (word, tip) in
        [("login", "windlass auth login"), ("exec", "windlass run PROMPT"), ("resume", "--continue")]
    {
        let ended = machine.run(&[word]).await;
        assert!(ended.code == Some(2) && ended.stderr.contains(tip), "{word}: {ended:?}");
    }
    let helped = machine.run(&["help", "run"]).await;
    assert!(helped.code == Some(0) && helped.stdout.contains("--max-cost"), "{helped:?}");
    machine.finish().await;
}

#[tokio::test]
async fn commands_of_a_run_get_no_key_of_windlass_unless_the_settings_keep_it() {
    let look = json!({"command": "echo \"key:$ACME_API_KEY.\""});
    for (kept, expected) in [(json!([]), "key:."), (json!(["ACME_API_KEY"]), "key:secret-of-acme.")] {
        let mut machine = machine().await.with("windlass", json!({"sandbox": {"environment": kept}}));
        machine.config["provider"]["mock"]["env"] = json!(["ACME_API_KEY"]);
        machine.llm.reply(Reply::call("call_1", "bash", look.clone()));
        machine.llm.reply(Reply::text("done"));
        let mut command = machine.command(&["run", "look"]);
        let ended = crate::cli::ended(command.env("ACME_API_KEY", "secret-of-acme").spawn().unwrap()).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(machine.llm.last_request().tool_result("call_1").contains(expected), "{expected}");
        machine.finish().await;
    }
}
