//! Names that look the same.

use std::{fs, path::PathBuf};

use super::{alike, proposal};

fn found(there: &[&str], wanted: &str) -> Vec<PathBuf> {
    let root = tempfile::tempdir().unwrap();
    for name in there {
        let file = root.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "x").unwrap();
    }
    let found = alike(&root.path().join(wanted)).into_iter();
    found.map(|path| path.strip_prefix(root.path()).unwrap().to_owned()).collect()
}

#[test]
fn another_space_quote_dash_or_form_of_a_letter_looks_the_same() {
    for (there, wanted) in [
        ("a\u{202f}b.txt", "a b.txt"),
        ("a\u{a0}b.txt", "a b.txt"),
        ("a b.txt", "a\u{202f}b.txt"),
        ("cafe\u{301}.txt", "caf\u{e9}.txt"),
        ("caf\u{e9}.txt", "cafe\u{301}.txt"),
        ("it\u{2019}s.txt", "it's.txt"),
        ("a\u{2011}b.txt", "a-b.txt"),
        ("a\u{200b}b.txt", "ab.txt"),
        ("u\u{308}/x y.txt", "\u{fc}/x\u{a0}y.txt"),
    ] {
        assert_eq!(found(&[there], wanted), [PathBuf::from(there)], "{wanted:?}");
    }
}

#[test]
fn what_exists_or_looks_otherwise_is_not_replaced() {
    assert_eq!(found(&["a b", "a\u{a0}b"], "a b"), Vec::<PathBuf>::new());
    assert_eq!(found(&["a_b", "A b"], "a b"), Vec::<PathBuf>::new());
    let two = found(&["a\u{a0}b", "a\u{202f}b"], "a b");
    assert_eq!(two.len(), 2);
    assert_eq!(proposal(&two).unwrap(), "These look the same:\na\\u{a0}b\na\\u{202f}b");
    assert_eq!(proposal(&[]), None);
}
