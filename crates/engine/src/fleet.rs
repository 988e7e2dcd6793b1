//! The sessions that this machine shares with others: taken before anything is done in them, and given back.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use http::HeaderName;
use tokio::sync::{OnceCell, mpsc};
use windlass_base::{blocking::blocking, lock::lock, process};
use windlass_core::{config::layers, storage::outlet::SharedError};
use windlass_protocol::opencode::{
    event::EventPayload,
    id::SessionId,
    message::MessageError,
    session::{Session, SessionStatus},
    settings::{Acknowledge, SharedSettings},
};
use windlass_shared::{Claimed, Notice, Place, Shared};
pub use windlass_shared::{NodeRow, Owner, PeopleRow, PeopleTurn, ServerState, Standing, Totals};

mod answers;
mod files;
mod people;
mod requests;

use crate::{
    Answerable, Engine, EngineError, EngineErrorKind,
    session::{
        state::{self, Journal},
        tickets::Tickets,
    },
};

/// The header of requests between nodes, with a token of the fleet.
pub const TOKEN: HeaderName = HeaderName::from_static("x-windlass-fleet");
/// Time between two looks at a turn that was stopped.
const TURN_END: Duration = Duration::from_millis(20);

/// The shared store of an engine, once it was looked for, and the files that travel with its sessions.
#[derive(Default)]
pub struct FleetState {
    setting: OnceCell<Setting>,
    /// Sessions with calls that wait for a person's yes, as they did where the session was before.
    unanswered: Mutex<HashSet<SessionId>>,
    files: files::FilesState,
    /// The time of the last exchange of answers that failed.
    exchange_failed: Mutex<Option<Instant>>,
}

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
        engine.0.fleet.setting.get_or_init(async || engine.find_shared().await).await
    }

    /// Returns the shared store; `None` where nothing is shared.
    async fn shared(self) -> Result<Option<&'a Shared>, SharedError> {
        self.setting().await.shared.as_ref().map(Option::as_ref).map_err(Clone::clone)
    }

    /// Returns the shared store if it was found and used before.
    fn found(self) -> Option<&'a Shared> {
        self.engine.0.fleet.setting.get()?.shared.as_ref().ok()?.as_ref()
    }

    /// Takes a session for this process, before anything is read or done in it. `directory` is the one to work in, where
    /// somebody names it. Returns true if its rows came from another node.
    ///
    /// Where this machine's store suffices, sessions that were never shared go on without the shared one.
    pub(crate) async fn claim(self, id: &SessionId, directory: Option<&Path>) -> Result<bool, EngineError> {
        match &self.setting().await.shared {
            Ok(None) => return Ok(false),
            Ok(Some(shared)) if shared.holds(id) => return Ok(false),
            Ok(Some(_)) | Err(_) => {}
        }
        let (engine, id, directory) = (self.engine.clone(), id.clone(), directory.map(Path::to_owned));
        // A client that leaves is not to leave a session that is half taken.
        let claim = async move { engine.fleet().claim_whole(&id, directory.as_deref()).await };
        let claim = self.engine.0.sessions.tasks.spawn(claim);
        claim
            .await
            .unwrap_or_else(|error| Err(EngineError::new(EngineErrorKind::Internal, error.to_string())))
    }

    /// Takes a session to read it. One that another process of this machine and store works in is read as it is.
    pub(crate) async fn claim_to_read(self, id: &SessionId) -> Result<(), EngineError> {
        match self.claim(id, None).await {
            Err(error) if error.kind == EngineErrorKind::OtherNode => match self.shared().await? {
                Some(shared) if shared.is_beside(id).await => Ok(()),
                Some(_) | None => Err(error),
            },
            claimed => claimed.map(drop),
        }
    }

    async fn claim_whole(self, id: &SessionId, directory: Option<&Path>) -> Result<bool, EngineError> {
        let setting = self.setting().await;
        let claimed = match &setting.shared {
            Ok(None) => return Ok(false),
            Ok(Some(shared)) => {
                if let Some(directory) = directory {
                    self.know_project(directory).await;
                }
                shared.claim(id, directory).await
            }
            Err(error) => Err(error.clone()),
        };
        match claimed {
            Ok(Claimed::AsItWas) => Ok(false),
            Ok(Claimed::Rebuilt) => {
                self.close_interrupted(id).await?;
                if let Some(info) = self.engine.storage().session(id.clone()).await? {
                    self.engine.worktrees().expect(Path::new(&info.directory)).await;
                }
                if let Some(root) = self.found().and_then(|shared| shared.root(id)) {
                    self.files_are_elsewhere(&root).await;
                }
                Ok(true)
            }
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
                    && self.engine.storage().session(id.clone()).await?.is_some()
                {
                    tracing::warn!(session = %id, %error, "the session is not shared yet");
                    return Ok(false);
                }
                Err(error.into())
            }
        }
    }

    /// Closes the calls that ran when the node ended that had a session: nobody knows how they ended.
    async fn close_interrupted(self, id: &SessionId) -> Result<(), EngineError> {
        let storage = self.engine.storage();
        let root = storage.root_of(id.clone()).await?;
        let Some(mut outline) = storage.outline(root.clone()).await? else { return Ok(()) };
        let mut journal = Journal::default();
        // A log that follows may lack that a call was allowed.
        let is_known = self.setting().await.settings.ack != Some(Acknowledge::Local);
        if is_known && state::close_unanswered(&mut outline.unfinished, &root, &mut journal) {
            self.note_unanswered(&root);
        }
        state::repair(&mut outline.unfinished, state::TOOL_LOST, &mut journal);
        journal.commit(storage, self.engine.bus()).await
    }

    /// Returns true if a session has calls that wait for a user's yes, and one can be asked.
    pub(crate) fn has_unanswered(self, id: &SessionId) -> bool {
        lock(&self.engine.0.fleet.unanswered).contains(id)
            && self.engine.clients().can_answer(id, Answerable::Everything)
    }

    pub(crate) fn note_unanswered(self, id: &SessionId) {
        lock(&self.engine.0.fleet.unanswered).insert(id.clone());
    }

    pub(crate) fn forget_unanswered(self, id: &SessionId) {
        lock(&self.engine.0.fleet.unanswered).remove(id);
    }

    /// Returns true if another node may have a session by now.
    pub fn may_be_elsewhere(self, id: &SessionId) -> bool {
        self.found().is_some_and(|shared| !shared.holds(id))
    }

    /// Refuses work in a session that may be another node's by now.
    pub(crate) fn check(self, id: &SessionId) -> Result<(), SharedError> {
        self.found().map_or(Ok(()), |shared| shared.check(id))
    }

    /// Gives a session back if nothing goes on in it, nor in those below it. Returns false if something does.
    pub(crate) async fn give_back(self, id: &SessionId) -> bool {
        let Some(shared) = self.found() else { return true };
        let Some(root) = shared.root(id).filter(|root| shared.holds(root)) else { return true };
        // The last turns may go on, in sessions that are not listed as open any more.
        if self.engine.is_finishing() {
            return false;
        }
        let of_tree = self.engine.open_below(shared, &root);
        for (id, tickets) in &of_tree {
            if !self.engine.sessions().stop_if_idle(id).await {
                return false;
            }
            // The next node has their rows.
            tickets.leave_to_store();
        }
        self.files_of_session_sent(&root).await;
        self.forget_files(&root);
        self.forget_unanswered(&root);
        let released = shared.release(&root).await;
        if let Err(error) = &released {
            tracing::warn!(session = %root, %error, "the session was not given back");
        }
        released.is_ok()
    }

    /// Deletes a session from the shared store. It was claimed before.
    pub(crate) async fn delete(self, id: &SessionId) -> Result<(), EngineError> {
        match self.found() {
            Some(shared) if shared.root(id).as_ref() == Some(id) => {
                self.remove_files(id).await;
                self.forget_files(id);
                Ok(shared.delete(id).await?)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Ends this process's part in the fleet: its last changes are in the log, and its sessions are free. Files are
    /// waited for no longer than `limit`.
    pub async fn end(self, limit: Duration) {
        if let Some(shared) = self.found() {
            self.files_sent(None, limit).await;
            shared.end().await;
        }
    }

    /// Looks for the shared store before any program is started, which is not to see its address.
    pub(crate) async fn prepare(self) {
        self.setting().await;
    }

    /// Returns a session as the list here has it, without taking it. `directory` is one whose project may be the session's.
    pub async fn listed(self, id: &SessionId, directory: &Path) -> Option<Session> {
        // An older row serves as well.
        let _ = self.refresh(Some(directory)).await;
        self.engine.storage().session(id.clone()).await.ok()?
    }

    /// Returns true if a session is this process's now.
    pub fn holds(self, id: &SessionId) -> bool {
        self.found().is_some_and(|shared| shared.holds(id))
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
    async fn token(self, to: &Owner) -> Result<String, EngineError> {
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

    /// Brings the list of this machine's store up to date with that of all nodes. Where that fails, which is said in the
    /// log, the list here stays as it is. `directory` is one whose sessions are wanted.
    pub(crate) async fn refresh(self, directory: Option<&Path>) -> Result<(), EngineError> {
        let Some(shared) = self.shared().await? else { return Ok(()) };
        if let Some(directory) = directory {
            self.know_project(directory).await;
        }
        let refreshed = shared.refresh().await;
        if let Err(error) = &refreshed {
            tracing::warn!(%error, "the sessions of other nodes are not listed");
        }
        Ok(refreshed?)
    }

    /// Finds the project of a directory, once: sessions of the project that are elsewhere are shown in it.
    async fn know_project(self, directory: &Path) {
        let root = self.engine.workspaces().project_root(directory);
        if let Err(error) = self.engine.workspaces().find_project(&root).await {
            tracing::debug!(%error, "the project is not known");
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

    /// Looks at the database's server, its clock and the role's rights.
    pub async fn server(self) -> Result<Option<ServerState>, EngineError> {
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
        let remote = settings.worktrees.as_deref().unwrap_or_default();
        let password = |url: &'_ str| -> String {
            let user = url.split_once("://").and_then(|(_, rest)| rest.split_once('@')?.0.split_once(':'));
            user.map_or("", |(_, password)| password).to_owned()
        };
        let passwords = [password(secrets[0]), password(remote)];
        let variables = &self.0.environment.variables;
        let holds = |value: &str| {
            let is_within = |secret: &&str| !secret.is_empty() && value.contains(*secret);
            // Any word may be part of another URL.
            let is_password = |password: &String| !password.is_empty() && value.contains(password.as_str());
            secrets.iter().any(is_within) || passwords.iter().any(is_password)
        };
        let names = variables.iter().filter(|(_, value)| holds(value)).map(|(name, _)| name.clone());
        process::withhold(names.collect());
    }

    /// Returns the open sessions of a tree.
    fn open_below(&self, shared: &Shared, root: &SessionId) -> Vec<(SessionId, Arc<Tickets>)> {
        let open = lock(&self.0.sessions.open);
        let of_tree = open.iter().filter(|(id, _)| shared.root(id).as_ref() == Some(root));
        of_tree.map(|(id, open)| (id.clone(), open.tickets.clone())).collect()
    }

    /// Ends the turns of all shared sessions, with their commands: another node may go on with them from now on.
    fn stop_shared(&self) {
        let Some(shared) = self.fleet().found() else { return };
        let reason = "this node's lease has run out".to_owned();
        let error = SharedError::Unreachable { reason };
        for root in shared.held() {
            for (id, tickets) in self.open_below(shared, &root) {
                tickets.abandon(&error.clone().into());
                self.sessions().cancel_background(&id);
            }
        }
    }

    /// Ends everything that goes on in a session that is another node's now. Until then it is not taken again.
    async fn leave_to(&self, root: &SessionId, by: &str) {
        let Some(shared) = self.fleet().found() else { return };
        let error = SharedError::Fenced { session: root.to_string(), by: by.to_owned() };
        for (id, tickets) in self.open_below(shared, root) {
            tickets.abandon(&error.clone().into());
            self.sessions().cancel_background(&id);
            // Its memory is older than the session will be when it comes again.
            while !self.sessions().stop_if_idle(&id).await {
                tokio::time::sleep(TURN_END).await;
            }
            let message = MessageError::UnknownError { message: error.to_string() };
            self.0
                .bus
                .publish(EventPayload::SessionError { session_id: Some(id.clone()), error: Some(message) });
            self.0
                .bus
                .publish(EventPayload::SessionStatus { session_id: id.clone(), status: SessionStatus::Idle });
            self.0.bus.publish(EventPayload::SessionIdle { session_id: id });
        }
        self.fleet().forget_files(root);
        shared.forget_lost(root);
    }
}

/// Acts upon the notices of the shared store, while the engine is there: one does not wait for another.
async fn follow(mut notices: mpsc::Receiver<Notice>, engine: impl Fn() -> Option<Engine>) {
    while let Some(notice) = notices.recv().await {
        let Some(engine) = engine() else { return };
        let acting = engine.clone();
        engine.0.background_tasks.run(async move { acting.act_upon(notice).await });
    }
}

impl Engine {
    async fn act_upon(self, notice: Notice) {
        let engine = self;
        match notice {
            Notice::Lost { session, by } => engine.leave_to(&session, &by).await,
            Notice::Expired => engine.stop_shared(),
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
