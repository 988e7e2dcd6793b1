//! `windlass auth`: stores, lists and removes provider keys.

use std::{
    io::{self, IsTerminal},
    path::Path,
    process::ExitCode,
};

use clap::{Args, Subcommand};

use super::{
    output::{fail, note, print_answer},
    runtime,
};
use crate::{
    config::{Environment, paths::Paths},
    engine::{
        Engine,
        keys::{self, Offer, Tried},
    },
};

mod typed;

use typed::Echo;

#[derive(Debug, Args)]
pub struct AuthArgs {
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Debug, Subcommand)]
enum AuthCommand {
    /// Store a provider's key, read from the terminal (hidden) or from standard input.
    Login(LoginArgs),
    /// List the providers with a stored key.
    #[command(alias = "ls")]
    List,
    /// Remove a provider's stored key.
    Logout {
        /// Provider id.
        provider: String,
    },
}

#[derive(Debug, Default, Args)]
pub struct LoginArgs {
    /// Provider id, such as `anthropic` or `openai`.
    #[arg(long, short)]
    provider: Option<String>,
    /// Store the key without trying it.
    #[arg(long)]
    no_verify: bool,
}

pub fn run(environment: Environment, args: AuthArgs) -> ExitCode {
    match args.command {
        AuthCommand::Login(args) => login(environment, args),
        AuthCommand::List => list(&environment),
        AuthCommand::Logout { provider } => logout(&environment, &provider),
    }
}

/// Asks for a provider and its key, tries the key and stores it.
pub fn login(environment: Environment, args: LoginArgs) -> ExitCode {
    runtime::block_on(async move {
        let mut signalled = std::pin::pin!(runtime::signalled());
        // Dropping the question shows what is typed again.
        tokio::select! {
            biased;
            signal = &mut signalled => ExitCode::from(128 + signal),
            stored = ask_and_store(environment, args) => match stored {
                Ok(text) => print_answer(&text),
                Err(reason) => fail(&format!("The key was not stored: {reason}.")),
            },
        }
    })
}

async fn ask_and_store(environment: Environment, args: LoginArgs) -> Result<String, String> {
    let paths = Paths::new(&environment);
    let directory = std::env::current_dir().map_err(|error| error.to_string())?;
    let engine = Engine::new(environment, paths.clone());
    let is_piped = args.provider.is_none() && !io::stdin().is_terminal();
    let chosen = match args.provider {
        Some(id) => id,
        None => {
            let offers = engine.key_offers(&directory).await.map_err(|error| error.to_string())?;
            choose(&offers).await?
        }
    };
    let offer = engine.key_offer(&directory, &chosen).await.map_err(|error| error.to_string())?;
    let Some(offer) = offer else {
        if is_piped {
            // It may be the key itself.
            return Err("the first line of standard input names no known provider; \
                        say which with `--provider ID` and pipe the key alone"
                .to_owned());
        }
        let reason = engine.unknown_provider(&directory, &chosen).await;
        return Err(reason.map_err(|error| error.to_string())?);
    };
    if io::stdin().is_terminal() {
        note(&format!("A key for {} gives access to {}.", offer.name, gives(&offer)));
    }
    let key = typed::line("Key (not shown): ", Echo::Hidden).await.map_err(|error| error.to_string())?;
    // Nothing else can be sent in a header.
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a key has no white space and no letters beyond ASCII; copy the key alone".to_owned());
    }
    let checked = if args.no_verify {
        "Not checked (`--no-verify`).".to_owned()
    } else {
        tried(&engine, &directory, &offer, &key).await?
    };
    keys::store(&paths, &offer.id, &key).map_err(|error| error.to_string())?;
    let file = paths.auth();
    Ok(format!(
        "The key for {} is stored in {}.\n{checked}\nIt gives access to {}.",
        offer.id,
        file.display(),
        gives(&offer)
    ))
}

/// Has the provider look at the key; a refused one is an error.
async fn tried(engine: &Engine, directory: &Path, offer: &Offer, key: &str) -> Result<String, String> {
    let tried = engine.try_key(directory, &offer.id, key).await.map_err(|error| error.to_string())?;
    match tried {
        Tried::Accepted => Ok(format!("{} accepted the key.", offer.name)),
        Tried::Refused(reason) => Err(format!(
            "{} rejected the key ({reason}); check that the whole key was copied, or use `--no-verify`",
            offer.name
        )),
        Tried::Unknown(reason) => Ok(format!("Not checked: {}.", reason.trim_end_matches('.'))),
    }
}

/// Lets the user choose a provider by number or id.
async fn choose(offers: &[Offer]) -> Result<String, String> {
    if io::stdin().is_terminal() {
        let rows = offers.iter().enumerate().map(|(idx, offer)| {
            let has_key = if offer.has_key { ", has a key" } else { "" };
            format!("{:>3}. {} ({}; {}{has_key})", idx + 1, offer.id, offer.name, gives(offer))
        });
        note(&rows.collect::<Vec<_>>().join("\n"));
    }
    let line = typed::line("Provider (number or id): ", Echo::Shown).await;
    let line = line.map_err(|error| error.to_string())?;
    let by_number = line.parse::<usize>().ok().and_then(|number| offers.get(number.checked_sub(1)?));
    Ok(by_number.map_or(line, |offer| offer.id.clone()))
}

/// Returns the models that a key gives.
fn gives(offer: &Offer) -> String {
    match (offer.n_models, &offer.best) {
        (1, Some(best)) => format!("1 model, {best}"),
        (n_models, Some(best)) => format!("{n_models} models, such as {best}"),
        (_, None) => {
            format!("no models yet; list them under `provider.{}.models` in opencode.json", offer.id)
        }
    }
}

fn list(environment: &Environment) -> ExitCode {
    let (rows, warnings) = keys::list(&Paths::new(environment), environment);
    warnings.iter().for_each(|warning| note(&warning.to_string()));
    let rows: Vec<String> = rows.iter().map(|(provider, kind)| format!("{provider}\t{kind}")).collect();
    if rows.is_empty() {
        print_answer("No keys are stored. Run `windlass auth login`.")
    } else {
        print_answer(&rows.join("\n"))
    }
}

fn logout(environment: &Environment, provider: &str) -> ExitCode {
    match keys::remove(&Paths::new(environment), provider) {
        Ok(true) => print_answer(&format!("The key for {provider} is removed.")),
        Ok(false) => fail(&format!("windlass has no key stored for {provider}.")),
        Err(error) => fail(&format!("The key was not removed: {error}.")),
    }
}
