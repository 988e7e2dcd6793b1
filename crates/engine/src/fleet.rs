//! The sessions that this machine shares with others: taken before anything is done in them, and given back.

use std::{collections::HashMap, path::Path, sync::Arc};

use tokio::sync::{OnceCell, mpsc};
use windlass_base::{blocking::blocking, lock::lock, process};
use windlass_core::{config::layers, storage::outlet::SharedError};
use windlass_protocol::opencode::{
    event::EventPayload,
    id::SessionId,
    message::MessageError,
    session::SessionStatus,
    settings::{Acknowledge, SharedSettings},
};
use windlass_shared::{Claimed, Notice, Place, Shared};
pub use windlass_shared::{NodeRow, Owner, Standing, Totals};

use crate::{
    Engine, EngineError, EngineErrorKind,
    session::{
        state::{self, Journal},
        tickets::Tickets,
    },
};

/// Bytes of a variable that may be a part of the database's address by its meaning, and not by chance.
const MIN_SECRET: usize = 8;

/// The shared store of an engine, once it was looked for.
#[derive(Default)]
pub struct FleetState(OnceCell<Setting>);

struct Setting {
    settings: SharedSettings,
    shared: Result<Option<Shared>, SharedError>,
}

/// The sessions that are shared with other machines.
#[derive(Clone, Copy)]
pub struct Fleet<'a> {
    engine: &'a Engine,
}

impl Engine {
    /// Returns the sessions that are shared with other machines.
    pub fn fleet(&self) -> Fleet<'_> {
        Fleet { engine: self }
    }
}

