//! `windlass session search`: finds sessions by the words that were said in them.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use windlass_base::{clock, figures, text, words::Words};
use windlass_engine::{Engine, Found, SearchQuery};

use super::{
    super::options::{Format, FormatArgs},
    row,
};
use crate::cli::{
    output,
    view::{
        line::{self, CYAN},
        look::Look,
    },
};

/// Sessions that are looked through at a time.
const PAGE: usize = 100;
/// Lines that are shown of one session.
const MAX_LINES: usize = 3;
/// Characters of a line.
const MAX_WIDTH: usize = 160;

#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Words to find, all in one text and in any case; quotes make a phrase.
    #[arg(required = true)]
    words: Vec<String>,
    /// Show at most this many sessions.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    max_count: usize,
    #[command(flatten)]
    format: FormatArgs,
    /// Sessions of every directory.
    #[arg(long)]
    all: bool,
}

pub async fn run(engine: &Engine, args: SearchArgs, look: &Look) -> Result<ExitCode, String> {
    let words = Words::new(args.words.iter().map(String::as_str));
    let words = words.ok_or("Nothing to search for: give one or more words.")?;
    let root = super::root(engine, args.all).map_err(|error| format!("{error}."))?;
    let found = find(engine, &words, root.map(|root| root.display().to_string()), args.max_count).await?;
    if args.format.get() == Format::Json
        && let Err(code) = output::print(&format!("{:#}", found.iter().map(found_row).collect::<Value>()))
    {
        return Ok(code);
    }
    if found.is_empty() {
        let place = if args.all { "" } else { " here; --all searches every directory" };
        return Ok(output::fail(&format!("No session has these words{place}.")));
    }
    if args.format.get() == Format::Text {
        let shown: Vec<String> = found.iter().map(|found| show(found, &words, look)).collect();
        return Ok(output::print_answer(&shown.join("\n\n")));
    }
    Ok(ExitCode::SUCCESS)
}

async fn find(
    engine: &Engine,
    words: &Words,
    root: Option<String>,
    max_count: usize,
) -> Result<Vec<Found>, String> {
    let mut found = Vec::new();
    let mut after = None;
    while found.len() < max_count {
        let query = SearchQuery {
            words: words.clone(),
            root: root.clone(),
            after,
            n_sessions: PAGE,
            n_lines: MAX_LINES,
        };
        let page = engine.sessions().search(query).await;
        let page = page.map_err(|error| format!("The sessions cannot be searched: {error}."))?;
        found.extend(page.found);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    found.truncate(max_count);
    Ok(found)
}

fn found_row(found: &Found) -> Value {
    let mut row = row(&found.session, None);
    // OpenCode has no such command with numbers that would have to be kept.
    row["updated"] = clock::iso(found.session.time.updated).into();
    row["created"] = clock::iso(found.session.time.created).into();
    let line = |line: &windlass_engine::FoundLine| json!({"role": role(line.is_users), "text": line.text});
    row["matches"] = found.lines.iter().map(line).collect();
    row["count"] = found.n_texts.into();
    row
}

fn role(is_users: bool) -> &'static str {
    if is_users { "user" } else { "assistant" }
}

/// Returns a session's line, and below it the lines with the words.
fn show(found: &Found, words: &Words, look: &Look) -> String {
    let session = &found.session;
    let title = mark(&output::plain(&session.title), words, look);
    let mut shown = format!("{}  {}  {title}", session.id, clock::short(session.time.updated));
    for line in &found.lines {
        let sign = if line.is_users { '>' } else { ' ' };
        let text = around(&output::plain(&line.text), words);
        shown.push_str(&format!("\n  {sign} {}", mark(&text, words, look)));
    }
    let n_more = found.n_texts.saturating_sub(found.lines.len());
    if n_more > 0 {
        shown.push_str(&format!("\n    and {}", figures::counted(n_more, "more text")));
    }
    shown
}

/// Returns a line, and of a long one the part around its first word.
fn around(line: &str, words: &Words) -> String {
    if line.chars().count() <= MAX_WIDTH {
        return line.to_owned();
    }
    let first = words.spans(line).first().map_or(0, |span| span.start);
    let start = if first <= MAX_WIDTH / 2 { 0 } else { line.floor_char_boundary(first - MAX_WIDTH / 3) };
    let shown = text::head(&line[start..], MAX_WIDTH);
    let before = if start > 0 { "…" } else { "" };
    let after = if start + shown.len() < line.len() { "…" } else { "" };
    format!("{before}{}{after}", shown.trim())
}

/// Makes the words stand out, where there are colours.
fn mark(line: &str, words: &Words, look: &Look) -> String {
    let mut marked = String::new();
    let mut end = 0;
    for span in words.spans(line) {
        marked.push_str(&line[end..span.start]);
        marked.push_str(&line::painted(&line[span.clone()], CYAN.bold(), look));
        end = span.end;
    }
    marked + &line[end..]
}

#[cfg(test)]
mod tests;
