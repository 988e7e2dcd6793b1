//! `windlass session`: lists, shows, searches, exports, shares, renames, reverts, copies, deletes and prunes stored sessions.

use std::{collections::HashMap, io::IsTerminal, path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;
use windlass_base::{clock, figures};
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{Engine, EngineError, EngineErrorKind, fleet::Owner};
use windlass_protocol::opencode::{
    id::SessionId,
    session::{ArchiveFilter, Session},
};

use super::{
    options::{Format, FormatArgs},
    output, runtime,
    view::look::Look,
};

pub mod export;
mod fork;
mod prune;
mod revert;
mod search;
pub mod share;
mod show;

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
        #[command(flatten)]
        format: FormatArgs,
        /// Sessions of every directory.
        #[arg(long)]
        all: bool,
    },
    /// Show a session's messages as `windlass run` shows them.
    Show(show::ShowArgs),
    /// Write a session as Markdown, as a page of HTML, or as OpenCode's JSON.
    Export(export::ExportArgs),
    /// Find sessions by the words in them.
    Search(search::SearchArgs),
    /// Give a session another title.
    Rename {
        /// Session id, or its beginning or end.
        id: String,
        /// The title.
        #[arg(required = true)]
        title: Vec<String>,
    },
    /// Take the last prompt back, or everything from a message on, with the files that it changed.
    Revert(revert::RevertArgs),
    /// Put back the messages that were taken back and no prompt has removed yet.
    Unrevert {
        /// Session id, or its beginning or end.
        id: String,
    },
    /// Copy a session, or its beginning, into a new one.
    Fork(fork::ForkArgs),
    /// Write a page of a session for others, which follows it, and print its link.
    Share(share::ShareArgs),
    /// Take the page of a session back.
    Unshare {
        /// Session id, or its beginning or end.
        id: String,
    },
    /// Delete a session and its messages.
    Delete {
        /// Session id.
        id: String,
    },
    /// Delete sessions that are old, or all but the latest.
    Prune(prune::PruneArgs),
}

pub fn run(environment: Environment, args: SessionArgs) -> ExitCode {
    let look = Look::new(&environment, std::io::stdout().is_terminal(), PathBuf::new());
    let pager = show::Pager::new(&environment);
    let paths = Paths::new(&environment);
    runtime::block_on(async move {
        let engine = Engine::new(environment, paths);
        let ended = match args.command {
            SessionCommand::List { max_count, format, all } => {
                list(&engine, max_count, format.get(), all).await
            }
            SessionCommand::Show(args) => show::run(&engine, args, look, pager).await,
            SessionCommand::Export(args) => export::run(&engine, args).await,
            SessionCommand::Search(args) => search::run(&engine, args, &look).await,
            SessionCommand::Rename { id, title } => rename(&engine, &id, &title.join(" ")).await,
            SessionCommand::Revert(args) => revert::revert(&engine, args).await,
            SessionCommand::Unrevert { id } => revert::unrevert(&engine, &id).await,
            SessionCommand::Fork(args) => fork::run(&engine, args).await,
            SessionCommand::Share(args) => share::share(&engine, args).await,
            SessionCommand::Unshare { id } => share::unshare(&engine, &id).await,
            SessionCommand::Delete { id } => delete(&engine, &id).await,
            SessionCommand::Prune(args) => prune::run(&engine, args).await,
        };
        engine.fleet().end(Duration::ZERO).await;
        ended.unwrap_or_else(|reason| output::fail(&reason))
    })
}

/// Runs `windlass export`, as OpenCode calls it.
pub fn export_json(environment: Environment, args: export::ExportJsonArgs) -> ExitCode {
    let paths = Paths::new(&environment);
    runtime::block_on(async move {
        let engine = Engine::new(environment, paths);
        let ended = export::run_json(&engine, args).await;
        engine.fleet().end(Duration::ZERO).await;
        ended.unwrap_or_else(|reason| output::fail(&reason))
    })
}

async fn list(
    engine: &Engine,
    max_count: Option<usize>,
    format: Format,
    all: bool,
) -> Result<ExitCode, String> {
    let sessions = meant(engine, all, max_count.unwrap_or(usize::MAX)).await;
    let sessions = sessions.map_err(|error| format!("The sessions cannot be listed: {error}."))?;
    let owners = engine.fleet().owners().await.unwrap_or_else(|error| {
        output::note(&format!("The sessions of other machines are not listed: {error}."));
        HashMap::new()
    });
    Ok(match format {
        Format::Json => {
            let rows = sessions.iter().map(|session| row(session, owners.get(session.id.as_str())));
            output::print_answer(&format!("{:#}", rows.collect::<Value>()))
        }
        Format::Text if sessions.is_empty() => {
            let n_left =
                engine.sessions().left_in_opencode(&here().map_err(|error| format!("{error}."))?).await;
            output::note(&match n_left {
                0 => "There are no sessions here.".to_owned(),
                _ => format!(
                    "There are no sessions here. OpenCode has {} of this project: `windlass import --opencode` brings \
                     them in.",
                    figures::counted(n_left, "session")
                ),
            });
            ExitCode::SUCCESS
        }
        Format::Text => output::print_answer(&table(&sessions, &owners, clock::short)),
    })
}

