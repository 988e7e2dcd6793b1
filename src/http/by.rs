//! The account that a request is made by, for handlers that answer with things of several sessions. Without accounts it sees all.

use std::{convert::Infallible, path::Path, sync::Arc, time::Duration};

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
};
use serde_json::json;
use windlass_accounts::{Level, Role, Scope, Visitor};
use windlass_base::{blocking::blocking, clock::now_ms, ids, path::real};
use windlass_engine::{Admitted, Copied, IsAdmitted, NewSession, Opened, Workspace};
use windlass_protocol::opencode::{
    event::EventPayload,
    id::SessionId,
    permission::{Action, Rule},
    service::ServiceNews,
    session::Session,
};

use super::{
    error::Failure,
    peers::FromFleet,
    server::Shared,
    team::{Team, Visiting},
};

/// The permission for files outside of a project.
const OUTSIDE: &str = "external_directory";
/// Time for which a gateway's token keeps a stream open.
const BY_GATEWAY: Duration = Duration::from_secs(15 * 60);

/// The account of a request.
#[derive(Clone)]
pub enum By {
    /// The server has no accounts, and all see all.
    Everybody,
    /// The server has accounts, and the request has none: it sees nothing.
    Nobody,
    Account(Arc<Team>, Arc<Visitor>),
}

impl FromRequestParts<Shared> for By {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<Self, Infallible> {
        let visitor = parts.extensions.get::<Visiting>();
        Ok(match (server.options.team.clone(), visitor) {
            (None, _) => Self::Everybody,
            // Another node, which asks for the events of all.
            (Some(_), None) if parts.extensions.get::<FromFleet>().is_some() => Self::Everybody,
            (Some(_), None) => Self::Nobody,
            (Some(team), Some(visitor)) => Self::Account(team, visitor.0.clone()),
        })
    }
}

impl By {
    /// Returns the team and the account, where there are accounts.
    pub fn account(&self) -> Option<(&Arc<Team>, &Arc<Visitor>)> {
        match self {
            Self::Account(team, visitor) => Some((team, visitor)),
            Self::Everybody | Self::Nobody => None,
        }
    }

    /// Says whether something holds of the account; of everybody it does where the server has none.
    fn holds(&self, of: impl FnOnce(&Team, &Visitor) -> bool) -> bool {
        match self {
            Self::Everybody => true,
            Self::Nobody => false,
            Self::Account(team, visitor) => of(team, visitor),
        }
    }

    /// Returns true if it may know of a session.
    pub fn sees(&self, id: &SessionId) -> bool {
        self.holds(|team, visitor| team.accounts.level(visitor, id).is_some())
    }

    /// Returns true if it may answer the questions of a session.
    pub fn answers(&self, id: &SessionId) -> bool {
        self.holds(|team, visitor| team.accounts.level(visitor, id) >= Some(Level::Answer))
    }

    /// Returns true if it may change the server.
    pub fn administers(&self) -> bool {
        self.holds(|_, visitor| visitor.is_admin())
    }

    /// Returns true if a session is its own.
    pub fn owns(&self, id: &SessionId) -> bool {
        self.holds(|team, visitor| team.accounts.level(visitor, id) == Some(Level::Own))
    }

    /// Returns true if it may open a directory.
    pub fn may_open(&self, directory: &Path) -> bool {
        self.holds(|_, visitor| visitor.may_open(&real(directory)))
    }

    /// Returns true if it may hear of an event.
    pub fn hears(&self, payload: &EventPayload) -> bool {
        let (team, visitor) = match self {
            Self::Everybody => return true,
            Self::Nobody => return false,
            Self::Account(team, visitor) => (team, visitor),
        };
        if let Some(id) = payload.session_id() {
            return team.accounts.level(visitor, id).is_some();
        }
        if visitor.is_admin() {
            return true;
        }
        match payload {
            EventPayload::FileEdited { file } => self.may_open(Path::new(file)),
            EventPayload::ConfigUpdated { directory } => self.may_open(Path::new(directory)),
            EventPayload::Service(event) => {
                let is_of_directory = matches!(
                    event.news,
                    ServiceNews::LspUpdated {}
                        | ServiceNews::VcsBranchUpdated { .. }
                        | ServiceNews::InstanceDisposed { .. }
                );
                let directory = event.directory.as_deref();
                is_of_directory && directory.is_some_and(|it| self.may_open(Path::new(it)))
            }
            _other => false,
        }
    }

    /// Returns the condition for the sessions of a list.
    pub fn admitted(&self) -> Admitted {
        let by = self.clone();
        let is_admitted = move |id: &str| SessionId::parse(id).is_ok_and(|id| by.sees(&id));
        Admitted((!matches!(self, Self::Everybody)).then(|| Arc::new(is_admitted) as IsAdmitted))
    }

    /// Refuses a directory that is none of the account's, or is in a repository that reaches beyond those.
    pub fn check_repository(&self, workspace: &Workspace) -> Result<(), Failure> {
        let config = &workspace.loaded().config;
        if !self.may_open(&config.directory) {
            return Err(no_directory(&config.directory));
        }
        if config.worktree != Path::new("/") && !self.may_open(&config.worktree) {
            return Err(no_directory(&config.worktree));
        }
        Ok(())
    }

