//! The price of a sandbox: what a command takes longer in each level than outside.

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
    // An agent that can make no namespaces has Landlock left.
    const NO_NAMESPACES: &str = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let starter = ["unshare", "--user", "--map-root-user", "sh", "-c", NO_NAMESPACES, "sh"];
    for (row, starter) in
        [("bash in the full sandbox, more ms", &[][..]), ("bash in Landlock alone, more ms", &starter[..])]
    {
        let [outside, inside] =
            [json!({"mode": "off"}), json!({"mode": "workspace-write"})].map(|settings| {
                let mut config = subject.config.clone();
                config["windlass"] = json!({"sandbox": settings});
                step(subject, model, &config, starter)
            });
        subject.add(row, inside? - outside?);
    }
    Ok(())
}

/// Milliseconds of a step with a command that does nothing.
fn step(subject: &Subject, model: &Model, config: &Value, starter: &[&str]) -> Result<f64> {
    let (_, arguments) = subject.command.split_first().ok_or("no command")?;
    let mut command = subject.program_within(starter)?;
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
