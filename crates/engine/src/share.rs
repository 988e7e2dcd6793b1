//! Pages of sessions that their user shares: files in a directory that a web server serves, written anew while a session works
//! and removed once it is shared no more.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use serde_json::Value;
use tokio::sync::Notify;
use windlass_base::{blocking::blocking, clock::Zone, ids, lock::lock, queue::Queue};
use windlass_core::{
    bus::Filter,
    config::{layers, secrets},
};
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::SessionId,
    session::{Session, SessionShare},
    settings::{Settings, Share},
};

mod private;

use crate::{
    Engine, EngineError, EngineErrorKind, SessionPatch,
    transcript::{Transcript, html},
};

/// Characters of a link that nobody can guess.
const CHARS: usize = 32;
/// Time between two writings of one page.
const PERIOD: Duration = Duration::from_secs(1);
/// The file of a page, in a directory of its own.
const FILE: &str = "index.html";

/// The things that a page lacks, for people.
pub const LEFT_OUT: [&str; 4] = [
    "values of environment variables and keys that are stored here, where their names say that they are secret",
    "words that look like keys, private keys in blocks, and passwords in addresses",
    "contents of files outside of the project, where they are attached or a tool for files shows them",
    "the instructions of the agent, and the settings of the session",
];

/// The sessions with pages that this process keeps up to date.
#[derive(Default)]
pub struct ShareState {
    following: OnceLock<()>,
    pages: Mutex<Pages>,
    wake: Arc<Notify>,
    /// Held while a page is made, written or removed: one that is gone stays gone.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Pages {
    shared: HashSet<SessionId>,
    /// Those that have changed since their page was written.
    changed: HashSet<SessionId>,
    /// Subagents' sessions, by the session above.
    above: HashMap<SessionId, SessionId>,
}

/// The sessions that are shared with people.
#[derive(Clone, Copy)]
pub struct Shares<'a> {
    engine: &'a Engine,
}

impl Engine {
    /// Returns the sessions that are shared with people.
    pub fn shares(&self) -> Shares<'_> {
        Shares { engine: self }
    }
}

