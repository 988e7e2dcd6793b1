//! The checks after a sudden death: nothing that was seen is lost, and the conversation goes on.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

use super::scripts::Script;
use crate::support::{
    agent::{Agent, wire::Line},
    llm::{Reply, request::Request},
    message::{tag, text, tool},
    scratch::Scratch,
};

/// The lines that a client exchanged with a daemon that was killed.
pub struct Lines(pub Vec<Line>);

/// The client's knowledge of a session.
pub struct Witness {
    pub session: String,
    /// Updates that an earlier daemon sent.
    pub earlier: Vec<Value>,
    updates: Vec<Value>,
    /// The number of updates before the turn that was interrupted.
    pub n_before: usize,
}

impl Witness {
    pub fn new(session: String) -> Self {
        Self { session, earlier: Vec::new(), updates: Vec::new(), n_before: 0 }
    }
}

impl Lines {
    /// Adds the updates of a session in these lines to its witness.
    pub fn lines_of(self, mut witness: Witness) -> Witness {
        let is_update = |line: &&Line| line.from_agent && line.message["method"] == "session/update";
        let of_session = self.0.iter().filter(is_update).map(|line| &line.message["params"]);
        let of_session = of_session.filter(|params| params["sessionId"] == witness.session.as_str());
        witness.updates = of_session.map(|params| params["update"].clone()).collect();
        witness
    }
}

/// Loads the session in another daemon, and prompts it.
pub async fn lives_on(script: Script, agent: &Agent, witness: &Witness) {
    let params = json!({"sessionId": witness.session, "cwd": agent.scratch.cwd(), "mcpServers": []});
    let load = agent.send_request("session/load", params);
    load.answer().await.unwrap();
    let replayed = load.updates().await;
    match script {
        Script::Undo => files_are_one_state(&agent.scratch, witness.has_undone()),
        Script::Migration => {
            shows_all(script, witness, &replayed);
            let whole = Witness { updates: witness.earlier.clone(), ..Witness::new(String::new()) };
            shows_all(script, &whole, &replayed);
        }
        Script::Stream
        | Script::Calls
        | Script::Command
        | Script::Allowed
        | Script::Asking
        | Script::Compaction
        | Script::Snapshots
        | Script::Subagent => shows_all(script, witness, &replayed),
    }
    let n_requests = agent.llm.requests().len();
    agent.llm.reply(Reply::text("back"));
    let turn = agent.prompt(&witness.session, "go on").await;
    assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "back"));
    let requests = agent.llm.requests();
    assert_eq!(requests.len(), n_requests + 1);
    is_valid(&requests[n_requests]);
}

impl Witness {
    fn has_undone(&self) -> bool {
        text(&self.updates, "agent_message_chunk").contains("Undone")
    }
}

/// Checks that everything that a client saw is there after a load.
fn shows_all(script: Script, witness: &Witness, replayed: &[Value]) {
    let prompts = text(replayed, "user_message_chunk");
    let of_turn = &witness.updates[witness.n_before..];
    let began = of_turn
        .iter()
        .any(|it| ["tool_call", "agent_message_chunk", "agent_thought_chunk"].contains(&tag(it)));
    let [first, others @ ..] = script.prompts() else { unreachable!() };
    assert!(prompts.starts_with(first), "{prompts}");
    assert!(!began || others.iter().all(|prompt| prompts.contains(prompt)), "the prompt is lost: {prompts}");
    for tag in ["agent_message_chunk", "agent_thought_chunk"] {
        let (seen, stored) = (text(&witness.updates, tag), text(replayed, tag));
        assert!(stored.starts_with(&seen), "{tag}: {seen:?} was seen, {stored:?} is stored");
    }
    let shown = witness.updates.iter().filter(|update| tag(update) == "tool_call");
    for id in shown.map(|call| call["toolCallId"].as_str().unwrap()) {
        let seen = tool(&witness.updates, id).unwrap();
        let Some(stored) = tool(replayed, id) else { panic!("the call {id} is lost: {replayed:#?}") };
        if ["completed", "failed"].contains(&seen["status"].as_str().unwrap_or_default()) {
            assert_eq!(stored, seen, "the ended call {id} is another after the load");
        } else {
            let status = stored["status"].as_str().unwrap_or_default();
            assert!(["completed", "failed"].contains(&status), "the call {id} is left open: {stored}");
            if script == Script::Command {
                let printed = |call: &Value| -> usize {
                    let content = call["content"].to_string();
                    (1..=30).filter(|n| content.contains(&format!("\\n{n}\\n"))).count()
                };
                assert!(printed(&stored) >= printed(&seen), "seen: {seen}, stored: {stored}");
            }
        }
    }
    let plan = |updates: &[Value]| updates.iter().rfind(|update| tag(update) == "plan").cloned();
    if let Some(seen) = plan(&witness.updates) {
        assert_eq!(plan(replayed), Some(seen), "the list of tasks is lost");
    }
}

