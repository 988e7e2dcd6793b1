//! A snapshot from a watch has the tree that git makes from everything, whatever happened before it.

use std::{
    fs,
    os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::{sys::stat::Mode, unistd::mkfifo};
use windlass_base::hash;

use super::super::{
    Snapshots, end_unused,
    tests::{Scene, program},
};

/// Takes snapshots until the newest has all that a watch was told.
async fn settle(scene: &Scene) -> String {
    loop {
        let tree = scene.track().await;
        let mut state = scene.snapshots.state.lock().await;
        state.next_watch = None;
        if let Some(coming) = &mut state.coming_watch {
            let watch = coming.await.unwrap().unwrap();
            state.coming_watch = None;
            state.watch = Some(watch);
        } else if state.watch.as_ref().is_some_and(|watch| watch.is_based) {
            return tree;
        }
    }
}

/// The way in which a snapshot was taken.
#[derive(Debug, PartialEq, Eq)]
enum By {
    Watch,
    Git,
}

/// Takes a snapshot, and tells whether the watch was enough.
async fn track(scene: &Scene) -> (By, String) {
    let n_before = scene.snapshots.state.lock().await.n_by_watch;
    let tree = scene.track().await;
    let is_by_watch = scene.snapshots.state.lock().await.n_by_watch > n_before;
    (if is_by_watch { By::Watch } else { By::Git }, tree)
}

/// Snapshots of the same worktree by git alone, which looks at everything each time. They are taken at the same moments:
/// what is ignored later stays in a tree that had it before.
struct Reference {
    _data: tempfile::TempDir,
    snapshots: Snapshots,
}

impl Reference {
    async fn new(scene: &Scene) -> Self {
        let data = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::new(program(), &data.path().join("data/snapshot"), &scene.work());
        let reference = Self { _data: data, snapshots };
        reference.tree().await;
        reference
    }

    async fn tree(&self) -> String {
        let mut state = self.snapshots.state.lock().await;
        state.next_look = Some(Instant::now() + NEVER);
        state.next_watch = state.next_look;
        drop(state);
        self.snapshots.track_all().await.unwrap()
    }
}

const NEVER: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn a_change_costs_what_changed_and_where_that_is_not_known_git_looks() {
    type Change = fn(&Scene);
    let changes: [(&str, By, Change); 24] = [
        ("nothing", By::Watch, |_| {}),
        ("a new file", By::Watch, |it| it.write("new", b"")),
        ("a new file in a directory without files", By::Watch, |it| it.write("empty/one/new", b"")),
        ("a new file beside ignored ones", By::Watch, |it| it.write("logs/new", b"")),
        ("an ignored file", By::Watch, |it| it.write("logs/new.log", b"")),
        ("a file in an ignored directory", By::Watch, |it| it.write("ignored/deep/new", b"")),
        ("a new directory with files", By::Watch, |it| {
            it.write("fresh/new", b"");
            it.write("fresh/deep/new", b"");
            it.write("fresh/deep/new.log", b"");
        }),
        ("contents of the same length", By::Watch, |it| it.write("dir/below/file", b"other")),
        ("a removed file", By::Watch, |it| fs::remove_file(it.path("dir/other")).unwrap()),
        ("a removed directory", By::Watch, |it| fs::remove_dir_all(it.path("dir")).unwrap()),
        ("a mode that git knows", By::Watch, |it| it.mode("dir/other", 0o755)),
        ("a mode that git does not know", By::Watch, |it| it.mode("dir/other", 0o600)),
        ("a mode of a directory", By::Watch, |it| it.mode("dir/below", 0o700)),
        ("a renamed file", By::Watch, |it| fs::rename(it.path("dir/other"), it.path("dir/moved")).unwrap()),
        ("a renamed directory", By::Watch, |it| fs::rename(it.path("dir"), it.path("moved")).unwrap()),
        ("a directory that is ignored now", By::Watch, |it| {
            fs::rename(it.path("dir"), it.path("ignored/dir")).unwrap();
        }),
        ("a file that became a link", By::Watch, |it| {
            fs::remove_file(it.path("dir/other")).unwrap();
            symlink("below/file", it.path("dir/other")).unwrap();
        }),
        ("a file that became a directory", By::Watch, |it| {
            fs::remove_file(it.path("dir/other")).unwrap();
            it.write("dir/other/inner", b"inner");
        }),
        ("a directory that became a link to itself", By::Watch, |it| {
            fs::rename(it.path("dir"), it.path("ignored/dir")).unwrap();
            symlink("ignored/dir", it.path("dir")).unwrap();
        }),
        ("a file too large to be saved", By::Watch, |it| it.write("large", &vec![b'x'; 3 << 20])),
        ("a file that is ignored no more", By::Git, |it| it.write(".gitignore", b"*.log\n")),
        ("another name of a file", By::Git, |it| {
            fs::hard_link(it.path("dir/other"), it.path("dir/linked")).unwrap();
        }),
        ("a repository within", By::Git, |it| repository(it, "dir")),
        ("more files than are worth it", By::Git, |it| {
            for number in 0..=super::MAX_CHANGED {
                it.write(&format!("many/{number}"), b"");
            }
        }),
    ];
    for (name, by, change) in changes {
        let scene = Scene::with_ignored().await;
        settle(&scene).await;
        let reference = Reference::new(&scene).await;
        change(&scene);
        let (taken_by, tree) = track(&scene).await;
        assert_eq!((taken_by, &tree), (by, &reference.tree().await), "{name}");
        // The state behind it is true as well.
        settle(&scene).await;
        assert_eq!(track(&scene).await, (By::Watch, tree), "{name}");
        scene.write("dir/later", b"later");
        assert_eq!(track(&scene).await.1, reference.tree().await, "{name}");
    }
}

#[tokio::test]
async fn what_happens_before_a_watch_is_relied_upon_is_in_it() {
    let scene = Scene::with_ignored().await;
    let reference = Reference::new(&scene).await;
    scene.track().await;
    scene.track().await;
    {
        let mut state = scene.snapshots.state.lock().await;
        let watch = state.coming_watch.take().unwrap().await.unwrap().unwrap();
        state.watch = Some(watch);
    }
    scene.write("fresh/deep/new", b"new");
    fs::rename(scene.path("dir"), scene.path("moved")).unwrap();
    assert_eq!(track(&scene).await, (By::Git, reference.tree().await));
    for name in ["fresh/later", "fresh/deep/new", "moved/below/file", "moved/later"] {
        scene.write(name, b"later");
        assert_eq!(track(&scene).await, (By::Watch, reference.tree().await), "{name}");
    }
    scene.write("other/new", b"new");
    assert_eq!(scene.snapshots.track_all().await.unwrap(), reference.tree().await);
    scene.write("other/later", b"later");
    assert_eq!(track(&scene).await, (By::Watch, reference.tree().await));
}

#[tokio::test]
async fn rows_of_changes_are_seen_one_by_one() {
    type Change = fn(&Scene);
    // The first change of each row is made before the watch begins.
    let rows: [(&str, &[Change]); 6] = [
        (
            "a pipe in whose place comes a file",
            &[
                |_| {},
                |it| mkfifo(&it.path("pipe"), Mode::S_IRWXU).unwrap(),
                |it| {
                    fs::remove_file(it.path("pipe")).unwrap();
                    it.write("pipe", b"now a file");
                },
                |it| it.write("pipe", b"changed"),
            ],
        ),
        (
            "rules that are moved away",
            &[
                |it| it.write("rules/.gitignore", b"*.o\n"),
                |it| it.write("rules/a.o", b"ignored"),
                |it| {
                    fs::rename(it.path("rules"), it.path("moved")).unwrap();
                    it.write("rules/a.o", b"not ignored");
                },
                |it| it.write("rules/a.o", b"changed"),
            ],
        ),
        (
            "a repository within that is moved away",
            &[
                |it| repository(it, "within"),
                |it| it.write("within/file", b"of the other repository"),
                |it| {
                    fs::rename(it.path("within"), it.path("../away")).unwrap();
                    it.write("within/file", b"of this one");
                },
                |it| it.write("within/file", b"changed"),
            ],
        ),
        (
            "a submodule without its repository",
            &[
                |_| {},
                |it| {
                    it.write("module/deep/file", b"new");
                    it.write("module/.git", b"gitdir: ../nowhere\n");
                },
                |it| it.write("module/deep/file", b"changed"),
                |it| it.write("module/deep/other", b"new"),
            ],
        ),
        (
            "rules with another name",
            &[
                |it| fs::hard_link(it.path(".gitignore"), it.path("../rules")).unwrap(),
                |it| it.write("logs/a.log", b"ignored"),
                |it| fs::write(it.path("../rules"), "/ignored\n").unwrap(),
                |it| it.write("logs/a.log", b"changed"),
            ],
        ),
        (
            "a large file that comes back small",
            &[
                |it| it.write("large", &vec![b'x'; 3 << 20]),
                |it| {
                    fs::remove_file(it.path("large")).unwrap();
                    it.write("dir/other", b"changed");
                },
                |it| it.write("large", b"small"),
                |it| it.write("large", &vec![b'x'; 3 << 20]),
            ],
        ),
    ];
    for (name, changes) in rows {
        let scene = Scene::with_ignored().await;
        changes[0](&scene);
        settle(&scene).await;
        let reference = Reference::new(&scene).await;
        for (number, change) in changes.iter().enumerate().skip(1) {
            change(&scene);
            let (by, tree) = track(&scene).await;
            assert_eq!(tree, reference.tree().await, "{name}, change {number}, by {by:?}");
            if by == By::Git {
                settle(&scene).await;
            }
        }
    }
}

/// Makes what git takes for a repository.
fn repository(scene: &Scene, name: &str) {
    for directory in ["objects", "refs"] {
        fs::create_dir_all(scene.path(name).join(".git").join(directory)).unwrap();
    }
    scene.write(&format!("{name}/.git/HEAD"), b"ref: refs/heads/main\n");
}

#[tokio::test]
async fn an_open_file_that_got_another_name_is_seen_when_it_is_written() {
    let scene = Scene::with_ignored().await;
    settle(&scene).await;
    let reference = Reference::new(&scene).await;
    let mut open = fs::File::create(scene.path("first")).unwrap();
    fs::hard_link(scene.path("first"), scene.path("second")).unwrap();
    fs::remove_file(scene.path("first")).unwrap();
    assert_eq!(track(&scene).await.1, reference.tree().await);
    settle(&scene).await;
    std::io::Write::write_all(&mut open, b"more").unwrap();
    assert_eq!(track(&scene).await, (By::Git, reference.tree().await));
}

#[tokio::test]
async fn a_watch_that_nobody_uses_ends() {
    let scene = Scene::with_ignored().await;
    settle(&scene).await;
    let state = std::sync::Arc::downgrade(&scene.snapshots.state);
    end_unused(state, Duration::from_millis(1)).await;
    assert!(scene.snapshots.state.lock().await.watch.is_none());
    scene.write("new", b"");
    assert_eq!(track(&scene).await.0, By::Git);
}

#[tokio::test]
async fn a_file_of_several_names_is_looked_at_for_each_snapshot() {
    let scene = Scene::with_ignored().await;
    fs::hard_link(scene.path("dir/other"), scene.path("../elsewhere")).unwrap();
    settle(&scene).await;
    let reference = Reference::new(&scene).await;
    for content in ["second", "third"] {
        fs::write(scene.path("../elsewhere"), content).unwrap();
        assert_eq!(track(&scene).await, (By::Watch, reference.tree().await));
    }
}

#[tokio::test]
async fn what_is_told_of_by_nothing_is_found_by_a_look_at_everything() {
    let scene = Scene::with_ignored().await;
    let before = settle(&scene).await;
    let reference = Reference::new(&scene).await;
    fs::hard_link(scene.path("dir/other"), scene.path("../elsewhere")).unwrap();
    fs::write(scene.path("../elsewhere"), "written by a name that came later").unwrap();
    assert_eq!(track(&scene).await, (By::Watch, before));
    let now = reference.tree().await;
    assert_eq!(scene.snapshots.track_all().await.unwrap(), now);

    settle(&scene).await;
    fs::write(scene.path("../elsewhere"), "written again").unwrap();
    // It is known to have several names only to a watch that began later.
    if let Some(watch) = &mut scene.snapshots.state.lock().await.watch {
        watch.linked.clear();
        watch.looked = Instant::now().checked_sub(super::LOOK_EVERY).unwrap();
    }
    assert_eq!(track(&scene).await, (By::Watch, now));
    if let Some(watch) = &mut scene.snapshots.state.lock().await.watch {
        let look = watch.look.take().unwrap().await.unwrap();
        assert!(!look);
        watch.look = Some(tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move { look })));
    }
    tokio::task::yield_now().await;
    assert_eq!(track(&scene).await, (By::Git, reference.tree().await));
}

