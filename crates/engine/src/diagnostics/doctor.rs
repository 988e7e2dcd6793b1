//! A check-up of everything that a session needs in a directory: each thing is fine, doubtful or wrong, with its remedy.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use nix::unistd::{AccessFlags, access};
use tokio::time::timeout;
use windlass_base::{
    process::{self, Spawn},
    program,
    sandbox::{self, Found, Level},
    text,
};
use windlass_core::{
    config::{Config, Warning, layers, sandbox::wanted, sources::Leaf},
    snapshot::Snapshots,
    storage::{
        disk,
        health::{self, Integrity},
    },
};
use windlass_protocol::opencode::model_ref::ModelRef;
use windlass_provider::{Model, Wire, catalog::keys, http, unusable::Unusable};
use windlass_services::{lsp, tool::bash};

use crate::{
    Diagnostics, Engine, EngineError, EngineErrorKind, EngineState, Loaded, Pages, ServerReport,
    ServerStatus, turn::file_snapshots, workspace::servers::reports,
};

/// The time that MCP servers have to connect and to list their tools.
const MCP_LIMIT: Duration = Duration::from_secs(10);
/// The time that a provider has to answer.
const NETWORK_LIMIT: Duration = Duration::from_secs(10);
/// The time that a program has to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(2);
/// Bytes on the store's disk that a session soon needs, and with which it has room for some time.
const NO_ROOM: u64 = 1 << 20;
const LITTLE_ROOM: u64 = 100 << 20;
/// The time that reading the store through may take; a store of some 100 MB takes longer.
const STORE_LIMIT: Duration = Duration::from_millis(150);

/// The state of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    Ok,
    /// Works, but maybe not as it was meant.
    Warning,
    /// Does not work.
    Wrong,
}

impl Health {
    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Wrong => "wrong",
        }
    }
}

/// One line of a check-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub health: Health,
    /// The group it belongs to, such as `model`.
    pub topic: &'static str,
    pub text: String,
    pub remedy: Option<String>,
}

impl Finding {
    pub fn ok(topic: &'static str, text: impl Into<String>) -> Self {
        Self { health: Health::Ok, topic, text: text.into(), remedy: None }
    }

    pub fn warning(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { health: Health::Warning, topic, text: text.into(), remedy: Some(remedy.into()) }
    }

    pub fn wrong(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { health: Health::Wrong, topic, text: text.into(), remedy: Some(remedy.into()) }
    }
}

/// True if the network may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    IsAsked,
    IsLeft,
}

impl Diagnostics<'_> {
    /// Builds the request of an agent's turn in a directory; nothing is sent or stored.
    pub async fn inspect_agent(
        self,
        directory: &Path,
        name: &str,
        model: Option<&ModelRef>,
    ) -> Result<super::inspect::AgentView, EngineError> {
        super::inspect::inspect(self.engine, directory, name, model).await
    }

    /// Looks at everything that a session in a directory needs. Starts its MCP servers, and ends them again.
    pub async fn check_up(self, directory: &Path, network: Network) -> Result<Vec<Finding>, EngineError> {
        let report = self.examine(directory, Pages::AreLeft).await?;
        let workspace = self.engine.workspaces().workspace(directory).await?;
        let loaded = workspace.loaded();
        let answering = loaded.answering(loaded.default_agent(), None);
        let (servers, plugins, programs, store, found, reachable) = tokio::join!(
            async {
                workspace.mcp().settled(MCP_LIMIT).await;
                mcp_servers(&reports(&workspace))
            },
            self.engine.plugins().findings(&workspace),
            programs(&loaded.config),
            store(self.engine.0.paths.database()),
            sandbox::level(),
            async {
                match (network, &answering) {
                    (Network::IsAsked, Ok(model)) => Some(reach(self.engine, model).await),
                    (Network::IsAsked, Err(_)) | (Network::IsLeft, _) => None,
                }
            },
        );
        let (engine, for_files) = (self.engine.clone(), loaded.clone());
        let snapshots = file_snapshots::snapshots(self.engine, &loaded).ok();
        let of_files = tokio::task::spawn_blocking(move || {
            let EngineState { environment, paths, .. } = engine.0.as_ref();
            let read = layers::sources(environment, paths, &for_files.config.directory);
            let mut findings = configuration(&read, &report.warnings);
            findings.extend(keys(&for_files, &answering, &report.leaves));
            findings.push(model(&for_files, &answering, network, &report.leaves));
            (findings, language_servers(&for_files.config), snapshots.map(|it| watched(&it)))
        });
        let (mut findings, of_languages, of_snapshots) =
            of_files.await.map_err(|error| EngineError::new(EngineErrorKind::Internal, error.to_string()))?;
        findings.extend(reachable);
        findings.extend(servers);
        findings.extend(plugins);
        findings.extend(of_languages);
        findings.extend(programs);
        findings.push(store);
        findings.extend(room(&self.engine.0.paths.database()));
        findings.extend(of_snapshots);
        findings.push(boundary(found, &loaded));
        workspace.close().await;
        self.engine.plugins().end(directory).await;
        Ok(findings)
    }
}

