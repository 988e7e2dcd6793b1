//! The protected paths: files and directories from which this configuration takes rules, agents, commands and
//! programs.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use windlass_base::{
    home,
    path::{Links, absolute},
};

use super::{Config, layer::Layer, reader};

/// Directories within one of configuration with files that decide something.
pub const SUBDIRECTORIES: [&str; 11] = [
    "agent",
    "agents",
    "command",
    "commands",
    "mode",
    "modes",
    "node_modules",
    "plugin",
    "plugins",
    "tool",
    "tools",
];
/// Files within one of configuration that say which packages its plugins and tools import.
pub const PACKAGE_FILES: [&str; 3] = ["package.json", "package-lock.json", "bun.lock"];

/// Keys below which stand programs that are run without a question.
const STARTED: [&str; 4] = ["mcp", "lsp", "formatter", "experimental"];

/// Absolute paths, as they are named and as they lead once links are followed. None has to exist: a file put there
/// is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtectedPaths {
    pub files: BTreeSet<PathBuf>,
    /// Directories in which all files decide.
    pub trees: BTreeSet<PathBuf>,
    /// Directories of configuration with some files that are protected.
    pub directories: BTreeSet<PathBuf>,
}

impl ProtectedPaths {
    /// Does blocking reads of links.
    pub(super) fn new(config: &Config, layers: &[Layer]) -> Self {
        let (mut acc, links) = (Self::default(), &mut Links::default());
        let Config { paths, environment, directory, .. } = config;
        for named in &config.directories {
            add(&mut acc.directories, links, named);
            SUBDIRECTORIES.iter().for_each(|name| add(&mut acc.trees, links, &named.join(name)));
            PACKAGE_FILES.iter().for_each(|name| add(&mut acc.files, links, &named.join(name)));
        }
        for root in reader::market_directories(environment, layers) {
            add(&mut acc.trees, links, &root);
        }
        add(&mut acc.trees, links, &paths.cache());
        // Remembered permissions are in the store, and the choice of an organisation is in the credentials.
        let own = [
            paths.database(),
            paths.database_log(),
            paths.auth(),
            paths.opencode_auth(),
            paths.mcp_auth(),
            paths.opencode_mcp_auth(),
            paths.trust(),
        ];
        let programs = programs(&config.raw, directory, &environment.home);
        for file in config.watched.iter().chain(&own).chain(&programs) {
            add(&mut acc.files, links, file);
        }
        let Self { files, trees, directories } = &mut acc;
        files.retain(|file| !directories.contains(file) && !trees.contains(file));
        acc
    }
}

fn add(paths: &mut BTreeSet<PathBuf>, links: &mut Links, path: &Path) {
    // The kernel takes `..` behind a link for the parent of the link's target.
    let text = absolute(Path::new("/"), path);
    if text.as_os_str() != path.as_os_str() {
        paths.insert(links.real(path));
    }
    paths.extend([links.real(&text), text]);
}

/// Returns the files among the words by which servers, formatters, hooks, plugins and the shell are started.
fn programs(raw: &Map<String, Value>, directory: &Path, home: &Path) -> Vec<PathBuf> {
    let mut words: Vec<(String, PathBuf)> = Vec::new();
    for key in STARTED {
        raw.get(key).into_iter().for_each(|value| started(value, directory, &mut words));
    }
    let plugins = raw.get("plugin").and_then(Value::as_array).into_iter().flatten();
    let plugins = plugins.filter_map(|plugin| plugin.as_str().or_else(|| plugin.get(0)?.as_str()));
    let providers = raw.get("provider").and_then(Value::as_object).into_iter().flatten();
    let packages = providers.filter_map(|(_, provider)| provider.get("npm")?.as_str());
    let shell = raw.get("shell").and_then(Value::as_str);
    let named = plugins.chain(packages).chain(shell).filter(|it| it.contains('/') && !it.starts_with('@'));
    words.extend(named.map(|it| (it.trim_start_matches("file://").to_owned(), directory.to_owned())));
    let is_file = |word: &str| word.contains(['/', '.']) && !word.starts_with('-') && !word.contains("://");
    let files = words.into_iter().filter(|(word, _)| is_file(word));
    let files = files.map(|(word, base)| absolute(Path::new("/"), home::join(home, &base, &word)));
    files.filter(|file| !file.is_dir()).collect()
}

