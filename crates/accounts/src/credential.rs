//! The secrets of an account, without the secrets themselves.

use crate::account::{AccountId, Scope};

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
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cookie => "cookie",
            Self::Token => "token",
            Self::Link => "link",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
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
