//! Written data is read back, in spite of everything in between.

use windlass_base::ids;
use windlass_protocol::opencode::{
    id::SessionId,
    message::{Message, UserMessage},
    model_ref::ModelRef,
    part::{Part, PartKind, TextPart},
    session::{Session, SessionTime},
    time::CreatedTime,
};

use super::{Append, SessionQuery, Storage, Write, history::Range};

pub fn session(directory: &str, updated: i64) -> Session {
    Session {
        id: ids::session(),
        slug: "brave-otter".into(),
        project_id: "global".into(),
        directory: directory.into(),
        path: None,
        parent_id: None,
        title: "t".into(),
        version: "0".into(),
        agent: None,
        model: None,
        cost: 0.0,
        tokens: Default::default(),
        summary: None,
        share: None,
        metadata: None,
        permission: None,
        limits: Vec::new(),
        revert: None,
        time: SessionTime { created: updated, updated, compacting: None, archived: None },
    }
}

pub fn user(session_id: &SessionId) -> Message {
    Message::User(UserMessage {
        id: ids::message(),
        session_id: session_id.clone(),
        time: CreatedTime { created: 1 },
        agent: "build".into(),
        model: ModelRef::parse("a/b").expect("model"),
        system: None,
        format: None,
        summary: None,
    })
}

pub fn text(message: &Message, text: &str) -> Part {
    Part {
        id: ids::part(),
        session_id: message.session_id().clone(),
        message_id: message.id().clone(),
        kind: PartKind::Text(TextPart { text: text.into(), ..TextPart::default() }),
    }
}

pub fn append(part: &Part, offset: usize, text: &str) -> Write {
    let (session_id, part_id) = (part.session_id.clone(), part.id.clone());
    Write::Append(Append { session_id, part_id, offset, text: text.into() })
}

pub fn store() -> (tempfile::TempDir, Storage) {
    let directory = tempfile::tempdir().expect("temp dir");
    let storage = Storage::new(directory.path().join("windlass.db"));
    (directory, storage)
}

#[tokio::test]
async fn appended_text_is_part_of_the_part_until_and_after_it_is_finished() {
    let (_directory, storage) = store();
    let session = session("/work", 1);
    let message = user(&session.id);
    let mut part = text(&message, "");
    storage.create_session(session.clone()).await.expect("stored");
    storage
        .apply(vec![Write::Message(message.into()), Write::Part(part.clone().into())])
        .await
        .expect("stored");
    for (offset, piece) in ["a", "b", "c"].into_iter().enumerate() {
        storage.apply(vec![append(&part, offset, piece)]).await.expect("stored");
    }
    let stored = storage.load(session.id.clone()).await.expect("read").expect("there");
    part.kind = PartKind::Text(TextPart { text: "abc".into(), ..TextPart::default() });
    assert_eq!(stored.messages[0].parts, [part.clone()]);
    storage.apply(vec![Write::Part(part.clone().into())]).await.expect("stored");
    let stored = storage.load(session.id).await.expect("read").expect("there");
    assert_eq!(stored.messages[0].parts, [part]);
}

#[tokio::test]
async fn a_page_continues_behind_the_cursor_even_among_equal_times() {
    let (_directory, storage) = store();
    for index in 0..7 {
        assert!(storage.create_session(session("/work", index / 3)).await.expect("stored"));
    }
    storage.create_session(session("/elsewhere", 9)).await.expect("stored");
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let query =
            SessionQuery { directory: Some("/work".into()), after, limit: 2, ..SessionQuery::default() };
        let page = storage.list(query).await.expect("read");
        let Some(last) = page.last() else { break };
        after = Some((last.time.updated, last.id.to_string()));
        seen.extend(page.into_iter().map(|session| session.id));
    }
    assert_eq!(seen.len(), 7);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 7);
}