/// Returns the sources in the order in which they were read, each fine or with its faults, in the order of their lines.
fn configuration(read: &[String], warnings: &[Warning]) -> Vec<Finding> {
    let mut warnings: Vec<&Warning> = warnings.iter().collect();
    let rank = |warning: &Warning| read.iter().position(|source| *source == warning.source);
    warnings.sort_by_key(|warning| (rank(warning).is_none(), rank(warning), warning.line, warning.column));
    let wrong = |warning: &&Warning| {
        let remedy = "correct it there; `windlass config check` shows the line";
        Finding::wrong("configuration", warning.to_string(), remedy)
    };
    let mut findings = Vec::new();
    for source in read {
        let count = findings.len();
        findings.extend(warnings.iter().filter(|it| it.source == *source).map(wrong));
        if findings.len() == count {
            findings.push(Finding::ok("configuration", text::visible_line(source).into_owned()));
        }
    }
    findings.extend(warnings.iter().filter(|it| rank(it).is_none()).map(wrong));
    if findings.is_empty() {
        findings.push(Finding::ok("configuration", "there is none; the defaults hold"));
    }
    findings
}

/// Returns the keys that were found, each with its place and never with itself.
fn keys(loaded: &Loaded, answering: &Result<Model, Unusable>, leaves: &[Leaf]) -> Vec<Finding> {
    let Config { environment, paths, .. } = &loaded.config;
    let mut findings = Vec::new();
    for found in keys::find(&loaded.config, environment, paths) {
        let source = match &found.source {
            keys::KeySource::Configuration => {
                said_at(leaves, &["provider", &found.provider, "options", "apiKey"])
                    .unwrap_or_else(|| "the configuration".to_owned())
            }
            keys::KeySource::File(file) => file.display().to_string(),
            keys::KeySource::Variable(name) => format!("the variable {name}"),
        };
        let shadowed = if found.is_used { "" } else { ", below another one" };
        findings
            .push(Finding::ok("keys", format!("{}: a {} in {source}{shadowed}", found.provider, found.kind)));
    }
    if let (true, Ok(model)) = (findings.is_empty(), answering) {
        findings.push(Finding::ok("keys", format!("there are none, and {} needs none", model.reference())));
    } else if findings.is_empty() {
        findings.push(Finding::warning(
            "keys",
            "there is no key of any provider",
            "`windlass auth login` stores one, or set ANTHROPIC_API_KEY or OPENAI_API_KEY",
        ));
    }
    findings
}

