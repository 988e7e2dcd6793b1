//! `windlass session`: lists and deletes stored sessions.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use windlass_protocol::opencode::{id::SessionId, session::Session};

use super::{output, runtime};
use crate::{
    base::clock,
    config::{Environment, paths::Paths, worktree},
    engine::{Engine, EngineError},
};

/// Sessions that are read at a time.
const PAGE: usize = 500;
/// Characters of a title in a table.
const MAX_TITLE: usize = 60;

#[derive(Debug, Args)]
pub struct SessionArgs {
    #[command(subcommand)]
    command: SessionCommand,
}

#[derive(Debug, Subcommand)]
enum SessionCommand {
    /// List the sessions of this project, the latest first.
    #[command(alias = "ls")]
    List {
        /// Show at most this many.
        #[arg(long, short = 'n', value_name = "N")]
        max_count: Option<usize>,
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
        /// Sessions of every directory.
        #[arg(long)]
        all: bool,
    },
    /// Delete a session and everything said in it.
    Delete {
        /// Session id.
        id: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

pub fn run(environment: Environment, args: SessionArgs) -> ExitCode {
    let paths = Paths::new(&environment);
    runtime::block_on(async move {
        let engine = Engine::new(environment, paths);
        match args.command {
            SessionCommand::List { max_count, format, all } => {
                let root = match all {
                    true => None,
                    false => match std::env::current_dir() {
                        Ok(directory) => Some(project(&directory)),
                        Err(error) => {
                            return output::fail(&format!("This directory cannot be read: {error}."));
                        }
                    },
                };
                let found = find(&engine, root.as_deref(), max_count.unwrap_or(usize::MAX)).await;
                match (found, format) {
                    (Ok(sessions), Format::Json) => {
                        output::say(&format!("{:#}", sessions.iter().map(row).collect::<Value>()))
                    }
                    (Ok(sessions), Format::Table) if sessions.is_empty() => {
                        output::note("There are no sessions here.");
                        ExitCode::SUCCESS
                    }
                    (Ok(sessions), Format::Table) => output::say(&table(&sessions)),
                    (Err(error), Format::Json | Format::Table) => {
                        output::fail(&format!("The sessions cannot be listed: {error}."))
                    }
                }
            }
            SessionCommand::Delete { id } => match delete(&engine, &id).await {
                Ok(()) => output::say(&format!("Session {id} is deleted.")),
                Err(reason) => output::fail(&format!(
                    "The session was not deleted: {reason}. `windlass session list --all` shows what there is."
                )),
            },
        }
    })
}

/// The directory whose sessions belong together: the repository around `directory`, or itself.
fn project(directory: &Path) -> PathBuf {
    let worktree = worktree::worktree(directory);
    if worktree == Path::new("/") { directory.to_owned() } else { worktree }
}

async fn find(engine: &Engine, root: Option<&Path>, limit: usize) -> Result<Vec<Session>, EngineError> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = engine.list_sessions(None, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some((last.time.updated, last.id.as_str().to_owned()));
        let is_wanted =
            |session: &Session| root.is_none_or(|root| Path::new(&session.directory).starts_with(root));
        for session in page.into_iter().filter(is_wanted) {
            if found.len() == limit {
                return Ok(found);
            }
            found.push(session);
        }
    }
}

async fn delete(engine: &Engine, id: &str) -> Result<(), String> {
    let id = SessionId::parse(id).map_err(|error| error.to_string())?;
    engine.session(&id).await.map_err(|error| error.to_string())?;
    engine.delete_session(&id).await.map_err(|error| error.to_string())
}

/// A session as OpenCode's `session list --format json` shows it.
fn row(session: &Session) -> Value {
    json!({
        "id": session.id,
        "title": session.title,
        "updated": session.time.updated,
        "created": session.time.created,
        "projectId": session.project_id,
        "directory": session.directory,
    })
}

fn table(sessions: &[Session]) -> String {
    let mut rows =
        vec![["SESSION".to_owned(), "UPDATED".to_owned(), "TITLE".to_owned(), "DIRECTORY".to_owned()]];
    rows.extend(sessions.iter().map(|session| {
        let title: String = output::plain(&session.title).chars().take(MAX_TITLE).collect();
        let directory = output::plain(&session.directory);
        [session.id.to_string(), clock::iso(session.time.updated), title, directory]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2)];
    let line = |[id, updated, title, directory]: &[String; 4]| {
        format!("{id:<0$}  {updated:<1$}  {title:<2$}  {directory}", widths[0], widths[1], widths[2])
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
