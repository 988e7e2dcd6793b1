//! Stored sessions as people look at them: exported, searched, renamed, counted, and never without a title.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use windlass_base::clock;
use windlass_core::storage::{Storage, Write};
use windlass_protocol::opencode::{message::MessageWithParts, session::Session};

use crate::{
    cli::Machine,
    support::{
        agent::Agent,
        llm::{Gate, Reply, Wire, provider_config, task},
        terminal::Terminal,
    },
};

/// Puts a session into the store of a scratch machine.
pub async fn store(machine: &Machine, id: &str, title: &str, messages: Value) {
    let now = clock::now_ms();
    let info = json!({
        "id": id, "slug": "a-b", "projectID": "p", "directory": machine.scratch.cwd(), "path": "", "title": title,
        "version": "0", "time": {"created": now - 60_000, "updated": now},
    });
    let session: Session = serde_json::from_value(info).unwrap();
    let messages: Vec<MessageWithParts> = serde_json::from_value(messages).unwrap();
    let storage = Storage::new(machine.scratch.home.join(".local/share/windlass/windlass.db"));
    let mut writes = vec![Write::Session(session.into())];
    for message in messages {
        writes.push(Write::Message(message.info.into()));
        writes.extend(message.parts.into_iter().map(|part| Write::Part(part.into())));
    }
    storage.apply(writes).await.unwrap();
}

/// Returns a prompt and its answer, a moment ago.
pub fn exchange(session: &str, number: usize, prompt: &str, answer: &str) -> Vec<Value> {
    let now = clock::now_ms();
    let part = |message: &str, text: &str| {
        json!([{"id": format!("prt_{message}"), "sessionID": session, "messageID": format!("msg_{message}"),
                "type": "text", "text": text}])
    };
    let (asked, answered) = (format!("{session}{number:06}a"), format!("{session}{number:06}b"));
    vec![
        json!({"info": {"role": "user", "id": format!("msg_{asked}"), "sessionID": session, "agent": "build",
                        "time": {"created": now}, "model": {"providerID": "p", "modelID": "m"}},
               "parts": part(&asked, prompt)}),
        json!({"info": {"role": "assistant", "id": format!("msg_{answered}"), "sessionID": session, "agent": "build",
                        "mode": "build", "parentID": format!("msg_{asked}"), "modelID": "m", "providerID": "p",
                        "path": {"cwd": "/", "root": "/"}, "cost": 0.5, "finish": "stop",
                        "time": {"created": now, "completed": now},
                        "tokens": {"input": 100, "output": 10, "reasoning": 0, "cache": {"read": 0, "write": 0}}},
               "parts": part(&answered, answer)}),
    ]
}

fn local_day() -> String {
    clock::local_day(clock::now_ms())
}

/// Returns the words for things stored on this day or later: midnight may have come meanwhile.
fn days_since(day: &str) -> &'static [&'static str] {
    if day == local_day() { &["today"] } else { &["today", "yesterday"] }
}

/// Returns the only session there is.
async fn only_session(machine: &Machine) -> Value {
    let list = machine.run(&["session", "list", "--format", "json"]).await;
    let sessions: Vec<Value> = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    sessions[0].clone()
}

