//! Writes encoded lines: bytes only, as fast as the client reads them.

use std::{io, sync::Arc};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::trace::Trace;

/// Bytes of capacity that are kept between writes.
const KEPT: usize = 256 * 1024;

/// The output, and the bytes that are on their way to it.
pub struct Writer<W> {
    output: W,
    trace: Arc<Trace>,
    /// Whole lines.
    bytes: Vec<u8>,
    n_written: usize,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub fn new(output: W, trace: Arc<Trace>) -> Self {
        Self { output, trace, bytes: Vec::with_capacity(16 * 1024), n_written: 0 }
    }

    /// Returns true if everything was written.
    pub fn is_idle(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Lets `encode` append lines, which [`Writer::write`] then writes. For an idle writer.
    pub fn fill(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.bytes);
        for line in self.bytes.split_inclusive(|byte| *byte == b'\n') {
            self.trace.sent(line.trim_ascii_end());
        }
    }

    /// Writes what is left. A call that is dropped halfway is continued by the next one.
    pub async fn write(&mut self) -> io::Result<()> {
        while let Some(rest) = self.bytes.get(self.n_written..).filter(|rest| !rest.is_empty()) {
            let n_written = self.output.write(rest).await?;
            if n_written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.n_written += n_written;
        }
        self.output.flush().await?;
        self.n_written = 0;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        Ok(())
    }
}