impl<'a> Fleet<'a> {
    /// Returns the setting, and the shared store if there is one. Reads the user's configuration once; no project's.
    async fn setting(self) -> &'a Setting {
        let engine = self.engine;
        engine.0.fleet.0.get_or_init(async || engine.find_shared().await).await
    }

    /// Returns the shared store; `None` where nothing is shared.
    async fn shared(self) -> Result<Option<&'a Shared>, SharedError> {
        self.setting().await.shared.as_ref().map(Option::as_ref).map_err(Clone::clone)
    }

    /// Returns the shared store if it was found and used before.
    fn found(self) -> Option<&'a Shared> {
        self.engine.0.fleet.0.get()?.shared.as_ref().ok()?.as_ref()
    }

    /// Takes a session for this process, before anything is read or done in it. `directory` is the one to work in, where
    /// somebody names it.
    ///
    /// Where this machine's store suffices, sessions that were never shared go on without the shared one.
    pub(crate) async fn claim(self, id: &SessionId, directory: Option<&Path>) -> Result<(), EngineError> {
        let setting = self.setting().await;
        let claimed = match &setting.shared {
            Ok(None) => return Ok(()),
            Ok(Some(shared)) => shared.claim(id, directory).await,
            Err(error) => Err(error.clone()),
        };
        match claimed {
            Ok(Claimed::AsItWas) => Ok(()),
            Ok(Claimed::Rebuilt) => self.close_interrupted(id).await,
            Err(error) => {
                let is_out_of_reach = matches!(
                    error,
                    SharedError::Unreachable { .. }
                        | SharedError::Refused { .. }
                        | SharedError::Setting { .. }
                );
                if is_out_of_reach
                    && setting.settings.ack == Some(Acknowledge::Local)
                    && self.engine.storage().mark(id.clone()).await?.is_none()
                {
                    tracing::warn!(session = %id, %error, "the session is not shared yet");
                    return Ok(());
                }
                Err(error.into())
            }
        }
    }

    /// Closes the calls that ran when the node ended that had a session: nobody knows how they ended.
    async fn close_interrupted(self, id: &SessionId) -> Result<(), EngineError> {
        let storage = self.engine.storage();
        let root = storage.root_of(id.clone()).await?;
        let Some(mut outline) = storage.outline(root).await? else { return Ok(()) };
        let mut journal = Journal::default();
        state::repair(&mut outline.unfinished, state::TOOL_LOST, &mut journal);
        journal.commit(storage, self.engine.bus()).await
    }

    /// Refuses work in a session that may be another node's by now.
    pub(crate) fn check(self, id: &SessionId) -> Result<(), SharedError> {
        self.found().map_or(Ok(()), |shared| shared.check(id))
    }

    /// Gives a session back if nothing goes on in it, nor in those below it. Returns false if something does.
    pub(crate) async fn give_back(self, id: &SessionId) -> bool {
        let Some(shared) = self.found() else { return true };
        let Some(root) = shared.root(id).filter(|root| shared.holds(root)) else { return true };
        let of_tree: Vec<SessionId> = {
            let open = lock(&self.engine.0.sessions.open);
            open.keys().filter(|id| shared.root(id).as_ref() == Some(&root)).cloned().collect()
        };
        for id in &of_tree {
            if !self.engine.sessions().stop_if_idle(id).await {
                return false;
            }
        }
        if let Err(error) = shared.release(&root).await {
            tracing::warn!(session = %root, %error, "the session was not given back");
        }
        true
    }

    /// Deletes a session from the shared store. It was claimed before.
    pub(crate) async fn delete(self, id: &SessionId) -> Result<(), EngineError> {
        match self.found() {
            Some(shared) if shared.root(id).as_ref() == Some(id) => Ok(shared.delete(id).await?),
            Some(_) | None => Ok(()),
        }
    }

    /// Ends this process's part in the fleet: its last changes are in the log, and its sessions are free.
    pub async fn end(self) {
        if let Some(shared) = self.found() {
            shared.end().await;
        }
    }

    /// Returns true if sessions are shared here.
    pub async fn is_shared(self) -> bool {
        matches!(self.shared().await, Ok(Some(_)))
    }

    /// Makes this process a node at once, if sessions are shared here.
    pub async fn join(self) -> Result<(), EngineError> {
        if let Some(shared) = self.shared().await? {
            shared.join().await?;
        }
        Ok(())
    }

    /// Returns the node that has a session and takes requests for it, if that is another one.
    pub async fn elsewhere(self, id: &SessionId) -> Result<Option<Owner>, EngineError> {
        let Some(shared) = self.shared().await? else { return Ok(None) };
        Ok(match shared.place(id).await? {
            Place::At(owner) => Some(owner).filter(|owner| owner.address.is_some()),
            Place::Here | Place::Free => None,
        })
    }

    /// Returns a token for a request to a node.
    pub async fn token(self, to: &Owner) -> Result<String, EngineError> {
        match self.shared().await? {
            Some(shared) => Ok(shared.token(to).await?),
            None => Err(nothing_shared()),
        }
    }

    /// Returns true if a request shows a token of the fleet for this node.
    pub async fn is_of_fleet(self, token: &str) -> bool {
        match self.found() {
            Some(shared) => shared.is_of_fleet(token).await,
            None => false,
        }
    }

    /// Brings the list of this machine's store up to date with that of all nodes. Where that cannot be had, the list here
    /// stays as it is. `directory` is one whose sessions are wanted.
    pub(crate) async fn refresh(self, directory: Option<&Path>) {
        let Ok(Some(shared)) = self.shared().await else { return };
        if let Some(directory) = directory {
            let root = self.engine.workspaces().project_root(directory);
            // The project of a directory is found once, and its sessions elsewhere are shown in it.
            if let Err(error) = self.engine.workspaces().find_project(&root).await {
                tracing::debug!(%error, "the project is not known");
            }
        }
        if let Err(error) = shared.refresh().await {
            tracing::warn!(%error, "the sessions of other nodes are not listed");
        }
    }

    /// Returns the nodes that have sessions now, by session.
    pub async fn owners(self) -> Result<HashMap<String, Owner>, EngineError> {
        match self.shared().await? {
            Some(shared) => Ok(shared.owners().await?),
            None => Ok(HashMap::new()),
        }
    }

    /// Lists the nodes; an error says that nothing is shared.
    pub async fn nodes(self) -> Result<Vec<NodeRow>, EngineError> {
        match self.shared().await? {
            Some(shared) => Ok(shared.nodes().await?),
            None => Err(nothing_shared()),
        }
    }

    /// Counts the content of the shared store.
    pub async fn totals(self) -> Result<Totals, EngineError> {
        match self.shared().await? {
            Some(shared) => Ok(shared.totals().await?),
            None => Err(nothing_shared()),
        }
    }

    /// Returns how many milliseconds the database's clock is ahead, and the version of the server.
    pub async fn server(self) -> Result<Option<(i64, String)>, EngineError> {
        match self.shared().await? {
            Some(shared) => Ok(Some(shared.server().await?)),
            None => Ok(None),
        }
    }

    /// Returns the state of the shared store as this process sees it; `None` where nothing is shared.
    pub async fn standing(self) -> Option<Standing> {
        self.shared().await.ok().flatten().map(Shared::standing)
    }
}

