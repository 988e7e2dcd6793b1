//! `windlass import --opencode` of stores of OpenCode's second version: fresh ones, upgraded ones, and files of it.

use std::{fs, path::Path, path::PathBuf};

use serde_json::{Value, json};

use crate::{
    cli::Machine,
    support::{agent::Agent, llm::Reply},
};

const SECOND: &str = "
    CREATE TABLE session_v2 (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, fork_session_id TEXT, fork_boundary TEXT,
        slug TEXT, directory TEXT, path TEXT, title TEXT, version TEXT, metadata TEXT, cost REAL, tokens_input INTEGER,
        tokens_output INTEGER, tokens_reasoning INTEGER, tokens_cache_read INTEGER, tokens_cache_write INTEGER, revert TEXT,
        permission TEXT, agent TEXT, model TEXT, time_created INTEGER, time_updated INTEGER, time_archived INTEGER);
    CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, time_created INTEGER,
        time_updated INTEGER, data TEXT, UNIQUE (session_id, seq));
    CREATE TABLE kv (key TEXT PRIMARY KEY, value TEXT, time_created INTEGER, time_updated INTEGER);";
const FIRST: &str = "
    CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, slug TEXT, directory TEXT, title TEXT,
        version TEXT, time_created INTEGER, time_updated INTEGER, time_archived INTEGER);
    CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
    CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER,
        data TEXT);";

fn data_directory(machine: &Machine) -> PathBuf {
    let path = machine.scratch.home.join(".local/share/opencode");
    fs::create_dir_all(&path).unwrap();
    path
}

fn database(path: &Path, tables: &[&str]) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    tables.iter().for_each(|tables| connection.execute_batch(tables).unwrap());
    connection
}

fn second(connection: &rusqlite::Connection, id: &str, parent: Option<&str>, directory: &str, updated: i64) {
    connection
        .execute(
            "INSERT INTO session_v2 (id, project_id, parent_id, slug, directory, title, version, cost, tokens_input, agent,
             model, permission, time_created, time_updated) VALUES (?1, 'p', ?2, 's', ?3, 'Second ' || ?1, '2.1.2', 0.5, 9,
             'plan', '{\"id\": \"mock\", \"providerID\": \"mock\"}',
             '[{\"action\": \"shell\", \"resource\": \"rm *\", \"effect\": \"deny\"}]', 1, ?4)",
            (id, parent, directory, updated),
        )
        .unwrap();
}

fn rows(connection: &rusqlite::Connection, session: &str, rows: &[(&str, Value)]) {
    for (seq, (kind, data)) in rows.iter().enumerate() {
        connection
            .execute(
                "INSERT INTO session_message VALUES (?1, ?2, ?3, ?4, 1, 1, ?5)",
                (format!("msg_{session}_{seq:02}"), session, kind, seq as i64 * 3, data.to_string()),
            )
            .unwrap();
    }
}

fn answer(created: i64, content: Value) -> Value {
    json!({
        "time": {"created": created, "completed": created + 20}, "agent": "build", "model": {"id": "mock", "providerID": "mock"},
        "content": content, "snapshot": {"start": "ab12", "end": "ab12"}, "finish": "stop", "cost": 0.25,
        "tokens": {"input": 90, "output": 20, "reasoning": 0, "cache": {"read": 1, "write": 2}},
    })
}

/// The rows of a session with one of each kind.
fn every_kind() -> Vec<(&'static str, Value)> {
    let time = json!({"created": 10});
    let call = |name: &str, state: Value| {
        json!({"type": "tool", "id": format!("call_{name}"), "name": name, "state": state,
            "time": {"created": 21, "ran": 22, "completed": 30}})
    };
    vec![
        (
            "user",
            json!({"time": time, "text": "why?", "agents": [{"name": "explore"}],
                "files": [{"data": "aGk=", "mime": "text/plain", "source": {"type": "inline"}, "name": "a.txt"}]}),
        ),
        (
            "assistant",
            answer(
                20,
                json!([
                    {"type": "reasoning", "text": "thinking", "time": {"created": 20, "completed": 21}},
                    {"type": "text", "text": "I look."},
                    call("shell", json!({"status": "completed", "input": {"command": "ls"},
                        "content": [{"type": "text", "text": "a.rs\n"},
                            {"type": "file", "uri": "data:image/png;base64,iVBO", "mime": "image/png", "name": "p.png"}]})),
                    call("read", json!({"status": "running", "input": {"path": "a.rs"}})),
                    call("todowrite", json!({"status": "completed", "content": [{"type": "text", "text": "ok"}],
                        "input": {"todos": [{"content": "look", "status": "pending", "priority": "high"}]}})),
                    {"type": "from-the-future"},
                ]),
            ),
        ),
        ("idle", json!({"time": time, "outcome": "succeeded"})),
        (
            "shell",
            json!({"time": {"created": 50, "completed": 60}, "shellID": "sh_1", "command": "echo out",
            "status": "exited", "exit": 0, "output": {"output": "out\n"}}),
        ),
        (
            "compaction",
            json!({"time": {"created": 70}, "status": "completed", "reason": "auto", "summary": "It was short."}),
        ),
        ("model-switched", json!({"time": time, "model": {"id": "m2", "providerID": "p"}})),
        ("synthetic", json!({"time": {"created": 80}, "text": "a reminder"})),
        ("assistant", answer(90, json!([{"type": "text", "text": "Done."}]))),
    ]
}