async fn rename(engine: &Engine, id: &str, title: &str) -> Result<ExitCode, String> {
    let refused = |reason: String| format!("The session was not renamed: {reason}");
    let id = named(engine, id).await.map_err(|error| refused(hint(&error)))?;
    let session = engine.sessions().rename(&id, title).await.map_err(|error| refused(format!("{error}.")))?;
    Ok(output::print_answer(&format!("Session {} is called {}.", session.id, output::plain(&session.title))))
}

async fn delete(engine: &Engine, id: &str) -> Result<ExitCode, String> {
    let deleted = async {
        // A session to delete is named in full: a piece of an id may be another session's tomorrow.
        let id = SessionId::parse(id)
            .map_err(|error| EngineError::new(EngineErrorKind::InvalidInput, error.to_string()))?;
        engine.sessions().get(&id).await?;
        engine.sessions().delete(&id).await?;
        Ok(id)
    };
    let id = deleted.await.map_err(|error| format!("The session was not deleted: {}", hint(&error)))?;
    Ok(output::print_answer(&format!("Session {id} is deleted.")))
}

/// Returns a reason with the way out.
fn hint(error: &EngineError) -> String {
    match error.kind {
        EngineErrorKind::InvalidInput | EngineErrorKind::SessionNotFound(_) => {
            format!("{error}. `windlass session list --all` shows what there is.")
        }
        EngineErrorKind::MessageNotFound => {
            format!("{error}. `windlass session show ID --ids` shows them.")
        }
        EngineErrorKind::SessionExists
        | EngineErrorKind::NoTurn
        | EngineErrorKind::SessionBusy
        | EngineErrorKind::OtherNode
        | EngineErrorKind::AuthRequired
        | EngineErrorKind::ModelUnusable
        | EngineErrorKind::StructuredOutput { .. }
        | EngineErrorKind::ContextOverflow
        | EngineErrorKind::Provider
        | EngineErrorKind::Store
        | EngineErrorKind::Internal => format!("{error}."),
    }
}

/// Returns the sessions that are meant: of this project, or of every directory.
async fn meant(engine: &Engine, all: bool, limit: usize) -> Result<Vec<Session>, EngineError> {
    if !all {
        return engine.sessions().of_project(&here()?, ArchiveFilter::Include, limit).await;
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = engine.sessions().list(None, ArchiveFilter::Include, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some((last.time.updated, last.id.as_str().to_owned()));
        found.extend(page);
        if found.len() >= limit {
            found.truncate(limit);
            return Ok(found);
        }
    }
}

/// Returns the directory of the sessions that are meant, or `None` for those of every directory.
fn root(engine: &Engine, all: bool) -> Result<Option<PathBuf>, EngineError> {
    if all { Ok(None) } else { Ok(Some(engine.workspaces().project_root(&here()?))) }
}

/// Returns the directory in which the command was typed.
fn here() -> Result<PathBuf, EngineError> {
    let unread = |error| format!("this directory cannot be read: {error}");
    std::env::current_dir().map_err(|error| EngineError::new(EngineErrorKind::InvalidInput, unread(error)))
}

/// Returns the session that is named.
async fn named(engine: &Engine, piece: &str) -> Result<SessionId, EngineError> {
    engine.sessions().find(piece, &here()?).await
}

/// Returns a session as OpenCode's `session list --format json` shows it.
fn row(session: &Session, owner: Option<&Owner>) -> Value {
    let mut row = json!({
        "id": session.id,
        "title": session.title,
        "updated": session.time.updated,
        "created": session.time.created,
        "projectId": session.project_id,
        "directory": session.directory,
    });
    if let Some(owner) = owner {
        row["node"] = json!({"name": owner.name, "address": owner.address, "alive": owner.is_alive});
    }
    row
}

fn table(sessions: &[Session], owners: &HashMap<String, Owner>, time: impl Fn(i64) -> String) -> String {
    let mut rows =
        vec![["SESSION".to_owned(), "UPDATED".to_owned(), "TITLE".to_owned(), "DIRECTORY".to_owned()]];
    rows.extend(sessions.iter().map(|session| {
        let title: String = output::plain(&session.title).chars().take(MAX_TITLE).collect();
        let mut directory = output::plain(&session.directory);
        if let Some(owner) = owners.get(session.id.as_str()) {
            let state = if owner.is_alive { "open at" } else { "was open at" };
            directory = format!("{directory}  ({state} {})", output::plain(&owner.name));
        }
        [session.id.to_string(), time(session.time.updated), title, directory]
    }));
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2)];
    let line = |[id, updated, title, directory]: &[String; 4]| {
        // The width of a text is not the number of its characters.
        let blanks = " ".repeat(widths[2] - title.width());
        format!("{id:<0$}  {updated:<1$}  {title}{blanks}  {directory}", widths[0], widths[1])
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
