//! An account, its role, and how much of a session it may use.

use std::{fmt, path::Path};

use serde::{Deserialize, Serialize};

/// The id of an account: `acc_` and random characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccountId(pub(crate) String);

impl AccountId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The part of a person in a team, from the smallest to the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads the sessions that are shared with it.
    Reader,
    /// Has sessions of its own, and uses those that are shared with it.
    Member,
    /// Changes the server's settings and accounts as well.
    Admin,
}

/// The use of a session, from the smallest to the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Read,
    /// Answers its questions, too.
    Answer,
    /// Gives it prompts, too.
    Prompt,
    /// Changes, shares and deletes it, too.
    Own,
}

/// The most that a token is good for, also where its account may do more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Read,
    Answer,
    /// All that a member does.
    Work,
    Admin,
}

impl Role {
    /// Returns the greatest use of sessions.
    pub fn most(self) -> Level {
        match self {
            Self::Reader => Level::Read,
            Self::Member | Self::Admin => Level::Own,
        }
    }

    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Member => "member",
            Self::Admin => "admin",
        }
    }

    /// Reads the word for it.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Reader, Self::Member, Self::Admin].into_iter().find(|it| it.name() == text)
    }
}

impl Level {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Answer => "answer",
            Self::Prompt => "prompt",
            Self::Own => "own",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Read, Self::Answer, Self::Prompt, Self::Own].into_iter().find(|it| it.name() == text)
    }
}

impl Scope {
    /// Returns the greatest use of sessions.
    pub fn most(self) -> Level {
        match self {
            Self::Read => Level::Read,
            Self::Answer => Level::Answer,
            Self::Work | Self::Admin => Level::Own,
        }
    }

    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Answer => "answer",
            Self::Work => "work",
            Self::Admin => "admin",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Read, Self::Answer, Self::Work, Self::Admin].into_iter().find(|it| it.name() == text)
    }
}

/// A person, or a program that has an account of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Account {
    pub id: AccountId,
    /// The id of the login's provider in the settings, `invitation` for a login by link, `gateway` for a gateway's.
    pub provider: String,
    /// The person's id at the provider.
    #[serde(skip)]
    pub subject: String,
    pub name: String,
    pub role: Role,
    /// Directories that it may open, with all below them.
    pub directories: Vec<String>,
    /// Milliseconds since the epoch.
    pub created: i64,
}

impl Account {
    /// Returns true if it may open a directory.
    pub fn may_open(&self, directory: &Path) -> bool {
        may_open(self.role, &self.directories, directory)
    }
}

fn may_open(role: Role, directories: &[String], directory: &Path) -> bool {
    role == Role::Admin || directories.iter().any(|it| directory.starts_with(it))
}

/// The account that makes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visitor {
    pub account: AccountId,
    pub name: String,
    pub role: Role,
    pub scope: Scope,
    /// Directories that it may open, with all below them.
    pub directories: Vec<String>,
    /// The credential that it showed, by its public id; none of a gateway's.
    pub credential: Option<String>,
    /// The address that it came from, for the audit; empty where there is none.
    pub address: String,
}

impl Visitor {
    /// Returns the greatest use of any session.
    pub fn most(&self) -> Level {
        self.role.most().min(self.scope.most())
    }

    /// Returns true for administrators by a credential that is good for that.
    pub fn is_admin(&self) -> bool {
        self.role == Role::Admin && self.scope == Scope::Admin
    }

    /// Returns true if it may open a directory. Administrators may open all, with any token.
    pub fn may_open(&self, directory: &Path) -> bool {
        may_open(self.role, &self.directories, directory)
    }
}
