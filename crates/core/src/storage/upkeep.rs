//! Keeps the store's file and its log small.

use std::time::Duration;

use rusqlite::Connection;

use super::{Storage, StorageError, open};

impl Storage {
    /// Moves the log into the file and empties it, unless somebody reads pages that it would overwrite. Then the next
    /// time will do as well.
    pub async fn empty_log(&self) -> Result<(), StorageError> {
        self.writer
            .read(|connection| {
                connection.busy_timeout(Duration::ZERO)?;
                let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
                connection.busy_timeout(open::BUSY_LIMIT)?;
                emptied.or_else(|error| match StorageError::from(error) {
                    StorageError::Locked(_) => Ok(()),
                    other => Err(other),
                })
            })
            .await
    }

    /// Gives the room of deleted rows back to the disk. Returns false, and leaves it, if another process has the store
    /// open: it could not write meanwhile.
    pub async fn shrink(&self) -> Result<bool, StorageError> {
        let presence = self.presence.clone();
        let shrink = move |connection: &mut Connection| {
            let is_alone = presence.is_alone();
            if is_alone {
                connection.execute_batch("VACUUM")?;
            }
            Ok(is_alone)
        };
        let is_shrunk = self.writer.read(shrink).await?;
        self.empty_log().await?;
        Ok(is_shrunk)
    }
}
