//! `windlass stats`: adds up the use of the stored sessions.

use std::{fmt::Write, process::ExitCode};

use clap::Args;
use serde_json::{Map, Value, json};
use windlass_base::{
    clock::{self, Zone},
    figures,
};
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{Counts, Engine, Scope, Stats};

use super::{
    options::{Format, FormatArgs},
    output, runtime,
};

/// Cells of the longest bar.
const BAR: usize = 20;
/// Rows of a table unless it is said otherwise.
const N_ROWS: usize = 10;
/// Days that are shown unless it is said otherwise.
const N_DAYS: usize = 14;
/// Characters of a name.
const MAX_NAME: usize = 40;

#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Only the last N days; 0 is today.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=36_500))]
    days: Option<u32>,
    /// Show at most this many tools.
    #[arg(long, value_name = "N")]
    tools: Option<usize>,
    /// Show at most this many models.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1000")]
    models: Option<usize>,
    /// Only this project (directory, name or id; without a value the current one).
    #[arg(long, value_name = "PROJECT", num_args = 0..=1, default_missing_value = "")]
    project: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
}

pub fn run(environment: Environment, args: StatsArgs) -> ExitCode {
    let paths = Paths::new(&environment);
    runtime::block_on(async move {
        let engine = Engine::new(environment, paths);
        let counted = async {
            let scope = scope(&engine, &args)?;
            engine
                .sessions()
                .stats(scope)
                .await
                .map_err(|error| format!("The sessions cannot be counted: {error}."))
        };
        match (counted.await, args.format.get()) {
            (Ok(stats), Format::Json) => output::print_answer(&format!("{:#}", value(&stats))),
            (Ok(stats), Format::Text) if stats.total.n_sessions == 0 => {
                output::note("There are no sessions to count.");
                ExitCode::SUCCESS
            }
            (Ok(stats), Format::Text) => output::print_answer(tables(&stats, &args).trim_end()),
            (Err(reason), _) => output::fail(&reason),
        }
    })
}

fn scope(engine: &Engine, args: &StatsArgs) -> Result<Scope, String> {
    let zone = Zone::local();
    // As OpenCode counts: 0 is today, 1 the last 24 hours.
    let now = clock::now_ms();
    let since = match args.days {
        None => i64::MIN,
        Some(0) => zone.days_ago(0, now),
        Some(n_days) => now - i64::from(n_days) * 24 * 60 * 60 * 1000,
    };
    let project = match args.project.as_deref() {
        Some("") => {
            let directory = std::env::current_dir();
            let directory = directory.map_err(|error| format!("This directory cannot be read: {error}."))?;
            Some(engine.workspaces().project_root(&directory).display().to_string())
        }
        Some(path) if path.starts_with(['.', '/']) => {
            let real = std::fs::canonicalize(path);
            Some(real.map(|real| real.display().to_string()).unwrap_or_else(|_| path.to_owned()))
        }
        name => name.map(str::to_owned),
    };
    Ok(Scope { since, project, zone })
}

fn value(stats: &Stats) -> Value {
    let n_days = stats.days.len().max(1) as f64;
    let mut total = counts(&stats.total);
    total.insert("days".to_owned(), stats.days.len().into());
    total.insert("costPerDay".to_owned(), (stats.total.cost / n_days).into());
    total.insert(
        "tokensPerSession".to_owned(),
        (stats.total.n_tokens() / stats.total.n_sessions.max(1) as u64).into(),
    );
    total.insert("medianTokensPerSession".to_owned(), stats.median_tokens.into());
    let named = |key: &str, name: Value, counted: &Counts| {
        let mut row = Map::from_iter([(key.to_owned(), name)]);
        row.append(&mut counts(counted));
        Value::Object(row)
    };
    let tools = stats
        .tools
        .iter()
        .map(|(tool, calls)| json!({"tool": tool, "calls": calls.n_calls, "failed": calls.n_failed}));
    // Several models may answer one prompt, so prompts are not counted by model.
    let models = stats.models.iter().map(|(model, it)| {
        let mut row = named("model", model.as_str().into(), it);
        if let Some(row) = row.as_object_mut() {
            row.shift_remove("prompts");
        }
        row
    });
    json!({
        "total": total,
        "days": stats.days.iter().map(|(date, it)| named("date", date.as_str().into(), it)).collect::<Value>(),
        "models": models.collect::<Value>(),
        "projects": stats.projects.iter()
            .map(|(root, it)| named("directory", root.display().to_string().into(), it)).collect::<Value>(),
        "tools": tools.collect::<Value>(),
    })
}

fn counts(counts: &Counts) -> Map<String, Value> {
    let row = json!({
        "sessions": counts.n_sessions,
        "prompts": counts.n_prompts,
        "answers": counts.n_answers,
        "cost": counts.cost,
        "tokens": {
            "total": counts.n_tokens(),
            "input": counts.tokens.input,
            "output": counts.tokens.output,
            "reasoning": counts.tokens.reasoning,
            "cache": counts.tokens.cache,
        },
    });
    match row {
        Value::Object(row) => row,
        _other => Map::new(),
    }
}

