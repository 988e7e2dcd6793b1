//! `windlass import`: brings in sessions of an exported file or of OpenCode's own history, and settings of other agents.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{ArgGroup, Args};
use serde_json::Value;
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{Engine, Imported, OpencodeHistory, OpencodeSession};

use super::{input, other_agents::Agent, output, progress::Progress, runtime};

mod settings;

/// Bytes of a file that are read.
const MAX_FILE: u64 = 256 * 1024 * 1024;

const ELSEWHERE: &str = " Another file of OpenCode's has it with other messages, which are left there: `--opencode FILE` reads that one.";
/// Sessions that are named in a sentence.
const MAX_NAMED: usize = 5;
const WAITS_FOR: &str =
    "windlass waits for the end of standard input, an exported session; `windlass import FILE` reads a file.";

#[derive(Debug, Args)]
#[group(skip)]
#[command(group = ArgGroup::new("source").required(true).args(["file", "opencode", "claude", "codex", "gemini"]))]
pub struct ImportArgs {
    /// File of `windlass export` or `opencode export`; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Import from OpenCode's own store, which is only read; from another data directory or database if one is given.
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    opencode: Option<Option<PathBuf>>,
    /// Show Claude Code's agents, commands, MCP servers and rules in windlass's words, and write them once you agree.
    #[arg(long)]
    claude: bool,
    /// The same of Codex.
    #[arg(long)]
    codex: bool,
    /// The same of Gemini CLI.
    #[arg(long)]
    gemini: bool,
    /// Write them without a question.
    #[arg(long, conflicts_with_all = ["file", "opencode"])]
    yes: bool,
    /// Import this session of OpenCode's.
    #[arg(long, value_name = "ID", requires = "opencode", conflicts_with = "all")]
    session: Option<String>,
    /// Import the sessions of every directory, not only those of this one.
    #[arg(long, requires = "opencode")]
    all: bool,
}

pub fn run(environment: Environment, args: ImportArgs) -> ExitCode {
    let directory = match output::directory(None) {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    let others = [(args.claude, Agent::Claude), (args.codex, Agent::Codex), (args.gemini, Agent::Gemini)];
    if let Some((_, agent)) = others.into_iter().find(|(is_meant, _)| *is_meant) {
        return settings::run(&environment, agent, args.yes, &directory);
    }
    let paths = Paths::new(&environment);
    runtime::block_on(async move {
        let engine = Engine::new(environment, paths);
        let done = match (&args.file, &args.opencode) {
            (Some(file), _) => from_file(&engine, file, &directory).await,
            (None, Some(path)) => from_opencode(&engine, path.as_deref(), &args, &directory).await,
            (None, None) => Err("Give a file, or `--opencode`.".to_owned()),
        };
        done.unwrap_or_else(|reason| output::fail(&reason))
    })
}

async fn from_file(engine: &Engine, path: &Path, directory: &Path) -> Result<ExitCode, String> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "Standard input".to_owned() } else { path.display().to_string() };
    let read = if is_stdin {
        input::read_to_end(MAX_FILE, WAITS_FOR).await.and_then(bounded)
    } else {
        File::open(path).and_then(read)
    };
    let bytes = read.map_err(|error| format!("{name} cannot be read: {error}."))?;
    let progress = Progress::of(format!("Importing {name}"));
    let file: Value =
        serde_json::from_slice(&bytes).map_err(|error| format!("{name} is no JSON: {error}."))?;
    drop(bytes);
    let imported = engine.sessions().import(file, directory).await;
    let imported = imported.map_err(|error| format!("{name} was not imported: {error}."))?;
    drop(progress);
    Ok(output::print_answer(&sentence(&imported)))
}

fn read(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    bounded(bytes)
}

fn bounded(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!("it is larger than {} MB", MAX_FILE >> 20)));
    }
    Ok(bytes)
}

fn sentence(imported: &Imported) -> String {
    let Imported { id, title, n_messages, n_unknown } = imported;
    let unknown = match n_unknown {
        0 => String::new(),
        1 => " 1 part that this version cannot read was left out.".to_owned(),
        n => format!(" {n} parts that this version cannot read were left out."),
    };
    format!("Imported {id}, {} ({n_messages} messages).{unknown}", output::plain(title))
}

