//! `windlass.sandbox`: the boundary that an agent's commands run in, and servers.

use std::{
    collections::{BTreeSet, HashSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value};
use windlass_base::{
    home,
    proxy::{authority::Authority, keys::Keys},
    sandbox::{Boundary, Level, Network},
};
use windlass_protocol::opencode::settings::SandboxMode;

use super::{Config, git_settings::GitSettings, protected_paths::ProtectedPaths};

pub mod enclosure;
mod places;
mod planted;
mod real_paths;
mod repository;
#[cfg(test)]
mod tests;
mod wanted;

use planted::Before;
pub use planted::moved_names;
use real_paths::{Named, RealPaths};
use repository::Repository;
pub use wanted::{
    Reach, Wanted, is_left_open, narrowest, wanted, wanted_of_projects_servers, wanted_of_servers,
};

/// Variables with credentials that are not called `…_API_KEY`.
const SECRET: [&str; 2] = ["OPENCODE_AUTH_CONTENT", "OPENCODE_CONFIG_CONTENT"];
const SECRET_ENDING: &str = "_API_KEY";
/// The variables of keys in the catalog of providers that are not called so either, a line each; a test compares.
pub const KEY_VARIABLES: &str = include_str!("sandbox/key_variables.txt");
/// Variables of providers whose values other programs use as well: commands keep them.
pub const SHARED_VARIABLES: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "GITLAB_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
];
/// Shorter values may be in a configuration by chance.
const MIN_SECRET: usize = 8;

/// A boundary, and the parts of it that cannot be held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawn {
    pub boundary: Boundary,
    pub watch: Watch,
}

/// Paths to look at when the commands have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watch {
    /// Paths that would decide something and do not exist. Nothing can be mounted there: the caller of the command has
    /// to look for them afterwards.
    pub absent: Vec<PathBuf>,
    /// The repository that commands may work in, as it is now.
    repository: Option<Before>,
}

impl Watch {
    /// Returns the paths that commands inside have made by now and may not leave. Does blocking reads.
    pub fn left(&self) -> Vec<PathBuf> {
        let made = self.absent.iter().filter(|path| path.symlink_metadata().is_ok()).cloned();
        made.chain(self.repository.iter().flat_map(Before::planted)).collect()
    }
}

/// Places for commands that rules let through without a question.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// The project with its repository, the temporary directories and caches; otherwise `places` alone.
    pub is_project: bool,
    pub places: Vec<PathBuf>,
    /// Files and directories among them that are not for them.
    pub kept: Vec<PathBuf>,
}

/// The paths of a boundary as they are named, before the file system is looked at.
pub struct Sketch {
    level: Level,
    mode: SandboxMode,
    network: Network,
    worktree: PathBuf,
    git_settings: GitSettings,
    /// The project and the temporary directories.
    places: Vec<PathBuf>,
    configured: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    shown: Vec<PathBuf>,
    protected: Arc<ProtectedPaths>,
    kept: Vec<PathBuf>,
    /// Set where only some places of the project are written: its directories.
    project: Option<Vec<PathBuf>>,
}

/// Draws the boundary. Does blocking reads.
pub fn draw(config: &Config, wanted: &Wanted, level: Level) -> Drawn {
    Sketch::new(config, wanted, level).draw()
}

impl Sketch {
    pub fn new(config: &Config, wanted: &Wanted, level: Level) -> Self {
        let temporary = config.environment.get("TMPDIR").map(PathBuf::from);
        let temporary = temporary.into_iter().chain(["/tmp", "/var/tmp"].map(PathBuf::from));
        let own = &config.paths;
        let expanded = |list: &[String]| -> Vec<PathBuf> {
            list.iter().map(|it| home::join(&config.environment.home, &config.directory, it)).collect()
        };
        let configured = expanded(&wanted.writable);
        let mut readable = expanded(&wanted.readable);
        readable.extend(places::shown(&config.environment));
        let project = project_of(config);
        // A user that works in such a place has it open already.
        let is_open = |hidden: &Path| {
            // A user that lets commands write all of the home directory has not said that they may read its keys.
            configured.iter().any(|it| it == hidden)
                || readable.iter().any(|it| hidden.starts_with(it))
                || project.iter().any(|it| it.starts_with(hidden))
        };
        let credentials: Vec<PathBuf> =
            places::credentials(&config.environment).filter(|it| !is_open(it)).collect();
        // Elsewhere everything is read as it is, and a view of its own would take away that it may be written.
        readable.retain(|it| credentials.iter().any(|hidden| it.starts_with(hidden)));
        let caches = places::caches(&config.environment);
        Self {
            level,
            mode: wanted.mode,
            network: match wanted.network {
                Reach::Allow => Network::Allowed,
                // Without namespaces there is no loopback of one's own, nor a way out of it.
                Reach::Loopback if level == Level::Full => Network::Loopback,
                Reach::Named(_) if level == Level::Full => Network::Named,
                Reach::Deny | Reach::Loopback | Reach::Named(_) => Network::Denied,
            },
            worktree: config.worktree.clone(),
            git_settings: GitSettings::new(&config.environment),
            hidden: [own.data.clone(), own.opencode_data.clone()].into_iter().chain(credentials).collect(),
            shown: [own.tool_output(), own.plans(), own.cache()].into_iter().chain(readable).collect(),
            places: project.into_iter().chain(temporary).chain(caches).collect(),
            configured,
            protected: config.protected.clone(),
            kept: Vec::new(),
            project: None,
        }
    }

