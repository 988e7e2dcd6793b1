//! The work of every measured agent, and the figures taken of it.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    Result,
    agent::{Agent, Keep, Seen},
    model::Model,
    search, tools, usage,
};

/// An agent under measurement, with a machine of its own: a home and a git repository that are removed with it.
pub struct Subject {
    pub name: &'static str,
    pub command: Vec<String>,
    env: Vec<(String, String)>,
    pub config: Value,
    root: TempDir,
    home: PathBuf,
    pub work: PathBuf,
    /// The figures, in the order of their first measurement.
    pub figures: Vec<(String, Vec<f64>)>,
}

pub struct Scenario {
    pub name: &'static str,
    /// Set to run three times at most.
    pub is_long: bool,
    pub run: fn(&mut Subject, &Model) -> Result<()>,
}

pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "start", is_long: false, run: start },
    Scenario { name: "home", is_long: false, run: home },
    Scenario { name: "stream", is_long: false, run: stream },
    Scenario { name: "steps", is_long: true, run: steps },
    Scenario { name: "sessions", is_long: true, run: sessions },
    Scenario { name: "parallel", is_long: true, run: parallel },
    Scenario { name: "load", is_long: true, run: load },
    Scenario { name: "file", is_long: true, run: file },
    Scenario { name: "output", is_long: false, run: tools::output },
    Scenario { name: "edit", is_long: false, run: tools::edit },
    Scenario { name: "reads", is_long: false, run: tools::reads },
    crate::idle::IDLE,
    crate::setup::SETUP,
    crate::doctor::DOCTOR,
    crate::connections::CONNECTIONS,
    crate::http::HTTP,
    crate::models::MODELS,
    crate::terminal::TERMINAL,
    crate::export::EXPORT,
    crate::sandbox::SANDBOX,
    crate::sandbox::NETWORK,
    crate::plugins::PLUGINS,
    crate::servers::SERVERS,
    crate::servers::DIAGNOSTICS,
    crate::cancels::CANCELS,
    crate::streams::STREAMS,
    crate::streams::GROWTH,
    crate::history::HISTORY,
    crate::worktree::WORKTREE,
    Scenario { name: "search", is_long: true, run: search::search },
];

/// Measures that take many minutes: they run once, and only when they are named.
pub const NAMED: &[Scenario] = &[crate::endurance::TURNS];

/// The maximum lifetime of one agent.
pub const LIMIT: Duration = Duration::from_secs(240);
/// The time limit for large files: the reference is known to read a whole file for its head.
const FILE_LIMIT: Duration = Duration::from_secs(75);
const N_WARM: usize = 20;
const N_PACED: usize = 1000;
const N_STEPS: usize = 200;
const N_SESSIONS: usize = 100;
const N_PARALLEL: usize = 50;
const N_TURNS: usize = 221;
const BIG_FILE: u64 = 1 << 30;

impl Subject {
    pub fn new(
        name: &'static str,
        command: Vec<String>,
        env: Vec<(String, String)>,
        model: &Model,
    ) -> Result<Self> {
        let root = tempfile::Builder::new().prefix("acp-bench-").tempdir()?;
        // Paths on the wire are canonical, so the scratch root must be too.
        let path = root.path().canonicalize()?;
        let (home, work) = (path.join("home"), path.join("work"));
        fs::create_dir(&home)?;
        fs::create_dir(&work)?;
        fs::write(work.join("a.txt"), "one\ntwo\nthree\n")?;
        for arguments in ["init -q", "add .", "commit -q -m first"] {
            let status = Command::new("git")
                .args(["-c", "user.name=Bench", "-c", "user.email=bench@example.invalid"])
                .args(arguments.split(' '))
                .current_dir(&work)
                .env("HOME", &home)
                .status()?;
            if !status.success() {
                return Err(format!("git {arguments} failed").into());
            }
        }
        let models = json!({"mock": {"name": "Mock", "limit": {"context": 2_000_000, "output": 8192}}});
        let provider = json!({
            "name": "Mock",
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": model.url(), "apiKey": "test"},
            "models": models,
        });
        let config =
            json!({"model": "mock/mock", "permission": {"*": "allow"}, "provider": {"mock": provider}});
        let mut subject = Self { name, command, env, config, root, home, work, figures: Vec::new() };
        if let Some(program) = subject.command.first()
            && let Ok(metadata) = fs::metadata(program)
        {
            subject.add("binary, MB", megabytes(metadata.len()));
        }
        Ok(subject)
    }