/// Returns the model that answers when none is chosen, and why it is that one.
fn model(loaded: &Loaded, answering: &Result<Model, Unusable>, network: Network, leaves: &[Leaf]) -> Finding {
    let agent = loaded.default_agent();
    let model = match answering {
        Ok(model) => model,
        Err(unusable) => {
            let remedy = if unusable.is_fixed_by_login() {
                "`windlass auth login` stores a provider's key"
            } else {
                "correct that, or name another model by `model` in opencode.json"
            };
            return Finding::wrong("model", unusable.to_string(), remedy);
        }
    };
    let reference = model.reference();
    let is_it = |wanted: &Option<ModelRef>| {
        wanted.as_ref().is_some_and(|wanted| {
            (&wanted.provider_id, &wanted.model_id) == (&reference.provider_id, &reference.model_id)
        })
    };
    let why = if is_it(&agent.model) {
        format!("the agent {} names it", agent.name)
    } else if is_it(&loaded.config.model) {
        let place = said_at(leaves, &["model"]).map(|place| format!(" in {place}")).unwrap_or_default();
        format!("`model`{place} names it")
    } else if is_it(&loaded.last_used) {
        "it was used last, and no `model` is configured".to_owned()
    } else {
        format!("it is the best that {} offers, and no `model` is configured", model.provider_name)
    };
    let unasked = match network {
        Network::IsLeft if model.wire != Wire::Demo => "; its server is not asked, `--online` asks it",
        Network::IsLeft | Network::IsAsked => "",
    };
    Finding::ok("model", format!("{reference} is chosen: {why}{unasked}"))
}

/// Returns the place of the strongest source that says a value.
fn said_at(leaves: &[Leaf], path: &[&str]) -> Option<String> {
    let leaf = leaves.iter().find(|leaf| leaf.path == path)?;
    leaf.set_by.first().map(ToString::to_string)
}

async fn reach(engine: &Engine, model: &Model) -> Finding {
    const REMEDY: &str = "check the connection and the provider's base URL";
    if model.wire == Wire::Demo {
        return Finding::ok("network", "the demo needs none");
    }
    let place = format!("{} at {}", model.provider_name, model.base_url);
    match http::probe(engine.http(), model, NETWORK_LIMIT).await {
        Ok(401 | 403) => Finding::wrong(
            "network",
            format!("{place} refuses the key"),
            format!("`windlass auth login --provider {}` stores another one", model.provider_id),
        ),
        Ok(status @ (300..=399 | 500..)) => {
            Finding::wrong("network", format!("{place} answers with HTTP {status}"), REMEDY)
        }
        // Not every server has a list of models.
        Ok(_) => Finding::ok("network", format!("{place} can be reached")),
        Err(error) => Finding::wrong("network", error.to_string(), REMEDY),
    }
}

fn mcp_servers(reports: &[ServerReport]) -> Vec<Finding> {
    let of_status = |report: &ServerReport| match &report.status {
        ServerStatus::Connected => {
            let n_tools = report.tools.len();
            let tools = if n_tools == 1 { "tool" } else { "tools" };
            Finding::ok("mcp", format!("{} is connected and offers {n_tools} {tools}", report.name))
        }
        ServerStatus::Connecting => Finding::wrong(
            "mcp",
            format!("{} is still connecting after {MCP_LIMIT:?}", report.name),
            "look into `windlass log`, or switch it off by `enabled: false`",
        ),
        ServerStatus::Disabled => Finding::ok("mcp", format!("{} is switched off", report.name)),
        ServerStatus::Failed { error } => Finding::wrong(
            "mcp",
            error.clone(),
            format!("correct `mcp.{}`, or switch it off by `enabled: false`", report.name),
        ),
        ServerStatus::NeedsClientRegistration { error } => Finding::wrong(
            "mcp",
            error.clone(),
            format!("have a client registered, and name it in `mcp.{}.oauth`", report.name),
        ),
        ServerStatus::NeedsAuth => Finding::wrong(
            "mcp",
            format!("{} wants a login", report.name),
            format!("put a token into `mcp.{}.headers`", report.name),
        ),
    };
    reports.iter().map(of_status).collect()
}

