//! Sudden death: the daemon is killed at random points of scripted turns, and nothing that was seen is lost.
//!
//! `CRASH_POINTS` gives the number of points, `CRASH_SEED` other ones (`random`) or those of a run; a failure prints
//! both.

pub mod checks;
mod scripts;

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use self::{checks::Witness, scripts::Script};
use crate::support::{
    agent::Agent,
    process,
    random::{self, FailedAt, Random, from_environment},
};

/// Longest time between the event that a point waits for and the kill.
const MAX_SPIN: Duration = Duration::from_millis(4);

/// A point at which the daemon is killed, unless its turn is over before.
#[derive(Debug, Clone, Copy)]
enum Point {
    /// Once the client has read that many lines of the turn.
    Line(usize),
    /// Once the model has been asked that many times in the turn.
    Request(usize),
    /// That part of the turn's time after its beginning, in thousandths.
    Time(usize),
}

/// The size of a script that nobody interrupts.
struct Size {
    n_lines: usize,
    n_requests: usize,
    time: Duration,
}

impl Size {
    fn point(&self, random: &mut Random) -> Point {
        match random.below(4) {
            0 if self.n_requests > 0 => Point::Request(1 + random.below(self.n_requests)),
            1 => Point::Time(random.below(1000)),
            _more_often => Point::Line(1 + random.below(self.n_lines)),
        }
    }
}

/// Kills the daemon at this script's share of the points.
async fn survive(script: Script) {
    let n_points = from_environment("CRASH_POINTS", 40);
    let n_scripts = Script::ALL.len() as u64;
    let index = Script::ALL.iter().position(|it| *it == script).unwrap() as u64;
    let share = n_points / n_scripts + u64::from(index < n_points % n_scripts);
    let seed = random::seed("CRASH_SEED");
    let mut random = Random::new(seed ^ index);
    let size = measure(script).await;
    for n in 0..share {
        let point = size.point(&mut random);
        let spin = MAX_SPIN * u32::try_from(random.below(1000)).unwrap() / 1000;
        let _failed_at =
            FailedAt(format!("point {n} of {script:?} with CRASH_SEED={seed}: {point:?} and {spin:?}"));
        crash(script, &size, point, spin).await;
    }
}

/// Runs a script to its end.
async fn measure(script: Script) -> Size {
    let (agent, witness) = begin(script).await;
    let (n_lines, n_requests) = (agent.n_read(), agent.llm.requests().len());
    let start = Instant::now();
    let running = script.run(&agent, witness);
    running.over(&agent).await;
    let size = Size {
        n_lines: agent.n_read().saturating_sub(n_lines).max(1),
        n_requests: agent.llm.requests().len() - n_requests,
        time: start.elapsed(),
    };
    die(agent).await;
    size
}

/// Makes the session, up to the turn that is interrupted.
async fn begin(script: Script) -> (Agent, Witness) {
    let agent = script.builder(Agent::builder()).start().await;
    let session = agent.new_session().await;
    script.begin(&agent, &session).await;
    script.interlude(agent, Witness::new(session)).await
}

async fn crash(script: Script, size: &Size, point: Point, spin: Duration) {
    let (agent, witness) = begin(script).await;
    let git = checks::git_files(&agent.scratch);
    let (n_lines, n_requests) = (agent.n_read(), agent.llm.requests().len());
    let running = script.run(&agent, witness);
    let reached = async {
        match point {
            Point::Line(n) => agent.has_read(n_lines + n).await,
            Point::Request(n) => agent.llm.asked(n_requests + n).await,
            Point::Time(thousandths) => {
                spin_for(size.time * u32::try_from(thousandths).unwrap() / 1000).await
            }
        }
    };
    tokio::select! {
        () = reached => {}
        () = running.over(&agent) => {}
    }
    spin_for(spin).await;
    let scratch = agent.scratch.clone();
    let witness = die(agent).await.lines_of(running.witness);
    let left = process::gone(&scratch.home).await;
    assert!(left.is_empty(), "processes outlive a killed daemon: {}", process::describe(&left));
    assert_eq!(checks::git_files(&scratch), git, "the user's repository has changed");
    checks::is_whole(&scratch);

    let agent = script.builder(Agent::builder().scratch(&scratch)).start().await;
    checks::lives_on(script, &agent, &witness).await;
    agent.finish().await;
    assert_eq!(checks::git_files(&scratch), git, "the user's repository has changed after the crash");
    checks::is_whole(&scratch);
}

/// Lets time pass without giving up the processor for longer than the test's other tasks need it.
async fn spin_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        tokio::task::yield_now().await;
    }
}

/// Kills the daemon.
async fn die(mut agent: Agent) -> checks::Lines {
    agent.signal(Signal::SIGKILL);
    agent.wait_exit().await;
    agent.allow_cut_output();
    agent.output_read().await;
    let lines = checks::Lines(agent.lines());
    agent.forget().await;
    lines
}

#[tokio::test]
async fn a_stream_survives() {
    survive(Script::Stream).await;
}

#[tokio::test]
async fn calls_survive() {
    survive(Script::Calls).await;
}

#[tokio::test]
async fn a_running_command_is_marked() {
    survive(Script::Command).await;
}

#[tokio::test]
async fn an_answered_question_survives() {
    survive(Script::Allowed).await;
}

#[tokio::test]
async fn an_open_question_does_not_block() {
    survive(Script::Asking).await;
}

#[tokio::test]
async fn a_summary_survives() {
    survive(Script::Compaction).await;
}

#[tokio::test]
async fn snapshots_survive() {
    survive(Script::Snapshots).await;
}

#[tokio::test]
async fn an_undo_survives() {
    survive(Script::Undo).await;
}

#[tokio::test]
async fn a_subagent_survives() {
    survive(Script::Subagent).await;
}

#[tokio::test]
async fn a_migration_survives() {
    survive(Script::Migration).await;
}
