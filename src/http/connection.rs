//! A connection that ends when its client says nothing at first, or takes nothing for too long.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::OwnedSemaphorePermit,
    time::{Instant, Sleep},
};

/// Time for which a client may take nothing that is ready for it.
const STALL_LIMIT: Duration = Duration::from_secs(60);

/// A stream that fails its first read if nothing comes for a while, and its writes once they have made no progress for
/// a while.
pub struct Stalling<T> {
    stream: T,
    /// Runs until the first byte has come.
    first: Option<Pin<Box<Sleep>>>,
    /// Runs while a write waits.
    limit: Option<Pin<Box<Sleep>>>,
    /// Its place among the connections that are open at once.
    _place: OwnedSemaphorePermit,
}

impl<T> Stalling<T> {
    /// Makes a stream with `first_limit` for the client's first byte.
    pub fn new(stream: T, first_limit: Duration, place: OwnedSemaphorePermit) -> Self {
        let first = Some(Box::pin(tokio::time::sleep(first_limit)));
        Self { stream, first, limit: None, _place: place }
    }

    /// Passes on the end of a write, or fails one that has waited too long.
    fn watch<R>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.limit = None;
            return written;
        }
        let limit = self
            .limit
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + STALL_LIMIT)));
        ready!(limit.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads nothing")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stalling<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.first = None;
        }
        let Some(first) = &mut self.first else { return read };
        ready!(first.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client says nothing")))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stalling<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, ended)
    }
}

#[cfg(test)]
mod tests;
