//! Links on the way to a path, whether there is something at its end or not.

use std::{fs, os::unix::fs::symlink};

use super::real;

#[test]
fn links_are_followed_from_the_root_and_from_their_own_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("a/b")).unwrap();
    symlink("b/../missing", root.join("a/relative")).unwrap();
    symlink(root.join("a"), root.join("absolute")).unwrap();
    symlink("circle", root.join("circle")).unwrap();
    for (path, expected) in [
        ("a/b", "a/b"),
        ("a/relative/x", "a/missing/x"),
        ("absolute/b/./c", "a/b/c"),
        ("absolute/relative/..", "a"),
        ("nothing/../a", "a"),
        ("circle/x", "circle/x"),
    ] {
        assert_eq!(real(&root.join(path)), root.join(expected), "{path}");
    }
    assert_eq!(real("/".as_ref()), std::path::Path::new("/"));
}