#[tokio::test]
async fn a_session_is_exported_as_opencode_does_it() {
    let began = local_day();
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("I look. ").and_call("call_1", "bash", json!({"command": "echo hi"})));
    machine.llm.reply(Reply::text("All is well."));
    assert_eq!(machine.run(&["run", "look around"]).await.code, Some(0));
    let id = only_session(&machine).await["id"].as_str().unwrap().to_owned();

    let ended = machine.run(&["session", "export", &id, "--format", "json"]).await;
    let exported: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&exported["info"]["id"], ended.stderr.as_str()), (&json!(id), ""));
    let roles: Vec<&str> = exported["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["info"]["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "assistant"]);
    assert_eq!(exported["messages"][0]["parts"][0]["text"], "look around");

    let shown = machine.run(&["session", "show", &id]).await;
    let days = days_since(&began);
    let is_head = |day: &&str| shown.stdout.starts_with(&format!("Scripted title\n{id} · {day} "));
    assert!(days.iter().any(is_head), "{shown:?}");
    for piece in ["\n› look around\n", "echo hi", "All is well.", " tokens · "] {
        assert!(
            shown.stdout.contains(piece) && !shown.stdout.contains('\u{1b}'),
            "{piece}: {}",
            shown.stdout
        );
    }

    let end = &id[id.len() - 8..];
    let document = machine.run(&["session", "export", end]).await;
    assert_eq!(document.code, Some(0), "{document:?}");
    for piece in [
        "# Scripted title\n",
        "## 1. look around",
        "> look around",
        "<b>bash</b> <code>echo hi</code>",
        "All is well.",
    ] {
        assert!(document.stdout.contains(piece), "{piece}: {}", document.stdout);
    }
    for (name, start) in [("page.html", "<!doctype html>"), ("page.md", "# "), ("page.json", "{")] {
        let ended = machine.run(&["session", "export", &id, "-o", name]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{ended:?}");
        assert!(machine.scratch.read(name).starts_with(start), "{name}");
    }
    let printed = machine.run(&["session", "export", &id, "-o", "-", "--format", "html"]).await;
    assert!(printed.stdout.starts_with("<!doctype html>") && !machine.scratch.exists("-"), "{printed:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_session_is_shown_through_the_users_pager() {
    let machine = Machine::new().await;
    store(&machine, "ses_paged", "Paged", json!(exchange("ses_paged", 1, "hello", "there"))).await;
    let show = |pager: &str, more: &[&str]| {
        let arguments = [&["session", "show", "ses_paged"], more].concat();
        Terminal::builder(&machine.scratch, &machine.config).arguments(&arguments).env("PAGER", pager).start()
    };
    let screen = show("sed s/^/paged:/", &[]).ends_with(0).await;
    assert!(screen.contains("paged:"), "{screen}");
    for mut terminal in
        [show("no-such-program", &[]), show("sed s/^/paged:/", &["--no-pager"]), show("", &[])]
    {
        let screen = terminal.ends_with(0).await;
        assert!(screen.contains("› hello") && !screen.contains("paged:"), "{screen}");
    }
    machine.finish().await;
}

#[tokio::test]
async fn an_export_that_cannot_be_is_said_in_one_sentence() {
    let machine = Machine::new().await;
    store(&machine, "ses_a1", "One", json!(exchange("ses_a1", 1, "hello", "there"))).await;
    store(&machine, "ses_a2", "Two", json!([])).await;
    for (arguments, reason) in [
        (vec!["session", "export", "ses_none"], "The session was not exported: no such session: ses_none."),
        (vec!["session", "export", "ses_"], "The session was not exported: no such session: ses_."),
        (
            vec!["session", "export", "ses_a"],
            "more than one session has an id that begins or ends with ses_a.",
        ),
        (
            vec!["session", "export", "ses_a1", "-o", "none/page.html"],
            "none/page.html cannot be written: No such file",
        ),
        (
            vec!["session", "rename", "ses_none", "x"],
            "The session was not renamed: no such session: ses_none.",
        ),
        (
            vec!["session", "rename", "ses_a1", " "],
            "The session was not renamed: the title is empty; give at least one word.",
        ),
    ] {
        let ended = machine.run(&arguments).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{arguments:?}: {ended:?}");
        assert!(
            ended.stderr.contains(reason) && ended.stderr.lines().count() == 1,
            "{arguments:?}: {ended:?}"
        );
    }
    let empty = machine.run(&["session", "export", "ses_a2", "--format", "html"]).await;
    assert!(empty.stdout.contains("Nothing has been said in this session."), "{empty:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_failure() {
    let machine = Machine::new().await;
    let long = "a line of an answer\n".repeat(40_000);
    store(&machine, "ses_long", "Long", json!(exchange("ses_long", 1, "go", &long))).await;
    let mut child = machine.start(&["session", "export", "ses_long"]);
    let mut stdout = child.stdout.take().unwrap();
    let mut begun = [0; 6];
    stdout.read_exact(&mut begun).await.unwrap();
    drop(stdout);
    let output = child.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    machine.finish().await;
}

#[tokio::test]
async fn words_are_found_in_what_was_said() {
    let began = local_day();
    let machine = Machine::new().await;
    let messages =
        exchange("ses_b1", 1, "Why is the Parser slow?", "It reads \"twice\".\nThe parser is slow because.");
    store(&machine, "ses_b1", "Speed", json!(messages)).await;
    store(&machine, "ses_b2", "The parser's title", json!(exchange("ses_b2", 1, "hello", "there"))).await;
    store(&machine, "ses_b3", "Else", json!(exchange("ses_b3", 1, "Grüße", "parse"))).await;

    let found = machine.run(&["session", "search", "PARSER"]).await;
    assert_eq!(found.code, Some(0), "{found:?}");
    let lines: Vec<&str> = found.stdout.lines().filter(|line| !line.starts_with("ses_")).collect();
    assert_eq!(lines, ["", "  > Why is the Parser slow?", "    The parser is slow because."]);
    let days = days_since(&began);
    assert!(days.iter().any(|day| found.stdout.starts_with(&format!("ses_b2  {day} "))), "{found:?}");
    let found = machine.run(&["session", "search", "slow", "\"twice\"", "--format", "json"]).await;
    let rows: Vec<Value> = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!((rows.len(), &rows[0]["id"], &rows[0]["count"]), (1, &json!("ses_b1"), &json!(1)));
    assert_eq!(rows[0]["matches"][0]["role"], "assistant");
    let list = machine.run(&["session", "list", "--format", "json"]).await;
    let listed: Vec<Value> = serde_json::from_str(&list.stdout).unwrap();
    let same = listed.iter().find(|session| session["id"] == "ses_b1").unwrap();
    let updated = clock::iso(same["updated"].as_i64().unwrap());
    assert_eq!(rows[0]["updated"], updated, "OpenCode's commands have milliseconds, ours ISO times");
    assert!(machine.run(&["session", "search", "GRÜSSE", "grüße"]).await.code == Some(1));
    assert!(machine.run(&["session", "search", "grüße"]).await.stdout.contains("ses_b3"));
    let expected = "No session has these words here; --all searches every directory.\n";
    for (more, printed) in [(&[][..], ""), (&["--format", "json"], "[]\n")] {
        let none = machine.run(&[&["session", "search", "nowhere"], more].concat()).await;
        assert_eq!((none.code, none.stdout.as_str(), none.stderr.as_str()), (Some(1), printed, expected));
    }
    assert_eq!(machine.run(&["session", "search", " "]).await.code, Some(1));
    machine.finish().await;
}

#[tokio::test]
async fn a_new_title_holds_whatever_the_session_goes_on_with() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("ok"));
    machine.run(&["run", "first"]).await;
    let id = only_session(&machine).await["id"].as_str().unwrap().to_owned();
    let gate = Gate::new();
    machine.llm.reply(Reply::text("begun").and_gate(&gate).and_text(" and done"));
    let mut child = machine.start(&["run", "--session", &id, "go on"]);
    let mut begun = [0; 5];
    child.stdout.as_mut().unwrap().read_exact(&mut begun).await.unwrap();
    let renamed = machine.run(&["session", "rename", &id, "My", "title"]).await;
    assert_eq!(renamed.stdout, format!("Session {id} is called My title.\n"));
    gate.open();
    assert_eq!(child.wait_with_output().await.unwrap().status.code(), Some(0));
    assert_eq!(only_session(&machine).await["title"], "My title");
    let long = "word ".repeat(50);
    for (title, reason) in [
        ("", "the title is empty; give at least one word"),
        (long.as_str(), "the title is longer than 200 characters; give a shorter one"),
    ] {
        let refused = machine.run(&["session", "rename", &id, title]).await;
        let told = format!("The session was not renamed: {reason}.\n");
        assert_eq!((refused.code, refused.stderr), (Some(1), told));
    }
    machine.finish().await;
}

