//! The memory, files, threads and processes that a thousand cancelled turns leave behind.

use std::time::Duration;

use serde_json::json;

use crate::{
    Result,
    model::Model,
    scenarios::{LIMIT, Scenario, Subject, megabytes},
    usage,
};

pub const CANCELS: Scenario = Scenario { name: "cancels", is_long: true, run: cancels };

const N_CANCELS: usize = 1_000;
/// The first ones fill caches.
const N_FIRST: usize = 100;

fn cancels(subject: &mut Subject, _model: &Model) -> Result<()> {
    let (mut agent, mut session) = subject.warm(LIMIT)?;
    let call = json!({"command": "sleep 1000", "description": "Waits"});
    let mut before = None;
    for n in 0..N_FIRST + N_CANCELS {
        if n == N_FIRST {
            settle();
            before = Some((agent.own_memory()?, usage::handles(agent.pid()), agent.n_descendants()));
        }
        // A long conversation would grow with its messages.
        if n % 50 == 0 {
            agent.call("session/close", json!({"sessionId": session}))?;
            session = agent.new_session(subject.cwd()?)?;
        }
        // In the middle of a text, or of a command.
        let prompt = if n % 2 == 0 { "SLOW 50 1000".to_owned() } else { format!("TOOLS 1 bash {call}") };
        agent.cancelled(&session, &prompt)?;
    }
    let Some((memory, (n_files, n_threads), n_processes)) = before else { return Ok(()) };
    settle();
    let (files, threads) = usage::handles(agent.pid());
    let more = |after: usize, before: usize| after as f64 - before as f64;
    subject.add("1000 cancels, more RSS MB", megabytes(agent.own_memory()?.rss) - megabytes(memory.rss));
    subject.add("1000 cancels, more open files", more(files, n_files));
    subject.add("1000 cancels, more threads", more(threads, n_threads));
    subject.add("1000 cancels, more processes", more(agent.n_descendants(), n_processes));
    agent.stop().map(drop)
}

/// Waits until the remains of a cancel are gone, and until everything prepared for the next command is there.
fn settle() {
    std::thread::sleep(Duration::from_secs(6));
}
