//! Whose sessions are, and with whom they are shared.

use std::collections::HashMap;

use rusqlite::params;
use serde::Serialize;
use windlass_base::{clock::now_ms, ids, lock::lock};
use windlass_protocol::opencode::id::SessionId;

use super::{Accounts, key};
use crate::{
    account::{AccountId, Level, Visitor},
    error::AccountsError,
};

/// Characters of a page's key, which nobody can guess.
const PAGE_CHARS: usize = 32;
/// Accounts that one session can be shared with by name.
const MAX_GRANTS: i64 = 200;
/// Sessions above a session that are followed.
const MAX_DEPTH: usize = 64;

/// The use of a session that its owner gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grant {
    /// Everybody with an account where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountId>,
    pub level: Level,
    /// Milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<i64>,
}

/// The page of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLink {
    pub session: SessionId,
    /// For people with an account alone.
    pub needs_login: bool,
    /// Milliseconds since the epoch.
    pub ends: Option<i64>,
}

#[derive(Default)]
pub(super) struct Sessions {
    pub owners: HashMap<SessionId, AccountId>,
    pub grants: HashMap<SessionId, Vec<Grant>>,
    pub pages: HashMap<String, PageLink>,
    /// Sessions of subagents, each with the session above it.
    pub below: HashMap<SessionId, SessionId>,
}

impl Sessions {
    fn root<'a>(&'a self, id: &'a SessionId) -> &'a SessionId {
        let mut root = id;
        for _ in 0..MAX_DEPTH {
            match self.below.get(root) {
                Some(above) => root = above,
                None => break,
            }
        }
        root
    }

    fn level(&self, visitor: &Visitor, id: &SessionId) -> Option<Level> {
        let root = self.root(id);
        let level = match self.owners.get(root) {
            Some(owner) if *owner == visitor.account => Level::Own,
            // From before there were accounts, or made at the machine itself.
            None if visitor.is_admin() => Level::Own,
            None => return None,
            Some(_) => {
                let now = now_ms();
                let grants = self.grants.get(root)?.iter();
                let own = grants.filter(|it| it.account.as_ref().is_none_or(|it| *it == visitor.account));
                own.filter(|it| it.ends.is_none_or(|ends| ends > now)).map(|it| it.level).max()?
            }
        };
        Some(level.min(visitor.most()))
    }

    pub(super) fn remove_account(&mut self, id: &AccountId) {
        for grants in self.grants.values_mut() {
            grants.retain(|it| it.account.as_ref() != Some(id));
        }
        let owners = &self.owners;
        self.grants.retain(|session, _| owners.get(session) != Some(id));
        self.pages.retain(|_, page| owners.get(&page.session) != Some(id));
    }
}

impl Accounts {
    /// Returns the use that a visitor has of a session; none where it is nobody's of theirs.
    pub fn level(&self, visitor: &Visitor, session: &SessionId) -> Option<Level> {
        lock(&self.0.state).sessions.level(visitor, session)
    }

    /// Notes that a session is below another one, as a subagent's is.
    pub fn note_below(&self, session: &SessionId, above: &SessionId) {
        lock(&self.0.state).sessions.below.insert(session.clone(), above.clone());
    }

    /// Returns true if a session is known: it has an owner, or is below one.
    pub fn knows(&self, session: &SessionId) -> bool {
        let state = lock(&self.0.state);
        state.sessions.owners.contains_key(state.sessions.root(session))
            || state.sessions.below.contains_key(session)
    }

    /// Returns the session above all those that a session is below; itself where it is below none.
    pub fn root(&self, session: &SessionId) -> SessionId {
        lock(&self.0.state).sessions.root(session).clone()
    }

    /// Returns the owner of a session, or of the session above it.
    pub fn owner(&self, session: &SessionId) -> Option<AccountId> {
        let state = lock(&self.0.state);
        state.sessions.owners.get(state.sessions.root(session)).cloned()
    }

