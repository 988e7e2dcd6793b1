//! `windlass serve`: OpenCode's HTTP API, for its SDK and the programs that were written against it.

use std::{
    io::{self, IsTerminal},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use windlass_base::{process::desktop, sandbox};
use windlass_core::config::{Environment, layers, paths::Paths};
use windlass_engine::Engine;
use windlass_protocol::opencode::settings::ServerSettings;

use super::{acp::login_command, output, runtime, server_keys::ServerKeys};
use crate::http::{self, Access, Announcement, Entry, Listener, Options, Password};

mod pairing;
mod team;

/// User name where the environment gives none.
const USER: &str = "opencode";
/// Address where none is given.
const LOOPBACK: &str = "127.0.0.1";
/// The same for a server that others are to find.
const EVERYWHERE: &str = "0.0.0.0";
/// Host name of the announcement where none is given.
const ANNOUNCED_NAME: &str = "opencode.local";

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
    /// Ask everybody to log in: sessions belong to the accounts of people (docs/team.md).
    #[arg(long)]
    accounts: bool,
    /// Announce the server by mDNS, on all addresses unless --hostname names one.
    #[arg(long)]
    mdns: bool,
    /// Host name of the announcement, which ends in .local, else opencode.local.
    #[arg(long, value_name = "NAME")]
    mdns_domain: Option<String>,
}

/// Flags of `windlass web`.
#[derive(Debug, Default, Args)]
pub struct WebArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// Leave the browser alone; the address is printed.
    #[arg(long)]
    no_open: bool,
    /// Let a phone or another device of this network in: shows a link and a QR code that one device can follow, and listens on
    /// all addresses unless --hostname names one.
    #[arg(long)]
    pair: bool,
}

/// The clients that the server is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Programs,
    /// A browser, in which the page is opened or not.
    Browser {
        is_opened: bool,
    },
    /// A device elsewhere, which enters by a link.
    Device,
}

pub fn run_for_browser(environment: Environment, args: WebArgs) -> ExitCode {
    if args.pair {
        return run(environment, args.serve, Purpose::Device);
    }
    let has_display = cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY"]
            .iter()
            .any(|name| environment.get(name).is_some_and(|value| !value.is_empty()));
    // Without a terminal nobody has asked for a window.
    let is_opened = !args.no_open && has_display && io::stdout().is_terminal();
    run(environment, args.serve, Purpose::Browser { is_opened })
}

pub fn run(environment: Environment, args: ServeArgs, purpose: Purpose) -> ExitCode {
    serve(environment, args, purpose).unwrap_or_else(|code| code)
}

fn serve(mut environment: Environment, args: ServeArgs, purpose: Purpose) -> Result<ExitCode, ExitCode> {
    let paths = Paths::new(&environment);
    // A project must not open the server to others.
    let settings = layers::of_user(&environment, &paths).settings;
    let team_settings = team::settings(&mut environment, &settings, &args, purpose)?;
    let settings = settings.server;
    let announced = announced_name(&args, &settings)?;
    let is_pairing = purpose == Purpose::Device;
    let usual_hostname = if announced.is_some() || is_pairing { EVERYWHERE } else { LOOPBACK };
    let hostname = args.hostname.clone().or(settings.hostname).unwrap_or_else(|| usual_hostname.to_owned());
    let port = args.port.or(settings.port).unwrap_or_default();
    let address = address(&hostname)?;
    let password = password(&environment);
    if is_pairing && address.is_loopback() {
        return Err(output::misuse(&format!(
            "No other device reaches {address}: leave --hostname out, or name another."
        )));
    }
    if password.is_none() && !address.is_loopback() && !is_pairing && team_settings.is_none() {
        return Err(output::misuse(&format!(
            "Anybody who reaches {address} could run commands here: set OPENCODE_SERVER_PASSWORD, or leave --hostname at \
             127.0.0.1."
        )));
    }
    let directory = output::directory(None)?;
    sandbox::begin();
    raise_descriptor_limit();
    let tls = match args.tls_cert.as_deref().zip(args.tls_key.as_deref()) {
        Some((certificates, key)) => http::acceptor(certificates, key).map(Some),
        None => Ok(None),
    };
    let tls = tls.map_err(|reason| output::misuse(&reason))?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let origins: Vec<String> = args.cors.iter().cloned().chain(settings.cors).collect();
    let serving = async move {
        let listeners = listen(&args, (address, port), tls).await?;
        let bound = listeners.first().and_then(Listener::address);
        let page = bound.map(|bound| own_address(scheme, bound)).unwrap_or_default();
        let certificates = environment.get("NODE_EXTRA_CA_CERTS").map(Into::into);
        let engine = Engine::new(environment, paths.clone());
        let team = match team_settings {
            Some(settings) => {
                Some(team::open(settings, (&engine, &paths), (&page, bound), certificates).await?)
            }
            None => None,
        };
        let access = match &team {
            Some(_) => Ok((Arc::new(Access::new(None, origins).of_accounts()), None)),
            None => access((password, is_pairing), origins, &paths, bound),
        };
        let (access, _keys) = access?;
        if let Some(team) = &team {
            team::keep_apart(&engine, team);
        }
        runtime::serve_plugins(&engine);
        // A reader of the line may end the server at once.
        let signalled = runtime::signalled();
        tokio::pin!(signalled);
        if let Some(bound) = bound {
            let page = own_address(scheme, bound);
            // Plugins are on this machine.
            engine.plugins().show_server(page.clone());
            output::print(&line(scheme, &hostname, bound))?;
            match purpose {
                _ if team.is_some() => {}
                Purpose::Device => pairing::show(scheme, bound, &access),
                Purpose::Programs | Purpose::Browser { .. } => show_page(purpose, &page, &access),
            }
        }
        let announcement = bound.zip(announced).and_then(|(bound, name)| announce(bound, &name));
        join_fleet(&engine);
        let stop = CancellationToken::new();
        let options = Options { directory, access, team, login_command: login_command() };
        let serving = http::serve(engine.clone(), options, listeners, stop.clone());
        tokio::pin!(serving);
        tokio::select! {
            _ = &mut signalled => {
                stop.cancel();
                tokio::join!(engine.abort(), serving);
            }
            () = &mut serving => {}
        }
        if let Some(announcement) = announcement {
            announcement.end().await;
        }
        Ok(ExitCode::SUCCESS)
    };
    Ok(runtime::block_on(async { serving.await.unwrap_or_else(|code: ExitCode| code) }))
}

