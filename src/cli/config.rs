//! `windlass config`: shows the configuration, where each value is from, and its faults.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use windlass_base::text::visible_json;
use windlass_core::config::{Environment, Warning, filled_in, paths::Paths, schema, secrets, sources};
use windlass_engine::{Engine, Pages, Report};

use super::{
    options::{Format, FormatArgs},
    output,
    progress::Progress,
    runtime,
};

mod draw;

use draw::Found;

#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Option<ConfigCommand>,
    /// Show for each value the file and line that set it, and the values it overrode.
    #[arg(long)]
    sources: bool,
    /// Show keys, tokens, headers and environments instead of stars.
    #[arg(long)]
    show_secrets: bool,
    /// Fetch remote configuration, marketplaces and instruction pages first.
    #[arg(long, global = true)]
    refresh: bool,
    /// Directory to look at; the working directory unless given.
    #[arg(long, alias = "cwd", global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Check every file; exits with 1 when something is ignored or cannot work.
    Check {
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Print the JSON schema of the configuration, for editors.
    Schema,
}

pub fn run(environment: Environment, args: ConfigArgs) -> ExitCode {
    if let Some(ConfigCommand::Schema) = args.command {
        return output::print_answer(&schema::text());
    }
    let directory = match output::directory(args.dir.as_deref()) {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    let paths = Paths::new(&environment);
    let is_coloured = output::is_coloured(&environment);
    let engine = Engine::new(environment, paths);
    runtime::block_on(async move {
        if args.refresh {
            let _progress = Progress::of("Fetching what the configuration names by URL");
            engine.remote().fetch_all(&directory).await;
        }
        let pages = if args.refresh { Pages::AreAsked } else { Pages::AreLeft };
        let report = match engine.diagnostics().examine(&directory, pages).await {
            Ok(report) => report,
            Err(error) => return output::fail(&format!("{error}.")),
        };
        match args.command {
            None => show(report, args.sources, args.show_secrets),
            Some(ConfigCommand::Check { format }) => check(&report, format.get(), is_coloured),
            Some(ConfigCommand::Schema) => output::print_answer(&schema::text()),
        }
    })
}

fn show(report: Report, with_sources: bool, show_secrets: bool) -> ExitCode {
    let n_warnings = report.warnings.len() + report.servers.len();
    let Report { config, leaves, .. } = report;
    let code = if with_sources {
        let filled_in = (!show_secrets).then_some(&config.substituted);
        output::print_answer(sources::render(&leaves, filled_in).trim_end())
    } else if show_secrets {
        output::print_answer(&json(config.merged_json()))
    } else {
        let mut shown = secrets::masked(config.merged_json());
        for (key, value) in &mut shown {
            filled_in::hide(std::slice::from_ref(key), value, &config.substituted);
        }
        output::print_answer(&json(&shown))
    };
    if n_warnings > 0 {
        output::note(&format!("{} `windlass config check` says what.", count(n_warnings)));
    }
    code
}

fn json(config: &Map<String, Value>) -> String {
    visible_json(&format!("{:#}", json!(config)))
}

fn check(report: &Report, format: Format, is_coloured: bool) -> ExitCode {
    let warnings: Vec<&Warning> = report.warnings.iter().chain(&report.servers).collect();
    let of = |is_note: bool| move |warning| Found { warning, is_note };
    let mut found: Vec<Found> = warnings.iter().copied().map(of(false)).collect();
    found.extend(report.notes.iter().map(of(true)));
    draw::sort(&mut found, &report.read);
    let code = match format {
        Format::Json => output::print_answer(&format!("{:#}", found.iter().map(row).collect::<Value>())),
        Format::Text if found.is_empty() => output::print_answer("No problems found."),
        Format::Text => output::print_answer(draw::draw(&found, is_coloured).trim_end()),
    };
    match warnings.len() {
        0 => code,
        _ if format == Format::Json => ExitCode::FAILURE,
        n_warnings => output::fail(&count(n_warnings)),
    }
}

fn row(found: &Found<'_>) -> Value {
    let Found { warning, is_note } = found;
    json!({
        "kind": if *is_note { "note" } else { "warning" },
        "source": secrets::text(&warning.source),
        "line": warning.line,
        "column": warning.column,
        "message": warning.shown_message(),
    })
}

/// Says how much is wrong.
fn count(n_warnings: usize) -> String {
    match n_warnings {
        1 => "1 problem found.".to_owned(),
        n => format!("{n} problems found."),
    }
}
