//! The hosts of plugins, one for each directory that has plugins or tool files, and their changes to its configuration.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    iter,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, Weak},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use windlass_protocol::opencode::{event::EventPayload, message::MessageError, provider::UsableProviders};

mod feed;
pub mod providers;
pub mod reports;

use self::feed::Feeding;
use super::{Loaded, Plugins, Workspace};
use windlass_base::{blocking::blocking, clock, lock::lock};
use windlass_core::{
    bus::Bus,
    config::{
        Config, Hook,
        sandbox::enclosure::{self, Enclosure},
    },
};
use windlass_provider::auth;
use windlass_services::plugin::{
    api::{self, Api},
    host::{
        Host,
        part::{Part, Setup, Share},
    },
    packages::{self, Installed, Missing},
    plan::Planned,
};

/// Time that the first request about a directory waits for its plugins: longer than one that hangs may take to load.
const START_LIMIT: Duration = Duration::from_secs(15);
/// Time that plugins which are later than that may take.
const LATE_LIMIT: Duration = Duration::from_secs(600);
/// Sentences that are kept for one directory.
const MAX_NOTICES: usize = 16;
/// Keys that plugins find in every configuration, set or not.
const ALWAYS_THERE: [&str; 6] = ["agent", "command", "mcp", "mode", "permission", "provider"];
/// The name under which plugins change the configuration.
pub(super) const HOOK: &str = "plugins";
/// The key of the plugins, those of directories among them.
const LIST: &str = "plugin";
/// The key of the plugins' origins, which is shown to plugins alone.
const ORIGINS: &str = "plugin_origins";

/// The running hosts, by directory.
#[derive(Default)]
pub(super) struct Hosts {
    hosts: Mutex<HashMap<PathBuf, Running>>,
    /// Packages and dependencies that are being installed, or could not be.
    tried: Mutex<HashSet<Missing>>,
    /// Number of installations that are under way.
    n_installing: watch::Sender<usize>,
    /// Answers plugins' requests; a front end sets it.
    api: OnceLock<Api>,
    /// Address of the server, where one listens.
    server: OnceLock<String>,
    /// Sentences about the plugins of each directory, for the turns that begin there.
    notices: Notices,
    /// Providers as clients see them, of the configuration that was asked about last.
    providers: Mutex<Option<(Weak<Loaded>, Arc<UsableProviders>)>>,
}

/// Sentences by directory. Cloning it shares it.
#[derive(Clone, Default)]
struct Notices(Arc<Mutex<HashMap<PathBuf, Vec<Notice>>>>);

/// A sentence for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Notice {
    message: String,
    /// A package or dependencies, where the sentence is about their installation.
    about: Option<Missing>,
}

/// A host, and the events on their way to it.
struct Running {
    host: Arc<Host>,
    feeding: Feeding,
    /// The host that takes its place once it is ready.
    next: Option<Arc<Host>>,
}

impl Running {
    async fn close(&self) {
        self.feeding.finish().await;
        futures_util::future::join_all(
            [Some(&self.host), self.next.as_ref()].into_iter().flatten().map(|it| it.close()),
        )
        .await;
    }
}

/// The hosts of a directory after a change of its plan.
pub(crate) enum Renewal {
    /// The one that runs serves on: nothing has changed, or the next one is not ready yet.
    None,
    /// None is wanted any more.
    Ended,
    /// This one is ready to take over.
    Ready(Arc<Host>),
}

impl<'a> Plugins<'a> {
    /// Sets the API that answers the requests that plugins make by the SDK's client.
    pub fn serve(self, api: Api) {
        // The first front end of a process answers for all.
        let _ = self.engine.0.plugins.api.set(api);
    }

    /// Tells plugins where the server listens.
    pub fn show_server(self, url: String) {
        // A process listens once.
        let _ = self.engine.0.plugins.server.set(url);
    }

    /// Returns the host of a directory's plugins, if there is one.
    pub fn host(self, directory: &Path) -> Option<Arc<Host>> {
        lock(&self.engine.0.plugins.hosts).get(directory).map(|running| running.host.clone())
    }

    /// Ends the host of a directory.
    pub(crate) async fn end(self, directory: &Path) {
        self.engine.0.plugins.notices.retain(directory, |_| false);
        let running = lock(&self.engine.0.plugins.hosts).remove(directory);
        if let Some(running) = running {
            running.close().await;
        }
    }

