//! The memory, log, files and threads of a daemon over the turns of a working day.

use std::{fs, time::Duration};

use serde_json::json;

use crate::{
    Result,
    model::Model,
    scenarios::{Scenario, Subject, megabytes},
    usage,
};

pub const TURNS: Scenario = Scenario { name: "turns", is_long: true, run: turns };

/// The turns of one session, which is closed then.
const PER_SESSION: usize = 50;
/// The turns between two looks.
const PER_LOOK: usize = 500;
const LIMIT: Duration = Duration::from_secs(4 * 60 * 60);

struct Look {
    n_turns: usize,
    memory: f64,
    log: f64,
    n_files: usize,
    n_threads: usize,
}

fn turns(subject: &mut Subject, _model: &Model) -> Result<()> {
    let n_turns = match std::env::var("TURNS") {
        Ok(turns) => turns.parse().map_err(|_| "TURNS is not a number")?,
        Err(_) => 20_000,
    };
    let log = subject.home().join(".local/share/windlass/windlass.db-wal");
    let mut agent = subject.start_in(subject.home(), LIMIT)?;
    agent.initialize()?;
    let (mut looks, mut session) = (Vec::new(), String::new());
    for n in 0..n_turns {
        if n % PER_SESSION == 0 {
            if !session.is_empty() {
                agent.call("session/close", json!({"sessionId": session}))?;
            }
            session = agent.new_session(subject.cwd()?)?;
        }
        // Every tenth turn changes a file, which takes snapshots.
        if n % 10 == 9 {
            let call = json!({"command": format!("echo {n} > changed.txt"), "description": "Changes a file"});
            agent.prompt(&session, &format!("TOOLS 1 bash {call}"))?;
        } else {
            agent.prompt(&session, &format!("STREAM {}", 20 + n % 50))?;
        }
        if (n + 1) % PER_LOOK == 0 {
            let (n_files, n_threads) = usage::handles(agent.pid());
            let log = megabytes(fs::metadata(&log).map_or(0, |log| log.len()));
            let memory = megabytes(agent.memory()?.rss);
            eprintln!(
                "{} turns: {memory:.1} MB, log {log:.1} MB, {n_files} files, {n_threads} threads",
                n + 1
            );
            looks.push(Look { n_turns: n + 1, memory, log, n_files, n_threads });
        }
    }
    agent.stop()?;
    // Caches fill up in the first tenth.
    let looks: Vec<Look> = looks.into_iter().filter(|look| look.n_turns > n_turns / 10).collect();
    let slope = slope(looks.iter().map(|look| (look.n_turns as f64, look.memory)));
    let (Some(first), Some(last)) = (looks.first(), looks.last()) else {
        return Err(format!("{n_turns} turns are too few for two looks").into());
    };
    subject.add("20000 turns, MB per 10000", slope * 10_000.0);
    subject.add("memory behind the turns, RSS MB", last.memory);
    subject.add("log behind the turns, MB", last.log);
    subject.add("largest log of the turns, MB", looks.iter().map(|look| look.log).fold(0.0, f64::max));
    subject.add("20000 turns, more open files", last.n_files as f64 - first.n_files as f64);
    subject.add("20000 turns, more threads", last.n_threads as f64 - first.n_threads as f64);
    Ok(())
}

/// Returns the slope of the line with the least squares.
fn slope(points: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let n_points = points.clone().count() as f64;
    let sums = points.clone().fold((0.0, 0.0), |sums, (x, y)| (sums.0 + x, sums.1 + y));
    let mean = (sums.0 / n_points, sums.1 / n_points);
    let squares = points.fold((0.0, 0.0), |sums, (x, y)| {
        (sums.0 + (x - mean.0) * (y - mean.1), sums.1 + (x - mean.0) * (x - mean.0))
    });
    squares.0 / squares.1
}
