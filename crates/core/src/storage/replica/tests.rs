//! A session that is made anew elsewhere is the same one.

use serde_json::{Value, json};
use windlass_protocol::opencode::session::{Todo, TodoPriority, TodoStatus};

use super::{
    super::{
        KnownFile,
        client_prompt::ClientPrompt,
        tests::{append, session, store, text, user},
    },
    *,
};

fn written(writes: &[Write]) -> Vec<Value> {
    writes.iter().map(|write| serde_json::to_value(write).expect("JSON")).collect()
}

#[tokio::test]
async fn a_session_is_the_same_wherever_it_is_made_anew() {
    let (_directory, one) = store();
    let root = session("/work", 1);
    let id = root.id.clone();
    let mut child = session("/work", 2);
    child.parent_id = Some(id.clone());
    one.create_session(root.clone()).await.expect("stored");
    one.create_session(child.clone()).await.expect("stored");
    let (message, below) = (user(&id), user(&child.id));
    let part = text(&message, "one ");
    let todo = Todo { content: "look".to_owned(), status: TodoStatus::Pending, priority: TodoPriority::High };
    let file = KnownFile { path: "/work/a.txt".into(), seen_ms: 3, stamp: json!({"size": 1}) };
    one.apply(vec![
        Write::Message(message.clone().into()),
        Write::Part(part.clone().into()),
        Write::Message(below.clone().into()),
        Write::Part(text(&below, "below").into()),
        Write::Todos { session_id: id.clone(), todos: vec![todo].into() },
        Write::KnownFile { session_id: id.clone(), file },
    ])
    .await
    .expect("stored");
    one.apply(vec![append(&part, 4, "two")]).await.expect("stored");
    one.rename(id.clone(), "mine".to_owned()).await.expect("stored");
    one.patch(id.clone(), |info| info.time.archived = Some(7)).await.expect("stored");
    let prompt = ClientPrompt { is_override: false, text: "be brief".to_owned() };
    one.set_client_prompt(id.clone(), Some(prompt)).await.expect("stored");
    one.keep_prompt(id.clone(), below.id().clone(), json!({"text": "later"})).await.expect("stored");

    let writes = one.as_writes(id.clone()).await.expect("read").expect("there");
    let (_elsewhere, two) = store();
    // An older copy gives way, and text that is said twice counts once.
    two.create_session(root.clone()).await.expect("stored");
    two.apply(vec![Write::Message(user(&id).into())]).await.expect("stored");
    let mut again = writes.clone();
    again.push(append(&part, 4, "two"));
    two.replace(id.clone(), again, 5).await.expect("replaced");
    let anew = two.as_writes(id.clone()).await.expect("read").expect("there");
    assert_eq!(written(&anew), written(&writes));
    assert_eq!(two.mark(id.clone()).await.expect("read"), Some(Mark { epoch: 5, is_complete: false }));
    let info = two.session(id).await.expect("read").expect("there");
    assert_eq!((info.title.as_str(), info.time.archived), ("mine", Some(7)));
    assert_eq!(two.root_of(child.id).await.expect("read"), root.id);
}

#[tokio::test]
async fn a_row_of_the_list_takes_the_place_of_an_older_copy_alone() {
    let (_directory, storage) = store();
    let (own, older, new) = (session("/own", 1), session("/older", 1), session("/new", 1));
    for info in [&own, &older] {
        storage.create_session(info.clone()).await.expect("stored");
    }
    storage.set_mark(own.id.clone(), Mark { epoch: 4, is_complete: false }).await.expect("stored");
    storage.set_mark(older.id.clone(), Mark { epoch: 3, is_complete: true }).await.expect("stored");
    storage.rename(older.id.clone(), "before".to_owned()).await.expect("stored");
    let listed = [&own, &older, &new].map(|info| {
        let mut info = info.clone();
        info.title = "listed".to_owned();
        (info, 4)
    });
    storage.take_listed(listed.to_vec()).await.expect("stored");
    let title =
        async |info: &Session| storage.session(info.id.clone()).await.expect("read").expect("there").title;
    assert_eq!(title(&own).await, own.title);
    assert_eq!(title(&older).await, "listed");
    assert_eq!(title(&new).await, "listed");
    let mark = storage.mark(new.id).await.expect("read").expect("marked");
    assert_eq!(mark.epoch, LISTED);
}