#[tokio::test]
async fn pages_of_a_history_are_the_whole_history() {
    let (_directory, storage) = store();
    let session = session("/work", 1);
    storage.create_session(session.clone()).await.expect("stored");
    for index in 0..7 {
        let message = user(&session.id);
        let parts = [text(&message, &format!("a{index}")), text(&message, "")];
        let appended = append(&parts[1], 0, &format!("b{index}"));
        let [first, second] = parts.map(|part| Write::Part(part.into()));
        storage.apply(vec![Write::Message(message.into()), first, second, appended]).await.expect("stored");
    }
    let whole = storage.load(session.id.clone()).await.expect("read").expect("there").messages;
    let outline = storage.outline(session.id.clone()).await.expect("read").expect("there");
    assert_eq!(outline.newest.as_ref(), whole.last().map(|message| message.info.id()));
    assert_eq!(outline.last_prompt.map(Message::User).as_ref(), whole.last().map(|message| &message.info));
    let mut range = Range { after: None, until: Some(whole[5].info.id().clone()) };
    let mut read = Vec::new();
    loop {
        let page = storage
            .page(session.id.clone(), range.clone(), 4)
            .await
            .expect("read")
            .expect("the session")
            .messages;
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 4);
        range.after = Some(last.info.id().clone());
        read.extend(page);
    }
    assert_eq!(read, whole[..6]);
}

#[tokio::test]
async fn a_page_of_large_messages_is_short() {
    let (_directory, storage) = store();
    let session = session("/work", 1);
    storage.create_session(session.clone()).await.expect("stored");
    for _ in 0..4 {
        let message = user(&session.id);
        let part = text(&message, &"x".repeat(600_000));
        storage.apply(vec![Write::Message(message.into()), Write::Part(part.into())]).await.expect("stored");
    }
    let page =
        storage.page(session.id, Range::default(), 100).await.expect("read").expect("the session").messages;
    assert_eq!(page.len(), 2);
}

#[tokio::test]
async fn a_failed_batch_leaves_nothing_and_does_not_undo_its_neighbours() {
    let (_directory, storage) = store();
    let session = session("/work", 1);
    storage.create_session(session.clone()).await.expect("stored");
    let good = user(&session.id);
    let orphan = text(&user(&session.id), "no such message");
    let (failed, stored) = tokio::join!(
        storage.apply(vec![Write::Message(user(&session.id).into()), Write::Part(orphan.into())]),
        storage.apply(vec![Write::Message(good.clone().into())]),
    );
    assert!(failed.is_err());
    stored.expect("stored");
    let messages = storage.load(session.id).await.expect("read").expect("there").messages;
    assert_eq!(messages.into_iter().map(|message| message.info).collect::<Vec<_>>(), [good]);
}

#[tokio::test]
async fn a_message_of_another_session_is_not_overwritten() {
    let (_directory, storage) = store();
    let (one, other) = (session("/work", 1), session("/work", 2));
    for session in [&one, &other] {
        storage.create_session(session.clone()).await.expect("stored");
    }
    let own = user(&one.id);
    storage.apply(vec![Write::Message(own.clone().into())]).await.expect("stored");
    let Message::User(mut taken) = own.clone() else { unreachable!("a prompt") };
    taken.session_id = other.id;
    let refused = storage.apply(vec![Write::Message(Message::User(taken).into())]).await;
    assert!(refused.is_err_and(|error| error.to_string().contains(own.id().as_str())));
    let messages = storage.load(one.id).await.expect("read").expect("there").messages;
    assert_eq!(messages.into_iter().map(|message| message.info).collect::<Vec<_>>(), [own]);
}

#[tokio::test]
async fn two_processes_may_write_at_once() {
    let (directory, first) = store();
    let second = Storage::new(directory.path().join("windlass.db"));
    let write = |storage: Storage| async move {
        for _ in 0..50 {
            storage.create_session(session("/work", 1)).await.expect("stored");
        }
    };
    tokio::join!(write(first.clone()), write(second));
    let all = first.list(SessionQuery { limit: 1000, ..SessionQuery::default() }).await.expect("read");
    assert_eq!(all.len(), 100);
}

#[tokio::test]
async fn deleting_takes_the_subagents_along() {
    let (_directory, storage) = store();
    let parent = session("/work", 1);
    let mut child = session("/work", 1);
    child.parent_id = Some(parent.id.clone());
    storage.create_session(parent.clone()).await.expect("stored");
    storage.create_session(child.clone()).await.expect("stored");
    storage.apply(vec![Write::Message(user(&child.id).into())]).await.expect("stored");
    assert!(storage.delete_session(parent.id.clone()).await.expect("deleted"));
    assert!(!storage.delete_session(parent.id).await.expect("nothing left"));
    assert!(storage.load(child.id).await.expect("read").is_none());
}
