//! The accounts of a team's servers, where machines share sessions.

use std::time::Duration;

use tokio::sync::watch;
use windlass_shared::{PeopleRow, PeopleTurn};

use super::{Fleet, nothing_shared};
use crate::EngineError;

impl Fleet<'_> {
    /// Returns the number that tells this fleet from others; `None` where nothing is shared.
    ///
    /// # Errors
    ///
    /// The setting is wrong, or the database is out of reach.
    pub async fn number(self) -> Result<Option<i64>, EngineError> {
        match self.shared().await? {
            Some(shared) => Ok(Some(shared.number().await?)),
            None => Ok(None),
        }
    }

    /// Reads the rows of accounts that changed behind a number.
    pub async fn people_since(self, change: i64) -> Result<Vec<PeopleRow>, EngineError> {
        Ok(self.shared().await?.ok_or_else(nothing_shared)?.people_since(change).await?)
    }

    /// Waits for the turn to change accounts.
    pub async fn begin_people(self, since: i64) -> Result<PeopleTurn, EngineError> {
        Ok(self.shared().await?.ok_or_else(nothing_shared)?.begin_people(since).await?)
    }

    /// Ends a turn with rows that are written, and returns the number of the last.
    pub async fn put_people(turn: PeopleTurn, rows: &[PeopleRow]) -> Result<i64, EngineError> {
        Ok(turn.put(rows).await?)
    }

    /// Returns a count of the changes that other nodes tell of; `None` where nothing is shared.
    pub async fn people_changes(self) -> Option<watch::Receiver<u64>> {
        Some(self.shared().await.ok()??.people_changes())
    }

    /// Returns the time for which a node may go on without the database.
    pub fn lease(self) -> Duration {
        self.found().map_or(Duration::ZERO, windlass_shared::Shared::lease)
    }
}
