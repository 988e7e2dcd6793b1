//! Servers and roots for the files of a project, by configuration and by PATH.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use serde_json::json;
use tempfile::TempDir;
use windlass_core::config::{fixture, paths::Paths};

use super::*;

/// A project with files and with programs on PATH.
struct Project {
    root: TempDir,
    config: Config,
}

impl Project {
    fn new(lsp: Value, files: &[&str], programs: &[&str]) -> Self {
        let root = TempDir::new().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        for file in files {
            write(
                &format!("project/{file}"),
                if file.ends_with("workspace/Cargo.toml") { "[workspace]" } else { "" },
            );
        }
        for program in programs {
            let path = write(&format!("bin/{program}"), "");
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        write("bin/plain-file", "");
        write("project/opencode.json", &json!({ "lsp": lsp }).to_string());
        let path = format!("bin:{}", root.path().join("bin").display());
        let variables = [("PATH".to_owned(), path)].into();
        let environment = Environment { trusts_projects: true, variables, home: root.path().join("home") };
        let config = fixture::load(&environment, &Paths::new(&environment), &root.path().join("project"));
        Self { root, config }
    }

    fn lookup(&self) -> Lookup {
        Lookup::of(&self.config)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("project").join(name)
    }

    /// Returns the servers and roots for a file, and the missing programs.
    fn chosen(&self, file: &str) -> (Vec<(String, String)>, Vec<&'static str>) {
        let Choice { specs, missing } = choose(&self.lookup(), definitions(&self.config), &self.path(file));
        let project = self.path("");
        let root = |it: &Spec| it.root.strip_prefix(&project).unwrap_or(&it.root).display().to_string();
        let specs = specs.iter().map(|it| (it.definition.id.clone(), root(it))).collect();
        (specs, missing.into_iter().map(|(program, _)| program).collect())
    }
}

fn one(id: &str, root: &str) -> Vec<(String, String)> {
    vec![(id.to_owned(), root.to_owned())]
}

#[test]
fn there_is_no_server_unless_one_is_switched_on() {
    for lsp in [json!(false), Value::Null] {
        let place = Project::new(lsp, &["a.rs"], &["rust-analyzer"]);
        assert_eq!(definitions(&place.config), []);
    }
    for lsp in [json!(true), json!({}), json!({"other": {"disabled": true}})] {
        let place = Project::new(lsp, &["a.rs"], &["rust-analyzer"]);
        assert_eq!(place.chosen("a.rs"), (one("rust", ""), vec![]));
    }
}

#[test]
fn a_file_gets_the_installed_servers_of_its_extension() {
    let programs =
        ["gopls", "typescript-language-server", "oxlint", "docker-langserver", "pyright-langserver", "ty"];
    let place = Project::new(json!(true), &[], &programs);
    for (file, expected, missing) in [
        ("a.go", vec!["gopls"], vec![]),
        ("a.d.ts", vec!["typescript", "oxlint"], vec!["vscode-eslint-language-server", "biome"]),
        ("Dockerfile", vec!["dockerfile"], vec![]),
        ("a.py", vec!["pyright"], vec![]),
        ("a.zig", vec![], vec!["zls"]),
        ("go", vec![], vec![]),
        (".go", vec![], vec![]),
        ("a.txt", vec![], vec![]),
        ("A.java", vec![], vec![]),
    ] {
        let (chosen, lacking) = place.chosen(file);
        let chosen: Vec<&str> = chosen.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!((chosen, lacking), (expected, missing), "{file}");
    }
}

#[test]
fn the_root_is_the_nearest_directory_with_a_marker_within_the_project() {
    let files = [
        "go.work",
        "one/go.mod",
        "web/package-lock.json",
        "web/deno/deno.json",
        "workspace/Cargo.toml",
        "workspace/member/Cargo.toml",
        "crate/Cargo.toml",
        "net/app/app.csproj",
        "java/build.gradle",
    ];
    let programs =
        ["gopls", "typescript-language-server", "deno", "rust-analyzer", "roslyn-language-server", "jdtls"];
    let place = Project::new(json!(true), &files, &programs);
    for (file, id, root) in [
        ("one/a.go", "gopls", ""),
        ("web/src/deep/a.ts", "typescript", "web"),
        ("web/deno/a.ts", "deno", "web/deno"),
        ("workspace/member/src/a.rs", "rust", "workspace"),
        ("crate/src/a.rs", "rust", "crate"),
        ("loose/a.rs", "rust", ""),
        ("net/app/src/A.cs", "csharp", "net/app"),
        ("java/src/A.java", "jdtls", "java"),
        ("../elsewhere/a.go", "gopls", ""),
    ] {
        assert_eq!(place.chosen(file).0, one(id, root), "{file}");
    }
}

#[test]
fn the_configuration_adds_and_removes_servers() {
    let lsp = json!({
        "mine": {"command": ["my-server", "-x"], "extensions": [".my", "Myfile"], "env": {"A": "1"}, "initialization": {"b": 2}},
        "rust": {"command": ["./ra"], "initialization": {"cargo": {"features": "all"}}},
        "gopls": {"disabled": true},
        "php intelephense": {"initialization": {"licence": "x"}, "extensions": [".inc"]},
        "no-command": {"extensions": [".no"]},
        "no-extensions": {"command": ["x"]},
        "gone": {"disabled": true},
    });
    let place = Project::new(lsp, &[], &["gopls", "intelephense"]);
    assert_eq!(incomplete(&place.config), [("no-command", "command"), ("no-extensions", "extensions")]);
    assert_eq!(place.chosen("a.my").0, one("mine", ""));
    assert_eq!(place.chosen("Myfile").0, one("mine", ""));
    // A configured program need not exist: starting it reports the failure.
    assert_eq!(place.chosen("a.rs").0, one("rust", ""));
    assert_eq!(place.chosen("a.go"), (vec![], vec![]));
    assert_eq!(place.chosen("a.php").0, vec![]);
    let php = choose(&place.lookup(), definitions(&place.config), &place.path("a.inc")).specs.remove(0);
    assert_eq!(php.initialization, json!({"telemetry": {"enabled": false}, "licence": "x"}));
    let mine = choose(&place.lookup(), definitions(&place.config), &place.path("a.my")).specs.remove(0);
    assert_eq!(mine.definition.command, ["my-server", "-x"]);
    assert_eq!(mine.definition.environment, [("A".to_owned(), "1".to_owned())].into());
    assert_eq!(mine.initialization, json!({"b": 2}));
}

#[test]
fn pythons_servers_get_the_virtual_environment() {
    let place = Project::new(json!(true), &["app/setup.py", "app/.venv/bin/python"], &["pyright-langserver"]);
    let spec = choose(&place.lookup(), definitions(&place.config), &place.path("app/a.py")).specs.remove(0);
    assert_eq!(spec.initialization, json!({ "pythonPath": place.path("app/.venv/bin/python") }));
}

#[test]
fn typescripts_servers_get_the_projects_library() {
    let library = "node_modules/typescript/lib";
    let files = [&*format!("{library}/tsserver.js"), "web/package-lock.json"];
    let place = Project::new(json!(true), &files, &["typescript-language-server", "astro-ls"]);
    for (file, expected) in [
        ("web/a.ts", json!({"tsserver": {"path": place.path(library).join("tsserver.js")}})),
        ("web/a.astro", json!({"typescript": {"tsdk": place.path(library)}})),
    ] {
        let spec = choose(&place.lookup(), definitions(&place.config), &place.path(file)).specs.remove(0);
        assert_eq!(spec.initialization, expected, "{file}");
    }
}

#[test]
fn every_known_server_has_a_name_files_and_a_program() {
    for row in ROWS {
        assert!(!row.id.is_empty() && !row.extensions.is_empty() && !row.command.is_empty(), "{}", row.id);
        assert_eq!(ROWS.iter().filter(|it| it.id == row.id).count(), 1, "{}", row.id);
    }
    // OpenCode's 38 except `razor`, which is part of an editor's extension.
    assert_eq!(ROWS.len(), 37);
}

#[test]
fn a_configured_command_starts_in_the_directory_that_its_paths_are_relative_to() {
    let lsp = json!({"typescript": {"command": ["node", "./tools/ls.js"]}});
    let place = Project::new(lsp, &["sub/package-lock.json"], &["gopls"]);
    let choice = choose(&place.lookup(), definitions(&place.config), &place.path("sub/a.ts"));
    let spec = &choice.specs[0];
    assert_eq!((spec.root.clone(), spec.directory.clone()), (place.path("sub"), place.path("")));
    assert_eq!(spec.program, PathBuf::from("node"));
}

#[test]
fn a_known_server_runs_the_program_that_was_found() {
    // The start directory's `bin` comes before PATH's entries.
    let place = Project::new(json!(true), &["sub/go.mod", "sub/bin/gopls"], &["gopls"]);
    let choice = choose(&place.lookup(), definitions(&place.config), &place.path("sub/a.go"));
    let spec = &choice.specs[0];
    assert_eq!(spec.program, place.root.path().join("bin/gopls"));
    assert_eq!(spec.directory, place.path("sub"));
    // A server's own PATH decides the search.
    let own = json!({"gopls": {"env": {"PATH": "/nowhere"}}});
    let place = Project::new(own, &[], &["gopls"]);
    assert_eq!(place.chosen("a.go"), (vec![], vec!["gopls"]));
}

#[test]
fn a_program_that_npm_installed_for_the_project_is_found_behind_path() {
    let server = "typescript-language-server";
    let own = format!("node_modules/.bin/{server}");
    let place = Project::new(json!(true), &["package-lock.json", "a.ts", &own], &[]);
    fs::set_permissions(place.path(&own), fs::Permissions::from_mode(0o755)).unwrap();
    let chosen =
        |place: &Project| choose(&place.lookup(), definitions(&place.config), &place.path("a.ts")).specs;
    assert_eq!(chosen(&place)[0].program, place.path(&own));
    let place = Project::new(json!(true), &["package-lock.json", "a.ts", &own], &[server]);
    assert_eq!(chosen(&place)[0].program, place.root.path().join("bin").join(server));
}