/// Collects the words of every `command` that is a list, with the directory that they are looked up from.
fn started(value: &Value, directory: &Path, words: &mut Vec<(String, PathBuf)>) {
    match value {
        Value::Object(entry) => {
            let base = match entry.get("cwd").and_then(Value::as_str) {
                Some(cwd) => directory.join(cwd),
                None => directory.to_owned(),
            };
            let command = entry.get("command").and_then(Value::as_array).into_iter().flatten();
            for text in command.filter_map(Value::as_str) {
                // `sh -c "node server.js"`, `--config=x.js`.
                let pieces = text.split([' ', '\'', '"', ';', '=']).filter(|it| !it.is_empty());
                words.extend(pieces.map(|it| (it.to_owned(), base.clone())));
            }
            entry.iter().for_each(|(_, value)| started(value, directory, words));
        }
        Value::Array(list) => list.iter().for_each(|value| started(value, directory, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::{Environment, fixture, paths::Paths};

    #[test]
    fn every_file_and_program_that_the_configuration_names_decides() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let root = fs::canonicalize(temp.path()).expect("it is there");
        let project = root.join("p");
        for directory in ["p/.git", "p/conf/agent", "p/market", "p/tools", "elsewhere", "home"] {
            fs::create_dir_all(root.join(directory)).expect("created");
        }
        let write = |name: &str, text: &str| fs::write(root.join(name), text).expect("written");
        write(
            "p/rules.json",
            r#"{"permission": "{file:./rule.txt}", "windlass": {"agents": {"paths": ["market"]}}}"#,
        );
        write(
            "p/opencode.json",
            r#"{
            "mcp": {"a": {"type": "local", "command": ["node", "./srv.js", "-y", ".", "https://x/y"], "cwd": "tools"}},
            "formatter": {"f": {"command": ["sh", "-c", "node fmt.js --config=f.cfg $FILE"], "extensions": [".x"]}},
            "plugin": ["./plug.ts", "@scope/package"],
            "shell": "./shell"
        }"#,
        );
        write("elsewhere/a.md", "---\ndescription: x\n---\ny");
        let link = std::os::unix::fs::symlink;
        link(root.join("elsewhere/a.md"), root.join("p/conf/agent/a.md")).expect("linked");
        link(PathBuf::from("../elsewhere/wanted.json"), root.join("p/opencode.jsonc")).expect("linked");
        let variables = [("OPENCODE_CONFIG", "rules.json"), ("OPENCODE_CONFIG_DIR", "market/../conf")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let environment = Environment { trusts_projects: true, variables, home: root.join("home") };
        let config = fixture::load(&environment, &Paths::new(&environment), &project);
        let ProtectedPaths { files, trees, directories } = config.protected.as_ref();
        for file in [
            "p/rules.json",
            "p/rule.txt",
            "p/opencode.json",
            "p/opencode.jsonc",
            "p/conf/opencode.json",
            "elsewhere/a.md",
            "elsewhere/wanted.json",
            "p/tools/srv.js",
            "p/fmt.js",
            "p/f.cfg",
            "p/plug.ts",
            "p/shell",
            "p/.opencode/package.json",
            "home/.local/share/windlass/windlass.db",
            "home/.local/share/opencode/auth.json",
        ] {
            assert!(files.contains(&root.join(file)), "{file}: {files:#?}");
        }
        for tree in [
            "p/market",
            "p/conf/agent",
            "p/.opencode/plugin",
            "p/.opencode/node_modules",
            "home/.config/opencode/commands",
        ] {
            assert!(trees.contains(&root.join(tree)), "{tree}: {trees:#?}");
        }
        for none in ["p", "p/conf", "p/node", "p/tools", "p/-y", "p/elsewhere"] {
            assert!(!files.contains(&root.join(none)) && !trees.contains(&root.join(none)), "{none}");
        }
        assert!(
            directories.contains(&project.join("conf")) && directories.contains(&project.join(".opencode"))
        );
    }
}
