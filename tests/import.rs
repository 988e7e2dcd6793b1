//! Sessions go out and come in: our own export, OpenCode's, and OpenCode's store.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    cli::Machine,
    support::{
        agent::Agent,
        llm::{Reply, task},
        message::{settled, text},
    },
};

/// Makes an agent and a session with calls, a list of tasks and a subagent.
async fn conversation() -> (Agent, String) {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let todos = json!({"todos": [{"content": "secret-task", "status": "pending", "priority": "high"}]});
    agent.llm.reply_to("secret-prompt", Reply::call("call_1", "todowrite", todos));
    agent.llm.reply_to(
        "secret-prompt",
        Reply::reasoning("secret-thought").and_call("call_2", "task", task("CHILD", "general")),
    );
    agent.llm.reply_to("CHILD", Reply::call("call_1", "bash", json!({"command": "echo secret-output"})));
    agent.llm.reply_to("CHILD", Reply::text("secret-found"));
    agent.llm.reply_to("secret-prompt", Reply::text("secret-answer"));
    agent.prompt(&session, "secret-prompt").await;
    (agent, session)
}

fn machine_of(agent: &Agent) -> Machine {
    let config = crate::support::llm::provider_config(&agent.llm, crate::support::llm::Wire::OpenAi);
    Machine { scratch: agent.scratch.clone(), llm: agent.llm.clone(), config }
}

#[tokio::test]
async fn what_is_exported_and_imported_is_loaded_as_before() {
    let (agent, session) = conversation().await;
    let machine = machine_of(&agent);
    let agent = agent.restarted().await;
    let before = settled(&agent.load(&session).await);
    agent.finish().await;
    let file = machine.scratch.root().join("session.json");
    let path = file.to_str().unwrap();
    let exported = machine.run(&["session", "export", &session, "-o", path]).await;
    assert_eq!(exported.code, Some(0), "{exported:?}");
    assert_eq!(machine.run(&["session", "delete", &session]).await.code, Some(0));
    let imported = machine.run(&["import", path]).await;
    assert!(imported.stdout.starts_with(&format!("Imported {session}, ")), "{imported:?}");
    let again = machine.run(&["export", &session]).await;
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(read(&again.stdout), without_powers(read(&fs::read_to_string(&file).unwrap())));
    // Where the ids are taken, the copy gets others.
    let copied = machine.pipe(&["import", "-"], fs::read(&file).unwrap()).await;
    let copy = copied.stdout.split([' ', ',']).nth(1).unwrap().to_owned();
    assert!(copy.starts_with("ses_") && copy != session, "{copied:?}");
    let agent = Agent::builder().scratch(&machine.scratch).start().await;
    assert_eq!(settled(&agent.load(&session).await), before);
    let shown = agent.load(&copy).await;
    assert_eq!(text(&shown, "agent_message_chunk"), text(&before, "agent_message_chunk"));
    assert_eq!(settled(&shown).len(), before.len());
    agent.llm.reply(Reply::text("more"));
    assert_eq!(agent.prompt(&copy, "go on").await.text(), "more");
    agent.finish().await;
    assert_eq!(machine.run(&["db", "check"]).await.code, Some(0));
}