    /// Returns the notices about a directory's plugins that their user has to know.
    pub(crate) fn notices(self, directory: &Path) -> Vec<String> {
        let notices = lock(&self.engine.0.plugins.notices.0);
        notices.get(directory).into_iter().flatten().map(|notice| notice.message.clone()).collect()
    }

    /// Ends all hosts.
    pub(crate) async fn end_all(self) {
        let running = std::mem::take(&mut *lock(&self.engine.0.plugins.hosts));
        futures_util::future::join_all(running.values().map(Running::close)).await;
    }

    /// Starts the first host of a directory, and feeds it.
    fn run(self, (first, second): (Setup, Option<Setup>)) -> Arc<Host> {
        self.engine.0.plugins.notices.retain(&first.config.directory, |about| about.is_some());
        let host = Arc::new(Host::start(first, second));
        self.put(host.clone());
        host
    }

    fn put(self, host: Arc<Host>) {
        let directory = host.directory().to_owned();
        let running = Running { feeding: feed::start(self.engine, &host), host, next: None };
        // A turn that uses the one before holds it until its end.
        let before = lock(&self.engine.0.plugins.hosts).insert(directory, running);
        self.retire(before);
    }

    /// Gives a host that no turn begins with any more the events that wait for it.
    fn retire(self, before: Option<Running>) {
        let Some(Running { host, feeding, next: _ }) = before else { return };
        // At once, so that no event reaches both.
        feeding.stop();
        self.engine.0.background_tasks.run(async move {
            feeding.finish().await;
            // The feed alone does not keep it.
            drop(host);
        });
    }

    /// Starts the host of a directory after its files were read, and waits for it as long as a client may wait.
    pub(crate) async fn start(self, loaded: &Loaded) -> Option<Arc<Host>> {
        if loaded.plan.is_empty() {
            return None;
        }
        let directory = &loaded.config.directory;
        if let Some(host) = self.host(directory) {
            return Some(host);
        }
        self.install_missing(loaded).await;
        let setups = self.setups(loaded, shares(loaded).await).await;
        let host = self.host(directory).unwrap_or_else(|| self.run(setups));
        if !host.settled(START_LIMIT).await {
            tracing::warn!("plugins are still loading; what they change in the configuration holds later");
            self.read_later(host.clone(), directory.clone());
        }
        Some(host)
    }

    /// Starts another host where the plan of a directory has changed, and waits until it is ready. Until it takes over
    /// by [`Plugins::take_over`], the one that runs serves.
    pub(crate) async fn renew(self, workspace: &Workspace) -> Renewal {
        let loaded = workspace.loaded();
        let directory = &loaded.config.directory;
        let installed = installed(&loaded).await;
        let shares = shares(&loaded).await;
        let is_wanted = |host: &Arc<Host>| {
            *host.plan() == loaded.plan
                && *host.installed() == installed
                && host.shares() == shares.iter().cloned().collect::<Vec<_>>()
        };
        let (has_host, next) = {
            let mut hosts = lock(&self.engine.0.plugins.hosts);
            let running = hosts.get_mut(directory);
            let has_host = running.is_some();
            let mut next = None;
            if let Some(running) = running {
                if is_wanted(&running.host) {
                    running.next = None;
                    return Renewal::None;
                }
                next = running.next.clone().filter(is_wanted);
            }
            (has_host, next)
        };
        if loaded.plan.is_empty() {
            return if has_host { Renewal::Ended } else { Renewal::None };
        }
        let (next, is_begun) = match next {
            Some(next) => (next, true),
            None => {
                self.install_missing(&loaded).await;
                let setups = self.setups(&loaded, shares).await;
                if self.host(directory).is_none() {
                    // Nothing serves that it could take over from.
                    let host = self.run(setups);
                    host.settled(START_LIMIT).await;
                    return Renewal::Ready(host);
                }
                self.engine.0.plugins.notices.retain(directory, |about| about.is_some());
                let next = Arc::new(Host::start(setups.0, setups.1));
                if let Some(running) = lock(&self.engine.0.plugins.hosts).get_mut(directory) {
                    running.next = Some(next.clone());
                }
                (next, false)
            }
        };
        let is_decided = next.decided(START_LIMIT).await;
        if is_decided && next.own_down().is_none() {
            return Renewal::Ready(next);
        }
        if is_decided && let Some(running) = lock(&self.engine.0.plugins.hosts).get_mut(directory) {
            // Another is tried with the next change.
            running.next = None;
        } else if !is_begun {
            self.read_later(next, directory.clone());
        }
        let message = "The changed plugins do not run, so those of before serve on.".to_owned();
        self.engine.0.plugins.notices.tell(self.engine.bus(), directory, message, None);
        Renewal::None
    }

