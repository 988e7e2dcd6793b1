//! `windlass db`: the store's path, its check and its repair.

use std::path::PathBuf;

use serde_json::Value;

use crate::{
    cli::Machine,
    support::{agent::Agent, llm::Reply},
};

fn database(machine: &Machine) -> PathBuf {
    machine.scratch.home.join(".local/share/windlass/windlass.db")
}

/// Overwrites the pages of one session's long text.
fn tear(path: &std::path::Path, word: &str) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
    drop(connection);
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(word.len()).position(|it| it == word.as_bytes()).unwrap();
    let page = at / 4096 * 4096;
    bytes[page..page + 2048].fill(0xa5);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_damaged_store_is_found_kept_and_repaired() {
    let machine = Machine::new().await;
    let path = database(&machine);
    assert_eq!(machine.run(&["db", "path"]).await.stdout, format!("{}\n", path.display()));
    let none = machine.run(&["db", "check"]).await;
    assert_eq!((none.code, none.stdout.contains("with the first session")), (Some(0), true));
    for word in ["rope", "tarpaulin"] {
        machine.llm.reply(Reply::text(&format!("{word} ").repeat(4000)));
        assert_eq!(machine.run(&["run", &format!("tell of {word}")]).await.code, Some(0));
    }
    let whole = machine.run(&["db", "check"]).await;
    assert_eq!(whole.code, Some(0), "{whole:?}");
    assert!(whole.stdout.ends_with("The store is whole.\n"), "{whole:?}");
    assert!(machine.run(&["db", "repair"]).await.stdout.contains("nothing was changed"));

    tear(&path, "tarpaulin tarpaulin");
    let damaged = machine.run(&["db", "check", "--format", "json"]).await;
    let answer: Value = serde_json::from_str(&damaged.stdout).unwrap();
    assert_eq!((damaged.code, answer["verdict"].as_str()), (Some(1), Some("damaged")), "{damaged:?}");
    let repaired = machine.run(&["db", "repair"]).await;
    assert_eq!(repaired.code, Some(0), "{repaired:?}");
    assert!(repaired.stdout.contains("The damaged store is kept as"), "{repaired:?}");
    assert_eq!(machine.run(&["db", "check"]).await.code, Some(0));
    let list = machine.run(&["session", "list", "--format", "json"]).await.stdout;
    assert_eq!(serde_json::from_str::<Vec<Value>>(&list).unwrap().len(), 2);
    let found = machine.run(&["session", "search", "rope"]).await;
    assert_eq!(found.code, Some(0), "{found:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_daemon_goes_on_with_a_store_that_was_replaced_under_it() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("before"));
    agent.prompt(&session, "first").await;
    let path = agent.scratch.home.join(".local/share/windlass/windlass.db");
    let copy = path.with_extension("copy");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    drop(connection);
    for end in ["db-wal", "db-shm"] {
        std::fs::remove_file(path.with_extension(end)).unwrap();
    }
    std::fs::rename(&copy, &path).unwrap();
    agent.llm.reply(Reply::text("after"));
    assert_eq!(agent.prompt(&session, "second").await.text(), "after");
    let agent = agent.restarted().await;
    let shown = agent.load(&session).await;
    assert_eq!(crate::support::message::text(&shown, "agent_message_chunk"), "beforeafter");
    agent.finish().await;
}