fn language_servers(config: &Config) -> Vec<Finding> {
    if config.held.holds_programs {
        let held = "yours do not run in a project that you have not trusted";
        return vec![Finding::warning(
            "language servers",
            held.to_owned(),
            "`windlass trust` shows and allows it",
        )];
    }
    let found = lsp::programs(config);
    if found.is_empty() {
        return vec![Finding::ok("language servers", "switched off; `\"lsp\": true` switches them on")];
    }
    let is_missing = |it: &&lsp::Program| it.path.is_none();
    let mut findings: Vec<Finding> = found
        .iter()
        .filter_map(|it| {
            let path = it.path.as_ref()?;
            Some(Finding::ok("language servers", format!("{}: {}", it.id, path.display())))
        })
        .collect();
    findings.extend(found.iter().filter(is_missing).filter(|it| it.is_configured).map(|it| {
        Finding::warning(
            "language servers",
            format!("{}: there is no program {}", it.id, it.command),
            match it.packages {
                [] => format!("install {}, or correct `lsp.{}.command`", it.command, it.id),
                _ => format!("run `windlass lsp install '{}'`, or correct `lsp.{0}.command`", it.id),
            },
        )
    }));
    if findings.is_empty() {
        findings.push(Finding::warning(
            "language servers",
            format!("none of the {} known programs is on PATH", found.len()),
            "install the one for your language, such as rust-analyzer or gopls; `windlass lsp list` says how",
        ));
    }
    findings
}

async fn programs(config: &Config) -> Vec<Finding> {
    let version = match program::find_outside(config.environment.get("PATH"), Path::new("git")) {
        Some(git) => output(config, git.as_os_str(), &["--version"]).await.unwrap_or_default(),
        None => String::new(),
    };
    let git = match version.lines().next().map(str::trim).filter(|line| !line.is_empty()) {
        Some(version) => Finding::ok("programs", version),
        None => Finding::warning(
            "programs",
            "git does not answer",
            "install git in an absolute directory of PATH: without it every directory is a project of its own",
        ),
    };
    let shell = bash::shell(config);
    let search = config.environment.get("PATH");
    let shell = match program::find(search, &config.directory, Path::new(&shell)) {
        Some(path)
            // The user's own start-up files may print as well.
            if !output(config, path.as_os_str(), &["-c", "echo ready"])
                .await
                .is_some_and(|printed| printed.lines().any(|line| line == "ready")) =>
        {
            Some(Finding::wrong(
                "programs",
                format!("the shell {} runs no command", path.display()),
                "set `shell` in opencode.json to one that does",
            ))
        }
        Some(path) => Some(Finding::ok("programs", format!("shell: {}", path.display()))),
        // Warned about among the faults of the configuration.
        None if config.shell.is_some() => None,
        None => Some(Finding::wrong(
            "programs",
            format!("there is no shell {}", shell.display()),
            "set `shell` in opencode.json to one that is there",
        )),
    };
    shell.into_iter().chain([git]).collect()
}

/// Returns a program's output; `None` where it does not end in time.
async fn output(config: &Config, program: &OsStr, args: &[&str]) -> Option<String> {
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    let environment = Default::default();
    let spawn = Spawn {
        program,
        args: &args,
        directory: &config.directory,
        environment: &environment,
        without: &[],
        stdin: false,
        is_parent: false,
    };
    let printed = timeout(VERSION_LIMIT, process::output(&spawn, 4096)).await.ok()?.ok()?;
    Some(String::from_utf8_lossy(&printed).into_owned())
}

/// Returns the way in which snapshots find out which files changed.
fn watched(snapshots: &Snapshots) -> Finding {
    let worktree = snapshots.worktree().display();
    match snapshots.can_watch() {
        Ok(()) => Finding::ok("snapshots", format!("the system tells which files of {worktree} change")),
        Err(reason) => Finding::warning(
            "snapshots",
            format!("{worktree} is not watched: {reason}"),
            "nothing is lost: each step looks at every file, which takes longer in a large repository",
        ),
    }
}

