//! Logins at remote MCP servers: begun and ended by clients, and the server is connected behind them.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;
use windlass_base::lock::lock;
use windlass_services::mcp::{
    Server, Status,
    login::{Login, LoginError, LoginFiles, LoginPlace},
};

use super::{directory::Workspace, pending_login::PendingLogin, servers::reports};
use crate::{EngineError, ServerReport, Workspaces};

/// Time that a person waits for a server to connect behind a login.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);

/// The page of a login that has begun.
#[derive(Debug, Clone)]
pub struct LoginPage {
    pub url: String,
    /// The mark by which the browser's return is known.
    pub state: String,
}

impl Workspaces<'_> {
    /// Logs in at a server of a directory, and returns the server as it is then. `show` gets the page for the browser.
    pub async fn log_in_at_server(
        self,
        directory: &Path,
        name: &str,
        show: impl Fn(&str),
    ) -> Result<Option<ServerReport>, ServerLoginError> {
        let workspace = self.workspace(directory).await?;
        let done = async {
            let page = workspace.begin_server_login(name).await?;
            show(&page.url);
            workspace.server_login_end(name).await?;
            workspace.mcp().settled(SETTLE_LIMIT).await;
            Ok(reports(&workspace).into_iter().find(|report| report.name == name))
        };
        let done = done.await;
        workspace.close().await;
        done
    }

    /// Forgets the login at a server of a directory; false if there was none.
    pub async fn log_out_of_server(self, directory: &Path, name: &str) -> Result<bool, ServerLoginError> {
        let workspace = self.workspace(directory).await?;
        let removed = workspace.log_out_of_server(name).await;
        workspace.close().await;
        removed
    }

    /// Says how a server of a directory answers, and its support of logins, a line for each.
    pub async fn probe_server(self, directory: &Path, name: &str) -> Result<Vec<String>, ServerLoginError> {
        let workspace = self.workspace(directory).await?;
        let done = async {
            let place = workspace.login_place(name)?;
            let mut lines = place.probe().await?;
            workspace.mcp().settled(SETTLE_LIMIT).await;
            let report = reports(&workspace).into_iter().find(|report| report.name == name);
            lines.extend(report.map(|report| format!("status: {:?}", report.status)));
            Ok(lines)
        };
        let done = done.await;
        workspace.close().await;
        done
    }
}

/// The reason for which a client's wish about a login failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerLoginError {
    #[error("there is no MCP server {0}; `mcp` in opencode.json names them")]
    Unknown(String),
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Workspace {
    /// Begins a login at a server; one that is waited for already is given up.
    pub async fn begin_server_login(self: &Arc<Self>, name: &str) -> Result<LoginPage, ServerLoginError> {
        let place = self.login_place(name)?;
        lock(&self.server_logins).remove(name);
        let login = place.begin().await?;
        let page = LoginPage { url: login.url().to_owned(), state: login.state().to_owned() };
        let (codes, coming) = mpsc::channel(1);
        let (done, end) = watch::channel(None);
        let (workspace, server) = (Arc::downgrade(self), name.to_owned());
        let task = tokio::spawn(async move {
            let ended = complete(&login, coming).await;
            if let (Ok(()), Some(workspace)) = (&ended, workspace.upgrade()) {
                workspace.connect_server(&server);
            }
            done.send_replace(Some(ended));
        });
        let state = page.state.clone();
        let pending = PendingLogin { state, codes, end, _task: AbortOnDropHandle::new(task) };
        lock(&self.server_logins).insert(name.to_owned(), pending);
        Ok(page)
    }

    /// Gives up a login that is waited for, unless another one has taken its place.
    pub fn give_up_server_login(&self, name: &str, page: &LoginPage) {
        let mut logins = lock(&self.server_logins);
        if logins.get(name).is_some_and(|pending| pending.state == page.state) {
            logins.remove(name);
        }
    }

    /// Returns the servers that want a login by a person which has not begun, once all have connected or failed.
    pub async fn servers_without_login(&self) -> Vec<String> {
        self.mcp().settled(SETTLE_LIMIT).await;
        let servers = self.mcp().statuses().into_iter().filter(|(_, status)| *status == Status::NeedsAuth);
        let is_for_person = |name: &String| {
            let is_begun = lock(&self.server_logins).contains_key(name);
            !is_begun && self.login_place(name).is_ok_and(|place| !place.is_program())
        };
        servers.map(|(name, _)| name).filter(is_for_person).collect()
    }

    /// Waits for the end of a login that has begun.
    pub async fn server_login_end(&self, name: &str) -> Result<(), LoginError> {
        let end = lock(&self.server_logins).get(name).map(|pending| pending.end.clone());
        let Some(mut end) = end else { return Err(none_begun(name)) };
        let ended = end.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
        let mut logins = lock(&self.server_logins);
        // Another one may have begun since.
        if logins.get(name).is_some_and(|pending| pending.end.same_channel(&end)) {
            logins.remove(name);
        }
        drop(logins);
        ended.unwrap_or_else(|| Err(LoginError::Failed("the login was given up".to_owned())))
    }

    /// Completes a login by the code that a person or program brings.
    pub async fn complete_server_login(&self, name: &str, code: String) -> Result<(), LoginError> {
        let codes = lock(&self.server_logins).get(name).map(|pending| pending.codes.clone());
        let Some(codes) = codes else { return Err(none_begun(name)) };
        // A login that has just ended takes no code any more; its end says how.
        let _ = codes.try_send(code);
        self.server_login_end(name).await
    }

    /// Forgets the login at a server and connects it without; false if there was none.
    pub async fn log_out_of_server(&self, name: &str) -> Result<bool, ServerLoginError> {
        let place = self.login_place(name)?;
        lock(&self.server_logins).remove(name);
        let removed = place.log_out().await.map_err(|error| LoginError::Failed(error.to_string()))?;
        if removed && self.mcp().statuses().iter().any(|(known, _)| known == name) {
            self.connect_server(name);
        }
        Ok(removed)
    }

    fn login_place(&self, name: &str) -> Result<LoginPlace, ServerLoginError> {
        let config = self.server_config(name).ok_or_else(|| ServerLoginError::Unknown(name.to_owned()))?;
        match Server::of(&config) {
            Server::Remote { url, oauth: Some(client), .. } => Ok(LoginPlace {
                is_foreign: self.loaded().config.project_addresses.has(&url),
                server: name.to_owned(),
                url,
                client,
                files: LoginFiles::new(&self.loaded().config.paths),
            }),
            Server::Remote { .. } | Server::Local { .. } | Server::Linked(_) => {
                Err(LoginError::Unsupported(name.to_owned()).into())
            }
        }
    }
}

async fn complete(login: &Login, mut codes: mpsc::Receiver<String>) -> Result<(), LoginError> {
    tokio::select! {
        // A code is exchanged once: another that comes meanwhile must not end that.
        brought = login.returned() => login.take(brought).await,
        Some(code) = codes.recv() => login.complete(&code).await,
    }
}

fn none_begun(name: &str) -> LoginError {
    LoginError::Failed(format!("no login at MCP server {name} has begun"))
}
