//! Relevant changes are seen wherever they happen, and no others.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tempfile::TempDir;

use super::{
    Stamp, Survey, Target, Watcher,
    plan::{MAX_DIRECTORIES, Plan, Wanted},
};

/// Returns the directories that are watched for some targets, below a root, each with the names that matter
/// there.
fn plan(root: &Path, targets: &[Target]) -> Vec<(String, Vec<String>)> {
    let below =
        |directory: &Path| directory.strip_prefix(root).ok().map(|relative| relative.display().to_string());
    let directories = Plan::new(targets).directories.into_iter();
    let named = directories.filter_map(|(directory, wanted)| {
        let mut names = match wanted {
            Wanted::Everything => vec!["*".to_owned()],
            Wanted::Names(names) => names.iter().map(|name| name.display().to_string()).collect(),
        };
        names.sort();
        // Of the directories on the way, only their removal matters.
        (!names.is_empty()).then_some((below(&directory)?, names))
    });
    named.collect()
}

fn tree(root: PathBuf) -> Target {
    Target::Tree { root, depth: 8 }
}

fn settled(targets: &[Target], since: SystemTime) -> Option<Stamp> {
    Survey::of(targets, since).stamp
}

fn scratch() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("here/agents/deep")).unwrap();
    fs::create_dir_all(root.path().join("here/agents/node_modules/left-pad")).unwrap();
    fs::create_dir_all(root.path().join("elsewhere")).unwrap();
    fs::write(root.path().join("elsewhere/real.md"), "").unwrap();
    root
}

#[test]
fn missing_files_are_awaited_where_they_will_appear() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    let targets = [
        Target::File(root.join("here/one.json")),
        Target::File(root.join("here/later/two.json")),
        tree(root.join("here/much/later/agents")),
    ];
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(plan(&root, &targets), [("here".to_owned(), names(&["later", "much", "one.json"]))]);
}

#[test]
fn a_tree_is_followed_with_its_directories_but_not_into_packages() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("here/agents/deep/.venv/lib")).unwrap();
    fs::create_dir_all(root.join("here/agents/1/2/3")).unwrap();
    let targets = [Target::Tree { root: root.join("here/agents"), depth: 2 }];
    let everything = vec!["*".to_owned()];
    assert_eq!(
        plan(&root, &targets),
        [
            ("here".to_owned(), vec!["agents".to_owned()]),
            ("here/agents".to_owned(), everything.clone()),
            ("here/agents/1".to_owned(), everything.clone()),
            ("here/agents/1/2".to_owned(), everything.clone()),
            ("here/agents/deep".to_owned(), everything),
        ]
    );
}

#[test]
fn links_are_followed_to_where_they_lead() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    symlink(root.join("elsewhere/real.md"), root.join("here/agents/linked.md")).unwrap();
    // A link that leads back up.
    symlink(root.join("here/agents"), root.join("here/agents/deep/again")).unwrap();
    let targets = [tree(root.join("here/agents"))];
    let directories: Vec<String> =
        plan(&root, &targets).into_iter().map(|(directory, _)| directory).collect();
    assert_eq!(directories, ["elsewhere", "here", "here/agents", "here/agents/deep"]);
}

