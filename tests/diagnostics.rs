//! Errors that language servers find behind changes of files, and servers that say nothing, nonsense or too much.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    lsp::{ask, logged, toys, until_logged},
    support::{agent::Agent, llm::Reply, scratch::Scratch},
};

const OF_FILE: &str = "\n\nLSP errors detected in this file, please fix:\n\
    <diagnostics file=\"a.toy\">\nERROR [2:3] line 1 is wrong\n</diagnostics>";
const OF_OTHERS: &str = "\n\nLSP errors detected in other files:\n\
    <diagnostics file=\"other.toy\">\nERROR [1:1] needs the file beside it\n</diagnostics>";

/// Returns an agent with a server that is ready, and a session that knows `a.toy`.
async fn warm(mode: &str) -> (Agent, String) {
    let agent = toys(mode).start().await;
    let session = agent.new_session().await;
    agent.told(&session, "read", json!({"filePath": "a.toy"})).await;
    agent.told(&session, "lsp", ask("documentSymbol")).await;
    (agent, session)
}

fn edit(from: &str, to: &str) -> Value {
    json!({"filePath": "a.toy", "oldString": from, "newString": to})
}

#[tokio::test]
async fn every_tool_that_changes_files_tells_their_errors_and_then_those_of_others() {
    for mode in ["strict", "pull"] {
        let (agent, session) = warm(mode).await;
        let edits = json!({"filePath": "a.toy", "edits": [
            {"oldString": "all wrong", "newString": "fine"}, {"oldString": "fine", "newString": "quite wrong"},
        ]});
        for (tool, input, done) in [
            ("edit", edit("toy two", "all wrong"), "Edit applied successfully."),
            ("multiedit", edits, "Edit applied successfully."),
            (
                "write",
                json!({"filePath": "a.toy", "content": "toy one\nwrong\n"}),
                "Wrote file successfully.",
            ),
        ] {
            let told = agent.told(&session, tool, input).await;
            assert_eq!(told, format!("{done}{OF_FILE}{OF_OTHERS}"), "{mode} {tool}");
        }
        assert_eq!(agent.told(&session, "edit", edit("wrong", "right")).await, "Edit applied successfully.");
        if mode == "pull" {
            let pulled = logged(&agent, "pulled");
            assert_eq!((pulled.len(), &pulled[0]["identifier"]), (4, &json!("toy")));
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_patch_tells_the_errors_of_each_of_its_files_and_of_others() {
    let models = json!({"mock": {"models": {"gpt-5": {"name": "GPT"}}}});
    let agent = toys("strict").config(json!({"model": "mock/gpt-5", "provider": models})).start().await;
    let session = agent.new_session().await;
    agent.told(&session, "lsp", ask("documentSymbol")).await;
    let patch =
        "*** Begin Patch\n*** Add File: b.toy\n+fine\n+wrong\n*** Add File: c.toy\n+wrong\n*** End Patch";
    let told = agent.told(&session, "apply_patch", json!({"patchText": patch})).await;
    let expected = format!(
        "Success. Updated the following files:\nA b.toy\nA c.toy\
         \n\nLSP errors detected in b.toy, please fix:\n\
         <diagnostics file=\"b.toy\">\nERROR [2:3] line 1 is wrong\n</diagnostics>\
         \n\nLSP errors detected in c.toy, please fix:\n\
         <diagnostics file=\"c.toy\">\nERROR [1:3] line 0 is wrong\n</diagnostics>{OF_OTHERS}"
    );
    assert_eq!(told, expected);
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_does_not_answer_for_a_file_holds_changes_up_once_and_for_seconds_only() {
    let (agent, session) = warm("sulky").await;
    for (from, to, limit) in [("toy one", "toy 1", 10), ("toy 1", "toy one", 3)] {
        let watch = agent.stopwatch();
        assert_eq!(agent.told(&session, "edit", edit(from, to)).await, "Edit applied successfully.");
        assert!(watch.elapsed() < Duration::from_secs(limit), "{:?}", watch.elapsed());
    }
    agent.finish().await;
}

fn since(name: &str) -> String {
    format!(
        "LSP errors found since in {name}, please fix:\n\
         <diagnostics file=\"{name}\">\nERROR [1:3] line 0 is wrong\n</diagnostics>"
    )
}

fn write(name: &str, text: &str) -> Value {
    json!({"filePath": name, "content": text})
}

/// Has the model write a file whose errors come late, and returns what it was told until the end of the turn.
async fn told_late(agent: &Agent, session: &str) -> String {
    let open = "echo > gate; until grep -q published lsp.log; do sleep 0.02; done";
    agent.llm.reply(Reply::call("call_1", "write", write("b.toy", "all wrong\n")));
    agent.llm.reply(Reply::call("call_2", "bash", json!({"command": open, "description": "Open"})));
    for n in 3..20 {
        let wait = json!({"command": format!("sleep 0.1; : {n}"), "description": "Wait"});
        agent.llm.reply(Reply::call(&format!("call_{n}"), "bash", wait));
    }
    agent.llm.reply(Reply::text("done"));
    agent.prompt(session, "go").await;
    let told = agent.llm.last_request().body.to_string();
    assert!(told.contains("Wrote file successfully.\""), "nothing is said in time: {told}");
    told
}

#[tokio::test]
async fn a_hook_that_fails_behind_a_call_takes_no_late_errors_with_it() {
    let plugin = Scratch::new();
    let fails = "if (input.tool === 'bash') throw new Error('on purpose')";
    let hooks = format!("({{ 'tool.execute.after': async (input) => {{ {fails} }} }})");
    plugin.write("fails.js", format!("export const Fails = async () => {hooks}"));
    let file = format!("file://{}", plugin.path("fails.js"));
    let agent = toys("gated").config(json!({"plugin": [file]})).start().await;
    let session = agent.new_session().await;
    let told = told_late(&agent, &session).await;
    let said = json!(since("b.toy")).to_string();
    assert_eq!(told.matches(said.trim_matches('"')).count(), 1, "{told}");
    assert!(told.contains("on purpose"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn what_a_server_says_late_is_told_once_with_the_next_result_or_prompt() {
    let agent = toys("gated").start().await;
    let session = agent.new_session().await;
    // With the result of a later call of the same turn.
    let told = told_late(&agent, &session).await;
    let said = json!(since("b.toy")).to_string();
    assert_eq!(told.matches(said.trim_matches('"')).count(), 1, "{told}");

    // With the next prompt, where the turn is over.
    assert_eq!(
        agent.told(&session, "write", write("c.toy", "all wrong\n")).await,
        "Wrote file successfully."
    );
    // A change in the meantime is not told of.
    assert_eq!(
        agent.told(&session, "write", write("d.toy", "all wrong\n")).await,
        "Wrote file successfully."
    );
    agent.scratch.write("d.toy", "all well\n");
    agent.scratch.write("lsp.log", "");
    std::fs::write(agent.scratch.path("gate"), "\n").unwrap();
    until_logged(&agent, "published").await;
    let said = json!(since("c.toy")).to_string();
    let mut n_prompts = 0;
    while !agent.llm.last_request().body.to_string().contains(said.trim_matches('"')) {
        n_prompts += 1;
        assert!(n_prompts < 500, "{}", agent.llm.last_request().body);
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "and now?").await;
    }
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "and then?").await;
    let told = agent.llm.last_request().body.to_string();
    assert_eq!(told.matches(said.trim_matches('"')).count(), 1, "{told}");
    assert!(!told.contains("found since in d.toy"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn a_first_change_is_answered_by_a_server_that_starts_or_the_next_result_is() {
    let agent = toys("strict").start().await;
    let session = agent.new_session().await;
    let wrong = json!({"filePath": "new.toy", "content": "toy one\nwrong\n"});
    let of_file = OF_FILE.replace("a.toy", "new.toy");
    let told = agent.told(&session, "write", wrong).await;
    // A busy machine may start it too late; then the errors come with a later answer.
    if told != format!("Wrote file successfully.{of_file}{OF_OTHERS}") {
        assert_eq!(told, "Wrote file successfully.");
        agent.told(&session, "lsp", ask("documentSymbol")).await;
        agent.told(&session, "read", json!({"filePath": "a.toy"})).await;
        assert!(agent.llm.last_request().body.to_string().contains("LSP errors found since in new.toy"));
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_is_starting_or_broken_holds_a_change_up_for_a_moment_only() {
    for mode in ["deaf", "broken"] {
        let agent = toys(mode).start().await;
        let session = agent.new_session().await;
        agent.told(&session, "read", json!({"filePath": "a.toy"})).await;
        until_logged(&agent, "started").await;
        let watch = agent.stopwatch();
        assert_eq!(
            agent.told(&session, "edit", edit("toy one", "toy 1")).await,
            "Edit applied successfully."
        );
        assert!(watch.elapsed() < Duration::from_secs(4), "{mode}: {:?}", watch.elapsed());
        agent.finish().await;
    }
}

#[tokio::test]
async fn of_diagnostics_that_are_nonsense_or_many_the_model_is_told_what_is_readable_and_only_some() {
    let (agent, session) = warm("babbles").await;
    let told = agent.told(&session, "edit", edit("toy one", "toy 1")).await;
    let (head, rest) = told.split_once("<diagnostics file=\"a.toy\">\n").unwrap();
    assert_eq!(head, "Edit applied successfully.\n\nLSP errors detected in this file, please fix:\n");
    let (own, others) = rest.split_once("</diagnostics>").unwrap();
    let lines: Vec<&str> = own.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[10]), (11, "ERROR [1:1] ", "... and 90 more"));
    assert_eq!(others.matches("<diagnostics file=").count(), 5);
    assert!(told.len() < 40_000, "{}", told.len());
    agent.finish().await;
}

#[tokio::test]
async fn an_edit_that_a_server_proposes_is_refused_wherever_it_is() {
    let agent = toys("meddles").start().await;
    let outside = agent.scratch.root().canonicalize().unwrap().join("home/theirs.toy");
    std::fs::write(&outside, "theirs").unwrap();
    let session = agent.new_session().await;
    agent.told(&session, "read", json!({"filePath": "a.toy"})).await;
    agent.told(&session, "lsp", ask("documentSymbol")).await;
    assert_eq!(agent.told(&session, "edit", edit("toy one", "toy 1")).await, "Edit applied successfully.");
    let refused = until_logged(&agent, "refused").await;
    assert_eq!(refused["code"], -32601, "{refused}");
    assert_eq!(agent.scratch.read("a.toy"), "toy 1\ntoy two\n");
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "theirs");
    agent.finish().await;
}

#[tokio::test]
async fn a_mention_of_lines_or_of_a_symbol_gives_the_model_these_lines() {
    let agent = toys("strict").start().await;
    agent.scratch.write("b.toy", "zero\none\nfn wanted\n  body\nfn last\nend\n");
    let session = agent.new_session().await;
    for (n, (part, shown, hidden)) in [
        ("#L2-3", "3: fn wanted", "body"),
        ("?start=1&end=2", "2: one", "wanted"),
        ("?symbol=wanted", "4:   body", "last"),
        ("?symbol=scope%3A%3Alast#L5:6", "6: end", "body"),
        ("?start=5&end=5", "6: end", "body"),
        ("?symbol=unknown", "6: end", "nothing is hidden"),
    ]
    .into_iter()
    .enumerate()
    {
        let words = format!("look {n}");
        agent.llm.reply(Reply::text("seen"));
        let uri = format!("file://{}{part}", agent.scratch.path("b.toy"));
        let blocks = json!([
            {"type": "text", "text": words}, {"type": "resource_link", "uri": uri, "name": "b.toy"},
        ]);
        agent.request("session/prompt", json!({"sessionId": session, "prompt": blocks})).await.unwrap();
        let messages = agent.llm.last_request().body["messages"].to_string();
        let last = &messages[messages.find(&words).unwrap()..];
        assert!(last.contains(shown) && !last.contains(hidden), "{part}: {last}");
    }
    agent.finish().await;
}
