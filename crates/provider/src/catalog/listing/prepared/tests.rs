//! Prepared entries: those in the binary are those of the code, and damaged ones are made anew.

use std::{borrow::Cow, cell::RefCell, fs, path::Path};

use super::*;

#[test]
#[expect(clippy::disallowed_methods, reason = "a switch of the test, not a setting")]
fn the_entries_in_the_binary_are_those_that_the_code_makes() {
    let made = Prepared::make(&Table::packed()).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/catalog/listing/prepared.bin");
    // Not byte by byte: another version of the library may compress them to other bytes.
    let shown = |prepared: &Prepared| -> Vec<String> {
        let lines = prepared.places.iter();
        lines
            .map(|it| format!("{} {} {:08x} {} {}", it.id, it.n_bytes, it.checksum, it.newest, it.templates))
            .collect()
    };
    let built_in = Prepared::of(&Table::packed(), || None, |_| ()).as_ref().map(shown).unwrap_or_default();
    if built_in != shown(&made) {
        assert!(
            std::env::var("UPDATE_EXPECT").is_ok(),
            "{} is not up to date; run with UPDATE_EXPECT=1 to write it",
            file.display()
        );
        fs::write(&file, &made.bytes).unwrap();
    }
    assert!(made.places.len() > 100, "{}", made.places.len());
}

#[test]
fn entries_that_were_kept_are_used_unless_they_are_damaged_or_of_another_catalog() {
    let json = |model: &str| {
        format!(
            r#"{{"a": {{"id": "a", "name": "A", "api": "http://a", "models": {{"{model}": {{"name": "M"}}}}}}}}"#
        )
    };
    let table = |model: &str| {
        Table::from_bytes(crate::catalog::table::pack(&json(model), "2026-11-22").unwrap()).unwrap()
    };
    let kept = RefCell::new(None::<Vec<u8>>);
    let of = |table: &Table| {
        let n_made = RefCell::new(0);
        let keep = |bytes: &[u8]| {
            *n_made.borrow_mut() += 1;
            kept.replace(Some(bytes.to_vec()));
        };
        let prepared = Prepared::of(table, || kept.borrow().clone(), keep).unwrap();
        let newest = prepared.find("a").unwrap().newest.map(str::to_owned);
        (newest.unwrap(), n_made.into_inner())
    };
    assert_eq!(of(&table("one")), ("one".to_owned(), 1));
    assert_eq!(of(&table("one")), ("one".to_owned(), 0));
    assert_eq!(of(&table("two")), ("two".to_owned(), 1));
    let whole = kept.borrow().clone().unwrap();
    let two = table("two");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        assert!(Prepared::read(Cow::Owned(damaged), Some(&two)).is_none(), "byte {at}");
        assert!(Prepared::read(Cow::Owned(whole[..at].to_vec()), Some(&two)).is_none(), "{at} bytes");
    }
}