    /// Sketches the full boundary of a command with bounded writes alone: all but the store is read, and the agent
    /// that signs for ssh is reached, as outside.
    pub fn of_writes(config: &Config, writes: Writes) -> Self {
        let own = &config.paths;
        Self {
            configured: config.environment.get("SSH_AUTH_SOCK").map(PathBuf::from).into_iter().collect(),
            hidden: vec![own.data.clone(), own.opencode_data.clone()],
            shown: vec![own.tool_output(), own.plans(), own.cache()],
            ..Self::new(config, &Wanted::of_writes(), Level::Full).within(config, writes)
        }
    }

    /// Leaves of the places that are written those that such a command may write.
    #[must_use]
    pub fn within(self, config: &Config, writes: Writes) -> Self {
        let Writes { is_project, places, kept } = writes;
        let project = (!is_project).then(|| project_of(config));
        Self { places: if is_project { self.places } else { places }, kept, project, ..self }
    }

    /// Draws the boundary. Does blocking reads.
    pub fn draw(&self) -> Drawn {
        let mut real = RealPaths::default();
        let repository = Repository::around(&self.worktree, &self.git_settings);
        let configured = real.all(&self.configured);
        let writable = match self.mode {
            SandboxMode::ReadOnly | SandboxMode::Off => Vec::new(),
            SandboxMode::WorkspaceWrite => {
                let git = repository.iter().filter(|_| self.project.is_none()).flat_map(Repository::writable);
                let places: Vec<PathBuf> = self.places.iter().cloned().chain(git).collect();
                let places = match &self.project {
                    Some(project) => unlinked(&mut real, project, &places),
                    None => real.all(&places),
                };
                places.into_iter().chain(configured.clone()).collect()
            }
        };
        let hidden = real.all(&self.hidden);
        // Hidden paths need no other protection, and protection must not show them.
        let kept = [self.hidden.as_slice(), &hidden].concat();
        let (protected, absent) = self.protected(&mut real, repository.as_ref(), &writable, &kept);
        let is_worked_in = |it: &&Repository| writable.iter().any(|root| it.git.starts_with(root));
        let before = repository.as_ref().filter(is_worked_in).map(Before::of);
        Drawn {
            boundary: Boundary {
                level: self.level,
                network: self.network,
                writable,
                protected,
                hidden,
                shown: real.all(&self.shown),
                sockets: configured,
            },
            watch: Watch { absent, repository: before },
        }
    }

    /// Returns the files that decide and could be written: first the existing ones, then the missing ones.
    fn protected(
        &self,
        real: &mut RealPaths,
        repository: Option<&Repository>,
        writable: &[PathBuf],
        hidden: &[PathBuf],
    ) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let protected = &self.protected;
        // Paths are looked up by those above them: there are hundreds, and each comparison reads all of both.
        let (above, hidden) = (places(writable), places(hidden));
        let (mut there, mut absent) = (BTreeSet::new(), BTreeSet::new());
        // A directory of configuration may be one to work in; then some of it decides.
        let holds_work = |directory: &&PathBuf| writable.iter().any(|it| it.starts_with(directory));
        let directories = protected.directories.iter().filter(|it| !holds_work(it));
        let own =
            protected.files.iter().chain(&protected.trees).chain(directories).chain(&self.kept).cloned();
        for path in own.chain(repository.into_iter().flat_map(Repository::protected_paths)) {
            let is_in_reach =
                |path: &Path| is_below(path, &above) && !hidden.contains(path) && !is_below(path, &hidden);
            match real.of(&path) {
                Named::Real(real) if is_in_reach(&real) => drop(there.insert(real)),
                Named::Real(_) => {}
                Named::Unclear if path.symlink_metadata().is_ok() => {}
                Named::Absent | Named::Unclear if is_in_reach(&path) => drop(absent.insert(path)),
                Named::Absent | Named::Unclear => {}
            }
        }
        let (all_there, all_absent) = (places(&there), places(&absent));
        let top = there.iter().filter(|path| !is_below(path, &all_there)).cloned().collect();
        let absent =
            absent.iter().filter(|path| !is_below(path, &all_there) && !is_below(path, &all_absent)).cloned();
        (top, absent.collect())
    }
}