fn tables(stats: &Stats, args: &StatsArgs) -> String {
    let mut out = overview(stats);
    let cost_or_tokens =
        |counts: &Counts| if stats.total.cost > 0.0 { counts.cost } else { counts.n_tokens() as f64 };
    let row = |name: String, counts: &Counts| Row {
        name,
        amount: cost_or_tokens(counts),
        columns: [
            figures::counted(counts.n_sessions, "session"),
            format!("{} tokens", figures::short(counts.n_tokens())),
            figures::dollars(counts.cost),
        ],
    };
    let skipped = if args.days.is_some() { 0 } else { stats.days.len().saturating_sub(N_DAYS) };
    let days = stats.days.iter().skip(skipped).map(|(date, counts)| row(clock::weekday(date), counts));
    table(&mut out, "Days", days.collect(), usize::MAX);
    let models = stats.models.iter().map(|(model, counts)| row(output::plain(model), counts));
    table(&mut out, "Models", models.collect(), args.models.unwrap_or(N_ROWS));
    let projects =
        stats.projects.iter().map(|(root, counts)| row(output::plain(&root.display().to_string()), counts));
    table(&mut out, "Projects", projects.collect(), N_ROWS);
    let n_calls: usize = stats.tools.iter().map(|(_, calls)| calls.n_calls).sum();
    let tools = stats.tools.iter().map(|(tool, calls)| Row {
        name: output::plain(tool),
        amount: calls.n_calls as f64,
        columns: [
            figures::counted(calls.n_calls, "call"),
            format!("{:.0} %", calls.n_calls as f64 * 100.0 / n_calls.max(1) as f64),
            if calls.n_failed > 0 { format!("{} failed", calls.n_failed) } else { String::new() },
        ],
    });
    table(&mut out, "Tools", tools.collect(), args.tools.unwrap_or(N_ROWS));
    out
}

fn overview(stats: &Stats) -> String {
    let total = &stats.total;
    let (n_days, n_sessions) = (stats.days.len().max(1), total.n_sessions.max(1) as u64);
    let tokens = &total.tokens;
    let lines = [
        (
            "Sessions",
            format!(
                "{} with {} on {}",
                total.n_sessions,
                figures::counted(total.n_prompts, "prompt"),
                figures::counted(n_days, "day")
            ),
        ),
        (
            "Tokens",
            format!(
                "{} ({} in, {} out, {} thought, {} read from cache, {} written to it)",
                figures::short(total.n_tokens()),
                figures::short(tokens.input),
                figures::short(tokens.output),
                figures::short(tokens.reasoning),
                figures::short(tokens.cache.read),
                figures::short(tokens.cache.write)
            ),
        ),
        (
            "Per session",
            format!(
                "{} tokens on average, {} in the middle",
                figures::short(total.n_tokens() / n_sessions),
                figures::short(stats.median_tokens)
            ),
        ),
        (
            "Cost",
            format!(
                "{} ({} a day)",
                figures::dollars(total.cost),
                figures::dollars(total.cost / n_days as f64)
            ),
        ),
    ];
    let mut out = String::new();
    for (name, value) in lines {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(out, "{name:<12} {value}");
    }
    out
}

struct Row {
    name: String,
    /// Length of the bar.
    amount: f64,
    columns: [String; 3],
}

fn table(out: &mut String, title: &str, rows: Vec<Row>, max_rows: usize) {
    if rows.is_empty() || max_rows == 0 {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    let shown = &rows[..rows.len().min(max_rows)];
    let longest = shown.iter().map(|row| row.amount).fold(0.0, f64::max);
    let names: Vec<String> = shown.iter().map(|row| short(&row.name)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    let widths = [0, 1, 2]
        .map(|column| shown.iter().map(|row| row.columns[column].chars().count()).max().unwrap_or_default());
    for (name, row) in names.iter().zip(shown) {
        let [first, second, third] = &row.columns;
        let line = format!(
            "  {name:<width$}  {:<BAR$}  {first:>1$}  {second:>2$}  {third:>3$}",
            bar(row.amount, longest),
            widths[0],
            widths[1],
            widths[2],
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
    if rows.len() > shown.len() {
        let _ = writeln!(out, "  and {} more", rows.len() - shown.len());
    }
}

/// Cuts a long name at its beginning: the end says more.
fn short(name: &str) -> String {
    let n_chars = name.chars().count();
    if n_chars <= MAX_NAME {
        return name.to_owned();
    }
    std::iter::once('…').chain(name.chars().skip(n_chars - MAX_NAME + 1)).collect()
}

/// Returns a bar in eighths of a cell; the smallest value is seen.
fn bar(amount: f64, longest: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if amount <= 0.0 || longest <= 0.0 {
        return String::new();
    }
    let n_eighths = ((amount / longest * (BAR * 8) as f64).round() as usize).clamp(1, BAR * 8);
    "█".repeat(n_eighths / 8) + EIGHTHS[n_eighths % 8]
}

#[cfg(test)]
mod tests;
