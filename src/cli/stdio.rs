//! Standard input and output that no thread waits for, where they are pipes or sockets. Editors on Node or libuv give
//! their children sockets.

use std::{
    fs, io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    pin::Pin,
    task::{Context, Poll, ready},
};

use nix::sys::socket::{MsgFlags, SockType, getsockopt, recv, send, sockopt};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf, unix::AsyncFd},
    net::unix::pipe,
};

/// Returns standard input. Must be called within the runtime.
pub fn input() -> Box<dyn AsyncRead + Send + Unpin> {
    // Opened anew: the description that was inherited may be shared with programs that expect its calls to wait. Of a pipe
    // with a name the new one would not be told that its writers have gone before.
    let is_nameless = fs::read_link("/proc/self/fd/0")
        .is_ok_and(|it| it.as_os_str().as_encoded_bytes().starts_with(b"pipe:"));
    if is_nameless && let Ok(pipe) = pipe::OpenOptions::new().open_receiver("/proc/self/fd/0") {
        return Box::new(pipe);
    }
    match Socket::of(io::stdin(), Interest::READABLE) {
        Ok(socket) => Box::new(socket),
        Err(_) => Box::new(tokio::io::stdin()),
    }
}

/// Returns standard output. Must be called within the runtime.
pub fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    if let Ok(pipe) = pipe::OpenOptions::new().open_sender("/proc/self/fd/1") {
        return Box::new(pipe);
    }
    match Socket::of(io::stdout(), Interest::WRITABLE) {
        Ok(socket) => Box::new(socket),
        Err(_) => Box::new(tokio::io::stdout()),
    }
}

/// A socket that cannot be opened anew, and whose description stays one that waits: each call says that it does not.
struct Socket(AsyncFd<OwnedFd>);

impl Socket {
    fn of(descriptor: impl AsFd, interest: Interest) -> io::Result<Self> {
        if getsockopt(&descriptor, sockopt::SockType)? != SockType::Stream {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let descriptor = descriptor.as_fd().try_clone_to_owned()?;
        #[expect(
            unsafe_code,
            reason = "registering a descriptor is unsafe; this one is owned by what registers it"
        )]
        // SAFETY: `AsyncFd` owns the descriptor, which stays open and the same until it is dropped.
        let registered = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
        Ok(Self(registered?))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            let unfilled = buffer.initialize_unfilled();
            let received =
                guard.try_io(|socket| Ok(recv(socket.as_raw_fd(), unfilled, MsgFlags::MSG_DONTWAIT)?));
            match received {
                Ok(Ok(n_read)) => {
                    buffer.advance(n_read);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                // The socket has nothing; it is waited for.
                Err(_) => {}
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        loop {
            let mut guard = ready!(self.0.poll_write_ready(cx))?;
            match guard.try_io(|socket| Ok(send(socket.as_raw_fd(), bytes, flags)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(sent) => return Poll::Ready(sent),
                // The socket is full; it is waited for.
                Err(_) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
