//! Listens on TCP and on Unix sockets, and takes connections, each with its limits.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{Router, body::Body, http::Uri};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use nix::sys::stat::{Mode, umask};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::util::ServiceExt;

use super::{connection::Stalling, peer::Peer};

/// The port that OpenCode's clients try first.
const USUAL_PORT: u16 = 4096;
/// Connections that are open at once; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;
/// Time that a client has for the head of a request, also of the next one on its connection.
const HEAD_LIMIT: Duration = Duration::from_secs(60);
/// Time that a client has to agree on encryption.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of a request's head.
const MAX_HEAD: usize = 64 << 10;
/// Time that connections get to finish when the server ends.
const END_LIMIT: Duration = Duration::from_millis(300);
/// Pause after a connection could not be accepted, such as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A place where the server can be reached.
pub enum Listener {
    /// Encrypted where there is an acceptor.
    Tcp(TcpListener, Option<TlsAcceptor>),
    Unix(UnixListener, SocketFile),
}

/// The file of a Unix socket, which goes with its listener.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Returns the address that was bound.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener, _) => listener.local_addr().ok(),
            Self::Unix(..) => None,
        }
    }

    fn tls(&self) -> Option<&TlsAcceptor> {
        match self {
            Self::Tcp(_, tls) => tls.as_ref(),
            Self::Unix(..) => None,
        }
    }
}

/// Binds a TCP port; 0 means the usual one if it is free, else any.
pub async fn bind(address: IpAddr, port: u16, tls: Option<TlsAcceptor>) -> io::Result<Listener> {
    let listener = match port {
        0 => match TcpListener::bind((address, USUAL_PORT)).await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind((address, 0)).await?,
        },
        port => TcpListener::bind((address, port)).await?,
    };
    Ok(Listener::Tcp(listener, tls))
}

/// Binds a Unix socket that only this user can reach; one that a server left behind is replaced.
pub fn bind_socket(path: &Path) -> io::Result<Listener> {
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
    }
    let is_socket = std::fs::symlink_metadata(path)
        .is_ok_and(|it| std::os::unix::fs::FileTypeExt::is_socket(&it.file_type()));
    if is_socket {
        std::fs::remove_file(path)?;
    }
    // Nobody else connects before the permissions are set.
    let mask = umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(path);
    umask(mask);
    let listener = bound?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(Listener::Unix(listener, SocketFile(path.to_owned())))
}

/// Takes connections until `stop` is cancelled.
pub async fn accept(listener: Listener, router: Router, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let connections = TaskTracker::new();
    while let Some(place) = places.clone().acquire_owned().await.ok().filter(|_| !stop.is_cancelled()) {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = next(&listener) => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (router, stop, tls) = (router.clone(), stop.clone(), listener.tls().cloned());
        connections.spawn(async move {
            if let Some(stream) = encrypted(stream, tls).await {
                // A WebSocket outlives this task, and keeps the place.
                serve(Stalling::new(stream, HEAD_LIMIT, place), peer, router, stop).await;
            }
        });
    }
    connections.close();
    let _ = tokio::time::timeout(END_LIMIT, connections.wait()).await;
}

/// A connected client.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn next(listener: &Listener) -> io::Result<(Box<dyn Stream>, Peer)> {
    match listener {
        Listener::Tcp(listener, _) => {
            let (stream, address) = listener.accept().await?;
            // Deltas are small and must not wait for one another.
            let _ = stream.set_nodelay(true);
            let peer = Peer::of_tcp(&stream, address);
            Ok((Box::new(stream), peer))
        }
        Listener::Unix(listener, _) => {
            let (stream, _) = listener.accept().await?;
            let peer = Peer::of_socket(&stream);
            Ok((Box::new(stream), peer))
        }
    }
}

/// Agrees on encryption where the listener wants it; `None` if the client does not.
async fn encrypted(stream: Box<dyn Stream>, tls: Option<TlsAcceptor>) -> Option<Box<dyn Stream>> {
    let Some(tls) = tls else { return Some(stream) };
    match tokio::time::timeout(HANDSHAKE_LIMIT, tls.accept(stream)).await {
        Ok(Ok(stream)) => Some(Box::new(stream)),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a client and the server agree on no encryption");
            None
        }
        Err(_) => None,
    }
}

/// Serves a connection's requests, in either version of the protocol.
async fn serve(stream: Stalling<Box<dyn Stream>>, peer: Peer, router: Router, stop: CancellationToken) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        if let Some(uri) = without_trailing_slash(request.uri()) {
            *request.uri_mut() = uri;
        }
        router.clone().oneshot(request)
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).max_buf_size(MAX_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD as u32)
        .keep_alive_interval(HEAD_LIMIT);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Returns the address without slashes at the end of its path; `None` if there are none.
fn without_trailing_slash(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    let plain = path.trim_end_matches('/');
    if plain.len() == path.len() || path == "/" {
        return None;
    }
    let plain = if plain.is_empty() { "/" } else { plain };
    let path = match uri.query() {
        Some(query) => format!("{plain}?{query}"),
        None => plain.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path.parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests;