#[tokio::test]
async fn sessions_of_the_second_version_are_read_with_all_that_they_say() {
    let machine = Machine::new().await;
    let path = data_directory(&machine).join("opencode.db");
    let connection = database(&path, &[SECOND]);
    second(&connection, "ses_new", None, machine.scratch.cwd(), 5);
    second(&connection, "ses_below", Some("ses_new"), machine.scratch.cwd(), 5);
    rows(&connection, "ses_new", &every_kind());
    rows(&connection, "ses_below", &[("user", json!({"time": {"created": 1}, "text": "look below"}))]);
    drop(connection);
    let before = fs::read(&path).unwrap();
    let imported = machine.run(&["import", "--opencode"]).await;
    assert_eq!(imported.code, Some(0), "{imported:?}");
    assert!(imported.stdout.contains("1 part that this version cannot read"), "{imported:?}");
    assert!(imported.stdout.ends_with("1 session imported.\n"), "{imported:?}");
    assert_eq!(fs::read(&path).unwrap(), before);
    let again = machine.run(&["import", "--opencode"]).await;
    assert!(again.stdout.ends_with("0 sessions imported, 1 was here already.\n"), "{again:?}");

    let file: Value = serde_json::from_str(&machine.run(&["export", "ses_new"]).await.stdout).unwrap();
    let info = &file["info"];
    assert_eq!((&info["title"], &info["cost"]), (&json!("Second ses_new"), &json!(0.5)));
    assert_eq!(info["permission"], json!([{"permission": "bash", "pattern": "rm *", "action": "deny"}]));
    assert_eq!(info["metadata"]["opencode"]["rows"][0]["type"], "model-switched");
    assert_eq!(file["children"][0]["info"]["id"], "ses_below");
    assert_eq!(file["todos"][0]["content"], "look");
    let text = file.to_string();
    for part in
        ["why?", "data:text/plain;base64,aGk=", "thinking", "I look.", "It was short.", "a reminder", "Done."]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let answers: Vec<&Value> =
        file["messages"].as_array().unwrap().iter().filter(|it| it["info"]["role"] == "assistant").collect();
    assert_eq!(answers.len(), 4, "{text}");
    let calls: Vec<&Value> =
        answers[0]["parts"].as_array().unwrap().iter().filter(|it| it["type"] == "tool").collect();
    assert_eq!((&calls[0]["tool"], &calls[0]["state"]["output"]), (&json!("bash"), &json!("a.rs\n")));
    assert_eq!(calls[0]["state"]["attachments"][0]["url"], "data:image/png;base64,iVBO");
    assert_eq!(calls[1]["state"]["error"], "Tool execution was interrupted");
    assert_eq!(calls[1]["state"]["input"], json!({"filePath": "a.rs"}));
    assert_eq!(calls[1]["state"]["metadata"]["opencode"]["input"], json!({"path": "a.rs"}));
    assert_eq!(answers[1]["parts"][0]["state"]["output"], "out\n");
    assert_eq!(answers[2]["info"]["summary"], true);

    let agent = Agent::builder().scratch(&machine.scratch).start().await;
    let shown = agent.load("ses_new").await;
    assert!(serde_json::to_string(&shown).unwrap().contains("Done."), "{shown:#?}");
    agent.llm.reply(Reply::text("here"));
    assert_eq!(agent.prompt("ses_new", "and now?").await.text(), "here");
    let asked = agent.llm.last_request().body.to_string();
    assert!(asked.contains("It was short.") && asked.contains("Done."), "{asked}");
    let first = file["messages"][0].to_string();
    assert!(first.contains("Attached file: a.txt\\n\\nhi"), "{first}");
    agent.finish().await;
    assert_eq!(machine.run(&["db", "check"]).await.code, Some(0));
    machine.finish().await;
}

