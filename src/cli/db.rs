//! `windlass db`: the path of the store, its check and its repair.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{Engine, EngineError, Repaired, StoreFinding, Verdict};

use super::{
    options::{Format, FormatArgs},
    output, runtime,
};

#[derive(Debug, Args)]
pub struct DbArgs {
    #[command(subcommand)]
    command: DbCommand,
}

#[derive(Debug, Subcommand)]
enum DbCommand {
    /// Print the path of the store.
    Path,
    /// Check pages, references and rows; exits with 1 when something is damaged.
    Check {
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Save the readable part into a new file, after a copy of the damaged one.
    Repair {
        /// Write the file anew even if nothing is damaged.
        #[arg(long)]
        force: bool,
    },
}

pub fn run(environment: Environment, args: DbArgs) -> ExitCode {
    let paths = Paths::new(&environment);
    if let DbCommand::Path = args.command {
        return output::print_answer(&paths.database().display().to_string());
    }
    runtime::block_on(async move {
        let engine = Engine::new(environment, paths);
        let done = match args.command {
            DbCommand::Check { format } => check(&engine, format.get()).await,
            DbCommand::Repair { force } => repair(&engine, force).await,
            DbCommand::Path => Ok(ExitCode::SUCCESS),
        };
        done.unwrap_or_else(|error| output::fail(&format!("{error}.")))
    })
}

async fn check(engine: &Engine, format: Format) -> Result<ExitCode, EngineError> {
    let path = engine.diagnostics().store_path();
    let found = engine.diagnostics().check_store().await?;
    let verdict = worst(found.as_deref().unwrap_or_default());
    let code = match format {
        Format::Json => {
            let row =
                |finding: &StoreFinding| json!({"verdict": finding.verdict.name(), "text": finding.text});
            let rows: Vec<Value> = found.iter().flatten().map(row).collect();
            let answer = json!({"path": path, "verdict": verdict.name(), "findings": rows});
            output::print_answer(&format!("{answer:#}"))
        }
        Format::Text => {
            let Some(findings) = &found else {
                let text = format!("{} is created with the first session.", path.display());
                return Ok(output::print_answer(&text));
            };
            let line = |it: &StoreFinding| format!("  {:<8} {}", it.verdict, output::plain(&it.text));
            let mut lines = vec![path.display().to_string()];
            lines.extend(findings.iter().map(line));
            lines.push(match verdict {
                Verdict::Ok | Verdict::Note => "The store is whole.".to_owned(),
                Verdict::Damaged => {
                    "The store is damaged; end all windlass processes and run `windlass db repair`."
                        .to_owned()
                }
            });
            output::print_answer(&lines.join("\n"))
        }
    };
    Ok(if verdict == Verdict::Damaged { ExitCode::FAILURE } else { code })
}

fn worst(findings: &[StoreFinding]) -> Verdict {
    findings.iter().map(|finding| finding.verdict).max().unwrap_or(Verdict::Ok)
}

async fn repair(engine: &Engine, force: bool) -> Result<ExitCode, EngineError> {
    let Some(findings) = engine.diagnostics().check_store().await? else {
        return Ok(output::print_answer("There is no store yet, and nothing to repair."));
    };
    if !force && worst(&findings) != Verdict::Damaged {
        return Ok(output::print_answer("The store is whole; nothing was changed."));
    }
    let Repaired { backup, tables, n_gaps, n_remade } = engine.diagnostics().repair_store().await?;
    let mut lines = vec![format!("The damaged store is kept as {}.", backup.display())];
    for (table, n_saved, n_bad) in &tables {
        let lost = if *n_bad > 0 { format!(", {n_bad} left out") } else { String::new() };
        lines.push(format!("  {table:<12} {n_saved} rows saved{lost}"));
    }
    if n_gaps > 0 {
        lines.push(format!("{n_gaps} places could not be read; what was there is lost."));
    }
    if n_remade > 0 {
        lines.push(format!(
            "{n_remade} sessions lost their own row and are called \"Recovered session\" now."
        ));
    }
    lines.push(format!("{} holds what was saved.", engine.diagnostics().store_path().display()));
    Ok(output::print_answer(&lines.join("\n")))
}