impl Shares<'_> {
    /// Returns the user's settings, which no project changes.
    async fn settings(self) -> Settings {
        let engine = &self.engine.0;
        let (environment, paths) = (engine.environment.clone(), engine.paths.clone());
        blocking(move || layers::of_user(&environment, &paths).settings).await
    }

    /// Returns true if each new session is shared.
    pub async fn is_automatic(self) -> bool {
        self.engine.0.paths.store.is_none() && self.settings().await.share == Some(Share::Auto)
    }

    /// Says whether a session can be shared; the error says why not.
    pub async fn check(self, id: &SessionId) -> Result<(), EngineError> {
        let info = self.whole(id).await?;
        self.check_in(Path::new(&info.directory)).await
    }

    /// Says whether sessions of a directory can be shared; the error says why not.
    pub async fn check_in(self, directory: &Path) -> Result<(), EngineError> {
        if self.engine.has_people() {
            self.allowed(directory).await.map(drop)
        } else {
            self.ready(directory).await.map(drop)
        }
    }

    /// Returns a session, unless it is a subagent's.
    async fn whole(self, id: &SessionId) -> Result<Session, EngineError> {
        let info = self.engine.sessions().get(id).await?;
        if info.parent_id.is_some() {
            return Err(refusal("A subagent's session is on the page of the session above it."));
        }
        Ok(info)
    }

    /// Returns the settings, and the directory of the pages, if sessions of a directory can be shared.
    async fn ready(self, directory: &Path) -> Result<(Settings, PathBuf), EngineError> {
        let settings = self.allowed(directory).await?;
        let pages = pages(&settings)?;
        Ok((settings, pages))
    }

    /// Returns the user's settings if sessions of a directory may be shared; the error says why not.
    pub async fn allowed(self, directory: &Path) -> Result<Settings, EngineError> {
        let settings = self.settings().await;
        // A project may forbid it, and not allow it.
        let of_project = self.engine.workspaces().inspect_files(directory).await;
        let of_project = of_project.ok().and_then(|loaded| loaded.config.settings.share);
        if [settings.share, of_project].contains(&Some(Share::Disabled)) {
            return Err(refusal(
                "Sharing is off: `share` is \"disabled\", or OPENCODE_DISABLE_SHARE is set.",
            ));
        }
        Ok(settings)
    }

    /// Shares a session: writes its page and returns the session with its link. Sharing it again writes the page again.
    ///
    /// # Errors
    ///
    /// Sharing is off, nothing says where pages go, or the page cannot be written.
    pub async fn share(self, id: &SessionId) -> Result<Session, EngineError> {
        let _alone = self.engine.0.shares.writing.lock().await;
        let info = self.whole(id).await?;
        if let Some(people) = self.engine.people() {
            self.allowed(Path::new(&info.directory)).await?;
            let url = people.share(id).await.map_err(refusal)?;
            let patch = SessionPatch {
                share: Some(Some(SessionShare { url, page: None })),
                ..SessionPatch::default()
            };
            return self.engine.sessions().patch(id, patch).await;
        }
        let (settings, directory) = self.ready(Path::new(&info.directory)).await?;
        let link = info.share.clone().unwrap_or_else(|| link(&settings, &directory));
        let Some(place) = link.page.as_ref().map(PathBuf::from) else {
            return Err(refusal("The session is shared by something else; take that back first."));
        };
        let made = place.clone();
        blocking(move || fs::create_dir_all(made)).await.map_err(unwritten)?;
        self.write(id, &place).await?;
        let shared = if info.share.is_some() {
            info
        } else {
            let patch = SessionPatch { share: Some(Some(link)), ..Default::default() };
            let patched = self.engine.sessions().patch(id, patch).await;
            if patched.is_err() {
                remove(place).await?;
            }
            patched?
        };
        self.follow(id);
        Ok(shared)
    }

    /// Takes a session's page back. Nothing happens where it has none.
    pub async fn unshare(self, id: &SessionId) -> Result<Session, EngineError> {
        let info = self.engine.sessions().get(id).await?;
        if info.share.is_none() {
            return Ok(info);
        }
        let _alone = self.engine.0.shares.writing.lock().await;
        if let Some(people) = self.engine.people() {
            people.unshare(id).await.map_err(refusal)?;
        }
        self.remove_page(&info).await?;
        self.engine.sessions().patch(id, SessionPatch { share: Some(None), ..Default::default() }).await
    }

    /// Removes the page of a session that is deleted.
    pub(crate) async fn remove_with_session(self, info: &Session) -> Result<(), EngineError> {
        let _alone = self.engine.0.shares.writing.lock().await;
        self.remove_page(info).await
    }

    /// Removes the page of a session that has one.
    async fn remove_page(self, info: &Session) -> Result<(), EngineError> {
        let Some(share) = &info.share else { return Ok(()) };
        {
            let mut pages = lock(&self.engine.0.shares.pages);
            pages.shared.remove(&info.id);
            pages.changed.remove(&info.id);
        }
        match &share.page {
            Some(page) => remove(page.into()).await,
            None => Ok(()),
        }
    }

    /// Notes the end of a turn: another process may have shared its session meanwhile.
    pub(crate) async fn note_turn(self, id: &SessionId) {
        let stored = self.engine.storage().session(id.clone()).await;
        if stored.is_ok_and(|info| info.is_some_and(|info| info.share.is_some())) {
            self.follow(id);
        }
    }

    /// Writes the pages of all sessions that were followed a last time: events of theirs may not have been read.
    pub(crate) async fn finish(self) {
        {
            let mut pages = lock(&self.engine.0.shares.pages);
            let shared = pages.shared.clone();
            pages.changed.extend(shared);
        }
        self.write_changed().await;
    }

    /// Keeps the page of a session up to date from now on, beginning with the changes up to now.
    pub(crate) fn follow(self, id: &SessionId) {
        let state = &self.engine.0.shares;
        {
            let mut pages = lock(&state.pages);
            pages.shared.insert(id.clone());
            pages.changed.insert(id.clone());
        }
        state.wake.notify_one();
        state.following.get_or_init(|| {
            let queue = self.engine.bus().listen(Filter::Lossy);
            let (engine, wake) = (Arc::downgrade(&self.engine.0), state.wake.clone());
            self.engine.0.background_tasks.run(async move {
                keep(&queue, &wake, || engine.upgrade().map(Engine)).await;
            });
        });
    }

    /// Writes the pages of all sessions that have changed.
    pub(crate) async fn write_changed(self) {
        let _alone = self.engine.0.shares.writing.lock().await;
        let changed = std::mem::take(&mut lock(&self.engine.0.shares.pages).changed);
        if changed.is_empty() {
            return;
        }
        for id in changed {
            let share =
                self.engine.storage().session(id.clone()).await.ok().flatten().and_then(|it| it.share);
            let Some(page) = share.and_then(|share| share.page) else { continue };
            if let Err(error) = self.write(&id, Path::new(&page)).await {
                tracing::warn!(session = %id, %error, "the page of a session that is shared is an older one");
            }
        }
    }

    async fn write(self, id: &SessionId, directory: &Path) -> Result<(), EngineError> {
        let page = self.draw(id).await?;
        let directory = directory.to_owned();
        let written = blocking(move || {
            // The directory was made when the session was shared. A reader has the old page or the new one.
            let new = directory.join(format!(".{FILE}.{}", ids::random(CHARS)));
            fs::write(&new, page)?;
            fs::rename(&new, directory.join(FILE))
        });
        written.await.map_err(unwritten)
    }

    /// Draws the page of a session, without the things that are not for others.
    pub async fn draw(self, id: &SessionId) -> Result<String, EngineError> {
        let record = self.engine.sessions().record(id).await?.without_undone();
        let is_live = self.engine.sessions().is_working(id);
        let secrets = self.secrets().await;
        let drawn = blocking(move || {
            let root = PathBuf::from(&record.info.directory);
            let record = private::without(record, &root, &secrets)?;
            let transcript = Transcript {
                info: &record.info,
                messages: &record.messages,
                todos: &record.todos,
                children: &record.children,
                zone: Zone::local(),
            };
            let page = if is_live { html::live_page(&transcript) } else { html::page(&transcript) };
            Ok::<_, io::Error>(page)
        });
        drawn.await.map_err(unwritten)
    }

    /// Returns the secrets that are known here by their names.
    async fn secrets(self) -> Vec<String> {
        let engine = &self.engine.0;
        let variables =
            engine.environment.variables.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        let variables = Value::Object(variables.collect());
        let paths = &engine.paths;
        let files = [paths.auth(), paths.mcp_auth(), paths.opencode_auth(), paths.opencode_mcp_auth()];
        let (environment, paths) = (engine.environment.clone(), paths.clone());
        blocking(move || {
            let mut found = secrets::known(&[], &variables);
            found.extend(layers::of_user(&environment, &paths).secrets());
            for path in files {
                // Without a stored login there is nothing to hide.
                let stored =
                    fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
                found.extend(stored.iter().flat_map(private::words));
            }
            found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
            found
        })
        .await
    }
}