    /// Puts a host in the place of the one that served. Made in one step with the reading that it has a part in.
    pub(crate) fn take_over(self, directory: &Path, renewal: Renewal) {
        match renewal {
            Renewal::None => {}
            Renewal::Ended => {
                self.engine.0.plugins.notices.retain(directory, |_| false);
                let before = lock(&self.engine.0.plugins.hosts).remove(directory);
                self.retire(before);
            }
            Renewal::Ready(host) => {
                let next = lock(&self.engine.0.plugins.hosts)
                    .get(directory)
                    .and_then(|running| running.next.clone());
                // Others may be wanted by now, or none, because the directory was closed.
                if next.is_some_and(|next| Arc::ptr_eq(&next, &host)) {
                    self.put(host);
                }
            }
        }
    }

    async fn setups(self, loaded: &Loaded, shares: Shares) -> (Setup, Option<Setup>) {
        let config = &loaded.config;
        let id = self
            .engine
            .workspaces()
            .project_id(&config.worktree)
            .await
            .unwrap_or_else(|_| "global".to_owned());
        let now = clock::now_ms();
        let is_git = config.worktree != Path::new("/");
        let mut project = json!({
            "id": id, "worktree": config.worktree, "sandboxes": [], "time": { "created": now, "updated": now },
        });
        if is_git {
            project["vcs"] = "git".into();
        }
        let (installed, own) = (installed(loaded).await, Arc::new(config.clone()));
        let setup = |(share, sandbox): (Share, Option<Enclosure>)| Setup {
            plan: loaded.plan.clone(),
            share,
            config: own.clone(),
            project: project.clone(),
            api: match self.engine.0.plugins.api.get().cloned() {
                Some(api) if sandbox.is_some() => Some(api::held(api, &config.directory)),
                api => api,
            },
            server_url: self.engine.0.plugins.server.get().cloned(),
            installed: installed.clone(),
            sandbox,
            login: {
                let (paths, environment) = (self.engine.0.paths.clone(), self.engine.0.environment.clone());
                Arc::new(move |provider| {
                    let (paths, environment) = (paths.clone(), environment.clone());
                    Box::pin(blocking(move || {
                        let login = auth::load(&paths, &environment).0.remove(&provider);
                        serde_json::to_value(login).unwrap_or_default()
                    }))
                })
            },
            tell: {
                let (bus, notices) = (self.engine.bus().clone(), self.engine.0.plugins.notices.clone());
                let directory = config.directory.clone();
                Box::new(move |message| notices.tell(&bus, &directory, message, None))
            },
        };
        (setup(shares.first), shares.second.map(setup))
    }

    /// Installs packages and dependencies that are not there, in the background; then they are loaded.
    async fn install_missing(self, loaded: &Loaded) {
        let (cache, plan) = (loaded.config.paths.cache(), loaded.plan.clone());
        let mut missing = blocking(move || packages::missing(&cache, &plan)).await;
        let notices = &self.engine.0.plugins.notices;
        notices.retain(&loaded.config.directory, |about| about.is_none_or(|it| missing.contains(it)));
        {
            // A failed installation is tried again by the next process, and a package by `windlass plugin update`.
            let mut tried = lock(&self.engine.0.plugins.tried);
            missing.retain(|it| tried.insert(it.clone()));
        }
        if missing.is_empty() {
            return;
        }
        self.install_later(missing, loaded.config.clone());
    }

