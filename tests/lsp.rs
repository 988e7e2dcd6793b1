//! The tool `lsp` and the servers behind it: healthy, slow, silent, broken and misconfigured.

use std::{os::unix::fs::PermissionsExt, path::Path, time::Duration};

use serde_json::{Value, json};

use crate::{
    reload::{read_again, watching},
    support::{
        agent::{Agent, Answer, Builder, CANCEL_LIMIT, DEADLINE},
        llm::Reply,
        message::content_text,
        scratch::Scratch,
    },
};

const FLAG: &str = "OPENCODE_EXPERIMENTAL_LSP_TOOL";
const LEFT_ALONE: &str = "\nIt is not started again until the configuration changes.";

/// Configures `tests/lsp/server.py`, which is written against the protocol's text, without a library.
pub fn server(mode: &str, extensions: &[&str]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lsp/server.py");
    json!({"command": ["python3", script, mode], "extensions": extensions, "env": {"LSP_LOG": "lsp.log"}})
}

/// Returns an agent with one server for its files `*.toy`.
pub fn toys(mode: &str) -> Builder {
    let scratch = Scratch::new();
    scratch.write("a.toy", "toy one\ntoy two\n");
    Agent::builder().scratch(&scratch).env(FLAG, "1").config(json!({"lsp": {"toy": server(mode, &[".toy"])}}))
}

/// Returns the same, configured by a file that a test may change.
async fn started_from_file(mode: &str) -> Agent {
    let scratch = Scratch::new();
    scratch.write("a.toy", "toy one\ntoy two\n");
    configure(&scratch, server(mode, &[".toy"]));
    watching(Agent::builder().scratch(&scratch).env(FLAG, "1")).await
}

fn configure(scratch: &Scratch, toy: Value) {
    scratch.write("opencode.json", json!({"lsp": {"toy": toy}}).to_string());
}

pub fn ask(operation: &str) -> Value {
    json!({"operation": operation, "filePath": "a.toy", "line": 2, "character": 5})
}

/// Returns the values that the server logged under a key: the messages or requests that it got.
pub fn logged(agent: &Agent, key: &str) -> Vec<Value> {
    let text = if agent.scratch.exists("lsp.log") { agent.scratch.read("lsp.log") } else { String::new() };
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|it| it.get(key).cloned()).collect()
}

/// Waits for a line of the server's log.
pub async fn until_logged(agent: &Agent, key: &str) -> Value {
    let waiting = async {
        loop {
            if let Some(found) = logged(agent, key).pop() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(DEADLINE, waiting).await;
    waited.unwrap_or_else(|_| panic!("the server never logs `{key}`; stderr:\n{}", agent.stderr()))
}

#[tokio::test]
async fn each_operation_asks_its_question_at_the_place() {
    let agent = toys("good").start().await;
    let uri = format!("file://{}", agent.scratch.path("a.toy"));
    let at = |what: &str| {
        let range = json!({"start": {"line": 1, "character": 4}, "end": {"line": 1, "character": 5}});
        json!({"uri": uri, "range": range, "what": what})
    };
    let mut item = at("scripted");
    item.as_object_mut().unwrap().extend([("name".into(), json!("f")), ("kind".into(), json!(12))]);
    let symbol = |name: String| json!({"name": name, "kind": 12});
    let narrow = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let session = agent.new_session().await;
    for (operation, expected) in [
        ("goToDefinition", json!([at("textDocument/definition")])),
        ("findReferences", json!([at("{'includeDeclaration': True}"), at("second")])),
        ("hover", json!([{"contents": {"kind": "plaintext", "value": "toy one\ntoy two\n"}}])),
        (
            "documentSymbol",
            json!([{"name": "scripted", "kind": 12, "range": narrow, "selectionRange": narrow}]),
        ),
        ("goToImplementation", json!([at("textDocument/implementation")])),
        ("prepareCallHierarchy", json!([item, item])),
        ("incomingCalls", json!([{"from": item, "fromRanges": []}])),
        ("workspaceSymbol", (0..10).map(|idx| symbol(format!("Toy{}", 2 * idx))).collect()),
    ] {
        let mut input = ask(operation);
        input["query"] = json!("Toy");
        let told = agent.told(&session, "lsp", input).await;
        let found: Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&found, told), (&expected, serde_json::to_string_pretty(&found).unwrap()), "{operation}");
    }
    // The server knows no such question.
    assert_eq!(agent.told(&session, "lsp", ask("outgoingCalls")).await, "No results found for outgoingCalls");
    agent.scratch.write("a.toy", " ");
    assert_eq!(
        agent.told(&session, "lsp", ask("goToDefinition")).await,
        "No results found for goToDefinition"
    );
    assert_eq!(logged(&agent, "started").len(), 1, "one server for all of them");
    agent.finish().await;
}

