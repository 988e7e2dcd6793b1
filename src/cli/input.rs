//! Standard input that is read, and says nothing for a while: the user is told that it waits for input.

use std::{future::Future, io, pin::pin, time::Duration};

use tokio::{io::AsyncReadExt, time::timeout};

use super::output;

/// Silence after which a command says that it waits for input.
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns the input, and says on standard error that it waits when nothing comes for a while.
pub async fn read<T>(reading: impl Future<Output = T>, waits_for: &str) -> T {
    let mut reading = pin!(reading);
    if let Ok(read) = timeout(PATIENCE, &mut reading).await {
        return read;
    }
    output::note(waits_for);
    reading.await
}

/// Reads standard input to its end, or one byte more than `limit`.
pub async fn read_to_end(limit: u64, waits_for: &str) -> io::Result<Vec<u8>> {
    let mut input = tokio::io::stdin().take(limit + 1);
    let mut bytes = Vec::new();
    // Once something has come, the program that writes it is known to work.
    if read(input.read_buf(&mut bytes), waits_for).await? > 0 {
        input.read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