/// Checks that a provider takes this history: every call has its result, and no message is empty.
pub fn is_valid(request: &Request) {
    let messages = request.messages();
    let mut open: Vec<String> = Vec::new();
    for message in &messages {
        let role = message["role"].as_str().unwrap();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            assert!(open.iter().any(|call| call == id), "a result without a call: {messages:#?}");
            open.retain(|call| call != id);
            assert!(!message["content"].as_str().unwrap_or("list").is_empty(), "an empty result: {message}");
            continue;
        }
        assert!(open.is_empty(), "calls without results: {open:?} in {messages:#?}");
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        let content = &message["content"];
        let is_empty = content.is_null() || content == "" || *content == json!([]);
        assert!(!is_empty || !calls.is_empty(), "an empty message: {messages:#?}");
        for call in &calls {
            let arguments = call["function"]["arguments"].as_str().unwrap();
            assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object(), "{call}");
            open.push(call["id"].as_str().unwrap().to_owned());
        }
    }
    assert!(open.is_empty(), "calls without results: {open:?} in {messages:#?}");
    assert_eq!(messages.last().unwrap()["role"], "user");
}

/// Checks that no file was left half undone: each has one of its two contents, and nothing else lies around.
fn files_are_one_state(scratch: &Scratch, has_undone: bool) {
    for (name, before, after) in [
        ("README.md", "# Scratch\n", "# Scratch\none\n"),
        ("dirty.txt", "not committed\n", "not committed\none\n"),
        ("new/one", "", "one\n"),
    ] {
        let content = if scratch.exists(name) { scratch.read(name) } else { String::new() };
        assert!(content == before || (content == after && !has_undone), "{name}: {content:?}");
    }
    let known = ["README.md", "a.txt", "dirty.txt", "new", ".git"];
    for entry in fs::read_dir(&scratch.work).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name.as_str()), "{name} is left");
    }
}

/// Returns all files of the user's repository, with the bytes of its index.
pub fn git_files(scratch: &Scratch) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![scratch.work.join(".git")];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                files.insert(path.display().to_string(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// Checks the store's file as SQLite sees it.
pub fn is_whole(scratch: &Scratch) {
    let path = scratch.home.join(".local/share/windlass/windlass.db");
    // Opened on a copy: another connection that closes last would clear the log that a killed daemon has left.
    let copy = scratch.root().join("copy.db");
    copy_database(&path, &copy);
    let connection = rusqlite::Connection::open(&copy).unwrap();
    let word: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(word, "ok");
    let mut statement = connection.prepare("PRAGMA foreign_key_check").unwrap();
    assert!(statement.query([]).unwrap().next().unwrap().is_none(), "rows without their parents");
}

fn copy_database(from: &Path, to: &Path) {
    for end in ["db", "db-wal"] {
        let (from, to) = (from.with_extension(end), to.with_extension(end));
        let _ = fs::remove_file(&to);
        let _ = fs::remove_file(to.with_extension("db-shm"));
        if from.exists() {
            fs::copy(from, to).unwrap();
        }
    }
}
