//! Tokens by which a provider is asked, now and then, whether an account is still good there.

use std::collections::HashMap;

use rusqlite::{Connection, params};
use windlass_base::{clock::now_ms, lock::lock};

use super::Accounts;
use crate::{
    account::{Account, AccountId},
    error::AccountsError,
};

/// Time between two questions.
const PERIOD: i64 = 3_600_000;

/// The token and the time of the next question, by account.
pub(super) type Renewals = HashMap<AccountId, (String, i64)>;

pub(super) fn read(connection: &Connection) -> Result<Renewals, AccountsError> {
    let mut statement = connection.prepare("SELECT account, token, due FROM renewal")?;
    let rows = statement.query_map([], |row| Ok((AccountId(row.get(0)?), (row.get(1)?, row.get(2)?))))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl Accounts {
    /// Keeps the newest token of an account; without one the last stays and is used again. Does blocking writes.
    pub fn renew_later(&self, account: &AccountId, token: Option<&str>) -> Result<(), AccountsError> {
        let kept = lock(&self.0.state).renewals.get(account).map(|(token, _)| token.clone());
        let Some(token) = token.map(str::to_owned).or(kept) else { return Ok(()) };
        let due = now_ms() + PERIOD;
        let write = |to: &rusqlite::Transaction<'_>| {
            to.execute("INSERT OR REPLACE INTO renewal VALUES (?1, ?2, ?3)", params![account.0, token, due])?;
            Ok(())
        };
        self.change(write, |state, ()| {
            state.renewals.insert(account.clone(), (token.clone(), due));
        })
    }

    /// Returns the accounts that a provider is to be asked about now, with their tokens, and keeps them for later: of
    /// servers that share the accounts, one asks. Does blocking writes where there are any.
    pub fn take_due(&self) -> Result<Vec<(Account, String)>, AccountsError> {
        let now = now_ms();
        if !lock(&self.0.state).renewals.values().any(|(_, due)| *due <= now) {
            return Ok(Vec::new());
        }
        let write = |to: &rusqlite::Transaction<'_>| {
            let due: Renewals = read(to)?.into_iter().filter(|(_, (_, due))| *due <= now).collect();
            to.execute("UPDATE renewal SET due = ?1 WHERE due <= ?2", [now + PERIOD, now])?;
            Ok(due)
        };
        let due = self.change(write, |state, due| {
            for (id, (token, _)) in due {
                state.renewals.insert(id.clone(), (token.clone(), now + PERIOD));
            }
        })?;
        let state = lock(&self.0.state);
        let due = due.into_iter();
        Ok(due.filter_map(|(id, (token, _))| Some((state.accounts.get(&id)?.clone(), token))).collect())
    }
}
