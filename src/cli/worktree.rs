//! Work in a git worktree of its own (`--worktree`), and `windlass worktree`: the worktrees that were made for it.

use std::{
    ffi::OsStr,
    io::{self, IsTerminal, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_base::{figures, path::real, process::pager};
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{Engine, TaskWorktree, Workspace, WorktreeError};
use windlass_protocol::opencode::project::Worktree;

use super::{
    options::{Format, FormatArgs},
    output::{self, plain},
    run::{args::TalkArgs, failure::Failure, open},
    runtime,
};

/// Files that are named in a question.
const MAX_NAMED: usize = 5;
/// The states of files that a merge has not settled, as git lists them.
const UNMERGED: [&str; 7] = ["DD", "AU", "UD", "UA", "DU", "AA", "UU"];
/// The state of a worktree that can go without a question.
const NOTHING: &str = "nothing in it";

#[derive(Debug, Args)]
pub struct WorktreeArgs {
    #[command(subcommand)]
    command: WorktreeCommand,
}

#[derive(Debug, Subcommand)]
enum WorktreeCommand {
    /// List the project's worktrees, and whether there is something in them.
    #[command(alias = "ls")]
    List {
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Merge a worktree's branch into the one that is checked out here, by your own git.
    Merge {
        /// Its name, or its directory.
        name: String,
        /// Do not ask: commit what is not committed there, and remove the worktree afterwards.
        #[arg(long)]
        yes: bool,
    },
    /// Throw a worktree away, with its branch.
    Remove {
        /// Its name, or its directory.
        name: String,
        /// Do not ask, even if there is work in it.
        #[arg(long)]
        yes: bool,
    },
}

/// Makes the worktree that the options ask for, or returns to it; the work is there from now on.
///
/// A signal ends the making, and takes back all that was made.
pub async fn enter(
    engine: &Engine,
    talk: &mut TalkArgs,
    signalled: impl Future<Output = u8>,
) -> Result<Option<TaskWorktree>, ExitCode> {
    let cancel = CancellationToken::new();
    let mut entering = std::pin::pin!(enter_until(engine, talk, &cancel));
    let entered = tokio::select! {
        biased;
        entered = &mut entering => entered,
        signal = signalled => {
            cancel.cancel();
            if let Ok(Some(worktree)) = entering.await {
                leave(worktree).await;
            }
            return Err(ExitCode::from(128 + signal));
        }
    };
    entered.map_err(Failure::report)
}

async fn enter_until(
    engine: &Engine,
    talk: &mut TalkArgs,
    cancel: &CancellationToken,
) -> Result<Option<TaskWorktree>, Failure> {
    let directory = open::directory(talk)?;
    let Some(name) = talk.worktree.take() else { return return_to(engine, talk, &directory).await };
    let workspace = engine.workspaces().workspace(&directory).await?;
    let name = Some(name).filter(|name| !name.trim().is_empty());
    let entered = engine.worktrees().enter(&workspace, name, cancel).await;
    let entered = entered.map_err(|error| Failure::Failed(format!("--worktree: {error}.")))?;
    talk.dir = Some(entered.place_of(&directory));
    output::note(&format!("Working in {}.", shown(&entered.worktree)));
    Ok(Some(entered))
}

/// Returns to the worktree in which a session was that is named by its id.
async fn return_to(
    engine: &Engine,
    talk: &mut TalkArgs,
    directory: &Path,
) -> Result<Option<TaskWorktree>, Failure> {
    let Some(id) = talk.session.as_deref().filter(|_| talk.dir.is_none()) else { return Ok(None) };
    // A fault of the id is told where the session is opened.
    let Ok(session) = open::known(engine, id, directory).await else { return Ok(None) };
    let place = PathBuf::from(&session.directory);
    let Some(name) = engine.worktrees().name_of(&place) else { return Ok(None) };
    let restored = engine.worktrees().restore(&place).await;
    if place.is_dir() {
        output::note(&format!("Working in the session's worktree {}.", plain(&name)));
        talk.dir = Some(place);
    }
    Ok(restored)
}

/// Removes a new worktree where nothing was changed, and says where the work is otherwise. Nothing may work there any more.
pub async fn leave(entered: TaskWorktree) {
    let worktree = entered.worktree.clone();
    let name = plain(&worktree.name);
    output::note(&match entered.leave().await {
        Ok(true) => format!("Nothing was changed, so the worktree {name} is gone again."),
        Ok(false) => format!(
            "The work is in {}. `windlass worktree merge {name}` merges it, `--worktree={name}` goes on with it, and \
             `windlass worktree remove {name}` throws it away.",
            shown(&worktree)
        ),
        Err(error) => format!("{error}."),
    });
}

fn shown(worktree: &Worktree) -> String {
    let branch =
        worktree.branch.as_deref().map(|branch| format!(" on the branch {branch}")).unwrap_or_default();
    plain(&format!("{}{branch}", worktree.directory))
}

fn failed(error: WorktreeError) -> Failure {
    Failure::Failed(format!("{error}."))
}

pub fn run(environment: Environment, args: WorktreeArgs) -> ExitCode {
    let directory = match output::directory(None) {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    let paths = Paths::new(&environment);
    runtime::block_on(async move {
        let engine = Engine::new(environment, paths);
        let done = async {
            let workspace = engine.workspaces().workspace(&directory).await?;
            match args.command {
                WorktreeCommand::List { format } => list(&engine, &workspace, format.get()).await,
                WorktreeCommand::Merge { name, yes } => merge(&engine, &workspace, &name, yes).await,
                WorktreeCommand::Remove { name, yes } => remove(&engine, &workspace, &name, yes).await,
            }
        };
        let code = done.await.unwrap_or_else(|failure: Failure| failure.report());
        engine.finish().await;
        code
    })
}

/// Says whether there is work in a worktree.
async fn state(engine: &Engine, worktree: &Worktree) -> &'static str {
    if !Path::new(&worktree.directory).is_dir() {
        return "directory gone";
    }
    match engine.worktrees().is_empty(worktree).await {
        Ok(true) => NOTHING,
        Ok(false) => "work in it",
        Err(_) => "unreadable",
    }
}

async fn list(engine: &Engine, workspace: &Workspace, format: Format) -> Result<ExitCode, Failure> {
    let found = engine.worktrees().list(workspace).await.map_err(failed)?;
    if found.is_empty() && format == Format::Text {
        return Ok(output::print_answer(
            "There are no worktrees of windlass here; `windlass run --worktree` makes one.",
        ));
    }
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for worktree in &found {
        let state = state(engine, worktree).await;
        values.push(json!({
            "name": worktree.name, "branch": worktree.branch, "directory": worktree.directory, "state": state,
        }));
        rows.push(format!("{}  {state}  {}", plain(&worktree.name), shown(worktree)));
    }
    Ok(output::print_answer(&match format {
        Format::Text => rows.join("\n"),
        Format::Json => format!("{:#}", Value::from(values)),
    }))
}

/// Returns the worktree that is meant.
async fn named(engine: &Engine, workspace: &Workspace, name: &str) -> Result<Worktree, Failure> {
    let found = engine.worktrees().list(workspace).await.map_err(failed)?;
    let is_meant = |it: &Worktree| it.name == name || Path::new(&it.directory) == Path::new(name);
    found.into_iter().find(is_meant).ok_or_else(|| {
        Failure::Failed(format!("There is no worktree `{name}`; `windlass worktree list` shows them."))
    })
}

/// Asks a question whose usual answer is no.
fn is_agreed(question: &str, without_terminal: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Misuse(without_terminal.to_owned()));
    }
    writeln!(io::stdout(), "{question} [y/N]").map_err(Failure::Output)?;
    let mut answer = String::new();
    let is_read = io::stdin().read_line(&mut answer).is_ok();
    Ok(is_read && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// Runs the user's git, with its hooks and settings, as if it had been typed.
async fn git(directory: &str, arguments: &[&str]) -> Result<bool, Failure> {
    let arguments: Vec<&OsStr> =
        ["-C", directory].iter().chain(arguments).map(|it| OsStr::new(*it)).collect();
    let ended = pager::run("git", &arguments).await;
    ended
        .map(|status| status.success())
        .map_err(|error| Failure::Failed(format!("git cannot be run: {error}.")))
}

async fn merge(
    engine: &Engine,
    workspace: &Workspace,
    name: &str,
    is_sure: bool,
) -> Result<ExitCode, Failure> {
    let worktree = named(engine, workspace, name).await?;
    let (directory, name) = (worktree.directory.as_str(), plain(&worktree.name));
    let here = workspace.loaded().config.worktree.display().to_string();
    if real(Path::new(directory)) == real(Path::new(&here)) {
        return Err(Failure::Misuse(format!(
            "{name} is where you are; run this in the checkout that is to get the work."
        )));
    }
    let Some(branch) = worktree.branch.as_deref().filter(|_| Path::new(directory).is_dir()) else {
        return Err(Failure::Failed(format!("{} is on no branch; make one there first.", shown(&worktree))));
    };
    let files = engine.worktrees().open_files(&worktree).await.map_err(failed)?;
    let is_unmerged = |line: &&str| UNMERGED.iter().any(|state| line.starts_with(state));
    if let Some(line) = files.lines().find(is_unmerged) {
        let reason = format!("{name} is in the middle of a merge ({}); end it there first.", plain(line));
        return Err(Failure::Failed(reason));
    }
    if let Some(line) = files.lines().find(|line| line.ends_with('/')) {
        let reason =
            format!("{} in {name} is a repository of its own, which a commit would not hold.", plain(line));
        return Err(Failure::Failed(reason));
    }
    let n_open = files.lines().count();
    if n_open > 0 {
        let first: Vec<String> = files.lines().take(MAX_NAMED).map(plain).collect();
        let more = if n_open > MAX_NAMED { ", …" } else { "" };
        let open = format!(
            "Not committed in {name}: {} ({}{more}).",
            figures::counted(n_open, "file"),
            first.join(", ")
        );
        let question = format!("{open} Commit all on {branch}?");
        let way = format!("{open} Commit there, or let --yes do it.");
        if !is_sure && !is_agreed(&question, &way)? {
            return Ok(output::print_answer("Nothing is merged."));
        }
        let message = format!("Work of {name}");
        let is_done = git(directory, &["add", "--all"]).await?
            && git(directory, &["commit", "--quiet", "--message", &message]).await?;
        if !is_done {
            return Err(Failure::Failed(format!("git did not commit in {directory}; nothing is merged.")));
        }
    }
    if !git(&here, &["merge", "--no-edit", branch]).await? {
        return Err(Failure::Failed(format!(
            "git did not merge {branch}, and said why. Behind conflicts, mend them and `git commit`, or take the merge back \
             by `git merge --abort`. The worktree {name} stays, with all its work on {branch}."
        )));
    }
    let question = format!("Merged. Remove {}?", shown(&worktree));
    let stays = format!("Merged; `windlass worktree remove {name}` removes the worktree.");
    if state(engine, &worktree).await != NOTHING {
        // Ignored files, or commits that no branch has but this one.
        return Ok(output::print_answer(&format!(
            "Merged. There is more in {}: look at it, and `windlass worktree remove {name}` removes it.",
            shown(&worktree)
        )));
    }
    let is_terminal = io::stdin().is_terminal();
    if !(is_sure || is_terminal && is_agreed(&question, "")?) {
        return Ok(output::print_answer(&stays));
    }
    let removed = engine.worktrees().remove(workspace, directory).await;
    removed.map_err(failed)?;
    Ok(output::print_answer(&format!("Merged, and removed {}.", shown(&worktree))))
}

async fn remove(
    engine: &Engine,
    workspace: &Workspace,
    name: &str,
    is_sure: bool,
) -> Result<ExitCode, Failure> {
    let worktree = named(engine, workspace, name).await?;
    let here = std::env::current_dir().map_err(Failure::Output)?;
    if real(&here).starts_with(real(Path::new(&worktree.directory))) {
        let name = plain(&worktree.name);
        return Err(Failure::Misuse(format!("{name} is where you are; run this somewhere else.")));
    }
    if engine.worktrees().is_used(&worktree).await {
        let name = plain(&worktree.name);
        return Err(Failure::Failed(format!("A session works in {name}; end it first.")));
    }
    if !is_sure && state(engine, &worktree).await != NOTHING {
        let work = format!("There is work in {}", shown(&worktree));
        if !is_agreed(&format!("{work}. Throw it away?"), &format!("{work}; --yes throws it away."))? {
            return Ok(output::print_answer("It stays."));
        }
    }
    let removed = engine.worktrees().remove(workspace, &worktree.directory).await;
    removed.map_err(failed)?;
    Ok(output::print_answer(&format!("Removed {}.", shown(&worktree))))
}
