//! Damaged stores: rows that are not hit stay readable, and a repair saves them.

use std::{collections::HashMap, fs, path::Path};

use rusqlite::Connection;
use windlass_protocol::opencode::{id::SessionId, message::MessageWithParts};

use super::{Repaired, columns, references, repair as repair_now};
use crate::storage::{
    SessionQuery, Storage, StorageError, Write, backup,
    check::{TABLES, Verdict, check},
    migrations,
    tests::{append, session, store, text, user},
};

const PAGE: usize = 4096;
/// Maximum number of looks at a store with threads that are still ending.
const N_TRIES: usize = 100_000;

/// Repairs a store that was dropped, once its threads have let it go.
fn repair(path: &Path) -> Result<Repaired, StorageError> {
    for _ in 0..N_TRIES {
        match repair_now(path) {
            Err(StorageError::InUse { .. }) => std::thread::yield_now(),
            ended => return ended,
        }
    }
    repair_now(path)
}

/// Fills a store with sessions, and returns their histories.
async fn filled(storage: &Storage, n_sessions: i64) -> HashMap<SessionId, Vec<MessageWithParts>> {
    let mut histories = HashMap::new();
    for n in 0..n_sessions {
        let session = session("/work", n);
        storage.create_session(session.clone()).await.expect("stored");
        let mut history = Vec::new();
        for _ in 0..6 {
            let info = user(&session.id);
            let parts = vec![text(&info, &"word ".repeat(100)), text(&info, "short")];
            let mut writes = vec![Write::Message(info.clone().into())];
            writes.extend(parts.iter().cloned().map(|part| Write::Part(part.into())));
            storage.apply(writes).await.expect("stored");
            history.push(MessageWithParts { info, parts });
        }
        histories.insert(session.id, history);
    }
    storage.empty_log().await.expect("emptied");
    histories
}

fn verdict(path: &Path) -> Verdict {
    let findings = check(path).expect("checked").expect("there");
    findings.iter().map(|finding| finding.verdict).max().expect("some")
}

async fn load(storage: &Storage, id: &SessionId) -> Option<Vec<MessageWithParts>> {
    match storage.load(id.clone()).await {
        Ok(stored) => stored.map(|stored| stored.messages),
        Err(error) => {
            assert!(error.to_string().contains("windlass db repair"), "{error}");
            None
        }
    }
}

#[tokio::test]
async fn what_a_torn_page_does_not_hit_stays_readable_and_is_saved() {
    let (directory, storage) = store();
    let path = directory.path().join("windlass.db");
    let histories = filled(&storage, 25).await;
    assert_eq!(verdict(&path), Verdict::Ok);
    let whole = fs::read(&path).expect("read");
    let n_pages = whole.len() / PAGE;
    let (mut n_seen, mut n_saved) = (0, 0);
    for page in (1..n_pages).step_by(n_pages / 12) {
        let scratch = tempfile::tempdir().expect("made");
        let path = scratch.path().join("windlass.db");
        let mut torn = whole.clone();
        torn[page * PAGE..(page + 1) * PAGE - 100].fill(0xa5);
        fs::write(&path, &torn).expect("written");
        let storage = Storage::new(path.clone());
        let mut seen = HashMap::new();
        for id in histories.keys() {
            if let Some(messages) = load(&storage, id).await {
                seen.insert(id.clone(), messages);
            }
        }
        let listed = storage.list(SessionQuery { limit: 100, ..SessionQuery::default() }).await;
        if let Err(error) = listed {
            assert!(error.to_string().contains("windlass db repair"), "{error}");
        }
        drop(storage);
        assert_eq!(verdict(&path), Verdict::Damaged, "page {page}");
        let Repaired { backup, .. } = repair(&path).expect("repaired");
        assert_eq!(fs::read(backup).expect("kept"), torn);
        assert_eq!(verdict(&path), Verdict::Ok, "page {page}: {:?}", check(&path));
        let storage = Storage::new(path);
        for (id, messages) in &seen {
            let stored = load(&storage, id).await.unwrap_or_default();
            // A page that only tells where things are may hide the loss from a look at one session.
            assert!(
                messages.iter().all(|it| stored.contains(it) || histories[id].contains(it)),
                "page {page}"
            );
        }
        n_seen += seen.len();
        for (id, history) in &histories {
            n_saved += usize::from(load(&storage, id).await.as_ref() == Some(history));
        }
    }
    let n_sessions = histories.len() * (1..n_pages).step_by(n_pages / 12).count();
    assert!(n_seen * 2 > n_sessions, "{n_seen} of {n_sessions} sessions could be read");
    assert!(n_saved * 100 > n_sessions * 85, "{n_saved} of {n_sessions} sessions were saved whole");
}