    /// Waits until the account, its role or its credential has changed; for ever where there are no accounts.
    pub async fn ended(&self) {
        let Some((team, visitor)) = self.account() else { return std::future::pending().await };
        let mut changes = team.accounts.changes();
        while team.accounts.again(visitor).as_ref() == Some(&**visitor) {
            let left = team.accounts.end_of(visitor).map(|ends| u64::try_from(ends - now_ms()).unwrap_or(0));
            let ended = tokio::time::sleep(left.map_or(BY_GATEWAY, Duration::from_millis));
            tokio::select! {
                // The gateway lets its person in again, or does not.
                () = ended => return,
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Makes a session, which is the account's own from the first moment.
    pub async fn create(&self, server: &Shared, new: &mut NewSession) -> Result<Opened, Failure> {
        let prepared = self.prepare(server, new).await?;
        let made = server.engine.sessions().create(std::mem::take(new)).await;
        if let (Err(_), Some(id)) = (&made, &prepared) {
            self.forget(id).await;
        }
        Ok(made?)
    }

    /// Prepares the copy of a session that becomes the account's own.
    pub async fn copy(&self, info: &Session) -> Result<Copied, Failure> {
        let Some((_, visitor)) = self.account() else { return Ok(Copied::default()) };
        if visitor.role < Role::Member || visitor.scope < Scope::Work {
            return Err(forbidden("A reader, or a token with this scope, has no sessions of its own."));
        }
        if !self.may_open(Path::new(&info.directory)) {
            return Err(no_directory(Path::new(&info.directory)));
        }
        let id = ids::session();
        self.own(&id).await?;
        Ok(Copied { id: Some(id), limits: limits(visitor) })
    }

    /// Prepares a session that is to be made: its directory is one of the account's, it gets an owner before anybody hears of
    /// it, and its tools stay in the account's directories. Returns the id that is to be forgotten if it cannot be made.
    async fn prepare(&self, server: &Shared, new: &mut NewSession) -> Result<Option<SessionId>, Failure> {
        let Some((team, visitor)) = self.account() else { return Ok(None) };
        if !self.may_open(&new.directory) {
            return Err(no_directory(&new.directory));
        }
        self.check_repository(&*server.engine.workspaces().workspace(&new.directory).await?)?;
        if new.worktree.is_some() && !visitor.is_admin() {
            return Err(forbidden("Worktrees are for administrators at a server with accounts."));
        }
        new.limits = limits(visitor);
        let id = new.id.take().unwrap_or_else(ids::session);
        if server.engine.sessions().get(&id).await.is_ok() {
            return Err(forbidden("This session id is taken; choose another."));
        }
        new.id = Some(id.clone());
        if let Some(parent) = &new.parent_id {
            if team.accounts.level(visitor, parent) < Some(Level::Prompt) {
                return Err(Failure::session_not_found(parent));
            }
            team.accounts.note_below(&id, parent);
            return Ok(Some(id));
        }
        self.own(&id).await?;
        Ok(Some(id))
    }

    /// Makes a session the account's own.
    async fn own(&self, id: &SessionId) -> Result<(), Failure> {
        let Some((team, visitor)) = self.account() else { return Ok(()) };
        let (accounts, id, account) = (team.accounts.clone(), id.clone(), visitor.account.clone());
        blocking(move || accounts.own(&id, &account))
            .await
            .map_err(|error| Failure::unknown(error.to_string()))
    }

    /// Forgets a session that was deleted, or could not be made.
    pub async fn forget(&self, id: &SessionId) {
        let Some((team, _)) = self.account() else { return };
        let (accounts, id) = (team.accounts.clone(), id.clone());
        if let Err(error) = blocking(move || accounts.forget(&id)).await {
            tracing::warn!(%error, "the owner of a session that is gone stays noted");
        }
    }
}

fn limits(visitor: &Visitor) -> Vec<Vec<Rule>> {
    if visitor.role == Role::Admin {
        return Vec::new();
    }
    let rule = |pattern: String, action| Rule { permission: OUTSIDE.to_owned(), pattern, action };
    let own =
        visitor.directories.iter().map(|it| rule(format!("{}/*", it.trim_end_matches('/')), Action::Allow));
    // Without the first the answer would be to ask, for everything.
    let all = Rule { permission: "*".to_owned(), pattern: "*".to_owned(), action: Action::Allow };
    vec![[all, rule("*".to_owned(), Action::Deny)].into_iter().chain(own).collect()]
}

/// Refuses a directory that is none of the account's.
pub fn no_directory(directory: &Path) -> Failure {
    forbidden(&format!(
        "Your account may not open {}; an administrator gives it directories.",
        directory.display()
    ))
}

/// Refuses a request that the account may not make.
pub fn forbidden(message: &str) -> Failure {
    Failure::named(StatusCode::FORBIDDEN, "Forbidden", json!({"message": message}))
}
