//! `windlass doctor`: looks at everything that a session needs, and names a way out of each fault.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde_json::json;
use windlass_base::{
    figures,
    text::{visible_line, without_number},
};
use windlass_core::config::{Environment, paths::Paths, secrets};
use windlass_engine::{Engine, Finding, Health, Network};

use super::{
    editor,
    options::{Format, FormatArgs},
    other_agents, output, runtime,
    view::line::{self, Line},
};

/// Columns for a text in a terminal that is too narrow.
const MIN_COLUMNS: usize = 20;

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Also contact the model's provider: sends the key, but no prompt.
    #[arg(long)]
    online: bool,
    #[command(flatten)]
    format: FormatArgs,
    /// Directory to look at; the working directory unless given.
    #[arg(long, alias = "cwd", value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(environment: Environment, args: &DoctorArgs) -> ExitCode {
    let directory = match output::directory(args.dir.as_deref()) {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    let paths = Paths::new(&environment);
    let is_coloured = output::is_coloured(&environment);
    let (of_editors, of_others) =
        (editor::findings(&environment), other_agents::findings::findings(&environment, &directory));
    let engine = Engine::new(environment, paths);
    runtime::block_on(async move {
        let network = if args.online { Network::IsAsked } else { Network::IsLeft };
        let mut findings = match engine.diagnostics().check_up(&directory, network).await {
            Ok(findings) => findings,
            Err(error) => return output::fail(&format!("{error}.")),
        };
        findings.extend(engine.diagnostics().shared_store(&directory).await);
        findings.extend(of_editors);
        findings.extend(of_others);
        findings.extend(of_opencode(&engine, &directory).await);
        let code = match args.format.get() {
            Format::Text => {
                let columns = if io::stdout().is_terminal() { output::columns() } else { usize::MAX };
                output::print_answer(&draw(&findings, is_coloured, columns))
            }
            Format::Json => output::print_answer(&format!("{:#}", json(&findings))),
        };
        let is_wrong = findings.iter().any(|finding| finding.health == Health::Wrong);
        if is_wrong { ExitCode::FAILURE } else { code }
    })
}

/// Says how many of OpenCode's sessions were not brought in, if there are some.
async fn of_opencode(engine: &Engine, directory: &Path) -> Option<Finding> {
    let n_left = engine.sessions().left_in_opencode(directory).await;
    let sessions = figures::counted(n_left, "session");
    (n_left > 0).then(|| Finding {
        remedy: Some("`windlass import --opencode` brings them in".to_owned()),
        ..Finding::ok(
            "import",
            format!("OpenCode has {sessions} of this project that windlass does not have"),
        )
    })
}

/// Returns the findings by topic, each with its remedy below it, and how many are not fine.
fn draw(findings: &[Finding], is_coloured: bool, columns: usize) -> String {
    let mut lines = Vec::new();
    let mut topic = "";
    for finding in findings {
        if finding.topic != topic {
            topic = finding.topic;
            lines.push(paint(topic, "1", is_coloured));
        }
        let colour = match finding.health {
            Health::Ok => "32",
            Health::Warning => "33",
            Health::Wrong => "31",
        };
        let word = paint(&format!("{:<7}", finding.health.name()), colour, is_coloured);
        lines.push(format!("  {word}  {}", wrapped(&finding.text, 11, columns)));
        let remedy = finding.remedy.iter();
        lines.extend(remedy.map(|remedy| format!("           → {}", wrapped(remedy, 13, columns))));
    }
    lines.push(String::new());
    lines.push(summary(findings));
    lines.join("\n")
}

fn summary(findings: &[Finding]) -> String {
    let count = |health: Health| findings.iter().filter(|finding| finding.health == health).count();
    match (count(Health::Wrong), count(Health::Warning)) {
        (0, 0) => "No problems found.".to_owned(),
        (0, 1) => "No problems found; 1 warning.".to_owned(),
        (0, n_warnings) => format!("No problems found; {n_warnings} warnings."),
        (1, _) => "1 problem found.".to_owned(),
        (n_wrong, _) => format!("{n_wrong} problems found."),
    }
}

fn paint(text: &str, colour: &str, is_coloured: bool) -> String {
    if is_coloured { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Breaks a text between words; its later rows begin behind the indentation.
fn wrapped(text: &str, indent: usize, columns: usize) -> String {
    let rows = line::wrapped(&shown(text), columns.saturating_sub(indent).max(MIN_COLUMNS));
    let rows: Vec<String> = rows.iter().map(Line::text).collect();
    rows.join(&format!("\n{}", " ".repeat(indent)))
}

fn shown(text: &str) -> String {
    visible_line(&masked(text)).into_owned()
}

/// Returns a text without secrets, and without numbers of system errors.
fn masked(text: &str) -> String {
    without_number(&secrets::text(text)).into_owned()
}

fn json(findings: &[Finding]) -> serde_json::Value {
    let rows = findings.iter().map(|finding| {
        json!({
            "topic": finding.topic,
            "health": finding.health.name(),
            "text": masked(&finding.text),
            "remedy": finding.remedy.as_deref().map(masked),
        })
    });
    let worst = findings.iter().map(|finding| finding.health).max().unwrap_or(Health::Ok);
    json!({"version": env!("CARGO_PKG_VERSION"), "health": worst.name(), "findings": rows.collect::<Vec<_>>()})
}
