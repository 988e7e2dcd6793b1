//! Round trips: contents, modes and links come back byte by byte, and the user's repository stays as it is.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    os::unix::{
        ffi::OsStringExt,
        fs::{MetadataExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use windlass_base::{
    git::Program,
    process::{self, Spawn},
};

use super::{FileStatus, MAX_FILE, Restored, SnapshotError, Snapshots, StepChanges, cleaning, locking};

pub(super) struct Scene {
    directory: tempfile::TempDir,
    pub(super) snapshots: Snapshots,
}

impl Scene {
    /// Makes a repository with one commit.
    pub(super) async fn new() -> Self {
        let scene = Self::without_commits().await;
        scene.write("a.txt", b"one\r\ntwo\n");
        scene.git(&["add", "."]).await;
        scene.git(&["-c", "user.name=u", "-c", "user.email=e", "commit", "-qm", "first"]).await;
        scene
    }

    /// Makes a repository with files in directories, of which some are ignored.
    pub(super) async fn with_ignored() -> Self {
        let scene = Self::new().await;
        for name in ["dir/below/file", "dir/other", "ignored/file"] {
            scene.write(name, b"first");
        }
        scene.write(".gitignore", b"/ignored\n*.log\n");
        scene.write("logs/old.log", b"ignored by its name");
        fs::create_dir_all(scene.path("empty/one")).unwrap();
        scene
    }

    async fn without_commits() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path().join("work");
        fs::create_dir(&work).unwrap();
        let snapshots = Snapshots::new(program(), &directory.path().join("data/snapshot"), &work);
        let scene = Self { directory, snapshots };
        scene.git(&["init", "-q", "-b", "main"]).await;
        scene
    }

    pub(super) fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    pub(super) fn write(&self, name: &str, content: &[u8]) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), content).unwrap();
    }

    pub(super) fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    async fn git(&self, args: &[&str]) -> String {
        git(&self.work(), args).await
    }

    pub(super) async fn track(&self) -> String {
        self.snapshots.track().await.unwrap()
    }

    /// Brings back all that changed between two trees.
    async fn restore(&self, tree: &str, other: &str) -> Restored {
        let now = self.track().await;
        let changes = self.snapshots.changes(tree, other, false).await.unwrap();
        let targets = changes.into_iter().map(|change| (change.path, tree.to_owned()));
        let mut restored = self.snapshots.restore(targets.collect(), &now).await.unwrap();
        restored.changed.sort();
        restored.skipped.sort();
        restored
    }
}

pub(super) fn program() -> Program {
    Program::new(Some("/usr/local/bin:/usr/bin:/bin"))
}

async fn git(directory: &Path, args: &[&str]) -> String {
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    let spawn = Spawn {
        program: "git".as_ref(),
        args: &args,
        directory,
        environment: &BTreeMap::new(),
        without: &[],
        stdin: false,
        is_parent: false,
    };
    String::from_utf8(process::output(&spawn, 1 << 20).await.unwrap()).unwrap()
}