async fn from_opencode(
    engine: &Engine,
    path: Option<&Path>,
    args: &ImportArgs,
    directory: &Path,
) -> Result<ExitCode, String> {
    let path = path.map_or_else(|| engine.sessions().opencode_data(), Path::to_owned);
    let history = OpencodeHistory::open(&path).map_err(|error| format!("{error}."))?;
    let all =
        history.sessions().map_err(|error| format!("OpenCode's sessions cannot be listed: {error}."))?;
    let root = engine.workspaces().project_root(directory);
    let is_wanted = |it: &&OpencodeSession| match &args.session {
        Some(id) => it.id == *id,
        None => it.parent_id.is_none() && (args.all || Path::new(&it.directory).starts_with(&root)),
    };
    let wanted: Vec<&OpencodeSession> = all.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        return Err(match &args.session {
            Some(id) => format!("OpenCode has no session {id}; `opencode session list` shows what there is."),
            None if args.all => "OpenCode has no sessions.".to_owned(),
            None => {
                "OpenCode has no sessions of this directory; --all imports those of every one.".to_owned()
            }
        });
    }
    let (mut n_imported, mut n_known, mut n_failed) = (0, 0, 0);
    // Both versions of OpenCode may have worked on one.
    let mut done = HashSet::new();
    let n_wanted = wanted.len();
    let progress = Progress::of("Importing");
    for (at, session) in wanted.into_iter().enumerate() {
        progress.say(format!("Importing session {} of {n_wanted}", at + 1));
        let is_again = !done.insert(session.id.as_str());
        if !is_again && engine.sessions().has(&session.id).await.map_err(|error| format!("{error}."))? {
            n_known += 1;
            done.remove(session.id.as_str());
            continue;
        }
        let read = history.read(session, &all);
        let imported = match read {
            Ok(file) => engine.sessions().import(file, directory).await,
            Err(error) => Err(error),
        };
        match imported {
            Ok(imported) => {
                n_imported += 1;
                let left_behind = if session.is_left_behind { " OpenCode 2 does not have it." } else { "" };
                let elsewhere = if session.is_elsewhere { ELSEWHERE } else { "" };
                let said = format!("{}{left_behind}{elsewhere}", sentence(&imported));
                if let Err(code) = progress.above(|| output::print(&said)) {
                    return Ok(code);
                }
            }
            Err(error) => {
                n_failed += 1;
                let said = format!("{} was not imported: {error}.", output::plain(&session.id));
                progress.above(|| output::note(&said));
            }
        }
    }
    drop(progress);
    if args.session.is_none() {
        tell_left(engine, &all, (!args.all).then_some(root.as_path())).await?;
    }
    let known = match n_known {
        0 => String::new(),
        1 => ", 1 was here already".to_owned(),
        n => format!(", {n} were here already"),
    };
    let imported = if n_imported == 1 { "1 session".to_owned() } else { format!("{n_imported} sessions") };
    let failed = if n_failed > 0 { format!(", {n_failed} could not be imported") } else { String::new() };
    let code = output::print_answer(&format!("{imported} imported{known}{failed}."));
    Ok(if n_failed > 0 { ExitCode::FAILURE } else { code })
}

/// Names the sessions of subagents that came with no other one: their parent is missing, or was not imported. All
/// directories are meant where no root is given.
async fn tell_left(engine: &Engine, all: &[OpencodeSession], root: Option<&Path>) -> Result<(), String> {
    let mut left = Vec::new();
    for session in all.iter().filter(|it| it.parent_id.is_some()) {
        let is_meant = root.is_none_or(|root| Path::new(&session.directory).starts_with(root));
        if is_meant && !engine.sessions().has(&session.id).await.map_err(|error| format!("{error}."))? {
            left.push(output::plain(&session.id));
        }
    }
    if let [first, ..] = left.as_slice() {
        let named = left.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if left.len() > MAX_NAMED { ", …" } else { "" };
        output::note(&format!(
            "Left out, since the session above is missing or was not imported: {named}{more}. `--session {first}` imports \
             one by itself."
        ));
    }
    Ok(())
}
