//! The cost of snapshots in small and large repositories: behind a command that changes nothing, and behind one that changes
//! ten files, where the model answers at once and where it thinks. `git status` of the same files stands beside it.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    Result,
    model::Model,
    scenarios::{LIMIT, Scenario, Subject, median, megabytes, milliseconds},
};

pub const WORKTREE: Scenario = Scenario { name: "worktree", is_long: true, run: worktree };

const SIZES: [usize; 3] = [0, 11_000, 80_000];
const N_FILES_EACH: usize = 10;
const N_STEPS: usize = 12;
const N_SESSIONS: usize = 21;
/// Time after which the times of files say that they did not change.
const SETTLED: Duration = Duration::from_secs(3);
/// Time that a quick model takes for an answer.
const THOUGHT: Duration = Duration::from_millis(500);
const NOTHING: &str = "true %N";
/// Writes files in which the number of the step is.
const TEN_FILES: &str = "for i in 0 1 2 3 4 5 6 7 8 9; do echo %N > directory$i/file$i.txt; done";

fn worktree(subject: &mut Subject, model: &Model) -> Result<()> {
    let mut small = None;
    for n_files in SIZES {
        let root = subject.root().join(format!("worktree-{n_files}"));
        if !root.exists() {
            make(&root, n_files)?;
            sleep(SETTLED);
        }
        open(subject, &root, n_files)?;
        let unchanged = step(subject, model, &root, NOTHING)?;
        subject.add(&format!("a step in {n_files} files, ms"), unchanged);
        if n_files > 0 {
            subject.add(&format!("git status of {n_files} files, ms"), status(&root)?);
            let hasty = step(subject, model, &root, TEN_FILES)?;
            subject.add(&format!("a step that changes ten of {n_files} files, model at once, ms"), hasty);
            model.think(THOUGHT);
            let changed = step(subject, model, &root, TEN_FILES);
            model.think(Duration::ZERO);
            subject.add(&format!("a step that changes ten of {n_files} files, ms"), changed?);
        }
        let small = *small.get_or_insert(unchanged);
        if n_files == SIZES[2] {
            subject.add("a step in 80000 files over one in none", unchanged / small);
        }
    }
    Ok(())
}

/// Measures how a client begins there, and what its sessions take.
fn open(subject: &mut Subject, root: &Path, n_files: usize) -> Result<()> {
    let cwd = root.display().to_string();
    let mut agent = subject.start_in(subject.home(), LIMIT)?;
    agent.initialize()?;
    let began = Instant::now();
    let session = agent.new_session(&cwd)?;
    subject.add(&format!("first session/new in {n_files} files, ms"), milliseconds(began.elapsed()));
    let began = Instant::now();
    agent.prompt(&session, "hello")?;
    subject.add(&format!("first prompt in {n_files} files, ms"), milliseconds(began.elapsed()));
    for _ in 1..N_SESSIONS {
        agent.new_session(&cwd)?;
    }
    let memory = agent.memory()?;
    subject.add(&format!("memory of 21 sessions in {n_files} files, RSS MB"), megabytes(memory.rss));
    agent.stop().map(drop)
}

fn make(root: &Path, n_files: usize) -> Result<()> {
    fs::create_dir_all(root)?;
    for number in 0..n_files {
        let directory = root.join(format!("directory{}", number / N_FILES_EACH));
        fs::create_dir_all(&directory)?;
        let file = directory.join(format!("file{}.txt", number % N_FILES_EACH));
        fs::write(file, format!("{}\n", directory.display()))?;
    }
    for arguments in ["init -q", "add .", "commit -q --allow-empty -m first"] {
        run_git(root, arguments)?;
    }
    Ok(())
}

fn run_git(root: &Path, arguments: &str) -> Result<()> {
    let status = Command::new("git")
        .args(["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"])
        .args(arguments.split(' '))
        .current_dir(root)
        .stdout(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(format!("git {arguments} failed").into()) }
}

/// Returns the median time of `git status`, in milliseconds.
fn status(root: &Path) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..N_STEPS {
        let began = Instant::now();
        run_git(root, "status --porcelain -z")?;
        times.push(milliseconds(began.elapsed()));
    }
    Ok(median(&mut times))
}

/// Returns the median time of a step with a command, in milliseconds.
fn step(subject: &Subject, model: &Model, root: &Path, command: &str) -> Result<f64> {
    let mut agent = subject.start_in(subject.home(), LIMIT)?;
    agent.initialize()?;
    let session = agent.new_session(&root.display().to_string())?;
    let calls = |n_steps: usize, command: &str| {
        format!("TOOLS {n_steps} bash {}", json!({"command": command, "description": "Is timed"}))
    };
    // The first snapshot of a worktree reads all of it, and behind the second one it comes to be watched.
    agent.prompt(&session, &calls(3, "true first %N"))?;
    sleep(SETTLED);
    agent.prompt(&session, &calls(1, "true second %N"))?;
    model.take_exchanges();
    agent.prompt(&session, &calls(N_STEPS, command))?;
    let exchanges = model.take_exchanges();
    let steps = exchanges.windows(2).map(|pair| milliseconds(pair[1].received - pair[0].understood));
    let time = median(&mut steps.collect::<Vec<_>>());
    agent.stop()?;
    Ok(time)
}
