//! The shared store as `doctor` sees it: within reach, its version, its clock, nodes that are behind.

use std::path::Path;

use windlass_base::figures;

use super::doctor::Finding;
use crate::{Diagnostics, Engine, fleet::ServerState};

/// Milliseconds that two clocks may differ before people wonder.
const CLOCKS: i64 = 5_000;
/// Milliseconds that a node may be behind.
const LAG: i64 = 2_000;

impl Diagnostics<'_> {
    /// Looks at the shared store, if the settings name one.
    pub async fn shared_store(self, directory: &Path) -> Vec<Finding> {
        findings(self.engine, &self.engine.workspaces().project_root(directory)).await
    }
}

async fn findings(engine: &Engine, worktree: &Path) -> Vec<Finding> {
    let fleet = engine.fleet();
    let topic = "shared sessions";
    let ServerState { ahead_ms: ahead, version, may_write } = match fleet.server().await {
        Ok(None) => return Vec::new(),
        Ok(Some(server)) => server,
        Err(error) => {
            let remedy = "correct `windlass.shared`, or start the database; docs/fleet.md has the rights that it needs";
            return vec![Finding::wrong(topic, error.to_string(), remedy)];
        }
    };
    let database = fleet.standing().await.map(|standing| standing.database).unwrap_or_default();
    let mut findings = vec![Finding::ok(topic, format!("Postgres {version} at {database}"))];
    if !may_write {
        let text = "the role may not change all tables of its schema";
        findings.push(Finding::wrong(topic, text, "make the role the schema's owner: docs/fleet.md"));
    }
    if ahead.abs() > CLOCKS {
        let text = format!("the database's clock is {} s off this machine's", ahead / 1000);
        findings.push(Finding::warning(
            topic,
            text,
            "leases go by the database's alone; set the clocks for the logs' sake",
        ));
    }
    match fleet.files_remote(worktree).await {
        Some(Ok(remote)) => findings.push(Finding::ok(topic, format!("files travel by {remote}"))),
        Some(Err(error)) => findings.push(Finding::wrong(
            topic,
            format!("files do not travel: {error}"),
            "correct `windlass.shared.worktrees`: docs/fleet.md has what it needs",
        )),
        None => {}
    }
    match fleet.nodes().await {
        Ok(nodes) => {
            for node in nodes.iter().filter(|node| node.owner.is_alive && node.lag_ms > LAG) {
                let text = format!("the node {} is {} ms behind", node.owner.name, node.lag_ms);
                findings.push(Finding::warning(topic, text, "look at the database's load and its disk"));
            }
            let n_alive = nodes.iter().filter(|node| node.owner.is_alive).count();
            findings.push(Finding::ok(topic, format!("{} alive", figures::counted(n_alive, "node"))));
        }
        Err(error) => {
            findings.push(Finding::wrong(topic, error.to_string(), "give the role its schema: docs/fleet.md"))
        }
    }
    findings
}
