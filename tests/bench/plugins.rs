//! The price of plugins: of hooks in a step, of events, and of the process that runs them.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    Result,
    agent::Agent,
    model::Model,
    scenarios::{LIMIT, Scenario, Subject, median, megabytes, milliseconds},
};

pub const PLUGINS: Scenario = Scenario { name: "plugins", is_long: true, run: plugins };

const N_STEPS: usize = 100;
const N_DELTAS: usize = 5_000;
const N_LISTENERS: usize = 10;
/// Turns with and without plugins alternate, so that both meet the same noise.
const N_ROUNDS: usize = 7;

const HOOKS: &str = r#"export const Hooks = async () => ({
    "chat.params": async (_, output) => { output.maxOutputTokens = 4000 },
    "chat.headers": async (_, output) => { output.headers["x-probe"] = "1" },
    "experimental.chat.system.transform": async (_, output) => { output.system.push("More.") },
    "tool.execute.before": async (_, output) => { output.args.limit ??= 1 },
    "tool.execute.after": async (_, output) => { output.output += " (seen)" },
})"#;
const LISTENER: &str = "let n = 0\nexport const Listener = async () => ({ event: async () => { n++ } })";

fn plugins(subject: &mut Subject, model: &Model) -> Result<()> {
    let hooks = write(subject, "hooks.js", HOOKS)?;
    let mut listeners = Vec::new();
    for index in 0..N_LISTENERS {
        listeners.push(write(subject, &format!("listener{index}.js"), LISTENER)?);
    }
    start(subject, &listeners[..1])?;

    let (mut plain, plain_session) = warm(subject, &[])?;
    let (mut hooked, hooked_session) = warm(subject, &[hooks])?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..N_ROUNDS {
        without.extend(steps(&mut plain, &plain_session, subject, model)?);
        with.extend(steps(&mut hooked, &hooked_session, subject, model)?);
    }
    subject.add("a step with five hooks, more ms", median(&mut with) - median(&mut without));
    hooked.stop()?;

    let (mut listened, listened_session) = warm(subject, &listeners)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..N_ROUNDS {
        without.push(stream(&mut plain, &plain_session)?);
        with.push(stream(&mut listened, &listened_session)?);
    }
    let of = |figures: &[(Duration, Duration)], pick: fn(&(Duration, Duration)) -> Duration| {
        median(&mut figures.iter().map(|it| milliseconds(pick(it))).collect::<Vec<_>>())
    };
    subject.add("5000 deltas to ten plugins, ms", of(&with, |it| it.0));
    subject.add("5000 deltas to ten plugins, time over none", of(&with, |it| it.0) / of(&without, |it| it.0));
    subject.add("5000 deltas to ten plugins, own CPU ms", of(&with, |it| it.1));
    plain.stop()?;
    listened.stop().map(drop)
}

fn write(subject: &Subject, name: &str, text: &str) -> Result<String> {
    let file = subject.root().join(name);
    fs::write(&file, text)?;
    Ok(file.to_str().ok_or("the scratch directory is not UTF-8")?.to_owned())
}

/// Starts an agent with these plugins.
fn agent(subject: &Subject, plugins: &[String]) -> Result<Agent> {
    let (_, arguments) = subject.command.split_first().ok_or("no command")?;
    let mut config = subject.config.clone();
    config["plugin"] = json!(plugins);
    let mut command = subject.program()?;
    command.args(arguments).env("OPENCODE_CONFIG_CONTENT", config.to_string());
    Agent::start(command, subject.root().join("stderr"), LIMIT)
}

fn warm(subject: &Subject, plugins: &[String]) -> Result<(Agent, String)> {
    let mut agent = agent(subject, plugins)?;
    agent.initialize()?;
    let session = agent.new_session(subject.cwd()?)?;
    agent.prompt(&session, "hello")?;
    Ok((agent, session))
}

/// Measures the first session, which waits for its plugins, and the memory that they take.
fn start(subject: &mut Subject, plugins: &[String]) -> Result<()> {
    let mut figures = Vec::new();
    for plugins in [&[][..], plugins] {
        let mut agent = agent(subject, plugins)?;
        agent.initialize()?;
        let start = Instant::now();
        agent.new_session(subject.cwd()?)?;
        figures.push((milliseconds(start.elapsed()), megabytes(agent.memory()?.rss)));
        agent.stop()?;
    }
    subject.add("first session/new with a plugin, more ms", figures[1].0 - figures[0].0);
    subject.add("a process of plugins, more RSS MB", figures[1].1 - figures[0].1);
    Ok(())
}

/// Returns the time that the agent takes for each step of a turn, in ms.
fn steps(agent: &mut Agent, session: &str, subject: &Subject, model: &Model) -> Result<Vec<f64>> {
    model.take_exchanges();
    let file = subject.work.join("a.txt");
    let call = json!({"filePath": file, "offset": 1}).to_string().replace(":1}", ":1,\"limit\":%N}");
    agent.prompt(session, &format!("TOOLS {N_STEPS} read {call}"))?;
    let exchanges = model.take_exchanges();
    if exchanges.len() != N_STEPS + 1 {
        return Err(format!("{} requests for {N_STEPS} steps", exchanges.len()).into());
    }
    Ok(exchanges.windows(2).map(|pair| milliseconds(pair[1].received - pair[0].understood)).collect())
}

/// Returns the time of a turn, and the processor time of the agent alone.
fn stream(agent: &mut Agent, session: &str) -> Result<(Duration, Duration)> {
    let (cpu, start) = (agent.own_cpu()?, Instant::now());
    agent.prompt(session, &format!("STREAM {N_DELTAS}"))?;
    Ok((start.elapsed(), agent.own_cpu()? - cpu))
}
