//! Faults inside a turn stay inside it, and files are read again when they cannot be watched.

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::oneshot,
};
use tokio_util::task::AbortOnDropHandle;
use windlass_base::{ids, lock::lock};
use windlass_core::{
    bus::Filter,
    config::{Environment, Hook, paths::Paths, rules::rule},
};
use windlass_protocol::opencode::{
    event::EventKind,
    id::SessionId,
    part::{PartKind, ToolState},
    permission::Action,
    settings::Share,
};
use windlass_provider::{Prompt, demo};

use crate::{
    Engine, EngineError, EngineErrorKind, NewSession, Pages, PromptInput, PromptPart, RevertTo, StopReason,
    TurnOutcome, fixture, workspace::directory::Reloading,
};

#[tokio::test]
async fn what_hooks_change_holds_and_is_named_as_theirs() {
    let home = tempfile::tempdir().expect("temp dir");
    std::fs::write(home.path().join("opencode.json"), r#"{"share": "manual", "model": "own/one"}"#)
        .expect("written");
    let environment =
        Environment { trusts_projects: true, home: home.path().to_owned(), variables: Default::default() };
    let paths = Paths::new(&environment);
    let change = |config: &mut serde_json::Map<String, serde_json::Value>| {
        config.insert("share".to_owned(), "auto".into());
        config.insert("agent".to_owned(), serde_json::json!({"planner": {"mode": "primary", "steps": "x"}}));
        Ok(())
    };
    let hook = Hook { name: "planner@1.0".to_owned(), change: Arc::new(change), is_held: false };
    let engine = Engine::with_hooks(environment, paths, vec![hook]);
    let new = NewSession { directory: home.path().to_owned(), ..NewSession::default() };
    let opened = engine.sessions().create(new).await.expect("a session");
    assert!(opened.workspace.loaded().agent("planner").is_some());
    let report = engine.diagnostics().examine(home.path(), Pages::AreLeft).await.expect("read");
    let share = report.leaves.iter().find(|leaf| leaf.path == ["share"]).expect("there");
    assert_eq!((&share.value, share.set_by[0].source.as_str()), (&"auto".into(), "planner@1.0"));
    assert!(share.set_by[1].source.ends_with("opencode.json"));
    let told: Vec<String> = report.warnings.iter().map(ToString::to_string).collect();
    assert!(told[0].starts_with("planner@1.0: agent.planner.steps: "), "{told:?}");
    // Later changes go through the hooks too.
    std::fs::write(home.path().join("opencode.json"), r#"{"share": "disabled"}"#).expect("written");
    let again = engine.workspaces().read_files(home.path()).await.expect("read");
    assert_eq!(again.config.settings.share, Some(Share::Auto));
    engine.finish().await;
}

/// Returns a prompt for the demo.
fn input(parts: Vec<PromptPart>) -> PromptInput {
    PromptInput { parts, model: Some(demo::reference()), ..PromptInput::default() }
}

async fn ask(engine: &Engine, id: &SessionId, text: &str) -> Result<TurnOutcome, EngineError> {
    let part = PromptPart::Text { text: text.to_owned(), is_synthetic: false, is_ignored: false };
    give(engine, id, input(vec![part])).await
}

async fn give(engine: &Engine, id: &SessionId, input: PromptInput) -> Result<TurnOutcome, EngineError> {
    let (sender, ended) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    engine.sessions().prompt(
        id,
        input,
        Box::new(move |result| {
            let sender = sender.lock().expect("lock").take().expect("answered once");
            sender.send(result).expect("somebody waits");
        }),
    );
    ended.await.expect("every prompt is answered")
}

/// The text with which a test makes a turn panic.
const PANIC: &str = "panic, please";

/// Panics in the place of the first request of a turn with the prompt [`PANIC`].
pub fn panic_if_asked(prompt: &Prompt<'_>) {
    assert!(!format!("{prompt:?}").contains(PANIC) || prompt.tools.is_empty() || prompt.messages.len() > 1);
}

#[tokio::test]
async fn a_panic_fails_its_turn_and_the_session_goes_on() {
    let (home, engine) = fixture::engine(&[]);
    let new = NewSession { directory: home.path().to_owned(), ..NewSession::default() };
    let id = engine.sessions().create(new).await.expect("made").info.id;
    let failed = ask(&engine, &id, PANIC).await.expect_err("the turn fails");
    assert_eq!(failed.kind, EngineErrorKind::Internal);
    let outcome = ask(&engine, &id, "hello").await.expect("the session goes on");
    assert_eq!(outcome.stop, StopReason::EndTurn);
    engine.finish().await;
}

#[tokio::test]
async fn a_turn_reads_the_files_again_where_they_cannot_be_watched() {
    let (home, engine) = fixture::engine(&[]);
    let new = NewSession { directory: home.path().to_owned(), ..NewSession::default() };
    let opened = engine.sessions().create(new).await.expect("made");
    let told = engine.bus().listen(Filter::Only(vec![EventKind::ConfigUpdated]));
    let poet = r#"{"agent": {"poet": {"mode": "primary"}}}"#;
    std::fs::write(home.path().join("opencode.json"), poet).expect("written");
    ask(&engine, &opened.info.id, "hello").await.expect("answered");
    assert!(opened.workspace.loaded().agent("poet").is_none());
    opened.workspace.polls_each_turn.store(true, Ordering::Relaxed);
    ask(&engine, &opened.info.id, "hello").await.expect("answered");
    assert!(opened.workspace.loaded().agent("poet").is_some());
    // The same warning is not shown again.
    ask(&engine, &opened.info.id, "hello").await.expect("answered");
    let mut events = std::collections::VecDeque::new();
    told.next_batch(&mut events).await;
    assert_eq!(events.len(), 1);
    engine.finish().await;
}

#[tokio::test]
async fn a_turn_does_not_wait_for_ever_for_files_that_are_being_read() {
    let (home, engine) = fixture::engine(&[]);
    let new = NewSession { directory: home.path().to_owned(), ..NewSession::default() };
    let opened = engine.sessions().create(new).await.expect("made");
    let (turns, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let _task = AbortOnDropHandle::new(tokio::spawn(std::future::pending()));
    *lock(&opened.workspace.reloading) = Some(Reloading { turns, _task });
    let caught_up = engine.workspaces().sync_config(&opened.workspace);
    tokio::time::timeout(std::time::Duration::from_secs(20), caught_up).await.expect("bounded");
    assert!(begun.try_recv().is_ok_and(|turn| turn.is_closed()));
    engine.finish().await;
}

/// Answers every request with the text of that moment; returns the address.
async fn serve(text: Arc<Mutex<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let text = lock(&text).clone();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}",
                text.len()
            );
            let n_bytes = stream.read(&mut [0; 4096]).await.expect("asked");
            assert!(n_bytes > 0);
            stream.write_all(answer.as_bytes()).await.expect("answered");
        }
    });
    url
}

