//! The figures beside their budgets.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::{
    Result, floor,
    scenarios::{Subject, median},
};

/// The maximum of each figure of windlass.
const BUDGETS: &[(&str, f64)] = &[
    ("binary, MB", 32.0),
    ("spawn → initialize, ms", 10.0),
    ("first session/new, ms", 8.0),
    ("memory after 1 session, RSS MB", 14.0),
    ("warm prompt over the model, ms", 2.0),
    ("5000 deltas, CPU µs each", 8.0),
    ("50000 deltas, CPU µs each", 8.0),
    ("a bash step of 200, ms", 8.0),
    ("a bash step of 200, CPU ms", 5.0),
    // No slower, with a tenth for the noise of two short measurements.
    ("last 50 steps over first 50", 1.1),
    ("memory after 100 sessions, RSS MB", 30.0),
    ("wake-ups of 100 idle sessions in 5 s", 0.0),
    ("CPU of 100 idle sessions in 5 s, ms", 0.0),
    ("memory of 100 idle sessions, RSS MB", 30.0),
    ("50 parallel turns of 1 s, ms", 1300.0),
    ("session/load of 221 turns, ms", 20.0),
    ("head of a 1 GB file, ms", 300.0),
    ("head of a 1 GB file, more MB", 2.0),
    ("bash printing 50 MB, ms", 400.0),
    ("bash printing 50 MB, more MB", 20.0),
    ("bash printing 50 MB, wire over shown", 3.0),
    ("50 MB in a terminal, ms", 400.0),
    ("50 MB in a terminal, more MB", 20.0),
    ("50 MB in a terminal, wire over shown", 3.0),
    ("edit in a 5 MB file, ms", 50.0),
    ("20 reads in one step, requests", 2.0),
    ("200 definitions: first session/new, ms", 40.0),
    ("200 definitions: session/new again, ms", 15.0),
    ("200 definitions: memory added, MB", 3.0),
    ("doctor, offline, ms", 300.0),
    ("8000 ended connections, more MB", 8.0),
    ("models of one provider, more than --version, ms", 10.0),
    ("384 models of the catalog, more RSS MB", 2.0),
    ("--version, ms", 5.0),
    ("run with the demo, first byte, ms", 30.0),
    ("drawing 5000 deltas, CPU µs each", 20.0),
    ("export of 2001 messages, html, ms", 1000.0),
    ("200 streams of 100 tokens/s, cores", 1.0),
    ("deltas behind 150 KB over the first", 1.1),
    ("session/load of 10000 messages, ms", 300.0),
    ("a turn behind 10000 messages, more ms", 5.0),
    ("a step in 80000 files, ms", 12.0),
    ("a step in 80000 files over one in none", 2.0),
    ("a step that changes ten of 80000 files, ms", 30.0),
    ("first session/new in 80000 files, ms", 5.0),
    ("HTTP: first GET /provider, ms", 5.0),
    ("HTTP: 200 sessions of 200, ms", 1.0),
    ("HTTP: 200 sessions of 10000, ms", 1.0),
    ("HTTP: all 10000 sessions, ms", 10.0),
    ("20000 turns, MB per 10000", 1.0),
    ("bash in the full sandbox, more ms", 1.0),
    ("bash in Landlock alone, more ms", 1.0),
    ("first session/new with a plugin, more ms", 100.0),
    ("a process of plugins, more RSS MB", 60.0),
    ("a step with five hooks, more ms", 0.5),
    ("5000 deltas to ten plugins, time over none", 1.1),
    // The second for which a prompt waits, and the time of a first prompt while thirty servers start.
    ("40 MCP servers, ten hang: first prompt, ms", 1200.0),
    ("40 MCP servers: a later prompt, more ms", 2.0),
    ("500 MCP tools, more RSS MB", 3.0),
    ("an edit with no server for its file, more ms", 0.5),
    ("an edit with diagnostics, more ms", 300.0),
    // Caches: 2.6 MB after one thousand, 3.0 MB after four thousand.
    ("1000 cancels, more RSS MB", 3.2),
    // At one of the two moments a launcher may be prepared for the next command, or a thread wait for work.
    ("1000 cancels, more open files", 2.0),
    ("1000 cancels, more threads", 1.0),
    ("1000 cancels, more processes", 1.0),
    ("grep, rare word, over rg", 1.1),
    ("grep, rare pattern, over rg", 1.1),
    ("grep, frequent word, over rg", 1.1),
    ("grep, first 100 by path, over rg", 1.1),
    ("grep, rare word in *.rs, over rg", 1.1),
    ("glob, 50 files, over rg", 1.1),
    ("glob, first 100 by path, over rg", 1.1),
];

