//! The cost of an agent that has nothing to do.

use std::{thread::sleep, time::Duration};

use crate::{
    Result,
    agent::Keep,
    model::Model,
    scenarios::{Scenario, Subject},
};

pub const IDLE: Scenario = Scenario { name: "idle", is_long: true, run: idle };

const N_SESSIONS: usize = 100;
/// Time after which threads for file work have ended.
const SETTLED: Duration = Duration::from_secs(12);
/// The time of observation.
const WINDOW: Duration = Duration::from_secs(5);

fn idle(subject: &mut Subject, _model: &Model) -> Result<()> {
    let mut agent = subject.start()?;
    agent.initialize()?;
    let mut sessions = Vec::new();
    for _ in 0..N_SESSIONS {
        sessions.push(agent.new_session(subject.cwd()?)?);
    }
    agent.prompts(&sessions, "hello", Keep::Counts)?;
    sleep(SETTLED);
    let (before, cpu) = (agent.switches()?, agent.own_cpu()?);
    sleep(WINDOW);
    let (woken, cpu) = (agent.switches()?.saturating_sub(before), agent.own_cpu()? - cpu);
    subject.add("wake-ups of 100 idle sessions in 5 s", woken as f64);
    subject.add("CPU of 100 idle sessions in 5 s, ms", cpu.as_secs_f64() * 1000.0);
    subject.add("memory of 100 idle sessions, RSS MB", agent.memory()?.rss as f64 / 1e6);
    agent.stop().map(drop)
}
