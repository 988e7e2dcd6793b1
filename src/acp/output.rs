//! Writes encoded lines: bytes only, as fast as the client reads them.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    time::{Instant, timeout_at},
};

use super::trace::Trace;

/// Bytes of capacity that are kept between writes.
const KEPT: usize = 256 * 1024;
/// Time for which a client may read nothing once it cannot ask for anything any more.
const PATIENCE: Duration = Duration::from_secs(3);

/// The output, and the bytes that are on their way to it.
pub struct Writer<W> {
    output: W,
    trace: Arc<Trace>,
    /// Whole lines.
    bytes: Vec<u8>,
    n_written: usize,
    /// The moment at which a client that reads nothing is given up, once it has closed the input.
    deadline: Option<Instant>,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub fn new(output: W, trace: Arc<Trace>) -> Self {
        Self { output, trace, bytes: Vec::with_capacity(16 * 1024), n_written: 0, deadline: None }
    }

    /// Makes a client that reads nothing for some seconds count as gone from now on.
    pub fn hurry(&mut self) {
        self.deadline = Some(Instant::now() + PATIENCE);
    }

    /// Returns true if a client that reads nothing counts as gone soon.
    pub fn is_hurried(&self) -> bool {
        self.deadline.is_some()
    }

    /// Returns true if everything was written.
    pub fn is_idle(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Lets `encode` append lines, which [`Writer::write`] then writes. For an idle writer.
    pub fn fill(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.bytes);
        self.renew();
        for line in self.bytes.split_inclusive(|byte| *byte == b'\n') {
            self.trace.sent(line.trim_ascii_end());
        }
    }

    /// Writes the rest. A call that is dropped halfway is continued by the next one.
    pub async fn write(&mut self) -> io::Result<()> {
        while let Some(rest) = self.bytes.get(self.n_written..).filter(|rest| !rest.is_empty()) {
            let n_written = within(self.deadline, self.output.write(rest)).await?;
            if n_written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.n_written += n_written;
            self.renew();
        }
        within(self.deadline, self.output.flush()).await?;
        self.n_written = 0;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        Ok(())
    }

    fn renew(&mut self) {
        if self.deadline.is_some() {
            self.hurry();
        }
    }
}

async fn within<T>(deadline: Option<Instant>, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, work).await?,
        None => work.await,
    }
}
