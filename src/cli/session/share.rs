//! `windlass session share` and `unshare`: a page of a session for others, and its end.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};

use clap::Args;
use windlass_base::process::child_table;
use windlass_engine::{Engine, LEFT_OUT};

use super::hint;
use crate::cli::{output, trust::has_terminal};

#[derive(Debug, Args)]
pub struct ShareArgs {
    /// Session id, or its beginning or end.
    id: String,
    /// Do not ask: everybody with the link reads the session.
    #[arg(long)]
    yes: bool,
}

pub async fn share(engine: &Engine, args: ShareArgs) -> Result<ExitCode, String> {
    let refused = |error| format!("The session was not shared: {}", hint(&error));
    let id = super::named(engine, &args.id).await.map_err(refused)?;
    let info = engine.sessions().get(&id).await.map_err(refused)?;
    if args.yes {
        allow_unasked()?;
    }
    if info.share.is_none() && !args.yes && !is_agreed(&output::plain(&info.title))? {
        return Ok(output::print_answer("It is not shared."));
    }
    let shared = engine.shares().share(&id).await.map_err(refused)?;
    let link = shared.share.map(|share| share.url).unwrap_or_default();
    Ok(output::print_answer(&link))
}

pub async fn unshare(engine: &Engine, id: &str) -> Result<ExitCode, String> {
    let refused = |error| format!("The session is still shared: {}", hint(&error));
    let id = super::named(engine, id).await.map_err(refused)?;
    let was_shared = engine.sessions().get(&id).await.map_err(refused)?.share.is_some();
    engine.shares().unshare(&id).await.map_err(refused)?;
    let done = if was_shared { "Its page is gone." } else { "It was not shared." };
    Ok(output::print_answer(done))
}

/// Refuses a command that a session runs: a model is not to share its own work.
pub fn allow_unasked() -> Result<(), String> {
    if child_table::is_child() {
        return Err(
            "Nothing is shared: a session runs this command; share it in a terminal of your own.".to_owned()
        );
    }
    Ok(())
}

/// Says which parts of a session others read, and asks. A model's command has no terminal, so that it cannot say yes.
fn is_agreed(title: &str) -> Result<bool, String> {
    if !io::stdin().is_terminal() || !has_terminal() {
        return Err("Nothing is shared: `--yes` shares it, or run this in a terminal.".to_owned());
    }
    let left_out: Vec<String> = LEFT_OUT.iter().map(|it| format!("  - {it}")).collect();
    let question = format!(
        "Everybody who has the link reads \"{title}\": its words, the calls of tools, and the files and outputs that they \
         show, those to come as well.\nThe page lacks\n{}\nLook through the session first; other outputs are shown as \
         they are.\nShare it? [y/N]",
        left_out.join("\n")
    );
    let _ = output::print(&question);
    let mut answer = String::new();
    let is_read = io::stdin().read_line(&mut answer).is_ok();
    Ok(is_read && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}