impl Engine {
    async fn find_shared(&self) -> Setting {
        let (environment, paths) = (self.0.environment.clone(), self.0.paths.clone());
        let mut settings =
            blocking(move || layers::of_user(&environment, &paths).settings.windlass.shared).await;
        // A session that leaves nothing behind leaves nothing there either.
        if self.0.paths.store.is_some() {
            settings.url = None;
        }
        self.withhold(&settings);
        let shared = Shared::new(&settings, &self.0.storage, &self.0.paths.data);
        if let Err(error) = &shared {
            tracing::error!(%error, "no session can be shared");
        }
        if let Ok(Some(shared)) = &shared {
            self.0.background_tasks.run(shared.clone().run());
            if let Some(notices) = shared.notices() {
                let engine = Arc::downgrade(&self.0);
                self.0.background_tasks.run(async move {
                    follow(notices, || engine.upgrade().map(Engine)).await;
                });
            }
        }
        Setting { settings, shared }
    }

    /// Keeps the database's address and the key from every program: with them a model's command could be a node.
    fn withhold(&self, settings: &SharedSettings) {
        let secrets = [&settings.url, &settings.key].map(|it| it.as_deref().unwrap_or_default());
        let variables = &self.0.environment.variables;
        let holds = |value: &str| value.len() >= MIN_SECRET && secrets.iter().any(|it| it.contains(value));
        let names = variables.iter().filter(|(_, value)| holds(value)).map(|(name, _)| name.clone());
        process::withhold(names.collect());
    }

    /// Ends everything that goes on in a session that is another node's now.
    fn leave_to(&self, root: &SessionId, by: &str) {
        let Some(shared) = self.fleet().found() else { return };
        let of_tree: Vec<(SessionId, Arc<Tickets>)> = {
            let open = lock(&self.0.sessions.open);
            let of_tree = open.iter().filter(|(id, _)| shared.root(id).as_ref() == Some(root));
            of_tree.map(|(id, open)| (id.clone(), open.tickets.clone())).collect()
        };
        let error = SharedError::Fenced { session: root.to_string(), by: by.to_owned() };
        for (id, tickets) in of_tree {
            tickets.abandon(error.clone().into());
            self.sessions().cancel_background(&id);
            let message = MessageError::UnknownError { message: error.to_string() };
            self.0
                .bus
                .publish(EventPayload::SessionError { session_id: Some(id.clone()), error: Some(message) });
            self.0
                .bus
                .publish(EventPayload::SessionStatus { session_id: id.clone(), status: SessionStatus::Idle });
            self.0.bus.publish(EventPayload::SessionIdle { session_id: id });
        }
    }
}

/// Acts upon the notices of the shared store, while the engine is there.
async fn follow(mut notices: mpsc::Receiver<Notice>, engine: impl Fn() -> Option<Engine>) {
    while let Some(notice) = notices.recv().await {
        let Some(engine) = engine() else { return };
        match notice {
            Notice::Lost { session, by } => engine.leave_to(&session, &by),
            Notice::Wanted(session) => {
                let is_given = engine.fleet().give_back(&session).await;
                if !is_given && let Some(shared) = engine.fleet().found() {
                    shared.refuse(&session).await;
                }
                tracing::info!(%session, is_given, "another node wants the session");
            }
        }
    }
}

fn nothing_shared() -> EngineError {
    let message = "nothing is shared here: set `windlass.shared.url` in your own configuration";
    EngineError::new(EngineErrorKind::InvalidInput, message)
}
