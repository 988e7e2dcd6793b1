//! Logins for front ends: the ways there are, one of them done, and an organisation's terms.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use serde::Deserialize;
use windlass_base::{blocking::blocking, process};
use windlass_core::config::remote;
use windlass_protocol::opencode::config::AuthEntry;
pub use windlass_provider::login::device::Page;
use windlass_provider::{
    auth,
    login::{self, rows},
};

use super::Accounts;
use crate::remote::remote_config;

/// Maximum bytes of a token that an organisation's command prints.
const MAX_TOKEN: u64 = 64 << 10;

/// A way to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginMethod {
    pub provider: &'static str,
    /// `browser` or `device`.
    pub id: &'static str,
    pub title: &'static str,
}

/// Returns the ways to log in at a provider, the preferred one first.
pub fn methods(provider: &str) -> Vec<LoginMethod> {
    let methods = rows::of(provider).into_iter();
    methods.map(|it| LoginMethod { provider: it.issuer.provider, id: it.method(), title: it.title }).collect()
}

/// Returns every provider that has a login.
pub fn providers() -> Vec<&'static str> {
    rows::providers()
}

/// Waits until the renewals of logins that are under way have been stored.
pub async fn finish_renewals() {
    login::tokens::finish_renewals().await;
}

/// An organisation's entry in `auth.json`, before its token is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Organisation {
    pub url: String,
    /// The variable that the token is for.
    pub variable: String,
    /// The command that prints the token.
    pub command: Vec<String>,
}

impl Accounts<'_> {
    /// Logs in and stores the login; `show` tells the user which page to open.
    pub async fn log_in_at(
        self,
        login_method: &LoginMethod,
        instance: Option<&str>,
        show: &(dyn Fn(&Page) + Send + Sync),
    ) -> Result<(), String> {
        let rows = rows::of(login_method.provider);
        let row = rows.into_iter().find(|row| row.method() == login_method.id);
        let row =
            row.ok_or_else(|| format!("{} has no login by {}", login_method.provider, login_method.id))?;
        let client = self.engine.http().reqwest().map_err(|error| error.to_string())?;
        let entry = login::log_in(&client, &self.engine.0.environment, row, instance, show).await;
        let entry = entry.map_err(|error| error.to_string())?;
        self.save(login_method.provider.to_owned(), entry).await
    }

    /// Asks an organisation for its terms of a login.
    pub async fn organisation(self, url: &str) -> Result<Organisation, String> {
        #[derive(Deserialize)]
        struct Document {
            auth: Auth,
        }
        #[derive(Deserialize)]
        struct Auth {
            command: Vec<String>,
            env: String,
        }
        let url = url.trim_end_matches('/').to_owned();
        let address = remote::well_known(&url);
        let text = remote_config::get(self.engine.http(), &address, &[]).await?;
        let document: Document = serde_json::from_str(&text)
            .map_err(|_| format!("{address} says nothing of a login (`auth` with `command` and `env`)"))?;
        let Auth { command, env: variable } = document.auth;
        Ok(Organisation { url, variable, command })
    }

    /// Runs the command that prints an organisation's token.
    pub async fn organisation_token(
        self,
        organisation: &Organisation,
        directory: &Path,
    ) -> Result<String, String> {
        let (program, args) =
            organisation.command.split_first().ok_or("the organisation names no command")?;
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let spawn = process::Spawn {
            program: program.as_ref(),
            args: &args,
            directory,
            environment: &BTreeMap::new(),
            without: &[],
            stdin: false,
            is_parent: true,
        };
        let printed = process::output(&spawn, MAX_TOKEN).await;
        let printed = printed.map_err(|error| format!("{program} cannot be run ({error})"))?;
        let token = String::from_utf8_lossy(&printed).trim().to_owned();
        if token.is_empty() { Err(format!("{program} printed no token")) } else { Ok(token) }
    }

    /// Stores an organisation's token.
    pub async fn store_organisation(self, organisation: Organisation, token: String) -> Result<(), String> {
        let Organisation { url, variable, .. } = organisation;
        self.save(url, AuthEntry::Wellknown { key: variable, token }).await
    }

    async fn save(self, id: String, entry: AuthEntry) -> Result<(), String> {
        let paths = self.engine.paths().clone();
        blocking(move || auth::save(&paths, &id, &entry)).await.map_err(|error| error.to_string())
    }
}
