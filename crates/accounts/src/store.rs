//! The file with all accounts, and its contents in memory: requests are judged without a read.

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, TryLockError},
};

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use windlass_base::{clock::now_ms, ids, lock::lock, text::visible_line};
use windlass_protocol::opencode::id::SessionId;

use crate::{
    account::{Account, AccountId, Role, Scope, Visitor},
    error::AccountsError,
};

mod keys;
mod read;
mod renewal;
pub mod sessions;
mod spent;

/// Characters of a secret: 238 bits.
const SECRET_CHARS: usize = 40;
/// The beginning of a token, by which people and scanners know it.
pub const TOKEN_START: &str = "wlt_";
/// Characters of a name.
const MAX_NAME: usize = 100;
/// Tokens of one account.
const MAX_TOKENS: i64 = 100;
/// Cookies of one account; the oldest gives way.
const MAX_COOKIES: i64 = 32;

/// The tables. A change of them that an older windlass cannot read raises the number in `user_version`.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS account (
  id TEXT PRIMARY KEY, provider TEXT NOT NULL, subject TEXT NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL,
  directories TEXT NOT NULL, created INTEGER NOT NULL, UNIQUE (provider, subject));
CREATE TABLE IF NOT EXISTS credential (
  hash BLOB PRIMARY KEY, id TEXT NOT NULL, account TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
  scope TEXT NOT NULL, created INTEGER NOT NULL, ends INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS owner (session TEXT PRIMARY KEY, account TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS access (
  session TEXT NOT NULL, account TEXT NOT NULL, level TEXT NOT NULL, ends INTEGER, PRIMARY KEY (session, account));
CREATE TABLE IF NOT EXISTS page (
  key TEXT PRIMARY KEY, session TEXT NOT NULL UNIQUE, needs_login INTEGER NOT NULL, ends INTEGER);
CREATE TABLE IF NOT EXISTS audit (
  id INTEGER PRIMARY KEY, time INTEGER NOT NULL, account TEXT, name TEXT NOT NULL, action TEXT NOT NULL,
  subject TEXT NOT NULL, detail TEXT NOT NULL, address TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS removed (provider TEXT NOT NULL, subject TEXT NOT NULL, PRIMARY KEY (provider, subject));
CREATE TABLE IF NOT EXISTS renewal (account TEXT PRIMARY KEY, token TEXT NOT NULL, due INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS provider_key (
  account TEXT NOT NULL, provider TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (account, provider));
CREATE TABLE IF NOT EXISTS spent (account TEXT NOT NULL, hour INTEGER NOT NULL, cost REAL NOT NULL, PRIMARY KEY (account, hour));
CREATE TRIGGER IF NOT EXISTS audit_stays BEFORE UPDATE ON audit
  BEGIN SELECT RAISE(ABORT, 'rows of the audit are not changed'); END;
PRAGMA user_version = 1;";
/// The number of the tables.
const VERSION: i64 = 1;

/// The kinds of secrets that an account shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A browser's.
    Cookie,
    /// A program's.
    Token,
    /// One that a person follows once, to get a cookie.
    Link,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Cookie => "cookie",
            Self::Token => "token",
            Self::Link => "link",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Cookie, Self::Token, Self::Link].into_iter().find(|it| it.name() == text)
    }
}

/// A secret of an account, without the secret itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// Its public id.
    pub id: String,
    pub account: AccountId,
    pub kind: Kind,
    pub name: String,
    pub scope: Scope,
    /// Milliseconds since the epoch.
    pub created: i64,
    pub ends: i64,
}

/// A credential that is to be made.
#[derive(Debug, Clone)]
pub struct NewCredential {
    pub kind: Kind,
    pub name: String,
    pub scope: Scope,
    /// Milliseconds since the epoch.
    pub ends: i64,
}

/// A change of an account; absent fields stay as they are.
#[derive(Debug, Clone, Default)]
pub struct AccountChange {
    pub name: Option<String>,
    pub role: Option<Role>,
    pub directories: Option<Vec<String>>,
}

type Hash = [u8; 32];

#[derive(Default)]
struct State {
    accounts: HashMap<AccountId, Account>,
    credentials: HashMap<Hash, Credential>,
    sessions: sessions::Sessions,
    /// Persons whose accounts were removed, by provider and subject.
    removed: HashSet<(String, String)>,
    spent: spent::Spent,
    renewals: renewal::Renewals,
    keys: keys::Keys,
}

struct Inner {
    /// Of the oldest rows of the audit.
    directory: PathBuf,
    /// With the number by which it tells changes of others.
    connection: Mutex<(Connection, i64)>,
    state: Mutex<State>,
    /// Counts the changes, for streams that are open.
    changes: watch::Sender<u64>,
}