    /// Installs in the background, and reads the directory again.
    fn install_later(self, missing: Vec<Missing>, config: Config) {
        let engine = self.engine.clone();
        let under_way = Installing::begin(&self.engine.0.plugins.n_installing);
        self.engine.0.background_tasks.run(async move {
            let _under_way = under_way;
            let mut n_installed = 0;
            for missing in missing {
                let progress = missing.progress();
                let notices = &engine.0.plugins.notices;
                notices.keep(&config.directory, &progress, Some(missing.clone()));
                let installed = missing.install(&config).await;
                notices.forget(&config.directory, &progress);
                match installed {
                    Ok(()) => {
                        // It may be taken away and wanted again.
                        lock(&engine.0.plugins.tried).remove(&missing);
                        n_installed += 1;
                    }
                    Err(reason) => notices.tell(engine.bus(), &config.directory, reason, Some(missing)),
                }
            }
            if n_installed > 0 {
                // Other directories may use the same.
                let workspaces: Vec<_> = lock(&engine.0.workspaces).values().cloned().collect();
                for workspace in workspaces.into_iter().filter(|it| !it.loaded().plan.is_empty()) {
                    engine.plugins().read_installed(workspace).await;
                }
            }
        });
    }

    /// Waits until nothing is being installed for plugins, and the installed ones are loaded; false after `limit`.
    pub async fn installed(self, limit: Duration) -> bool {
        let mut n_installing = self.engine.0.plugins.n_installing.subscribe();
        tokio::time::timeout(limit, n_installing.wait_for(|n_installing| *n_installing == 0)).await.is_ok()
    }

    /// Reads a directory again once its plugins are ready.
    fn read_later(self, host: Arc<Host>, directory: PathBuf) {
        let engine = self.engine.clone();
        self.engine.0.background_tasks.run(async move {
            let is_decided = host.decided(LATE_LIMIT).await;
            let workspace = lock(&engine.0.workspaces).get(&directory).cloned();
            if let Some(workspace) = workspace.filter(|_| is_decided) {
                engine.plugins().read_installed(workspace).await;
            }
        });
    }

    /// Loads the plugins and tools of a directory again after the user has accepted their change.
    pub(crate) fn load_accepted(self, workspace: Arc<Workspace>) {
        let engine = self.engine.clone();
        self.engine.0.background_tasks.run(async move {
            engine.plugins().read_installed(workspace).await;
        });
    }

    /// Reads a directory again; boxed, because reading may install.
    fn read_installed(self, workspace: Arc<Workspace>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(error) = self.engine.workspaces().read_again(&workspace).await {
                tracing::warn!(%error, "the installed plugins are not loaded");
            }
        })
    }

    /// Returns the usable providers as clients see them.
    pub(crate) async fn shown_providers(self, loaded: &Arc<Loaded>) -> Arc<UsableProviders> {
        let known = lock(&self.engine.0.plugins.providers).clone();
        if let Some((of, providers)) = known
            && Weak::ptr_eq(&of, &Arc::downgrade(loaded))
        {
            return providers;
        }
        let providers = Arc::new(loaded.usable_providers().await);
        *lock(&self.engine.0.plugins.providers) = Some((Arc::downgrade(loaded), providers.clone()));
        providers
    }
}

/// An installation that is under way until this is dropped.
struct Installing(watch::Sender<usize>);

impl Installing {
    fn begin(n_installing: &watch::Sender<usize>) -> Self {
        n_installing.send_modify(|n_installing| *n_installing += 1);
        Self(n_installing.clone())
    }
}

impl Drop for Installing {
    fn drop(&mut self) {
        self.0.send_modify(|n_installing| *n_installing = n_installing.saturating_sub(1));
    }
}

impl Notices {
    /// Tells the user about a plugin: at once where the client listens to the server, and with the next turn of each
    /// session.
    fn tell(&self, bus: &Bus, directory: &Path, message: String, about: Option<Missing>) {
        tracing::warn!("{message}");
        self.keep(directory, &message, about);
        let error = Some(MessageError::UnknownError { message });
        bus.publish(EventPayload::SessionError { session_id: None, error });
    }

    /// Tells it with the next turn of each session.
    fn keep(&self, directory: &Path, message: &str, about: Option<Missing>) {
        let mut notices = lock(&self.0);
        let of_directory = notices.entry(directory.to_owned()).or_default();
        if of_directory.len() < MAX_NOTICES && !of_directory.iter().any(|it| it.message == message) {
            of_directory.push(Notice { message: message.to_owned(), about });
        }
    }

