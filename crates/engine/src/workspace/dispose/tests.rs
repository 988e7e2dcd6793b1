//! The directories with running services.

use std::{fs, path::PathBuf};

use crate::{Answerable, NewSession, fixture::Scene};

#[tokio::test]
async fn directories_that_nothing_uses_are_closed_the_oldest_first() {
    let scene = Scene::empty();
    let engine = &scene.engine;
    let server = engine.client(Answerable::Nothing);
    let editor = engine.client(Answerable::Nothing);
    let mut directories = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        let directory: PathBuf = scene.path(name);
        fs::create_dir(&directory).unwrap();
        let new = NewSession { directory: directory.clone(), ..NewSession::default() };
        let opened = engine.sessions().create(new).await.unwrap();
        server.hold(&opened.info.id);
        if name == "a" {
            editor.hold(&opened.info.id);
        }
        directories.push(directory);
    }
    engine.workspaces().close_idle(&server, 5, |_| false).await;
    assert_eq!(engine.workspaces().directories().len(), 5);
    // The first is shared and the second is watched.
    engine.workspaces().close_idle(&server, 3, |directory| directory == directories[1]).await;
    let open: Vec<PathBuf> = engine.workspaces().directories().into_iter().collect();
    assert_eq!(open, [&directories[0], &directories[1], &directories[4]].map(Clone::clone));
    engine.workspaces().workspace(&directories[2]).await.unwrap();
    engine.workspaces().workspace(&directories[1]).await.unwrap();
    engine.workspaces().close_idle(&server, 3, |_| false).await;
    let open: Vec<PathBuf> = engine.workspaces().directories().into_iter().collect();
    assert_eq!(open, [&directories[0], &directories[1], &directories[2]].map(Clone::clone));
}
