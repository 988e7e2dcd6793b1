//! The people of a server: their logins, tokens, sessions, and the audit.

pub mod account;
pub mod audit;
pub mod error;
pub mod login;
pub mod store;

pub use account::{Account, AccountId, Level, Role, Scope, Visitor};
pub use audit::AuditEntry;
pub use error::AccountsError;
pub use store::{
    AccountChange, Accounts, Credential, Kind, NewCredential, TOKEN_START, as_visitor,
    sessions::{Grant, PageLink},
};
