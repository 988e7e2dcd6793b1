//! `windlass login`, `logout` and `whoami`: this user's tokens at servers with accounts.

use std::{io, path::Path, process::ExitCode, time::Duration};

use clap::Args;
use reqwest::{StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_base::process::child_table;
use windlass_core::config::{Environment, paths::Paths};

use super::{
    daemon::http::{CredentialArgs, Http},
    output,
    run::failure::Failure,
    runtime,
    servers::{Login, Servers, origin},
};

/// Time between two questions whether a person has confirmed.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub struct LoginArgs {
    /// Address of the server, such as https://windlass.example.com.
    url: Option<String>,
    /// Name of the token, else the name of this machine.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Read a token from standard input, in place of asking for one.
    #[arg(long)]
    with_token: bool,
}

#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Address of the server; the only one where you are logged in at a single one.
    url: Option<String>,
}

/// The beginning of a login (RFC 8628).
#[derive(Debug, Deserialize)]
struct Begun {
    device_code: String,
    user_code: String,
    verification_uri_complete: String,
    expires_in: u64,
}

pub fn run(environment: Environment, args: LoginArgs) -> ExitCode {
    if child_table::is_child() {
        return output::fail("A session runs this command: log in from a terminal of your own.");
    }
    let Some(url) = args.url.clone() else {
        return output::misuse(
            "Give the address of a server with accounts; `windlass auth login` logs in at a provider of models.",
        );
    };
    runtime::block_on(async move {
        match log_in(&environment, &url, args).await {
            Ok(words) => output::print_answer(&words),
            Err(reason) => output::fail(&reason),
        }
    })
}

async fn log_in(environment: &Environment, url: &str, args: LoginArgs) -> Result<String, String> {
    let url = address(url)?;
    let token = if args.with_token {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map_err(|error| format!("No token can be read: {error}."))?;
        line.trim().to_owned()
    } else {
        asked(environment, &url, args.name).await?
    };
    let name = name_of(environment, &url, &token).await?;
    let file = Paths::new(environment).servers();
    let mut servers = Servers::read(&file)?;
    servers.0.insert(origin(&url), Login { token });
    servers.write(&file)?;
    Ok(format!("Logged in at {} as {name}. `windlass attach {0}` talks there.", origin(&url)))
}

fn address(url: &str) -> Result<Url, String> {
    let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    parsed.ok_or_else(|| {
        format!("`{url}` is no server's address: give one such as https://windlass.example.com.")
    })
}

/// Has a person let this program in by a browser, and returns the token.
async fn asked(environment: &Environment, url: &Url, name: Option<String>) -> Result<String, String> {
    let host = || nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let name = name.or_else(host).unwrap_or_else(|| "windlass".to_owned());
    let http = client(environment, url, None)?;
    let begun: Begun = http.post("/account/device", &json!({ "name": name })).await?;
    output::note(&format!(
        "Open {} in a browser and confirm the code {}.",
        output::plain(&begun.verification_uri_complete),
        output::plain(&begun.user_code)
    ));
    let waiting = async {
        loop {
            tokio::time::sleep(PERIOD).await;
            let request =
                http.post_request("/account/device/token", &json!({"device_code": begun.device_code}));
            let response =
                request.send().await.map_err(|error| format!("{} does not answer: {error}.", origin(url)))?;
            let status = response.status();
            let answer: Value =
                serde_json::from_slice(&response.bytes().await.unwrap_or_default()).unwrap_or_default();
            if let (StatusCode::OK, Some(token)) = (status, answer["access_token"].as_str()) {
                return Ok(token.to_owned());
            }
            match answer["error"].as_str() {
                Some("authorization_pending" | "slow_down") => {}
                Some("access_denied") => return Err("The login was refused in the browser.".to_owned()),
                Some(_) | None => return Err("The code is too old; run it again.".to_owned()),
            }
        }
    };
    let limit = Duration::from_secs(begun.expires_in);
    tokio::time::timeout(limit, waiting)
        .await
        .unwrap_or_else(|_| Err("Nobody has confirmed the code.".to_owned()))
}

fn client(environment: &Environment, url: &Url, token: Option<&str>) -> Result<Http, String> {
    let password = Some(token.unwrap_or_default().to_owned());
    let credential = CredentialArgs { password, username: None };
    Http::new(environment, url.as_str(), &credential, Path::new("/")).map_err(|failure| match failure {
        Failure::Misuse(reason) | Failure::Failed(reason) => reason,
        Failure::Output(error) => error.to_string(),
    })
}

/// Returns the name of a token's account.
async fn name_of(environment: &Environment, url: &Url, token: &str) -> Result<String, String> {
    let me: Value = client(environment, url, Some(token))?.get("/account/me").await?;
    me["account"]["name"]
        .as_str()
        .map(output::plain)
        .ok_or_else(|| format!("{} has no accounts.", origin(url)))
}

/// Returns the server that is meant, and the token there.
fn meant(environment: &Environment, args: &ServerArgs) -> Result<(Url, String), String> {
    let servers = Servers::read(&Paths::new(environment).servers())?;
    let known = match &args.url {
        Some(url) => {
            let url = address(url)?;
            servers.0.get(&origin(&url)).map(|login| (url, login.token.clone()))
        }
        None if servers.0.len() > 1 => {
            let addresses: Vec<&str> = servers.0.keys().map(String::as_str).collect();
            return Err(format!("You are logged in at several servers; name one: {}.", addresses.join(", ")));
        }
        None => servers
            .0
            .iter()
            .next()
            .and_then(|(url, login)| Some((Url::parse(url).ok()?, login.token.clone()))),
    };
    known.ok_or_else(|| "You are not logged in there; `windlass login URL` does it.".to_owned())
}

pub fn log_out(environment: Environment, args: ServerArgs) -> ExitCode {
    runtime::block_on(async move {
        let done = async {
            let (url, token) = meant(&environment, &args)?;
            // The server may be gone: the token is forgotten here all the same.
            let revoked = async {
                let http = client(&environment, &url, Some(&token))?;
                http.send(http.post_request("/account/logout", &json!({}))).await.map(drop)
            };
            let revoked: Result<(), String> = revoked.await;
            let file = Paths::new(&environment).servers();
            let mut servers = Servers::read(&file)?;
            servers.0.remove(&origin(&url));
            servers.write(&file)?;
            Ok::<_, String>(match revoked {
                Ok(()) => format!("Logged out at {}.", origin(&url)),
                Err(reason) => format!("The token is forgotten here, and still holds there: {reason}"),
            })
        };
        match done.await {
            Ok(words) => output::print_answer(&words),
            Err(reason) => output::fail(&reason),
        }
    })
}

pub fn who_am_i(environment: Environment, args: ServerArgs) -> ExitCode {
    runtime::block_on(async move {
        let done = async {
            let (url, token) = meant(&environment, &args)?;
            let me: Value = client(&environment, &url, Some(&token))?.get("/account/me").await?;
            let account = &me["account"];
            let text = |value: &Value| output::plain(value.as_str().unwrap_or_default());
            Ok::<_, String>(format!(
                "{} ({}) at {}, by a token for `{}`",
                text(&account["name"]),
                text(&account["role"]),
                origin(&url),
                text(&me["scope"])
            ))
        };
        match done.await {
            Ok(words) => output::print_answer(&words),
            Err(reason) => output::fail(&reason),
        }
    })
}
