//! The proxy of a sandboxed command: the one way out of its network, by name.
//!
//! The listener is made inside the command's namespace and handed over, so that nobody else can connect to it. The first
//! byte of a connection tells HTTP from SOCKS.

use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::Arc,
};

use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

mod door;
pub mod gate;
mod http;
mod socks;

use self::gate::{Gate, PATIENCE};
use super::{
    names::Names,
    process::{Child, Spawn},
    sandbox::{self, Boundary, Network, PROXY_PORT},
};

/// Connections of a command at one time. More wait in the listener's queue.
const MAX_CONNECTIONS: usize = 128;
/// The variables by which programs find a proxy.
const VARIABLES: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "CARGO_HTTP_PROXY",
    "npm_config_proxy",
];
/// The hosts that programs connect to directly: the command's own.
const DIRECT: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Returns the variables by which programs use the proxy.
fn variables(names: &Names) -> impl Iterator<Item = (String, String)> {
    // One that the user names is the machine's.
    let direct = DIRECT.iter().filter(|host| !names.names(host) && !names.names(&format!("[{host}]")));
    let direct = direct.copied().collect::<Vec<_>>().join(",");
    // Libraries without SOCKS fail on its addresses, and all of them know HTTP.
    let address = format!("http://127.0.0.1:{PROXY_PORT}");
    let own = VARIABLES.iter().map(move |name| ((*name).to_owned(), address.clone()));
    let direct = ["NO_PROXY", "no_proxy"].map(|name| (name.to_owned(), direct.clone()));
    own.chain(direct).chain([("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned())])
}

/// Starts a command within a boundary, and its proxy where its network is one by name.
pub fn spawn(
    spawn: &Spawn<'_>,
    boundary: &Boundary,
    gate: Option<&Arc<Gate>>,
    channel: Option<OwnedFd>,
) -> io::Result<Child> {
    let Some(gate) = gate.filter(|_| boundary.network == Network::Named) else {
        return sandbox::spawn_with_channel(spawn, boundary, channel);
    };
    let mut environment = spawn.environment.clone();
    environment.extend(variables(gate.names()));
    let spawn = &Spawn { environment: &environment, ..*spawn };
    let mut child = sandbox::spawn_with_channel(spawn, boundary, channel)?;
    child.proxy = child.door.take().map(|door| start(door, gate.clone()));
    Ok(child)
}

/// Serves the listener that comes through the door until the handle is dropped.
fn start(door: UnixStream, gate: Arc<Gate>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        if let Err(error) = serve(door, &gate).await {
            tracing::warn!(%error, "the proxy of a command has ended");
        }
    }))
}

async fn serve(door: UnixStream, gate: &Arc<Gate>) -> io::Result<()> {
    let Some(listener) = door::receive(door).await? else { return Ok(()) };
    let listener = listener_of(listener)?;
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                let (stream, _) = accepted?;
                let gate = gate.clone();
                connections.spawn(async move {
                    if let Err(error) = connection(stream, gate).await {
                        tracing::debug!(%error, "a connection through the proxy has failed");
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

fn listener_of(listener: OwnedFd) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(listener);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn connection(stream: TcpStream, gate: Arc<Gate>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut first = [0];
    let n_bytes = timeout(PATIENCE, stream.peek(&mut first)).await??;
    match first {
        _ if n_bytes == 0 => Ok(()),
        [socks::VERSION] => socks::serve(stream, &gate).await,
        _http => http::serve(stream, gate).await,
    }
}