#[tokio::test]
async fn the_client_sees_the_question_its_place_and_the_results() {
    let agent = toys("good").start().await;
    let (turn, told) = agent.run("lsp", ask("goToDefinition")).await;
    let call = turn.tool("call_1");
    assert_eq!((&call["status"], &call["title"]), (&json!("completed"), &json!("goToDefinition a.toy:2:5")));
    assert_eq!(call["locations"], json!([{"path": agent.scratch.path("a.toy"), "line": 2}]));
    assert_eq!(content_text(&call), told);
    let shown: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(call["rawOutput"]["metadata"]["result"], shown);
    agent.finish().await;
}

#[tokio::test]
async fn a_server_begins_with_its_root_and_options_and_is_answered() {
    let mut toy = server("good", &[".toy"]);
    toy["initialization"] = json!({"deep": {"key": [1, 2]}});
    let agent = toys("good").config(json!({"lsp": {"toy": toy}})).start().await;
    agent.run("lsp", ask("hover")).await;
    let begun = &logged(&agent, "initialize")[0];
    assert_eq!(begun["rootUri"], format!("file://{}", agent.scratch.cwd()));
    assert_eq!(begun["initializationOptions"], json!({"deep": {"key": [1, 2]}}));
    assert_eq!(begun["processId"], agent.pid());
    let answers = logged(&agent, "answer");
    let folder = json!([{"name": "workspace", "uri": begun["rootUri"]}]);
    assert_eq!(answers[..3], [json!([[1, 2]]), Value::Null, folder]);
    assert_eq!(answers[3]["code"], -32601);
    agent.finish().await;
}

#[tokio::test]
async fn a_server_always_knows_the_newest_text() {
    let agent = toys("good").start().await;
    let session = agent.new_session().await;
    agent.told(&session, "lsp", ask("hover")).await;
    agent.told(&session, "lsp", ask("hover")).await;
    assert_eq!(logged(&agent, "open"), ["toy one\ntoy two\n"]);
    assert_eq!(logged(&agent, "change"), Vec::<Value>::new(), "nothing is sent twice");
    let edit = json!({"filePath": "a.toy", "oldString": "two", "newString": "2"});
    agent.told(&session, "read", json!({"filePath": "a.toy"})).await;
    agent.told(&session, "edit", edit).await;
    let told = agent.told(&session, "lsp", ask("hover")).await;
    assert!(told.contains("toy one\\ntoy 2\\n"), "{told}");
    assert_eq!(logged(&agent, "change"), ["toy one\ntoy 2\n"]);
    // An open file that changes behind our back is sent again, also when another file is asked about.
    agent.scratch.write("a.toy", "changed by somebody else");
    agent.scratch.write("b.toy", "b");
    agent
        .told(&session, "lsp", json!({"operation": "hover", "filePath": "b.toy", "line": 1, "character": 1}))
        .await;
    assert_eq!(logged(&agent, "change")[1], "changed by somebody else");
    assert_eq!(logged(&agent, "open"), ["toy one\ntoy two\n", "b"]);
    agent.finish().await;
}

#[tokio::test]
async fn every_server_of_an_extension_is_asked() {
    let second = {
        let mut second = server("good", &[".toy", ".other"]);
        second["command"].as_array_mut().unwrap().push(json!("second"));
        second
    };
    let broken = server("broken", &[".toy"]);
    let lsp =
        json!({"broken": broken, "one": server("good", &[".toy"]), "toy": {"disabled": true}, "two": second});
    let agent = toys("good").config(json!({ "lsp": lsp })).start().await;
    let session = agent.new_session().await;
    let told = agent.told(&session, "lsp", ask("documentSymbol")).await;
    let names: Vec<Value> =
        serde_json::from_str::<Vec<Value>>(&told).unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["scripted", "second"], "one that is broken takes nothing from the others");
    // Symbols of the workspace are asked of every server that runs.
    agent.scratch.write("b.other", "b");
    let symbols = json!({"operation": "workspaceSymbol", "filePath": "b.other", "line": 1, "character": 1});
    let told = agent.told(&session, "lsp", symbols).await;
    assert_eq!(serde_json::from_str::<Vec<Value>>(&told).unwrap().len(), 20);
    agent.finish().await;
}