#[tokio::test]
async fn a_store_that_was_cut_off_is_saved_up_to_there() {
    let (directory, storage) = store();
    let histories = filled(&storage, 25).await;
    drop(storage);
    let whole = fs::read(directory.path().join("windlass.db")).expect("read");
    let half = whole.len() / PAGE / 2;
    for (n_pages, n_least) in [(1, 20), (4, 15), (half, 1)] {
        let scratch = tempfile::tempdir().expect("made");
        let path = scratch.path().join("windlass.db");
        let cut = &whole[..whole.len() - n_pages * PAGE - 100];
        fs::write(&path, cut).expect("written");
        assert_eq!(verdict(&path), Verdict::Damaged, "{n_pages}");
        let repaired = repair(&path).expect("repaired");
        assert_eq!(fs::read(&repaired.backup).expect("kept"), cut);
        assert_eq!(verdict(&path), Verdict::Ok, "{n_pages}: {:?}", check(&path));
        let names: Vec<_> =
            fs::read_dir(scratch.path()).expect("read").flatten().map(|it| it.file_name()).collect();
        assert!(names.iter().all(|name| name != "windlass-padded.db"), "{names:?}");
        let storage = Storage::new(path);
        let mut n_saved = 0;
        for (id, history) in &histories {
            n_saved += usize::from(load(&storage, id).await.as_ref() == Some(history));
        }
        assert!(n_saved >= n_least, "{n_pages} pages: {n_saved} sessions, {:?}", repaired.tables);
    }
}

#[tokio::test]
async fn an_empty_file_is_damaged_only_if_it_was_not_empty_before_and_its_log_is_saved() {
    let (directory, storage) = store();
    let from = directory.path().join("windlass.db");
    let first = session("/work", 1);
    storage.create_session(first.clone()).await.expect("stored");
    let log = fs::read(from.with_extension("db-wal")).expect("read");

    let scratch = tempfile::tempdir().expect("made");
    let path = scratch.path().join("windlass.db");
    fs::write(&path, "").expect("written");
    assert_eq!(verdict(&path), Verdict::Note);
    fs::write(path.with_extension("db-wal"), &log).expect("written");
    assert_eq!(verdict(&path), Verdict::Damaged);
    let refused = Storage::new(path.clone()).load(first.id.clone()).await.expect_err("refused");
    assert!(refused.to_string().contains("it is empty, and was not before; move"), "{refused}");
    assert_eq!(fs::read(path.with_extension("db-wal")).expect("still there"), log);
    repair(&path).expect("repaired");
    assert_eq!(verdict(&path), Verdict::Ok);
    let saved = Storage::new(path).load(first.id.clone()).await.expect("read");
    assert_eq!(saved.map(|saved| saved.info), Some(first));
}

