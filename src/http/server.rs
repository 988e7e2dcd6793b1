//! The state that all requests share: the engine, its lease for every HTTP client, and the readers of events.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use tokio_util::sync::CancellationToken;
use windlass_core::bus::{Filter, Subscriber};
use windlass_engine::{Answerable, Client, Engine, Workspace};
use windlass_protocol::opencode::{id::SessionId, session::Session};

use super::{
    access::Access, acp::connections::Connections, attempt::Attempts, catalog::Catalogs, error::Failure,
    event::hub::Hub, login::Logins, peers::Peers, team::Team,
};

use crate::mcp_server::AtAddress;

/// Directories with services that run although nothing uses them.
const MAX_DIRECTORIES: usize = 32;
/// Sessions that are open although nothing uses them.
const MAX_SESSIONS: usize = 512;

/// The server's settings.
#[derive(Debug)]
pub struct Options {
    /// The directory of requests that name none.
    pub directory: PathBuf,
    pub access: Arc<Access>,
    /// The people of a server with accounts.
    pub team: Option<Arc<Team>>,
    /// Program and arguments that start the login in a terminal.
    pub login_command: Vec<String>,
}

/// See the module's comment.
pub struct Server {
    pub engine: Engine,
    pub options: Options,
    /// Cancelled when the server ends.
    pub stop: CancellationToken,
    pub hub: Arc<Hub>,
    pub catalogs: Catalogs,
    pub logins: Logins,
    pub attempts: Attempts,
    /// Other nodes that share sessions.
    pub peers: Peers,
    /// Clients that speak the Agent Client Protocol by requests.
    pub acp: Connections,
    /// The MCP server, once somebody has asked for it.
    pub mcp: OnceLock<AtAddress>,
    /// Holds the sessions that were used by HTTP: any client may answer their questions.
    pub lease: Arc<Client>,
}

/// The state as handlers get it.
pub type Shared = Arc<Server>;

impl Server {
    /// Makes the state; its clients can answer the kinds in `answerable`.
    pub fn new(engine: Engine, options: Options, answerable: Answerable, stop: CancellationToken) -> Shared {
        let hub = Arc::new(Hub::default());
        let subscriber: Arc<dyn Subscriber> = hub.clone();
        engine.bus().subscribe(Filter::Lossy, &subscriber);
        let lease = Arc::new(engine.client(answerable));
        Arc::new(Self {
            engine,
            options,
            stop,
            hub,
            catalogs: Catalogs::default(),
            logins: Logins::default(),
            attempts: Attempts::default(),
            peers: Peers::default(),
            acp: Connections::default(),
            mcp: OnceLock::new(),
            lease,
        })
    }

    /// Returns a stored session.
    pub async fn session(&self, id: &SessionId) -> Result<Session, Failure> {
        Ok(self.engine.sessions().get(id).await?)
    }

    /// Opens a session in its own folder unless it is open, so that it takes prompts.
    pub async fn open(&self, id: &SessionId) -> Result<Arc<Workspace>, Failure> {
        if let Some(workspace) = self.engine.sessions().opened(id) {
            self.lease.hold(id);
            if !self.hub.touch(id) {
                self.hub.note(&self.session(id).await?);
            }
            return Ok(workspace);
        }
        let info = self.session(id).await?;
        self.hub.note(&info);
        self.lease.hold(id);
        let opened = self.engine.sessions().open(id, Path::new(&info.directory), Vec::new()).await;
        let opened = opened.inspect_err(|_| self.lease.release(id))?;
        self.engine.workspaces().watch(&opened.workspace);
        self.close_idle_sessions(MAX_SESSIONS).await;
        self.end_idle_services().await;
        Ok(opened.workspace)
    }

    /// Closes sessions that no request has used in a long time, while there are more than `max`. One is opened again
    /// when it is used again.
    async fn close_idle_sessions(&self, max: usize) {
        for id in self.hub.idle_beyond(max) {
            if self.engine.sessions().is_working(&id) {
                self.hub.touch(&id);
            } else {
                self.lease.close_session(&id).await;
                self.hub.forget(&id);
            }
        }
    }

    /// Ends services that no request has asked for in a long time: requests may name any number of directories.
    pub async fn end_idle_services(&self) {
        let is_watched = |directory: &Path| self.hub.has_reader(&directory.display().to_string());
        self.engine.workspaces().close_idle(&self.lease, MAX_DIRECTORIES, is_watched).await;
    }

    /// Refuses the calls that a session cannot serve while it works.
    pub fn require_idle(&self, id: &SessionId) -> Result<(), Failure> {
        if self.engine.sessions().is_working(id) { Err(Failure::session_busy(id)) } else { Ok(()) }
    }

    /// Returns true if a session is in a directory.
    pub fn is_in(&self, id: &SessionId, directory: &str) -> bool {
        self.hub.directory(id).is_some_and(|own| *own == *directory)
    }

    /// Lets HTTP clients answer a new session's questions.
    pub async fn hold(&self, id: &SessionId) {
        self.lease.hold(id);
        self.close_idle_sessions(MAX_SESSIONS).await;
    }

    /// Forgets a session that was deleted.
    pub fn release(&self, id: &SessionId) {
        self.lease.release(id);
    }
}

#[cfg(test)]
mod tests;
