//! The services that all sessions of one directory share: configuration, MCP and language servers, approvals.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Instant, SystemTime},
};

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use windlass_base::{
    git::Program,
    lock::lock,
    watch::{Stamp, Survey, Target},
};
use windlass_core::{bus::Bus, config::paths::Paths, storage::Storage};
use windlass_protocol::opencode::{
    event::EventPayload,
    service::{ServiceEvent, ServiceNews},
};
use windlass_services::{lsp, mcp};

use super::{
    loaded::Loaded,
    pending_login::PendingLogin,
    server_choice::{self, ServerChoices},
    state_file,
    trust::Asked,
};
use crate::{asking::approvals::ByPerson, branch};

/// The services of a directory.
pub struct Workspace {
    directory: PathBuf,
    current: Mutex<Current>,
    /// The task that reads the files again when they change, once it was started.
    pub(crate) reloading: Mutex<Option<Reloading>>,
    /// True if changes can be missed: the system does not allow watching, or there is too much to watch.
    pub(crate) polls_each_turn: AtomicBool,
    /// Servers of the configuration, and those that clients added.
    mcp: mcp::Servers,
    pub(super) server_choices: Mutex<ServerChoices>,
    /// Logins at servers that wait for the browser.
    pub(super) server_logins: Mutex<BTreeMap<String, PendingLogin>>,
    lsp: lsp::Servers,
    git: Program,
    pub(crate) approvals: ByPerson,
    asked_trust: Mutex<Asked>,
    /// Time at which a client last asked for it.
    used_at: Mutex<Instant>,
}

/// The task that reads a workspace's files again when they change; it ends with this.
pub(crate) struct Reloading {
    pub turns: mpsc::UnboundedSender<Turn>,
    pub _task: AbortOnDropHandle<()>,
}

/// A turn that begins: the sender is dropped when the changes before it have been read.
pub(crate) type Turn = oneshot::Sender<()>;

struct Current {
    loaded: Arc<Loaded>,
    /// A newer reading that does not hold: it waits for the user's answer, or was refused.
    change: Option<Change>,
    /// Time at which the reading began.
    read_at: Moment,
    stamp: Option<Stamp>,
    use_stored_keys: bool,
}

/// A reading that loosens something.
struct Change {
    loaded: Loaded,
    /// Time at which it was read first.
    id: Instant,
    /// Takes the question back when it is dropped.
    _question: Option<AbortOnDropHandle<()>>,
}

/// Result of reading a directory's files.
pub(crate) struct Reading {
    pub loaded: Loaded,
    /// Time at which the reading began.
    pub read_at: Moment,
    /// Stamp of the files that were read; `None` if they have changed just now.
    pub stamp: Option<Stamp>,
    /// With the keys that the user has stored.
    pub use_stored_keys: bool,
    /// The reading in which all that `loaded` holds back acts, for a project of which nothing was held back before.
    pub whole: Option<Loaded>,
}

/// A moment by both clocks: one that never goes back, to tell which reading is newer, and the one of files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub order: Instant,
    pub wall: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { order: Instant::now(), wall: SystemTime::now() }
    }
}

impl Workspace {
    /// Starts the directory's services.
    pub(crate) fn start(reading: Reading, bus: &Bus, storage: Storage, git: Program) -> Self {
        let Reading { loaded, read_at, stamp, use_stored_keys, whole: _ } = reading;
        let directory = loaded.config.directory.clone();
        let results = loaded.config.paths.tool_output();
        let logins = mcp::login::LoginFiles::new(&loaded.config.paths);
        let directories = mcp::Directories { directory: directory.clone(), results, logins };
        let approvals = ByPerson::new(storage, &directory, &loaded.config.worktree);
        Self {
            mcp: mcp::Servers::start(loaded.servers(), directories, bus.clone()),
            server_choices: Mutex::default(),
            server_logins: Mutex::default(),
            lsp: lsp::Servers::new({
                let (bus, directory) = (bus.clone(), directory.display().to_string());
                move || {
                    let event =
                        ServiceEvent { directory: Some(directory.clone()), news: ServiceNews::LspUpdated {} };
                    bus.publish(EventPayload::Service(event));
                }
            }),
            git,
            directory,
            current: Mutex::new(Current {
                loaded: Arc::new(loaded),
                change: None,
                read_at,
                stamp,
                use_stored_keys,
            }),
            reloading: Mutex::default(),
            polls_each_turn: AtomicBool::new(false),
            approvals,
            asked_trust: Mutex::default(),
            used_at: Mutex::new(Instant::now()),
        }
    }

