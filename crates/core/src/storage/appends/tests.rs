//! Appended text is whole for every reader, wherever it is kept.

use std::{fs, path::Path};

use windlass_protocol::opencode::part::{Part, PartKind, PartTime, TextPart};

use super::{CAPACITY, HEADER};
use crate::storage::{
    Storage, Write,
    tests::{append, session, store, text, user},
};

/// A store with a part that grows.
async fn growing() -> (tempfile::TempDir, Storage, Part) {
    let (directory, storage) = store();
    let session = session("/work", 1);
    let message = user(&session.id);
    let part = text(&message, "");
    storage.create_session(session).await.expect("stored");
    storage
        .apply(vec![Write::Message(message.into()), Write::Part(part.clone().into())])
        .await
        .expect("stored");
    (directory, storage, part)
}

async fn read(storage: &Storage, part: &Part) -> String {
    let stored = storage.load(part.session_id.clone()).await.expect("read").expect("there");
    let mut parts = stored.messages.into_iter().flat_map(|message| message.parts);
    let mut found = parts.find(|it| it.id == part.id).expect("it is there");
    found.kind.text_mut().expect("a text").clone()
}

fn slot(directory: &Path, index: usize) -> Vec<u8> {
    fs::read(directory.join("windlass.db-appends").join(index.to_string())).expect("a slot")
}

/// Another process with the same store.
fn other(directory: &Path) -> Storage {
    Storage::new(directory.join("windlass.db"))
}

#[tokio::test]
async fn another_process_reads_what_was_appended() {
    let (directory, storage, part) = growing().await;
    storage.apply(vec![append(&part, 0, "one "), append(&part, 4, "two")]).await.expect("stored");
    assert_eq!(slot(directory.path(), 0).len(), CAPACITY);
    assert_eq!(read(&other(directory.path()), &part).await, "one two");
}

#[tokio::test]
async fn the_next_process_takes_over_what_an_ended_one_appended() {
    let (directory, storage, part) = growing().await;
    storage.apply(vec![append(&part, 0, "shown")]).await.expect("stored");
    drop(storage);
    let (storage, second) = (other(directory.path()), text_behind(&part));
    storage.apply(vec![Write::Part(second.clone().into())]).await.expect("stored");
    storage.apply(vec![append(&second, 0, "x")]).await.expect("stored");
    assert_eq!((read(&storage, &part).await, read(&storage, &second).await), ("shown".into(), "x".into()));
    assert!(!String::from_utf8_lossy(&slot(directory.path(), 0)[..200]).contains("shown"));
}

fn text_behind(part: &Part) -> Part {
    Part { id: windlass_base::ids::part(), ..part.clone() }
}

#[tokio::test]
async fn two_processes_append_to_slots_of_their_own() {
    let (directory, first, part) = growing().await;
    let second = other(directory.path());
    first.apply(vec![append(&part, 0, "a")]).await.expect("stored");
    let beside = text_behind(&part);
    second.apply(vec![Write::Part(beside.clone().into())]).await.expect("stored");
    second.apply(vec![append(&beside, 0, "b")]).await.expect("stored");
    assert_eq!((read(&first, &part).await, read(&first, &beside).await), ("a".into(), "b".into()));
    assert_ne!(slot(directory.path(), 1)[..HEADER], [0; HEADER]);
}

#[tokio::test]
async fn a_record_that_was_cut_off_is_passed_over() {
    let (directory, storage, part) = growing().await;
    storage.apply(vec![append(&part, 0, "whole")]).await.expect("stored");
    storage.apply(vec![append(&part, 5, " torn")]).await.expect("stored");
    drop(storage);
    let path = directory.path().join("windlass.db-appends/0");
    let mut bytes = fs::read(&path).expect("a slot");
    let torn = bytes.windows(5).position(|it| it == b" torn").expect("it is there");
    bytes[torn + 2] = 0;
    fs::write(&path, bytes).expect("written");
    assert_eq!(read(&other(directory.path()), &part).await, "whole");
}

#[tokio::test]
async fn a_full_slot_is_moved_into_the_database() {
    let (directory, storage, part) = growing().await;
    let piece = "0123456789".repeat(1000);
    let whole = piece.repeat(60);
    for index in 0..60 {
        storage.apply(vec![append(&part, index * piece.len(), &piece)]).await.expect("stored");
    }
    assert_eq!(read(&storage, &part).await, whole);
    assert_eq!(slot(directory.path(), 0).len(), CAPACITY);
    drop(storage);
    assert_eq!(read(&other(directory.path()), &part).await, whole);
}

#[tokio::test]
async fn a_full_slot_forgets_a_part_that_is_gone() {
    let (_directory, storage, part) = growing().await;
    storage.apply(vec![append(&part, 0, &"x".repeat(CAPACITY / 2))]).await.expect("stored");
    storage
        .apply(vec![Write::RemoveMessage {
            session_id: part.session_id.clone(),
            id: part.message_id.clone(),
        }])
        .await
        .expect("stored");
    let message = user(&part.session_id);
    let next = text(&message, "");
    storage
        .apply(vec![Write::Message(message.into()), Write::Part(next.clone().into())])
        .await
        .expect("stored");
    let long = "y".repeat(CAPACITY * 2 / 3);
    storage.apply(vec![append(&next, 0, &long)]).await.expect("stored");
    assert_eq!(read(&storage, &next).await, long);
}

#[tokio::test]
async fn a_finished_part_is_as_it_was_written() {
    let (directory, storage, part) = growing().await;
    storage.apply(vec![append(&part, 0, "draft ")]).await.expect("stored");
    let beside = text_behind(&part);
    storage
        .apply(vec![Write::Part(beside.clone().into()), append(&beside, 0, "open")])
        .await
        .expect("stored");
    storage.apply(vec![append(&beside, 4, "!")]).await.expect("stored");
    let time = Some(PartTime { start: 1, end: Some(2) });
    let kind = PartKind::Text(TextPart { text: String::new(), time, ..TextPart::default() });
    storage.apply(vec![Write::Part(Part { kind, ..part.clone() }.into())]).await.expect("stored");
    let other = other(directory.path());
    assert_eq!((read(&other, &part).await, read(&other, &beside).await), (String::new(), "open!".into()));
}

#[tokio::test]
async fn text_is_appended_in_transactions_where_no_slot_can_be_had() {
    let (directory, storage, part) = growing().await;
    fs::write(directory.path().join("windlass.db-appends"), "in the way").expect("written");
    storage.apply(vec![append(&part, 0, "a")]).await.expect("stored");
    storage.apply(vec![append(&part, 1, "b")]).await.expect("stored");
    assert_eq!(read(&other(directory.path()), &part).await, "ab");
}

#[tokio::test]
async fn text_beside_other_changes_comes_behind_the_text_before() {
    let (directory, storage, part) = growing().await;
    storage.apply(vec![append(&part, 0, "one ")]).await.expect("stored");
    let beside = text_behind(&part);
    storage.apply(vec![append(&part, 4, "two "), Write::Part(beside.into())]).await.expect("stored");
    storage.apply(vec![append(&part, 8, "three")]).await.expect("stored");
    assert_eq!(read(&storage, &part).await, "one two three");
    drop(storage);
    let storage = other(directory.path());
    storage.apply(vec![append(&part, 13, "!")]).await.expect("stored");
    assert_eq!(read(&storage, &part).await, "one two three!");
}
