//! `windlass serve --accounts`: the settings of a server with accounts, and its first link.

use std::{process::ExitCode, sync::Arc};

use windlass_accounts::{Accounts, Role};
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{Engine, People, Secret};
use windlass_protocol::opencode::{
    id::SessionId,
    settings::{AccountsSettings, Settings},
};

use super::{Purpose, ServeArgs};
use crate::{
    cli::output,
    http::{self, Team},
};

/// The first account of a server that has none.
const FIRST: &str = "admin";

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
    let is_shared =
        settings.windlass.shared.url.as_ref().is_some_and(|it| !it.is_empty()) || has("WINDLASS_SHARED_URL");
    if is_shared {
        return refused(
            "A server with accounts cannot share sessions with other machines yet: unset windlass.shared.",
        );
    }
    if settings.windlass.accounts.sandbox != Some(false) {
        environment.require_sandbox();
    }
    Ok(Some(settings.windlass.accounts.clone()))
}

/// The accounts, as the engine knows them.
struct Owners(Accounts);

impl People for Owners {
    fn person_of(&self, session: &SessionId) -> Option<String> {
        self.0.owner(session).map(|it| it.to_string())
    }

    fn key_of(&self, session: &SessionId, provider: &str) -> Option<Secret> {
        self.0.key_of(&self.0.owner(session)?, provider).map(Secret)
    }
}

/// Has the engine keep the accounts apart.
pub fn keep_apart(engine: &Engine, team: &Team) {
    engine.serve_people(Box::new(Owners(team.accounts.clone())));
}

/// Opens the accounts; without an administrator there is a link for the first one.
pub fn open(
    settings: AccountsSettings,
    paths: &Paths,
    own_address: &str,
    environment: &Environment,
) -> Result<Arc<Team>, ExitCode> {
    let failed = |error: &dyn std::fmt::Display| output::fail(&error.to_string());
    let accounts = Accounts::open(&paths.accounts()).map_err(|error| failed(&error))?;
    let url = settings.url.clone().unwrap_or_else(|| own_address.to_owned());
    let certificates = environment.get("NODE_EXTRA_CA_CERTS").map(Into::into);
    let team = Team::new(accounts.clone(), url.clone(), settings, certificates)
        .map_err(|reason| output::misuse(&reason))?;
    let first = accounts.list().into_iter().find(|it| it.role == Role::Admin);
    let link = match first {
        Some(_) => None,
        None => {
            let made = accounts.create("invitation", None, FIRST, Role::Admin, Vec::new());
            Some(
                made.and_then(|account| http::invite(&accounts, &account, url.trim_end_matches('/')))
                    .map_err(|error| failed(&error))?,
            )
        }
    };
    if let Some(link) = link {
        output::note(&format!("The first administrator logs in by this link, once: {link}"));
    }
    Ok(Arc::new(team))
}