/// The maximum of each figure of windlass over the floor's.
const OVER_FLOOR: &[(&str, f64)] = &[("spawn → initialize, ms", 2.0), ("a delta every ms, CPU µs each", 1.5)];

/// Returns the figure of windlass over the floor's, with its maximum.
fn over_floor(subjects: &[Subject], row: &str) -> Option<(f64, f64)> {
    let (_, most) = OVER_FLOOR.iter().find(|(name, _)| *name == row)?;
    let floor = figure(subjects.iter().find(|subject| subject.name == floor::NAME)?, row)?;
    Some((figure(subjects.first()?, row)?.median / floor.median, *most))
}

fn budget(row: &str) -> Option<f64> {
    BUDGETS.iter().find(|(name, _)| *name == row).map(|(_, budget)| *budget)
}

struct Figure {
    median: f64,
    min: f64,
    max: f64,
    runs: usize,
}

fn figure(subject: &Subject, row: &str) -> Option<Figure> {
    let (_, values) = subject.figures.iter().find(|(name, _)| name == row)?;
    let mut values = values.clone();
    // This also sorts them.
    let median = median(&mut values);
    Some(Figure { median, min: *values.first()?, max: *values.last()?, runs: values.len() })
}

/// Returns every row that any subject has, in the order of the measures.
fn rows(subjects: &[Subject]) -> Vec<&str> {
    let mut rows: Vec<&str> = Vec::new();
    for (name, _) in subjects.iter().flat_map(|subject| &subject.figures) {
        if !rows.contains(&name.as_str()) {
            rows.push(name);
        }
    }
    rows
}

pub fn render(subjects: &[Subject]) -> String {
    let mut out = format!("{:36}", "measure");
    for subject in subjects {
        let _ = write!(out, "{:>10}{:>19}", subject.name, "min–max");
    }
    let _ = writeln!(out, "{:>9}", "budget");
    for row in rows(subjects) {
        let _ = write!(out, "{row:36}");
        for subject in subjects {
            match figure(subject, row) {
                Some(Figure { median, min, max, .. }) => {
                    let _ =
                        write!(out, "{:>10}{:>19}", short(median), format!("{}–{}", short(min), short(max)));
                }
                None => {
                    let _ = write!(out, "{:>10}{:>19}", "-", "");
                }
            }
        }
        let own = subjects.first().and_then(|subject| figure(subject, row));
        match (budget(row), own) {
            (Some(budget), Some(own)) => {
                let _ = write!(out, "{budget:>9}  {}", verdict(own.median, budget));
            }
            (Some(budget), None) => {
                let _ = write!(out, "{budget:>9}  not measured");
            }
            (None, _) => {}
        }
        if let Some((ratio, most)) = over_floor(subjects, row) {
            let _ = write!(out, "  {ratio:.2} times the floor, of {most}: {}", verdict(ratio, most));
        }
        out.push('\n');
    }
    out
}

fn verdict(value: f64, most: f64) -> &'static str {
    if value <= most { "ok" } else { "OVER" }
}

/// Names the budgets without a figure because `rg` is not installed; empty if it is.
pub fn missing(subjects: &[Subject]) -> String {
    let names: Vec<&str> = rows(subjects);
    let is_searched = |row: &&str| {
        let own = format!("{}, ms", row.trim_end_matches(", over rg"));
        names.contains(&own.as_str())
    };
    let budgeted = BUDGETS.iter().map(|(row, _)| *row).filter(|row| row.ends_with(", over rg"));
    let missing: Vec<&str> = budgeted.filter(|row| !names.contains(row) && is_searched(row)).collect();
    if missing.is_empty() {
        String::new()
    } else {
        format!("NOT MEASURED, because there is no `rg` on PATH: {}\n", missing.join("; "))
    }
}

pub fn json(subjects: &[Subject]) -> Result<String> {
    let mut table = Map::new();
    for row in rows(subjects) {
        let mut entry = Map::new();
        for subject in subjects {
            if let Some(Figure { median, min, max, runs }) = figure(subject, row) {
                let figure = json!({"median": median, "min": min, "max": max, "runs": runs});
                entry.insert(subject.name.to_owned(), figure);
            }
        }
        if let Some(budget) = budget(row) {
            entry.insert("budget".to_owned(), json!(budget));
        }
        table.insert(row.to_owned(), Value::Object(entry));
    }
    Ok(serde_json::to_string_pretty(&table)? + "\n")
}

fn short(value: f64) -> String {
    if value.abs() < 10.0 {
        format!("{value:.2}")
    } else if value.abs() < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}
