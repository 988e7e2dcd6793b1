//! The limit of running servers, and the choice of the one to end.

use std::{fs, path::PathBuf};

use serde_json::{Map, json};
use tempfile::TempDir;

use super::{choice::Definition, *};

fn spec(root: PathBuf) -> Spec {
    let definition = Definition {
        id: "toy".to_owned(),
        command: vec!["sleep".to_owned(), "3600".to_owned()],
        extensions: vec![".toy".to_owned()],
        environment: BTreeMap::new(),
        initialization: Map::new(),
        row: None,
        sandbox: None,
        sandbox_in_project: None,
    };
    Spec {
        definition,
        program: "sleep".into(),
        directory: root.clone(),
        root,
        initialization: json!({}),
        sandbox: None,
    }
}

#[tokio::test]
async fn the_least_recently_used_server_makes_room_for_another() {
    let directory = TempDir::new().unwrap();
    let servers = Servers::default();
    let lease = |idx: usize| {
        let root = directory.path().join(idx.to_string());
        fs::create_dir_all(&root).unwrap();
        servers.lease(spec(root)).client
    };
    let mut clients: Vec<Arc<Client>> = (0..MAX_SERVERS).map(lease).collect();
    assert!(Arc::ptr_eq(&lease(0), &clients[0]), "one that runs is not started again");
    clients.push(lease(MAX_SERVERS));
    let error = clients[1].ready().await.unwrap_err();
    assert_eq!(error.to_string(), "was ended");
    let running: Vec<bool> = clients.iter().map(|it| it.phase() == Phase::Starting).collect();
    assert_eq!(running.iter().filter(|it| !**it).count(), 1, "{running:?}");
    servers.close().await;
    assert!(clients.iter().all(|it| matches!(it.phase(), Phase::Ended { .. })));
}

#[tokio::test]
async fn a_start_without_the_program_does_not_count() {
    let directory = TempDir::new().unwrap();
    let servers = Servers::default();
    let mut wanted = spec(directory.path().to_owned());
    wanted.program = directory.path().join("missing");
    for _ in 0..=MAX_STARTS {
        let leased = servers.lease(wanted.clone());
        leased.client.ready().await.unwrap_err();
        assert_eq!((leased.n_starts, leased.gave_up()), (1, false));
    }
    servers.close().await;
}