#[tokio::test]
async fn a_worktree_that_cannot_be_watched_is_looked_at() {
    let scene = Scene::with_ignored().await;
    settle(&scene).await;
    let reference = Reference::new(&scene).await;
    // More files with several names than are looked at each time, in a worktree that was moved away and back.
    for number in 0..=super::MAX_LINKED {
        fs::hard_link(scene.path("dir/other"), scene.path(&format!("link-{number}"))).unwrap();
    }
    let moved = scene.work().with_file_name("moved");
    fs::rename(scene.work(), &moved).unwrap();
    fs::rename(&moved, scene.work()).unwrap();
    for number in 0..4 {
        scene.write(&format!("new-{number}"), b"");
        assert_eq!(track(&scene).await, (By::Git, reference.tree().await));
        let mut state = scene.snapshots.state.lock().await;
        if let Some(coming) = &mut state.coming_watch {
            assert!(coming.await.unwrap().is_err());
            state.coming_watch = None;
        }
        state.next_watch = None;
    }
}

/// Returns the entries of a tree, and the list of its permissions.
async fn listed(snapshots: &Snapshots, tree: &str) -> String {
    let modes = format!("{tree}:{}", super::index::MODES);
    let mut listed = snapshots.git.run(&["ls-tree", "-r", tree]).await.unwrap();
    listed.extend(snapshots.git.run(&["cat-file", "-p", &modes]).await.unwrap_or_default());
    String::from_utf8_lossy(&listed).replace('\0', "\n")
}

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = hash::fnv(&self.0.to_le_bytes());
        ((mixed ^ mixed >> 29) % limit as u64) as usize
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Opens a file. A pipe that nobody reads is not waited for.
fn open(options: &mut fs::OpenOptions, path: &Path) -> std::io::Result<fs::File> {
    options.custom_flags(nix::libc::O_NONBLOCK).open(path)
}

fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let options = &mut fs::File::options();
    let mut file = open(options.write(true).create(true).truncate(true), path)?;
    std::io::Write::write_all(&mut file, content)
}

/// Does one thing to the worktree. What cannot be done, as it is then, is not.
fn change(scene: &Scene, random: &mut Random) -> String {
    const DIRECTORIES: [&str; 8] = ["", "a", "b", "a/a", "a/b", "a/b/c", "ignored", "b/ignored"];
    const NAMES: [&str; 7] = ["one", "two", "three", "x.log", "a", "b", "ignored"];
    const MODES: [u32; 4] = [0o644, 0o600, 0o755, 0o700];
    let mut path = || {
        let directory = random.of(&DIRECTORIES);
        PathBuf::from(directory).join(random.of(&NAMES))
    };
    let (first, second) = (path(), path());
    let (from, to) = (scene.work().join(&first), scene.work().join(&second));
    let outside = scene.path("../outside").join(random.of(&["one", "two"]));
    let content = vec![b'a' + random.below(26) as u8; random.below(4)];
    let kind = random.below(25);
    let done = match kind {
        0..6 => write(&from, &content),
        6 | 7 => open(fs::File::options().append(true), &from)
            .and_then(|mut file| std::io::Write::write_all(&mut file, b"more")),
        8 | 9 => fs::create_dir_all(&from),
        10 | 11 => fs::remove_file(&from),
        12 => fs::remove_dir_all(&from),
        13..16 => fs::rename(&from, &to),
        16 => fs::rename(&from, &outside),
        17 => fs::rename(&outside, &from),
        18 => symlink(&second, &from),
        19 => fs::set_permissions(&from, fs::Permissions::from_mode(MODES[random.below(4)])),
        // Nothing tells of a name in a directory that is ignored.
        20 if ["", "b"].map(Path::new).contains(&second.parent().unwrap()) => fs::hard_link(&from, &to),
        21 => open(fs::File::options().write(true), &from).and_then(|file| file.set_len(3 << 20)),
        24 => mkfifo(&from, Mode::S_IRWXU).map_err(Into::into),
        22 if random.below(4) == 0 => {
            let rule = random.of(&["ignored\n*.log\n", "ignored/\n", "*.log\n/a/b\n", "/ignored\n!x.log\n"]);
            fs::write(scene.path(random.of(&["", "a", "b"])).join(".gitignore"), rule)
        }
        23 if random.below(4) == 0 => {
            let times = fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
            open(fs::File::options().read(true), &from).and_then(|file| file.set_times(times))
        }
        _ => Ok(()),
    };
    format!("{kind} {} {} {}", first.display(), second.display(), done.is_ok())
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a run of the tests has its own length and seed")]
async fn whatever_happens_the_tree_is_the_one_that_git_makes_from_everything() {
    let of = |name: &str| std::env::var(name).ok();
    let n_steps: usize = of("SNAPSHOT_STEPS").map_or(60, |text| text.parse().unwrap());
    let seed = match of("SNAPSHOT_SEED").as_deref() {
        None => 1,
        Some("random") => std::process::id().into(),
        Some(text) => text.parse().unwrap(),
    };
    let mut random = Random(seed);
    let scene = Scene::new().await;
    fs::create_dir(scene.path("../outside")).unwrap();
    scene.write(".gitignore", b"ignored\n*.log\n");
    settle(&scene).await;
    let reference = Reference::new(&scene).await;
    let mut n_watched = 0;
    let mut log = Vec::new();
    for step in 0..n_steps {
        // Some come from another writer, while the snapshot is taken; the next one has them.
        let n_changes = random.below(5);
        for _ in 0..n_changes {
            log.push(format!("{step}: {}", change(&scene, &mut random)));
        }
        if random.below(4) == 0 {
            let (work, seed) = (scene.work(), step as u64);
            let writer = tokio::task::spawn_blocking(move || {
                for number in 0..20 {
                    let _ = write(&work.join(["one", "a/two", "b/three"][number % 3]), &seed.to_le_bytes());
                }
            });
            let (_, written) = tokio::join!(scene.track(), writer);
            written.unwrap();
            log.push(format!("{step}: a writer beside"));
        }
        // Beside large files there is no tree without a look at them.
        let (by, tree) = track(&scene).await;
        n_watched += usize::from(by == By::Watch);
        let log = || log[log.len().saturating_sub(20)..].join("\n");
        let wanted = reference.tree().await;
        if tree != wanted {
            let (is, wanted) =
                (listed(&scene.snapshots, &tree).await, listed(&reference.snapshots, &wanted).await);
            let only = |of: &str, other: &str| {
                let lines = of.lines().filter(|line| !other.lines().any(|it| it == *line));
                lines.collect::<Vec<_>>().join("\n")
            };
            let differ = format!("is: {}\nwanted: {}", only(&is, &wanted), only(&wanted, &is));
            panic!("step {step} of seed {seed}, by {by:?}:\n{differ}\n{}", log());
        }
        if by == By::Git {
            settle(&scene).await;
        } else if random.below(50) == 0 {
            // Something else has looked at everything, or taken the index.
            let mut state = scene.snapshots.state.lock().await;
            state.watch.as_mut().unwrap().is_based = false;
        }
    }
    assert!(n_watched > n_steps / 3, "{n_watched} of {n_steps} by the watch");
}