/// Notes which sessions change, and writes their pages now and then, while the engine is there.
async fn keep(queue: &Queue<Arc<Event>>, wake: &Notify, engine: impl Fn() -> Option<Engine>) {
    let mut batch = VecDeque::new();
    loop {
        tokio::select! {
            is_open = queue.next_batch(&mut batch) => {
                if !is_open {
                    return;
                }
            }
            () = wake.notified() => {}
        }
        let Some(engine) = engine() else { return };
        {
            let mut pages = lock(&engine.0.shares.pages);
            batch.drain(..).for_each(|event| pages.note(&event.payload));
        }
        if !lock(&engine.0.shares.pages).changed.is_empty() {
            engine.shares().write_changed().await;
            drop(engine);
            tokio::time::sleep(PERIOD).await;
        }
    }
}

impl Pages {
    fn note(&mut self, payload: &EventPayload) {
        if let EventPayload::SessionCreated(created) = payload
            && let Some(parent) = &created.info.parent_id
        {
            let root = self.above.get(parent).unwrap_or(parent).clone();
            if self.shared.contains(&root) {
                self.above.insert(created.session_id.clone(), root);
            }
        }
        let Some(id) = payload.session_id() else { return };
        let root = self.above.get(id).unwrap_or(id);
        if self.shared.contains(root) {
            self.changed.insert(root.clone());
        }
    }
}

/// Makes the link of a new page.
fn link(settings: &Settings, directory: &Path) -> SessionShare {
    let key = ids::random(CHARS);
    let page = directory.join(&key);
    let url = match settings.windlass.share.url.as_deref().filter(|url| !url.is_empty()) {
        Some(url) => format!("{}/{key}/", url.trim_end_matches('/')),
        None => format!("file://{}", page.join(FILE).display()),
    };
    SessionShare { url, page: Some(page.display().to_string()) }
}

fn pages(settings: &Settings) -> Result<PathBuf, EngineError> {
    let directory = settings.windlass.share.directory.as_deref().map(Path::new);
    match directory.filter(|it| it.is_absolute()) {
        Some(directory) => Ok(directory.to_owned()),
        None => Err(refusal(
            "Nothing says where pages go: set `windlass.share.directory` in your own opencode.json to an absolute path.",
        )),
    }
}

async fn remove(page: PathBuf) -> Result<(), EngineError> {
    let removed = blocking(move || match fs::remove_dir_all(&page) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{}: {error}", page.display())),
        Ok(()) | Err(_) => Ok(()),
    });
    removed.await.map_err(|reason| refusal(format!("The page is still there: {reason}.")))
}

fn unwritten(error: io::Error) -> EngineError {
    refusal(format!("The page cannot be written: {error}."))
}

fn refusal(message: impl Into<String>) -> EngineError {
    EngineError::new(EngineErrorKind::InvalidInput, message)
}
