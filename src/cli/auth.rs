//! `windlass auth`: stores, lists and removes provider keys.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    process::ExitCode,
};

use clap::{Args, Subcommand};

use super::output::{fail, say};
use crate::{
    config::{Environment, paths::Paths},
    engine::keys,
};

#[derive(Debug, Args)]
pub struct AuthArgs {
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Debug, Subcommand)]
enum AuthCommand {
    /// Store a provider's key; it is read from the terminal or from standard input.
    Login {
        /// Provider id, such as `anthropic` or `openai`.
        #[arg(long, short)]
        provider: Option<String>,
    },
    /// List the providers with a stored key.
    #[command(alias = "ls")]
    List,
    /// Remove a provider's stored key.
    Logout {
        /// Provider id.
        provider: String,
    },
}

pub fn run(environment: &Environment, args: AuthArgs) -> ExitCode {
    match args.command {
        AuthCommand::Login { provider } => login(environment, provider),
        AuthCommand::List => list(environment),
        AuthCommand::Logout { provider } => logout(environment, &provider),
    }
}

/// Asks for a provider and its key and stores them.
pub fn login(environment: &Environment, provider: Option<String>) -> ExitCode {
    let paths = Paths::new(environment);
    let stored = ask("Provider (anthropic, openai or the id of one in opencode.json): ", provider)
        .and_then(|provider| Ok((ask("Key: ", None)?, provider)))
        .and_then(|(key, provider)| keys::store(&paths, &provider, &key).map(|()| provider));
    match stored {
        Ok(provider) => say(&format!("The key for {provider} is stored in {}", paths.auth().display())),
        Err(error) => fail(&format!("The key was not stored: {error}.")),
    }
}

/// Shows a question where somebody can read it and takes one line.
fn ask(question: &str, given: Option<String>) -> io::Result<String> {
    let answer = match given {
        Some(given) => given,
        None => {
            if io::stdin().is_terminal() {
                let mut stderr = io::stderr();
                stderr.write_all(question.as_bytes())?;
                stderr.flush()?;
            }
            let mut line = String::new();
            io::stdin().lock().read_line(&mut line)?;
            line
        }
    };
    match answer.trim() {
        "" => Err(io::Error::other(format!(
            "nothing was given for \"{}\"",
            question.trim_end_matches([':', ' '])
        ))),
        answer => Ok(answer.to_owned()),
    }
}

fn list(environment: &Environment) -> ExitCode {
    let rows = keys::list(&Paths::new(environment), environment);
    let rows: Vec<String> = rows.iter().map(|(provider, kind)| format!("{provider}\t{kind}")).collect();
    match rows.is_empty() {
        true => say("No keys are stored. Run `windlass auth login`."),
        false => say(&rows.join("\n")),
    }
}

fn logout(environment: &Environment, provider: &str) -> ExitCode {
    match keys::remove(&Paths::new(environment), provider) {
        Ok(true) => say(&format!("The key for {provider} is removed.")),
        Ok(false) => fail(&format!("windlass has no key stored for {provider}.")),
        Err(error) => fail(&format!("The key was not removed: {error}.")),
    }
}