fn places<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> HashSet<&'a Path> {
    paths.into_iter().map(PathBuf::as_path).collect()
}

/// Returns true if a path is in one of these directories, or below.
fn is_below(path: &Path, directories: &HashSet<&Path>) -> bool {
    path.ancestors().skip(1).any(|above| directories.contains(above))
}

/// Returns the directories of the project; `/` is none.
fn project_of(config: &Config) -> Vec<PathBuf> {
    let project = [config.directory.clone(), config.worktree.clone()];
    project.into_iter().filter(|it| it != Path::new("/")).collect()
}

/// Returns the places of a project that are where they are named: a link may lead anywhere.
fn unlinked(real: &mut RealPaths, project: &[PathBuf], places: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for root in project {
        let Some(real_root) = real.existing(root) else { continue };
        for named in places {
            let Ok(rest) = named.strip_prefix(root) else { continue };
            found.extend(real.existing(named).filter(|path| *path == real_root.join(rest)));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Makes the placeholders of a command's keys; none where its network names no key that is set. Does blocking reads.
pub fn placeholders(config: &Config, wanted: &Wanted) -> io::Result<Option<Keys>> {
    let Some(names) = wanted.network.names() else { return Ok(None) };
    let (hidden, shown) = (&config.paths.data, config.paths.cache());
    Keys::new(names, &config.environment.variables, || Authority::of(hidden, &shown))
}

/// Returns the variables that a command in a sandbox does not get: windlass's own keys.
pub fn secret_variables(config: &Config, kept: &[String]) -> Vec<String> {
    let mut values = Vec::new();
    for key in ["provider", "mcp"] {
        config.raw.get(key).into_iter().for_each(|value| secrets(value, false, &mut values));
    }
    let named: BTreeSet<&String> = config.providers.values().flat_map(|provider| &provider.env).collect();
    let replaced = keyed_variables(config.raw.get("windlass").and_then(|it| it.get("sandbox")));
    let is_secret = |name: &String, value: &String| {
        let is_known =
            SECRET.contains(&name.as_str()) || name.ends_with(SECRET_ENDING) || named.contains(name);
        let is_known = is_known || KEY_VARIABLES.lines().any(|key| key == name);
        let is_known = is_known || replaced.contains(name.as_str());
        let is_used = value.len() >= MIN_SECRET && values.iter().any(|it| it.contains(value.as_str()));
        is_known || is_used
    };
    let variables = config.environment.variables.iter();
    let secret = variables.filter(|(name, value)| is_secret(name, value) && !kept.contains(name));
    secret.map(|(name, _)| name.clone()).collect()
}

/// Returns the variables that some sandbox replaces by a placeholder: none has the value, whichever holds.
fn keyed_variables(sandbox: Option<&Value>) -> BTreeSet<&str> {
    fn all(value: Option<&Value>) -> impl Iterator<Item = &Value> {
        value.and_then(Value::as_object).into_iter().flatten().map(|(_, it)| it)
    }
    let agents = all(sandbox.and_then(|it| it.get("agents")));
    let settings = sandbox.into_iter().chain(all(sandbox)).chain(agents);
    let keys = settings.filter_map(|it| it.get("network")?.get("keys")?.as_object());
    keys.flat_map(|it| it.keys().map(String::as_str)).collect()
}

/// Collects the texts below keys that hold credentials.
fn secrets<'a>(value: &'a Value, is_secret: bool, found: &mut Vec<&'a str>) {
    let each = |object: &'a Map<String, Value>, found: &mut Vec<&'a str>| {
        for (key, value) in object {
            let holds = matches!(key.as_str(), "apiKey" | "headers" | "environment" | "oauth");
            secrets(value, is_secret || holds, found);
        }
    };
    match value {
        Value::Object(object) => each(object, found),
        Value::Array(list) => list.iter().for_each(|value| secrets(value, is_secret, found)),
        Value::String(text) if is_secret => found.push(text),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
