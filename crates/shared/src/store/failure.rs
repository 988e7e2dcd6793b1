//! Failures of the shared Postgres: refusals, and a server that is out of reach.

use std::{error::Error, time::Duration};

use windlass_core::storage::outlet::SharedError;

/// Time in which a connection is made, or an answer comes.
pub const LIMIT: Duration = Duration::from_secs(5);
/// Waits for the database no longer than [`LIMIT`].
pub async fn limited<T>(work: impl Future<Output = Result<T, SharedError>>) -> Result<T, SharedError> {
    match tokio::time::timeout(LIMIT, work).await {
        Ok(done) => done,
        Err(_elapsed) => Err(unreachable("it does not answer within 5 s".to_owned())),
    }
}

/// Tells a refusal of the server from a connection that failed.
pub fn refused(error: tokio_postgres::Error) -> SharedError {
    let Some(answer) = error.as_db_error() else {
        let mut reason = error.to_string();
        if let Some(source) = error.source() {
            reason = format!("{reason}: {source}");
        }
        return unreachable(reason);
    };
    let code = answer.code().code();
    let reason = format!("{} ({code})", answer.message());
    // Connections, resources, an operator who stops it, a server that may not write: it may work again later.
    match code.get(..2).unwrap_or_default() {
        // A statement that took too long would do so again.
        _ if code == "57014" => SharedError::Refused { reason },
        "08" | "53" | "57" | "25" | "40" | "58" => unreachable(reason),
        _other => SharedError::Refused { reason },
    }
}

pub fn unreachable(reason: String) -> SharedError {
    SharedError::Unreachable { reason }
}
