//! Keeps the store's file and its log small.

use std::time::Duration;

use super::{Storage, StorageError, open};

impl Storage {
    /// Moves the log into the file and empties it, unless somebody reads what that would overwrite. Then the next time
    /// will do as well.
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

    /// Gives the room of deleted rows back to the disk.
    pub async fn shrink(&self) -> Result<(), StorageError> {
        self.writer.read(|connection| Ok(connection.execute_batch("VACUUM")?)).await?;
        self.empty_log().await
    }
}
