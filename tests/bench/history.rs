//! A session of 10 000 messages: its load, and a turn in it beside one in an empty session.

use std::{fs, time::Instant};

use serde_json::{Value, json};

use crate::{
    Result,
    agent::Agent,
    model::Model,
    scenarios::{Scenario, Subject, median, megabytes, milliseconds},
};

pub const HISTORY: Scenario = Scenario { name: "history", is_long: true, run: history };

const N_MESSAGES: usize = 10_000;
/// A session to compare with.
const N_FEW: usize = 1_000;
const N_TURNS: usize = 9;

fn history(subject: &mut Subject, model: &Model) -> Result<()> {
    if subject.name != "windlass" {
        return Ok(());
    }
    let turn = template(subject)?;
    let few = import(subject, &turn, N_FEW)?;
    let many = import(subject, &turn, N_MESSAGES)?;
    let (_, more_of_few) = load(subject, &few, N_FEW)?;
    let (time, more) = load(subject, &many, N_MESSAGES)?;
    subject.add("session/load of 10000 messages, ms", time);
    subject.add("load of 1000 messages, more MB", more_of_few);
    subject.add("load of 10000 messages, more MB", more);

    let mut agent = subject.start()?;
    agent.initialize()?;
    let empty = agent.new_session(subject.cwd()?)?;
    agent.call("session/load", json!({"sessionId": many, "cwd": subject.cwd()?, "mcpServers": []}))?;
    let empty = turns(&mut agent, &empty, model)?;
    let behind = turns(&mut agent, &many, model)?;
    subject.add("a turn in an empty session, ms", empty);
    subject.add("a turn behind 10000 messages, more ms", behind - empty);
    subject.add("memory with 10000 messages, RSS MB", megabytes(agent.memory()?.rss));
    agent.stop().map(drop)
}

/// Returns the export of a session of one turn with a call.
fn template(subject: &Subject) -> Result<Value> {
    let mut agent = subject.start()?;
    agent.initialize()?;
    let session = agent.new_session(subject.cwd()?)?;
    let call = json!({"command": "cat a.txt", "description": "Shows a file"});
    agent.prompt(&session, &format!("TOOLS 1 bash {call}"))?;
    agent.stop()?;
    let output =
        subject.program()?.args(["session", "export", &session, "--format", "json", "-o", "-"]).output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Stores a session that repeats a turn until it has so many messages; returns its id.
fn import(subject: &Subject, turn: &Value, n_messages: usize) -> Result<String> {
    let turn_messages = turn["messages"].as_array().ok_or("an export has messages")?;
    let mut file = turn.clone();
    let messages = turn_messages.iter().cycle().take(n_messages).enumerate();
    file["messages"] = messages
        .map(|(n, message)| {
            let mut message = message.clone();
            // Ids sort in the order of the messages; a prompt and its answers belong together.
            let id = |n: usize| format!("msg_0000{n:08x}00000000000000");
            message["info"]["id"] = id(n).into();
            if message["info"]["parentID"].is_string() {
                message["info"]["parentID"] = id(n - n % turn_messages.len()).into();
            }
            for (part_idx, part) in message["parts"].as_array_mut().into_iter().flatten().enumerate() {
                part["id"] = format!("prt_0000{n:08x}0000000000{part_idx:04x}").into();
                part["messageID"] = id(n).into();
            }
            message
        })
        .collect();
    let path = subject.scratch().join("history.json");
    fs::write(&path, serde_json::to_vec(&file)?)?;
    let output = subject.program()?.arg("import").arg(&path).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let at = printed.find("ses_").ok_or_else(|| format!("nothing was imported: {output:?}"))?;
    let id: String =
        printed[at..].chars().take_while(|it| it.is_ascii_alphanumeric() || *it == '_').collect();
    Ok(id)
}

/// Loads a session in a new process; returns the time in milliseconds and the memory that it took in megabytes.
fn load(subject: &Subject, session: &str, n_messages: usize) -> Result<(f64, f64)> {
    let mut agent = subject.start()?;
    agent.initialize()?;
    agent.new_session(subject.cwd()?)?;
    let before = agent.memory()?.rss;
    let start = Instant::now();
    let params = json!({"sessionId": session, "cwd": subject.cwd()?, "mcpServers": []});
    let seen = agent.call("session/load", params)?;
    let time = milliseconds(start.elapsed());
    let more = megabytes(agent.memory()?.peak.saturating_sub(before));
    agent.stop()?;
    if seen.n_lines < n_messages {
        return Err(format!("session/load gave {} lines only", seen.n_lines).into());
    }
    Ok((time, more))
}

/// Returns the median time of a turn without the model's own, in milliseconds.
fn turns(agent: &mut Agent, session: &str, model: &Model) -> Result<f64> {
    // The first one reads the session from the store.
    agent.prompt(session, "hello")?;
    agent.prompt(session, "hello")?;
    let mut times = Vec::new();
    for _ in 0..N_TURNS {
        model.take_exchanges();
        let start = Instant::now();
        agent.prompt(session, "hello again")?;
        let elapsed = start.elapsed();
        let exchanges = model.take_exchanges();
        let models = exchanges.iter().map(|exchange| exchange.understood - exchange.received).sum();
        times.push(milliseconds(elapsed.saturating_sub(models)));
    }
    Ok(median(&mut times))
}
