//! Every kind of change is seen without git, and a worktree without one needs no git.

use std::{
    fs,
    os::unix::fs::symlink,
    time::{Duration, Instant},
};

use crate::snapshot::tests::Scene;

/// Takes snapshots until the worktree is known to be as the newest one.
async fn settle(scene: &Scene) -> String {
    // A watch would know it sooner.
    scene.snapshots.state.lock().await.next_watch = Some(Instant::now() + Duration::from_secs(3600));
    loop {
        let tree = scene.track().await;
        let mut state = scene.snapshots.state.lock().await;
        state.next_look = None;
        if state.newest.as_ref().is_some_and(|newest| newest.look.is_some()) {
            return tree;
        }
    }
}

async fn is_unchanged(scene: &Scene) -> bool {
    let mut state = scene.snapshots.state.lock().await;
    scene.snapshots.unchanged(&mut state).await.is_some()
}

#[tokio::test]
async fn every_change_is_seen() {
    type Change = fn(&Scene);
    let changes: [(&str, Change); 11] = [
        ("a new file", |it| it.write("new", b"")),
        ("a new file in a directory without files", |it| it.write("empty/one/new", b"")),
        ("a new file beside ignored ones", |it| it.write("logs/new", b"")),
        ("a new directory with a file", |it| it.write("fresh/new", b"")),
        ("contents of the same length", |it| it.write("dir/below/file", b"other")),
        ("a removed file", |it| fs::remove_file(it.path("dir/other")).unwrap()),
        ("a mode", |it| it.mode("dir/other", 0o755)),
        ("a renamed file", |it| fs::rename(it.path("dir/other"), it.path("dir/moved")).unwrap()),
        ("a file that became a link", |it| {
            fs::remove_file(it.path("dir/other")).unwrap();
            symlink("below/file", it.path("dir/other")).unwrap();
        }),
        ("a directory that became a link to itself", |it| {
            fs::rename(it.path("dir"), it.path("ignored/dir")).unwrap();
            symlink("ignored/dir", it.path("dir")).unwrap();
        }),
        ("a file that is ignored no more", |it| it.write(".gitignore", b"*.log\n")),
    ];
    for (name, change) in changes {
        let scene = Scene::with_ignored().await;
        let before = settle(&scene).await;
        assert!(is_unchanged(&scene).await, "{name}");
        change(&scene);
        assert!(!is_unchanged(&scene).await, "{name}");
        assert_ne!(scene.track().await, before, "{name}");
    }
}

#[tokio::test]
async fn an_ignored_directory_may_change() {
    let scene = Scene::with_ignored().await;
    settle(&scene).await;
    scene.write("ignored/deep/new", b"new");
    assert!(is_unchanged(&scene).await);
}

#[tokio::test]
async fn an_index_that_only_git_understands_is_left_to_git() {
    let scene = Scene::with_ignored().await;
    settle(&scene).await;
    let index = scene.snapshots.git.directory().join("index");
    let bytes = fs::read(&index).unwrap();
    let look = super::Look::take(&scene.snapshots.git, &scene.work()).await.unwrap().unwrap();
    assert!(look.holds(&index, &scene.work(), 20));
    assert!(!look.holds(&index, &scene.work(), 32));
    for (at, byte) in [(0, b'X'), (7, 4), (11, 200)] {
        let mut changed = bytes.clone();
        changed[at] = byte;
        fs::write(&index, changed).unwrap();
        assert!(!look.holds(&index, &scene.work(), 20), "{at}");
    }
}
