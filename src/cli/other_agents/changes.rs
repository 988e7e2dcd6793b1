//! The changes that an import of another agent's settings makes: new servers, rules and files, and nothing over ours.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use windlass_core::config::{
    Config, Environment,
    layer::Layer,
    layers,
    patch::{self, PatchError},
    paths::Paths,
    text_file,
};
use windlass_protocol::opencode::settings::SandboxMode;

use super::{Place, shown, taken::Taken};
use crate::cli::output::plain;

/// Changes of one place: a project's directory, or the user's.
#[derive(Debug)]
pub struct Changes {
    /// The file of the configuration, and its change.
    pub file: PathBuf,
    pub patch: Map<String, Value>,
    /// New files with their texts.
    pub new: BTreeMap<PathBuf, String>,
    pub agents: Names,
    pub commands: Names,
    pub servers: Names,
    pub rules: Names,
    pub sandbox: Names,
    /// Settings that stay as they are, each with the reason.
    pub left: Vec<String>,
    pub is_users: bool,
}

/// Names of things of one kind.
#[derive(Debug, Default)]
pub struct Names {
    /// Those that an import adds.
    pub new: Vec<String>,
    /// Those that are there as it would write them.
    pub same: Vec<String>,
}

/// An import that can write nothing.
#[derive(Debug, thiserror::Error)]
pub enum ChangesError {
    #[error(transparent)]
    Patch(#[from] PatchError),
    #[error("{0} leads out of {1} by a link")]
    Link(String, String),
    #[error(
        "{0}: its `permission` has other forms of `deny` and `ask` than lists; write them as lists first"
    )]
    Permission(String),
}

