//! Faults inside a turn stay inside it, and files are read again when nobody watches them.

use std::sync::{Arc, Mutex, atomic::Ordering};

use tokio::sync::oneshot;
use windlass_protocol::opencode::event::EventKind;

use super::{Engine, EngineErrorKind, NewSession, PromptInput, PromptPart, StopReason, TurnOutcome};
use crate::{
    bus::Filter,
    config::{Environment, paths::Paths},
    engine::EngineError,
};

/// An engine without a provider, so that the demo model answers.
fn engine() -> (tempfile::TempDir, Engine) {
    let home = tempfile::tempdir().expect("temp dir");
    let environment = Environment { home: home.path().to_owned(), ..Environment::default() };
    let paths = Paths::new(&environment);
    (home, Engine::new(environment, paths))
}

async fn ask(engine: &Engine, id: &super::SessionId, text: &str) -> Result<TurnOutcome, EngineError> {
    let part = PromptPart::Text { text: text.to_owned(), is_synthetic: false, is_ignored: false };
    let input = PromptInput { parts: vec![part], ..PromptInput::default() };
    let (sender, ended) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    engine.prompt(
        id,
        input,
        Box::new(move |result| {
            let sender = sender.lock().expect("lock").take().expect("answered once");
            sender.send(result).expect("somebody waits");
        }),
    );
    ended.await.expect("every prompt is answered")
}

#[tokio::test]
async fn a_panic_fails_its_turn_and_the_session_goes_on() {
    let (home, engine) = engine();
    let new = NewSession { directory: home.path().to_owned(), ..NewSession::default() };
    let id = engine.create_session(new).await.expect("made").info.id;
    let failed = ask(&engine, &id, crate::provider::demo::PANIC).await.expect_err("the turn fails");
    assert_eq!(failed.kind, EngineErrorKind::Internal);
    let outcome = ask(&engine, &id, "hello").await.expect("the session goes on");
    assert_eq!(outcome.stop, StopReason::EndTurn);
    engine.finish().await;
}

#[tokio::test]
async fn a_turn_reads_the_files_again_where_they_cannot_be_watched() {
    let (home, engine) = engine();
    let new = NewSession { directory: home.path().to_owned(), ..NewSession::default() };
    let opened = engine.create_session(new).await.expect("made");
    let told = engine.bus().listen(Filter::Only(vec![EventKind::ConfigUpdated]));
    let poet = r#"{"agent": {"poet": {"mode": "primary"}}}"#;
    std::fs::write(home.path().join("opencode.json"), poet).expect("written");
    ask(&engine, &opened.info.id, "hello").await.expect("answered");
    assert!(opened.workspace.loaded().agent("poet").is_none());
    opened.workspace.is_blind.store(true, Ordering::Relaxed);
    ask(&engine, &opened.info.id, "hello").await.expect("answered");
    assert!(opened.workspace.loaded().agent("poet").is_some());
    // What says the same is not told again.
    ask(&engine, &opened.info.id, "hello").await.expect("answered");
    let mut events = std::collections::VecDeque::new();
    told.next_batch(&mut events).await;
    assert_eq!(events.len(), 1);
    engine.finish().await;
}
