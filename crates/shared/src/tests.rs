//! A build without the store has the same methods as one with it.

use std::{collections::BTreeMap, fs, path::Path};

/// Methods for the store's own modules.
const INNER: [&str; 1] = ["outlet"];

/// Returns the public methods of `Shared` in a file, with the types that they return.
fn methods(path: &Path, into: &mut BTreeMap<String, String>) {
    let text = fs::read_to_string(path).unwrap();
    for block in text.split("\nimpl Shared {").skip(1) {
        let block = block.split("\n}").next().unwrap();
        for method in block.split("\n    pub ").skip(1) {
            let method = method.strip_prefix("async ").map_or(method.to_owned(), |it| format!("async {it}"));
            let Some((head, _)) = method.split_once(" {") else { continue };
            let Some((name, arguments)) = head.split_once('(') else { continue };
            let returned = arguments.rsplit_once(')').map_or("", |(_, it)| it);
            into.insert(name.replace("async ", "").replace("fn ", ""), returned.replace("crate::", ""));
        }
    }
}

#[test]
fn the_absent_store_has_the_methods_of_the_store() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut there, mut absent) = (BTreeMap::new(), BTreeMap::new());
    methods(&sources.join("store.rs"), &mut there);
    for entry in fs::read_dir(sources.join("store")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            methods(&path, &mut there);
        }
    }
    methods(&sources.join("absent.rs"), &mut absent);
    assert!(there.len() > 20, "{there:?}");
    there.retain(|name, _| absent.contains_key(name) || !INNER.contains(&name.as_str()));
    assert_eq!(there, absent);
}
