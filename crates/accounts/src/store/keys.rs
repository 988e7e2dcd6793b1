//! Keys of providers that accounts have brought.

use std::collections::HashMap;

use rusqlite::{Connection, params};
use windlass_base::lock::lock;

use super::Accounts;
use crate::{account::AccountId, error::AccountsError};

/// Keys by account and provider.
pub(super) type Keys = HashMap<(AccountId, String), String>;

/// Keys of one account.
const MAX_KEYS: i64 = 100;

pub(super) fn read(connection: &Connection) -> Result<Keys, AccountsError> {
    let mut statement = connection.prepare("SELECT account, provider, key FROM provider_key")?;
    let rows = statement.query_map([], |row| Ok(((AccountId(row.get(0)?), row.get(1)?), row.get(2)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl Accounts {
    /// Keeps an account's key of a provider, in place of an earlier one. Does blocking writes.
    ///
    /// # Errors
    ///
    /// The account has 100 keys.
    pub fn keep_key(&self, account: &AccountId, provider: &str, key: &str) -> Result<(), AccountsError> {
        let write = |to: &rusqlite::Transaction<'_>| {
            let statement = "INSERT OR REPLACE INTO provider_key VALUES (?1, ?2, ?3)";
            to.execute(statement, params![account.0, provider, key])?;
            let count = "SELECT count(*) FROM provider_key WHERE account = ?1";
            let n_keys: i64 = to.query_row(count, [&account.0], |row| row.get(0))?;
            if n_keys > MAX_KEYS { Err(AccountsError::TooManyKeys(MAX_KEYS)) } else { Ok(()) }
        };
        self.change(write, |state, ()| {
            state.keys.insert((account.clone(), provider.to_owned()), key.to_owned());
        })
    }

    /// Forgets an account's key of a provider; false if there was none. Does blocking writes.
    pub fn drop_key(&self, account: &AccountId, provider: &str) -> Result<bool, AccountsError> {
        if self.key_of(account, provider).is_none() {
            return Ok(false);
        }
        let write = |to: &rusqlite::Transaction<'_>| {
            let statement = "DELETE FROM provider_key WHERE account = ?1 AND provider = ?2";
            Ok(to.execute(statement, params![account.0, provider])? > 0)
        };
        self.change(write, |state, _| {
            state.keys.remove(&(account.clone(), provider.to_owned()));
        })
    }

    /// Returns an account's key of a provider.
    pub fn key_of(&self, account: &AccountId, provider: &str) -> Option<String> {
        lock(&self.0.state).keys.get(&(account.clone(), provider.to_owned())).cloned()
    }

    /// Returns the providers that an account has brought a key of.
    pub fn providers_of(&self, account: &AccountId) -> Vec<String> {
        let state = lock(&self.0.state);
        let own = state.keys.keys().filter(|(of, _)| of == account).map(|(_, provider)| provider.clone());
        let mut providers: Vec<String> = own.collect();
        providers.sort();
        providers
    }
}
