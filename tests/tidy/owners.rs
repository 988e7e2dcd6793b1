//! Refuses tasks that nobody owns.

/// Files with such tasks, their number, and their end.
const KNOWN: &[(&str, usize, &str)] = &[
    ("crates/base/src/sandbox/prepared.rs", 1, "ends a few seconds after the command that it follows"),
    ("crates/core/src/pty.rs", 1, "ends with its terminal, which the table of terminals ends"),
    ("crates/services/src/plugin/host/part.rs", 1, "ends with its part, which waits for it"),
    ("src/cli/daemon/remote.rs", 1, "ends with the session that it follows"),
    ("src/http/acp/connections.rs", 1, "ends with its connection, which the table of connections ends"),
];

#[test]
fn every_task_has_an_owner() {
    let mut problems = Vec::new();
    let sources = super::sources().into_iter();
    for (path, text) in sources.filter(|(path, _)| !path.to_string_lossy().contains("tests")) {
        let n_known = KNOWN.iter().find(|(file, ..)| path.ends_with(file)).map_or(0, |(_, n, _)| *n);
        let n_unowned = unowned(&text);
        if n_unowned != n_known {
            problems.push(format!(
                "{}: {n_unowned} tasks that are left to themselves, not {n_known}: give them to an \
                 `AbortOnDropHandle`, a `JoinSet` or a tracker, or say in KNOWN how they end",
                path.display()
            ));
        }
    }
    super::report(problems);
}

#[test]
fn a_task_is_unowned_whose_handle_is_dropped() {
    for (text, n_unowned) in [
        ("    tokio::spawn(async move { work().await });\n", 1),
        ("    let task = tokio::spawn(work());\n", 0),
        ("    AbortOnDropHandle::new(tokio::spawn(work()));\n", 0),
        ("    let _ = tokio::spawn(work());\n", 1),
        ("    drop(tokio::spawn(work()));\n", 1),
        ("#[cfg(test)]\nmod tests {\n    tokio::spawn(work());\n}\n", 0),
    ] {
        assert_eq!(unowned(text), n_unowned, "{text}");
    }
}

/// Counts the tasks of a source file, without its tests, whose handle nothing takes.
fn unowned(text: &str) -> usize {
    let text = text.split_once("#[cfg(test)]\nmod tests {").map_or(text, |(before, _)| before);
    let is_dropped = |line: &&str| {
        ["", "let _ = ", "drop("].iter().any(|it| line.trim().starts_with(&format!("{it}tokio::spawn(")))
    };
    text.lines().filter(is_dropped).count()
}
