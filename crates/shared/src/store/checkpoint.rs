//! A session as it is, in the place of the log that led to it: so that a log stays short.

use windlass_base::{blocking::blocking, lock::lock};
use windlass_core::storage::{Write, outlet::SharedError};
use windlass_protocol::opencode::id::SessionId;

use super::{
    Shared,
    append::{Columns, Listed, checkpoint_place, ended, unreadable},
    failure::refused,
    form,
};

impl Shared {
    /// Makes the checkpoints that are due, until the node ends.
    pub(crate) async fn make_checkpoints(&self) {
        let Some(mut due) = lock(&self.0.due.1).take() else { return };
        loop {
            let session = tokio::select! {
                session = due.recv() => session,
                () = self.0.stop.cancelled() => None,
            };
            let Some(session) = session else { return };
            if let Err(error) = self.checkpoint(&session).await {
                tracing::warn!(%session, %error, "a checkpoint was not made; the log grows");
            }
        }
    }

    /// Writes a session of this node as it is.
    ///
    /// The rows may be ahead of the log's number that it is written under; a change that is carried out again changes
    /// nothing.
    pub(crate) async fn checkpoint(&self, root: &SessionId) -> Result<(), SharedError> {
        let (seq, epoch, directory) = {
            let table = lock(&self.0.table);
            let Some(held) = table.acked(root).zip(table.epoch(root)).zip(table.directory(root)) else {
                return Ok(());
            };
            (held.0.0, held.0.1, held.1)
        };
        let Some(writes) = self.0.storage.as_writes(root.clone()).await? else { return Ok(()) };
        let mut listed: Vec<Listed> = Vec::new();
        for write in &writes {
            if let Write::Session(session) = write {
                listed.extend(self.listed(&session.id).await?);
            }
        }
        self.keys().await?;
        let (shared, session) = (self.clone(), root.to_string());
        let encoded = blocking(move || {
            let keys = shared.0.keys.get().ok_or_else(ended)?;
            form::encode(&writes, &directory, keys, &session, &checkpoint_place(&session, seq))
                .map_err(|error| unreadable(&session, &error))
        });
        let encoded = encoded.await?;
        let node = self.node_id().ok_or_else(ended)?;
        let mut client = self.0.database.client().await?;
        let transaction = client.transaction().await.map_err(refused)?;
        let put = self.0.database.sql(
            "INSERT INTO {s}.checkpoint (session_id, seq, epoch, data) SELECT l.session_id, $4, l.epoch, $5 FROM \
             (SELECT session_id, epoch FROM {s}.lease WHERE session_id = $1 AND owner = $2 AND epoch = $3 \
             FOR KEY SHARE) l ON CONFLICT (session_id) DO UPDATE SET seq = excluded.seq, epoch = excluded.epoch, \
             data = excluded.data",
        );
        let n_put = transaction
            .execute(&put, &[&root.as_str(), &node, &epoch, &seq, &encoded.data])
            .await
            .map_err(refused)?;
        if n_put == 0 {
            // The next append finds out by whom.
            return Ok(());
        }
        let cut = self.0.database.sql("DELETE FROM {s}.event WHERE session_id = $1 AND seq <= $2");
        transaction.execute(&cut, &[&root.as_str(), &seq]).await.map_err(refused)?;
        let (hashes, blobs): (Vec<&[u8]>, Vec<&[u8]>) =
            encoded.blobs.iter().map(|(hash, blob)| (hash.as_slice(), blob.as_slice())).unzip();
        if !hashes.is_empty() {
            let put = self.0.database.sql(
                "INSERT INTO {s}.blob (session_id, hash, data) SELECT $1, b.hash, b.data FROM \
                 unnest($2::bytea[], $3::bytea[]) AS b(hash, data) ON CONFLICT DO NOTHING",
            );
            transaction.execute(&put, &[&root.as_str(), &hashes, &blobs]).await.map_err(refused)?;
        }
        let rows: Vec<(&str, &Listed)> = listed.iter().map(|row| (root.as_str(), row)).collect();
        let columns = Columns::new(&rows);
        let list = self.0.database.sql(
            "INSERT INTO {s}.session (root_id, session_id, parent_id, project_id, updated, archived, data) \
             SELECT r.* FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::boolean[], \
             $7::bytea[]) AS r(root_id, session_id, parent_id, project_id, updated, archived, data) \
             ON CONFLICT (session_id) DO UPDATE SET project_id = excluded.project_id, updated = excluded.updated, \
             archived = excluded.archived, data = excluded.data, change = excluded.change",
        );
        transaction
            .execute(
                &list,
                &[
                    &columns.roots,
                    &columns.sessions,
                    &columns.parents,
                    &columns.projects,
                    &columns.updated,
                    &columns.archived,
                    &columns.data,
                ],
            )
            .await
            .map_err(refused)?;
        transaction.commit().await.map_err(refused)?;
        lock(&self.0.table).note_checkpoint(root, encoded.data.len());
        Ok(())
    }
}