/// Returns every file and directory with its kind, permissions and content, but not those in `.git`.
fn tree_of(directory: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_vec()
        } else if metadata.is_dir() {
            if entry.file_name() == ".git" {
                continue;
            }
            found.extend(tree_of(&path));
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        found.insert(path, (metadata.permissions().mode(), content));
    }
    found
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[tokio::test]
async fn contents_modes_and_links_come_back_and_forth() {
    let scene = Scene::new().await;
    scene.write(".gitattributes", b"* text=auto eol=lf\n*.txt filter=upper\n");
    scene.git(&["config", "core.autocrlf", "true"]).await;
    scene.git(&["config", "filter.upper.clean", "tr a-z A-Z"]).await;
    scene.write("run.sh", b"#!/bin/sh\n");
    scene.mode("run.sh", 0o755);
    scene.write("secret", b"private");
    scene.mode("secret", 0o600);
    scene.write("bytes ä \n\"name", &[0, 255, 13, 10]);
    scene.write("only-its-mode", b"private");
    scene.mode("only-its-mode", 0o600);
    scene.write("only-its-program-mode", b"");
    scene.mode("only-its-program-mode", 0o755);
    scene.write("gone/deep/file", b"deep");
    scene.mode("gone/deep/file", 0o640);
    scene.mode("gone/deep", 0o750);
    scene.write("becomes-a-directory", b"file");
    scene.write("becomes-a-file/inner", b"inner");
    symlink("a.txt", scene.path("link")).unwrap();
    symlink("nowhere", scene.path("gone-link")).unwrap();
    let before = tree_of(&scene.work());
    let first = scene.track().await;

    scene.write("a.txt", b"changed\n");
    scene.mode("run.sh", 0o644);
    scene.write("secret", b"known");
    scene.write("bytes ä \n\"name", b"text");
    fs::remove_dir_all(scene.path("gone")).unwrap();
    fs::remove_file(scene.path("becomes-a-directory")).unwrap();
    scene.write("becomes-a-directory/inner", b"inner");
    fs::remove_dir_all(scene.path("becomes-a-file")).unwrap();
    scene.write("becomes-a-file", b"file");
    fs::remove_file(scene.path("link")).unwrap();
    scene.write("link", b"a file now");
    fs::remove_file(scene.path("gone-link")).unwrap();
    scene.write("new/file", b"new");
    scene.mode("new/file", 0o700);
    scene.mode("new", 0o700);
    scene.mode("only-its-mode", 0o666);
    scene.mode("only-its-program-mode", 0o700);
    symlink("/etc/passwd", scene.path("new/link")).unwrap();
    let after = tree_of(&scene.work());
    let second = scene.track().await;

    let restored = scene.restore(&first, &second).await;
    assert_eq!(restored.skipped, paths(&[]));
    assert_eq!(tree_of(&scene.work()), before);
    assert!(!scene.path("new").exists(), "a directory that came with its files goes with them");
    let restored = scene.restore(&second, &first).await;
    assert_eq!(restored.skipped, paths(&[]));
    assert_eq!(tree_of(&scene.work()), after);
    assert_eq!(scene.track().await, second);
}

#[tokio::test]
async fn the_users_repository_is_not_touched() {
    let scene = Scene::new().await;
    scene.write("staged.txt", b"staged");
    scene.git(&["add", "staged.txt"]).await;
    scene.write("staged.txt", b"and changed again");
    let users = || async {
        let index = fs::read(scene.path(".git/index")).unwrap();
        let config = fs::read(scene.path(".git/config")).unwrap();
        let refs = scene.git(&["for-each-ref"]).await;
        let objects = scene.git(&["count-objects", "-v"]).await;
        let status = scene.git(&["--no-optional-locks", "status", "--porcelain"]).await;
        (index, config, refs, objects, status)
    };
    let before = users().await;
    let first = scene.track().await;
    scene.write("a.txt", b"changed\n");
    let second = scene.track().await;
    scene.restore(&first, &second).await;
    assert_eq!(users().await, before);
}

#[tokio::test]
async fn a_repository_without_commits_a_linked_worktree_and_a_submodule_have_snapshots() {
    let scene = Scene::without_commits().await;
    scene.write("a.txt", b"one");
    let first = scene.track().await;
    scene.write("a.txt", b"two");
    let second = scene.track().await;
    scene.restore(&first, &second).await;
    assert_eq!(fs::read(scene.path("a.txt")).unwrap(), b"one");

    let origin = Scene::new().await;
    origin.git(&["worktree", "add", "-q", "../linked"]).await;
    let source = origin.work().display().to_string();
    origin.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &source, "module"]).await;
    let linked = origin.directory.path().join("linked");
    for worktree in [linked, origin.path("module")] {
        assert!(worktree.join(".git").is_file(), "{}", worktree.display());
        let snapshots = Snapshots::new(program(), &origin.directory.path().join("data/snapshot"), &worktree);
        let first = snapshots.track().await.unwrap();
        fs::write(worktree.join("a.txt"), "changed").unwrap();
        fs::write(worktree.join("b.txt"), "new").unwrap();
        let now = snapshots.track().await.unwrap();
        let targets = ["a.txt", "b.txt"].map(|name| (PathBuf::from(name), first.clone())).into();
        let restored = snapshots.restore(targets, &now).await.unwrap();
        assert_eq!((restored.changed.len(), restored.skipped.len()), (2, 0));
        assert_eq!(fs::read(worktree.join("a.txt")).unwrap(), b"one\r\ntwo\n");
        assert!(!worktree.join("b.txt").exists());
    }
}

