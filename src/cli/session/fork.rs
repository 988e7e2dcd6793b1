//! `windlass session fork`: copies a stored conversation, or its beginning, into a new session.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use windlass_engine::Engine;
use windlass_protocol::opencode::id::MessageId;

use super::hint;
use crate::cli::output;

#[derive(Debug, Args)]
pub struct ForkArgs {
    /// Session id, or its beginning or end.
    id: String,
    /// First message that is not copied.
    #[arg(long, short, value_name = "ID", value_parser = MessageId::parse)]
    message: Option<MessageId>,
}

pub async fn run(engine: &Engine, args: ForkArgs) -> Result<ExitCode, String> {
    let forked = async {
        let id = super::named(engine, &args.id).await?;
        let directory = PathBuf::from(engine.sessions().get(&id).await?.directory);
        let workspace = engine.workspaces().workspace(&directory).await?;
        engine.sessions().fork(&workspace, &id, args.message.as_ref()).await
    };
    let forked = forked.await.map_err(|error| format!("The session was not copied: {}", hint(&error)))?;
    Ok(output::print_answer(&format!("Session {} is called {}.", forked.id, output::plain(&forked.title))))
}