/// See the module's comment. Clones are the same store. Methods that change something do blocking writes.
#[derive(Clone)]
pub struct Accounts(Arc<Inner>);

impl std::fmt::Debug for Accounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Accounts")
    }
}

impl Accounts {
    /// Opens the file, or makes it for this user alone. Does blocking reads.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, or a newer windlass has made it.
    pub fn open(file: &Path) -> Result<Self, AccountsError> {
        let failed = |reason: String| AccountsError::Store(format!("{}: {reason}", file.display()));
        if let Some(directory) = file.parent() {
            fs::create_dir_all(directory).map_err(|error| failed(error.to_string()))?;
        }
        let made = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(file);
        made.map_err(|error| failed(error.to_string()))?;
        let connection = Connection::open(file).map_err(|error| failed(error.to_string()))?;
        let prepare = || -> Result<i64, rusqlite::Error> {
            connection.busy_timeout(std::time::Duration::from_secs(5))?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            // A token that was revoked is not to come back with the power.
            connection.pragma_update(None, "synchronous", "FULL")?;
            connection.query_row("PRAGMA user_version", [], |row| row.get(0))
        };
        let version = prepare().map_err(|error| failed(error.to_string()))?;
        if version > VERSION {
            return Err(failed("a newer windlass made it; run that one".to_owned()));
        }
        connection.execute_batch(SCHEMA).map_err(|error| failed(error.to_string()))?;
        let version = data_version(&connection)?;
        let state = read::all(&connection)?;
        let (changes, _) = watch::channel(0);
        let (connection, state) = (Mutex::new((connection, version)), Mutex::new(state));
        let directory = file.with_extension("audit");
        Ok(Self(Arc::new(Inner { directory, connection, state, changes })))
    }