/// Adds a session of the first version, of one prompt.
fn first(connection: &rusqlite::Connection, id: &str, directory: &str, updated: i64) {
    connection
        .execute(
            "INSERT INTO session VALUES (?1, 'p', NULL, 's', ?2, 'First ' || ?1, '1.19.6', 1, ?3, NULL)",
            (id, directory, updated),
        )
        .unwrap();
    let data = json!({"role": "user", "time": {"created": 1}, "agent": "build", "model": {"providerID": "m", "modelID": "m"}});
    let message = format!("msg_{id}_f");
    connection
        .execute("INSERT INTO message VALUES (?1, ?2, 1, 1, ?3)", (&message, id, data.to_string()))
        .unwrap();
    let data = json!({"type": "text", "text": format!("first {id}")});
    connection
        .execute(
            "INSERT INTO part VALUES (?1, ?2, ?3, 1, 1, ?4)",
            (format!("prt_{id}_f"), &message, id, data.to_string()),
        )
        .unwrap();
}

#[tokio::test]
async fn of_an_upgraded_store_each_session_comes_once_and_what_went_on_twice_comes_twice() {
    let machine = Machine::new().await;
    let directory = data_directory(&machine);
    let connection = database(&directory.join("opencode.db"), &[FIRST, SECOND]);
    connection
        .execute("INSERT INTO kv VALUES ('migration.v1-v2', '{\"phase\": \"completed\"}', 1, 100)", [])
        .unwrap();
    let here = machine.scratch.cwd();
    // Untouched since, gone on with the second, with the first, and with both; and one that the second has left out.
    for (id, of_first, of_second) in [
        ("ses_same", 50, Some(50)),
        ("ses_second", 50, Some(200)),
        ("ses_first", 200, Some(50)),
        ("ses_both", 200, Some(300)),
        ("ses_swapped", 300, Some(200)),
        ("ses_alone", 50, None),
    ] {
        first(&connection, id, here, of_first);
        if let Some(updated) = of_second {
            second(&connection, id, None, here, updated);
            rows(
                &connection,
                id,
                &[("user", json!({"time": {"created": 1}, "text": format!("second {id}")}))],
            );
        }
    }
    // A channel has a store of its own.
    let other = database(&directory.join("opencode-dev.db"), &[SECOND]);
    second(&other, "ses_dev", None, here, 5);
    rows(&other, "ses_dev", &[("user", json!({"time": {"created": 1}, "text": "of a channel"}))]);
    drop((connection, other));
    let imported = machine.run(&["import", "--opencode"]).await;
    assert!(imported.stdout.ends_with("9 sessions imported.\n"), "{imported:?}");
    let alone = imported.stdout.lines().find(|line| line.contains("ses_alone")).unwrap();
    assert!(alone.ends_with("OpenCode 2 does not have it."), "{alone}");
    assert_eq!(imported.stdout.matches("does not have it").count(), 1, "{imported:?}");
    for (id, says) in [
        ("ses_same", "first ses_same"),
        ("ses_second", "second ses_second"),
        ("ses_first", "first ses_first"),
        ("ses_both", "second ses_both"),
        ("ses_swapped", "second ses_swapped"),
        ("ses_alone", "first ses_alone"),
        ("ses_dev", "of a channel"),
    ] {
        let shown = machine.run(&["session", "show", id]).await.stdout;
        assert!(shown.contains(says), "{id}: {shown}");
    }
    let same: Value = serde_json::from_str(&machine.run(&["export", "ses_same"]).await.stdout).unwrap();
    assert_eq!(same["info"]["title"], "Second ses_same");
    assert_eq!(machine.sessions().await.len(), 9);
    machine.finish().await;
}

