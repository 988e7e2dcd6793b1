//! The sessions that stay open for requests.

use std::{path::PathBuf, sync::Arc};

use tokio_util::sync::CancellationToken;
use windlass_engine::{Answerable, NewSession, fixture};
use windlass_protocol::opencode::id::SessionId;

use super::{Options, Server, Shared};
use crate::http::access::Access;

fn server() -> (tempfile::TempDir, Shared) {
    let (home, engine) = fixture::engine(&[("PATH", "/usr/bin:/bin")]);
    let access = Arc::new(Access::new(None, Vec::new()));
    let options =
        Options { directory: home.path().to_owned(), access, team: None, login_command: Vec::new() };
    let server = Server::new(engine, options, Answerable::Everything, CancellationToken::new());
    (home, server)
}

async fn create(server: &Shared, directory: PathBuf) -> SessionId {
    let new = NewSession { directory, ..NewSession::default() };
    let id = server.engine.sessions().create(new).await.unwrap().info.id;
    server.hold(&id).await;
    id
}

#[tokio::test]
async fn sessions_that_nothing_uses_are_closed_the_oldest_first_and_opened_again() {
    let (home, server) = server();
    let editor = server.engine.client(Answerable::Nothing);
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(create(&server, home.path().to_owned()).await);
    }
    // One is used, and another client has one open.
    server.open(&ids[0]).await.unwrap();
    editor.hold(&ids[1]);
    server.close_idle_sessions(8).await;
    let open = |ids: &[SessionId]| -> Vec<usize> {
        (0..ids.len()).filter(|index| server.engine.sessions().opened(&ids[*index]).is_some()).collect()
    };
    assert_eq!(open(&ids), [0, 1, 2, 3, 4, 5, 6, 7]);
    server.close_idle_sessions(5).await;
    assert_eq!(open(&ids), [0, 1, 4, 5, 6, 7]);
    assert!(!server.is_in(&ids[2], &home.path().display().to_string()));
    server.open(&ids[2]).await.unwrap();
    assert!(server.is_in(&ids[2], &home.path().display().to_string()));
    // The other client's is still open, and known again once a request uses it.
    server.open(&ids[1]).await.unwrap();
    assert!(server.is_in(&ids[1], &home.path().display().to_string()));
}
