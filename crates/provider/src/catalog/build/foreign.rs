//! Providers at an address that only the project names: they get the settings of the project's own file, and nothing of
//! the user.

use windlass_core::config::{Config, Environment, Warning};

use super::{Known, key_variables, own_server, packages, rows};
use crate::{auth::Credentials, catalog::warning};

/// The part of the user's that a provider may use.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    pub environment: &'a Environment,
    pub credentials: &'a Credentials,
    /// The address is the project's.
    pub is_foreign: bool,
}

/// Returns the origin of a provider's address if only the project names it.
pub(super) fn address<'a>(known: &Known<'_>, config: &'a Config) -> Option<&'a str> {
    config.providers.get(known.id)?;
    // The address of a plugin takes the place of every other.
    if known.options.is_some_and(|it| it.base_url.is_some()) {
        return None;
    }
    let row = rows::find(known.id);
    let listed = known.listed.and_then(|listed| listed.api.as_deref());
    // The package that the configuration names may be the project's word.
    let npm = row.and_then(|row| row.npm).or(known.listed.and_then(|listed| listed.npm.as_deref()));
    let of_package = || packages::find(npm?).and_then(|package| package.url);
    let vendor = row.and_then(|row| row.url).or(listed).or_else(of_package);
    let own_server = own_server(&config.environment).filter(|_| known.id == "openai");
    let vendors: Vec<&str> = vendor.into_iter().chain(own_server).collect();
    config.project_addresses.of_provider(known.id, &vendors).first().copied()
}

/// Returns the warning about a key of the user that the address does not get.
pub(super) fn missed(
    known: &Known<'_>,
    config: &Config,
    credentials: &Credentials,
    address: &str,
) -> Option<Warning> {
    let configured = config.providers.get(known.id)?;
    if configured.options.api_key.as_ref().is_some_and(|key| !key.is_empty()) {
        return None;
    }
    let variables = key_variables(known.id, known.listed, configured);
    let variable = variables.iter().find(|name| config.environment.get(name).is_some());
    let yours = match variable {
        Some(name) => format!("the key in {name}"),
        None if credentials.contains_key(known.id) => "your login".to_owned(),
        None if known.options.is_some() => "the key of a plugin".to_owned(),
        None => return None,
    };
    let example = variable
        .or(variables.first())
        .map(|name| format!(", such as \"{{env:{name}}}\""))
        .unwrap_or_default();
    let message = format!(
        "{yours} is not sent to {address}, which only the project names; set `options.apiKey` beside that address{example}, \
         or name the address in your own configuration"
    );
    Some(warning(&format!("provider.{}", known.id), message))
}
