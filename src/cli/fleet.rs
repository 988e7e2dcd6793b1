//! `windlass fleet`: the machines that share sessions, and how far the shared log is behind.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use windlass_base::{clock, figures};
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{
    Engine, EngineError,
    fleet::{NodeRow, Totals},
};

use super::{
    options::{Format, FormatArgs},
    output, runtime,
};

#[derive(Debug, Args)]
pub struct FleetArgs {
    #[command(flatten)]
    format: FormatArgs,
}

pub fn run(environment: Environment, args: &FleetArgs) -> ExitCode {
    let paths = Paths::new(&environment);
    let format = args.format.get();
    runtime::block_on(async move {
        let engine = Engine::new(environment, paths);
        match seen(&engine).await {
            Ok((nodes, totals)) => output::print_answer(&match format {
                Format::Json => format!("{:#}", json(&nodes, &totals)),
                Format::Text => text(&nodes, &totals),
            }),
            Err(error) => output::fail(&format!("The fleet cannot be shown: {error}.")),
        }
    })
}

async fn seen(engine: &Engine) -> Result<(Vec<NodeRow>, Totals), EngineError> {
    Ok((engine.fleet().nodes().await?, engine.fleet().totals().await?))
}

fn json(nodes: &[NodeRow], totals: &Totals) -> Value {
    let node = |node: &NodeRow| {
        json!({
            "id": node.owner.id, "name": node.owner.name, "address": node.owner.address, "version": node.version,
            "began": node.began, "alive": node.owner.is_alive, "leftMs": node.left_ms, "lagMs": node.lag_ms,
            "sessions": node.n_sessions,
        })
    };
    json!({
        "nodes": nodes.iter().map(node).collect::<Vec<Value>>(),
        "sessions": totals.n_sessions, "open": totals.n_open, "events": totals.n_events, "bytes": totals.n_bytes,
    })
}

fn text(nodes: &[NodeRow], totals: &Totals) -> String {
    let mut rows = vec![["NODE", "SESSIONS", "BEHIND", "STATE", "SINCE", "ADDRESS"].map(str::to_owned)];
    rows.extend(nodes.iter().map(|node| {
        let state = if node.owner.is_alive { "alive" } else { "gone" };
        [
            output::plain(&node.owner.name),
            node.n_sessions.to_string(),
            format!("{} ms", node.lag_ms),
            state.to_owned(),
            clock::short(node.began),
            output::plain(node.owner.address.as_deref().unwrap_or("-")),
        ]
    }));
    let widths = [0, 1, 2, 3, 4, 5]
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default());
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<String>>().join("  ").trim_end().to_owned()
    };
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    if nodes.is_empty() {
        lines = vec!["No machine has a session open.".to_owned()];
    }
    let count = |n: i64, what: &str| figures::counted(usize::try_from(n).unwrap_or_default(), what);
    lines.push(format!(
        "{}, {} open; {} in the log since the checkpoints; {} in the database.",
        count(totals.n_sessions, "session"),
        totals.n_open,
        count(totals.n_events, "batch"),
        format_args!("{:.1} MB", totals.n_bytes as f64 / 1e6),
    ));
    lines.join("\n")
}
