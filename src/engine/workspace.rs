//! What all sessions of one directory share: configuration, agents, models, MCP servers and approvals.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Instant, SystemTime},
};

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use windlass_protocol::opencode::{message::ModelRef, permission::Action};

use super::{EngineError, EngineErrorKind, approvals::Approvals, lint, mention, named, request::PromptPart};
use crate::{
    base::{
        lock::lock,
        log,
        watch::{self, Stamp, Survey, Target},
    },
    bus::Bus,
    config::{
        Config, Environment, Hook, Warning, layers, paths::Paths, reader, sandbox::enclosure::Enclosure,
        sources,
    },
    library::{
        self, Agent,
        skills::{self, Skill},
    },
    lsp, mcp,
    provider::{
        Model, auth,
        catalog::{self, Catalog},
        demo,
    },
    storage::Storage,
};

/// The services of a directory.
pub struct Workspace {
    directory: PathBuf,
    current: Mutex<Current>,
    /// The task that reads the files again when they change, once it was started.
    pub(super) reloading: Mutex<Option<Reloading>>,
    /// Not every change is noticed: the system does not let us watch, or there is too much.
    pub(super) is_blind: AtomicBool,
    /// Servers of the configuration.
    mcp: mcp::Servers,
    lsp: lsp::Servers,
    pub(super) approvals: Approvals,
}

/// The task that reads a workspace's files again when they change; it ends with this.
pub(super) struct Reloading {
    pub turns: mpsc::UnboundedSender<Turn>,
    pub _task: AbortOnDropHandle<()>,
}

/// A turn that begins: the sender is dropped when what changed before it has been read.
pub(super) type Turn = oneshot::Sender<()>;

struct Current {
    loaded: Arc<Loaded>,
    /// A newer reading that does not hold: it waits for the user's answer, or was refused.
    change: Option<Change>,
    /// When the reading began.
    read_at: Moment,
    stamp: Option<Stamp>,
    use_stored_keys: bool,
}

/// A reading that loosens something.
struct Change {
    loaded: Loaded,
    /// When it was read first.
    id: Instant,
    /// Takes the question back when it is dropped.
    _question: Option<AbortOnDropHandle<()>>,
}

/// What was read of a directory's files.
pub(super) struct Reading {
    pub loaded: Loaded,
    /// When it began.
    pub read_at: Moment,
    /// What it was read from; `None` when that has changed just now.
    pub stamp: Option<Stamp>,
    /// With the keys that the user has stored.
    pub use_stored_keys: bool,
}

/// A moment by both clocks: one that never goes back, to tell which reading is newer, and the one of files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub order: Instant,
    pub wall: SystemTime,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self { order: Instant::now(), wall: SystemTime::now() }
    }
}

/// Something a user may choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    /// An agent's, as the user wrote it.
    pub color: Option<String>,
}

/// A slash command that a user may type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandChoice {
    pub name: String,
    pub description: String,
    /// What to type behind the name, when it makes a difference.
    pub hint: Option<String>,
}

/// What the files said when they were read last. A turn keeps the one it began with.
#[derive(PartialEq)]
pub struct Loaded {
    pub config: Config,
    /// Default agent first, then by name; never empty.
    pub agents: Vec<Agent>,
    pub skills: Vec<Skill>,
    pub commands: BTreeMap<String, library::commands::Command>,
    pub catalog: Catalog,
    /// The model that a user chose last in any session.
    pub last_used: Option<ModelRef>,
    /// Directories of a marketplace's agents, there or not.
    pub market: Vec<PathBuf>,
    /// File and line of the keys that name models which cannot be had.
    pub(super) model_places: BTreeMap<String, String>,
    /// What was ignored, for the user to see.
    pub warnings: Vec<Warning>,
    /// What holds but may have been meant otherwise, beside the configuration's own notes.
    pub notes: Vec<Warning>,
}