#[tokio::test]
async fn ignored_and_large_files_are_left_out_and_never_overwritten() {
    let scene = Scene::new().await;
    scene.write(".gitignore", b"*.log\n");
    fs::write(scene.path(".git/info/exclude"), "private\n").unwrap();
    scene.write("grows", b"small");
    scene.write("becomes-ignored", b"here");
    let first = scene.track().await;
    scene.write("x.log", b"log");
    scene.write("private", b"mine");
    let second = scene.track().await;
    assert_eq!(second, first);

    fs::File::create(scene.path("grows")).unwrap().set_len(MAX_FILE + 1).unwrap();
    let third = scene.track().await;
    let changes = scene.snapshots.changes(&first, &third, false).await.unwrap();
    assert_eq!(
        changes.iter().map(|it| (it.path.clone(), it.status)).collect::<Vec<_>>(),
        [(PathBuf::from("grows"), FileStatus::Deleted)]
    );
    let restored = scene.restore(&first, &third).await;
    assert_eq!(restored, Restored { changed: Vec::new(), skipped: paths(&["grows"]) });
    assert_eq!(fs::metadata(scene.path("grows")).unwrap().len(), MAX_FILE + 1);
}

#[tokio::test]
async fn a_file_that_was_there_in_no_snapshot_is_no_new_file() {
    let scene = Scene::new().await;
    scene.write("large", &vec![b'x'; MAX_FILE as usize + 1]);
    scene.write(".gitignore", b"secret\n");
    scene.write("secret", b"the user's");
    let before = scene.track().await;
    // Clocks of file systems are coarse.
    let began = SystemTime::now() + Duration::from_secs(1);
    fs::remove_file(scene.path("large")).unwrap();
    scene.write("large", b"small");
    scene.write(".gitignore", b"");
    let after = scene.track().await;
    let changes = scene.snapshots.changes_since(began, &before, &after).await.unwrap();
    let held: Vec<_> = changes.held.into_iter().map(|change| change.path).collect();
    assert_eq!(held, [Path::new(".gitignore")]);
    assert_eq!(changes.left_out, paths(&["large", "secret"]));
}

#[tokio::test]
async fn files_that_were_moved_or_linked_go_back() {
    let scene = Scene::new().await;
    scene.write("dir/below/one", b"one");
    scene.write("edited", b"before");
    scene.write("private", b"mine");
    scene.mode("private", 0o600);
    symlink("a.txt", scene.path("link")).unwrap();
    scene.write(".gitignore", b"secret\n");
    scene.write("secret", b"one");
    let before = tree_of(&scene.work());
    let first = scene.track().await;
    // Clocks of file systems are coarse.
    let began = SystemTime::now() + Duration::from_secs(1);
    for (from, to) in [("a.txt", "b.txt"), ("dir", "moved"), ("private", "public"), ("link", "other-link")] {
        fs::rename(scene.path(from), scene.path(to)).unwrap();
    }
    fs::rename(scene.path("edited"), scene.path("renamed")).unwrap();
    fs::File::options().append(true).open(scene.path("renamed")).unwrap().set_len(2).unwrap();
    fs::hard_link(scene.path("b.txt"), scene.path("hard")).unwrap();
    fs::rename(scene.path("secret"), scene.path("shown")).unwrap();
    let after = tree_of(&scene.work());
    let second = scene.track().await;
    scene.snapshots.state.lock().await.moved.iter_mut().for_each(|(time, _)| *time = began);
    let StepChanges { held, left_out } = scene.snapshots.changes_since(began, &first, &second).await.unwrap();
    // Its content was in no snapshot before.
    assert_eq!(left_out, paths(&["shown"]));
    let now = scene.track().await;
    let back = |tree: &str| held.iter().map(|change| (change.path.clone(), tree.to_owned())).collect();
    let restored = scene.snapshots.restore(back(&first), &now).await.unwrap();
    assert_eq!(restored.skipped, paths(&[]));
    let mut expected = before;
    expected.insert(scene.path("shown"), expected[&scene.path("secret")].clone());
    expected.remove(&scene.path("secret"));
    assert_eq!(tree_of(&scene.work()), expected);
    let now = scene.track().await;
    scene.snapshots.restore(back(&second), &now).await.unwrap();
    assert_eq!(tree_of(&scene.work()), after);
}