/// Makes the server a node of the fleet, if there is one.
fn join_fleet(engine: &Engine) {
    let joining = engine.clone();
    engine.spawn(async move {
        // The database may come later: the first session tries again, and says why it cannot be had.
        if let Err(error) = joining.fleet().join().await {
            output::note(&format!("This server is no node of the fleet yet: {error}."));
        }
    });
}

/// Returns the line that programs wait for which start a server.
fn line(scheme: &str, hostname: &str, bound: SocketAddr) -> String {
    let host = if hostname.contains(':') { format!("[{hostname}]") } else { hostname.to_owned() };
    format!("opencode server listening on {scheme}://{host}:{}", bound.port())
}

/// Returns the address by which programs of this machine reach the server.
fn own_address(scheme: &str, mut bound: SocketAddr) -> String {
    if bound.ip().is_unspecified() {
        bound.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    format!("{scheme}://{bound}")
}

/// Returns the host name under which the server is to be announced.
fn announced_name(args: &ServeArgs, settings: &ServerSettings) -> Result<Option<String>, ExitCode> {
    // OpenCode's flag and setting: a name alone announces nothing.
    if !args.mdns && settings.mdns != Some(true) {
        return Ok(None);
    }
    let name = args.mdns_domain.as_deref().or(settings.mdns_domain.as_deref()).unwrap_or(ANNOUNCED_NAME);
    let refuse = || {
        output::misuse(&format!(
            "`{name}` cannot be announced: give --mdns-domain a name such as opencode.local."
        ))
    };
    http::host_name(name).map(Some).ok_or_else(refuse)
}

/// Announces the server, unless only this machine reaches it.
fn announce(bound: SocketAddr, name: &str) -> Option<Announcement> {
    if bound.ip().is_loopback() {
        output::note(
            "The server is not announced by mDNS: only this machine reaches it; give another --hostname.",
        );
        return None;
    }
    let announced = http::announce(bound, name);
    announced
        .inspect_err(|error| output::note(&format!("The server is not announced by mDNS: {error}.")))
        .ok()
}

/// Shows the page in a browser, or says how. Without a password its address can be used once.
fn show_page(purpose: Purpose, address: &str, access: &Access) {
    let has_password = access.has_password();
    let link = || if has_password { address.to_owned() } else { format!("{address}{}", access.link()) };
    let is_opened = match purpose {
        Purpose::Programs if has_password => return,
        // Elsewhere it would stay in a log.
        Purpose::Programs if !io::stderr().is_terminal() => return,
        Purpose::Programs => return output::note(&format!("The page, for one browser: {}", link())),
        Purpose::Browser { is_opened } => is_opened,
        Purpose::Device => return,
    };
    if is_opened {
        match desktop::open(&link()) {
            // Whether a browser came of it is not known.
            Ok(()) => {
                let said = "The page is opened in the browser; Ctrl-C ends the server. If none shows it";
                return output::note(&format!("{said}: {}", link()));
            }
            Err(error) => tracing::debug!(%error, "the browser was not opened"),
        }
    }
    output::note(&format!("Open this address in a browser: {}; Ctrl-C ends the server.", link()));
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

/// Returns the rules of access, and the keys that last as long as the server; one with a password needs none.
fn access(
    (password, is_pairing): (Option<Password>, bool),
    origins: Vec<String>,
    paths: &Paths,
    bound: Option<SocketAddr>,
) -> Result<(Arc<Access>, Option<ServerKeys>), ExitCode> {
    if password.is_some() {
        return Ok((Arc::new(Access::new(password, origins).pairing(is_pairing)), None));
    }
    let keys = ServerKeys::new(&paths.data, bound)
        .map_err(|error| output::fail(&format!("The server's keys could not be written: {error}.")))?;
    let entry = Entry::new(keys.cookie.clone(), keys.secret.clone());
    Ok((Arc::new(Access::with_entry(None, origins, entry).pairing(is_pairing)), Some(keys)))
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