    /// Returns the user's answers about the project in this process.
    pub(crate) fn asked_trust(&self) -> MutexGuard<'_, Asked> {
        lock(&self.asked_trust)
    }

    /// Notes that a client uses it now.
    pub(crate) fn touch(&self) {
        *lock(&self.used_at) = Instant::now();
    }

    /// Returns the time at which a client last asked for it.
    pub(crate) fn used_at(&self) -> Instant {
        *lock(&self.used_at)
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the current configuration and the values that follow from it.
    pub fn loaded(&self) -> Arc<Loaded> {
        lock(&self.current).loaded.clone()
    }

    /// Returns the branch that is checked out; `None` outside of repositories. Reads a file or two.
    pub fn branch(&self) -> Option<String> {
        branch::read(&branch::head_file(&self.loaded().config.worktree)?)
    }

    /// Returns the MCP servers of the configuration.
    pub fn mcp(&self) -> &mcp::Servers {
        &self.mcp
    }

    /// Returns the language servers, each started when it is asked.
    pub fn lsp(&self) -> &lsp::Servers {
        &self.lsp
    }

    /// Returns the git program.
    pub fn git(&self) -> &Program {
        &self.git
    }

    /// Returns the time at which the reading of the current files began.
    pub(crate) fn read_at(&self) -> Moment {
        lock(&self.current).read_at
    }

    /// Returns true if reading the files again would give the present configuration. Does blocking reads of
    /// directories.
    pub(crate) fn is_current(&self, paths: &Paths, use_stored_keys: bool) -> bool {
        let (loaded, read_at, stamp) = {
            let current = lock(&self.current);
            if current.use_stored_keys != use_stored_keys {
                return false;
            }
            (current.loaded.clone(), current.read_at, current.stamp)
        };
        stamp.is_some()
            && self.directory.is_dir()
            && stamp == Survey::of(&loaded.sources(), read_at.wall).stamp
            && loaded.last_used == state_file::last_used_model(paths).unwrap_or_default()
    }

    /// Puts freshly read files in the place of the old, and of a change that waits. False when they say the same, or
    /// when newer ones are there already.
    pub(crate) fn replace(&self, reading: Reading) -> bool {
        let mut current = lock(&self.current);
        let Some(loaded) = current.note(reading) else { return false };
        current.change = None;
        self.put(&mut current, loaded)
    }

    /// Keeps freshly read files for the user's answer, in the place of others that wait. Returns the id of the change;
    /// none when the same waits or was refused already, or when newer files are there.
    pub(crate) fn hold(&self, reading: Reading) -> Option<Instant> {
        let id = reading.read_at.order;
        let mut current = lock(&self.current);
        let mut loaded = current.note(reading)?;
        loaded.last_used.clone_from(&current.loaded.last_used);
        if current.change.as_ref().is_some_and(|change| change.loaded == loaded) {
            return None;
        }
        current.change = Some(Change { loaded, id, _question: None });
        Some(id)
    }

    /// Keeps the question of a change for as long as the change waits.
    pub(crate) fn set_question(&self, id: Instant, question: AbortOnDropHandle<()>) {
        if let Some(change) = lock(&self.current).change.as_mut().filter(|it| it.id == id) {
            change._question = Some(question);
        }
    }

    /// Lets a change hold that waits. False when it waits no more.
    pub(crate) fn accept(&self, id: Instant) -> bool {
        let mut current = lock(&self.current);
        match current.change.take_if(|change| change.id == id) {
            Some(change) => self.put(&mut current, change.loaded),
            None => false,
        }
    }

    fn put(&self, current: &mut Current, loaded: Loaded) -> bool {
        let is_new = *current.loaded != loaded;
        if is_new {
            self.mcp.replace(server_choice::specs(&loaded, &lock(&self.server_choices)));
            self.lsp.replace(&loaded.config);
            current.loaded = Arc::new(loaded);
        }
        is_new
    }

    /// Returns the files that decide whether a reading is still current: those of the one that holds, and of the one
    /// that waits.
    pub(crate) fn sources(&self) -> Vec<Target> {
        let current = lock(&self.current);
        let waiting = current.change.iter().flat_map(|change| change.loaded.sources());
        current.loaded.sources().into_iter().chain(waiting).collect()
    }

    /// Returns true if changes of the files are not noticed by themselves.
    pub(crate) fn polls_each_turn(&self) -> bool {
        self.polls_each_turn.load(Ordering::Relaxed)
    }

    /// Ends the directory's services.
    pub(crate) async fn close(&self) {
        drop(lock(&self.current).change.take());
        drop(lock(&self.reloading).take());
        tokio::join!(self.mcp.close(), self.lsp.close());
    }
}

impl Current {
    /// Notes that the files were read, and returns their configuration unless newer ones were read already.
    fn note(&mut self, reading: Reading) -> Option<Loaded> {
        let Reading { loaded, read_at, stamp, use_stored_keys, whole: _ } = reading;
        if read_at.order < self.read_at.order {
            return None;
        }
        self.read_at = read_at;
        self.stamp = stamp;
        self.use_stored_keys = use_stored_keys;
        Some(loaded)
    }
}
