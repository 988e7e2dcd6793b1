//! `windlass doctor` without the network, with a store, a provider and language servers to find.

use std::time::Instant;

use crate::{
    Result,
    model::Model,
    scenarios::{Scenario, Subject, median, milliseconds},
};

pub const DOCTOR: Scenario = Scenario { name: "doctor", is_long: false, run: doctor };

const N_RUNS: usize = 5;

fn doctor(subject: &mut Subject, _model: &Model) -> Result<()> {
    if subject.name != "windlass" {
        // Other agents have no such command.
        return Ok(());
    }
    let (agent, _) = subject.warm(crate::scenarios::LIMIT)?;
    agent.stop()?;
    let mut times = Vec::new();
    for _ in 0..N_RUNS {
        let start = Instant::now();
        let output = subject.program()?.args(["doctor", "--format", "json"]).output()?;
        times.push(milliseconds(start.elapsed()));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        if report["health"] == "wrong" {
            return Err(format!("the doctor finds something wrong: {report:#}").into());
        }
    }
    subject.add("doctor, offline, ms", median(&mut times));
    Ok(())
}
