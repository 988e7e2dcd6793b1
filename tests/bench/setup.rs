//! Start with a large setup: 200 Markdown files of agents, commands and skills in the repository.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use crate::{
    Result,
    model::Model,
    scenarios::{Scenario, Subject, median, megabytes, milliseconds},
};

pub const SETUP: Scenario = Scenario { name: "setup", is_long: false, run: setup };

const N_FILES: usize = 200;
const N_SESSIONS: usize = 10;
const SETTLED: Duration = Duration::from_millis(1200);

fn setup(subject: &mut Subject, _model: &Model) -> Result<()> {
    let small = memory_after_sessions(subject, subject.cwd()?)?;
    let work = subject.root().join("large");
    for idx in 0..N_FILES {
        let front = format!("description: Does the work number {idx}, when it is asked to");
        let body = "Read what is there before you change it, and say what you did.\n".repeat(16);
        let (path, front) = match idx % 3 {
            0 => (
                format!("agent/own-{idx}.md"),
                format!(
                    "{front}\nmode: subagent\npermission:\n  edit: deny\n  bash:\n    \"*\": ask\n    git *: allow"
                ),
            ),
            1 => (format!("command/own-{idx}.md"), front),
            _ => (format!("skill/own-{idx}/SKILL.md"), format!("name: own-{idx}\n{front}")),
        };
        let path = work.join(".opencode").join(path);
        fs::create_dir_all(path.parent().ok_or("no parent")?)?;
        fs::write(path, format!("---\n{front}\n---\n{body}"))?;
    }
    fs::create_dir_all(work.join(".git"))?;
    // Waits until the files are old: files of this very second are read twice, as they may still be written.
    thread::sleep(SETTLED);
    let cwd = work.display().to_string();
    let mut agent = subject.start()?;
    agent.initialize()?;
    let start = Instant::now();
    agent.new_session(&cwd)?;
    subject.add("200 definitions: first session/new, ms", milliseconds(start.elapsed()));
    let mut times = Vec::new();
    for _ in 0..N_SESSIONS {
        let start = Instant::now();
        agent.new_session(&cwd)?;
        times.push(milliseconds(start.elapsed()));
    }
    subject.add("200 definitions: session/new again, ms", median(&mut times));
    agent.stop()?;
    let large = memory_after_sessions(subject, &cwd)?;
    subject.add("200 definitions: memory added, MB", megabytes(large.saturating_sub(small)));
    Ok(())
}

fn memory_after_sessions(subject: &Subject, cwd: &str) -> Result<u64> {
    let mut agent = subject.start()?;
    agent.initialize()?;
    for _ in 0..=N_SESSIONS {
        agent.new_session(cwd)?;
    }
    let memory = agent.memory()?.rss;
    agent.stop()?;
    Ok(memory)
}