#[tokio::test]
async fn the_user_is_asked_once_each_time_or_for_ever() {
    let agent = toys("good").config(json!({"permission": {"lsp": "ask"}})).start().await;
    let session = agent.new_session().await;
    let call = |id: &str| Reply::call(id, "lsp", ask("hover"));
    agent.llm.reply(call("call_1"));
    let prompt = agent.send_prompt(&session, "go");
    let asked = agent.permission().await;
    assert_eq!(asked.call()["title"], format!("hover {}:2:5", agent.scratch.path("a.toy")));
    let input =
        json!({"operation": "hover", "filePath": agent.scratch.path("a.toy"), "line": 2, "character": 5});
    assert_eq!(asked.call()["rawInput"], input);
    agent.answer(&asked, Answer::RejectOnce);
    let turn = prompt.turn().await;
    assert_eq!(turn.tool("call_1")["status"], "failed");
    assert_eq!(
        logged(&agent, "started"),
        Vec::<Value>::new(),
        "nothing is started before the user has agreed"
    );
    agent.llm.reply(call("call_2"));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    agent.answer(&agent.permission().await, Answer::AllowAlways);
    prompt.turn().await;
    assert!(agent.told(&session, "lsp", ask("documentSymbol")).await.contains("scripted"));
    assert_eq!(agent.n_asked(), 2);
    agent.finish().await;
}

#[tokio::test]
async fn a_denied_or_not_enabled_tool_is_not_offered() {
    let denied = toys("good").config(json!({"permission": {"lsp": "deny"}})).start().await;
    let off = toys("good").env(FLAG, "0").start().await;
    let all = toys("good").env(FLAG, "").env("OPENCODE_EXPERIMENTAL", "true").start().await;
    for (agent, expected) in [(denied, false), (off, false), (all, true)] {
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        assert_eq!(agent.llm.last_request().tools().contains(&"lsp".to_owned()), expected);
        agent.finish().await;
    }
}

#[tokio::test]
async fn what_may_not_be_read_is_not_given_to_a_server() {
    let agent =
        toys("good").config(json!({"permission": {"read": {"*": "allow", "*.toy": "deny"}}})).start().await;
    let (turn, told) = agent.run("lsp", ask("hover")).await;
    assert_eq!(turn.tool("call_1")["status"], "failed");
    assert!(told.contains("prevents"), "{told}");
    assert_eq!(logged(&agent, "started"), Vec::<Value>::new());
    agent.finish().await;
}

#[tokio::test]
async fn what_may_not_be_read_is_left_out_of_the_results() {
    let agent = toys("good").start().await;
    agent.scratch.write("secret.env", "toy");
    let session = agent.new_session().await;
    let told = agent.told(&session, "lsp", ask("findReferences")).await;
    let (results, note) = told.split_once("\n\n(").unwrap();
    assert_eq!(serde_json::from_str::<Vec<Value>>(results).unwrap().len(), 2);
    assert!(!results.contains("secret.env"), "{results}");
    let secret = agent.scratch.path("secret.env");
    let expected = format!(
        "Results left out, because reading needs permission: {secret}. Use the read tool to ask for it.)"
    );
    assert_eq!(note, expected);
    let told = agent.told(&session, "lsp", ask("hover")).await;
    assert_eq!(told, format!("No results found for hover\n\n({expected}"), "it quotes a definition");
    agent.finish().await;
}

#[tokio::test]
async fn the_user_sees_what_symbols_are_asked_for() {
    let agent = toys("good").config(json!({"permission": {"lsp": "ask"}})).start().await;
    let session = agent.new_session().await;
    let mut input = ask("workspaceSymbol");
    input["query"] = json!("Toy");
    agent.llm.reply(Reply::call("call_1", "lsp", input));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let asked = agent.permission().await;
    let title = format!("workspaceSymbol Toy (by the server of {})", agent.scratch.path("a.toy"));
    assert_eq!(asked.call()["title"], title);
    agent.answer(&asked, Answer::AllowOnce);
    prompt.turn().await;
    agent.finish().await;
}

