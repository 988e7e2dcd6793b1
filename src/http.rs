//! The HTTP front end: OpenCode's server API, for its SDK and the programs that were written against it.

mod access;
mod account;
mod acp;
mod admission;
mod announcement;
mod api;
mod api_key;
mod api_login;
mod api_message;
mod api_pty;
mod api_session;
mod api_work;
mod ask;
mod asked_elsewhere;
mod attempt;
mod body;
mod by;
mod catalog;
mod config;
mod connection;
mod cors;
mod devices;
mod doc;
mod drawn;
mod entry;
mod error;
mod event;
mod experimental;
mod files;
mod global;
mod here;
mod history;
mod in_process;
mod inbox;
mod listener;
mod login;
mod mcp;
mod message;
mod metrics;
mod need;
mod page;
mod pass_on;
mod peer;
mod peers;
mod project;
mod prompt;
mod provider;
mod pty;
mod router;
mod routes;
mod selection;
mod server;
mod services;
mod session;
mod session_access;
mod team;
mod ticket;
mod tls;
mod tui;
mod unknown;
mod vcs;
mod watching;

use tokio_util::sync::CancellationToken;
use windlass_engine::{Answerable, Engine};

pub use access::{Access, Password};
pub use announcement::{Announcement, announce, host_name};
pub use entry::{CHARS as KEY_CHARS, Entry};
pub use in_process::api;
pub use listener::{Listener, bind, bind_socket};
pub use server::Options;
use server::Server;
pub use team::Team;
pub use tls::acceptor;

/// Serves on these listeners until `stop` is cancelled.
pub async fn serve(engine: Engine, options: Options, listeners: Vec<Listener>, stop: CancellationToken) {
    let server = Server::new(engine, options, Answerable::Everything, stop.clone());
    let keeping = admission::keep(&server);
    let router = router::router(&server);
    let accepting = listeners.into_iter().map(|it| listener::accept(it, router.clone(), stop.clone()));
    tokio::join!(futures_util::future::join_all(accepting), keeping);
}
