//! Files that a glob includes.

use std::path::Path;

use super::{Included, literal_end, matcher};

const GLOBS: &[&str] = &[
    "*",
    "**",
    "**/*",
    "*.rs",
    "**/*.rs",
    "*.{rs,ts}",
    "{a,b}.rs",
    "{a,b/*.rs}",
    "a.rs",
    "/a.rs",
    "b/a.rs",
    "b/",
    "b/**",
    "**/b/*",
    "a.r?",
    "a.[rt]s",
    "[!a].rs",
    "*.rs ",
    "a\\.rs",
    "*\\ ",
    "\\!a.rs",
    "!*.rs",
    "#a.rs",
    "\\#a.rs",
    "a,b.rs",
    "a{,.rs}",
    "*.r*s",
    "**/file_*000.rs",
    "ä*.rs",
    "*ä",
    ".hidden",
    "*]",
    "a b",
];
const NAMES: &[&str] = &[
    "a.rs",
    "a.ts",
    "b.rs",
    "b/a.rs",
    "b/c/a.rs",
    "b",
    "a",
    "a.rs ",
    "!a.rs",
    "#a.rs",
    "a,b.rs",
    "b/file_1000.rs",
    "file_1001.rs",
    "ä.rs",
    "cä",
    ".hidden",
    "x]",
    "a b",
    "b/x y ",
    "a\\.rs",
    "A.RS",
];

#[test]
fn the_end_of_a_glob_leaves_nothing_out_that_the_glob_matches() {
    let root = Path::new("/project");
    for glob in GLOBS {
        let included = Included::by(root, glob).unwrap();
        let whole = matcher(root, &[glob]).unwrap();
        for name in NAMES {
            let path = root.join(name);
            let is_matched = whole.is_empty() || whole.matched(&path, false).is_whitelist();
            assert_eq!(included.has(&path), is_matched, "{glob:?} {name:?}");
        }
    }
}

#[test]
fn the_end_is_the_text_behind_the_last_wildcard() {
    for (glob, end) in [
        ("**/file_*000.rs", "000.rs"),
        ("*.rs", ".rs"),
        ("src/main.rs", "main.rs"),
        ("*.{rs,ts}", ""),
        ("[ab]c", "c"),
        ("*.rs ", ""),
        ("!*.rs", ""),
        ("#x", ""),
        ("a\\*", ""),
        ("src/", ""),
        ("", ""),
    ] {
        assert_eq!(literal_end(glob), end, "{glob:?}");
    }
}
