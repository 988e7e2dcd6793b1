//! A server that never gets ready, never answers, or is stopped.

use serde_json::Map;
use tempfile::TempDir;

use super::*;
use crate::lsp::choice::Definition;

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(30);
const PATIENT: Limits =
    Limits { initialize: LONG, request: LONG, look: LONG, work: LONG, start: LONG, diagnose: LONG };

/// Starts a server: the scripted one of the tests in a mode, or any other program.
fn started(command: &[&str], directory: &TempDir, limits: Limits) -> Arc<Client> {
    let definition = Definition {
        id: "toy".to_owned(),
        command: command.iter().map(|it| (*it).to_owned()).collect(),
        extensions: vec![".toy".to_owned()],
        environment: Default::default(),
        initialization: Map::new(),
        row: None,
        sandbox: None,
        sandbox_in_project: None,
    };
    let root = directory.path().canonicalize().unwrap();
    let spec = Spec {
        definition,
        program: command[0].into(),
        directory: root.clone(),
        root,
        initialization: json!({}),
        sandbox: None,
    };
    let client = Arc::new(Client::new(spec, limits, CancellationToken::new()));
    tokio::spawn({
        let client = client.clone();
        async move { client.run().await }
    });
    client
}

fn scripted(mode: &str, directory: &TempDir, limits: Limits) -> Arc<Client> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/lsp/server.py");
    started(&["python3", script, mode], directory, limits)
}

fn file(directory: &TempDir) -> std::path::PathBuf {
    let path = directory.path().canonicalize().unwrap().join("a.toy");
    std::fs::write(&path, "toy").unwrap();
    path
}

fn hover(path: &Path) -> Question<'_> {
    Question { operation: Operation::Hover, path, line: 0, character: 0, query: "" }
}

#[tokio::test]
async fn a_server_that_never_shakes_hands_is_ended() {
    let directory = TempDir::new().unwrap();
    let client = started(&["sleep", "3600"], &directory, Limits { initialize: SHORT, ..PATIENT });
    let reason = "did not answer initialize within 50ms".to_owned();
    assert_eq!(client.ready().await, Err(CallError::Ended(reason.clone())));
    assert_eq!(client.phase(), Phase::Ended { reason, how: End::NotReady });
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_named_and_goes_on() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory);
    let client = scripted("mute", &directory, Limits { request: SHORT, ..PATIENT });
    client.ready().await.unwrap();
    client.open(&path).unwrap();
    let error = client.ask(&hover(&path)).await.unwrap_err();
    assert_eq!(error.to_string(), "did not answer textDocument/hover within 50ms");
    assert_eq!(client.phase(), Phase::Ready);
    client.stop.cancel();
    client.ended().await;
}

#[tokio::test]
async fn a_server_without_progress_reports_is_waited_for_once() {
    let directory = TempDir::new().unwrap();
    let client = scripted("mute", &directory, Limits { look: SHORT, ..PATIENT });
    client.ready().await.unwrap();
    client.settled().await;
    assert!(client.is_settled.load(Ordering::Relaxed));
    client.settled().await;
    client.stop.cancel();
    client.ended().await;
}

#[tokio::test]
async fn the_work_of_a_server_that_has_ended_is_not_awaited() {
    let directory = TempDir::new().unwrap();
    let client = scripted("mute", &directory, PATIENT);
    client.ready().await.unwrap();
    client.stop.cancel();
    client.settled().await;
    assert_eq!(client.ask(&hover(&file(&directory))).await, Err(CallError::Ended("was ended".to_owned())));
}

#[tokio::test]
async fn a_stopped_server_is_ended_even_while_it_starts() {
    let directory = TempDir::new().unwrap();
    let client = started(&["sleep", "3600"], &directory, PATIENT);
    client.stop.cancel();
    assert_eq!(client.ready().await, Err(CallError::Ended("was ended".to_owned())));
}

#[tokio::test]
async fn a_change_waits_for_a_server_that_starts_and_is_not_known_to_be_slow() {
    let directory = TempDir::new().unwrap();
    let path = file(&directory);
    std::fs::write(&path, "wrong").unwrap();
    let client = scripted("strict", &directory, PATIENT);
    tokio::select! {
        found = client.clone().diagnose(path.clone()) => assert_eq!(found.len(), 3, "{found:?}"),
        () = client.patience() => panic!("it is given up"),
    }
    assert!(!client.was_slow());
    client.stop.cancel();

    let deaf = scripted("deaf", &directory, Limits { start: SHORT, ..PATIENT });
    deaf.patience().await;
    assert_eq!(deaf.phase(), Phase::Starting);
    deaf.stop.cancel();
    let slow = scripted("strict", &directory, Limits { start: Duration::ZERO, ..PATIENT });
    slow.ready().await.unwrap();
    assert!(slow.was_slow());
    slow.stop.cancel();
    for client in [client, deaf, slow] {
        client.ended().await;
    }
}
