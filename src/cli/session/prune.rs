//! `windlass session prune`: deletes sessions that are old or beyond a number.

use std::{collections::HashMap, process::ExitCode};

use clap::Args;
use windlass_base::clock;
use windlass_engine::Engine;
use windlass_protocol::opencode::session::Session;

use super::table;
use crate::cli::output;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Sessions that did not change for so long: days (`30d`), weeks (`4w`) or hours (`12h`).
    #[arg(long, value_name = "TIME", value_parser = age)]
    older_than: Option<i64>,
    /// Keep this many of the latest sessions, however old they are.
    #[arg(long, value_name = "N")]
    keep: Option<usize>,
    /// Show the sessions that would be deleted, and delete none.
    #[arg(long)]
    dry_run: bool,
    /// Sessions of every directory.
    #[arg(long)]
    all: bool,
}

/// Reads a time as milliseconds.
fn age(text: &str) -> Result<i64, String> {
    let unit = match text.chars().last() {
        Some('d') => DAY_MS,
        Some('w') => 7 * DAY_MS,
        Some('h') => DAY_MS / 24,
        _other => return Err("expected a number and a unit, such as 30d, 4w or 12h".to_owned()),
    };
    let number = text[..text.len() - 1].parse::<u32>();
    number.map(|number| i64::from(number) * unit).map_err(|error| error.to_string())
}

pub async fn run(engine: &Engine, args: PruneArgs) -> Result<ExitCode, String> {
    if args.older_than.is_none() && args.keep.is_none() {
        return Ok(output::misuse("Say which sessions: `--older-than 30d`, `--keep 100`, or both."));
    }
    let failed = |error| format!("The sessions cannot be listed: {error}.");
    let sessions = super::meant(engine, args.all, usize::MAX).await.map_err(failed)?;
    let doomed = chosen(sessions, clock::now_ms(), args.older_than, args.keep.unwrap_or(0));
    if doomed.is_empty() {
        return Ok(output::print_answer("No session is to be deleted."));
    }
    if args.dry_run {
        let note = format!("{} would be deleted.", counted(doomed.len()));
        return Ok(output::print_answer(&format!(
            "{}\n{note}",
            table(&doomed, &HashMap::new(), clock::short)
        )));
    }
    for session in &doomed {
        let deleted = engine.sessions().delete(&session.id).await;
        deleted.map_err(|error| format!("Session {} was not deleted: {error}.", session.id))?;
    }
    match engine.diagnostics().shrink_store().await {
        Ok(true) => {}
        Ok(false) => output::note(
            "The store keeps its size, since another windlass uses it; new sessions fill the room.",
        ),
        Err(error) => output::note(&format!("The store keeps its size for now: {error}.")),
    }
    Ok(output::print_answer(&format!("{} deleted.", counted(doomed.len()))))
}

fn counted(n_sessions: usize) -> String {
    if n_sessions == 1 { "1 session".to_owned() } else { format!("{n_sessions} sessions") }
}

/// Returns the sessions to delete: those that are old enough, except the latest ones that are kept.
fn chosen(sessions: Vec<Session>, now: i64, older_than: Option<i64>, keep: usize) -> Vec<Session> {
    let is_old = |session: &Session| older_than.is_none_or(|age| session.time.updated < now - age);
    sessions.into_iter().skip(keep).filter(is_old).collect()
}
