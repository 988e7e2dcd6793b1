//! Changes of a repository as git reports them, without touching its index.

use std::{fs, path::Path};

use windlass_engine::fixture::Scene;
use windlass_protocol::opencode::project::FileChange;

use super::DiffBase;
use crate::{ApplyError, Files, Projects};

#[tokio::test]
async fn changed_new_and_removed_files_are_listed_with_their_diffs() {
    let scene =
        Scene::with_commit(&[("a.txt", "one\ntwo\n"), ("gone.txt", "x\n"), ("näme.txt", "n\n")]).await;
    fs::write(scene.path("a.txt"), "one\nTWO\n").unwrap();
    fs::write(scene.path("näme.txt"), "m\n").unwrap();
    fs::remove_file(scene.path("gone.txt")).unwrap();
    fs::create_dir(scene.path("sub")).unwrap();
    fs::write(scene.path("sub/new.txt"), "new\n").unwrap();
    let index = fs::read(scene.path(".git/index")).unwrap();
    let workspace = scene.workspace().await;
    let status = Files::of(&workspace).vcs_status().await.unwrap();
    let rows: Vec<_> =
        status.iter().map(|it| (it.file.as_str(), it.additions, it.deletions, it.status)).collect();
    assert_eq!(
        rows,
        [
            ("a.txt", 1, 1, FileChange::Modified),
            ("gone.txt", 0, 1, FileChange::Deleted),
            ("näme.txt", 1, 1, FileChange::Modified),
            ("sub/new.txt", 1, 0, FileChange::Added),
        ]
    );
    let diff = Files::of(&workspace).vcs_diff(DiffBase::Head, Some(0)).await.unwrap();
    let patch = |idx: usize| diff[idx].patch.as_deref().unwrap();
    assert!(patch(0).ends_with("@@ -2 +2 @@ one\n-two\n+TWO\n"), "{}", patch(0));
    assert!(patch(3).contains("new file mode"), "{}", patch(3));
    assert!(diff.iter().all(|file| file.patch.is_some()));
    let raw = Files::of(&workspace).vcs_patch().await.unwrap();
    assert_eq!(raw.matches("diff --git ").count(), 4);
    assert_eq!(fs::read(scene.path(".git/index")).unwrap(), index);
    let files = Files::of(&workspace).changed_files().await.unwrap();
    assert_eq!(files[3].path, "sub/new.txt");
}

#[tokio::test]
async fn a_name_that_git_writes_in_another_way_has_its_diff() {
    let names =
        ["a \"quoted\" name", "back\\slash", "line\nbreak", "tab\t", "bell\x07", "\x01 control", "plain"];
    let files: Vec<(&str, &str)> = names.iter().map(|name| (*name, "one\n")).collect();
    let scene = Scene::with_commit(&files).await;
    names.iter().for_each(|name| fs::write(scene.path(name), "two\n").unwrap());
    let workspace = scene.workspace().await;
    let diff = Files::of(&workspace).vcs_diff(DiffBase::Head, None).await.unwrap();
    assert_eq!(diff.len(), names.len());
    for file in diff {
        assert!(names.contains(&file.file.as_str()), "{file:?}");
        assert!(file.patch.as_ref().is_some_and(|patch| patch.ends_with("-one\n+two\n")), "{file:?}");
    }
}

#[tokio::test]
async fn branches_are_named_and_compared_with_the_default_one() {
    let scene = Scene::with_commit(&[("a.txt", "one\n")]).await;
    let workspace = scene.workspace().await;
    let info = Files::of(&workspace).vcs_info().await;
    assert_eq!((info.branch.as_deref(), info.default_branch.as_deref()), (Some("main"), Some("main")));
    assert_eq!(Files::of(&workspace).vcs_diff(DiffBase::Branch, None).await.unwrap(), []);
    scene.git(&["checkout", "-qb", "work"]).await;
    fs::write(scene.path("b.txt"), "b\n").unwrap();
    scene.git(&["add", "-A"]).await;
    scene.git(&["commit", "-qm", "second"]).await;
    fs::write(scene.path("c.txt"), "c\n").unwrap();
    let files = Files::of(&workspace).vcs_diff(DiffBase::Branch, None).await.unwrap();
    let names: Vec<&str> = files.iter().map(|it| it.file.as_str()).collect();
    assert_eq!(names, ["b.txt", "c.txt"]);
    assert_eq!(Files::of(&workspace).vcs_info().await.branch.as_deref(), Some("work"));
}

