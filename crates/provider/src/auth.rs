//! Keys by provider: reads OpenCode's `auth.json`, reads ours over it, and writes ours (facts: OpenCode §7.2).

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use windlass_base::credential_file::{self, change, read};
use windlass_core::config::{Environment, Warning, paths::Paths};
use windlass_protocol::opencode::config::AuthEntry;

/// Credentials by provider id.
pub type Credentials = BTreeMap<String, AuthEntry>;

/// A variable with credentials that replace those of both files.
const VARIABLE: &str = "OPENCODE_AUTH_CONTENT";

/// Something wrong in a source of credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The provider of the entry that is wrong; `None` for all of the source.
    pub provider: Option<String>,
    pub warning: Warning,
}

/// A provider's credential, and the file or variable that holds it.
pub type StoredCredential = (PathBuf, String, AuthEntry);

/// Reads every known credential: OpenCode's, with ours over them, or instead of both `OPENCODE_AUTH_CONTENT`.
/// Does blocking reads.
pub fn load(paths: &Paths, environment: &Environment) -> (Credentials, Vec<Fault>) {
    let (stored, faults) = stored_credentials(paths, environment);
    // The first of the lookup is the last to be put in.
    let credentials = stored.into_iter().rev().map(|(_, provider, entry)| (provider, entry));
    (credentials.collect(), faults)
}

/// Returns every credential in the order of the lookup, and the sources that cannot be used. Does blocking
/// reads.
pub fn stored_credentials(paths: &Paths, environment: &Environment) -> (Vec<StoredCredential>, Vec<Fault>) {
    let (mut stored, mut faults) = (Vec::new(), Vec::new());
    if let Some(text) = environment.get(VARIABLE) {
        decode(Path::new(VARIABLE), text, &mut stored, &mut faults);
        renewed_of_variable(paths, &mut stored);
        return (stored, faults);
    }
    for file in [paths.auth(), paths.opencode_auth()] {
        match fs::read_to_string(&file) {
            Ok(text) => decode(&file, &text, &mut stored, &mut faults),
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => {
                let warning = warning(&file, format!("cannot be read: {err}"));
                faults.push(Fault { provider: None, warning });
            }
        }
    }
    (stored, faults)
}

/// Puts logins that were renewed in the place of those of the variable, which cannot be written.
fn renewed_of_variable(paths: &Paths, stored: &mut [StoredCredential]) {
    if !stored.iter().any(|(.., entry)| matches!(entry, AuthEntry::Oauth { .. })) {
        return;
    }
    let renewed = read(&renewed_file(paths)).ok().flatten().unwrap_or_default();
    for (_, provider, entry) in stored {
        let AuthEntry::Oauth { refresh, .. } = &*entry else { continue };
        let newer = renewed.get(provider.as_str()).filter(|it| it[REPLACES] == fingerprint(refresh));
        if let Some(newer) = newer.and_then(|newer| AuthEntry::deserialize(newer).ok()) {
            *entry = newer;
        }
    }
}

/// The field of a renewed login that says which login of the variable it replaces.
const REPLACES: &str = "replaces";

/// Returns the file of renewed logins that came from the variable.
fn renewed_file(paths: &Paths) -> PathBuf {
    paths.data.join("auth-renewed.json")
}

/// Returns a name for a secret that does not tell it.
fn fingerprint(secret: &str) -> String {
    Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Stores a key or a login.
pub fn save(paths: &Paths, provider: &str, entry: &AuthEntry) -> io::Result<()> {
    let value = serde_json::to_value(entry)?;
    change(&paths.auth(), |entries| {
        entries.insert(provider.to_owned(), value);
        true
    })?;
    Ok(())
}

/// Stores a login that replaces the one with this token for renewals; returns false if the user has logged out
/// meanwhile. `file` is the place of the replaced login.
pub fn renew(
    paths: &Paths,
    provider: &str,
    file: &Path,
    refresh: &str,
    entry: &AuthEntry,
) -> io::Result<bool> {
    let mut value = serde_json::to_value(entry)?;
    if file == Path::new(VARIABLE) {
        return change(&renewed_file(paths), |entries| {
            // A login that was renewed before keeps the name of the first one.
            let before = entries.get(provider).filter(|before| before["refresh"] == *refresh);
            let first = before.map_or_else(|| fingerprint(refresh).into(), |before| before[REPLACES].clone());
            value[REPLACES] = first;
            entries.insert(provider.to_owned(), value);
            true
        });
    }
    let is_ours = file == paths.auth();
    change(&paths.auth(), |entries| {
        let is_same = |now: &Value| now["refresh"] == *refresh;
        match entries.get(provider) {
            Some(now) if is_ours && !is_same(now) => false,
            None if is_ours => false,
            Some(_) | None => {
                entries.insert(provider.to_owned(), value);
                true
            }
        }
    })
}

/// Removes a provider's entry; returns false if our file did not have one.
pub fn remove(paths: &Paths, provider: &str) -> io::Result<bool> {
    if !paths.auth().exists() {
        return Ok(false);
    }
    change(&paths.auth(), |entries| entries.shift_remove(provider).is_some())
}

/// Removes all entries of our file.
pub fn clear(paths: &Paths) -> io::Result<()> {
    let file = paths.auth();
    if !file.exists() {
        return Ok(());
    }
    credential_file::remove(&file)
}

fn decode(source: &Path, text: &str, stored: &mut Vec<StoredCredential>, faults: &mut Vec<Fault>) {
    let entries: Map<String, Value> = match serde_json::from_str(text) {
        Ok(entries) => entries,
        Err(err) => {
            // The parser's message may quote the text, and the text is secret.
            let message = "is not a JSON object of credentials; it is ignored".to_owned();
            // The parser reports an end of the text in the middle as column 0 of its last line.
            let (line, column) = (Some(err.line().max(1)), Some(err.column().max(1)));
            let warning = Warning { line, column, ..warning(source, message) };
            faults.push(Fault { provider: None, warning });
            return;
        }
    };
    for (provider, value) in entries {
        match AuthEntry::deserialize(&value) {
            Ok(entry) => {
                // OpenCode's older versions wrote ids with a slash at the end.
                let id = provider.trim_end_matches('/');
                stored.retain(|(file, other, _)| file != source || other != id);
                stored.push((source.to_owned(), id.to_owned(), entry));
            }
            Err(_) => {
                let warning = warning(source, format!("the entry of `{provider}` is not a credential"));
                faults.push(Fault { provider: Some(provider.trim_end_matches('/').to_owned()), warning });
            }
        }
    }
}

fn warning(source: &Path, message: String) -> Warning {
    Warning { source: source.display().to_string(), line: None, column: None, message }
}

#[cfg(test)]
mod tests;
