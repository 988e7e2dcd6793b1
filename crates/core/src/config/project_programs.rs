//! The programs of servers and formatters that are a project's and not the user's own: by the file that names them, or
//! because they lie in the project.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::Value;
use windlass_base::path::absolute;

use super::layer::{Kind, Layer};

/// Keys below which programs stand by name.
const KEYS: [&str; 3] = ["formatter", "lsp", "mcp"];
/// Keys that a project may set for a program that stays the user's own; any other, such as a variable, can have it run
/// the project's files.
const HARMLESS: [&str; 4] = ["disabled", "enabled", "extensions", "timeout"];

/// Programs that the project names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectPrograms {
    /// A key of the configuration, and a name below it.
    named: BTreeSet<(&'static str, String)>,
    /// The project's directories.
    directories: Vec<PathBuf>,
}

impl ProjectPrograms {
    /// Finds the entries in which a project has a part.
    pub(super) fn new(layers: &[Layer], directory: &Path, worktree: &Path) -> Self {
        let mut named = BTreeSet::new();
        // A plugin's part repeats the configuration that it was given.
        for layer in layers.iter().filter(|layer| layer.is_projects && layer.kind != Kind::Plugin) {
            for key in KEYS {
                let entries = layer.value.get(key).and_then(Value::as_object).into_iter().flatten();
                let is_part = |entry: &Value| {
                    let keys = entry.as_object().into_iter().flat_map(|it| it.keys());
                    keys.into_iter().any(|key| !HARMLESS.contains(&key.as_str()))
                };
                named
                    .extend(entries.filter(|(_, entry)| is_part(entry)).map(|(name, _)| (key, name.clone())));
            }
        }
        let directories = [directory, worktree].into_iter().filter(|it| *it != Path::new("/"));
        Self { named, directories: directories.map(Path::to_owned).collect() }
    }

    /// Returns true if the project has a part in an entry below `mcp`, `lsp` or `formatter`.
    pub fn names(&self, key: &'static str, name: &str) -> bool {
        self.named.contains(&(key, name.to_owned()))
    }

    /// Returns true if a program lies in the project, such as one that npm has installed there.
    pub fn holds(&self, program: &Path) -> bool {
        let is_file = program.components().count() > 1;
        is_file && self.directories.iter().any(|it| absolute(it, program).starts_with(it))
    }
}

#[cfg(test)]
mod tests {
    //! Programs of a project beside the user's own.

    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::config::{Environment, fixture, paths::Paths};

    #[test]
    fn a_program_is_a_projects_by_the_file_that_names_it_or_its_place() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().canonicalize().unwrap();
        let environment =
            Environment { home: root.join("home"), trusts_projects: true, ..Environment::default() };
        let paths = Paths::new(&environment);
        fs::create_dir_all(&paths.opencode_config).unwrap();
        fs::create_dir_all(root.join("work/.git")).unwrap();
        let server = |program: &str| json!({"type": "local", "command": [program]});
        let user = json!({"mcp": {
            "mine": server("a"), "taken": server("a"), "changed": server("a"), "led": server("a"),
        }});
        let project = json!({
            "mcp": {
                "theirs": server("b"), "taken": server("b"), "changed": {"timeout": 5},
                "led": {"environment": {"NODE_OPTIONS": "--require ./b.js"}},
            },
            "lsp": {"x": {"command": ["b"], "extensions": [".x"]}},
            "formatter": {"y": {"command": ["b"], "extensions": [".y"]}},
        });
        fs::write(paths.opencode_config.join("opencode.json"), user.to_string()).unwrap();
        fs::write(root.join("work/opencode.json"), project.to_string()).unwrap();
        let programs = fixture::load(&environment, &paths, &root.join("work")).project_programs;
        for (key, name, is_projects) in [
            ("mcp", "mine", false),
            ("mcp", "changed", false),
            ("mcp", "taken", true),
            ("mcp", "led", true),
            ("mcp", "theirs", true),
            ("lsp", "x", true),
            ("formatter", "y", true),
            ("lsp", "y", false),
        ] {
            assert_eq!(programs.names(key, name), is_projects, "{key}.{name}");
        }
        let inside = root.join("work/node_modules/.bin/x");
        assert!(programs.holds(&inside) && programs.holds(Path::new("./x")));
        assert!(!programs.holds(Path::new("x")) && !programs.holds(Path::new("/usr/bin/x")));
    }
}
