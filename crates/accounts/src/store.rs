//! The file with all accounts, and its contents in memory: requests are judged without a read.

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, TryLockError},
};

use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use windlass_base::{clock::now_ms, ids, lock::lock, text::visible_line};
use windlass_protocol::opencode::id::SessionId;

use crate::{
    account::{Account, AccountId, Role},
    credential::Credential,
    error::AccountsError,
};

pub mod credentials;
mod keys;
mod read;
mod renewal;
pub mod sessions;
pub mod shared;
mod spent;

/// Characters of a name.
const MAX_NAME: usize = 100;
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
    /// The rows of all servers, where several share the accounts.
    common: Option<shared::Common>,
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
        Self::open_with(file, None)
    }

    /// Opens the copy of accounts that several servers share, or makes it, and brings it up to date. Waits for the
    /// shared rows.
    ///
    /// # Errors
    ///
    /// As [`Accounts::open`], or the rows cannot be had.
    pub fn open_shared(file: &Path, rows: Box<dyn shared::SharedRows>) -> Result<Self, AccountsError> {
        let accounts = Self::open_with(file, Some(shared::Common::new(rows)))?;
        accounts.catch_up()?;
        Ok(accounts)
    }

    fn open_with(file: &Path, common: Option<shared::Common>) -> Result<Self, AccountsError> {
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
        if common.is_some() {
            shared::prepare(&connection)?;
        }
        let version = data_version(&connection)?;
        let state = read::all(&connection)?;
        let (changes, _) = watch::channel(0);
        let (connection, state) = (Mutex::new((connection, version)), Mutex::new(state));
        let directory = file.with_extension("audit");
        Ok(Self(Arc::new(Inner { common, directory, connection, state, changes })))
    }

    /// Takes up the changes of other processes, such as `windlass account remove`. A read of a counter where there are none.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the rows that servers share have been out of reach for too long.
    pub fn refresh(&self) -> Result<(), AccountsError> {
        if let Some(common) = &self.0.common {
            common.check()?;
        }
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

    /// Reads something that is in no memory.
    pub(crate) fn with_connection<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, AccountsError>,
    ) -> Result<T, AccountsError> {
        work(&lock(&self.0.connection).0)
    }

    /// Changes something that is in no memory.
    pub(crate) fn write<T>(
        &self,
        write: impl FnOnce(&Connection, &Path) -> Result<T, AccountsError>,
    ) -> Result<T, AccountsError> {
        let (written, _) = self.written(|to| write(to, &self.0.directory), |_, _| {})?;
        Ok(written)
    }

    /// Changes the file, and then the memory.
    fn change<T>(
        &self,
        write: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, AccountsError>,
        apply: impl FnOnce(&mut State, &T),
    ) -> Result<T, AccountsError> {
        let (written, has_news) = self.written(write, apply)?;
        if !has_news {
            self.0.changes.send_modify(|count| *count += 1);
        }
        Ok(written)
    }

    /// Changes the file, and then the memory. Returns true if changes of others have come with it.
    fn written<T>(
        &self,
        write: impl FnOnce(&rusqlite::Transaction<'_>) -> Result<T, AccountsError>,
        apply: impl FnOnce(&mut State, &T),
    ) -> Result<(T, bool), AccountsError> {
        let mut connection = lock(&self.0.connection);
        let (written, has_news) = match &self.0.common {
            Some(common) => shared::write(common, &mut connection.0, write)?,
            None => {
                let transaction =
                    connection.0.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
                let written = write(&transaction)?;
                transaction.commit()?;
                (written, false)
            }
        };
        if has_news {
            let state = read::all(&connection.0)?;
            lock(&self.0.state).replace(state);
            self.0.changes.send_modify(|count| *count += 1);
        } else {
            apply(&mut lock(&self.0.state), &written);
        }
        Ok((written, has_news))
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
        let account = new_account(provider, subject, name, role, directories)?;
        self.change(
            |to| insert(to, account),
            |state, account| {
                state.accounts.insert(account.id.clone(), account.clone());
            },
        )
    }

    /// Makes the first administrator; none where there is one. Of servers that share the accounts, one makes it.
    pub fn create_first(&self, provider: &str, name: &str) -> Result<Option<Account>, AccountsError> {
        let account = new_account(provider, None, name, Role::Admin, Vec::new())?;
        let write = |to: &rusqlite::Transaction<'_>| {
            let has_one = read::accounts(to)?.values().any(|it| it.role == Role::Admin);
            if has_one { Ok(None) } else { insert(to, account).map(Some) }
        };
        self.change(write, |state, account| {
            state.accounts.extend(account.iter().map(|it| (it.id.clone(), it.clone())));
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
    ///
    /// # Errors
    ///
    /// There is no such account, or no other administrator.
    pub fn update(&self, id: &AccountId, change: AccountChange) -> Result<Account, AccountsError> {
        let name = change.name.map(|name| clean(&name)).transpose()?;
        let write = |to: &rusqlite::Transaction<'_>| {
            let found = read::accounts(to)?.remove(id);
            let mut account = found.ok_or_else(|| AccountsError::Unknown(id.0.clone()))?;
            if change.role.is_some_and(|role| role != Role::Admin) {
                check_last_administrator(to, &account)?;
            }
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
    ///
    /// # Errors
    ///
    /// There is no other administrator.
    pub fn remove(&self, id: &AccountId) -> Result<(), AccountsError> {
        let person = self.get(id).map(|it| (it.provider, it.subject));
        let write = |to: &rusqlite::Transaction<'_>| {
            if let Some(account) = read::accounts(to)?.get(id) {
                check_last_administrator(to, account)?;
            }
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
}

fn new_account(
    provider: &str,
    subject: Option<&str>,
    name: &str,
    role: Role,
    directories: Vec<String>,
) -> Result<Account, AccountsError> {
    let id = AccountId(format!("acc_{}", ids::random(16)));
    Ok(Account {
        provider: provider.to_owned(),
        subject: subject.unwrap_or(id.as_str()).to_owned(),
        name: clean(name)?,
        role,
        directories,
        created: now_ms(),
        id,
    })
}

/// Writes a new account.
fn insert(to: &Connection, account: Account) -> Result<Account, AccountsError> {
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
    if written == 0 { Err(AccountsError::Taken(account.name)) } else { Ok(account) }
}

impl State {
    /// Takes up the contents of the file, but for the sessions below others, which are in no file.
    fn replace(&mut self, read: Self) {
        let below = std::mem::take(&mut self.sessions.below);
        *self = read;
        self.sessions.below = below;
    }
}

/// Refuses to take the last administrator away.
fn check_last_administrator(to: &Connection, account: &Account) -> Result<(), AccountsError> {
    let others = "SELECT count(*) FROM account WHERE role = ?1 AND id <> ?2";
    let n_others: i64 = to.query_row(others, [Role::Admin.name(), account.id.as_str()], |row| row.get(0))?;
    let is_last = account.role == Role::Admin && n_others == 0;
    if is_last { Err(AccountsError::LastAdministrator(account.name.clone())) } else { Ok(()) }
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
