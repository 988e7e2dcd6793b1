//! Worktrees for tasks: made, listed, reset and removed, and none but these.

use std::fs;

use windlass_core::bus::Filter;
use windlass_engine::{
    WorktreeError,
    fixture::{Scene, next_service_event},
};
use windlass_protocol::opencode::{event::EventPayload, project::WorktreeCreate, service::ServiceNews};

use super::Projects;

#[tokio::test]
async fn a_worktree_is_made_reset_and_removed() {
    let scene = Scene::with_commit(&[("a.txt", "one\n")]).await;
    let workspace = scene.workspace().await;
    let events = scene.engine.bus().listen(Filter::All);
    let create = WorktreeCreate {
        name: Some("My Feature!".to_owned()),
        start_command: Some("echo ready > made.txt".to_owned()),
    };
    let made = scene.engine.worktrees().create(&workspace, create).await.unwrap();
    assert_eq!((made.name.as_str(), made.branch.as_deref()), ("my-feature", Some("opencode/my-feature")));
    let ready = next_service_event(&events).await;
    let EventPayload::Service(ready) = ready else { panic!("{ready:?}") };
    assert_eq!(ready.directory.as_ref(), Some(&made.directory));
    assert!(matches!(ready.news, ServiceNews::WorktreeReady { .. }), "{ready:?}");
    let file = |name: &str| std::path::Path::new(&made.directory).join(name);
    assert_eq!(fs::read_to_string(file("a.txt")).unwrap(), "one\n");
    assert!(file("made.txt").exists());
    assert_eq!(
        scene.engine.worktrees().directories(&workspace).await.unwrap(),
        std::slice::from_ref(&made.directory)
    );
    let project = Projects::of(&scene.engine).project(&workspace).await.unwrap();
    assert_eq!(project.sandboxes, std::slice::from_ref(&made.directory));
    fs::write(file("a.txt"), "two\n").unwrap();
    scene.engine.worktrees().reset(&workspace, &made.directory).await.unwrap();
    assert_eq!(fs::read_to_string(file("a.txt")).unwrap(), "one\n");
    assert!(!file("made.txt").exists());
    scene.engine.worktrees().remove(&workspace, &made.directory).await.unwrap();
    assert!(!file("").exists());
    assert_eq!(scene.engine.worktrees().directories(&workspace).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_but_a_worktree_made_for_a_task_is_removed_or_reset() {
    let scene = Scene::with_commit(&[("a.txt", "one\n")]).await;
    let workspace = scene.workspace().await;
    let own = scene.directory.display().to_string();
    for directory in [own.as_str(), "/", "/nowhere"] {
        let removed = scene.engine.worktrees().remove(&workspace, directory).await;
        assert!(matches!(removed, Err(WorktreeError::Remove(_))), "{directory}: {removed:?}");
        let reset = scene.engine.worktrees().reset(&workspace, directory).await;
        assert!(matches!(reset, Err(WorktreeError::Reset(_))), "{directory}: {reset:?}");
    }
    assert!(scene.path("a.txt").exists());
    let empty = Scene::empty();
    let workspace = empty.workspace().await;
    let made = empty.engine.worktrees().create(&workspace, WorktreeCreate::default()).await;
    assert_eq!(made, Err(WorktreeError::NotGit));
}
