//! `windlass session revert` and `unrevert`: takes the end of a stored conversation back with its files, and undoes it.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use windlass_base::text;
use windlass_engine::{Engine, EngineError, RevertTo, Reverted};
use windlass_protocol::opencode::id::{MessageId, PartId, SessionId};

use super::hint;
use crate::cli::output;

#[derive(Debug, Args)]
pub struct RevertArgs {
    /// Session id, or its beginning or end.
    id: String,
    /// First message to take back, or an answer to a prompt to take back; the last prompt if left out.
    #[arg(long, short, value_name = "ID", value_parser = MessageId::parse)]
    message: Option<MessageId>,
    /// First part of the message to take back.
    #[arg(long, short, value_name = "ID", requires = "message", value_parser = PartId::parse)]
    part: Option<PartId>,
}

pub async fn revert(engine: &Engine, args: RevertArgs) -> Result<ExitCode, String> {
    let to = match args.message {
        Some(message_id) => RevertTo::Message { message_id, part_id: args.part },
        None => RevertTo::Prompts(1),
    };
    let refused = |reason| format!("Nothing was taken back: {reason}");
    let (id, reverted) = change(engine, &args.id, to).await.map_err(|error| refused(hint(&error)))?;
    let Some(prompt) = reverted.prompt else {
        return Ok(output::print_answer("There is nothing to take back."));
    };
    let prompt = output::plain(&prompt);
    Ok(output::print_answer(&format!(
        "Taken back: \"{prompt}\" and what followed. `windlass session unrevert {id}` puts it back, the next prompt \
         removes it for good.{}",
        text::readable(&reverted.files)
    )))
}

pub async fn unrevert(engine: &Engine, id: &str) -> Result<ExitCode, String> {
    let refused = |reason| format!("Nothing was put back: {reason}");
    let changed = change(engine, id, RevertTo::Nothing).await;
    let (_, reverted) = changed.map_err(|error| refused(hint(&error)))?;
    let Some(prompt) = reverted.prompt else {
        return Ok(output::print_answer("There is nothing to put back."));
    };
    let (prompt, files) = (output::plain(&prompt), text::readable(&reverted.files));
    Ok(output::print_answer(&format!("Put back: \"{prompt}\" and what followed.{files}")))
}

async fn change(engine: &Engine, piece: &str, to: RevertTo) -> Result<(SessionId, Reverted), EngineError> {
    let id = super::named(engine, piece).await?;
    let directory = PathBuf::from(engine.sessions().get(&id).await?.directory);
    engine.sessions().open(&id, &directory, Vec::new()).await?;
    let reverted = engine.sessions().revert(&id, to).await;
    engine.sessions().close(&id).await;
    Ok((id, reverted?))
}
