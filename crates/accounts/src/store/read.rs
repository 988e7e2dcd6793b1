//! Reads the whole file into memory.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use windlass_protocol::opencode::id::SessionId;

use super::{
    Hash, State, keys, renewal,
    sessions::{Grant, PageLink, Sessions},
    spent,
};
use crate::{
    account::{Account, AccountId, Level, Role, Scope},
    credential::{Credential, Kind},
    error::AccountsError,
};

pub fn all(connection: &Connection) -> Result<State, AccountsError> {
    Ok(State {
        accounts: accounts(connection)?,
        credentials: credentials(connection)?,
        sessions: sessions(connection)?,
        removed: removed(connection)?,
        spent: spent::read(connection)?,
        renewals: renewal::read(connection)?,
        keys: keys::read(connection)?,
    })
}

pub fn accounts(connection: &Connection) -> Result<HashMap<AccountId, Account>, AccountsError> {
    let mut statement =
        connection.prepare("SELECT id, provider, subject, name, role, directories, created FROM account")?;
    let rows = statement.query_map([], |row| {
        let (role, directories): (String, String) = (row.get(4)?, row.get(5)?);
        Ok(Account {
            id: AccountId(row.get(0)?),
            provider: row.get(1)?,
            subject: row.get(2)?,
            name: row.get(3)?,
            // A word of a later windlass is the smallest role.
            role: Role::parse(&role).unwrap_or(Role::Reader),
            directories: serde_json::from_str(&directories).unwrap_or_default(),
            created: row.get(6)?,
        })
    })?;
    let accounts: Vec<Account> = rows.collect::<Result<_, _>>()?;
    Ok(accounts.into_iter().map(|account| (account.id.clone(), account)).collect())
}

pub fn credentials(connection: &Connection) -> Result<HashMap<Hash, Credential>, AccountsError> {
    let mut statement =
        connection.prepare("SELECT hash, id, account, kind, name, scope, created, ends FROM credential")?;
    let rows = statement.query_map([], |row| {
        let (kind, scope): (String, String) = (row.get(3)?, row.get(5)?);
        let credential = Credential {
            id: row.get(1)?,
            account: AccountId(row.get(2)?),
            // A word of a later windlass lets nobody in.
            kind: Kind::parse(&kind).unwrap_or(Kind::Link),
            name: row.get(4)?,
            scope: Scope::parse(&scope).unwrap_or(Scope::Read),
            created: row.get(6)?,
            ends: row.get(7)?,
        };
        Ok((row.get(0)?, credential))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn removed(connection: &Connection) -> Result<HashSet<(String, String)>, AccountsError> {
    let mut statement = connection.prepare("SELECT provider, subject FROM removed")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn sessions(connection: &Connection) -> Result<Sessions, AccountsError> {
    let mut sessions = Sessions::default();
    let id = |text: String| SessionId::parse(&text).ok();
    let mut statement = connection.prepare("SELECT session, account FROM owner")?;
    for row in statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))? {
        let (session, account) = row?;
        if let Some(session) = id(session) {
            sessions.owners.insert(session, AccountId(account));
        }
    }
    let mut statement = connection.prepare("SELECT session, account, level, ends FROM access")?;
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?, row.get(3)?));
    for row in statement.query_map([], row)? {
        let (session, account, level, ends): (String, String, String, Option<i64>) = row?;
        if let (Some(session), Some(level)) = (id(session), Level::parse(&level)) {
            let account = (!account.is_empty()).then_some(AccountId(account));
            sessions.grants.entry(session).or_default().push(Grant { account, level, ends });
        }
    }
    let mut statement = connection.prepare("SELECT key, session, needs_login, ends FROM page")?;
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    for row in statement.query_map([], row)? {
        let (key, session, needs_login, ends): (String, String, bool, Option<i64>) = row?;
        if let Some(session) = id(session) {
            sessions.pages.insert(key, PageLink { session, needs_login, ends });
        }
    }
    Ok(sessions)
}
