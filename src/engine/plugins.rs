//! The hosts of plugins, one for each directory that has plugins or tool files, and what they change in its
//! configuration.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, Weak},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio_util::task::AbortOnDropHandle;
use windlass_protocol::opencode::{event::EventPayload, message::MessageError, provider::UsableProviders};

mod feed;

use super::{Engine, Loaded, Workspace};
use crate::{
    base::{clock, lock::lock},
    config::Hook,
    plugin::{
        api::Api,
        host::{Host, Setup},
    },
};

/// Time that the first request about a directory waits for its plugins.
const START_LIMIT: Duration = Duration::from_secs(5);
/// Keys that plugins find in every configuration, set or not.
const ALWAYS_THERE: [&str; 6] = ["agent", "command", "mcp", "mode", "permission", "provider"];
/// The key of the plugins' origins, which is shown to plugins alone.
const ORIGINS: &str = "plugin_origins";

/// The running hosts, by directory.
#[derive(Default)]
pub(super) struct Hosts {
    hosts: Mutex<HashMap<PathBuf, Running>>,
    /// Answers plugins' requests; a front end sets it.
    api: OnceLock<Api>,
    /// Providers as clients see them, of the configuration that was asked about last.
    providers: Mutex<Option<(Weak<Loaded>, Arc<UsableProviders>)>>,
}

/// A host, and what feeds it.
struct Running {
    host: Arc<Host>,
    _feed: AbortOnDropHandle<()>,
}

impl Engine {
    /// Sets what answers the requests that plugins make by the SDK's client.
    pub fn serve_plugins(&self, api: Api) {
        // The first front end of a process answers for all.
        let _ = self.0.plugins.api.set(api);
    }

    /// Returns the host of a directory's plugins, if there is one.
    pub(crate) fn plugins(&self, directory: &Path) -> Option<Arc<Host>> {
        lock(&self.0.plugins.hosts).get(directory).map(|running| running.host.clone())
    }

    /// Ends the host of a directory.
    pub(crate) async fn end_plugins(&self, directory: &Path) {
        let running = lock(&self.0.plugins.hosts).remove(directory);
        if let Some(running) = running {
            running.host.close().await;
        }
    }

    /// Ends all hosts.
    pub(crate) async fn end_all_plugins(&self) {
        let running = std::mem::take(&mut *lock(&self.0.plugins.hosts));
        futures_util::future::join_all(running.values().map(|it| it.host.close())).await;
    }

    /// Starts a host and feeds it, in the place of the one that ran.
    fn run_plugins(&self, setup: Setup) -> Arc<Host> {
        let directory = setup.config.directory.clone();
        let host = Arc::new(Host::start(setup));
        let running = Running { host: host.clone(), _feed: feed::start(self, &host) };
        // A turn that uses the one before holds it until its end.
        lock(&self.0.plugins.hosts).insert(directory, running);
        host
    }

    /// Starts the host of a directory whose files were read, and waits for it as long as a client may wait.
    pub(crate) async fn start_plugins(&self, loaded: &Loaded) -> Option<Arc<Host>> {
        if loaded.plan.is_empty() {
            return None;
        }
        let directory = &loaded.config.directory;
        if let Some(host) = self.plugins(directory) {
            return Some(host);
        }
        let setup = self.setup(loaded).await;
        let host = self.plugins(directory).unwrap_or_else(|| self.run_plugins(setup));
        if !host.settled(START_LIMIT).await {
            tracing::warn!("plugins are still loading; what they change in the configuration holds later");
        }
        Some(host)
    }

    /// Lets another host take over where the plan of a directory has changed. True if there is something else to read.
    pub(crate) async fn renew_plugins(&self, workspace: &Workspace) -> bool {
        let loaded = workspace.loaded();
        let directory = &loaded.config.directory;
        let running = self.plugins(directory);
        if running.as_ref().is_some_and(|host| *host.plan() == loaded.plan) {
            return false;
        }
        if loaded.plan.is_empty() {
            self.end_plugins(directory).await;
            return running.is_some();
        }
        let setup = self.setup(&loaded).await;
        self.run_plugins(setup).settled(START_LIMIT).await;
        true
    }

    async fn setup(&self, loaded: &Loaded) -> Setup {
        let config = &loaded.config;
        let id = self.project_id(&config.worktree).await.unwrap_or_else(|_| "global".to_owned());
        let now = clock::now_ms();
        let is_git = config.worktree != Path::new("/");
        let mut project = json!({
            "id": id, "worktree": config.worktree, "sandboxes": [], "time": { "created": now, "updated": now },
        });
        if is_git {
            project["vcs"] = "git".into();
        }
        let bus = self.bus().clone();
        Setup {
            plan: loaded.plan.clone(),
            config: Arc::new(config.clone()),
            project,
            api: self.0.plugins.api.get().cloned(),
            server_url: None,
            packages: BTreeMap::new(),
            tell: Box::new(move |message| {
                tracing::warn!("{message}");
                let error = Some(MessageError::UnknownError { message });
                bus.publish(EventPayload::SessionError { session_id: None, error });
            }),
        }
    }

    /// Returns the usable providers as clients see them.
    pub(crate) async fn shown_providers(&self, loaded: &Arc<Loaded>) -> Arc<UsableProviders> {
        let known = lock(&self.0.plugins.providers).clone();
        if let Some((of, providers)) = known
            && Weak::ptr_eq(&of, &Arc::downgrade(loaded))
        {
            return providers;
        }
        let providers = Arc::new(loaded.usable_providers().await);
        *lock(&self.0.plugins.providers) = Some((Arc::downgrade(loaded), providers.clone()));
        providers
    }
}

/// Returns the plugins' part in a configuration. It must be made on the runtime and used on another thread.
pub(super) fn config_hook(host: Arc<Host>) -> Hook {
    let plugins = host.plan().plugins.iter();
    let origins: Vec<Value> = plugins.map(|it| json!({ "spec": it.spec, "source": it.name() })).collect();
    let runtime = tokio::runtime::Handle::current();
    let change = move |config: &mut Map<String, Value>| {
        let mut shown = config.clone();
        for key in ALWAYS_THERE {
            shown.entry(key).or_insert_with(|| json!({}));
        }
        shown.insert(ORIGINS.to_owned(), Value::Array(origins.clone()));
        let (changed, failures) = runtime.block_on(host.config(Value::Object(shown)));
        for failure in failures {
            tracing::warn!("{failure}");
        }
        if let Value::Object(mut changed) = changed {
            changed.remove(ORIGINS);
            let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
            changed.retain(|key, value| config.contains_key(key) || !is_empty(value));
            *config = changed;
        }
        Ok(())
    };
    Hook { name: "plugins".to_owned(), change: Arc::new(change) }
}