#[tokio::test]
async fn a_store_that_is_not_understood_is_refused_with_words() {
    let machine = Machine::new().await;
    let path = data_directory(&machine).join("opencode.db");
    drop(database(&path, &["CREATE TABLE chat (id TEXT)"]));
    let refused = machine.run(&["import", "--opencode"]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("has no tables of sessions that this version knows"), "{refused:?}");
    fs::remove_file(&path).unwrap();
    let connection = database(&path, &[SECOND]);
    second(&connection, "ses_parts", None, machine.scratch.cwd(), 5);
    let without_content =
        json!({"time": {"created": 1}, "agent": "build", "model": {"id": "m", "providerID": "p"}});
    rows(&connection, "ses_parts", &[("assistant", without_content)]);
    second(&connection, "ses_odd", None, machine.scratch.cwd(), 5);
    rows(
        &connection,
        "ses_odd",
        &[("user", json!("no object")), ("user", json!({"time": {"created": 1}, "text": "kept"}))],
    );
    drop(connection);
    let refused = machine.run(&["import", "--opencode"]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("ses_parts was not imported: its answers are stored in a way"),
        "{refused:?}"
    );
    assert!(refused.stdout.contains("1 session imported, 1 could not be imported."), "{refused:?}");
    assert!(machine.run(&["session", "show", "ses_odd"]).await.stdout.contains("kept"));
    machine.finish().await;
}

#[tokio::test]
async fn a_file_of_the_second_versions_export_is_read() {
    let machine = Machine::new().await;
    let messages: Vec<Value> = every_kind()
        .into_iter()
        .enumerate()
        .map(|(seq, (kind, mut data))| {
            data["id"] = format!("msg_file_{seq:02}").into();
            data["type"] = kind.into();
            data
        })
        .collect();
    let file = json!({
        "info": {"id": "ses_file", "projectID": "p", "title": "From a file", "location": {"directory": machine.scratch.cwd()},
            "cost": 0.5, "time": {"created": 1, "updated": 2}},
        "messages": messages,
    });
    let imported = machine.pipe(&["import", "-"], file.to_string()).await;
    assert!(imported.stdout.starts_with("Imported ses_file, From a file"), "{imported:?}");
    let shown = machine.run(&["session", "show", "ses_file"]).await.stdout;
    assert!(shown.contains("why?") && shown.contains("Done."), "{shown}");
    machine.finish().await;
}

#[tokio::test]
async fn sessions_that_are_not_here_are_told_of_and_those_that_cannot_come_are_named() {
    let machine = Machine::new().await;
    let (data, work) = (data_directory(&machine), machine.scratch.work.display().to_string());
    let said = |words: &str| [("user", json!({"time": {"created": 1}, "text": words}))];
    let main = database(&data.join("opencode.db"), &[SECOND]);
    second(&main, "ses_same", None, &work, 5);
    rows(&main, "ses_same", &said("of the newest"));
    second(&main, "ses_orphan", Some("ses_gone"), &work, 5);
    rows(&main, "ses_orphan", &said("without its parent"));
    let other = database(&data.join("opencode-dev.db"), &[SECOND]);
    second(&other, "ses_same", None, &work, 4);
    rows(&other, "ses_same", &said("only here"));
    let listed = machine.run(&["session", "list"]).await;
    assert!(listed.stderr.contains("OpenCode has 1 session of this project"), "{listed:?}");
    let doctor = machine.run(&["doctor"]).await;
    assert!(doctor.stdout.contains("`windlass import --opencode` brings them in"), "{doctor:?}");
    let imported = machine.run(&["import", "--opencode"]).await;
    assert!(
        imported.stdout.contains("Another file of OpenCode's has it with other messages"),
        "{imported:?}"
    );
    assert!(imported.stderr.contains("is missing or was not imported: ses_orphan."), "{imported:?}");
    let one = machine.run(&["import", "--opencode", "--session", "ses_orphan"]).await;
    assert_eq!(one.code, Some(0), "{one:?}");
    assert!(!machine.run(&["doctor"]).await.stdout.contains("windlass import --opencode"));
    machine.finish().await;
}

#[tokio::test]
async fn a_fault_of_a_foreign_store_is_told_as_one() {
    let machine = Machine::new().await;
    let path = data_directory(&machine).join("opencode.db");
    fs::write(&path, [b"SQLite format 3\0".as_slice(), &[7; 4096]].concat()).unwrap();
    let refused = machine.run(&["import", "--opencode"]).await;
    assert!(refused.stderr.contains("OpenCode's store is damaged"), "{refused:?}");
    assert!(!refused.stderr.contains("db repair"), "{refused:?}");
    fs::remove_file(&path).unwrap();
    database(&path, &["CREATE TABLE session_v2 (id TEXT); CREATE TABLE session_message (id TEXT);"]);
    let refused = machine.run(&["import", "--opencode"]).await;
    assert!(refused.stderr.contains("has a form that is not understood (no such column"), "{refused:?}");
    assert!(!refused.stderr.contains("SELECT"), "{refused:?}");
    machine.finish().await;
}