#[tokio::test]
async fn a_repository_without_commits_and_a_directory_without_a_repository_are_answered() {
    let scene = Scene::empty();
    let workspace = scene.workspace().await;
    assert_eq!(Files::of(&workspace).vcs_info().await, Default::default());
    assert_eq!(Files::of(&workspace).vcs_status().await.unwrap(), []);
    assert_eq!(Files::of(&workspace).vcs_apply("x").await, Err(ApplyError::NonGit));
    let project = Projects::of(&scene.engine).init_git(&workspace).await.unwrap();
    assert_eq!((project.id.as_str(), Path::new(&project.worktree)), ("global", scene.directory.as_path()));
    fs::write(scene.path("a.txt"), "a\n").unwrap();
    let workspace = scene.workspace().await;
    assert_eq!(Files::of(&workspace).vcs_status().await.unwrap()[0].file, "a.txt");
}

#[tokio::test]
async fn a_patch_is_applied_wholly_or_not_at_all() {
    let scene = Scene::with_commit(&[("a.txt", "one\n"), ("b.txt", "one\n")]).await;
    let workspace = scene.workspace().await;
    let good = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n";
    let bad = "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-three\n+two\n";
    let error = Files::of(&workspace).vcs_apply(&format!("{good}{bad}")).await.unwrap_err();
    assert!(matches!(error, ApplyError::NotClean(_)), "{error}");
    assert_eq!(fs::read_to_string(scene.path("a.txt")).unwrap(), "one\n");
    Files::of(&workspace).vcs_apply(good).await.unwrap();
    assert_eq!(fs::read_to_string(scene.path("a.txt")).unwrap(), "two\n");
}

#[tokio::test]
async fn settings_of_the_format_hold_and_programs_do_not() {
    let scene = Scene::empty();
    scene.git(&["init", "-q", "-b", "main", "--object-format=sha256"]).await;
    scene.git(&["config", "core.autocrlf", "true"]).await;
    for name in ["same.txt", "filtered.txt"] {
        fs::write(scene.path(name), "one\r\n").unwrap();
    }
    fs::write(scene.path(".gitattributes"), "filtered.txt filter=f\n").unwrap();
    scene.git(&["add", "-A"]).await;
    scene.git(&["commit", "-qm", "first"]).await;
    scene.git(&["config", "filter.f.clean", "echo filtered"]).await;
    // Written again, so that git compares the contents.
    for name in ["same.txt", "filtered.txt"] {
        fs::write(scene.path(name), "one\r\n").unwrap();
    }
    let workspace = scene.workspace().await;
    assert_eq!(Files::of(&workspace).vcs_status().await.unwrap(), []);
    fs::write(scene.path("same.txt"), "two\r\n").unwrap();
    let patch = Files::of(&workspace).vcs_patch().await.unwrap();
    assert!(patch.ends_with("-one\n+two\n"), "{patch}");
}

#[tokio::test]
async fn linked_worktrees_and_submodules_are_shown_by_their_own_index() {
    let scene = Scene::with_commit(&[("a.txt", "one\n")]).await;
    scene.git(&["worktree", "add", "-q", "-b", "linked", "../linked"]).await;
    let url = scene.directory.display().to_string();
    scene.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "sub"]).await;
    scene.git(&["commit", "-qm", "second"]).await;
    for (directory, branch) in [("../linked", "linked"), ("sub", "main")] {
        let directory = scene.path(directory).canonicalize().unwrap();
        fs::write(directory.join("a.txt"), "two\n").unwrap();
        fs::write(directory.join("b.txt"), "new\n").unwrap();
        let workspace = scene.engine.workspaces().workspace(&directory).await.unwrap();
        assert_eq!(Files::of(&workspace).vcs_info().await.branch.as_deref(), Some(branch));
        let files: Vec<String> =
            Files::of(&workspace).vcs_status().await.unwrap().into_iter().map(|it| it.file).collect();
        assert_eq!(files, ["a.txt", "b.txt"]);
    }
    // Around it, only another commit of a submodule would be a change.
    let workspace = scene.workspace().await;
    assert_eq!(Files::of(&workspace).vcs_status().await.unwrap(), []);
    let left = fs::read_dir(workspace.loaded().config.paths.cache()).unwrap();
    let left: Vec<_> = left.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.starts_with("git-") || name.starts_with("index-")), "{left:?}");
}

#[tokio::test]
async fn a_repository_within_the_worktree_is_not_part_of_it() {
    let scene = Scene::with_commit(&[("a.txt", "one\n")]).await;
    scene.git(&["init", "-q", "nested"]).await;
    fs::write(scene.path("nested/file"), "x\n").unwrap();
    fs::write(scene.path("*?[b]\\ \nname"), "x\n").unwrap();
    let workspace = scene.workspace().await;
    let files: Vec<String> =
        Files::of(&workspace).vcs_status().await.unwrap().into_iter().map(|it| it.file).collect();
    assert_eq!(files, ["*?[b]\\ \nname"]);
}
