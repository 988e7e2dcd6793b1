//! Every change of an entry is told once, and the loss of the whole is said.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{TreeWatch, mounted};
use crate::watch::{Changes, Lost};

fn scratch() -> (TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().canonicalize().unwrap().join("root");
    fs::create_dir_all(root.join("inner")).unwrap();
    fs::write(root.join("inner/file"), "one").unwrap();
    (scratch, root)
}

fn watch(root: &Path) -> TreeWatch {
    let mut watch = TreeWatch::new(root).unwrap();
    for directory in ["", "inner"] {
        assert!(watch.add(Path::new(directory)).unwrap());
    }
    watch
}

fn told(watch: &mut TreeWatch) -> (Vec<String>, Vec<String>) {
    let Changes { entries, directories, .. } = watch.take().unwrap();
    let sorted = |paths: std::collections::HashSet<PathBuf>| {
        let mut names: Vec<_> = paths.into_iter().map(|path| path.display().to_string()).collect();
        names.sort();
        names
    };
    (sorted(entries), sorted(directories))
}

#[test]
fn every_change_of_an_entry_is_told_once() {
    type Change = fn(&Path);
    let changes: [(Change, &[&str], &[&str]); 10] = [
        (|_| {}, &[], &[]),
        (|root| fs::write(root.join("inner/file"), "two").unwrap(), &["inner/file"], &[]),
        (|root| fs::write(root.join("new"), "").unwrap(), &["new"], &[]),
        (|root| fs::remove_file(root.join("inner/file")).unwrap(), &["inner/file"], &[]),
        (
            |root| fs::rename(root.join("inner/file"), root.join("moved")).unwrap(),
            &["inner/file", "moved"],
            &[],
        ),
        (|root| symlink("inner", root.join("link")).unwrap(), &["link"], &[]),
        (
            |root| fs::set_permissions(root.join("inner/file"), fs::Permissions::from_mode(0o600)).unwrap(),
            &["inner/file"],
            &[],
        ),
        // The directory tells it of itself, and the one above of its entry.
        (
            |root| fs::set_permissions(root.join("inner"), fs::Permissions::from_mode(0o700)).unwrap(),
            &["inner"],
            &[],
        ),
        (|root| fs::create_dir_all(root.join("inner/deep/er")).unwrap(), &[], &["inner/deep"]),
        (|root| fs::rename(root.join("inner"), root.join("other")).unwrap(), &[], &["inner", "other"]),
    ];
    for (change, entries, directories) in changes {
        let (_scratch, root) = scratch();
        let mut watch = watch(&root);
        change(&root);
        let (told_entries, told_directories) = told(&mut watch);
        assert_eq!((told_entries, told_directories), (owned(entries), owned(directories)));
        assert_eq!(told(&mut watch), (owned(&[]), owned(&[])));
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_directory_that_was_moved_is_told_of_by_its_new_path() {
    let (_scratch, root) = scratch();
    let mut watch = watch(&root);
    fs::rename(root.join("inner"), root.join("other")).unwrap();
    fs::write(root.join("other/file"), "unseen, until it is watched there").unwrap();
    assert_eq!(told(&mut watch), (owned(&[]), owned(&["inner", "other"])));
    assert!(watch.add(Path::new("other")).unwrap());
    fs::write(root.join("other/file"), "seen").unwrap();
    assert_eq!(told(&mut watch), (owned(&["other/file"]), owned(&[])));
    assert!(!watch.add(Path::new("inner")).unwrap());
}

#[test]
fn a_file_that_is_mapped_is_told_of_when_it_is_let_go() {
    let (_scratch, root) = scratch();
    let mut watch = watch(&root);
    let file = fs::File::options().append(true).open(root.join("inner/file")).unwrap();
    assert_eq!(told(&mut watch), (owned(&[]), owned(&[])));
    drop(file);
    assert_eq!(told(&mut watch), (owned(&["inner/file"]), owned(&[])));
}

#[test]
fn more_events_than_the_system_keeps_are_a_loss() {
    let (_scratch, root) = scratch();
    let mut watch = watch(&root);
    let limit: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    // Two events each, of which no two that follow one another are alike.
    for number in 0..limit / 2 + 1 {
        fs::write(root.join(if number % 2 == 0 { "even" } else { "odd" }), "").unwrap();
    }
    assert_eq!(watch.take().unwrap_err(), Lost::Events);
}

#[test]
fn another_directory_in_the_place_of_the_root_is_a_loss() {
    type Change = fn(&Path);
    let changes: [Change; 3] = [
        |root| fs::rename(root, root.with_file_name("moved")).unwrap(),
        |root| fs::remove_dir_all(root).unwrap(),
        |root| {
            // Nothing tells of the directory above.
            let above = root.parent().unwrap();
            fs::rename(above, above.with_extension("moved")).unwrap();
            fs::create_dir_all(root).unwrap();
        },
    ];
    for change in changes {
        let (scratch, root) = scratch();
        let mut watch = watch(&root);
        change(&root);
        assert_eq!(watch.take().unwrap_err(), Lost::Root);
        let _ = fs::remove_dir_all(scratch.path().with_extension("moved"));
    }
}

#[test]
fn file_systems_below_the_root_and_its_own_are_found() {
    let mounts = "\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:5 / /work rw - tmpfs none rw
24 23 0:6 / /work/a\\040b rw - nfs host:/ rw
25 22 0:7 / /workshop rw - fuse.sshfs host: rw
";
    let found = |root: &str| {
        let (within, kind) = mounted(mounts, Path::new(root));
        (within.len(), kind)
    };
    assert_eq!(found("/work"), (1, "tmpfs".to_owned()));
    assert_eq!(found("/work/a b"), (0, "nfs".to_owned()));
    assert_eq!(found("/work/a"), (0, "tmpfs".to_owned()));
    assert_eq!(found("/home"), (0, "ext4".to_owned()));
    assert_eq!(found("/"), (3, "ext4".to_owned()));
}