    /// Gives a session that is about to be made its owner.
    pub fn own(&self, session: &SessionId, account: &AccountId) -> Result<(), AccountsError> {
        let write = |to: &rusqlite::Transaction<'_>| {
            let statement = "INSERT INTO owner VALUES (?1, ?2)";
            to.execute(statement, params![key(session), account.0])?;
            Ok(())
        };
        self.change(write, |state, ()| {
            state.sessions.owners.insert(session.clone(), account.clone());
        })
    }

    /// Forgets a session that is gone.
    pub fn forget(&self, session: &SessionId) -> Result<(), AccountsError> {
        let write = |to: &rusqlite::Transaction<'_>| {
            for statement in [
                "DELETE FROM owner WHERE session = ?1",
                "DELETE FROM access WHERE session = ?1",
                "DELETE FROM page WHERE session = ?1",
            ] {
                to.execute(statement, [key(session)])?;
            }
            Ok(())
        };
        self.change(write, |state, ()| {
            state.sessions.owners.remove(session);
            state.sessions.grants.remove(session);
            state.sessions.below.remove(session);
            state.sessions.pages.retain(|_, it| it.session != *session);
        })
    }

    /// Gives an account, or everybody with one, some use of a session; an earlier gift to it is replaced.
    ///
    /// # Errors
    ///
    /// The session is shared with 200 accounts.
    pub fn grant(&self, session: &SessionId, grant: &Grant) -> Result<(), AccountsError> {
        let account = grant.account.as_ref().map_or("", AccountId::as_str);
        let write = |to: &rusqlite::Transaction<'_>| {
            to.execute(
                "INSERT OR REPLACE INTO access VALUES (?1, ?2, ?3, ?4)",
                params![key(session), account, grant.level.name(), grant.ends],
            )?;
            let count = "SELECT count(*) FROM access WHERE session = ?1";
            let n_grants: i64 = to.query_row(count, [key(session)], |row| row.get(0))?;
            if n_grants > MAX_GRANTS { Err(AccountsError::TooManyGrants(MAX_GRANTS)) } else { Ok(()) }
        };
        self.change(write, |state, ()| {
            let grants = state.sessions.grants.entry(session.clone()).or_default();
            grants.retain(|it| it.account != grant.account);
            grants.push(grant.clone());
        })
    }

    /// Takes back the use of a session from an account, or from everybody; false if there was none.
    pub fn withdraw(&self, session: &SessionId, account: Option<&AccountId>) -> Result<bool, AccountsError> {
        if !self.grants(session).iter().any(|it| it.account.as_ref() == account) {
            return Ok(false);
        }
        let text = account.map_or("", AccountId::as_str);
        let write = |to: &rusqlite::Transaction<'_>| {
            let statement = "DELETE FROM access WHERE session = ?1 AND account = ?2";
            Ok(to.execute(statement, params![key(session), text])? > 0)
        };
        self.change(write, |state, _| {
            if let Some(grants) = state.sessions.grants.get_mut(session) {
                grants.retain(|it| it.account.as_ref() != account);
            }
        })
    }

    /// Returns the gifts of a session's use.
    pub fn grants(&self, session: &SessionId) -> Vec<Grant> {
        lock(&self.0.state).sessions.grants.get(session).cloned().unwrap_or_default()
    }

    /// Returns the sessions of an account.
    pub fn owned(&self, account: &AccountId) -> Vec<SessionId> {
        let state = lock(&self.0.state);
        state.sessions.owners.iter().filter(|(_, it)| *it == account).map(|(id, _)| id.clone()).collect()
    }

    /// Returns the sessions of an account that others may use, or that have a page.
    pub fn shared_by(&self, account: &AccountId) -> Vec<SessionId> {
        let state = lock(&self.0.state);
        let with_page = state.sessions.pages.values().map(|it| &it.session);
        let granted = state.sessions.grants.iter().filter(|(_, grants)| !grants.is_empty()).map(|(id, _)| id);
        let mut shared: Vec<SessionId> = granted
            .chain(with_page)
            .filter(|id| state.sessions.owners.get(*id) == Some(account))
            .cloned()
            .collect();
        shared.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        shared.dedup();
        shared
    }

    /// Returns the sessions of others that a visitor may use, each with its owner.
    pub fn shared_with(&self, visitor: &Visitor) -> Vec<(SessionId, Level, AccountId)> {
        let state = lock(&self.0.state);
        let shared = state.sessions.grants.keys().filter_map(|id| {
            let owner = state.sessions.owners.get(id).filter(|it| **it != visitor.account)?;
            Some((id.clone(), state.sessions.level(visitor, id)?, owner.clone()))
        });
        shared.collect()
    }

    /// Makes a page's link and returns its key; a session that has one keeps it.
    pub fn make_page(&self, page: &PageLink) -> Result<String, AccountsError> {
        let new = ids::random(PAGE_CHARS);
        let write = |to: &rusqlite::Transaction<'_>| {
            let statement = "INSERT INTO page VALUES (?1, ?2, ?3, ?4) ON CONFLICT (session) DO UPDATE SET \
                             needs_login = excluded.needs_login, ends = excluded.ends RETURNING key";
            let values = params![new, key(&page.session), page.needs_login, page.ends];
            Ok(to.query_row(statement, values, |row| row.get::<_, String>(0))?)
        };
        self.change(write, |state, key| {
            state.sessions.pages.insert(key.clone(), page.clone());
        })
    }

    /// Takes a page back; false if there was none.
    pub fn drop_page(&self, session: &SessionId) -> Result<bool, AccountsError> {
        if !lock(&self.0.state).sessions.pages.values().any(|it| it.session == *session) {
            return Ok(false);
        }
        let write = |to: &rusqlite::Transaction<'_>| {
            Ok(to.execute("DELETE FROM page WHERE session = ?1", [key(session)])? > 0)
        };
        self.change(write, |state, _| state.sessions.pages.retain(|_, it| it.session != *session))
    }

    /// Returns the page of a key, unless its time is over.
    pub fn page(&self, key: &str) -> Option<PageLink> {
        let state = lock(&self.0.state);
        state.sessions.pages.get(key).filter(|it| it.ends.is_none_or(|ends| ends > now_ms())).cloned()
    }
}
