//! Words and files as they are typed.

use std::path::PathBuf;

use clap::Parser;

use super::{Given, RunArgs};

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    run: RunArgs,
}

fn given(line: &[&str]) -> Given {
    let line = ["run"].iter().chain(line);
    Cli::try_parse_from(line).expect("the line is understood").run.given()
}

fn check(line: &[&str], words: &[&str], files: &[&str]) {
    let Given { words: given_words, files: given_files, .. } = given(line);
    assert_eq!(given_words, words, "{line:?}");
    assert_eq!(given_files, files.iter().map(PathBuf::from).collect::<Vec<_>>(), "{line:?}");
}

#[test]
fn several_files_may_stand_behind_one_option() {
    // A directory that exists where the tests run.
    let (a, b) = ("Cargo.toml", "src");
    check(&["-f", a, b, "--", "compare", "them"], &["compare", "them"], &[a, b]);
    check(&["compare", "-f", a, b], &["compare"], &[a, b]);
    check(&["-f", a, "-f", b, "compare", "them"], &["compare", "them"], &[a, b]);
    check(&["-f", a, b, "compare", "src"], &["compare", "src"], &[a, b]);
    check(&["-f", a, "--thinking", "compare"], &["compare"], &[a]);
}

#[test]
fn a_file_that_does_not_exist_is_no_word_where_words_stand_elsewhere() {
    check(&["-f", "none", "--", "go"], &["go"], &["none"]);
    check(&["go", "-f", "Cargo.toml", "none"], &["go"], &["Cargo.toml", "none"]);
    check(&["-f", "none", "go"], &["go"], &["none"]);
}

#[test]
fn words_behind_two_dashes_are_literal() {
    assert!(given(&["--", "/etc", "-x"]).is_literal);
    assert!(!given(&["/etc", "--", "-x"]).is_literal);
    assert!(!given(&["/etc"]).is_literal);
}