/// Returns the sandbox that this machine can hold, and the one that the default agent's commands get.
fn boundary(found: &Found, loaded: &Loaded) -> Finding {
    let agent = &loaded.default_agent().name;
    let wanted = wanted(&loaded.config.settings.windlass.sandbox, agent);
    let reason = found.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let level = match found.level {
        Level::Full => "level full (files, processes and the network can be bounded)".to_owned(),
        level => format!("level {}{reason}", level.name()),
    };
    if !wanted.is_used(found.level) {
        return Finding::ok("sandbox", format!("{level}; commands of {agent} run without one"));
    }
    let mode = wanted.mode.name();
    if found.level == Level::None {
        return Finding::warning(
            "sandbox",
            format!("{level}; commands of {agent} ask to run outside, because {mode} cannot be held"),
            "allow namespaces or Landlock on this machine, or set `windlass.sandbox.mode` to \"off\"",
        );
    }
    Finding::ok("sandbox", format!("{level}; commands of {agent} run in {mode}"))
}

/// Returns the room on the store's disk.
fn room(store: &Path) -> Option<Finding> {
    let free = disk::free_space(store)?;
    let text = format!("{} are free on its disk", text::size(free));
    let remedy =
        "free some space, or set WINDLASS_HOME elsewhere; `windlass session prune` removes old sessions";
    Some(match free {
        ..NO_ROOM => Finding::wrong("store", text, remedy),
        NO_ROOM..LITTLE_ROOM => Finding::warning("store", text, remedy),
        LITTLE_ROOM.. => Finding::ok("store", text),
    })
}

/// Looks if a store that is not there can be made.
fn uncreated(shown: String, store: &Path) -> Finding {
    let nearest = store.ancestors().skip(1).find(|it| it.exists()).unwrap_or(Path::new("/"));
    if nearest.is_dir() && access(nearest, AccessFlags::W_OK | AccessFlags::X_OK).is_ok() {
        return Finding::ok("store", format!("{shown} is created with the first session"));
    }
    Finding::wrong(
        "store",
        format!("{shown} cannot be created: {} cannot be written", nearest.display()),
        "make that directory writable, or set WINDLASS_HOME elsewhere",
    )
}

async fn store(path: PathBuf) -> Finding {
    let shown = path.display().to_string();
    if !path.exists() {
        return uncreated(shown, &path);
    }
    let store = path.clone();
    let checked = tokio::task::spawn_blocking(move || health::check(&path, STORE_LIMIT)).await;
    let health = match checked {
        Ok(Ok(health)) => health,
        Ok(Err(error)) => {
            return Finding::wrong("store", error.to_string(), "make the file readable and writable");
        }
        Err(error) => {
            return Finding::wrong("store", format!("{shown} could not be checked: {error}"), "try again");
        }
    };
    let Some(health) = health else {
        return uncreated(shown, &store);
    };
    let size = format!("{shown} ({})", text::size(health.bytes));
    match health.integrity {
        Integrity::Whole => Finding::ok("store", format!("{size} is whole")),
        Integrity::Unknown => Finding::ok("store", format!("{size}, too large to check in {STORE_LIMIT:?}")),
        Integrity::Damaged(what) => Finding::wrong(
            "store",
            format!("{size} is damaged: {}", text::visible_line(&what)),
            "end all windlass processes and run `windlass db repair`, which saves what can be read",
        ),
        Integrity::NoRoom => Finding::wrong(
            "store",
            format!("{size} cannot be read while its disk is full"),
            "free some space and repeat",
        ),
        Integrity::NotWritable => Finding::wrong(
            "store",
            format!("{size} cannot be written"),
            "make the file and its directory writable, or set WINDLASS_HOME elsewhere",
        ),
    }
}
