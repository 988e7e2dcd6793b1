//! `windlass auth`: stores, lists and removes keys and logins of providers.

use std::{
    io::{self, IsTerminal},
    path::Path,
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{
    Engine,
    accounts::{
        keys::{self, Offer, Tried},
        logins::{self, LoginMethod, Page},
        plugin_logins::Login,
    },
};

use super::{
    options::{Format, FormatArgs},
    output::{fail, note, print_answer},
    runtime,
};

mod of_plugin;
mod organisation;
mod typed;

use typed::Echo;

#[derive(Debug, Args)]
pub struct AuthArgs {
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Debug, Subcommand)]
enum AuthCommand {
    /// Log in at a provider, or store its key, read from the terminal (hidden) or from standard input.
    Login(LoginArgs),
    /// List the providers with a stored key or login.
    #[command(alias = "ls")]
    List {
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Remove a provider's stored key or login.
    Logout {
        /// Provider id.
        provider: String,
    },
}

#[derive(Debug, Default, Args)]
pub struct LoginArgs {
    /// Provider id, or the URL of an organisation.
    target: Option<String>,
    /// Provider id, such as `anthropic` or `openai`.
    #[arg(long, short)]
    provider: Option<String>,
    /// Log in by `browser`, by a code for a browser elsewhere (`device`), by a `plugin`, or by `key`.
    #[arg(long, short, value_parser = ["browser", "device", "plugin", "key"])]
    method: Option<String>,
    /// The instance to log in at: GitHub Enterprise's domain, GitLab's host, Snowflake's account.
    #[arg(long)]
    instance: Option<String>,
    /// Store the key without trying it.
    #[arg(long)]
    no_verify: bool,
}

pub fn run(environment: Environment, args: AuthArgs) -> ExitCode {
    match args.command {
        AuthCommand::Login(args) => login(environment, args),
        AuthCommand::List { format } => list(&environment, format.get()),
        AuthCommand::Logout { provider } => logout(&environment, &provider),
    }
}

/// Asks for a provider and its key, tries the key and stores it.
pub fn login(environment: Environment, args: LoginArgs) -> ExitCode {
    runtime::block_on(async move {
        let mut signalled = std::pin::pin!(runtime::signalled());
        // Dropping the question shows typed keys again.
        tokio::select! {
            biased;
            signal = &mut signalled => ExitCode::from(128 + signal),
            stored = ask_and_store(environment, args) => match stored {
                Ok(text) => print_answer(&text),
                Err(reason) => fail(&format!("{reason}.")),
            },
        }
    })
}

async fn ask_and_store(environment: Environment, mut args: LoginArgs) -> Result<String, String> {
    let paths = Paths::new(&environment);
    let directory = std::env::current_dir().map_err(|error| error.to_string())?;
    let engine = Engine::new(environment, paths.clone());
    runtime::serve_plugins(&engine);
    if let Some(target) = args.target.take() {
        if target.starts_with("https://") || target.starts_with("http://") {
            return organisation::log_in(&engine, &paths, &directory, &target).await;
        }
        args.provider = args.provider.or(Some(target));
    }
    let not_stored = |reason: String| format!("The key was not stored: {reason}");
    let is_piped = args.provider.is_none() && !io::stdin().is_terminal();
    let method = args.method.as_deref().or(args.no_verify.then_some("key"));
    let logins = of_plugin::logins(&engine, &directory, method).await?;
    let chosen = match args.provider {
        Some(id) => id,
        None => {
            let offers =
                engine.accounts().offers(&directory).await.map_err(|error| not_stored(error.to_string()))?;
            choose(&offers, &logins).await.map_err(not_stored)?
        }
    };
    if let Some(login) = logins.iter().find(|login| login.provider == chosen) {
        let logged_in = of_plugin::log_in(&engine, &directory, login).await;
        engine.accounts().close_plugin_logins(&directory).await;
        let failed = |reason| format!("The login at {chosen} failed: {reason}");
        let file = paths.auth();
        return logged_in
            .map_err(failed)
            .map(|()| format!("You are logged in at {chosen}; the login is stored in {}.", file.display()));
    }
    engine.accounts().close_plugin_logins(&directory).await;
    if let Some(login_method) = choose_method(&chosen, method).await? {
        return log_in_at(&engine, &paths, &directory, &login_method, args.instance.as_deref()).await;
    }
    let offer =
        engine.accounts().offer(&directory, &chosen).await.map_err(|error| not_stored(error.to_string()))?;
    let Some(offer) = offer else {
        if is_piped {
            // It may be the key itself.
            return Err(not_stored(
                "the first line of standard input names no known provider; say which with `--provider ID` and pipe \
                 the key alone"
                    .to_owned(),
            ));
        }
        let reason = engine.accounts().unknown_provider(&directory, &chosen).await;
        return Err(not_stored(reason.unwrap_or_else(|error| error.to_string())));
    };
    store_key(&engine, &paths, &directory, &offer, args.no_verify).await.map_err(not_stored)
}

/// Asks for a key, tries it and stores it.
async fn store_key(
    engine: &Engine,
    paths: &Paths,
    directory: &Path,
    offer: &Offer,
    no_verify: bool,
) -> Result<String, String> {
    if io::stdin().is_terminal() {
        note(&format!("A key for {} gives access to {}.", offer.name, gives(offer)));
    }
    let key = typed::line("Key (not shown): ", Echo::Hidden).await.map_err(|error| error.to_string())?;
    // Nothing else can be sent in a header.
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a key has no white space and no letters beyond ASCII; copy the key alone".to_owned());
    }
    let checked = if no_verify {
        "Not checked (`--no-verify`).".to_owned()
    } else {
        tried(engine, directory, offer, &key).await?
    };
    keys::store(paths, &offer.id, &key).map_err(|error| error.to_string())?;
    let file = paths.auth();
    Ok(format!(
        "The key for {} is stored in {}.\n{checked}\nIt gives access to {}.",
        offer.id,
        file.display(),
        gives(offer)
    ))
}