/// Takes out the things that an import leaves behind: git trees, and rules that do not deny.
fn without_powers(mut file: Value) -> Value {
    match &mut file {
        Value::Object(fields) => {
            fields.remove("snapshot");
            if let Some(Value::Array(rules)) = fields.get_mut("permission") {
                rules.retain(|rule| rule["action"] == "deny");
            }
            fields.values_mut().for_each(|value| *value = without_powers(value.take()));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| *value = without_powers(value.take())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    file
}

#[tokio::test]
async fn a_sanitized_export_holds_nothing_that_was_said() {
    let (agent, session) = conversation().await;
    let machine = machine_of(&agent);
    agent.finish().await;
    let exported = machine.run(&["export", "--sanitize"]).await;
    assert_eq!(exported.code, Some(0), "{exported:?}");
    let home = machine.scratch.root().to_str().unwrap();
    for secret in ["secret", "CHILD", home] {
        assert!(!exported.stdout.contains(secret), "{secret}: {}", exported.stdout);
    }
    let file: Value = serde_json::from_str(&exported.stdout).unwrap();
    assert_eq!(
        (file["info"]["id"].as_str(), file["children"].as_array().map(Vec::len)),
        (Some(session.as_str()), Some(1))
    );
    let imported = machine.pipe(&["import", "-"], &exported.stdout).await;
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let refused = machine.run(&["session", "export", &session, "--sanitize", "-f", "md"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let mut structured = small();
    structured["messages"][0]["info"]["format"] =
        json!({"type": "json_schema", "schema": {"properties": {"secret-field": {}}}});
    structured["messages"][1]["info"]["structured"] = json!({"secret-field": "secret-value"});
    assert_eq!(machine.pipe(&["import", "-"], structured.to_string()).await.code, Some(0));
    assert!(machine.run(&["export", "ses_small"]).await.stdout.contains("secret-value"));
    let exported = machine.run(&["export", "ses_small", "--sanitize"]).await;
    assert!(exported.code == Some(0) && !exported.stdout.contains("secret"), "{exported:?}");
}

/// Returns a session of two messages.
pub fn small() -> Value {
    json!({
        "info": {"id": "ses_small", "title": "Small", "directory": "/", "time": {"created": 1, "updated": 2}},
        "messages": [
            {"info": {"id": "msg_1", "role": "user", "time": {"created": 1}},
             "parts": [{"id": "prt_1", "type": "text", "text": "hello"}, {"id": "prt_2", "type": "new-kind"}]},
            {"info": {"id": "msg_2", "role": "assistant", "modelID": "mock", "providerID": "mock", "time": {"created": 2}},
             "parts": [{"id": "prt_3", "type": "text", "text": "good day"}]},
        ],
    })
}

#[tokio::test]
async fn a_hostile_file_is_refused_and_changes_nothing() {
    let machine = Machine::new().await;
    let changed = |change: fn(&mut Value)| {
        let mut file = small();
        change(&mut file);
        file.to_string()
    };
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (file, reason) in [
        ("no JSON".to_owned(), "is no JSON"),
        ("[]".to_owned(), "no JSON object"),
        ("{}".to_owned(), "no object `info`"),
        (deep, "recursion limit"),
        (changed(|it| it["messages"] = json!({})), "`messages` is no list"),
        (changed(|it| it["messages"][1] = json!(7)), "`messages[1]` has no object `info`"),
        (changed(|it| it["messages"][0]["parts"] = json!("x")), "`messages[0]` has no list `parts`"),
        (changed(|it| it["messages"][0]["parts"][0]["text"] = json!(7)), "`messages[0].parts[0]`"),
        (changed(|it| it["info"]["id"] = json!("ses_../../x")), "`ses_../../x` is not a valid id"),
        (changed(|it| it["messages"][0]["info"]["id"] = json!("../msg_1")), "is not a valid id"),
        (changed(|it| it["messages"][1]["info"]["id"] = json!("msg_1")), "the id msg_1 occurs twice"),
        (changed(|it| it["messages"][1]["parts"][0]["id"] = json!("prt_1")), "the id prt_1 occurs twice"),
        (changed(|it| it["info"]["time"]["created"] = json!("now")), "cannot be understood"),
        (changed(|it| it["children"] = json!([small()])), "the id ses_small occurs twice"),
    ] {
        let refused = machine.pipe(&["import", "-"], &file).await;
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{reason}");
        assert!(
            refused.stderr.contains(reason) && refused.stderr.lines().count() == 1,
            "{reason}: {refused:?}"
        );
    }
    // A gigabyte that takes no room.
    let large = machine.scratch.root().join("large.json");
    fs::File::create(&large).unwrap().set_len(1 << 30).unwrap();
    let refused = machine.run(&["import", large.to_str().unwrap()]).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("larger than 256 MB"), "{refused:?}");
    let list = machine.run(&["session", "list", "--all", "--format", "json"]).await;
    assert_eq!(list.stdout, "[]\n");
    let imported = machine.pipe(&["import", "-"], small().to_string()).await;
    let told = "Imported ses_small, Small (2 messages). 1 part that this version cannot read was left out.\n";
    assert_eq!(imported.stdout, told, "{imported:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_hostile_session_lifts_no_rules_and_changes_no_files() {
    let machine = Machine::new().await;
    let (kept, written) = (machine.scratch.path("kept.txt"), machine.scratch.root().join("written"));
    fs::write(&kept, "mine").unwrap();
    let mut file = small();
    file["info"]["directory"] = machine.scratch.cwd().into();
    file["info"]["permission"] = json!([{"permission": "*", "pattern": "*", "action": "allow"}]);
    let output = format!("--output={}", written.display());
    file["messages"][1]["parts"] = json!([
        {"id": "prt_3", "type": "step-start", "snapshot": output},
        {"id": "prt_4", "type": "text", "text": "good day"},
        // The empty tree, which git has in every repository: its undo would remove the file.
        {"id": "prt_5", "type": "patch", "hash": "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "files": [kept]},
        {"id": "prt_6", "type": "step-finish", "reason": "stop", "snapshot": "HEAD", "cost": 0,
         "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}},
    ]);
    assert_eq!(machine.pipe(&["import", "-"], file.to_string()).await.code, Some(0));
    let rules = json!({"permission": {"bash": "deny"}});
    let agent = Agent::builder().scratch(&machine.scratch).config(rules).start().await;
    agent.load("ses_small").await;
    let command = json!({"command": "touch forbidden.txt", "description": "touch"});
    agent.llm.reply(Reply::call("call_1", "bash", command));
    agent.llm.reply(Reply::text("refused"));
    assert_eq!(agent.prompt("ses_small", "go on").await.text(), "refused");
    assert!(!agent.scratch.exists("forbidden.txt"));
    agent.prompt("ses_small", "/undo 2").await;
    assert_eq!(fs::read_to_string(&kept).unwrap(), "mine");
    assert!(!written.exists());
    agent.finish().await;
}

#[tokio::test]
async fn ids_from_before_the_digits_began_anew_stay_before_what_comes_later() {
    let machine = Machine::new().await;
    let mut file = small();
    file["messages"][1]["info"]["parentID"] = "msg_1".into();
    file["messages"][0]["info"]["model"] = json!({"providerID": "mock", "modelID": "mock"});
    file["messages"].as_array_mut().unwrap().reverse();
    let file = file
        .to_string()
        .replace("\"msg_1\"", "\"msg_fffffffffffea\"")
        .replace("\"msg_2\"", "\"msg_ffffffffffff0\"")
        .replace("\"prt_3\"", "\"prt_ffffffffffff0\"");
    assert_eq!(machine.pipe(&["import", "-"], file).await.code, Some(0));
    let agent = Agent::builder().scratch(&machine.scratch).start().await;
    agent.load("ses_small").await;
    agent.llm.reply(Reply::text("last"));
    agent.prompt("ses_small", "ahoy-there").await;
    let agent = agent.restarted().await;
    let shown = agent.load("ses_small").await;
    let said: Vec<&str> = shown.iter().filter_map(|it| it["content"]["text"].as_str()).collect();
    assert_eq!(said, ["hello", "good day", "ahoy-there", "last"]);
    agent.prompt("ses_small", "/undo").await;
    agent.llm.reply(Reply::text("other"));
    agent.prompt("ses_small", "again").await;
    let request = agent.llm.last_request().body.to_string();
    assert!(request.contains("good day") && !request.contains("ahoy-there"), "{request}");
    agent.finish().await;
}

#[tokio::test]
async fn ids_from_a_clock_that_was_ahead_stay_before_what_comes_later() {
    let machine = Machine::new().await;
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let ahead = ((now + 3_600_000) * 4096) & ((1 << 48) - 1);
    let file = small()
        .to_string()
        .replace("\"msg_1\"", &format!("\"msg_{ahead:012x}a\""))
        .replace("\"msg_2\"", &format!("\"msg_{ahead:012x}b\""));
    assert_eq!(machine.pipe(&["import", "-"], file).await.code, Some(0));
    let agent = Agent::builder().scratch(&machine.scratch).start().await;
    agent.load("ses_small").await;
    agent.llm.reply(Reply::text("last"));
    agent.prompt("ses_small", "go on").await;
    let agent = agent.restarted().await;
    let shown = agent.load("ses_small").await;
    assert_eq!(text(&shown, "agent_message_chunk"), "good daylast");
    assert_eq!(text(&shown, "user_message_chunk"), "hellogo on");
    agent.finish().await;
}

/// Writes a database as OpenCode 1.18 has it.
fn opencode_database(path: &Path, directory: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, parent_id TEXT, slug TEXT NOT NULL, \
             directory TEXT NOT NULL, title TEXT NOT NULL, version TEXT NOT NULL, summary_additions INTEGER, \
             cost REAL NOT NULL DEFAULT 0, tokens_input INTEGER NOT NULL DEFAULT 0, model TEXT, \
             time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, time_archived INTEGER);
             CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, time_created INTEGER NOT NULL, \
             time_updated INTEGER NOT NULL, data TEXT NOT NULL);
             CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL, \
             time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, data TEXT NOT NULL);
             CREATE TABLE todo (session_id TEXT NOT NULL, content TEXT NOT NULL, status TEXT NOT NULL, \
             priority TEXT NOT NULL, position INTEGER NOT NULL);
             INSERT INTO todo VALUES ('ses_a', 'look', 'pending', 'high', 0);",
        )
        .unwrap();
    for (id, parent, directory) in
        [("ses_a", None, directory), ("ses_child", Some("ses_a"), directory), ("ses_b", None, "/elsewhere")]
    {
        connection
            .execute(
                "INSERT INTO session (id, project_id, parent_id, slug, directory, title, version, tokens_input, model, \
                 time_created, time_updated) VALUES (?1, 'p', ?2, 's', ?3, 'Title ' || ?1, '1.18.33', 7, ?4, 1, 2)",
                (id, parent, directory, r#"{"id": "mock", "providerID": "mock"}"#),
            )
            .unwrap();
        let answer = format!("msg_{id}_2");
        for (message, data) in [
            (
                format!("msg_{id}_1"),
                json!({"role": "user", "time": {"created": 1}, "agent": "build",
                "model": {"providerID": "mock", "modelID": "mock"}}),
            ),
            (
                answer.clone(),
                json!({"role": "assistant", "time": {"created": 2, "completed": 3},
                "parentID": format!("msg_{id}_1"), "modelID": "mock", "providerID": "mock", "mode": "build",
                "agent": "build", "path": {"cwd": directory, "root": directory}, "cost": 0.5,
                "tokens": {"input": 1, "output": 2, "reasoning": 0, "cache": {"read": 0, "write": 0}}}),
            ),
        ] {
            connection
                .execute("INSERT INTO message VALUES (?1, ?2, 1, 1, ?3)", (&message, id, data.to_string()))
                .unwrap();
        }
        let call = json!({"type": "tool", "callID": "call_1", "tool": "task", "state": {"status": "completed",
            "input": {"description": "d", "prompt": "p", "subagent_type": "general"}, "output": "done", "title": "d",
            "metadata": {"sessionId": "ses_child"}, "time": {"start": 1, "end": 2}}});
        for (part, message, data) in [
            (
                format!("prt_{id}_1"),
                format!("msg_{id}_1"),
                json!({"type": "text", "text": format!("asked {id}")}),
            ),
            (
                format!("prt_{id}_2"),
                answer.clone(),
                if id == "ses_a" { call } else { json!({"type": "step-start"}) },
            ),
            (format!("prt_{id}_3"), answer.clone(), json!({"type": "text", "text": format!("said {id}")})),
        ] {
            connection
                .execute(
                    "INSERT INTO part VALUES (?1, ?2, ?3, 1, 1, ?4)",
                    (&part, &message, id, data.to_string()),
                )
                .unwrap();
        }
    }
}

#[tokio::test]
async fn opencodes_history_is_brought_along_and_left_as_it_is() {
    let machine = Machine::new().await;
    let path = machine.scratch.home.join(".local/share/opencode/opencode.db");
    let none = machine.run(&["import", "--opencode"]).await;
    assert!(none.code == Some(1) && none.stderr.contains("there is no history of OpenCode in"), "{none:?}");
    opencode_database(&path, machine.scratch.cwd());
    let before = fs::read(&path).unwrap();
    let imported = machine.run(&["import", "--opencode"]).await;
    assert!(imported.stdout.ends_with("1 session imported.\n"), "{imported:?}");
    let imported = machine.run(&["import", "--opencode", "--all"]).await;
    assert!(imported.stdout.ends_with("1 session imported, 1 was here already.\n"), "{imported:?}");
    let imported = machine.run(&["import", "--opencode", "--all"]).await;
    assert!(imported.stdout.ends_with("0 sessions imported, 2 were here already.\n"), "{imported:?}");
    assert_eq!(fs::read(&path).unwrap(), before);
    let missing = machine.run(&["import", "--opencode", "--session", "ses_none"]).await;
    assert!(missing.code == Some(1) && missing.stderr.contains("no session ses_none"), "{missing:?}");
    let agent = Agent::builder().scratch(&machine.scratch).start().await;
    let shown = agent.load("ses_a").await;
    assert_eq!(text(&shown, "user_message_chunk"), "asked ses_a");
    assert_eq!(text(&shown, "agent_message_chunk"), "said ses_a");
    assert!(shown.iter().any(|update| update["sessionUpdate"] == "plan"), "{shown:#?}");
    agent.llm.reply(Reply::text("here"));
    assert_eq!(agent.prompt("ses_a", "and now?").await.text(), "here");
    assert!(agent.llm.last_request().body.to_string().contains("said ses_a"));
    agent.finish().await;
    let record: Value = serde_json::from_str(&machine.run(&["export", "ses_a"]).await.stdout).unwrap();
    assert_eq!(record["children"][0]["info"]["id"], "ses_child");
    assert_eq!(machine.run(&["db", "check"]).await.code, Some(0));
    machine.finish().await;
}

#[tokio::test]
async fn files_of_older_opencode_versions_are_read() {
    let machine = Machine::new().await;
    let root = machine.scratch.home.join(".local/share/opencode/storage");
    let write = |name: &str, value: Value| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    };
    let cwd = machine.scratch.cwd();
    write(
        "session/p/ses_old.json",
        json!({"id": "ses_old", "version": "0.4.1", "title": "Old", "directory": cwd,
        "projectID": "p", "time": {"created": 1, "updated": 2}}),
    );
    write(
        "message/ses_old/msg_1.json",
        json!({"id": "msg_1", "role": "user", "sessionID": "ses_old", "time": {"created": 1}}),
    );
    write(
        "message/ses_old/msg_2.json",
        json!({"id": "msg_2", "role": "assistant", "sessionID": "ses_old", "system": [],
        "mode": "build", "modelID": "m", "providerID": "p", "path": {"cwd": cwd, "root": cwd}, "cost": 0,
        "tokens": {"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}, "time": {"created": 2, "completed": 3}}),
    );
    write(
        "part/msg_1/prt_1.json",
        json!({"id": "prt_1", "messageID": "msg_1", "sessionID": "ses_old", "type": "text", "text": "asked"}),
    );
    write(
        "part/msg_2/prt_2.json",
        json!({"id": "prt_2", "messageID": "msg_2", "sessionID": "ses_old", "type": "text", "text": "said"}),
    );
    let imported = machine.run(&["import", "--opencode", "--session", "ses_old"]).await;
    assert!(imported.stdout.starts_with("Imported ses_old, Old (2 messages)."), "{imported:?}");
    let shown = machine.run(&["session", "show", "ses_old"]).await.stdout;
    assert!(shown.contains("asked") && shown.contains("said"), "{shown}");
    machine.finish().await;
}

#[tokio::test]
async fn old_sessions_are_pruned() {
    let machine = Machine::new().await;
    for n in 1..=4 {
        let file = small().to_string().replace("ses_small", &format!("ses_{n}"));
        let file = ["msg_1", "msg_2", "prt_1", "prt_2", "prt_3"]
            .iter()
            .fold(file, |file, id| file.replace(id, &format!("{id}_{n}")));
        assert_eq!(machine.pipe(&["import", "-"], file).await.code, Some(0));
    }
    machine.llm.reply(Reply::text("new"));
    machine.run(&["run", "new one"]).await;
    let n_left = async || {
        let list = machine.run(&["session", "list", "--all", "--format", "json"]).await.stdout;
        serde_json::from_str::<Vec<Value>>(&list).unwrap().len()
    };
    assert_eq!(machine.run(&["session", "prune"]).await.code, Some(2));
    assert_eq!(machine.run(&["session", "prune", "--older-than", "soon"]).await.code, Some(2));
    let shown = machine.run(&["session", "prune", "--all", "--older-than", "30d", "--dry-run"]).await;
    assert!(shown.stdout.ends_with("4 sessions would be deleted.\n") && n_left().await == 5, "{shown:?}");
    let pruned = machine.run(&["session", "prune", "--all", "--older-than", "30d", "--keep", "3"]).await;
    assert_eq!((pruned.stdout.as_str(), n_left().await), ("2 sessions deleted.\n", 3), "{pruned:?}");
    let pruned = machine.run(&["session", "prune", "--all", "--older-than", "30d"]).await;
    assert_eq!((pruned.stdout.as_str(), n_left().await), ("2 sessions deleted.\n", 1), "{pruned:?}");
    let pruned = machine.run(&["session", "prune", "--all", "--older-than", "1h"]).await;
    assert_eq!((pruned.stdout.as_str(), n_left().await), ("No session is to be deleted.\n", 1));
    machine.finish().await;
}

#[tokio::test]
async fn an_export_as_json_holds_no_letter_that_steers_and_says_the_same() {
    let said = "a\u{9b}2J\u{202e}b\u{1b}[1m\u{7f}";
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text(said));
    agent.prompt(&session, "go").await;
    let machine = machine_of(&agent);
    agent.finish().await;
    for arguments in [&["export", &session][..], &["session", "export", &session, "--format", "json"]] {
        let exported = machine.run(arguments).await;
        let is_steering = |it: char| it.is_control() && it != '\n' || it == '\u{202e}';
        assert!(!exported.stdout.contains(is_steering), "{exported:?}");
        let value: Value = serde_json::from_str(&exported.stdout).unwrap();
        let parts =
            value["messages"].as_array().unwrap().iter().flat_map(|it| it["parts"].as_array().unwrap());
        assert!(parts.into_iter().any(|part| part["text"] == said), "{value}");
    }
}