#[tokio::test]
async fn a_large_file_that_a_step_wrote_or_moved_is_left_out_by_name() {
    let scene = Scene::new().await;
    for name in ["changed", "kept", "from"] {
        scene.write(name, &vec![b'x'; MAX_FILE as usize + 1]);
    }
    let before = scene.track().await;
    // Clocks of file systems are coarse.
    let began = SystemTime::now() + Duration::from_secs(1);
    scene.write("made", &vec![b'z'; MAX_FILE as usize + 1]);
    for name in ["changed", "made"] {
        fs::File::options().write(true).open(scene.path(name)).unwrap().set_modified(began).unwrap();
    }
    let after = scene.track().await;
    let changes = scene.snapshots.changes_since(began, &before, &after).await.unwrap();
    assert_eq!(changes, StepChanges { held: Vec::new(), left_out: paths(&["changed", "made"]) });

    let moved = scene.path("moved");
    fs::rename(scene.path("from"), &moved).unwrap();
    let past = SystemTime::now() - Duration::from_secs(60);
    fs::File::options().write(true).open(&moved).unwrap().set_modified(past).unwrap();
    let changed = fs::metadata(&moved).unwrap();
    let began = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(changed.ctime()).unwrap());
    let after = scene.track().await;
    let changes = scene.snapshots.changes_since(began, &before, &after).await.unwrap();
    assert!(changes.left_out.contains(&PathBuf::from("moved")), "{changes:?}");
}

#[tokio::test]
async fn a_large_file_that_changes_makes_no_new_tree_until_it_is_small() {
    let scene = Scene::new().await;
    scene.write("large", &vec![b'x'; MAX_FILE as usize + 1]);
    let first = scene.track().await;
    scene.write("large", &vec![b'y'; MAX_FILE as usize + 2]);
    assert_eq!([scene.track().await, scene.track().await], [first.clone(), first.clone()]);
    // In place: its directory stays as it is.
    fs::File::options().write(true).open(scene.path("large")).unwrap().set_len(3).unwrap();
    let third = scene.track().await;
    let changes = scene.snapshots.changes(&first, &third, false).await.unwrap();
    assert_eq!(
        changes.iter().map(|it| (it.path.clone(), it.status)).collect::<Vec<_>>(),
        [(PathBuf::from("large"), FileStatus::Added)]
    );
}

#[tokio::test]
async fn a_directory_that_became_a_link_comes_back() {
    let scene = Scene::new().await;
    scene.write("dir/file", b"inside");
    scene.write("other/file", b"untouched");
    let first = scene.track().await;
    fs::remove_dir_all(scene.path("dir")).unwrap();
    std::os::unix::fs::symlink("other", scene.path("dir")).unwrap();
    let second = scene.track().await;
    scene.restore(&first, &second).await;
    assert!(!scene.path("dir").is_symlink());
    assert_eq!(fs::read(scene.path("dir/file")).unwrap(), b"inside");
    assert_eq!(fs::read(scene.path("other/file")).unwrap(), b"untouched");
}

