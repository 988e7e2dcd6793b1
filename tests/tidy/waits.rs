//! Refuses tests that depend on the speed of the machine, on the clock, or on the place of the checkout.

use std::path::Path;

/// Files with sleeps, their number, and the reason: none of them puts things in order.
const SLEEPS: &[(&str, usize, &str)] = &[
    ("tests/lsp.rs", 1, "polls a file that a server writes"),
    ("tests/mcp.rs", 1, "polls the tools that are offered"),
    ("tests/reaper.rs", 1, "polls the command line of a process"),
    ("tests/reload.rs", 1, "time is measured"),
    ("tests/sandbox_prepared.rs", 1, "polls the children of a process"),
    ("tests/serve/limits.rs", 1, "polls the descriptors of a process"),
    ("tests/support/agent.rs", 1, "polls processes"),
    ("tests/support/postgres.rs", 1, "polls a server that has no sign of its start"),
    ("tests/support/process.rs", 2, "polls processes"),
    ("tests/support/scratch.rs", 1, "polls a file that a command writes"),
];

/// Texts that one file may have, the file, and the replacement for others.
const ONLY_IN: &[(&str, &str, &str)] = &[
    ("CARGO_TARGET_TMPDIR", "tests/support/outside.rs", "use `support::outside`"),
    ("subsec_nanos", "tests/support/random.rs", "use `random::seed`"),
    ("\"skipped", "tests/support/skip.rs", "use `support::skip`"),
    ("NOT TESTED", "", "use `support::skip`"),
];

/// Functions that have `DEADLINE` as their limit, or a constant that says which claim it is.
const LIMITED: &[&str] = &["timeout(", "within(", "childless("];

#[test]
fn tests_depend_neither_on_speed_nor_on_the_clock_nor_on_their_place() {
    let mut problems = Vec::new();
    for (path, text) in super::files("tests", "rs") {
        let is_other = ["tests/bench", "tests/clients", "tests/tidy"].iter().any(|it| path.starts_with(it));
        if !is_other {
            problems.extend(found(&path, &text).into_iter().map(|it| format!("{}: {it}", path.display())));
        }
    }
    super::report(problems);
}

fn found(path: &Path, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (word, file, instead) in ONLY_IN {
        if text.contains(word) && Path::new(file) != path {
            problems.push(format!("`{word}`: {instead}"));
        }
    }
    for (idx, line) in text.lines().enumerate() {
        let mut add = |problem: &str| problems.push(format!("{}: {problem}", idx + 1));
        if LIMITED.iter().any(|name| line.contains(&format!("{name}Duration::from_"))) {
            add("give `DEADLINE`, or a constant that says which claim it is");
        }
        // Only a stopwatch leaves out the waits for a busy processor.
        let is_wall_clock = |(before, limit): (&str, &str)| {
            before.contains("assert!(") && !before.ends_with("watch") && !limit.starts_with("DEADLINE")
        };
        if line.split_once(".elapsed() < ").is_some_and(is_wall_clock) {
            add("a time limit that is a claim is measured by a `Stopwatch` named `watch`");
        }
    }
    let n_sleeps = text.matches("sleep(Duration").count();
    let n_known = SLEEPS.iter().find(|(file, ..)| Path::new(file) == path).map_or(0, |(_, n, _)| *n);
    if n_sleeps != n_known {
        problems
            .push(format!("{n_sleeps} sleeps, not {n_known}: wait for a sign, or add a reason to SLEEPS"));
    }
    problems
}

#[test]
fn every_kind_of_dependence_is_found() {
    for (line, n_problems) in [
        ("timeout(DEADLINE, child.wait()).await", 0),
        ("timeout(Duration::from_secs(5), child.wait()).await", 1),
        ("agent.childless(Duration::from_secs(2)).await;", 1),
        ("assert!(watch.elapsed() < LIMIT);", 0),
        ("assert!(start.elapsed() < LIMIT);", 1),
        ("assert!(start.elapsed() < DEADLINE);", 0),
        ("assert!(start.elapsed() >= PAUSE);", 0),
        ("tokio::time::sleep(Duration::from_millis(50)).await;", 1),
        ("tempfile::tempdir_in(env!(\"CARGO_TARGET_TMPDIR\"))", 1),
        ("eprintln!(\"skipped without Landlock\");", 1),
        ("u64::from(clock.subsec_nanos())", 1),
    ] {
        assert_eq!(found(Path::new("tests/new.rs"), line).len(), n_problems, "{line}");
    }
}
