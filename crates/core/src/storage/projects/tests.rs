//! Settings of projects with several worktrees.

use windlass_protocol::opencode::project::ProjectUpdate;

use crate::storage::Storage;

#[tokio::test]
async fn settings_belong_to_all_worktrees_of_a_project() {
    let directory = tempfile::tempdir().expect("temp dir");
    let storage = Storage::new(directory.path().join("windlass.db"));
    let settings = ProjectUpdate { name: Some("Mine".to_owned()), ..ProjectUpdate::default() };
    assert!(!storage.set_project_settings("p1".to_owned(), settings.clone()).await.expect("written"));
    for (worktree, id) in [("/a", "p1"), ("/b", "p2"), ("/c", "p1")] {
        storage.set_project(worktree.to_owned(), id.to_owned()).await.expect("written");
    }
    assert!(storage.set_project_settings("p1".to_owned(), settings.clone()).await.expect("written"));
    let projects = storage.projects().await.expect("read");
    let names: Vec<(&str, Option<&str>)> =
        projects.iter().map(|it| (it.worktree.as_str(), it.settings.name.as_deref())).collect();
    assert_eq!(names, [("/a", Some("Mine")), ("/b", None), ("/c", Some("Mine"))]);
    assert_eq!(storage.project_of("/b".to_owned()).await.expect("read"), Some("p2".to_owned()));
}