#[tokio::test]
async fn a_session_in_which_something_was_said_has_a_title() {
    let machine = Machine::new().await;
    let stored = exchange("ses_c1", 1, "Mend the old shed\nand more", "ok");
    store(&machine, "ses_c1", "New session - 2026-11-21T08:33:38.630Z", json!(stored)).await;
    let list = machine.run(&["session", "list"]).await;
    assert!(
        list.stdout.contains("  Mend the old shed  ") && !list.stdout.contains("New session"),
        "{list:?}"
    );
    assert!(machine.run(&["session", "export", "ses_c1"]).await.stdout.starts_with("# Mend the old shed\n"));

    // A model that fails, and one that takes longer than the process stays.
    machine.llm.title(Reply::status(400));
    machine.llm.reply(Reply::text("ok"));
    machine.run(&["run", "tidy the desk"]).await;
    let gate = Gate::new();
    machine.llm.title(Reply::text("too late").and_gate(&gate));
    machine.llm.reply(Reply::text("ok"));
    machine.run(&["run", "sweep the floor"]).await;
    let list = machine.run(&["session", "list", "--format", "json"]).await;
    let sessions: Vec<Value> = serde_json::from_str(&list.stdout).unwrap();
    let titles: Vec<&str> = sessions.iter().map(|session| session["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["sweep the floor", "tidy the desk", "Mend the old shed"]);
    gate.open();
    machine.finish().await;
}

#[tokio::test]
async fn answers_that_were_undone_stay_counted() {
    let machine = Machine::new().await;
    let total = async || {
        let stats = machine.run(&["stats", "--format", "json"]).await;
        serde_json::from_str::<Value>(&stats.stdout).unwrap()["total"]["tokens"]["total"].as_u64().unwrap()
    };
    machine.llm.reply(Reply::text("first").tokens(1000, 100));
    let ended = machine.run(&["run", "one"]).await;
    let id = ended.stderr.lines().last().unwrap().strip_prefix("Session: ").unwrap().to_owned();
    assert_eq!(total().await, 1100);
    assert_eq!(machine.run(&["session", "revert", &id]).await.code, Some(0));
    machine.llm.reply(Reply::text("second").tokens(2000, 200));
    machine.run(&["run", "-s", &id, "two"]).await;
    assert_eq!(total().await, 3300);
    assert_eq!(machine.run(&["db", "check"]).await.code, Some(0));
    // In another store, too, and once only where they are known.
    let exported = machine.run(&["export", &id]).await.stdout;
    machine.pipe(&["import", "-"], &exported).await;
    let other = Machine::new().await;
    for _ in 0..2 {
        assert_eq!(other.pipe(&["import", "-"], &exported).await.code, Some(0));
    }
    let stats = other.run(&["stats", "--format", "json"]).await;
    let spent = serde_json::from_str::<Value>(&stats.stdout).unwrap()["total"]["tokens"]["input"].clone();
    assert_eq!(spent, 1000 + 2 * 2000, "{stats:?}");
    other.finish().await;
    machine.finish().await;
}

#[tokio::test]
async fn only_what_a_user_asks_a_model_is_a_prompt() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.prompt(&session, "/status").await;
    agent.llm.reply_to("first", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::text("found"));
    agent.llm.reply_to("first", Reply::text("one"));
    agent.prompt(&session, "first").await;
    agent.llm.reply(Reply::text("the summary"));
    agent.prompt(&session, "/compact").await;
    agent.llm.reply(Reply::text("two"));
    agent.prompt(&session, "second").await;
    let config = provider_config(&agent.llm, Wire::OpenAi);
    let machine = Machine { scratch: agent.scratch.clone(), llm: agent.llm.clone(), config };
    agent.finish().await;
    let stats = machine.run(&["stats", "--format", "json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&stats.stdout).unwrap()["total"]["prompts"], 2, "{stats:?}");
    let exported = machine.run(&["session", "export", &session]).await.stdout;
    let headings: Vec<&str> = exported.lines().filter(|line| line.starts_with("## ")).collect();
    assert_eq!(headings, ["## /status", "## 1. first", "## 2. second"], "{exported}");
    let page = machine.run(&["session", "export", &session, "--format", "html"]).await.stdout;
    assert!(page.contains("<dt>Prompts</dt><dd>2</dd>"), "{page}");
    machine.finish().await;
}

#[tokio::test]
async fn what_was_used_is_added_up() {
    let machine = Machine::new().await;
    let empty = machine.run(&["stats"]).await;
    assert_eq!((empty.code, empty.stderr.as_str()), (Some(0), "There are no sessions to count.\n"));
    let messages = [exchange("ses_d1", 1, "one", "1"), exchange("ses_d1", 2, "two", "2")].concat();
    store(&machine, "ses_d1", "One", json!(messages)).await;
    store(&machine, "ses_d2", "Two", json!(exchange("ses_d2", 1, "three", "3"))).await;
    machine.llm.reply(Reply::text("").and_call("call_1", "bash", json!({"command": "echo hi"})));
    machine.llm.reply(Reply::text("done"));
    machine.run(&["run", "go"]).await;

    let stats = machine.run(&["stats", "--format", "json"]).await;
    let stats: Value = serde_json::from_str(&stats.stdout).unwrap();
    let total = &stats["total"];
    assert_eq!(
        [&total["sessions"], &total["prompts"], &total["answers"], &total["days"]],
        [&json!(3), &json!(4), &json!(5), &json!(1)],
        "{stats}"
    );
    assert_eq!((total["cost"].as_f64(), &stats["models"][0]["model"]), (Some(1.5), &json!("p/m")));
    assert_eq!(stats["models"][0]["tokens"]["total"], 330);
    assert_eq!(stats["models"][0]["prompts"], Value::Null, "several models may answer one prompt");
    assert_eq!(stats["projects"][0]["directory"], machine.scratch.cwd());
    assert_eq!(stats["tools"], json!([{"tool": "bash", "calls": 1, "failed": 0}]));

    let tables = machine.run(&["stats", "--days", "7", "--models", "1", "--tools", "1", "--project"]).await;
    for piece in [
        "Sessions     3 with 4 prompts on 1 day\n",
        "\nModels\n  p/m  ████████████████████  2 sessions",
        "\n  and 1 more\n",
        "\nTools\n  bash  ████████████████████  1 call  100 %",
    ] {
        assert!(tables.stdout.contains(piece), "{piece}: {}", tables.stdout);
    }
    let other = machine.run(&["stats", "--project", "elsewhere"]).await;
    assert_eq!(other.stderr, "There are no sessions to count.\n");
    machine.finish().await;
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_is_named() {
    let machine = Machine::new().await;
    let directory = machine.scratch.home.join(".local/share");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("windlass"), "no directory").unwrap();
    for arguments in [vec!["stats"], vec!["session", "search", "x"], vec!["session", "export", "ses_x"]] {
        let ended = machine.run(&arguments).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
        assert!(ended.stderr.contains("windlass.db cannot be opened"), "{ended:?}");
    }
    machine.finish().await;
}
