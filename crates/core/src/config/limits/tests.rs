//! Lists of tools as words and as rules.

use std::path::Path;

use serde_json::{Value, json};
use windlass_protocol::opencode::permission::Action::{Allow, Deny};

use super::{Kind, Tool, own_name, tools};
use crate::config::rules::last_match;

#[track_caller]
fn check(list: Value, expected: &[(&str, Option<&str>)]) {
    let read = tools(&list).unwrap();
    let read: Vec<_> = read.iter().map(|it| (it.permission.as_str(), it.specifier.as_deref())).collect();
    assert_eq!(read, expected, "{list}");
}

#[test]
fn a_list_is_read_in_every_form() {
    let expected = [("read", None), ("grep", None), ("bash", Some("git diff:*"))];
    for list in [
        json!("Read, Grep, Bash(git diff:*)"),
        json!("Read Grep  Bash(git diff:*)"),
        json!(["Read", "Grep", "Bash(git diff:*)"]),
        json!(["Read, Grep", "Bash(git diff:*)"]),
        json!("read,grep,bash(git diff:*),"),
    ] {
        check(list, &expected);
    }
    check(json!(""), &[]);
    check(json!([]), &[]);
    check(json!("Bash(*), Task(a, b)"), &[("bash", None), ("task", Some("a, b"))]);
}

#[test]
fn names_of_claude_code_are_ours() {
    for (theirs, ours) in [
        ("LS", "list"),
        ("Agent", "task"),
        ("TodoWrite", "todowrite"),
        ("WebFetch", "webfetch"),
        ("mcp__shop__buy_now", "shop_buy_now"),
        ("mcp__shop", "shop_*"),
        ("mcp__my.shop__*", "my_shop_*"),
        // A tool of a plugin or a server has the name that it has.
        ("ls", "ls"),
        ("Deploy", "Deploy"),
        ("GitHub_create", "GitHub_create"),
    ] {
        assert_eq!(own_name(theirs), ours);
    }
    for edit in ["Write", "Edit", "MultiEdit", "NotebookEdit", "write", "apply_patch"] {
        check(json!([edit]), &[("edit", None)]);
    }
}

#[test]
fn what_is_no_list_of_tools_is_named() {
    for (list, odd) in [
        (json!(5), "5"),
        (json!(true), "true"),
        (json!(["Read", 5]), "5"),
        (json!([{"bash": false}]), "{\"bash\":false}"),
        (json!("!Bash, Read"), "\"!Bash\""),
        (json!("-Bash"), "\"-Bash\""),
        (json!("[Read, Grep]"), "\"[Read\""),
        (json!("Bash (git:*)"), "\"(git:*)\""),
        (json!("Bash(git:*"), "\"Bash(git:*\""),
        (json!("Bash(git:*)x"), "\"Bash(git:*)x\""),
    ] {
        assert_eq!(tools(&list), Err(odd.to_owned()), "{list}");
    }
}

#[test]
fn the_text_in_parentheses_is_a_pattern_and_never_widens() {
    let verdict = |word: &str, action, permission: &str, text: &str| {
        let tools = vec![Tool::parse(word).unwrap()];
        let kind = if action == Allow { Kind::Only(tools) } else { Kind::Restricted(action, tools) };
        let rules = kind.rules(Path::new("/home/u"));
        last_match(permission, text, rules.iter()).map(|rule| rule.action)
    };
    for (word, permission, text, only, without) in [
        ("Bash(git diff:*)", "bash", "git diff HEAD", Some(Allow), Some(Deny)),
        ("Bash(git diff:*)", "bash", "git push", Some(Deny), None),
        ("Bash(npm run test)", "bash", "npm run test", Some(Allow), Some(Deny)),
        ("Bash(:*)", "bash", "rm x", Some(Allow), Some(Deny)),
        ("Read(./src/**)", "read", "src/a/b.rs", Some(Allow), Some(Deny)),
        ("Read(.env)", "read", "sub/.env", Some(Deny), Some(Deny)),
        ("Read(~/.ssh/**)", "read", "/home/u/.ssh/id", Some(Allow), Some(Deny)),
        ("Read(//etc/**)", "read", "/etc/passwd", Some(Allow), Some(Deny)),
        ("WebFetch(domain:a.example)", "webfetch", "https://a.example/x", Some(Allow), Some(Deny)),
        ("WebFetch(domain:a.example)", "webfetch", "https://b.example/x", Some(Deny), None),
        ("Agent(one, two)", "task", "two", Some(Allow), Some(Deny)),
        ("WebSearch(query:x)", "websearch", "y", Some(Deny), Some(Deny)),
    ] {
        let found = (verdict(word, Allow, permission, text), verdict(word, Deny, permission, text));
        assert_eq!(found, (only, without), "{word}: {permission} {text}");
    }
    for other in ["external_directory", "doom_loop", "network", "sandbox", "sampling"] {
        assert_eq!(verdict("Read", Allow, other, "x"), Some(Allow), "{other}");
    }
}
