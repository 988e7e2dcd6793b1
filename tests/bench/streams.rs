//! The cost of many models that stream at once, and of one that streams a long text.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    Result,
    agent::Keep,
    model::Model,
    scenarios::{LIMIT, Scenario, Subject, megabytes, milliseconds},
    usage,
};

pub const STREAMS: Scenario = Scenario { name: "streams", is_long: true, run: streams };
pub const GROWTH: Scenario = Scenario { name: "growth", is_long: true, run: growth };

const N_STREAMS: usize = 200;
/// The length of each stream in tokens, a hundred in a second.
const N_TOKENS: usize = 500;

fn streams(subject: &mut Subject, _model: &Model) -> Result<()> {
    let mut agent = subject.start()?;
    agent.initialize()?;
    let mut sessions = Vec::new();
    for _ in 0..N_STREAMS {
        sessions.push(agent.new_session(subject.cwd()?)?);
    }
    // Tasks and titles are made before.
    agent.prompts(&sessions, "hello", Keep::Counts)?;
    let (cpu, start) = (agent.cpu()?, Instant::now());
    agent.prompts(&sessions, &format!("SLOW 10 {N_TOKENS}"), Keep::Counts)?;
    let (cpu, elapsed) = (agent.cpu()? - cpu, start.elapsed());
    let n_deltas = (N_STREAMS * N_TOKENS) as f64;
    // By the time that the streams are to take: an agent that is too slow for them uses no less.
    let seconds = N_TOKENS as f64 / 100.0;
    subject.add("200 streams of 100 tokens/s, cores", cpu.as_secs_f64() / seconds);
    subject.add("200 streams, CPU µs a token", milliseconds(cpu) * 1000.0 / n_deltas);
    subject.add("200 streams of 5 s, ms", milliseconds(elapsed));
    subject.add("peak memory of 200 streams, RSS MB", megabytes(agent.memory()?.peak));
    agent.stop().map(drop)
}

/// Measures deltas of 50 bytes, a millisecond apart: a thousand at the start of a text and a thousand behind 150 KB.
fn growth(subject: &mut Subject, _model: &Model) -> Result<()> {
    let (mut agent, session) = subject.warm(LIMIT)?;
    let pid = agent.pid();
    let measured = thread::spawn(move || {
        let start = Instant::now();
        let at = |milliseconds: u64| {
            thread::sleep(
                (start + Duration::from_millis(milliseconds)).saturating_duration_since(Instant::now()),
            );
            usage::own_cpu(pid).map_err(|error| error.to_string())
        };
        // The request comes before the first, and the end of the text behind the last.
        let times = (at(200)?, at(1200)?, at(3000)?, at(4000)?);
        Ok::<_, String>((times.1 - times.0, times.3 - times.2))
    });
    agent.prompt(&session, "GROW 1 4100 50")?;
    let (first, last) = measured.join().map_err(|_| "the measuring thread panicked")??;
    subject.add("deltas 200–1200, CPU µs each", milliseconds(first));
    subject.add("deltas 3000–4000, CPU µs each", milliseconds(last));
    subject.add("deltas behind 150 KB over the first", last.as_secs_f64() / first.as_secs_f64());
    agent.stop().map(drop)
}
