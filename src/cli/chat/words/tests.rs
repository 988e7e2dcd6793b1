//! Typed beginnings and their completions.

use std::sync::Arc;

use super::{super::reflow::Drawn, Words};

fn words() -> Words {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Words {
        directory: env!("CARGO_MANIFEST_DIR").into(),
        commands: names(&["init", "model", "mode"]),
        models: names(&["mock/mock", "mock/other"]),
        agents: names(&["build", "plan"]),
        subagents: names(&["srcery"]),
        sessions: Arc::new(names(&["ses_one", "ses_two"]).into()),
        drawn: Drawn::default(),
    }
}

fn check(typed: &str, start: usize, fits: &[&str]) {
    let (found_start, found) = words().candidates(typed);
    assert_eq!((found_start, found), (start, fits.iter().map(|fit| (*fit).to_owned()).collect()), "{typed}");
}

#[test]
fn commands_and_their_arguments_are_completed() {
    check("/mo", 0, &["/model ", "/mode "]);
    check("/model mock/o", 7, &["mock/other"]);
    check("/agent p", 7, &["plan"]);
    check("/sessions ses_t", 10, &["ses_two"]);
    check("/resume ", 8, &["ses_one", "ses_two"]);
    check("see /mo", 4, &[]);
}

#[test]
fn files_and_subagents_are_completed() {
    check("see @src/lib.", 4, &["@src/lib.rs "]);
    check("@sr", 0, &["@src/", "@srcery "]);
    check("@src/cha", 0, &[]);
    check("ä @Cargo.to", 3, &["@Cargo.toml "]);
    check("@.gitig", 0, &["@.gitignore "]);
    check("a@sr", 0, &[]);
}