    /// Takes up the changes of other processes, such as `windlass account remove`. A read of a counter where there are none.
    pub fn refresh(&self) -> Result<(), AccountsError> {
        let mut connection = match self.0.connection.try_lock() {
            Ok(connection) => connection,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // A write of our own; the next request looks again.
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        let version = data_version(&connection.0)?;
        if version != connection.1 {
            let state = read::all(&connection.0)?;
            connection.1 = version;
            lock(&self.0.state).replace(state);
            self.0.changes.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    /// Returns the count of changes, which can be waited for.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Reads or writes something that is in no memory.
    pub(crate) fn with_connection<T>(
        &self,
        work: impl FnOnce(&Connection, &Path) -> Result<T, AccountsError>,
    ) -> Result<T, AccountsError> {
        work(&lock(&self.0.connection).0, &self.0.directory)
    }

    /// Changes the file, and then the memory.
    fn change<T>(
        &self,
        write: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, AccountsError>,
        apply: impl FnOnce(&mut State, &T),
    ) -> Result<T, AccountsError> {
        let mut connection = lock(&self.0.connection);
        let transaction = connection.0.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let written = write(&transaction)?;
        transaction.commit()?;
        apply(&mut lock(&self.0.state), &written);
        self.0.changes.send_modify(|count| *count += 1);
        Ok(written)
    }

    /// Makes an account.
    ///
    /// # Errors
    ///
    /// The person has one by this provider.
    pub fn create(
        &self,
        provider: &str,
        subject: Option<&str>,
        name: &str,
        role: Role,
        directories: Vec<String>,
    ) -> Result<Account, AccountsError> {
        let id = AccountId(format!("acc_{}", ids::random(16)));
        let account = Account {
            provider: provider.to_owned(),
            subject: subject.unwrap_or(id.as_str()).to_owned(),
            name: clean(name)?,
            role,
            directories,
            created: now_ms(),
            id,
        };
        let write = |to: &rusqlite::Transaction<'_>| {
            let directories = directories_text(&account.directories)?;
            let written = to.execute(
                "INSERT INTO account VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
                params![
                    account.id.0,
                    account.provider,
                    account.subject,
                    account.name,
                    account.role.name(),
                    directories,
                    account.created
                ],
            )?;
            if written == 0 { Err(AccountsError::Taken(account.name.clone())) } else { Ok(account.clone()) }
        };
        self.change(write, |state, account| {
            state.accounts.insert(account.id.clone(), account.clone());
        })
    }

    /// Returns all accounts, by name.
    pub fn list(&self) -> Vec<Account> {
        let mut accounts: Vec<Account> = lock(&self.0.state).accounts.values().cloned().collect();
        accounts.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
        accounts
    }

    /// Returns an account.
    pub fn get(&self, id: &AccountId) -> Option<Account> {
        lock(&self.0.state).accounts.get(id).cloned()
    }

    /// Returns the account with this id or name.
    ///
    /// # Errors
    ///
    /// There is none, or several have the name.
    pub fn named(&self, text: &str) -> Result<Account, AccountsError> {
        let state = lock(&self.0.state);
        if let Some(account) = state.accounts.values().find(|it| it.id.0 == text) {
            return Ok(account.clone());
        }
        let mut named = state.accounts.values().filter(|it| it.name == text);
        match (named.next(), named.next()) {
            (Some(account), None) => Ok(account.clone()),
            (None, _) => Err(AccountsError::Unknown(text.to_owned())),
            (Some(_), Some(_)) => Err(AccountsError::Ambiguous(text.to_owned())),
        }
    }

    /// Returns the account of a person at a provider.
    pub fn of_person(&self, provider: &str, subject: &str) -> Option<Account> {
        let state = lock(&self.0.state);
        state.accounts.values().find(|it| it.provider == provider && it.subject == subject).cloned()
    }

    /// Returns true if the account of a person was removed.
    pub fn is_removed(&self, provider: &str, subject: &str) -> bool {
        lock(&self.0.state).removed.contains(&(provider.to_owned(), subject.to_owned()))
    }

    /// Changes an account.
    pub fn update(&self, id: &AccountId, change: AccountChange) -> Result<Account, AccountsError> {
        let name = change.name.map(|name| clean(&name)).transpose()?;
        let write = |to: &rusqlite::Transaction<'_>| {
            let found = read::accounts(to)?.remove(id);
            let mut account = found.ok_or_else(|| AccountsError::Unknown(id.0.clone()))?;
            account.name = name.unwrap_or(account.name);
            account.role = change.role.unwrap_or(account.role);
            account.directories = change.directories.unwrap_or(account.directories);
            let directories = directories_text(&account.directories)?;
            to.execute(
                "UPDATE account SET name = ?2, role = ?3, directories = ?4 WHERE id = ?1",
                params![account.id.0, account.name, account.role.name(), directories],
            )?;
            Ok(account)
        };
        self.change(write, |state, account| {
            state.accounts.insert(account.id.clone(), account.clone());
        })
    }

    /// Removes an account with its credentials, the access that others gave it, and that to its sessions. These stay,
    /// closed to all, and its person gets no other account by the same login.
    pub fn remove(&self, id: &AccountId) -> Result<(), AccountsError> {
        let person = self.get(id).map(|it| (it.provider, it.subject));
        let write = |to: &rusqlite::Transaction<'_>| {
            for statement in [
                "INSERT OR IGNORE INTO removed SELECT provider, subject FROM account WHERE id = ?1",
                "DELETE FROM account WHERE id = ?1",
                "DELETE FROM credential WHERE account = ?1",
                "DELETE FROM access WHERE account = ?1 OR session IN (SELECT session FROM owner WHERE account = ?1)",
                "DELETE FROM page WHERE session IN (SELECT session FROM owner WHERE account = ?1)",
                "DELETE FROM renewal WHERE account = ?1",
                "DELETE FROM provider_key WHERE account = ?1",
            ] {
                to.execute(statement, [&id.0])?;
            }
            Ok(())
        };
        self.change(write, |state, ()| {
            state.accounts.remove(id);
            state.removed.extend(person);
            state.renewals.remove(id);
            state.keys.retain(|(of, _), _| of != id);
            state.credentials.retain(|_, it| it.account != *id);
            state.sessions.remove_account(id);
        })
    }

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
        Some(visitor(state.accounts.get(&earlier.account)?, earlier.scope, earlier.credential.clone()))
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
}

impl State {
    /// Takes up the contents of the file, but for the sessions below others, which are in no file.
    fn replace(&mut self, read: Self) {
        let below = std::mem::take(&mut self.sessions.below);
        *self = read;
        self.sessions.below = below;
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
    }
}

/// Returns an account as a visitor that showed no credential of ours, such as a gateway's person.
pub fn as_visitor(account: &Account) -> Visitor {
    visitor(account, Scope::Admin, None)
}

fn data_version(connection: &Connection) -> Result<i64, AccountsError> {
    let mut statement = connection.prepare_cached("PRAGMA data_version")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

fn hash(secret: &str) -> Hash {
    Sha256::digest(secret.as_bytes()).into()
}

/// Returns a name as one visible line.
fn clean(name: &str) -> Result<String, AccountsError> {
    let name: String = visible_line(name.trim()).chars().take(MAX_NAME).collect();
    if name.is_empty() { Err(AccountsError::NoName) } else { Ok(name) }
}

fn directories_text(directories: &[String]) -> Result<String, AccountsError> {
    serde_json::to_string(directories).map_err(|error| AccountsError::Store(error.to_string()))
}

/// Returns the id of a session as the tables have it.
fn key(id: &SessionId) -> &str {
    id.as_str()
}

#[cfg(test)]
mod tests;