async fn sees_change(watcher: &mut Watcher) -> bool {
    // Events of past changes are in the queue already.
    tokio::time::timeout(Duration::from_millis(300), watcher.changed()).await.is_ok_and(|seen| seen.is_ok())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn only_changes_of_targets_wake() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    let file = root.join("here/one.json");
    let mut watcher = Watcher::new().unwrap();
    assert!(watcher.follow(&[Target::File(file.clone())], UNIX_EPOCH).unwrap().has_changed);
    assert!(!watcher.follow(&[Target::File(file.clone())], UNIX_EPOCH).unwrap().has_changed);
    fs::write(root.join("here/neighbour"), "").unwrap();
    assert!(!sees_change(&mut watcher).await);
    type Change<'a> = (&'a str, &'a dyn Fn());
    let changes: [Change<'_>; 5] = [
        ("created", &|| fs::write(&file, "1").unwrap()),
        ("written", &|| fs::write(&file, "2").unwrap()),
        ("replaced", &|| fs::rename(root.join("here/neighbour"), &file).unwrap()),
        ("removed", &|| fs::remove_file(&file).unwrap()),
        ("linked", &|| symlink("nowhere", &file).unwrap()),
    ];
    for (what, change) in changes {
        change();
        assert!(sees_change(&mut watcher).await, "{what}");
        while sees_change(&mut watcher).await {}
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_directory_that_goes_and_comes_back_is_followed_again() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    let targets = [tree(root.join("here/agents"))];
    let mut watcher = Watcher::new().unwrap();
    watcher.follow(&targets, UNIX_EPOCH).unwrap();
    fs::rename(root.join("here"), root.join("gone")).unwrap();
    assert!(sees_change(&mut watcher).await);
    assert!(watcher.follow(&targets, UNIX_EPOCH).unwrap().has_changed);
    while sees_change(&mut watcher).await {}
    fs::write(root.join("gone/agents/old.md"), "").unwrap();
    assert!(!sees_change(&mut watcher).await);
    fs::create_dir_all(root.join("here/agents")).unwrap();
    assert!(sees_change(&mut watcher).await);
    assert!(watcher.follow(&targets, UNIX_EPOCH).unwrap().has_changed);
    while sees_change(&mut watcher).await {}
    fs::write(root.join("here/agents/new.md"), "").unwrap();
    assert!(sees_change(&mut watcher).await);
}

#[test]
fn changes_before_the_watch_are_known_by_their_time() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    let may_have_changed = |targets: &[Target], since: SystemTime| {
        let directories = Plan::new(targets).directories;
        directories.iter().any(|(directory, wanted)| wanted.may_have_changed(directory, since))
    };
    let hour = Duration::from_secs(3600);
    for target in [Target::File(root.join("elsewhere/real.md")), tree(root.join("here/agents"))] {
        assert!(may_have_changed(std::slice::from_ref(&target), SystemTime::now() - hour));
        assert!(!may_have_changed(&[target], SystemTime::now() + hour));
    }
}