#[tokio::test]
async fn an_edit_through_a_link_is_told_by_the_real_name() {
    let agent = toys("good").start().await;
    std::os::unix::fs::symlink("a.toy", agent.scratch.path("link.toy")).unwrap();
    let session = agent.new_session().await;
    agent.told(&session, "lsp", ask("hover")).await;
    agent.told(&session, "read", json!({"filePath": "link.toy"})).await;
    let edit = json!({"filePath": "link.toy", "oldString": "two", "newString": "2"});
    agent.told(&session, "edit", edit).await;
    agent.told(&session, "lsp", ask("hover")).await;
    let changes = logged(&agent, "workspace/didChangeWatchedFiles");
    let uri = format!("file://{}", agent.scratch.path("a.toy"));
    assert!(changes.len() >= 2 && changes.iter().all(|it| it["changes"][0]["uri"] == uri), "{changes:?}");
    agent.finish().await;
}

#[tokio::test]
async fn a_file_outside_the_project_is_asked_for_and_then_found() {
    let agent = toys("good").start().await;
    let outside = agent.scratch.root().canonicalize().unwrap().join("home/far.toy");
    std::fs::write(&outside, "far away").unwrap();
    let session = agent.new_session().await;
    let input = json!({"operation": "hover", "filePath": outside, "line": 1, "character": 1});
    agent.llm.reply(Reply::call("call_1", "lsp", input));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let asked = agent.permission().await;
    assert!(asked.call()["title"].as_str().unwrap().contains("outside the project"), "{}", asked.params);
    agent.answer(&asked, Answer::AllowOnce);
    prompt.turn().await;
    assert!(agent.llm.last_request().tool_result("call_1").contains("far away"));
    assert_eq!(logged(&agent, "initialize")[0]["rootUri"], format!("file://{}", agent.scratch.cwd()));
    agent.finish().await;
}

#[tokio::test]
async fn a_call_to_a_silent_server_is_cancelled_at_once() {
    for mode in ["mute", "deaf"] {
        let agent = toys(mode).start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::call("call_1", "lsp", ask("hover")));
        let prompt = agent.send_prompt(&session, "go");
        until_logged(&agent, if mode == "mute" { "asked" } else { "started" }).await;
        let watch = agent.stopwatch();
        agent.cancel(&session);
        let turn = prompt.turn().await;
        let took = watch.elapsed();
        assert_eq!((turn.stop.as_str(), &turn.tool("call_1")["status"]), ("cancelled", &json!("failed")));
        assert!(took < CANCEL_LIMIT, "{took:?}");
        if mode == "mute" {
            until_logged(&agent, "$/cancelRequest").await;
        }
        agent.finish().await;
    }
}

