//! The proxy of a sandboxed command: the one way out of its network, by name.
//!
//! The listener is made inside the command's namespace and handed over, so that no other process can connect to it. The first
//! byte of a connection tells HTTP from SOCKS.

use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

pub mod authority;
mod door;
pub mod gate;
mod http;
mod intercept;
pub mod keys;
mod message;
mod socks;

use self::gate::{Gate, PATIENCE};
use super::{
    names::Names,
    process::{Child, Spawn},
    sandbox::{self, Boundary, Network, PROXY_PORT},
};

/// Connections of a command at one time. More wait in the listener's queue.
const MAX_CONNECTIONS: usize = 96;
/// Connections of all commands, each of which takes two descriptors of the daemon.
static CONNECTIONS: Semaphore = Semaphore::const_new(160);
/// Pause behind a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(100);
/// The variables by which programs find a proxy.
const VARIABLES: [&str; 10] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "CARGO_HTTP_PROXY",
    "npm_config_https_proxy",
    "npm_config_proxy",
    "PIP_PROXY",
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
    let mut without = spawn.without.to_vec();
    let of_keys = gate.keys().into_iter().flat_map(|it| it.variables());
    for (name, value) in variables(gate.names()).chain(of_keys) {
        without.retain(|it| *it != name);
        environment.insert(name, value);
    }
    let spawn = &Spawn { environment: &environment, without: &without, ..*spawn };
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
                let (stream, _) = match accepted {
                    Ok(accepted) => accepted,
                    // Such as one for which there was no descriptor.
                    Err(error) => {
                        tracing::warn!(%error, "the proxy of a command cannot take a connection");
                        sleep(PAUSE).await;
                        continue;
                    }
                };
                let gate = gate.clone();
                connections.spawn(async move {
                    let _place = CONNECTIONS.acquire().await;
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