impl Workspace {
    /// Starts the directory's services.
    pub(super) fn start(reading: Reading, bus: &Bus, storage: Storage) -> Self {
        let Reading { loaded, read_at, stamp, use_stored_keys } = reading;
        let directory = loaded.config.directory.clone();
        let approvals = Approvals::new(storage, &directory, &loaded.config.worktree);
        Self {
            mcp: mcp::Servers::start(loaded.servers(), directory.clone(), bus.clone()),
            lsp: lsp::Servers::default(),
            directory,
            current: Mutex::new(Current {
                loaded: Arc::new(loaded),
                change: None,
                read_at,
                stamp,
                use_stored_keys,
            }),
            reloading: Mutex::default(),
            is_blind: AtomicBool::new(false),
            approvals,
        }
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the current configuration and what follows from it.
    pub fn loaded(&self) -> Arc<Loaded> {
        lock(&self.current).loaded.clone()
    }

    /// MCP servers of the configuration.
    pub fn mcp(&self) -> &mcp::Servers {
        &self.mcp
    }

    /// Language servers, each started when it is asked.
    pub fn lsp(&self) -> &lsp::Servers {
        &self.lsp
    }

    /// When the reading began whose files hold now.
    pub(super) fn read_at(&self) -> Moment {
        lock(&self.current).read_at
    }

    /// Returns true if reading the files again would give the present configuration. Does blocking reads of
    /// directories.
    pub(super) fn is_current(&self, paths: &Paths, use_stored_keys: bool) -> bool {
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
            && loaded.last_used == super::state_file::last_used_model(paths)
    }

    /// Puts freshly read files in the place of the old, and of a change that waits. False when they say the same, or
    /// when newer ones are there already.
    pub(super) fn replace(&self, reading: Reading) -> bool {
        let mut current = lock(&self.current);
        let Some(loaded) = current.note(reading) else { return false };
        current.change = None;
        self.put(&mut current, loaded)
    }

    /// Keeps freshly read files for the user's answer, in the place of others that wait. Returns the id of the change;
    /// none when the same waits or was refused already, or when newer files are there.
    pub(super) fn hold(&self, reading: Reading) -> Option<Instant> {
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
    pub(super) fn set_question(&self, id: Instant, question: AbortOnDropHandle<()>) {
        if let Some(change) = lock(&self.current).change.as_mut().filter(|it| it.id == id) {
            change._question = Some(question);
        }
    }

    /// Lets a change hold that waits. False when it waits no more.
    pub(super) fn accept(&self, id: Instant) -> bool {
        let mut current = lock(&self.current);
        match current.change.take_if(|change| change.id == id) {
            Some(change) => self.put(&mut current, change.loaded),
            None => false,
        }
    }

    fn put(&self, current: &mut Current, loaded: Loaded) -> bool {
        let is_new = *current.loaded != loaded;
        if is_new {
            self.mcp.replace(loaded.servers());
            self.lsp.replace(&loaded.config);
            current.loaded = Arc::new(loaded);
        }
        is_new
    }

    /// Returns the files that decide whether a reading is still what they say: those of what holds, and of what
    /// waits.
    pub(super) fn sources(&self) -> Vec<Target> {
        let current = lock(&self.current);
        let waiting = current.change.iter().flat_map(|change| change.loaded.sources());
        current.loaded.sources().into_iter().chain(waiting).collect()
    }

    /// Returns true if changes of the files are not noticed by themselves.
    pub(super) fn is_blind(&self) -> bool {
        self.is_blind.load(Ordering::Relaxed)
    }

    /// Ends the directory's services.
    pub(super) async fn close(&self) {
        drop(lock(&self.current).change.take());
        drop(lock(&self.reloading).take());
        tokio::join!(self.mcp.close(), self.lsp.close());
    }
}

impl Current {
    /// Notes that the files were read, and returns what they say unless newer ones were read already.
    fn note(&mut self, reading: Reading) -> Option<Loaded> {
        let Reading { loaded, read_at, stamp, use_stored_keys } = reading;
        if read_at.order < self.read_at.order {
            return None;
        }
        self.read_at = read_at;
        self.stamp = stamp;
        self.use_stored_keys = use_stored_keys;
        Some(loaded)
    }
}

impl Loaded {
    /// Reads everything; what is broken and was not before stays as it was. Does blocking file reads.
    pub(super) fn read(
        environment: &Environment,
        paths: &Paths,
        hooks: &[Hook],
        directory: &Path,
        use_stored_keys: bool,
        before: Option<&Loaded>,
    ) -> Self {
        let before = before.map(|before| &before.config);
        let (mut config, layers) = layers::load(environment, paths, directory, hooks, before);
        let mut warnings = std::mem::take(&mut config.warnings);
        let credentials = if use_stored_keys {
            let (credentials, more) = auth::load(paths, environment);
            warnings.extend(more);
            credentials
        } else {
            auth::Credentials::default()
        };
        let (skills, found) = skills::scan(&config);
        warnings.extend(found.warnings);
        let mut notes = found.notes;
        let (agents, more) = library::agents(&config, &skills);
        warnings.extend(more);
        let (commands, more) = library::commands::commands(&config, &skills);
        warnings.extend(more);
        let (catalog, more) = catalog::resolve(&config, &credentials);
        warnings.extend(more);
        warnings.extend(lint::warnings(&config, &agents, &catalog));
        notes.extend(lint::unlisted_models(&config, &agents, &catalog));
        let model_places = named::places(&config, &agents, &catalog, &layers);
        sources::locate(&mut warnings, &layers);
        sources::locate(&mut notes, &layers);
        let market = reader::market_directories(&config.environment, &layers);
        let last_used = super::state_file::last_used_model(paths);
        Self { config, agents, skills, commands, catalog, last_used, model_places, market, warnings, notes }
    }

    /// Returns the MCP servers that are switched on.
    pub(super) fn servers(&self) -> Vec<mcp::ServerSpec> {
        let sandbox = Enclosure::of_mcp(&self.config);
        let servers = self.config.mcp.iter();
        let specs =
            servers.filter_map(|(name, config)| mcp::ServerSpec::from_config(name, config, sandbox.clone()));
        specs.collect()
    }

    /// Returns the paths that were read, or would have been had they existed.
    pub(super) fn sources(&self) -> Vec<Target> {
        let keys = [self.config.paths.auth(), self.config.paths.opencode_auth()];
        let files = self.config.watched.iter().cloned().chain(keys).map(Target::File);
        let market = self.market.iter().cloned().map(library::definitions);
        files.chain(library::sources(&self.config)).chain(market).collect()
    }

    /// Adds warnings about trees in which not every change is noticed.
    pub(super) fn warn_of_overfull(&mut self, trees: &[PathBuf]) {
        self.warnings.extend(trees.iter().map(|tree| Warning {
            source: tree.display().to_string(),
            line: None,
            column: None,
            message: format!(
                "holds more than {} directories; changes in the deepest are noticed with the next turn only",
                watch::MAX_DIRECTORIES
            ),
        }));
    }

    /// Logs what is wrong, as far as it was not known `before`.
    pub(super) fn log_problems(&self, before: Option<&Self>) {
        for warning in &self.warnings {
            match before {
                None => tracing::warn!(target: log::CONFIGURED, "{warning}"),
                Some(before) if before.warnings.contains(warning) => {}
                Some(_) => tracing::warn!("{warning}"),
            }
        }
        for note in self.config.notes.iter().chain(&self.notes) {
            tracing::debug!("{note}");
        }
    }

    /// Returns an agent by name.
    pub fn agent(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// Returns an agent that was asked for by name.
    pub fn checked_agent(&self, name: &str) -> Result<&Agent, EngineError> {
        self.agent(name).ok_or_else(|| {
            let names: Vec<&str> = self.agents.iter().map(|agent| agent.name.as_str()).collect();
            let message = format!("Agent not found: \"{name}\". Available agents: {}", names.join(", "));
            EngineError::new(EngineErrorKind::InvalidInput, message)
        })
    }

    /// Returns the agent that answers when none is chosen.
    pub fn default_agent(&self) -> &Agent {
        // The list begins with the default agent: `library::agents` puts `build` there when nothing else is left.
        &self.agents[0]
    }

    /// Returns the subagents that a user's words name by `@`, as parts of the prompt.
    pub fn mentions(&self, words: &str) -> Vec<PromptPart> {
        mention::subagents(words, &self.agents).into_iter().map(|name| PromptPart::Agent { name }).collect()
    }

    /// Returns the agents a user may choose.
    pub fn agent_choices(&self) -> Vec<Choice> {
        let agents = self.agents.iter().filter(|agent| agent.is_primary());
        agents
            .map(|agent| Choice {
                id: agent.name.clone(),
                name: agent.title.clone().unwrap_or_else(|| agent.name.clone()),
                description: agent.description.clone(),
                color: agent.color.clone(),
            })
            .collect()
    }

    /// Returns the commands a user may type, by name.
    pub fn command_choices(&self) -> Vec<CommandChoice> {
        let policy = &self.default_agent().policy;
        let is_denied = |command: &&library::commands::Command| {
            command.source == library::commands::Source::Skill
                && policy.evaluate("skill", &command.name) == Action::Deny
        };
        let commands = self.commands.values().filter(|command| !is_denied(command));
        let commands = commands.map(|command| CommandChoice {
            name: command.name.clone(),
            description: command.description.clone(),
            hint: command.hint(),
        });
        commands.collect()
    }

    /// Returns the demo's own command, unless the configuration has one of this name.
    pub fn demo_command(&self) -> Option<CommandChoice> {
        (!self.commands.contains_key(demo::COMMAND)).then(|| CommandChoice {
            name: demo::COMMAND.to_owned(),
            description: "Have the demo show a tool at work".to_owned(),
            hint: Some(demo::FORMS.to_owned()),
        })
    }

    /// Returns the models a user may choose, by `provider/model`.
    pub fn model_choices(&self) -> Vec<Choice> {
        let models = self.catalog.models().map(|model| Choice {
            id: model.reference().to_string(),
            name: format!("{}/{}", model.provider_name, model.name),
            description: None,
            color: None,
        });
        models.collect()
    }

    /// Returns the name of the agent that answers: the chosen one if it may be chosen, else the default.
    pub fn agent_name<'a>(&'a self, chosen: Option<&str>) -> &'a str {
        let chosen = chosen.and_then(|name| self.agent(name)).filter(|agent| agent.is_primary());
        &chosen.unwrap_or_else(|| self.default_agent()).name
    }

    /// Tokens of a model's context window, where it is known.
    pub fn context_size(&self, reference: &ModelRef) -> Option<u64> {
        let model = self.catalog.find(reference)?;
        (model.limit.context > 0).then_some(model.limit.context)
    }

    /// Returns the variant of a model that answers for an agent: the chosen one, else the agent's own with its
    /// own model.
    ///
    /// `None` when the model has no variant of that name.
    pub fn variant_for(&self, agent: &Agent, model: &Model, chosen: Option<&str>) -> Option<String> {
        let is_own = agent
            .model
            .as_ref()
            .is_none_or(|own| own.provider_id == model.provider_id && own.model_id == model.id);
        let wanted = chosen.or_else(|| agent.variant.as_deref().filter(|_| is_own))?;
        model.variant(wanted).map(|_| wanted.to_owned())
    }
}