#[tokio::test]
async fn a_server_that_is_still_reading_the_project_is_waited_for() {
    let agent = toys("busy").start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "lsp", ask("hover")));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    until_logged(&agent, "open").await;
    // It knows nothing before.
    agent.scratch.write("gate", "open");
    prompt.turn().await;
    let told = agent.llm.last_request().tool_result("call_1");
    assert!(told.contains("toy one"), "{told}");
    let hovers = logged(&agent, "asked").into_iter().filter(|it| it == "textDocument/hover").count();
    assert_eq!(hovers, 2, "what it was too busy for is asked again");
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_dies_is_named_with_its_last_words_and_started_again_up_to_three_times() {
    let agent = toys("dies").start().await;
    let session = agent.new_session().await;
    for n_started in [1, 2, 3, 3] {
        let mut input = ask("hover");
        // Not the same call again and again, which is asked about.
        input["line"] = json!(n_started + logged(&agent, "asked").len());
        let told = agent.told(&session, "lsp", input).await;
        let expected = "The language server toy stopped (exit status: 9): out of memory";
        let is_last = logged(&agent, "started").len() == 3;
        assert_eq!(told, format!("{expected}{}", if is_last { LEFT_ALONE } else { "" }));
        assert_eq!(logged(&agent, "started").len(), n_started);
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_never_gets_ready_is_started_once_until_it_is_configured_otherwise() {
    let agent = started_from_file("broken").await;
    let session = agent.new_session().await;
    for operation in ["hover", "documentSymbol"] {
        let told = agent.told(&session, "lsp", ask(operation)).await;
        let expected = "The language server toy stopped (exit status: 3): no licence was found";
        // Where servers of a project are held, that is said between.
        assert!(told.starts_with(expected) && told.ends_with(LEFT_ALONE), "{told}");
    }
    assert_eq!(logged(&agent, "started").len(), 1);
    configure(&agent.scratch, server("good", &[".toy"]));
    let question = agent.permission().await;
    agent.answer(&question, Answer::AllowOnce);
    read_again(&agent).await;
    assert!(agent.told(&session, "lsp", ask("goToDefinition")).await.contains("a.toy"));
    agent.finish().await;
}

#[tokio::test]
async fn a_program_that_is_installed_meanwhile_is_started() {
    let agent = toys("good")
        .config(json!({"lsp": {"late": {"command": ["./late"], "extensions": [".late"]}}}))
        .start()
        .await;
    let session = agent.new_session().await;
    agent.scratch.write("a.late", "late");
    let input =
        |operation: &str| json!({"operation": operation, "filePath": "a.late", "line": 1, "character": 1});
    let told = agent.told(&session, "lsp", input("hover")).await;
    assert_eq!(told, "The language server late could not be started: install ./late or correct the command");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lsp/server.py");
    agent.scratch.write("late", format!("#!/bin/sh\nexec python3 '{}' good\n", script.display()));
    std::fs::set_permissions(agent.scratch.path("late"), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(agent.told(&session, "lsp", input("goToDefinition")).await.contains("a.late"));
    agent.finish().await;
}

#[tokio::test]
async fn garbage_on_its_output_ends_the_server_and_not_the_daemon() {
    let agent = toys("garbage").start().await;
    let session = agent.new_session().await;
    let told = agent.told(&session, "lsp", ask("hover")).await;
    let expected = "The language server toy wrote something to its standard output that is not its protocol: \
                    \"Debug: asked\\n\"";
    assert_eq!(told, expected);
    agent.childless(DEADLINE).await;
    agent.finish().await;
}

#[tokio::test]
async fn what_is_missing_is_named_with_the_way_out() {
    let scratch = Scratch::new();
    let lsp = json!({"ghost": {"command": ["/no/such/server"], "extensions": [".ghost"]}});
    let config = json!({ "lsp": lsp });
    let agent = Agent::builder()
        .scratch(&scratch)
        .env(FLAG, "1")
        .env("PATH", "/usr/bin:/bin")
        .config(config)
        .start()
        .await;
    let session = agent.new_session().await;
    for (file, expected) in [
        (
            "a.ghost",
            "The language server ghost could not be started: install /no/such/server or correct the command",
        ),
        ("a.zig", "Install one of them: zls (server `zls`)"),
        ("a.unheard", "None of the servers takes such files; `lsp` in opencode.json can name one"),
    ] {
        agent.scratch.write(file, "x");
        let input = json!({"operation": "hover", "filePath": file, "line": 1, "character": 1});
        let told = agent.told(&session, "lsp", input).await;
        assert!(told.contains(expected), "{told}");
        let is_none = told.starts_with("No LSP server available for this file type.\n");
        assert_eq!(is_none, file != "a.ghost", "{told}");
    }
    agent.finish().await;
    let agent = Agent::builder().env(FLAG, "1").start().await;
    let (_, told) =
        agent.run("lsp", json!({"operation": "hover", "filePath": "a.txt", "line": 1, "character": 1})).await;
    assert!(told.starts_with("No LSP server available for this file type.\n"), "{told}");
    assert!(told.contains("`\"lsp\": true` in opencode.json"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn servers_end_with_their_last_session_and_with_the_daemon() {
    let agent = toys("good").start().await;
    let session = agent.new_session().await;
    agent.told(&session, "lsp", ask("hover")).await;
    assert!(!agent.descendants().is_empty());
    agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    agent.childless(DEADLINE).await;
    assert_eq!(logged(&agent, "exit"), [json!({})], "it was asked to");
    // One that does not want to is killed, which `finish` looks for.
    agent.finish().await;
    let agent = toys("stubborn").start().await;
    let session = agent.new_session().await;
    agent.told(&session, "lsp", ask("hover")).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_server_whose_configuration_goes_is_ended() {
    let agent = started_from_file("good").await;
    let session = agent.new_session().await;
    agent.told(&session, "lsp", ask("hover")).await;
    configure(&agent.scratch, json!({"disabled": true}));
    agent.childless(DEADLINE).await;
    let told = agent.told(&session, "lsp", ask("hover")).await;
    assert!(told.starts_with("No LSP server available"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_is_configured_otherwise_serves_until_the_one_in_its_place_is_asked() {
    let agent = started_from_file("good").await;
    let session = agent.new_session().await;
    agent.told(&session, "lsp", ask("documentSymbol")).await;
    let before = agent.descendants();
    let mut other = server("good", &[".toy"]);
    other["command"].as_array_mut().unwrap().push(json!("renamed"));
    configure(&agent.scratch, other);
    let question = agent.permission().await;
    agent.answer(&question, Answer::AllowOnce);
    read_again(&agent).await;
    assert_eq!(agent.descendants(), before, "nothing has asked for the other one");
    let told = agent.told(&session, "lsp", ask("documentSymbol")).await;
    assert!(told.contains("renamed"), "{told}");
    agent.finish().await;
}

#[tokio::test]
async fn errors_behind_a_change_are_told_by_a_server_that_runs() {
    let agent = toys("strict").start().await;
    let session = agent.new_session().await;
    let write = |content: &str| json!({"filePath": "a.toy", "content": content});
    agent.told(&session, "read", json!({"filePath": "a.toy"})).await;
    // Nothing is wrong with it, whether the server has started or not.
    assert_eq!(agent.told(&session, "write", write("odd\n")).await, "Wrote file successfully.");
    agent.told(&session, "lsp", ask("documentSymbol")).await;
    let (turn, told) = agent.call(&session, "call_1", "write", write("fine\nall wrong\nodd\n")).await;
    let expected = "Wrote file successfully.\n\n\
        LSP errors detected in this file, please fix:\n\
        <diagnostics file=\"a.toy\">\nERROR [2:3] line 1 is wrong\n</diagnostics>\n\n\
        LSP errors detected in other files:\n\
        <diagnostics file=\"other.toy\">\nERROR [1:1] needs the file beside it\n</diagnostics>";
    assert_eq!(told, expected);
    let metadata = &turn.tool("call_1")["rawOutput"]["metadata"]["diagnostics"];
    assert_eq!(metadata[agent.scratch.path("a.toy")].as_array().map(Vec::len), Some(2), "{metadata}");
    let edit = json!({"filePath": "a.toy", "oldString": "all wrong", "newString": "fine"});
    assert_eq!(agent.told(&session, "edit", edit).await, "Edit applied successfully.");
    agent.finish().await;
}

#[tokio::test]
async fn errors_are_those_of_the_newest_text_also_of_a_slow_server_that_repeats_nothing() {
    let agent = toys("late").start().await;
    let session = agent.new_session().await;
    agent.told(&session, "read", json!({"filePath": "a.toy"})).await;
    agent.told(&session, "lsp", ask("documentSymbol")).await;
    let write =
        async |text: &str| agent.told(&session, "write", json!({"filePath": "a.toy", "content": text})).await;
    for round in 0..3 {
        // A busy machine may make it later than it was; then it is waited for longer.
        let mut told = String::new();
        for attempt in 0..3 {
            // On another line, because the server repeats nothing.
            told = write(&format!("{}{round} wrong", "\n".repeat(attempt))).await;
            if told.contains("is wrong") {
                break;
            }
        }
        assert!(told.contains("is wrong"), "{told}");
        for text in ["fine", "as fine"] {
            let told = write(&format!("{round} {text}")).await;
            assert!(!told.contains("is wrong"), "{text}: {told}");
        }
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_server_that_publishes_nothing_holds_a_change_up_for_a_moment_only() {
    let agent = toys("good").start().await;
    let session = agent.new_session().await;
    agent.told(&session, "read", json!({"filePath": "a.toy"})).await;
    agent.told(&session, "lsp", ask("documentSymbol")).await;
    let edit = json!({"filePath": "a.toy", "oldString": "toy one", "newString": "toy three"});
    assert_eq!(agent.told(&session, "edit", edit).await, "Edit applied successfully.");
    agent.finish().await;
}