#[tokio::test]
async fn a_turn_has_an_organisation_asked_that_was_not_asked_for_long() {
    let config = |action: &str| format!(r#"{{"config": {{"permission": {{"bash": "{action}"}}}}}}"#);
    let text = Arc::new(Mutex::new(config("ask")));
    let url = serve(text.clone()).await;
    let keys = format!(r#"{{"{url}": {{"type": "wellknown", "key": "TOKEN", "token": "secret"}}}}"#);
    let (home, engine) = fixture::engine(&[("OPENCODE_AUTH_CONTENT", &keys)]);
    let told = engine.bus().listen(Filter::Only(vec![EventKind::ConfigUpdated]));
    let mut events = std::collections::VecDeque::new();
    let new = NewSession { directory: home.path().to_owned(), ..NewSession::default() };
    let opened = engine.sessions().create(new).await.expect("made");
    told.next_batch(&mut events).await;
    let is_denied = || {
        let permission = &opened.workspace.loaded().config.permission;
        permission.contains(&rule("bash", "*", Action::Deny))
    };

    *lock(&text) = config("deny");
    ask(&engine, &opened.info.id, "hello").await.expect("answered");
    assert!(!is_denied(), "it was asked a moment ago");
    engine.0.freshness.forget(&crate::freshness::Refreshed::Organisations);
    ask(&engine, &opened.info.id, "hello").await.expect("answered");
    told.next_batch(&mut events).await;
    assert!(is_denied());
    engine.finish().await;
}

#[tokio::test]
async fn a_session_at_work_is_not_taken_back() {
    let (home, engine) = fixture::engine(&[]);
    let new = NewSession { directory: home.path().to_owned(), ..NewSession::default() };
    let id = engine.sessions().create(new).await.expect("made").info.id;
    let asked = ask(&engine, &id, "hello");
    let reverted = async {
        // The prompt is handed over first.
        tokio::task::yield_now().await;
        engine.sessions().revert(&id, RevertTo::Prompts(1)).await
    };
    let (outcome, reverted) = tokio::join!(asked, reverted);
    outcome.expect("answered");
    assert_eq!(reverted.expect_err("it works").kind, EngineErrorKind::SessionBusy);
    let reverted = engine.sessions().revert(&id, RevertTo::Prompts(1)).await.expect("idle");
    assert_eq!(reverted.prompt.as_deref(), Some("hello"));
    let record = engine.sessions().record(&id).await.expect("stored").without_undone();
    assert!(record.messages.is_empty() && record.info.revert.is_some());
    let unknown = RevertTo::Message { message_id: ids::message(), part_id: None };
    let unknown = engine.sessions().revert(&id, unknown).await.expect_err("unknown");
    assert_eq!(unknown.kind, EngineErrorKind::MessageNotFound);
    let other = engine.sessions().revert(&ids::session(), RevertTo::Nothing).await.expect_err("not open");
    assert!(matches!(other.kind, EngineErrorKind::SessionNotFound(_)));
    engine.finish().await;
}

#[tokio::test]
async fn a_prompt_without_a_reply_is_kept_for_the_next_one() {
    let (home, engine) = fixture::engine(&[]);
    let new = NewSession { directory: home.path().to_owned(), ..NewSession::default() };
    let id = engine.sessions().create(new).await.expect("made").info.id;
    let part = PromptPart::Text { text: "kept".to_owned(), is_synthetic: false, is_ignored: false };
    let input = PromptInput { no_reply: true, ..input(vec![part]) };
    let outcome = give(&engine, &id, input).await.expect("kept");
    let record = engine.sessions().record(&id).await.expect("stored");
    let [kept] = record.messages.as_slice() else { panic!("{:?}", record.messages) };
    assert_eq!((outcome.stop, outcome.message_id.as_ref()), (StopReason::EndTurn, Some(kept.info.id())));
    ask(&engine, &id, "hello").await.expect("answered");
    let record = engine.sessions().record(&id).await.expect("stored");
    assert_eq!(record.messages.len(), 3, "{:?}", record.messages);
    engine.finish().await;
}

/// Returns the description of each `task` call of a session, with its state.
async fn tasks(engine: &Engine, id: &SessionId) -> Vec<(String, &'static str)> {
    let record = engine.sessions().record(id).await.expect("stored");
    let parts = record.messages.into_iter().flat_map(|message| message.parts);
    let tasks = parts.filter_map(|part| match part.kind {
        PartKind::Tool(tool) if tool.tool == "task" => {
            let description = tool.state.input()["description"].as_str().unwrap_or_default().to_owned();
            let state = if matches!(tool.state, ToolState::Completed { .. }) { "completed" } else { "not" };
            Some((description, state))
        }
        _other => None,
    });
    tasks.collect()
}

#[tokio::test]
async fn work_for_subagents_is_done_before_the_answer_also_what_a_killed_daemon_did_not_begin() {
    let (home, engine) = fixture::engine(&[]);
    let new = NewSession { directory: home.path().to_owned(), ..NewSession::default() };
    let id = engine.sessions().create(new).await.expect("made").info.id;
    let subtask = |description: &str| PromptPart::Subtask {
        prompt: "hello".to_owned(),
        description: description.to_owned(),
        agent: "general".to_owned(),
        model: None,
    };
    let given = input(vec![subtask("one"), subtask("two")]);
    give(&engine, &id, given).await.expect("answered");
    let done =
        |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "completed")).collect::<Vec<_>>();
    assert_eq!(tasks(&engine, &id).await, done(&["one", "two"]));
    // The daemon was killed when the message was stored.
    let left = PromptInput { no_reply: true, ..input(vec![subtask("left")]) };
    give(&engine, &id, left).await.expect("kept");
    assert_eq!(tasks(&engine, &id).await, done(&["one", "two"]));
    ask(&engine, &id, "hello").await.expect("answered");
    ask(&engine, &id, "hello").await.expect("answered");
    assert_eq!(tasks(&engine, &id).await, done(&["one", "two", "left"]));
    engine.finish().await;
}