    /// Ends the processes that a measure left behind.
    pub fn kill_rest(&self, limit: Duration) {
        let start = Instant::now();
        while usage::kill_all(&self.home) > 0 && start.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the directory in which a measure may keep files between its runs.
    pub fn scratch(&self) -> &Path {
        self.root.path()
    }

    pub fn add(&mut self, row: &str, value: f64) {
        match self.figures.iter_mut().find(|(name, _)| name == row) {
            Some((_, values)) => values.push(value),
            None => self.figures.push((row.to_owned(), vec![value])),
        }
    }

    pub fn start(&self) -> Result<Agent> {
        self.start_in(&self.home, LIMIT)
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn start_in(&self, home: &Path, limit: Duration) -> Result<Agent> {
        let mut command = self.program()?;
        command.args(self.command.iter().skip(1)).env("HOME", home);
        Agent::start(command, self.root.path().join("stderr"), limit)
    }

    /// Returns the command of the program on its machine, without arguments.
    pub fn program(&self) -> Result<Command> {
        self.program_within(&[])
    }

    /// Returns the program as started by another one, which is told with its arguments.
    pub fn program_within(&self, starter: &[&str]) -> Result<Command> {
        let program = self.command.first().ok_or("no command")?;
        let mut words = starter.iter().copied().chain([program.as_str()]);
        let mut command = Command::new(words.next().ok_or("no command")?);
        command
            .args(words)
            .current_dir(&self.work)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.home)
            .env("SHELL", "/bin/bash")
            .env("OPENCODE_CONFIG_CONTENT", self.config.to_string())
            .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
            .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
            .env("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    /// Starts an initialized agent with one session that has had its first turn, and so its title.
    pub fn warm(&self, limit: Duration) -> Result<(Agent, String)> {
        self.warm_as(json!({}), limit)
    }

    /// Starts one for a client with these extensions.
    pub fn warm_as(&self, extensions: Value, limit: Duration) -> Result<(Agent, String)> {
        let mut agent = self.start_in(&self.home, limit)?;
        agent.initialize_as(extensions)?;
        let session = agent.new_session(self.cwd()?)?;
        agent.prompt(&session, "hello")?;
        Ok((agent, session))
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn cwd(&self) -> Result<&str> {
        Ok(self.work.to_str().ok_or("the scratch directory is not UTF-8")?)
    }
}

fn start(subject: &mut Subject, model: &Model) -> Result<()> {
    let mut agent = subject.start()?;
    agent.initialize()?;
    subject.add("spawn → initialize, ms", milliseconds(agent.started.elapsed()));
    subject.add("memory after initialize, RSS MB", megabytes(agent.memory()?.rss));

    let start = Instant::now();
    let session = agent.new_session(subject.cwd()?)?;
    subject.add("first session/new, ms", milliseconds(start.elapsed()));
    let memory = agent.memory()?;
    subject.add("memory after 1 session, RSS MB", megabytes(memory.rss));
    subject.add("memory after 1 session, PSS MB", megabytes(memory.pss));

    agent.prompt(&session, "hello")?;
    subject.add("spawn → first prompt answered, ms", milliseconds(agent.started.elapsed()));
    subject.add("memory after 1 turn, RSS MB", megabytes(agent.memory()?.rss));

    let (mut warm, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..N_WARM {
        let start = Instant::now();
        let seen = agent.prompt(&session, "hello again")?;
        warm.push(milliseconds(seen.first_chunk.ok_or("no text")? - start));
        bare.push(milliseconds(model.bare("hello again")?.0));
    }
    let (warm, bare) = (median(&mut warm), median(&mut bare));
    subject.add("warm prompt → first chunk, ms", warm);
    subject.add("the model alone → first byte, ms", bare);
    subject.add("warm prompt over the model, ms", warm - bare);
    subject.add("end of input → exit, ms", milliseconds(agent.stop()?));
    Ok(())
}

/// Measures the very first start: nothing is stored yet.
fn home(subject: &mut Subject, _model: &Model) -> Result<()> {
    let home = tempfile::Builder::new().prefix("first-").tempdir_in(subject.root.path())?;
    let mut agent = subject.start_in(home.path(), LIMIT)?;
    agent.initialize()?;
    subject.add("new home: spawn → initialize, ms", milliseconds(agent.started.elapsed()));
    let start = Instant::now();
    agent.new_session(subject.cwd()?)?;
    subject.add("new home: first session/new, ms", milliseconds(start.elapsed()));
    let stopped = agent.stop();
    usage::kill_all(home.path());
    stopped.map(drop)
}

fn stream(subject: &mut Subject, model: &Model) -> Result<()> {
    let (mut agent, session) = subject.warm(LIMIT)?;
    for count in [5_000, 50_000] {
        let prompt = format!("STREAM {count}");
        let (cpu, start) = (agent.cpu()?, Instant::now());
        let seen = agent.prompts(&[&session], &prompt, Keep::Lines)?;
        let (elapsed, cpu) = (start.elapsed(), agent.cpu()? - cpu);
        check_stream(&seen, count)?;
        subject.add(&format!("{count} deltas, ms"), milliseconds(elapsed));
        subject.add(&format!("{count} deltas, CPU ms"), milliseconds(cpu));
        subject.add(&format!("{count} deltas, CPU µs each"), milliseconds(cpu) * 1000.0 / count as f64);
        subject.add(&format!("{count} deltas, lines written"), seen.n_lines as f64);
        subject.add(&format!("{count} deltas, the model alone, ms"), milliseconds(model.bare(&prompt)?.1));
    }
    // Deltas that arrive one by one cannot share a write to the store and a line to the client.
    let cpu = agent.cpu()?;
    let seen = agent.prompt(&session, &format!("SLOW 1 {N_PACED}"))?;
    let cpu = agent.cpu()? - cpu;
    subject.add("a delta every ms, CPU µs each", milliseconds(cpu) * 1000.0 / N_PACED as f64);
    subject.add("a delta every ms, lines for 1000", seen.n_lines as f64);
    subject.add("peak memory of the streams, RSS MB", megabytes(agent.memory()?.peak));
    agent.stop().map(drop)
}

/// Fails if the stream is incomplete: fast but wrong does not count.
fn check_stream(seen: &Seen, count: usize) -> Result<()> {
    let wanted: String = (0..count).map(|n| format!("tok{} ", n % 1000)).collect();
    let mut said = String::new();
    for line in seen.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Value = serde_json::from_slice(line)?;
        let update = &message["params"]["update"];
        if update["sessionUpdate"] == "agent_message_chunk" {
            said.push_str(update["content"]["text"].as_str().unwrap_or_default());
        }
    }
    if said == wanted { Ok(()) } else { Err(format!("the text of {count} deltas arrived changed").into()) }
}

fn steps(subject: &mut Subject, model: &Model) -> Result<()> {
    let (mut agent, session) = subject.warm(LIMIT)?;
    model.take_exchanges();
    let (cpu, start) = (agent.cpu()?, Instant::now());
    // Every command differs, because repetitions of the same call cause a question.
    let call = r#"{"command":"true %N","description":"Does nothing"}"#;
    agent.prompt(&session, &format!("TOOLS {N_STEPS} bash {call}"))?;
    let (elapsed, cpu) = (start.elapsed(), agent.cpu()? - cpu);
    let exchanges = model.take_exchanges();
    if exchanges.len() != N_STEPS + 1 {
        return Err(format!("{} requests for {N_STEPS} steps", exchanges.len()).into());
    }
    // Requests grow with the turn; reading them is not the agent's work.
    let own: Vec<Duration> = exchanges.windows(2).map(|pair| pair[1].received - pair[0].understood).collect();
    // The median of the steps: now and then the store writes its log back, or the machine is busy.
    let each = |from: usize, to: usize| {
        median(&mut own[from..to].iter().copied().map(milliseconds).collect::<Vec<_>>())
    };
    let (early, late) = (each(0, 50), each(N_STEPS - 50, N_STEPS));
    subject.add("a bash step of 200, ms", milliseconds(elapsed) / N_STEPS as f64);
    subject.add("a bash step of 200, CPU ms", milliseconds(cpu) / N_STEPS as f64);
    subject.add("bash steps 1–50, median ms", early);
    subject.add("bash steps 151–200, median ms", late);
    subject.add("last 50 steps over first 50", late / early);
    // The same by processor time, which other work on the machine changes less: of one session, a quarter at a
    // time.
    let session = agent.new_session(subject.cwd()?)?;
    agent.prompt(&session, "hello")?;
    let mut quarters = Vec::new();
    for quarter in 0..4 {
        let call = format!(r#"{{"command":"true {quarter} %N","description":"Does nothing"}}"#);
        let cpu = agent.own_cpu()?;
        agent.prompt(&session, &format!("TOOLS {} bash {call}", N_STEPS / 4))?;
        quarters.push(milliseconds(agent.own_cpu()? - cpu) / (N_STEPS / 4) as f64);
    }
    subject.add("bash steps 1–50, own CPU ms", quarters[0]);
    subject.add("bash steps 151–200, own CPU ms", quarters[3]);
    subject.add("last 50 steps over first 50, own CPU", quarters[3] / quarters[0]);
    agent.stop().map(drop)
}

fn sessions(subject: &mut Subject, _model: &Model) -> Result<()> {
    let mut agent = subject.start()?;
    agent.initialize()?;
    let start = Instant::now();
    for _ in 0..N_SESSIONS {
        agent.new_session(subject.cwd()?)?;
    }
    subject.add("session/new, mean of 100, ms", milliseconds(start.elapsed()) / N_SESSIONS as f64);
    let memory = agent.memory()?;
    subject.add("memory after 100 sessions, RSS MB", megabytes(memory.rss));
    subject.add("memory after 100 sessions, PSS MB", megabytes(memory.pss));
    subject.add("peak memory of 100 sessions, RSS MB", megabytes(memory.peak));
    agent.stop().map(drop)
}

fn parallel(subject: &mut Subject, _model: &Model) -> Result<()> {
    let mut agent = subject.start()?;
    agent.initialize()?;
    let mut sessions = Vec::new();
    for _ in 0..N_PARALLEL {
        sessions.push(agent.new_session(subject.cwd()?)?);
    }
    let (cpu, start) = (agent.cpu()?, Instant::now());
    agent.prompts(&sessions, "SLOW 10 100", Keep::Counts)?;
    subject.add("50 parallel turns of 1 s, ms", milliseconds(start.elapsed()));
    subject.add("50 parallel turns of 1 s, CPU ms", milliseconds(agent.cpu()? - cpu));
    subject.add("peak memory of 50 turns, RSS MB", megabytes(agent.memory()?.peak));
    agent.stop().map(drop)
}

fn load(subject: &mut Subject, _model: &Model) -> Result<()> {
    let mut agent = subject.start()?;
    agent.initialize()?;
    let session = agent.new_session(subject.cwd()?)?;
    let start = Instant::now();
    for n in 0..N_TURNS {
        agent.prompt(&session, &format!("hello {n}"))?;
    }
    subject.add("a turn of 221, ms", milliseconds(start.elapsed()) / N_TURNS as f64);
    agent.stop()?;

    let mut agent = subject.start()?;
    agent.initialize()?;
    let start = Instant::now();
    let params = json!({"sessionId": session, "cwd": subject.cwd()?, "mcpServers": []});
    let seen = agent.call("session/load", params)?;
    subject.add("session/load of 221 turns, ms", milliseconds(start.elapsed()));
    if seen.n_lines < 2 * N_TURNS {
        return Err(format!("session/load gave {} lines only", seen.n_lines).into());
    }
    agent.stop().map(drop)
}

/// Reads a file of text, then a hole: only an agent that reads all of it notices the length.
fn file(subject: &mut Subject, _model: &Model) -> Result<()> {
    let path = subject.work.join("big.txt");
    let mut big = File::create(&path)?;
    big.write_all("A line of an ordinary text file, no longer than usual.\n".repeat(20_000).as_bytes())?;
    big.set_len(BIG_FILE)?;
    let (mut agent, session) = subject.warm(FILE_LIMIT)?;
    let read = |name: &str| {
        let path = subject.work.join(name);
        format!("TOOLS 1 read {}", json!({"filePath": path, "limit": 100}))
    };
    // Excludes the growth of the tool's first use from that of the file.
    agent.prompt(&session, &read("a.txt"))?;
    let before = agent.memory()?.rss;
    agent.forget_peak()?;
    let start = Instant::now();
    agent.prompt(&session, &read("big.txt"))?;
    let elapsed = start.elapsed();
    let grown = agent.memory()?.peak.saturating_sub(before);
    subject.add("head of a 1 GB file, ms", milliseconds(elapsed));
    subject.add("head of a 1 GB file, more MB", megabytes(grown));
    agent.stop().map(drop)
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}