    fn forget(&self, directory: &Path, message: &str) {
        if let Some(of_directory) = lock(&self.0).get_mut(directory) {
            of_directory.retain(|it| it.message != message);
        }
    }

    /// Keeps the sentences that are wanted.
    fn retain(&self, directory: &Path, is_wanted: impl Fn(Option<&Missing>) -> bool) {
        if let Some(of_directory) = lock(&self.0).get_mut(directory) {
            of_directory.retain(|it| is_wanted(it.about.as_ref()));
        }
    }
}

/// Returns the packages and dependencies of a directory's plugins that are installed.
async fn installed(loaded: &Loaded) -> Installed {
    let (cache, plan) = (loaded.config.paths.cache(), loaded.plan.clone());
    blocking(move || packages::installed(&cache, &plan)).await
}

/// The processes of a host, each with the plugins that it runs and their sandbox.
#[derive(Clone)]
struct Shares {
    first: (Share, Option<Enclosure>),
    second: Option<(Share, Option<Enclosure>)>,
}

impl Shares {
    fn iter(&self) -> impl Iterator<Item = &(Share, Option<Enclosure>)> {
        iter::once(&self.first).chain(&self.second)
    }
}

/// Divides the plugins of a directory where the user's own and the project's run in different sandboxes.
async fn shares(loaded: &Loaded) -> Shares {
    let tools = loaded.plan.tools.iter().map(|file| loaded.config.is_projects(file));
    let sides: BTreeSet<bool> = loaded.plan.plugins.iter().map(|it| it.is_projects).chain(tools).collect();
    let (own, of_project) = enclosure::of_plugins(&loaded.config).await;
    if own == of_project || !sides.contains(&true) {
        Shares { first: (Share::All, own), second: None }
    } else if !sides.contains(&false) {
        Shares { first: (Share::All, of_project), second: None }
    } else {
        Shares { first: (Share::Own, own), second: Some((Share::Projects, of_project)) }
    }
}

/// Returns the origin of a plugin as other plugins are shown it.
fn origin(planned: &Planned, config: &Config) -> Value {
    let source = Path::new(&planned.origin);
    let is_local = if source.is_absolute() {
        let is_project = config.worktree != Path::new("/") && source.starts_with(&config.worktree);
        is_project || source.starts_with(&config.directory)
    } else {
        // A variable; the other names are the addresses of an organisation's files.
        !planned.origin.contains("://")
    };
    let scope = if is_local { "local" } else { "global" };
    json!({ "spec": planned.entry(), "source": planned.origin, "scope": scope })
}

/// Returns the parts that plugins have in a configuration. They must be made on the runtime and used on another thread.
pub(super) fn config_hooks(host: &Host) -> Vec<Hook> {
    host.parts().filter(|it| it.declares("config")).cloned().map(config_hook).collect()
}

fn config_hook(host: Arc<Part>) -> Hook {
    let list: Vec<Value> = host.plan().plugins.iter().map(Planned::entry).collect();
    let origins: Vec<Value> = host.plan().plugins.iter().map(|it| origin(it, host.configuration())).collect();
    let runtime = tokio::runtime::Handle::current();
    let is_held = host.sandbox().is_some();
    let change = move |config: &mut Map<String, Value>| {
        let mut shown = config.clone();
        for key in ALWAYS_THERE {
            shown.entry(key).or_insert_with(|| json!({}));
        }
        shown.insert(LIST.to_owned(), Value::Array(list.clone()));
        shown.insert(ORIGINS.to_owned(), Value::Array(origins.clone()));
        let (changed, failures) = runtime.block_on(host.config(Value::Object(shown)));
        failures.into_iter().for_each(|failure| host.tell(failure));
        if let Value::Object(mut changed) = changed {
            // The plugins are loaded by then.
            for key in [LIST, ORIGINS] {
                changed.remove(key);
                changed.extend(config.get(key).map(|value| (key.to_owned(), value.clone())));
            }
            let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
            changed.retain(|key, value| config.contains_key(key) || !is_empty(value));
            *config = changed;
        }
        Ok(())
    };
    Hook { name: HOOK.to_owned(), change: Arc::new(change), is_held }
}
