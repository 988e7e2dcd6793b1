//! `windlass serve --accounts`: the settings of a server with accounts, and its first link.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc};

use futures_util::future::BoxFuture;
use windlass_accounts::{Account, Accounts, AccountsError, Kind, PageLink, Role};
use windlass_base::blocking::blocking;
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{Engine, People, Secret};
use windlass_protocol::opencode::{
    id::SessionId,
    settings::{AccountsSettings, Settings},
};

use super::{Purpose, ServeArgs};
use crate::{
    cli::{output, people},
    http::Team,
};

/// The first account of a server that has none.
const FIRST: &str = "admin";
/// The provider of accounts that log in by links.
const INVITATION: &str = "invitation";

/// Returns the settings where the server is to have accounts, and keeps commands in their sandbox.
pub fn settings(
    environment: &mut Environment,
    settings: &Settings,
    args: &ServeArgs,
    purpose: Purpose,
) -> Result<Option<AccountsSettings>, ExitCode> {
    if !args.accounts {
        return Ok(None);
    }
    let refused = |reason: &str| Err(output::misuse(reason));
    if purpose == Purpose::Device {
        return refused(
            "`--pair` is for one user alone: leave it out, and open /account on the other device.",
        );
    }
    let has = |name: &str| environment.get(name).is_some_and(|it| !it.is_empty());
    if has("OPENCODE_SERVER_PASSWORD") {
        return refused(
            "OPENCODE_SERVER_PASSWORD is for one user alone: unset it, everybody logs in with `--accounts`.",
        );
    }
    if settings.windlass.accounts.sandbox != Some(false) {
        environment.require_sandbox();
    }
    Ok(Some(settings.windlass.accounts.clone()))
}

/// The accounts, as the engine knows them.
struct Owners {
    accounts: Accounts,
    url: String,
}

impl People for Owners {
    fn person_of(&self, session: &SessionId) -> Option<String> {
        self.accounts.owner(session).map(|it| it.to_string())
    }

    fn key_of(&self, session: &SessionId, provider: &str) -> Option<Secret> {
        self.accounts.key_of(&self.accounts.owner(session)?, provider).map(Secret)
    }

    fn share(&self, session: &SessionId) -> BoxFuture<'static, Result<String, String>> {
        let (accounts, url) = (self.accounts.clone(), self.url.clone());
        let page = PageLink { session: session.clone(), needs_login: false, ends: None };
        Box::pin(async move {
            let key = blocking(move || accounts.make_page(&page)).await.map_err(|error| error.to_string())?;
            Ok(format!("{url}/s/{key}"))
        })
    }

    fn unshare(&self, session: &SessionId) -> BoxFuture<'static, Result<(), String>> {
        let (accounts, session) = (self.accounts.clone(), session.clone());
        Box::pin(async move {
            blocking(move || accounts.drop_page(&session)).await.map(drop).map_err(|error| error.to_string())
        })
    }
}

/// Has the engine keep the accounts apart.
pub fn keep_apart(engine: &Engine, team: &Team) {
    engine.serve_people(Box::new(Owners { accounts: team.accounts.clone(), url: team.url.clone() }));
}

/// Opens the accounts; without an administrator there is a link for the first one.
pub async fn open(
    settings: AccountsSettings,
    (engine, paths): (&Engine, &Paths),
    (own_address, bound): (&str, Option<SocketAddr>),
    certificates: Option<PathBuf>,
) -> Result<Arc<Team>, ExitCode> {
    let failed = |error: AccountsError| output::fail(&error.to_string());
    let accounts = people::open(engine, paths).await.map_err(failed)?;
    let url = settings.url.clone().unwrap_or_else(|| own_address.to_owned());
    let team = Team::new(accounts.clone(), url.clone(), settings, certificates)
        .map_err(|reason| output::misuse(&reason))?;
    let address = url.trim_end_matches('/').to_owned();
    let link = blocking(move || first_link(&accounts, &address)).await.map_err(failed)?;
    if let Some(words) = link {
        output::note(&words);
    }
    if url.starts_with("http://") && !bound.is_some_and(|it| it.ip().is_loopback()) {
        output::note(
            "Other machines reach this server without encryption, which shows logins and tokens to the network: use --tls-cert, \
             or a proxy with TLS and its address as windlass.accounts.url.",
        );
    }
    Ok(Arc::new(team))
}

/// Makes a link for the first administrator, or says how one is made where no administrator has a way in.
fn first_link(accounts: &Accounts, address: &str) -> Result<Option<String>, AccountsError> {
    if let Some(first) = accounts.create_first(INVITATION, FIRST)? {
        let link = accounts.invite(&first, address)?;
        return Ok(Some(format!("The first administrator logs in by this link, once: {link}")));
    }
    let administrators: Vec<Account> =
        accounts.list().into_iter().filter(|it| it.role == Role::Admin).collect();
    let has_way_in = |it: &Account| {
        let kinds = [Kind::Cookie, Kind::Token, Kind::Link];
        it.provider != INVITATION || kinds.iter().any(|kind| !accounts.credentials(&it.id, *kind).is_empty())
    };
    let locked_out = administrators.first().filter(|_| !administrators.iter().any(has_way_in));
    Ok(locked_out.map(|it| {
        format!("No administrator is logged in: `windlass account link {}` makes a link.", it.name)
    }))
}
