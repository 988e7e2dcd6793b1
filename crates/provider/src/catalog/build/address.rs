//! A provider's address, with the variables that are parts of it.

use std::collections::BTreeMap;

use windlass_core::config::Environment;
use windlass_protocol::opencode::config::AuthEntry;

use super::Base;
use crate::unusable::Lack;

/// Returns the parts of an address that are stored with a credential (facts: provider requests §4.2).
pub(super) fn stored(entry: Option<&AuthEntry>) -> BTreeMap<String, String> {
    match entry {
        Some(AuthEntry::Api { metadata, .. }) => metadata.clone(),
        // Entra's tokens are of an account, and OpenCode keeps the resource in its place.
        Some(AuthEntry::Oauth { account_id: Some(account), .. }) => {
            BTreeMap::from([("resourceName".to_owned(), account.clone())])
        }
        Some(AuthEntry::Oauth { account_id: None, .. } | AuthEntry::Wellknown { .. }) | None => {
            BTreeMap::new()
        }
    }
}

/// Returns the name under which OpenCode stores a variable with the key.
fn key_of_stored(variable: &str) -> Option<&'static str> {
    match variable {
        "AZURE_RESOURCE_NAME" | "AZURE_COGNITIVE_SERVICES_RESOURCE_NAME" => Some("resourceName"),
        "CLOUDFLARE_ACCOUNT_ID" => Some("accountId"),
        "CLOUDFLARE_GATEWAY_ID" => Some("gatewayId"),
        "SNOWFLAKE_ACCOUNT" => Some("account"),
        "GITLAB_INSTANCE_URL" => Some("instanceUrl"),
        _ => None,
    }
}

/// Fills the variables of a vendor's address, all of which must be there.
pub(super) fn of_vendor(url: &str, base: &Base<'_>) -> Result<String, Lack> {
    let mut filled = String::with_capacity(url.len());
    let mut rest = url;
    while let Some((before, (name, after))) =
        rest.split_once("${").and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        filled.push_str(before);
        filled.push_str(&variable(name, base).ok_or_else(|| Lack::Variable(name.to_owned()))?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// Returns a variable of a vendor's address under any of the names that the vendor's own programs read.
pub(super) fn variable(name: &str, base: &Base<'_>) -> Option<String> {
    let stored = key_of_stored(name).and_then(|key| base.stored.get(key));
    if let Some(stored) = stored.filter(|value| !value.is_empty()) {
        return Some(stored.clone());
    }
    let first = |names: &[&str]| names.iter().find_map(|name| base.environment.get(name)).map(str::to_owned);
    let default_location = if base.id == "google-vertex-anthropic" { "global" } else { "us-central1" };
    let instance = base.login.as_ref().and_then(|login| login.instance.clone());
    match name {
        "INSTANCE" => instance,
        "SNOWFLAKE_ACCOUNT" => instance.or_else(|| first(&[name])),
        "GOOGLE_VERTEX_PROJECT" => {
            first(&["GOOGLE_VERTEX_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCP_PROJECT", "GCLOUD_PROJECT"])
        }
        "GOOGLE_VERTEX_LOCATION" => {
            first(&["GOOGLE_VERTEX_LOCATION", "GOOGLE_CLOUD_LOCATION", "VERTEX_LOCATION"])
                .or(Some(default_location.to_owned()))
        }
        "GOOGLE_VERTEX_ENDPOINT" => {
            let location = variable("GOOGLE_VERTEX_LOCATION", base)?;
            Some(match location.as_str() {
                "global" => "aiplatform.googleapis.com".to_owned(),
                "us" | "eu" => format!("aiplatform.{location}.rep.googleapis.com"),
                _ => format!("{location}-aiplatform.googleapis.com"),
            })
        }
        "AWS_REGION" => base.aws.as_ref().map(|account| account.region().to_owned()),
        "AWS_DOMAIN" => base.aws.as_ref().map(|account| account.domain().to_owned()),
        _ => first(&[name]),
    }
}

/// Replaces `${NAME}` by the variable, or by nothing.
pub(super) fn fill(text: &str, environment: &Environment) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, (name, after))) =
        rest.split_once("${").and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        filled.push_str(before);
        filled.push_str(environment.get(name).unwrap_or_default());
        rest = after;
    }
    filled.push_str(rest);
    filled
}
