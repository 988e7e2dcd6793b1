//! Tokens, cookies and links: the secrets that accounts show.

use rusqlite::{OptionalExtension, params};
use windlass_base::{clock::now_ms, ids, lock::lock};

use super::{Accounts, clean, hash, read};
use crate::{
    account::{Account, AccountId, Scope, Visitor},
    credential::{Credential, Kind, NewCredential},
    error::AccountsError,
};

/// Characters of a secret: 238 bits.
const SECRET_CHARS: usize = 40;
/// The beginning of a token, by which people and scanners know it.
pub const TOKEN_START: &str = "wlt_";
/// Tokens of one account.
const MAX_TOKENS: i64 = 100;
/// Cookies of one account; the oldest gives way.
pub(super) const MAX_COOKIES: i64 = 32;

/// The time in which an invitation's link can be followed.
const LINK_LIFETIME: i64 = 7 * 24 * 3_600_000;

impl Accounts {
    /// Makes a credential and returns its secret, which is not kept.
    ///
    /// # Errors
    ///
    /// The account is gone, or has 100 tokens.
    pub fn issue(&self, account: &AccountId, new: NewCredential) -> Result<String, AccountsError> {
        let start = if new.kind == Kind::Token { TOKEN_START } else { "" };
        let secret = format!("{start}{}", ids::random(SECRET_CHARS));
        let (hash, now) = (hash(&secret), now_ms());
        let credential = Credential {
            id: ids::random(12),
            account: account.clone(),
            kind: new.kind,
            name: clean(&new.name)?,
            scope: new.scope,
            created: now,
            ends: new.ends,
        };
        let write = |to: &rusqlite::Transaction<'_>| {
            // Another process may have removed the account.
            let is_there: Option<i64> = to
                .query_row("SELECT 1 FROM account WHERE id = ?1", [&account.0], |row| row.get(0))
                .optional()?;
            is_there.ok_or_else(|| AccountsError::Unknown(account.0.clone()))?;
            to.execute("DELETE FROM credential WHERE ends <= ?1", [now])?;
            let count = "SELECT count(*) FROM credential WHERE account = ?1 AND kind = ?2";
            let n_such: i64 = to.query_row(count, params![account.0, new.kind.name()], |row| row.get(0))?;
            if new.kind == Kind::Token && n_such >= MAX_TOKENS {
                return Err(AccountsError::TooManyTokens(MAX_TOKENS));
            }
            if new.kind == Kind::Cookie && n_such >= MAX_COOKIES {
                to.execute(
                    "DELETE FROM credential WHERE hash = (SELECT hash FROM credential WHERE account = ?1 AND kind = 'cookie' \
                     ORDER BY created LIMIT 1)",
                    [&account.0],
                )?;
            }
            to.execute(
                "INSERT INTO credential VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    hash,
                    credential.id,
                    account.0,
                    new.kind.name(),
                    credential.name,
                    new.scope.name(),
                    now,
                    new.ends
                ],
            )?;
            read::credentials(to)
        };
        self.change(write, |state, credentials| state.credentials.clone_from(credentials))?;
        Ok(secret)
    }

    /// Returns the account that shows a secret, if it holds.
    pub fn visitor(&self, secret: &str) -> Option<(Visitor, Credential)> {
        let state = lock(&self.0.state);
        let credential = state.credentials.get(&hash(secret))?;
        if credential.ends <= now_ms() || credential.kind == Kind::Link {
            return None;
        }
        let visitor =
            visitor(state.accounts.get(&credential.account)?, credential.scope, Some(credential.id.clone()));
        Some((visitor, credential.clone()))
    }

    /// Returns a visitor as it is now: with a smaller role, or none at all where its credential or account is gone.
    pub fn again(&self, earlier: &Visitor) -> Option<Visitor> {
        let state = lock(&self.0.state);
        if let Some(id) = &earlier.credential {
            let now = now_ms();
            state.credentials.values().find(|it| it.id == *id && it.ends > now)?;
        }
        let now = visitor(state.accounts.get(&earlier.account)?, earlier.scope, earlier.credential.clone());
        Some(Visitor { address: earlier.address.clone(), ..now })
    }

    /// Returns the end of the credential that a visitor showed, in milliseconds since the epoch.
    pub fn end_of(&self, visitor: &Visitor) -> Option<i64> {
        let state = lock(&self.0.state);
        let own = state.credentials.values().find(|it| Some(&it.id) == visitor.credential.as_ref());
        own.map(|it| it.ends)
    }

    /// Returns the account of a link without using it up.
    pub fn link_of(&self, secret: &str) -> Option<Account> {
        let state = lock(&self.0.state);
        let credential = state.credentials.get(&hash(secret))?;
        let holds = credential.kind == Kind::Link && credential.ends > now_ms();
        state.accounts.get(&credential.account).filter(|_| holds).cloned()
    }

    /// Uses a link up, and returns its account.
    pub fn follow(&self, secret: &str) -> Result<Option<Account>, AccountsError> {
        if self.link_of(secret).is_none() {
            return Ok(None);
        }
        let hash = hash(secret);
        let write = |to: &rusqlite::Transaction<'_>| {
            let found: Option<String> = to
                .query_row(
                    "DELETE FROM credential WHERE hash = ?1 AND kind = 'link' AND ends > ?2 RETURNING account",
                    params![hash, now_ms()],
                    |row| row.get(0),
                )
                .optional()?;
            Ok(found)
        };
        let account = self.change(write, |state, _| {
            state.credentials.remove(&hash);
        })?;
        Ok(account.and_then(|id| self.get(&AccountId(id))))
    }

    /// Returns an account's credentials of a kind that hold, the oldest first.
    pub fn credentials(&self, account: &AccountId, kind: Kind) -> Vec<Credential> {
        let state = lock(&self.0.state);
        let now = now_ms();
        let own = state
            .credentials
            .values()
            .filter(|it| it.account == *account && it.kind == kind && it.ends > now);
        let mut own: Vec<Credential> = own.cloned().collect();
        own.sort_by_key(|it| it.created);
        own
    }

    /// Revokes a credential of an account; false if it has none with this id or name.
    pub fn revoke(&self, account: &AccountId, id: &str) -> Result<bool, AccountsError> {
        let is_meant = |it: &Credential| {
            it.account == *account
                && it.kind != Kind::Link
                && (it.id == id || it.kind == Kind::Token && it.name == id)
        };
        if !lock(&self.0.state).credentials.values().any(is_meant) {
            return Ok(false);
        }
        let write = |to: &rusqlite::Transaction<'_>| {
            let statement = "DELETE FROM credential WHERE account = ?1 AND kind <> 'link' AND (id = ?2 OR kind = 'token' AND name = ?2)";
            Ok(to.execute(statement, params![account.0, id])? > 0)
        };
        self.change(write, |state, _| state.credentials.retain(|_, it| !is_meant(it)))
    }

    /// Revokes all credentials of an account.
    pub fn revoke_all(&self, account: &AccountId) -> Result<(), AccountsError> {
        let write = |to: &rusqlite::Transaction<'_>| {
            to.execute("DELETE FROM credential WHERE account = ?1", [&account.0])?;
            to.execute("DELETE FROM renewal WHERE account = ?1", [&account.0])?;
            Ok(())
        };
        self.change(write, |state, ()| {
            state.credentials.retain(|_, it| it.account != *account);
            state.renewals.remove(account);
        })
    }

    /// Gives a browser a new secret; the old one holds for requests that are on their way.
    pub fn rotate(
        &self,
        secret: &str,
        new: NewCredential,
        old_ends: i64,
    ) -> Result<Option<String>, AccountsError> {
        let hash = hash(secret);
        let Some(account) = lock(&self.0.state).credentials.get(&hash).map(|it| it.account.clone()) else {
            return Ok(None);
        };
        let write = |to: &rusqlite::Transaction<'_>| {
            // Of several requests at once, one rotates.
            let statement = "UPDATE credential SET ends = ?2 WHERE hash = ?1 AND ends > ?2";
            Ok(to.execute(statement, params![hash, old_ends])? > 0)
        };
        let is_first = self.change(write, |state, _| {
            if let Some(credential) = state.credentials.get_mut(&hash) {
                credential.ends = credential.ends.min(old_ends);
            }
        })?;
        if is_first { self.issue(&account, new).map(Some) } else { Ok(None) }
    }

    /// Makes a link of a server by which a person logs into an account once.
    pub fn invite(&self, account: &Account, url: &str) -> Result<String, AccountsError> {
        let new = NewCredential {
            kind: Kind::Link,
            name: "link".to_owned(),
            scope: Scope::Admin,
            ends: now_ms() + LINK_LIFETIME,
        };
        Ok(format!("{url}/account/enter?key={}", self.issue(&account.id, new)?))
    }
}

fn visitor(account: &Account, scope: Scope, credential: Option<String>) -> Visitor {
    Visitor {
        account: account.id.clone(),
        name: account.name.clone(),
        role: account.role,
        scope,
        directories: account.directories.clone(),
        credential,
        address: String::new(),
    }
}

/// Returns an account as a visitor that showed no credential of ours, such as a gateway's person.
pub fn as_visitor(account: &Account) -> Visitor {
    visitor(account, Scope::Admin, None)
}
