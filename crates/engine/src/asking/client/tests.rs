//! Two front ends on one engine: each has its own sessions, and leaves the other's alone.

use std::{pin::pin, task::Poll};

use futures_util::poll;
use tokio_util::sync::CancellationToken;
use windlass_base::queue::Queue;
use windlass_protocol::opencode::{
    event::EventPayload,
    id::{MessageId, SessionId},
    permission::ToolRef,
    question::Question,
};
use windlass_services::tool::ToolError;

use super::{Answerable, Client};
use crate::{Engine, fixture};

fn engine() -> Engine {
    fixture::engine(&[]).1
}

fn session(id: &str) -> SessionId {
    SessionId::from_trusted(id)
}

/// Returns a client that holds these sessions.
fn client(engine: &Engine, answerable: Answerable, sessions: &[&str]) -> Client {
    let client = engine.client(answerable);
    for id in sessions {
        assert!(client.hold(&session(id)));
    }
    client
}

/// Asks the user of a session something.
async fn ask(engine: &Engine, id: &str) -> Result<Vec<Vec<String>>, ToolError> {
    let tool = ToolRef { message_id: MessageId::from_trusted("msg_1"), call_id: "call_1".to_owned() };
    let question = Question {
        question: "A?".to_owned(),
        header: String::new(),
        options: Vec::new(),
        multiple: None,
        custom: None,
    };
    let cancel = CancellationToken::new();
    engine.questions().ask(&session(id), tool, vec![question], None, &cancel).await
}

fn is_refused(result: &Poll<Result<Vec<Vec<String>>, ToolError>>) -> bool {
    matches!(result, Poll::Ready(Err(ToolError::Model(_))))
}

#[tokio::test]
async fn only_a_client_of_the_session_is_asked() {
    let engine = engine();
    let _other = client(&engine, Answerable::Everything, &["ses_2"]);
    let _reader = client(&engine, Answerable::Nothing, &["ses_1"]);
    assert!(is_refused(&poll!(pin!(ask(&engine, "ses_1")))));
    let mut asking = pin!(ask(&engine, "ses_2"));
    assert_eq!(poll!(asking.as_mut()), Poll::Pending);
}

#[tokio::test]
async fn what_one_client_leaves_unanswered_the_other_answers() {
    let engine = engine();
    let first = client(&engine, Answerable::Everything, &["ses_1"]);
    let second = client(&engine, Answerable::Everything, &["ses_1"]);
    let mut asking = pin!(ask(&engine, "ses_1"));
    assert_eq!(poll!(asking.as_mut()), Poll::Pending);
    drop(first);
    assert_eq!(poll!(asking.as_mut()), Poll::Pending);
    let waiting = engine.asking().pending_questions(&session("ses_1")).remove(0);
    assert!(engine.asking().reply_question(&waiting.id, vec![vec!["x".to_owned()]]));
    assert_eq!(poll!(asking.as_mut()), Poll::Ready(Ok(vec![vec!["x".to_owned()]])));
    drop(second);
    assert!(is_refused(&poll!(pin!(ask(&engine, "ses_1")))));
}

#[tokio::test]
async fn the_last_client_that_leaves_settles_what_waits() {
    let engine = engine();
    let elsewhere = client(&engine, Answerable::Everything, &["ses_2"]);
    for leave in [drop, |client: Client| client.release(&session("ses_1"))] {
        let own = client(&engine, Answerable::Everything, &["ses_1"]);
        let mut asking = pin!(ask(&engine, "ses_1"));
        assert_eq!(poll!(asking.as_mut()), Poll::Pending);
        leave(own);
        assert!(is_refused(&poll!(asking.as_mut())));
    }
    drop(elsewhere);
}

#[tokio::test]
async fn a_dropped_client_reads_no_more() {
    let engine = engine();
    let own = client(&engine, Answerable::Nothing, &["ses_1"]);
    let events = own.listen();
    engine.bus().publish(EventPayload::SessionIdle { session_id: session("ses_2") });
    engine.bus().publish(EventPayload::SessionIdle { session_id: session("ses_1") });
    assert_eq!(heard(&events), [EventPayload::SessionIdle { session_id: session("ses_1") }]);
    drop(own);
    assert!(events.is_closed());
    engine.bus().publish(EventPayload::SessionIdle { session_id: session("ses_1") });
    assert_eq!(heard(&events), []);
}

fn heard(queue: &Queue<std::sync::Arc<windlass_protocol::opencode::event::Event>>) -> Vec<EventPayload> {
    let mut batch = Default::default();
    queue.take(&mut batch);
    batch.iter().map(|event| event.payload.clone()).collect()
}