/// Lets the user choose between the logins of a provider and a key; returns `None` for a key.
async fn choose_method(provider: &str, method: Option<&str>) -> Result<Option<LoginMethod>, String> {
    let methods = logins::methods(provider);
    match method {
        Some("key") => return Ok(None),
        Some(method) => {
            let login_method = methods.iter().find(|it| it.id == method).cloned();
            return login_method.map(Some).ok_or_else(|| {
                let others: Vec<&str> = methods.iter().map(|it| it.id).chain(["key"]).collect();
                format!(
                    "{provider} has no login by `{method}`; use `--method {}`",
                    others.join("` or `--method ")
                )
            });
        }
        None if methods.is_empty() || !io::stdin().is_terminal() => return Ok(None),
        None => {}
    }
    let titles = methods.iter().map(|it| it.title).chain(["An API key"]);
    let rows = titles.enumerate().map(|(idx, title)| format!("{:>3}. {title}", idx + 1));
    note(&rows.collect::<Vec<_>>().join("\n"));
    let line = typed::line("Log in by (number): ", Echo::Shown).await.map_err(|error| error.to_string())?;
    match line.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) {
        Some(idx) if idx < methods.len() => Ok(methods.into_iter().nth(idx)),
        Some(idx) if idx == methods.len() => Ok(None),
        Some(_) | None => Err(format!("`{line}` is none of these numbers")),
    }
}

/// Logs in by browser or code.
async fn log_in_at(
    engine: &Engine,
    paths: &Paths,
    directory: &Path,
    login_method: &LoginMethod,
    instance: Option<&str>,
) -> Result<String, String> {
    let show = |page: &Page| match &page.code {
        Some(code) => note(&format!("Open {} and type the code {code} there.", page.url)),
        None => note(&format!("Open {} in a browser on this machine.", page.url)),
    };
    let failed = |reason: String| format!("The login at {} failed: {reason}", login_method.provider);
    engine.accounts().log_in_at(login_method, instance, &show).await.map_err(failed)?;
    let offer = engine
        .accounts()
        .usable(directory, login_method.provider)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let file = paths.auth();
    Ok(format!(
        "You are logged in at {}; the login is stored in {}.\nIt gives access to {}.",
        offer.name,
        file.display(),
        gives(&offer)
    ))
}

/// Has the provider look at the key; a refused one is an error.
async fn tried(engine: &Engine, directory: &Path, offer: &Offer, key: &str) -> Result<String, String> {
    let tried =
        engine.accounts().try_key(directory, &offer.id, key).await.map_err(|error| error.to_string())?;
    match tried {
        Tried::Accepted => Ok(format!("{} accepted the key.", offer.name)),
        Tried::Refused(reason) => Err(format!(
            "{} rejected the key ({reason}); check that the whole key was copied, or use `--no-verify`",
            offer.name
        )),
        Tried::Unknown(reason) => Ok(format!("Not checked: {}.", reason.trim_end_matches('.'))),
    }
}

/// Lets the user choose a provider by number or id; behind the known ones come those that only a plugin brings.
async fn choose(offers: &[Offer], logins: &[Login]) -> Result<String, String> {
    let is_known = |login: &&Login| offers.iter().any(|offer| offer.id == login.provider);
    let brought: Vec<&Login> = logins.iter().filter(|login| !is_known(login)).collect();
    if io::stdin().is_terminal() {
        let known = offers.iter().map(|offer| {
            let has_key = if offer.has_key { ", has a key" } else { "" };
            format!("{} ({}; {}{has_key})", offer.id, offer.name, gives(offer))
        });
        let brought = brought.iter().map(|login| format!("{} (login by a plugin)", login.provider));
        let rows = known.chain(brought).enumerate().map(|(idx, row)| format!("{:>3}. {row}", idx + 1));
        note(&rows.collect::<Vec<_>>().join("\n"));
    }
    let line = typed::line("Provider (number or id): ", Echo::Shown).await;
    let line = line.map_err(|error| error.to_string())?;
    let ids = offers.iter().map(|offer| &offer.id);
    let mut ids = ids.chain(brought.iter().map(|login| &login.provider));
    let by_number = line.parse::<usize>().ok().and_then(|number| ids.nth(number.checked_sub(1)?));
    Ok(by_number.cloned().unwrap_or(line))
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

fn list(environment: &Environment, format: Format) -> ExitCode {
    let (rows, warnings) = keys::list(&Paths::new(environment), environment);
    warnings.iter().for_each(|warning| note(&warning.to_string()));
    if format == Format::Json {
        let row = |(provider, kind): &(String, &str)| json!({ "provider": provider, "kind": kind });
        return print_answer(&format!("{:#}", rows.iter().map(row).collect::<Value>()));
    }
    let rows: Vec<String> = rows.iter().map(|(provider, kind)| format!("{provider}\t{kind}")).collect();
    if rows.is_empty() {
        print_answer("No keys or logins are stored. Run `windlass auth login`.")
    } else {
        print_answer(&rows.join("\n"))
    }
}

fn logout(environment: &Environment, provider: &str) -> ExitCode {
    match keys::remove(&Paths::new(environment), provider) {
        Ok(true) => print_answer(&format!("The key or login for {provider} is removed.")),
        Ok(false) => fail(&format!("windlass has no key or login stored for {provider}.")),
        Err(error) => fail(&format!("The key or login was not removed: {error}.")),
    }
}