#[tokio::test]
async fn a_session_whose_row_is_lost_is_made_anew() {
    let (directory, storage) = store();
    let path = directory.path().join("windlass.db");
    let histories = filled(&storage, 2).await;
    let (id, history) = histories.iter().next().expect("some");
    drop(storage);
    let connection = Connection::open(&path).expect("opened");
    connection.execute("UPDATE session SET data = '{' WHERE id = ?1", [id.as_str()]).expect("broken");
    connection.pragma_update(None, "wal_checkpoint", "TRUNCATE").expect("written");
    drop(connection);
    assert_eq!(verdict(&path), Verdict::Damaged);
    let repaired = repair(&path).expect("repaired");
    assert_eq!((repaired.n_remade, repaired.n_gaps), (1, 0));
    let stored = Storage::new(path).load(id.clone()).await.expect("read").expect("there");
    assert!(stored.info.title.starts_with("Recovered session"), "{}", stored.info.title);
    assert_eq!(stored.messages, *history);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_kept_and_replaced() {
    let scratch = tempfile::tempdir().expect("made");
    let path = scratch.path().join("windlass.db");
    fs::write(&path, "no database, ".repeat(1000)).expect("written");
    assert_eq!(verdict(&path), Verdict::Damaged);
    let repaired = repair(&path).expect("repaired");
    assert_eq!((repaired.tables, repaired.n_gaps), (Vec::new(), 1));
    assert!(fs::read_to_string(repaired.backup).expect("kept").starts_with("no database"));
    let storage = Storage::new(path);
    assert!(storage.create_session(session("/work", 1)).await.expect("stored"));
}

#[tokio::test]
async fn text_that_is_no_utf8_is_left_out_and_nothing_else() {
    let (directory, storage) = store();
    let path = directory.path().join("windlass.db");
    let histories = filled(&storage, 1).await;
    let (id, history) = histories.iter().next().expect("some");
    drop(storage);
    let connection = Connection::open(&path).expect("opened");
    let broken = "INSERT INTO part_text (part_id, session_id, text) VALUES (?1, ?2, CAST(x'61ff' AS TEXT))";
    let part = &history[0].parts[0];
    connection.execute(broken, [part.id.as_str(), id.as_str()]).expect("broken");
    connection
        .execute("INSERT INTO project (worktree, id) VALUES (CAST(x'ff' AS TEXT), 'a'), ('/work', 'b')", [])
        .expect("broken");
    drop(connection);
    assert_eq!(verdict(&path), Verdict::Damaged);
    let repaired = repair(&path).expect("repaired");
    assert_eq!(repaired.n_gaps, 0);
    assert!(repaired.tables.contains(&("project", 1, 1)), "{:?}", repaired.tables);
    assert!(repaired.tables.contains(&("part_text", 0, 1)), "{:?}", repaired.tables);
    assert_eq!(verdict(&path), Verdict::Ok);
    assert_eq!(load(&Storage::new(path), id).await.as_ref(), Some(history));
}

#[tokio::test]
async fn a_table_that_is_missing_is_damage_and_a_gap() {
    let (directory, storage) = store();
    let path = directory.path().join("windlass.db");
    filled(&storage, 1).await;
    drop(storage);
    Connection::open(&path).expect("opened").execute_batch("DROP TABLE todo").expect("dropped");
    assert_eq!(verdict(&path), Verdict::Damaged);
    assert_eq!(repair(&path).expect("repaired").n_gaps, 1);
    assert_eq!(verdict(&path), Verdict::Ok);
}

#[tokio::test]
async fn a_newer_store_is_not_repaired() {
    let (directory, storage) = store();
    let path = directory.path().join("windlass.db");
    filled(&storage, 1).await;
    drop(storage);
    Connection::open(&path).expect("opened").pragma_update(None, "user_version", 99).expect("newer");
    assert!(matches!(repair(&path), Err(StorageError::Newer { version: 99, .. })));
    assert!(!backup::directory(&path).exists());
}

#[test]
fn every_table_of_the_schema_is_checked_and_parents_come_first() {
    let schema = migrations::schema(migrations::NEWEST).expect("made");
    let mut statement = schema.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").expect("read");
    let names = statement.query_map([], |row| row.get(0)).expect("read");
    let mut names: Vec<String> = names.map(|name| name.expect("text")).collect();
    let mut known: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    for (at, table) in TABLES.iter().enumerate() {
        let columns = columns(&schema, table.name).expect("read");
        let has = |name: &str| columns.iter().any(|column| column == name);
        assert!(has(table.key) && table.json.is_none_or(has), "{}", table.name);
        for (_, parent, _) in references(&schema, table.name).expect("read") {
            assert!(known[..at].contains(&parent.as_str()), "{} before {parent}", table.name);
        }
    }
    names.sort_unstable();
    known.sort_unstable();
    assert_eq!(names, known);
}

#[tokio::test]
async fn a_store_in_use_is_not_repaired() {
    let (directory, storage) = store();
    let path = directory.path().join("windlass.db");
    let session = session("/work", 1);
    let message = user(&session.id);
    let part = text(&message, "");
    storage.create_session(session).await.expect("stored");
    storage
        .apply(vec![Write::Message(message.into()), Write::Part(part.clone().into())])
        .await
        .expect("stored");
    storage.apply(vec![append(&part, 0, "more")]).await.expect("stored");
    assert!(matches!(repair_now(&path), Err(StorageError::InUse { .. })));
}

#[tokio::test]
async fn an_older_store_is_copied_before_it_is_changed_and_few_copies_stay() {
    let (directory, storage) = store();
    let path = directory.path().join("windlass.db");
    let histories = filled(&storage, 1).await;
    let (id, history) = histories.iter().next().expect("some");
    drop(storage);
    for n in 1..6 {
        let older = "ALTER TABLE session DROP COLUMN chosen_title; ALTER TABLE session DROP COLUMN chosen_agent; \
                     ALTER TABLE session DROP COLUMN chosen_model; \
                     ALTER TABLE session DROP COLUMN patch; ALTER TABLE session DROP COLUMN client_prompt; ALTER TABLE project DROP COLUMN settings; \
                     DROP INDEX session_by_directory; DROP TABLE spent_message; DROP TABLE waiting_prompt; DROP TABLE shared_session; DROP TABLE shared_state; DROP TABLE noted_file; DROP TABLE approval; \
                     PRAGMA user_version = 1";
        Connection::open(&path).expect("opened").execute_batch(older).expect("older");
        assert_eq!(verdict(&path), Verdict::Note);
        let storage = Storage::new(path.clone());
        assert_eq!(load(&storage, id).await.as_ref(), Some(history));
        let copies: Vec<_> = fs::read_dir(backup::directory(&path)).expect("there").flatten().collect();
        assert_eq!(copies.len(), n.min(3), "{copies:?}");
        let copy = Connection::open(copies[0].path()).expect("opened");
        let version: i64 = copy.pragma_query_value(None, "user_version", |row| row.get(0)).expect("read");
        let n_parts: i64 = copy.query_row("SELECT count(*) FROM part", [], |row| row.get(0)).expect("read");
        assert_eq!((version, n_parts), (1, 12));
    }
}

#[tokio::test]
async fn a_store_that_is_moved_away_takes_no_more_changes() {
    let (directory, storage) = store();
    let path = directory.path().join("windlass.db");
    assert!(storage.create_session(session("/work", 1)).await.expect("stored"));
    storage.empty_log().await.expect("emptied");
    fs::rename(&path, directory.path().join("moved.db")).expect("moved");
    for end in ["db-wal", "db-shm"] {
        let _ = fs::remove_file(path.with_extension(end));
    }
    let after = session("/work", 2);
    assert!(storage.create_session(after.clone()).await.expect("stored"));
    let listed = Storage::new(path).list(SessionQuery { limit: 9, ..SessionQuery::default() }).await;
    assert_eq!(listed.expect("read"), [after]);
}

#[tokio::test]
async fn the_log_stays_small_whoever_reads_meanwhile() {
    let (directory, storage) = store();
    let path = directory.path().join("windlass.db");
    let log = || fs::metadata(path.with_extension("db-wal")).map_or(0, |log| log.len());
    let session = session("/work", 1);
    storage.create_session(session.clone()).await.expect("stored");
    let fill = async || {
        for _ in 0..40 {
            let message = user(&session.id);
            let part = text(&message, &"x".repeat(500_000));
            storage
                .apply(vec![Write::Message(message.into()), Write::Part(part.into())])
                .await
                .expect("stored");
        }
    };
    fill().await;
    assert!(log() < 8 << 20, "{} bytes after 20 MB of changes", log());
    let reader = Connection::open(&path).expect("opened");
    reader.execute_batch("BEGIN; SELECT count(*) FROM part").expect("read");
    fill().await;
    assert!(log() > 16 << 20, "the reader holds nothing");
    storage.empty_log().await.expect("nothing to do while somebody reads");
    reader.execute_batch("COMMIT").expect("ended");
    storage.empty_log().await.expect("emptied");
    assert_eq!(log(), 0);
}