#[tokio::test]
async fn a_session_without_work_gives_its_memory_back_and_goes_on_from_the_store() {
    let (home, mut engine) = fixture::engine(&[]);
    Arc::get_mut(&mut engine.0).expect("new").sessions.idle = Duration::ZERO;
    let new = NewSession { directory: home.path().to_owned(), ..NewSession::default() };
    let id = engine.sessions().create(new).await.expect("made").info.id;
    ask(&engine, &id, "hello").await.expect("answered");
    let released = async {
        while lock(&engine.0.sessions.open).get(&id).is_some_and(|open| open.task.is_some()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), released).await.expect("the task ends");
    ask(&engine, &id, "hello").await.expect("answered");
    assert_eq!(engine.sessions().record(&id).await.expect("stored").messages.len(), 4);
    // No prompt is lost, however far the task has come in ending.
    for n_yields in 0..40 {
        for _ in 0..n_yields {
            tokio::task::yield_now().await;
        }
        let asked = futures_util::future::join_all((0..3).map(|_| ask(&engine, &id, "hello")));
        let answered =
            tokio::time::timeout(Duration::from_secs(10), asked).await.expect("none waits for ever");
        assert!(answered.iter().all(Result::is_ok), "{answered:?}");
    }
    engine.finish().await;
}
