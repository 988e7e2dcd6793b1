//! `windlass serve`: OpenCode's HTTP API, for its SDK and the programs that were written against it.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio_util::sync::CancellationToken;

use super::{output, runtime};
use crate::{
    base::sandbox,
    config::{Environment, paths::Paths},
    engine::Engine,
    http::{self, Access, Listener, Options, Password},
};

/// User name where the environment gives none.
const USER: &str = "opencode";

/// Flags of `windlass serve`, which are OpenCode's.
#[derive(Debug, Default, Args)]
pub struct ServeArgs {
    /// Port to listen on; without one 4096, or any if that is taken.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Address to listen on; one that others can reach needs OPENCODE_SERVER_PASSWORD.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    hostname: String,
    /// Unix socket to listen on too.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Origin whose pages may use the server; may be repeated.
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    #[arg(long, hide = true)]
    pure: bool,
}

pub fn run(environment: Environment, args: ServeArgs) -> ExitCode {
    let address = match address(&args.hostname) {
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
    let access = Arc::new(Access::new(password, args.cors.clone()));
    runtime::block_on(async move {
        let listeners = match listen(&args, address).await {
            Ok(listeners) => listeners,
            Err(code) => return code,
        };
        let paths = Paths::new(&environment);
        let engine = Engine::new(environment, paths);
        runtime::serve_plugins(&engine);
        if let Some(bound) = listeners.first().and_then(Listener::address)
            && let Err(code) = output::print(&line(&args.hostname, bound))
        {
            return code;
        }
        let stop = CancellationToken::new();
        let options = Options { directory, access };
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
fn line(hostname: &str, bound: SocketAddr) -> String {
    let host = if hostname.contains(':') { format!("[{hostname}]") } else { hostname.to_owned() };
    format!("opencode server listening on http://{host}:{}", bound.port())
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

async fn listen(args: &ServeArgs, address: IpAddr) -> Result<Vec<Listener>, ExitCode> {
    let tcp = http::bind(address, args.port).await.map_err(|error| {
        output::fail(&format!(
            "ServeError: {address}:{} cannot be listened on: {error}. Choose another --port.",
            args.port
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
