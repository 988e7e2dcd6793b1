//! Work in a git worktree of its own (`--worktree`), and `windlass worktree`: the worktrees that were made for it.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::{Args, Subcommand};
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{Engine, Workspace};
use windlass_files::{Projects, WorktreeError};
use windlass_protocol::opencode::project::Worktree;

use super::{
    output::{self, plain},
    run::{args::TalkArgs, failure::Failure, open},
    runtime,
};

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
    List,
    /// Throw a worktree away, with its branch.
    Remove {
        /// Its name, or its directory.
        name: String,
        /// Do not ask, even if there is work in it.
        #[arg(long)]
        yes: bool,
    },
}

/// A worktree that a run or a chat works in.
pub struct Entered {
    engine: Engine,
    workspace: Arc<Workspace>,
    worktree: Worktree,
    /// The files that a new one had at its beginning; one that was there before stays.
    before: Option<String>,
}

/// Makes the worktree that the options ask for, or returns to it; the work is there from now on.
pub async fn enter(engine: &Engine, talk: &mut TalkArgs) -> Result<Option<Entered>, Failure> {
    let Some(name) = talk.worktree.take() else { return Ok(None) };
    let directory = open::directory(talk)?;
    let workspace = engine.workspaces().workspace(&directory).await?;
    let name = Some(name).filter(|name| !name.trim().is_empty());
    let entered = Projects::of(engine).enter_worktree(&workspace, name).await;
    let failed = |error: WorktreeError| Failure::Failed(format!("--worktree: {error}."));
    let (worktree, is_new) = entered.map_err(failed)?;
    let before = match is_new {
        true => Some(Projects::of(engine).worktree_files(&workspace, &worktree).await.map_err(failed)?),
        false => None,
    };
    talk.dir = Some(PathBuf::from(&worktree.directory));
    output::note(&format!("Working in {}.", shown(&worktree)));
    Ok(Some(Entered { engine: engine.clone(), workspace, worktree, before }))
}

impl Entered {
    /// Removes a new worktree where nothing was changed, and says where the work is otherwise. Nothing may work there any
    /// more.
    pub async fn leave(self) {
        let projects = Projects::of(&self.engine);
        let is_unchanged = match &self.before {
            Some(before) => projects.is_unchanged(&self.workspace, &self.worktree, before).await,
            None => Ok(false),
        };
        let left = match is_unchanged {
            Ok(true) => {
                projects.remove_worktree(&self.workspace, &self.worktree.directory).await.map(|()| true)
            }
            Ok(false) => Ok(false),
            Err(error) => Err(error),
        };
        let name = plain(&self.worktree.name);
        output::note(&match left {
            Ok(true) => format!("Nothing was changed, so the worktree {name} is gone again."),
            Ok(false) => format!(
                "The work is in {}. Commit it there and merge the branch, go on with `--worktree={name}`, or throw it away \
                 by `windlass worktree remove {name}`.",
                shown(&self.worktree)
            ),
            Err(error) => format!("{error}."),
        });
    }
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
                WorktreeCommand::List => list(&engine, &workspace).await,
                WorktreeCommand::Remove { name, yes } => remove(&engine, &workspace, &name, yes).await,
            }
        };
        let code = done.await.unwrap_or_else(|failure: Failure| failure.report());
        engine.finish().await;
        code
    })
}

/// Says whether there is work in a worktree.
async fn state(engine: &Engine, workspace: &Workspace, worktree: &Worktree) -> &'static str {
    if !Path::new(&worktree.directory).is_dir() {
        return "directory gone";
    }
    match Projects::of(engine).is_unchanged(workspace, worktree, "").await {
        Ok(true) => NOTHING,
        Ok(false) => "work in it",
        Err(_) => "unreadable",
    }
}

async fn list(engine: &Engine, workspace: &Workspace) -> Result<ExitCode, Failure> {
    let found = Projects::of(engine).task_worktrees(workspace).await.map_err(failed)?;
    if found.is_empty() {
        return Ok(output::print_answer(
            "There are no worktrees of windlass here; `windlass run --worktree` makes one.",
        ));
    }
    let mut rows = Vec::new();
    for worktree in &found {
        let state = state(engine, workspace, worktree).await;
        rows.push(format!("{}  {state}  {}", plain(&worktree.name), shown(worktree)));
    }
    Ok(output::print_answer(&rows.join("\n")))
}

async fn remove(
    engine: &Engine,
    workspace: &Workspace,
    name: &str,
    is_sure: bool,
) -> Result<ExitCode, Failure> {
    let found = Projects::of(engine).task_worktrees(workspace).await.map_err(failed)?;
    let is_meant = |it: &&Worktree| it.name == name || Path::new(&it.directory) == Path::new(name);
    let Some(worktree) = found.iter().find(is_meant) else {
        let unknown = format!("There is no worktree `{name}`; `windlass worktree list` shows them.");
        return Err(Failure::Failed(unknown));
    };
    if !is_sure && state(engine, workspace, worktree).await != NOTHING {
        let question = format!("There is work in {}. Throw it away? [y/N]", shown(worktree));
        if !io::stdin().is_terminal() {
            return Err(Failure::Misuse(format!(
                "There is work in {}; --yes throws it away.",
                shown(worktree)
            )));
        }
        if let Err(code) = output::print(&question) {
            return Ok(code);
        }
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        if read.is_err() || !answer.trim().eq_ignore_ascii_case("y") {
            return Ok(output::print_answer("It stays."));
        }
    }
    let removed = Projects::of(engine).remove_worktree(workspace, &worktree.directory).await;
    removed.map_err(failed)?;
    Ok(output::print_answer(&format!("Removed {}.", shown(worktree))))
}
