//! Files are replaced in one step, keep their properties, and are changed together or not at all.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::{Swap, swap_all};
use crate::tool::fake::Project;

fn swap(path: &Path, after: Option<&str>) -> Swap {
    Swap {
        path: path.to_owned(),
        real: path.to_owned(),
        before: fs::read(path).ok(),
        after: after.map(|text| text.as_bytes().to_vec()),
        like: None,
    }
}

fn replace(path: &Path) -> io::Result<()> {
    swap_all(&[swap(path, Some("new"))]).map(drop).map_err(|failure| failure.error)
}

#[test]
fn mode_is_kept_and_no_temporary_is_left() {
    let project = Project::new();
    let path = project.write("run.sh", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).expect("set");
    let inode = fs::metadata(&path).expect("there").ino();
    replace(&path).expect("replaced");
    let metadata = fs::metadata(&path).expect("there");
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o751);
    assert_ne!(metadata.ino(), inode, "the old file stays whole for those who have it open");
    assert_eq!(project.content("run.sh"), "new");
    assert_eq!(fs::read_dir(project.path(".")).expect("read").count(), 1);
}

#[test]
fn special_bits_attributes_and_access_lists_are_kept() {
    let project = Project::new();
    for mode in [0o6755, 0o4711, 0o2755, 0o1644] {
        for is_linked in [false, true] {
            let path = project.write("program", "old");
            if is_linked {
                fs::hard_link(&path, project.path("other")).expect("linked");
            }
            // Only root may change the owner; otherwise it stays the test's.
            let _ = std::os::unix::fs::chown(&path, Some(12), Some(34));
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
            let owner = fs::metadata(&path).expect("there");
            replace(&path).expect("replaced");
            let now = fs::metadata(&path).expect("there");
            assert_eq!(now.permissions().mode() & 0o7777, mode, "{mode:o}");
            assert_eq!((now.uid(), now.gid()), (owner.uid(), owner.gid()));
            fs::remove_file(&path).expect("removed");
            let _ = fs::remove_file(project.path("other"));
        }
    }
    let path = project.write("file", "old");
    // An access list that lets user 12 read: version 2, then tag, rights and id of each entry.
    let entry = |tag: u16, rights: u16, id: u32| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes()[..], &id.to_le_bytes()[..]].concat()
    };
    let none = u32::MAX;
    let list = [
        2u32.to_le_bytes().to_vec(),
        [entry(1, 6, none), entry(2, 4, 12), entry(4, 0, none), entry(16, 4, none), entry(32, 0, none)]
            .concat(),
    ]
    .concat();
    let set = |name: &str, value: &[u8]| xattr::set(&path, name, value).is_ok();
    // Not every file system supports these attributes.
    let expected = [
        ("user.origin", &b"here"[..], set("user.origin", b"here")),
        ("system.posix_acl_access", &list[..], set("system.posix_acl_access", &list)),
    ];
    replace(&path).expect("replaced");
    for (name, value, _) in expected.iter().filter(|(_, _, is_set)| *is_set) {
        assert_eq!(xattr::get(&path, name).expect("read").as_deref(), Some(*value), "{name}");
    }
    assert_eq!(project.content("file"), "new");
}

#[test]
fn hard_links_stay_together() {
    let project = Project::new();
    let path = project.write("a", "old");
    fs::hard_link(&path, project.path("b")).expect("linked");
    replace(&path).expect("replaced");
    assert_eq!(project.content("b"), "new");
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let project = Project::new();
    fs::create_dir(project.path("a")).expect("created");
    replace(&project.path("a")).expect_err("is a directory");
    assert_eq!(fs::read_dir(project.path(".")).expect("read").count(), 1);
}

#[test]
fn several_files_change_together() {
    let project = Project::new();
    let (updated, deleted) = (project.write("updated", "1"), project.write("deleted", "2"));
    let created = project.path("x/y/created");
    let like = project.write("like", "");
    fs::set_permissions(&like, fs::Permissions::from_mode(0o750)).expect("set");
    let swaps = [
        swap(&updated, Some("one")),
        swap(&deleted, None),
        Swap { like: Some(like), ..swap(&created, Some("three")) },
    ];
    let stamps = swap_all(&swaps).map_err(|failure| failure.error).expect("swapped");
    assert_eq!(stamps.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!((project.content("updated"), project.content("x/y/created")), ("one".into(), "three".into()));
    assert_eq!(fs::metadata(created).expect("there").permissions().mode() & 0o777, 0o750);
    assert_eq!(fs::read_dir(project.path(".")).expect("read").count(), 3);
}

#[test]
fn a_failure_in_the_middle_leaves_everything_as_it_was() {
    let project = Project::new();
    let (updated, deleted) = (project.write("updated", "1"), project.write("deleted", "2"));
    let linked = project.write("linked", "3");
    fs::hard_link(&linked, project.path("other")).expect("linked");
    let created = project.path("x/y/created");
    let inode = fs::metadata(&updated).expect("there").ino();
    // Only the removal shows that the path is a directory.
    fs::create_dir(project.path("directory")).expect("created");
    let swaps = [
        swap(&updated, Some("one")),
        swap(&deleted, None),
        swap(&linked, Some("three")),
        swap(&created, Some("four")),
        swap(&project.path("directory"), None),
    ];
    let failure = swap_all(&swaps).map(drop).expect_err("a directory is no file");
    assert_eq!(failure.path, project.path("directory"));
    assert_eq!(
        ["updated", "deleted", "linked", "other"].map(|name| project.content(name)),
        ["1", "2", "3", "3"].map(str::to_owned)
    );
    assert_eq!(fs::metadata(&updated).expect("there").ino(), inode);
    assert!(!project.path("x").exists());
    assert_eq!(fs::read_dir(project.path(".")).expect("read").count(), 5);
}

#[test]
fn a_directory_swapped_for_a_link_never_leads_a_write_outside() {
    let project = Project::new();
    let root = windlass_base::path::real(&project.path("."));
    let outside = root.join("outside");
    fs::create_dir(&outside).expect("made");
    let (inside, aside, link) = (root.join("inside"), root.join("aside"), root.join("link"));
    fs::create_dir(&inside).expect("made");
    std::os::unix::fs::symlink(&outside, &link).expect("linked");
    let is_over = AtomicBool::new(false);
    let n_written = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // At any time one of the two is in place, or for a moment neither.
                let _ = fs::rename(&inside, &aside).and_then(|()| fs::rename(&link, &inside));
                let _ = fs::rename(&inside, &link).and_then(|()| fs::rename(&aside, &inside));
            }
        });
        let mut n_written = 0;
        // The other thread may be held up while the link is in place: then more tries are needed.
        for idx in 0..1_000_000 {
            if idx >= 500 && n_written > 0 {
                break;
            }
            let created = swap(&inside.join(format!("f{idx}")), Some("new"));
            let deep = swap(&inside.join(format!("d{idx}/f")), Some("new"));
            n_written += usize::from(swap_all(&[created]).is_ok() | swap_all(&[deep]).is_ok());
        }
        is_over.store(true, Ordering::Relaxed);
        n_written
    });
    assert!(n_written > 0, "nothing was tried at the right moment");
    assert_eq!(fs::read_dir(&outside).expect("read").count(), 0, "something landed outside");
}