/// A description of a change and the function that makes it.
type Change = (&'static str, fn(&Path));

#[test]
fn a_stamp_shows_every_change_that_records_show() {
    let changes: [Change; 8] = [
        ("nothing", |_| {}),
        ("what nobody follows", |root| fs::write(root.join("here/other.json"), "").unwrap()),
        ("another content of the same size and time", |root| {
            let file = fs::File::options().write(true).open(root.join("here/agents/one.md")).unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            fs::write(root.join("here/agents/one.md"), "ABC").unwrap();
            file.set_modified(modified).unwrap();
        }),
        ("a new file", |root| fs::write(root.join("here/agents/deep/two.md"), "").unwrap()),
        ("a file that goes", |root| fs::remove_file(root.join("here/agents/one.md")).unwrap()),
        ("a file that was missing", |root| fs::write(root.join("here/one.json"), "{}").unwrap()),
        ("a file behind a link", |root| fs::write(root.join("elsewhere/real.md"), "new").unwrap()),
        ("a mode", |root| {
            let file = root.join("here/agents/one.md");
            fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
        }),
    ];
    for (name, change) in changes {
        let scratch = scratch();
        let root = scratch.path().canonicalize().unwrap();
        fs::write(root.join("here/agents/one.md"), "abc").unwrap();
        symlink(root.join("elsewhere/real.md"), root.join("here/agents/link.md")).unwrap();
        let targets = [tree(root.join("here/agents")), Target::File(root.join("here/one.json"))];
        let later = SystemTime::now() + Duration::from_secs(60);
        let before = settled(&targets, later);
        assert!(before.is_some(), "{name}");
        change(&root);
        let is_same = before == settled(&targets, later);
        assert_eq!(is_same, matches!(name, "nothing" | "what nobody follows"), "{name}");
    }
}

#[test]
fn a_file_that_changed_during_the_read_has_no_stamp() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    let targets = [Target::File(root.join("elsewhere/real.md"))];
    assert_eq!(settled(&targets, UNIX_EPOCH), None);
    let changed = fs::metadata(root.join("elsewhere/real.md")).unwrap().modified().unwrap();
    assert_eq!(settled(&targets, changed + Duration::from_millis(1)), None);
    assert!(settled(&targets, changed + Duration::from_secs(5)).is_some());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn every_link_on_the_way_is_watched_and_so_is_its_missing_target() {
    type Change = fn(&Path);
    let write: Change = |root| {
        fs::create_dir_all(root.join("dot/deep")).unwrap();
        fs::write(root.join("dot/deep/one.json"), "{}").unwrap();
    };
    let swap: Change = |root| {
        symlink("v2", root.join("new")).unwrap();
        fs::rename(root.join("new"), root.join("current")).unwrap();
    };
    let move_away: Change = |root| fs::rename(root.join("versions"), root.join("gone")).unwrap();
    // Each case: the target below the root, the preparation, and the changes that must be seen one by one.
    let cases: [(&str, &str, Change, &[Change]); 5] = [
        (
            "a directory that a link led to goes and comes again",
            "here/link/deep/one.json",
            |root| {
                symlink(root.join("dot"), root.join("here/link")).unwrap();
                fs::create_dir_all(root.join("dot/deep")).unwrap();
            },
            &[|root| fs::remove_dir_all(root.join("dot")).unwrap(), write],
        ),
        (
            "a link leads nowhere yet",
            "here/link/deep/one.json",
            |root| symlink("../dot", root.join("here/link")).unwrap(),
            &[write],
        ),
        (
            "a link in the middle of where a link leads",
            "here/link/deep/one.json",
            |root| {
                fs::create_dir_all(root.join("v1/deep")).unwrap();
                fs::create_dir_all(root.join("v2/deep")).unwrap();
                symlink("v1", root.join("current")).unwrap();
                symlink(root.join("current/../current"), root.join("here/link")).unwrap();
            },
            &[swap, |root| fs::write(root.join("v2/deep/one.json"), "{}").unwrap()],
        ),
        (
            "a file behind two links",
            "here/one.json",
            |root| {
                fs::create_dir_all(root.join("v1")).unwrap();
                fs::create_dir_all(root.join("v2")).unwrap();
                fs::write(root.join("v1/it.json"), "").unwrap();
                symlink("v1", root.join("current")).unwrap();
                symlink("../current/it.json", root.join("here/one.json")).unwrap();
            },
            &[swap, |root| fs::write(root.join("v2/it.json"), "{}").unwrap()],
        ),
        (
            "a directory far above goes",
            "versions/a/b/c/one.json",
            |root| {
                fs::create_dir_all(root.join("versions/a/b/c")).unwrap();
                fs::write(root.join("versions/a/b/c/one.json"), "").unwrap();
            },
            &[move_away],
        ),
    ];
    for is_tree in [false, true] {
        for (name, followed, prepare, changes) in cases {
            let scratch = scratch();
            let root = scratch.path().canonicalize().unwrap();
            prepare(&root);
            let file = root.join(followed);
            let targets =
                [if is_tree { tree(file.parent().unwrap().to_owned()) } else { Target::File(file) }];
            let mut watcher = Watcher::new().unwrap();
            watcher.follow(&targets, UNIX_EPOCH).unwrap();
            let later = SystemTime::now() + Duration::from_secs(60);
            for change in changes {
                let before = settled(&targets, later);
                assert!(before.is_some());
                assert!(!watcher.has_changed().unwrap(), "{name}");
                change(&root);
                assert!(watcher.has_changed().unwrap(), "{name}, a tree: {is_tree}");
                assert_ne!(before, settled(&targets, later), "{name}, a tree: {is_tree}");
                watcher.follow(&targets, UNIX_EPOCH).unwrap();
            }
        }
    }
}

#[test]
fn a_circle_of_links_ends() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    symlink("two", root.join("here/one")).unwrap();
    symlink("one/deep", root.join("here/two")).unwrap();
    let targets = [tree(root.join("here/one/agents")), Target::File(root.join("here/two"))];
    let names = vec!["one".to_owned(), "two".to_owned()];
    assert_eq!(plan(&root, &targets), [("here".to_owned(), names)]);
}

#[test]
fn the_nearest_directories_of_a_large_tree_are_watched() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("here/agents/z/y")).unwrap();
    fs::create_dir_all(root.join("here/agents/a/b")).unwrap();
    for idx in 0..=MAX_DIRECTORIES {
        fs::create_dir(root.join(format!("here/agents/a/b/{idx}"))).unwrap();
    }
    let too_much = tree(root.join("here/agents"));
    let survey = Survey::of(std::slice::from_ref(&too_much), SystemTime::now());
    assert_eq!(survey, Survey { stamp: None, overfull: vec![root.join("here/agents")] });
    let followed: Vec<String> =
        plan(&root, &[too_much]).into_iter().map(|(directory, _)| directory).collect();
    for near in ["here/agents", "here/agents/a/b", "here/agents/z/y"] {
        assert!(followed.iter().any(|it| it == near), "{near}");
    }
}
