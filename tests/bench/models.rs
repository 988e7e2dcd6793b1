//! The catalog of models: one provider's list by a process that begins, and the memory of a session that has many.

use std::time::Instant;

use serde_json::json;

use crate::{
    Result,
    model::Model,
    scenarios::{LIMIT, Scenario, Subject, median, megabytes, milliseconds},
};

pub const MODELS: Scenario = Scenario { name: "models", is_long: false, run: models };

const N_RUNS: usize = 9;

fn models(subject: &mut Subject, _model: &Model) -> Result<()> {
    if subject.name != "windlass" {
        // Other agents have no such command.
        return Ok(());
    }
    let time = |arguments: &[&str]| -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..N_RUNS {
            let mut command = subject.program()?;
            let start = Instant::now();
            let output = command.env("ANTHROPIC_API_KEY", "bench").args(arguments).output()?;
            times.push(milliseconds(start.elapsed()));
            if !output.status.success() || output.stdout.is_empty() {
                return Err(format!("{arguments:?} printed nothing").into());
            }
        }
        Ok(median(&mut times))
    };
    let (listed, started) = (time(&["models", "anthropic"])?, time(&["--version"])?);
    subject.add("models of one provider, more than --version, ms", listed - started);
    let resident = |subject: &Subject| -> Result<f64> {
        let (agent, _) = subject.warm(LIMIT)?;
        let memory = megabytes(agent.memory()?.rss);
        agent.stop()?;
        Ok(memory)
    };
    let few = resident(subject)?;
    let before = subject.config.clone();
    subject.config["provider"]["openrouter"] = json!({"options": {"apiKey": "bench"}});
    let many = resident(subject);
    subject.config = before;
    subject.add("384 models of the catalog, more RSS MB", many? - few);
    Ok(())
}
