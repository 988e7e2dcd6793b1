//! Changes are seen wherever they happen, and only those that matter.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tempfile::TempDir;

use super::{
    Stamp, Target, Watcher,
    plan::{Plan, Wanted},
};

/// The directories that are watched for some targets, below a root, each with the names that matter there.
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
        Some((below(&directory)?, names))
    });
    named.collect()
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
fn what_does_not_exist_is_awaited_where_it_will_appear() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    let targets = [
        Target::File(root.join("here/one.json")),
        Target::File(root.join("here/later/two.json")),
        Target::Tree(root.join("here/much/later/agents")),
    ];
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(plan(&root, &targets), [("here".to_owned(), names(&["later", "much", "one.json"]))]);
}

#[test]
fn a_tree_is_followed_with_its_directories_but_not_into_packages() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    let targets = [Target::Tree(root.join("here/agents"))];
    let everything = vec!["*".to_owned()];
    assert_eq!(
        plan(&root, &targets),
        [
            ("here".to_owned(), vec!["agents".to_owned()]),
            ("here/agents".to_owned(), everything.clone()),
            ("here/agents/deep".to_owned(), everything),
        ]
    );
}

#[test]
fn links_are_followed_to_where_they_lead() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    symlink(root.join("elsewhere/real.md"), root.join("here/agents/linked.md")).unwrap();
    // Round in circles.
    symlink(root.join("here/agents"), root.join("here/agents/deep/again")).unwrap();
    let targets = [Target::Tree(root.join("here/agents"))];
    let directories: Vec<String> =
        plan(&root, &targets).into_iter().map(|(directory, _)| directory).collect();
    assert_eq!(directories, ["elsewhere", "here", "here/agents", "here/agents/deep"]);
}

async fn sees_change(watcher: &mut Watcher) -> bool {
    // What has happened is in the queue already.
    tokio::time::timeout(Duration::from_millis(300), watcher.changed()).await.is_ok_and(|seen| seen.is_ok())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn only_what_is_followed_wakes() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    let file = root.join("here/one.json");
    let mut watcher = Watcher::new().unwrap();
    assert!(watcher.follow(&[Target::File(file.clone())], UNIX_EPOCH).unwrap());
    assert!(!watcher.follow(&[Target::File(file.clone())], UNIX_EPOCH).unwrap());
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
    let targets = [Target::Tree(root.join("here/agents"))];
    let mut watcher = Watcher::new().unwrap();
    watcher.follow(&targets, UNIX_EPOCH).unwrap();
    fs::rename(root.join("here"), root.join("gone")).unwrap();
    assert!(sees_change(&mut watcher).await);
    assert!(watcher.follow(&targets, UNIX_EPOCH).unwrap());
    while sees_change(&mut watcher).await {}
    fs::write(root.join("gone/agents/old.md"), "").unwrap();
    assert!(!sees_change(&mut watcher).await);
    fs::create_dir_all(root.join("here/agents")).unwrap();
    assert!(sees_change(&mut watcher).await);
    assert!(watcher.follow(&targets, UNIX_EPOCH).unwrap());
    while sees_change(&mut watcher).await {}
    fs::write(root.join("here/agents/new.md"), "").unwrap();
    assert!(sees_change(&mut watcher).await);
}

#[test]
fn what_changed_before_it_was_watched_is_known_by_its_time() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    let may_have_changed = |targets: &[Target], since: SystemTime| {
        let directories = Plan::new(targets).directories;
        directories.iter().any(|(directory, wanted)| wanted.may_have_changed(directory, since))
    };
    let hour = Duration::from_secs(3600);
    for target in [Target::File(root.join("elsewhere/real.md")), Target::Tree(root.join("here/agents"))] {
        assert!(may_have_changed(std::slice::from_ref(&target), SystemTime::now() - hour));
        assert!(!may_have_changed(&[target], SystemTime::now() + hour));
    }
}

/// A change of what is followed, and what it is called.
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
        let targets = [Target::Tree(root.join("here/agents")), Target::File(root.join("here/one.json"))];
        let later = SystemTime::now() + Duration::from_secs(60);
        let before = Stamp::settled(&targets, later);
        assert!(before.is_some(), "{name}");
        change(&root);
        let is_same = before == Stamp::settled(&targets, later);
        assert_eq!(is_same, matches!(name, "nothing" | "what nobody follows"), "{name}");
    }
}

#[test]
fn what_changed_as_it_was_read_has_no_stamp() {
    let scratch = scratch();
    let root = scratch.path().canonicalize().unwrap();
    let targets = [Target::File(root.join("elsewhere/real.md"))];
    assert_eq!(Stamp::settled(&targets, UNIX_EPOCH), None);
    let changed = fs::metadata(root.join("elsewhere/real.md")).unwrap().modified().unwrap();
    assert_eq!(Stamp::settled(&targets, changed + Duration::from_millis(1)), None);
    assert!(Stamp::settled(&targets, changed + Duration::from_secs(5)).is_some());
}
