//! `windlass serve`: OpenCode's HTTP API, for its SDK and the programs that were written against it.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{acp::login_command, output, runtime};
use crate::{
    base::sandbox,
    config::{Environment, layers, paths::Paths},
    engine::Engine,
    http::{self, Access, Listener, Options, Password},
};

/// User name where the environment gives none.
const USER: &str = "opencode";
/// Address where none is given.
const LOOPBACK: &str = "127.0.0.1";

/// Flags of `windlass serve`, which are OpenCode's.
#[derive(Debug, Default, Args)]
pub struct ServeArgs {
    /// Port to listen on; without one 4096, or any if that is taken.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Address to listen on, else 127.0.0.1; one that others can reach needs OPENCODE_SERVER_PASSWORD.
    #[arg(long, value_name = "ADDRESS")]
    hostname: Option<String>,
    /// Unix socket to listen on too.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Origin whose pages may use the server; may be repeated.
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    /// Speak TLS with the certificates of this PEM file, the server's own first.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the key of the certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    #[arg(long, hide = true)]
    mdns: bool,
    #[arg(long, hide = true)]
    mdns_domain: Option<String>,
    #[arg(long, hide = true)]
    pure: bool,
}

/// The clients that the server is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Programs,
    Browser,
}

pub fn run(environment: Environment, args: ServeArgs, purpose: Purpose) -> ExitCode {
    if args.mdns || args.mdns_domain.is_some() {
        return output::misuse(
            "The server is not announced by mDNS: leave --mdns out, and tell clients its address.",
        );
    }
    let paths = Paths::new(&environment);
    // A project must not open the server to others.
    let settings = layers::of_user(&environment, &paths).settings.server;
    let hostname = args.hostname.clone().or(settings.hostname).unwrap_or_else(|| LOOPBACK.to_owned());
    let port = args.port.or(settings.port).unwrap_or_default();
    let address = match address(&hostname) {
        Ok(address) => address,
        Err(code) => return code,
    };
    let password = password(&environment);
    if password.is_none() && !address.is_loopback() {
        return output::misuse(&format!(
            "Anybody who reaches {address} could run commands here: set OPENCODE_SERVER_PASSWORD, or leave --hostname at \
             127.0.0.1."
        ));
    }
    let directory = match output::directory(None) {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    sandbox::begin();
    raise_descriptor_limit();
    let tls = match args.tls_cert.as_deref().zip(args.tls_key.as_deref()) {
        Some((certificates, key)) => match http::acceptor(certificates, key) {
            Ok(tls) => Some(tls),
            Err(reason) => return output::misuse(&reason),
        },
        None => None,
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let origins = args.cors.iter().cloned().chain(settings.cors).collect();
    let access = Arc::new(Access::new(password, origins));
    runtime::block_on(async move {
        let listeners = match listen(&args, (address, port), tls).await {
            Ok(listeners) => listeners,
            Err(code) => return code,
        };
        let engine = Engine::new(environment, paths);
        runtime::serve_plugins(&engine);
        if let Some(bound) = listeners.first().and_then(Listener::address)
            && let Err(code) = output::print(&line(scheme, &hostname, bound))
        {
            return code;
        }
        if purpose == Purpose::Browser {
            output::note("Open this address in a browser; Ctrl-C ends the server.");
        }
        let stop = CancellationToken::new();
        let options = Options { directory, access, login_command: login_command() };
        let serving = http::serve(engine.clone(), options, listeners, stop.clone());
        tokio::pin!(serving);
        tokio::select! {
            _ = runtime::signalled() => {
                stop.cancel();
                tokio::join!(engine.abort(), serving);
            }
            () = &mut serving => {}
        }
        ExitCode::SUCCESS
    })
}

/// Returns the line that programs wait for which start a server.
fn line(scheme: &str, hostname: &str, bound: SocketAddr) -> String {
    let host = if hostname.contains(':') { format!("[{hostname}]") } else { hostname.to_owned() };
    format!("opencode server listening on {scheme}://{host}:{}", bound.port())
}

fn address(hostname: &str) -> Result<IpAddr, ExitCode> {
    if hostname == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    hostname.parse().map_err(|_| {
        output::misuse(&format!(
            "`{hostname}` is no address: give --hostname one such as 127.0.0.1, or 0.0.0.0 for all of this machine's."
        ))
    })
}

fn password(environment: &Environment) -> Option<Password> {
    let password = environment.get("OPENCODE_SERVER_PASSWORD").filter(|password| !password.is_empty())?;
    let user = environment.get("OPENCODE_SERVER_USERNAME").filter(|user| !user.is_empty());
    Some(Password { user: user.unwrap_or(USER).to_owned(), password: password.to_owned() })
}

async fn listen(
    args: &ServeArgs,
    (address, port): (IpAddr, u16),
    tls: Option<TlsAcceptor>,
) -> Result<Vec<Listener>, ExitCode> {
    let tcp = http::bind(address, port, tls).await.map_err(|error| {
        output::fail(&format!(
            "ServeError: {address}:{port} cannot be listened on: {error}. Choose another --port."
        ))
    })?;
    let mut listeners = vec![tcp];
    if let Some(path) = &args.socket {
        let socket = http::bind_socket(path).map_err(|error| {
            output::fail(&format!(
                "{} cannot be listened on: {error}. Choose another --socket.",
                path.display()
            ))
        })?;
        listeners.push(socket);
    }
    Ok(listeners)
}

/// Lets the process have as many connections as the system allows it.
fn raise_descriptor_limit() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if soft < hard
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
    {
        tracing::debug!(%error, "the limit of descriptors stays");
    }
}
