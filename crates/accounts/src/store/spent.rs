//! The costs of accounts in the last hours.

use std::collections::HashMap;

use rusqlite::{Connection, params};
use windlass_base::{clock::now_ms, lock::lock};

use super::Accounts;
use crate::{account::AccountId, error::AccountsError};

const HOUR: i64 = 3_600_000;
/// Hours that count.
const PERIOD: i64 = 24;

/// Dollars by account and hour since the epoch.
pub(super) type Spent = HashMap<(AccountId, i64), f64>;

pub(super) fn read(connection: &Connection) -> Result<Spent, AccountsError> {
    let mut statement = connection.prepare("SELECT account, hour, cost FROM spent")?;
    let rows = statement.query_map([], |row| Ok(((AccountId(row.get(0)?), row.get(1)?), row.get(2)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl Accounts {
    /// Adds a cost in dollars to those of an account, and forgets those that count no more. Does blocking writes.
    pub fn spend(&self, account: &AccountId, cost: f64) -> Result<(), AccountsError> {
        let hour = now_ms() / HOUR;
        let write = |to: &rusqlite::Transaction<'_>| {
            to.execute("DELETE FROM spent WHERE hour <= ?1", [hour - PERIOD])?;
            let statement =
                "INSERT INTO spent VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET cost = cost + excluded.cost";
            to.execute(statement, params![account.0, hour, cost])?;
            Ok(())
        };
        self.change(write, |state, ()| {
            state.spent.retain(|(_, at), _| *at > hour - PERIOD);
            *state.spent.entry((account.clone(), hour)).or_default() += cost;
        })
    }

    /// Returns the dollars that the sessions of an account have cost in the last 24 hours.
    pub fn spent(&self, account: &AccountId) -> f64 {
        let since = now_ms() / HOUR - PERIOD;
        let state = lock(&self.0.state);
        let own = state.spent.iter().filter(|((of, hour), _)| of == account && *hour > since);
        own.map(|(_, cost)| cost).sum()
    }
}
