//! Each tool through the whole loop: the updates for the client and the result for the model.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::{Reply, Wire},
    message::{Turn, content_text, diff, tag},
};

/// Returns the same after the model has read a file.
async fn change(agent: &Agent, file: &str, name: &str, arguments: Value) -> (Turn, String) {
    agent.llm.reply(Reply::call("call_0", "read", json!({"filePath": agent.scratch.path(file)})));
    agent.run(name, arguments).await
}

#[tokio::test]
async fn read_shows_numbered_lines_to_the_model_and_plain_text_to_the_user() {
    for wire in [Wire::OpenAi, Wire::Responses, Wire::Anthropic, Wire::Google] {
        let agent = Agent::builder().wire(wire).start().await;
        let path = agent.scratch.path("a.txt");
        let (turn, told) = agent.run("read", json!({"filePath": path})).await;
        let expected = format!(
            "<path>{path}</path>\n<type>file</type>\n<content>\n1: one\n2: two\n3: three\n\n(End of file - total 3 lines)\n</content>"
        );
        assert_eq!(told, expected);
        let call = turn.tool("call_1");
        assert_eq!(
            (&call["kind"], &call["status"], &call["title"]),
            (&json!("read"), &json!("completed"), &json!("read a.txt"))
        );
        assert_eq!(call["locations"][0]["path"], path.as_str());
        assert_eq!(call["rawInput"]["filePath"], path.as_str());
        assert_eq!(content_text(&call), "one\ntwo\nthree");
        assert_eq!(call["rawOutput"]["output"], expected.as_str());
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_read_from_a_line_points_at_that_line() {
    let agent = Agent::start().await;
    let arguments = json!({"filePath": agent.scratch.path("a.txt"), "offset": 2, "limit": 1});
    let (turn, told) = agent.run("read", arguments).await;
    assert!(told.contains("\n2: two\n") && !told.contains("3: three"), "{told}");
    assert!(told.contains("(Showing lines 2-2 of 3. Use offset=3 to continue.)"), "{told}");
    assert_eq!(turn.tool("call_1")["locations"][0]["line"], 2);
    agent.finish().await;
}

#[tokio::test]
async fn a_missing_file_is_a_failed_call_and_the_loop_goes_on() {
    let agent = Agent::start().await;
    let path = agent.scratch.path("lost.txt");
    let (turn, told) = agent.run("read", json!({"filePath": path})).await;
    assert!(told.contains(&format!("File not found: {path}")), "{told}");
    let call = turn.tool("call_1");
    assert_eq!(call["status"], "failed");
    assert!(content_text(&call).contains("File not found"));
    agent.finish().await;
}

#[tokio::test]
async fn an_edit_shows_the_whole_file_before_and_after() {
    let agent = Agent::start().await;
    let path = agent.scratch.path("a.txt");
    let (turn, told) =
        change(&agent, "a.txt", "edit", json!({"filePath": path, "oldString": "two", "newString": "zwei"}))
            .await;
    assert_eq!(told, "Edit applied successfully.");
    assert_eq!(agent.scratch.read("a.txt"), "one\nzwei\nthree\n");
    let call = turn.tool("call_1");
    assert_eq!(
        (&call["kind"], &call["status"], &call["title"]),
        (&json!("edit"), &json!("completed"), &json!("edit a.txt"))
    );
    let shown = diff(&call);
    assert_eq!(
        (&shown["path"], &shown["oldText"], &shown["newText"]),
        (&json!(path), &json!("one\ntwo\nthree\n"), &json!("one\nzwei\nthree\n"))
    );
    agent.finish().await;
}

#[tokio::test]
async fn an_edit_forgives_indentation_and_refuses_ambiguity() {
    let agent = Agent::start().await;
    agent.scratch.write("indent.txt", "fn x() {\n    body();\n}\n");
    let path = agent.scratch.path("indent.txt");
    let arguments = json!({"filePath": path, "oldString": "body();  ", "newString": "tail();"});
    change(&agent, "indent.txt", "edit", arguments).await;
    assert!(agent.scratch.read("indent.txt").contains("tail();"));
    agent.scratch.write("twice.txt", "x\nx\n");
    let path = agent.scratch.path("twice.txt");
    let (turn, told) =
        change(&agent, "twice.txt", "edit", json!({"filePath": path, "oldString": "x", "newString": "y"}))
            .await;
    assert!(told.contains("Found multiple matches for oldString."), "{told}");
    assert_eq!(turn.tool("call_1")["status"], "failed");
    let path = agent.scratch.path("twice.txt");
    let arguments = json!({"filePath": path, "oldString": "x", "newString": "y", "replaceAll": true});
    change(&agent, "twice.txt", "edit", arguments).await;
    assert_eq!(agent.scratch.read("twice.txt"), "y\ny\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_written_file_is_a_diff_from_nothing() {
    let agent = Agent::start().await;
    let path = agent.scratch.path("deep/new.txt");
    let (turn, told) = agent.run("write", json!({"filePath": path, "content": "fresh\n"})).await;
    assert_eq!(told, "Wrote file successfully.");
    assert_eq!(agent.scratch.read("deep/new.txt"), "fresh\n");
    let shown = diff(&turn.tool("call_1"));
    assert!(shown["oldText"].is_null(), "{shown}");
    assert_eq!(shown["newText"], "fresh\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_call_with_more_arguments_than_an_answer_may_have_is_not_run() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let content = "0123456 ".repeat((17 << 20) / 8);
    agent.llm.reply(Reply::call("call_1", "write", json!({"content": content, "filePath": "large.txt"})));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.stop, "max_tokens");
    assert!(turn.text().starts_with("The answer was cut off: it is larger than 16 MiB"), "{}", turn.text());
    assert_eq!(turn.tool("call_1")["status"], "failed");
    assert!(!agent.scratch.exists("large.txt"));
    agent.finish().await;
}

#[tokio::test]
async fn only_a_file_that_was_read_is_changed() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let path = agent.scratch.path("a.txt");
    let edit = |old: &str, new: &str| json!({"filePath": path, "oldString": old, "newString": new});
    let step = async |id: &str, name: &str, arguments: Value| {
        agent.llm.reply(Reply::call(id, name, arguments));
        agent.llm.reply(Reply::text("done"));
        agent.prompt(&session, "go").await;
        agent.llm.last_request().tool_result(id)
    };
    let told = step("call_1", "edit", edit("two", "zwei")).await;
    assert!(told.starts_with(&format!("You must read the file {path} before overwriting it.")), "{told}");
    step("call_2", "read", json!({"filePath": path})).await;
    assert_eq!(step("call_3", "edit", edit("two", "zwei")).await, "Edit applied successfully.");
    assert_eq!(step("call_4", "edit", edit("zwei", "deux")).await, "Edit applied successfully.");
    agent.scratch.write("a.txt", "someone else's\n");
    let told = step("call_5", "edit", edit("else", "new")).await;
    assert!(told.starts_with(&format!("File {path} has been modified since it was last read.")), "{told}");
    assert_eq!(agent.scratch.read("a.txt"), "someone else's\n");
    agent.finish().await;
}

#[tokio::test]
async fn several_edits_of_a_file_are_one_change() {
    let agent = Agent::start().await;
    let path = agent.scratch.path("a.txt");
    let edits = json!([{"oldString": "one", "newString": "eins"}, {"oldString": "two", "newString": "zwei"}]);
    let (turn, told) = change(&agent, "a.txt", "multiedit", json!({"filePath": path, "edits": edits})).await;
    assert_eq!(told, "Edit applied successfully.");
    assert_eq!(diff(&turn.tool("call_1"))["newText"], "eins\nzwei\nthree\n");
    assert_eq!(agent.scratch.read("a.txt"), "eins\nzwei\nthree\n");
    agent.finish().await;
}

#[tokio::test]
async fn a_model_that_writes_patches_is_given_patches() {
    let config = json!({"model": "mock/gpt-5", "provider": {"mock": {"models": {"gpt-5": {"name": "GPT"}}}}});
    let agent = Agent::start_with(config).await;
    let patch =
        "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+zwei\n*** Add File: b.txt\n+new\n*** End Patch";
    let (turn, told) = change(&agent, "a.txt", "apply_patch", json!({"patchText": patch})).await;
    assert_eq!(told, "Success. Updated the following files:\nM a.txt\nA b.txt");
    assert_eq!(agent.scratch.read("a.txt"), "one\nzwei\nthree\n");
    assert_eq!(agent.scratch.read("b.txt"), "new\n");
    let call = turn.tool("call_1");
    assert_eq!((&call["kind"], &call["title"]), (&json!("edit"), &json!("update a.txt, add b.txt")));
    let shown = call["content"].as_array().unwrap().iter().filter(|item| item["type"] == "diff");
    let shown: Vec<&Value> = shown.map(|item| &item["newText"]).collect();
    assert_eq!(shown, ["one\nzwei\nthree\n", "new\n"]);
    assert_eq!(call["rawOutput"]["metadata"]["files"][0].get("after"), None);
    let (_, told) =
        agent.run("edit", json!({"filePath": "a.txt", "oldString": "one", "newString": "eins"})).await;
    assert!(told.contains("unavailable tool 'edit'"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn a_question_about_a_deletion_says_so() {
    let config = json!({
        "model": "mock/gpt-5", "provider": {"mock": {"models": {"gpt-5": {"name": "GPT"}}}},
        "permission": {"edit": "ask"},
    });
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_0", "read", json!({"filePath": agent.scratch.path("a.txt")})));
    let patch = "*** Begin Patch\n*** Delete File: a.txt\n*** End Patch";
    agent.llm.reply(Reply::call("call_1", "apply_patch", json!({"patchText": patch})));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    let asked = &ask.params["toolCall"];
    assert_eq!((&asked["title"], &asked["kind"]), (&json!("delete a.txt"), &json!("delete")));
    agent.choose(&ask, "Allow once");
    let call = prompt.turn().await.tool("call_1");
    assert_eq!((&call["title"], &call["kind"]), (&json!("delete a.txt"), &json!("delete")));
    assert!(!agent.scratch.exists("a.txt"));
    agent.finish().await;
}

#[tokio::test]
async fn a_command_is_titled_by_itself_and_its_output_told_to_both() {
    let agent = Agent::start().await;
    let command = "echo out; echo err >&2; exit 3";
    let (turn, told) = agent.run("bash", json!({"command": command})).await;
    assert!(told.contains("out\n") && told.contains("err"), "{told}");
    let call = turn.tool("call_1");
    let title = format!("{command} (exit code 3)");
    assert_eq!((&call["kind"], &call["title"]), (&json!("execute"), &json!(title)));
    assert_eq!(call["status"], "failed", "as a person judges it; the model was told of its output");
    assert_eq!(call["rawOutput"]["metadata"]["exit"], 3);
    assert_eq!(call["rawInput"]["command"], command);
    assert!(content_text(&call).contains("out"));
    agent.finish().await;
}

#[tokio::test]
async fn a_command_runs_in_the_session_directory_without_input() {
    let agent = Agent::start().await;
    let (_, told) = agent.run("bash", json!({"command": "pwd; cat"})).await;
    assert_eq!(told.trim(), agent.scratch.cwd());
    agent.finish().await;
}

#[tokio::test]
async fn a_command_past_its_timeout_is_ended_with_its_children() {
    let agent = Agent::start().await;
    let arguments = json!({"command": "echo begun; sleep 600 & sleep 600", "timeout": 2000});
    let (_, told) = agent.run("bash", arguments).await;
    assert!(told.contains("begun"), "{told}");
    assert!(told.contains("shell tool terminated command after exceeding timeout 2000 ms"), "{told}");
    // The daemon may have started a program of its own meanwhile.
    let left = crate::support::process::describe(&agent.descendants());
    assert!(!left.contains("sleep"), "{left}");
    agent.finish().await;
}

#[tokio::test]
async fn a_long_output_is_cut_and_kept_in_a_file() {
    let agent = Agent::start().await;
    let (turn, told) = agent.run("bash", json!({"command": "seq 1 100000"})).await;
    assert!(told.len() < 60_000, "{} bytes went to the model", told.len());
    assert!(told.contains("100000"), "the end of a command's output is what counts");
    let path = turn.tool("call_1")["rawOutput"]["metadata"]["outputPath"].as_str().unwrap().to_owned();
    assert!(told.contains(&path));
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 100_000);
    agent.finish().await;
}

#[tokio::test]
async fn glob_finds_files_by_name() {
    let agent = Agent::start().await;
    agent.scratch.write("src/x.rs", "");
    agent.scratch.write("target/y.rs", "");
    agent.scratch.write(".gitignore", "target\n");
    let (turn, told) = agent.run("glob", json!({"pattern": "**/*.rs"})).await;
    assert_eq!(told.trim(), agent.scratch.path("src/x.rs"));
    assert_eq!(turn.tool("call_1")["kind"], "search");
    let (_, told) = agent.run("glob", json!({"pattern": "*.nothing"})).await;
    assert_eq!(told, "No files found");
    agent.finish().await;
}

#[tokio::test]
async fn grep_finds_lines() {
    let agent = Agent::start().await;
    let (turn, told) = agent.run("grep", json!({"pattern": "t[wh]", "include": "*.txt"})).await;
    let path = agent.scratch.path("a.txt");
    assert!(told.starts_with("Found 2 matches"), "{told}");
    assert!(told.contains(&format!("{path}:\n  Line 2: two\n  Line 3: three")), "{told}");
    assert_eq!(turn.tool("call_1")["kind"], "search");
    let (_, told) = agent.run("grep", json!({"pattern": "absent"})).await;
    assert_eq!(told, "No files found");
    agent.finish().await;
}

#[tokio::test]
async fn list_shows_the_directory() {
    let agent = Agent::start().await;
    agent.scratch.write("src/x.rs", "");
    let (turn, told) = agent.run("list", json!({"path": agent.scratch.cwd()})).await;
    assert!(told.contains("a.txt") && told.contains("src/") && told.contains("x.rs"), "{told}");
    assert_eq!(turn.tool("call_1")["status"], "completed");
    agent.finish().await;
}

#[tokio::test]
async fn todos_become_the_plan() {
    let agent = Agent::start().await;
    let todos = json!([
        {"content": "first", "status": "completed", "priority": "high"},
        {"content": "second", "status": "in_progress", "priority": "medium"},
        {"content": "third", "status": "pending", "priority": "low"},
    ]);
    let (turn, told) = agent.run("todowrite", json!({"todos": todos})).await;
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), todos);
    let plan = turn.all("plan");
    let entries: Vec<(&Value, &Value, &Value)> = plan.last().unwrap()["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (&entry["content"], &entry["status"], &entry["priority"]))
        .collect();
    assert_eq!(
        entries,
        [
            (&json!("first"), &json!("completed"), &json!("high")),
            (&json!("second"), &json!("in_progress"), &json!("medium")),
            (&json!("third"), &json!("pending"), &json!("low")),
        ]
    );
    assert_eq!(turn.tool("call_1")["title"], "update the plan");
    agent.finish().await;
}

#[tokio::test]
async fn an_unknown_tool_is_told_to_the_model() {
    let agent = Agent::start().await;
    let (turn, told) = agent.run("teleport", json!({"to": "the moon"})).await;
    assert!(told.starts_with("The arguments provided to the tool are invalid:"), "{told}");
    assert!(told.contains("teleport") && told.contains("bash"), "{told}");
    assert_eq!(turn.tool("call_1")["kind"], json!("other"));
    agent.finish().await;
}

#[tokio::test]
async fn a_tool_named_in_capitals_is_found() {
    let agent = Agent::start().await;
    let (_, told) = agent.run("Read", json!({"filePath": agent.scratch.path("a.txt")})).await;
    assert!(told.contains("2: two"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn arguments_that_are_no_json_are_told_to_the_model() {
    for arguments in ["{\"filePath\": ", "nonsense", ""] {
        let agent = Agent::start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::raw_call("call_1", "read", arguments));
        agent.llm.reply(Reply::text("done"));
        let turn = agent.prompt(&session, "go").await;
        assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "done"));
        let told = agent.llm.last_request().tool_result("call_1");
        assert!(told.contains("invalid"), "{arguments}: {told}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn arguments_of_the_wrong_shape_are_told_to_the_model() {
    let agent = Agent::start().await;
    let (turn, told) = agent.run("read", json!({"path": 3})).await;
    assert!(told.contains("filePath"), "{told}");
    assert_ne!(turn.tool("call_1")["status"], "in_progress");
    agent.finish().await;
}

#[tokio::test]
async fn calls_of_one_step_run_at_the_same_time() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    // Each command waits for the other's file, so that they end only if both run.
    let meet = |mine: &str, other: &str| json!({"command": format!("touch {mine}; until [ -e {other} ]; do sleep 0.01; done; echo met"), "timeout": 15000});
    agent.llm.reply(Reply::call("call_1", "bash", meet("one", "two")).and_call(
        "call_2",
        "bash",
        meet("two", "one"),
    ));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    for id in ["call_1", "call_2"] {
        assert_eq!(turn.tool(id)["status"], "completed");
        assert_eq!(agent.llm.last_request().tool_result(id).trim(), "met");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_call_goes_from_pending_over_in_progress_to_its_end() {
    let agent = Agent::start().await;
    let (turn, _) = agent.run("bash", json!({"command": "true"})).await;
    let mut states: Vec<&str> = turn
        .updates
        .iter()
        .filter(|update| tag(update).starts_with("tool_call"))
        .filter_map(|update| update["status"].as_str())
        .collect();
    states.dedup();
    assert_eq!(states, ["pending", "in_progress", "completed"]);
    agent.finish().await;
}

#[tokio::test]
async fn output_is_shown_while_the_command_runs() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call(
        "call_1",
        "bash",
        json!({"command": "echo early; until [ -e go ]; do sleep 0.01; done"}),
    ));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    agent
        .wait_for("the first line of output", |message| {
            message["params"]["update"]["toolCallId"] == "call_1"
                && content_text(&message["params"]["update"]).contains("early")
        })
        .await;
    agent.scratch.write("go", "");
    assert_eq!(prompt.turn().await.stop, "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn titles_are_verbs_with_what_a_person_knows() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.scratch.write("src/calc.py", "def test_add(): pass\n");
    let file = agent.scratch.path("src/calc.py");
    let todos = json!({"todos": [{"content": "a", "status": "pending", "priority": "low"}]});
    for (tool, input, title) in [
        ("read", json!({"filePath": file}), "read src/calc.py"),
        ("grep", json!({"pattern": "def test_"}), "search \"def test_\""),
        ("glob", json!({"pattern": "*.py"}), "find \"*.py\""),
        ("list", json!({"path": agent.scratch.work}), "list ."),
        ("write", json!({"filePath": "new.txt", "content": "x"}), "write new.txt"),
        ("edit", json!({"filePath": file, "oldString": "pass", "newString": "..."}), "edit src/calc.py"),
        ("todowrite", todos, "update the plan"),
        ("todoread", json!({}), "read the plan"),
        ("bash", json!({"command": "true", "description": "x"}), "true"),
    ] {
        let id = format!("call_{title}");
        let (turn, _) = agent.call(&session, &id, tool, input).await;
        assert_eq!(turn.tool(&id)["title"], title, "{tool}");
        assert_eq!(turn.tool(&id)["status"], "completed", "{tool}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_file_is_found_by_a_name_that_looks_the_same() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.scratch.write("shot at 9\u{202f}am.txt", "here");
    for (tool, input) in [
        ("read", json!({"filePath": "shot at 9 am.txt"})),
        ("edit", json!({"filePath": "shot at 9 am.txt", "oldString": "here", "newString": "there"})),
        ("write", json!({"filePath": "it's new.txt", "content": "new"})),
    ] {
        let (turn, _) = agent.call(&session, tool, tool, input).await;
        assert_eq!(turn.tool(tool)["status"], "completed", "{tool}: {}", turn.tool(tool));
    }
    assert_eq!(std::fs::read_to_string(agent.scratch.path("shot at 9\u{202f}am.txt")).unwrap(), "there");
    // Of two neither is taken, and a new file is never another one.
    agent.scratch.write("shot at 9\u{a0}am.txt", "other");
    let told = agent.told(&session, "read", json!({"filePath": "shot at 9 am.txt"})).await;
    assert!(told.contains("9\\u{202f}am.txt") && told.contains("9\\u{a0}am.txt"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn a_call_is_pending_until_it_is_allowed_and_failed_where_its_command_fails() {
    let agent = Agent::asking("bash").await;
    let session = agent.new_session().await;
    let input = json!({"command": "echo x; exit 3", "description": "fail"});
    agent.llm.reply(Reply::call("call_1", "bash", input));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    let statuses = || {
        let updates = agent.updates(&session).into_iter().filter(|it| it["toolCallId"] == "call_1");
        let mut statuses: Vec<Value> = updates.map(|it| it["status"].clone()).collect();
        statuses.retain(|status| !status.is_null());
        statuses.dedup();
        statuses
    };
    assert_eq!(statuses(), [json!("pending")]);
    agent.answer(&ask, Answer::AllowOnce);
    let turn = prompt.turn().await;
    assert_eq!(statuses(), [json!("pending"), json!("in_progress"), json!("failed")]);
    assert_eq!(turn.tool("call_1")["title"], "echo x; exit 3 (exit code 3)");
    agent.finish().await;
}