/// Finds the changes of a place. Its own settings and files stay as they are. Blocks.
pub fn find(environment: &Environment, place: &Place) -> Result<Changes, ChangesError> {
    let paths = Paths::new(environment);
    let (config, layers) = layers::load(environment, &paths, &place.root, &[], None);
    let (file, folder) = if place.is_users {
        (patch::user_file(&paths), paths.opencode_config)
    } else {
        let nearest = patch::project_file(environment, &place.root);
        // Each directory has rules of its own.
        let is_own = nearest.parent() == Some(&place.root);
        let file = if is_own { nearest } else { place.root.join("opencode.json") };
        (file, place.root.join(".opencode"))
    };
    let Taken { servers, denied, asked, sandbox, agents, commands, .. } = &place.taken;
    let mut changes = Changes {
        file,
        patch: Map::new(),
        new: BTreeMap::new(),
        agents: Names::default(),
        commands: Names::default(),
        servers: Names::default(),
        rules: Names::default(),
        sandbox: Names::default(),
        left: Vec::new(),
        is_users: place.is_users,
    };
    if !place.is_users && leads_out(&place.root, &changes.file) {
        return Err(ChangesError::Link(shown(&changes.file), shown(&place.root)));
    }
    changes.add_servers(servers, &config)?;
    changes.add_rules([("deny", denied), ("ask", asked)])?;
    if let Some(mode) = sandbox {
        changes.add_sandbox(*mode, &layers)?;
    }
    let is_known = |name: &str| config.agents.contains_key(name) || config.left_out.contains(name);
    changes.agents =
        changes.add_files(place, [&folder.join("agent"), &folder.join("agents")], agents, is_known);
    let is_known = |name: &str| config.commands.contains_key(name);
    changes.commands =
        changes.add_files(place, [&folder.join("command"), &folder.join("commands")], commands, is_known);
    let is_shared = |mode: u32| mode & 0o077 != 0;
    if place.is_users
        && changes.patch.contains_key("mcp")
        && fs::metadata(&changes.file).is_ok_and(|metadata| is_shared(metadata.permissions().mode()))
    {
        changes.left.push(format!(
            "{}: others can read it; `chmod 600` it if a server has a key in it",
            shown(&changes.file)
        ));
    }
    Ok(changes)
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.patch.is_empty() && self.new.is_empty()
    }

    fn add_servers(&mut self, servers: &Map<String, Value>, config: &Config) -> Result<(), ChangesError> {
        let known = patch::written(&self.file, "mcp")?.unwrap_or_default();
        let mut added = Map::new();
        for (name, server) in servers {
            let reason = match known.get(name) {
                Some(known) if known == server => {
                    self.servers.same.push(name.clone());
                    continue;
                }
                None if !config.mcp.contains_key(name) => {
                    let alone = Map::from_iter([("mcp".to_owned(), json!({name: server}))]);
                    match patch::preview(&self.file, &alone) {
                        Ok(_) => {
                            added.insert(name.clone(), server.clone());
                            continue;
                        }
                        Err(PatchError::Invalid(reason)) => reason,
                        Err(error @ PatchError::File { .. }) => return Err(error.into()),
                    }
                }
                _other => "your configuration has one of this name".to_owned(),
            };
            self.left.push(format!("the MCP server {}: {reason}", plain(name)));
        }
        self.servers.new = added.keys().cloned().collect();
        if !added.is_empty() {
            self.patch.insert("mcp".to_owned(), added.into());
        }
        Ok(())
    }

    fn add_rules(&mut self, lists: [(&str, &Vec<String>); 2]) -> Result<(), ChangesError> {
        let known = patch::written(&self.file, "permission")?;
        let has_lists = |known: &Value| {
            let is_list = |key: &str| known.get(key).is_none_or(Value::is_array);
            known.is_string() || known.is_object() && is_list("deny") && is_list("ask")
        };
        let has_new = lists.iter().any(|(_, words)| !words.is_empty());
        if has_new && known.as_ref().is_some_and(|known| !has_lists(known)) {
            return Err(ChangesError::Permission(shown(&self.file)));
        }
        let mut permission = Map::new();
        for (key, words) in lists {
            let listed = known.as_ref().and_then(|known| known.get(key)?.as_array().cloned());
            let listed = listed.unwrap_or_default();
            let is_listed: HashSet<&str> = listed.iter().filter_map(Value::as_str).collect();
            let (same, new): (Vec<&String>, Vec<&String>) =
                words.iter().partition(|word| is_listed.contains(word.as_str()));
            self.rules.same.extend(same.into_iter().cloned());
            if new.is_empty() {
                continue;
            }
            self.rules.new.extend(new.iter().map(|word| (*word).clone()));
            let new: Vec<Value> = new.into_iter().map(|word| word.as_str().into()).collect();
            permission.insert(key.to_owned(), [listed, new].concat().into());
        }
        if let (Some(Value::String(action)), false) = (&known, permission.is_empty()) {
            // A word for everything stays the weakest rule.
            permission.shift_insert(0, "*".to_owned(), action.clone().into());
        }
        if !permission.is_empty() {
            self.patch.insert("permission".to_owned(), permission.into());
        }
        Ok(())
    }

    /// Adds a sandbox where no source has one, which may be stricter.
    fn add_sandbox(&mut self, mode: SandboxMode, layers: &[Layer]) -> Result<(), ChangesError> {
        // Codex's commands have no network in it.
        let sandbox = json!({"mode": mode.name(), "network": "deny"});
        let name = mode.name().to_owned();
        let own = patch::written(&self.file, "windlass")?;
        let known = |value: &Value| value.get("sandbox") == Some(&sandbox);
        if own.as_ref().is_some_and(known) {
            self.sandbox.same.push(name);
        } else if own.is_some_and(|own| own.get("sandbox").is_some())
            || layers
                .iter()
                .any(|layer| layer.value.get("windlass").is_some_and(|it| it.get("sandbox").is_some()))
        {
            self.left.push(format!("the sandbox `{name}`: your configuration has one"));
        } else {
            self.sandbox.new.push(name);
            self.patch.insert("windlass".to_owned(), json!({"sandbox": sandbox}));
        }
        Ok(())
    }

    /// Adds the files that are not there, and returns their names.
    fn add_files(
        &mut self,
        place: &Place,
        folders: [&Path; 2],
        files: &BTreeMap<String, String>,
        is_known: impl Fn(&str) -> bool,
    ) -> Names {
        let mut names = Names::default();
        for (name, text) in files {
            let path = folders[0].join(format!("{name}.md"));
            let is_there = |folder: &&Path| fs::symlink_metadata(folder.join(format!("{name}.md"))).is_ok();
            let reason = if !place.is_users && leads_out(&place.root, &path) {
                "a link leads out of the directory"
            } else if text_file::read(&path).is_ok_and(|known| known == *text) {
                names.same.push(name.clone());
                continue;
            } else if folders.iter().any(is_there) {
                "it is there already"
            } else if is_known(name) {
                "your configuration has one of this name"
            } else {
                names.new.push(name.clone());
                self.new.insert(path, text.clone());
                continue;
            };
            self.left.push(format!("{}: {reason}", shown(&path)));
        }
        names
    }
}

/// Returns true if a file at this path would be outside of the root.
fn leads_out(root: &Path, path: &Path) -> bool {
    // A link that leads nowhere yet is one too.
    let is_there = |path: &&Path| fs::symlink_metadata(path).is_ok();
    let real = path.ancestors().find(is_there).and_then(|path| path.canonicalize().ok());
    let root = root.canonicalize();
    !real.zip(root.ok()).is_some_and(|(real, root)| real.starts_with(root))
}