#[tokio::test]
async fn nothing_is_written_through_a_link_out_of_the_worktree() {
    let scene = Scene::new().await;
    scene.write("dir/file", b"inside");
    let first = scene.track().await;
    fs::remove_dir_all(scene.path("dir")).unwrap();
    let second = scene.track().await;
    let outside = scene.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, scene.path("dir")).unwrap();
    let restored = scene.restore(&first, &second).await;
    assert_eq!(restored, Restored { changed: Vec::new(), skipped: paths(&["dir/file"]) });
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[tokio::test]
async fn changes_have_counts_and_diffs() {
    let scene = Scene::new().await;
    scene.write("b.bin", &[0, 1, 2]);
    scene.write("c.txt", b"gone\n");
    let first = scene.track().await;
    scene.write("a.txt", b"one\r\nzwei\n");
    scene.write("b.bin", &[0, 1, 3]);
    fs::remove_file(scene.path("c.txt")).unwrap();
    scene.write("d.txt", b"new\nfile\n");
    let second = scene.track().await;
    let changes = scene.snapshots.changes(&first, &second, true).await.unwrap();
    let short: Vec<_> = changes
        .iter()
        .map(|it| (it.path.to_str().unwrap(), it.status.name(), it.additions, it.deletions))
        .collect();
    assert_eq!(
        short,
        [
            ("a.txt", "modified", 1, 1),
            ("b.bin", "modified", 0, 0),
            ("c.txt", "deleted", 0, 1),
            ("d.txt", "added", 2, 0)
        ]
    );
    assert!(changes[0].patch.starts_with("diff --git a/a.txt b/a.txt\n"), "{}", changes[0].patch);
    assert!(changes[0].patch.ends_with("-two\n+zwei\n"), "{}", changes[0].patch);
    assert!(changes[3].patch.ends_with("+new\n+file\n"), "{}", changes[3].patch);
}

#[tokio::test]
async fn our_own_data_in_a_home_that_is_a_repository_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    git(directory.path(), &["init", "-q"]).await;
    fs::write(directory.path().join("file"), "x").unwrap();
    let snapshots =
        Snapshots::new(program(), &directory.path().join(".local/windlass/snapshot"), directory.path());
    let first = snapshots.track().await.unwrap();
    fs::write(directory.path().join(".local/windlass/windlass.db"), "store").unwrap();
    assert_eq!(snapshots.track().await.unwrap(), first);
}

#[tokio::test]
async fn a_lock_that_a_dead_process_left_is_no_obstacle() {
    let scene = Scene::new().await;
    let first = scene.track().await;
    fs::write(scene.snapshots.git.directory().join("index.lock"), "").unwrap();
    scene.write("a.txt", b"changed");
    assert_ne!(scene.track().await, first);
}

#[tokio::test]
async fn two_processes_take_snapshots_of_one_worktree() {
    let scene = Scene::new().await;
    let other = Snapshots::new(program(), &scene.directory.path().join("data/snapshot"), &scene.work());
    for round in 0..5 {
        scene.write("a.txt", format!("{round}").as_bytes());
        let (one, two) = tokio::join!(scene.snapshots.track(), other.track());
        assert_eq!(one.unwrap(), two.unwrap());
    }
}

#[tokio::test]
async fn old_snapshots_go_and_the_newest_stays() {
    let scene = Scene::new().await;
    scene.write("a.txt", b"old");
    let old = scene.track().await;
    scene.write("a.txt", b"new");
    let new = scene.track().await;
    cleaning::prune(&scene.snapshots.git, "now").await.unwrap();
    assert_eq!(scene.snapshots.changes(&old, &new, false).await, Err(SnapshotError::Gone));
    let target = [(PathBuf::from("a.txt"), old)].into();
    assert_eq!(scene.snapshots.restore(target, &new).await, Err(SnapshotError::Gone));
    assert_eq!(fs::read(scene.path("a.txt")).unwrap(), b"new");
    scene.write("a.txt", b"newer");
    let newer = scene.track().await;
    assert_eq!(scene.snapshots.changes(&new, &newer, false).await.unwrap().len(), 1);
}

