//! `windlass session show`: draws a stored session as a run is drawn, through a pager on a terminal.

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use terminal_size::terminal_size_of;
use windlass_base::{
    clock::{self, Zone},
    process::pager,
};
use windlass_core::config::Environment;
use windlass_engine::{Engine, Record, transcript::Transcript};

use super::hint;
use crate::cli::{
    output,
    view::{
        self,
        line::{BOLD, DIM, Line},
        look::Look,
    },
};

/// Columns where there is no terminal.
const WIDTH: usize = 80;

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Session id, or its beginning or end.
    id: String,
    /// Show thoughts too.
    #[arg(long)]
    thinking: bool,
    /// Show the ids of messages and parts, as `session revert` and `fork` take them.
    #[arg(long)]
    ids: bool,
    /// Print directly instead of through `$PAGER`.
    #[arg(long)]
    no_pager: bool,
}

/// The program that shows long texts: `$PAGER`, or `less`, which ends by itself where a text fits the screen.
pub struct Pager {
    command: String,
    /// Options for `less` when its user has set none.
    less: &'static str,
}

impl Pager {
    pub fn new(environment: &Environment) -> Self {
        Self {
            command: environment.get("PAGER").unwrap_or("less").to_owned(),
            less: if environment.get("LESS").is_some() { "" } else { "FRX" },
        }
    }

    /// Shows a text; false when there is no such program.
    async fn show(&self, text: &str) -> bool {
        let mut words = self.command.split_whitespace();
        let Some(program) = words.next() else { return false };
        let environment = [("LESS", self.less)];
        let environment = if self.less.is_empty() { &environment[..0] } else { &environment[..] };
        pager::show(program, &words.collect::<Vec<_>>(), environment, text).await.is_ok()
    }
}

pub async fn run(engine: &Engine, args: ShowArgs, look: Look, pager: Pager) -> Result<ExitCode, String> {
    let read = async { engine.sessions().record(&super::named(engine, &args.id).await?).await };
    let record = read.await.map_err(|error| format!("The session cannot be shown: {}", hint(&error)))?;
    let record = record.without_undone();
    let directory = PathBuf::from(&record.info.directory);
    let look = Look { shows_thoughts: args.thinking, shows_ids: args.ids, directory, ..look };
    let stdout = io::stdout();
    let width = terminal_size_of(&stdout).map_or(WIDTH, |(width, _)| width.0.into());
    let text = draw(&record, &look, width);
    if !args.no_pager && stdout.is_terminal() && pager.show(&text).await {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(output::print_answer(text.trim_end()))
}

fn draw(record: &Record, look: &Look, width: usize) -> String {
    let info = &record.info;
    let about =
        format!("{} · {} · {}", info.id, clock::short(info.time.updated), output::plain(&info.directory));
    let mut rows = Line::new(&output::plain(&info.title), BOLD).wrap(width);
    rows.extend(Line::new(&about, DIM).wrap(width));
    rows.push(Line::default());
    let said = view::transcript(&record.messages, &record.children, look, width);
    let transcript = Transcript {
        info,
        messages: &record.messages,
        todos: &record.todos,
        children: &record.children,
        zone: Zone::local(),
    };
    let mut closing = vec![Line::default()];
    closing.extend(Line::new(&transcript.used(), DIM).wrap(width));
    view::text(&rows, look) + &said + &view::text(&closing, look)
}
