//! The price of a sandbox: what a command takes longer in each level than outside.

use std::process::Command;

use serde_json::{Value, json};

use crate::{
    Result,
    agent::Agent,
    model::Model,
    scenarios::{LIMIT, Scenario, Subject, median, milliseconds},
};

const N_STEPS: usize = 60;

pub const SANDBOX: Scenario = Scenario { name: "sandbox", is_long: true, run: sandbox };

fn sandbox(subject: &mut Subject, model: &Model) -> Result<()> {
    if subject.name != "windlass" {
        return Ok(());
    }
    let work = subject.cwd()?.to_owned();
    // A launcher around the agent takes namespaces away from it, so that Landlock is left.
    let layer = ["sandbox", "landlock", "allow", "w/", "--", work.as_str()];
    for (row, layer) in
        [("bash in the full sandbox, more ms", &[][..]), ("bash in Landlock alone, more ms", &layer[..])]
    {
        let [outside, inside] =
            [json!({"mode": "off"}), json!({"mode": "workspace-write"})].map(|settings| {
                let mut config = subject.config.clone();
                config["windlass"] = json!({"sandbox": settings});
                step(subject, model, &config, layer)
            });
        subject.add(row, inside? - outside?);
    }
    Ok(())
}

/// Milliseconds of a step with a command that does nothing.
fn step(subject: &Subject, model: &Model, config: &Value, layer: &[&str]) -> Result<f64> {
    let (program, arguments) = subject.command.split_first().ok_or("no command")?;
    let mut command: Command = subject.program()?;
    if !layer.is_empty() {
        command.args(layer).arg(program);
    }
    command.args(arguments).env("OPENCODE_CONFIG_CONTENT", config.to_string());
    let mut agent = Agent::start(command, subject.root().join("stderr"), LIMIT)?;
    agent.initialize()?;
    let session = agent.new_session(subject.cwd()?)?;
    agent.prompt(&session, "hello")?;
    model.take_exchanges();
    let call = r#"{"command":"true %N","description":"Does nothing"}"#;
    agent.prompt(&session, &format!("TOOLS {N_STEPS} bash {call}"))?;
    let exchanges = model.take_exchanges();
    if exchanges.len() != N_STEPS + 1 {
        return Err(format!("{} requests for {N_STEPS} steps", exchanges.len()).into());
    }
    let own = exchanges.windows(2).map(|pair| milliseconds(pair[1].received - pair[0].understood));
    let median = median(&mut own.collect::<Vec<_>>());
    agent.stop()?;
    Ok(median)
}
