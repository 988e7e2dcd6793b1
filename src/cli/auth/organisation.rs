//! Login at an organisation that has its configuration behind a URL.

use std::{
    io::{self, IsTerminal},
    path::Path,
};

use windlass_core::config::paths::Paths;
use windlass_engine::{Engine, accounts::logins::Organisation};

use super::typed::{self, Echo};
use crate::cli::output::note;

/// Has the organisation's command print a token, or takes one from a pipe, and stores it.
pub async fn log_in(engine: &Engine, paths: &Paths, directory: &Path, url: &str) -> Result<String, String> {
    let failed = |reason: String| format!("The login at {url} failed: {reason}");
    let organisation = engine.accounts().organisation(url).await.map_err(failed)?;
    let token = token(engine, directory, &organisation).await.map_err(failed)?;
    let Organisation { url: id, variable, .. } = organisation.clone();
    engine.accounts().store_organisation(organisation, token).await.map_err(failed)?;
    let file = paths.auth();
    Ok(format!(
        "You are logged in at {id}; the token for {variable} is stored in {}.\nIts configuration is used from now on.",
        file.display()
    ))
}

async fn token(engine: &Engine, directory: &Path, organisation: &Organisation) -> Result<String, String> {
    if !io::stdin().is_terminal() {
        let line = typed::line("Token: ", Echo::Hidden).await;
        return line.map_err(|error| error.to_string());
    }
    // A server that is not known yet says which program runs here.
    note(&format!("To log in, {} wants this command to be run here:", organisation.url));
    let words: Vec<String> = organisation.command.iter().map(|word| format!("{word:?}")).collect();
    note(&format!("  {}", words.join(" ")));
    let answer = typed::line("Run it? (y/n): ", Echo::Shown).await.map_err(|error| error.to_string())?;
    if !matches!(answer.as_str(), "y" | "Y" | "yes") {
        return Err("the command was not run; pipe the token to `windlass auth login URL` instead".to_owned());
    }
    engine.accounts().organisation_token(organisation, directory).await
}
