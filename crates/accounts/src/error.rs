//! The ways in which the store of accounts refuses.

/// A refusal, as a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountsError {
    #[error("The accounts cannot be read or written: {0}.")]
    Store(String),
    #[error("The accounts are shared, and {0}.")]
    OutOfReach(String),
    #[error("There is no account `{0}`; `windlass account list` shows all.")]
    Unknown(String),
    #[error("Several accounts are called `{0}`; name one by its id, which `windlass account list` shows.")]
    Ambiguous(String),
    #[error("There is an account of {0} by this login already.")]
    Taken(String),
    #[error("{0} is the last administrator; make another one first.")]
    LastAdministrator(String),
    #[error("A name has to have visible characters.")]
    NoName,
    #[error("The account has {0} tokens; revoke one first.")]
    TooManyTokens(i64),
    #[error("The account has {0} keys of providers; remove one first.")]
    TooManyKeys(i64),
    #[error("The session is shared with {0} accounts; share it with everybody, or take it back from some.")]
    TooManyGrants(i64),
}

impl From<rusqlite::Error> for AccountsError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.to_string())
    }
}