#[tokio::test]
async fn snapshots_that_take_too_much_room_go_but_for_the_newest() {
    let scene = Scene::new().await;
    scene.write("b.txt", b"old");
    let old = scene.track().await;
    scene.write("b.txt", b"new");
    let new = scene.track().await;
    let git = &scene.snapshots.git;
    let age = SystemTime::now() - Duration::from_secs(2 * 24 * 60 * 60);
    cleaning::clean(git, cleaning::QUOTA).await.unwrap();
    assert_eq!(scene.snapshots.changes(&old, &new, false).await.unwrap().len(), 1);
    // Older than a day, and younger than the limit for all.
    for directory in fs::read_dir(git.directory().join("objects")).unwrap().flatten() {
        for object in fs::read_dir(directory.path()).unwrap().flatten() {
            fs::File::open(object.path()).unwrap().set_modified(age).unwrap();
        }
    }
    cleaning::clean(git, cleaning::QUOTA).await.unwrap();
    assert_eq!(scene.snapshots.changes(&old, &new, false).await.unwrap().len(), 1);
    cleaning::clean(git, 0).await.unwrap();
    assert_eq!(scene.snapshots.changes(&old, &new, false).await, Err(SnapshotError::Gone));
    scene.write("b.txt", b"newest");
    let now = scene.track().await;
    let restored = scene.snapshots.restore([(PathBuf::from("b.txt"), new)].into(), &now).await.unwrap();
    assert_eq!(restored.changed, paths(&["b.txt"]));
    assert_eq!(fs::read(scene.path("b.txt")).unwrap(), b"new");
}

#[tokio::test]
async fn a_repository_that_is_made_anew_has_snapshots_again() {
    let scene = Scene::new().await;
    scene.track().await;
    fs::remove_dir_all(scene.path(".git")).unwrap();
    scene.git(&["init", "-q", "-b", "main"]).await;
    scene.write("b.txt", b"new");
    let first = scene.track().await;
    scene.write("a.txt", b"changed");
    let second = scene.track().await;
    scene.restore(&first, &second).await;
    assert_eq!(fs::read(scene.path("a.txt")).unwrap(), b"one\r\ntwo\n");
}

#[tokio::test]
async fn a_file_whose_content_is_gone_stays_as_it_is() {
    let scene = Scene::new().await;
    // The tree is only ours, and the content of `a.txt` only the user's.
    scene.write("b.txt", b"old");
    let old = scene.track().await;
    scene.write("a.txt", b"changed");
    fs::remove_dir_all(scene.path(".git")).unwrap();
    scene.git(&["init", "-q", "-b", "main"]).await;
    scene.write("b.txt", b"new");
    let now = scene.track().await;
    let target = [(PathBuf::from("a.txt"), old)].into();
    assert_eq!(scene.snapshots.restore(target, &now).await, Err(SnapshotError::Gone));
    assert_eq!(fs::read(scene.path("a.txt")).unwrap(), b"changed");
}

#[tokio::test]
async fn unused_snapshots_are_removed_unless_locked_and_their_process_makes_new_ones() {
    let scene = Scene::new().await;
    let first = scene.track().await;
    let directory = scene.snapshots.git.directory().to_owned();
    let root = directory.parent().unwrap();
    let own = root.join("own");
    // A child that another test is just starting may share the lock for a moment.
    let lock = locking::lock(&directory).await.unwrap();
    assert!(locking::try_lock(&directory).unwrap().is_none());
    lock.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    cleaning::remove_unused(root, &own);
    assert!(directory.exists());
    drop(lock);
    // The same child keeps it locked until it runs its program.
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while fs::read_dir(root).unwrap().count() > 0 && std::time::Instant::now() < until {
        cleaning::remove_unused(root, &own);
        std::thread::yield_now();
    }
    assert_eq!(fs::read_dir(root).unwrap().count(), 0);
    assert_eq!(scene.track().await, first);
}

#[tokio::test]
async fn outside_of_a_repository_there_are_none() {
    let directory = tempfile::tempdir().unwrap();
    let snapshots = Snapshots::new(program(), &directory.path().join("snapshot"), Path::new("/"));
    assert!(matches!(snapshots.track().await, Err(SnapshotError::Git(_))));
}
