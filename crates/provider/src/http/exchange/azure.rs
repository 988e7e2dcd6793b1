//! Tokens of Microsoft Entra, which Azure's own program has (facts: provider requests §8.8).

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde::Deserialize;
use tokio::time::timeout;
use windlass_base::{
    json_number,
    process::{self, Spawn},
};

use super::{Granted, MAX_ANSWER};
use crate::ProviderError;

/// Time that the program may take; it is written in Python, and may ask its authority.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct Printed {
    #[serde(rename = "accessToken")]
    access_token: String,
    /// Seconds since the epoch; older versions print the local time alone.
    #[serde(default, deserialize_with = "json_number::deserialize")]
    expires_on: Option<f64>,
}

/// Asks the program for a token.
pub(super) async fn token(program: &Path, scope: &str) -> Result<Granted, ProviderError> {
    let failed = |reason: String| ProviderError::Auth {
        message: format!("`az account get-access-token` {reason}; run `az login`, or set the key"),
    };
    let spawn = Spawn {
        program: program.as_os_str(),
        args: &["account", "get-access-token", "--output", "json", "--scope", scope].map(Into::into),
        directory: Path::new("/"),
        environment: &BTreeMap::new(),
        without: &[],
        stdin: false,
        is_parent: true,
    };
    let printed = match timeout(LIMIT, process::output(&spawn, MAX_ANSWER as u64)).await {
        Ok(Ok(printed)) => printed,
        Ok(Err(error)) => return Err(failed(format!("cannot be run ({error})"))),
        Err(_) => return Err(failed(format!("did not end within {} s", LIMIT.as_secs()))),
    };
    let printed: Printed =
        serde_json::from_slice(&printed).map_err(|_| failed("printed no token".to_owned()))?;
    Ok(Granted::plain(printed.access_token, printed.expires_on.map(|s| (s * 1000.0) as i64)))
}
