//! The people of a server: their logins, tokens, sessions, and the audit.

pub mod account;
pub mod audit;
pub mod credential;
pub mod error;
pub mod login;
pub mod store;

pub use account::{Account, AccountId, Level, Role, Scope, Visitor};
pub use audit::AuditEntry;
pub use credential::{Credential, Kind, NewCredential};
pub use error::AccountsError;
pub use store::{
    AccountChange, Accounts,
    credentials::{TOKEN_START, as_visitor},
    sessions::{Grant, PageLink},
    shared::{Row, SharedRows, Turn},
};
