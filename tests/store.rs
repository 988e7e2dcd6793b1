//! A store that cannot be used is a clear error; the daemon serves on and uses it again when it can.

use std::{os::unix::fs::PermissionsExt, path::Path, process::Stdio};

use serde_json::json;
use tokio::process::Command;

use crate::{
    cli::{Ended, Machine, ended},
    support::{
        agent::{Agent, binary},
        llm::Reply,
    },
};

const DATABASE: &str = ".local/share/windlass/windlass.db";

fn database(agent: &Agent) -> std::path::PathBuf {
    agent.scratch.home.join(DATABASE)
}

#[tokio::test]
async fn a_damaged_store_is_named_and_used_again_once_it_is_out_of_the_way() {
    let agent = Agent::start().await;
    let path = database(&agent);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "no database at all, ".repeat(1000)).unwrap();
    let new = json!({"cwd": agent.scratch.cwd(), "mcpServers": []});
    let error = agent.request("session/new", new).await.unwrap_err();
    assert_eq!(error.code, -32603);
    assert!(error.message.contains("windlass.db"), "{error:?}");
    assert!(error.message.contains("move"), "{error:?}");
    std::fs::remove_file(&path).unwrap();
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("back"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "back");
    agent.finish().await;
}

#[tokio::test]
async fn a_store_that_became_empty_is_named_and_not_begun_anew() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("A rope is wound."));
    assert_eq!(machine.run(&["run", "wind the rope"]).await.code, Some(0));
    let path = machine.scratch.home.join(DATABASE);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    let told = format!(
        "the store {} cannot be opened: it is empty, and was not before; move that file, or run `windlass db repair`, \
         or set WINDLASS_HOME elsewhere",
        path.display()
    );
    let refused = machine.run(&["run", "again"]).await;
    assert_eq!((refused.code, refused.stderr), (Some(1), format!("{told}\n")));
    let checked = machine.run(&["db", "check"]).await;
    assert!(checked.code == Some(1) && checked.stdout.contains("it is empty"), "{checked:?}");
    let shown = machine.run(&["doctor"]).await;
    assert!(shown.code == Some(1) && shown.stdout.contains("is damaged: it is empty"), "{shown:?}");
    assert_eq!(machine.run(&["db", "repair"]).await.code, Some(0));
    machine.llm.reply(Reply::text("back"));
    assert_eq!(machine.run(&["run", "again"]).await.stdout, "back\n");
    machine.finish().await;
}

#[tokio::test]
async fn a_file_that_was_empty_for_long_becomes_a_store_with_a_notice() {
    let machine = Machine::new().await;
    let path = machine.scratch.home.join(DATABASE);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::create(&path).unwrap().set_modified(hour_ago).unwrap();
    let checked = machine.run(&["db", "check"]).await;
    assert!(checked.code == Some(0) && checked.stdout.contains("the file is empty"), "{checked:?}");
    machine.llm.reply(Reply::text("ok"));
    let ended = machine.run(&["run", "go"]).await;
    let told = format!("the store {} was empty, and begins anew", path.display());
    assert!(ended.stdout == "ok\n" && ended.stderr.contains(&told), "{ended:?}");
    machine.finish().await;
}

#[tokio::test]
async fn a_store_that_another_process_holds_is_said_and_waited_for() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let other = rusqlite::Connection::open(database(&agent)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    agent.llm.reply(Reply::text("never stored"));
    let error = agent.send_prompt(&session, "go").answer().await.unwrap_err();
    assert!(error.message.contains("locked"), "{error:?}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(agent.prompt(&session, "again").await.text(), "never stored");
    agent.finish().await;
}

#[tokio::test]
async fn a_failed_load_leaves_the_open_session_as_it_was() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let load = json!({"sessionId": session, "cwd": "/no/such/place", "mcpServers": []});
    let error = agent.request("session/load", load).await.unwrap_err();
    assert!(error.message.contains("/no/such/place"), "{error:?}");
    agent.llm.reply(Reply::text("still here"));
    assert_eq!(agent.prompt(&session, "go").await.text(), "still here");
    agent.finish().await;
}

/// Runs a command that has the rights of the files' modes only: root has more, unless it gives them up.
async fn run_without_rights(machine: &Machine, arguments: &[&str]) -> Ended {
    let rights = "--bounding-set=-dac_override,-dac_read_search";
    let mut command = if nix::unistd::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.arg(rights).arg(binary());
        command
    } else {
        Command::new(binary())
    };
    command.args(arguments).current_dir(&machine.scratch.work).env_clear().stdin(Stdio::null());
    command.env("PATH", std::env::var("PATH").unwrap()).env("HOME", &machine.scratch.home);
    command.env("OPENCODE_CONFIG_CONTENT", machine.config.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    ended(command.spawn().unwrap()).await
}

/// Sets the mode of the data directory and of the files in it.
fn set_modes(directory: &Path, of_directory: u32, of_files: u32) {
    std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700)).unwrap();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let mode = if entry.file_type().unwrap().is_dir() { 0o500 } else { of_files };
        std::fs::set_permissions(entry.path(), PermissionsExt::from_mode(mode)).unwrap();
    }
    std::fs::set_permissions(directory, PermissionsExt::from_mode(of_directory)).unwrap();
}

#[tokio::test]
async fn a_store_that_can_only_be_read_is_read() {
    let machine = Machine::new().await;
    machine.llm.reply(Reply::text("A rope is wound."));
    assert_eq!(machine.run(&["run", "wind the rope"]).await.code, Some(0));
    let directory = machine.scratch.home.join(".local/share/windlass");
    let path = directory.join("windlass.db");
    let list = machine.run(&["session", "list", "--format", "json"]).await.stdout;
    let sessions: Vec<serde_json::Value> = serde_json::from_str(&list).unwrap();
    let id = sessions[0]["id"].as_str().unwrap();
    let reads = [
        vec!["session", "list"],
        vec!["session", "show", id],
        vec!["session", "search", "rope"],
        vec!["session", "export", id],
        vec!["stats"],
    ];
    // First with the log that a killed process leaves, then without one.
    for has_log in [true, false] {
        if !has_log {
            set_modes(&directory, 0o700, 0o600);
            let connection = rusqlite::Connection::open(&path).unwrap();
            connection.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
            drop(connection);
            for end in ["db-wal", "db-shm"] {
                let _ = std::fs::remove_file(path.with_extension(end));
            }
        }
        set_modes(&directory, 0o500, 0o400);
        for arguments in &reads {
            let read = run_without_rights(&machine, arguments).await;
            assert_eq!((read.code, read.stderr.as_str()), (Some(0), ""), "{arguments:?}: {read:?}");
            assert!(!read.stdout.trim().is_empty(), "{arguments:?}");
        }
        let told = format!(
            "the store {} cannot be opened: Permission denied; make it and its directory writable, or set WINDLASS_HOME \
             elsewhere",
            path.display()
        );
        let refused = run_without_rights(&machine, &["session", "rename", id, "Rope"]).await;
        assert_eq!(refused.stderr, format!("The session was not renamed: {told}.\n"));
        let refused = run_without_rights(&machine, &["run", "again"]).await;
        assert_eq!((refused.code, refused.stderr), (Some(1), format!("{told}\n")));
    }
    set_modes(&directory, 0o700, 0o000);
    let refused = run_without_rights(&machine, &["session", "list"]).await;
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(1), 1), "{refused:?}");
    set_modes(&directory, 0o700, 0o600);
    machine.finish().await;
}
